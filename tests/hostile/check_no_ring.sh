#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2034,SC2154
#
# MPSSHIM_PERF=no_ring: the same programs, all frames on the data socket. The
# worker's own counters of frames say by which way they came, while the
# programs run: with no_ring none by the ring, else none by the socket.
set -u
# shellcheck source=tests/api/rows.sh
. "$(dirname "$0")/../api/rows.sh"

E=$build/examples
row_limit=120

# Ask for the figures again and again until told to stop; the largest counts
# of any client, as "RING SOCKET".
watch_frames() {
	python3 -c '
import json, os, subprocess, sys
most = [0, 0]
while not os.path.exists(sys.argv[2]):
    out = subprocess.run([sys.argv[1], "status", "--json"],
                         capture_output=True, timeout=20)
    if out.returncode:
        continue
    for c in json.loads(out.stdout)["clients"]:
        most[0] = max(most[0], c["ring_frames"])
        most[1] = max(most[1], c["socket_frames"])
    with open(sys.argv[3] + ".new", "w") as f:
        print(*most, file=f)
    os.rename(sys.argv[3] + ".new", sys.argv[3])
' "$bin/mpsctl" "$work/stop" "$work/frames"
}

# Run a program again and again until its frames have been seen. Its exit
# status must be that of "$wanted".
seen_by_way() {
	way=$1
	shift
	rm -f "$work/stop" "$work/frames"
	watch_frames &
	watcher=$!
	rc=1 ring=0 socket=0 runs=0
	while [ "$runs" -lt 50 ] && [ $((ring + socket)) -eq 0 ]; do
		"$mpsrun" "$@" >"$work/out" 2>&1
		rc=$?
		runs=$((runs + 1))
		[ "$rc" -eq "$wanted" ] || break
		[ -f "$work/frames" ] && read -r ring socket <"$work/frames"
	done
	touch "$work/stop"
	wait "$watcher"
	tail -n 3 "$work/out"
	echo "exit $rc after $runs runs: $ring frames by ring, $socket by socket"
	[ "$rc" -eq "$wanted" ] || return 1
	case $way in
	ring) [ "$ring" -gt 0 ] && [ "$socket" -eq 0 ] ;;
	socket) [ "$socket" -gt 0 ] && [ "$ring" -eq 0 ] ;;
	esac
}

both() {
	name=$1
	shift
	if [ ! -e "$1" ] && ! command -v "$1" >/dev/null; then
		skip "$name" 'not built'
		return
	fi
	# What it does where nobody looks is what it must do either way.
	wanted=$(timeout 120 "$mpsrun" "$@" >/dev/null 2>&1; echo $?)
	[ "$wanted" -lt 124 ] || wanted=0
	row "$name, no_ring" env MPSSHIM_PERF=no_ring \
		bash -c 'seen_by_way socket "$@"' row "$@"
	row "$name, by ring" seen_by_way ring "$@"
}
export wanted

"$mpsrun" true
both vecadd "$E/vecadd"
both vecadd_driver "$E/vecadd_driver"
both streams "$E/streams" 5
both infer.py python3 "$top/examples/infer.py"
both kill_client "$T/kill_client" 0
both guest_cuda "$T/guest_cuda" twice
both threads "$T/threads"
finish_rows
