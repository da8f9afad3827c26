#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2034,SC2154
#
# No broker, a dead one, one that is none, no room: programs get an error of
# the driver's or are served; the tools say one clear line. Nobody hangs,
# nobody dies by a signal.
set -u
# shellcheck source=tests/api/rows.sh
. "$(dirname "$0")/../api/rows.sh"

shim=$(cd "$build/lib" && pwd -P)/libmpsshim.so
guest=$T/guest_cuda
here=$top/tests/hostile
streams=$build/examples/streams
if [ ! -x "$guest" ] || [ ! -x "$streams" ]; then
	echo "skipped: guest_cuda or streams is not built"
	exit 77
fi
preloaded() {
	LD_PRELOAD=$shim "$guest" run
}

# guest_cuda exits with 3 when a call was refused, and prints which.
refuses() {
	"$@" >"$work/said" 2>"$work/said.err"
	rc=$?
	cat "$work/said.err" "$work/said"
	[ "$rc" -eq 3 ] && grep -qE '^cu[A-Za-z0-9_]+\(.*\): [0-9]+$' "$work/said"
}

# One line on stderr, exit status as given.
one_line() {
	want=$1
	shift
	"$@" >"$work/said" 2>"$work/said.err" </dev/null
	rc=$?
	cat "$work/said" "$work/said.err"
	[ "$rc" -eq "$want" ] && [ "$(wc -l <"$work/said.err")" -eq 1 ]
}

# ---- no broker --------------------------------------------------------------

row 'no broker and none to be started' \
	refuses env MPSSHIM_NO_BROKER=error bash -c preloaded
row 'mpsrun then says so' one_line 125 env MPSSHIM_NO_BROKER=error \
	"$mpsrun" "$guest" run
row 'mpsctl says so' one_line 1 "$bin/mpsctl" status

long=/tmp/$(printf 'x%.0s' {1..120})
in_long() {
	CUDA_MPS_PIPE_DIRECTORY=$long "$@"
}
row 'a path over 107 bytes, preloaded' refuses in_long preloaded
row 'the same, mpsrun' one_line 125 in_long "$mpsrun" "$guest" run
row 'the same, mpsd' one_line 1 in_long "$bin/mpsd"
row 'the same, mpsctl' one_line 1 in_long "$bin/mpsctl" status

in_file() {
	touch "$work/file"
	CUDA_MPS_PIPE_DIRECTORY=$work/file "$@"
}
row 'a file where the directory should be' refuses in_file preloaded
row 'the same, mpsd' one_line 1 in_file "$bin/mpsd"

# ---- a dead broker ----------------------------------------------------------

pid_of() {
	"$bin/mpsctl" status --json | python3 -c '
import json, sys
s = json.load(sys.stdin)
print(s["broker_pid"] if sys.argv[1] == "broker" else s["workers"][0]["pid"])
' "$1"
}

# Wait until a client is there, then end that process.
kill_under_load() {
	"$mpsrun" "$streams" 100000 >"$work/victim" 2>&1 &
	victim=$!
	until "$bin/mpsctl" status --json 2>/dev/null |
		grep -q '"launches": [1-9]'; do
		sleep 0.05
	done
	kill -9 "$(pid_of "$1")"
	wait "$victim"
	rc=$?
	tail -n 1 "$work/victim"
	[ "$rc" -eq 1 ] && grep -q '^streams: cuda' "$work/victim"
}
fresh
row 'the worker dies under a running program' kill_under_load worker
row 'the next program is served' "$mpsrun" "$guest" run
row 'the broker dies under a running program' kill_under_load broker
row 'its socket is left over: the next program is served' bash -c preloaded

# ---- a broker that is none --------------------------------------------------

fake() {
	want=$1
	how=$2
	export CUDA_MPS_PIPE_DIRECTORY=$work/fake.$how
	mkdir -m 700 "$CUDA_MPS_PIPE_DIRECTORY"
	python3 "$here/fake_broker.py" "$CUDA_MPS_PIPE_DIRECTORY/mpsshim" "$how" \
		>"$work/fake.$how.out" &
	fake=$!
	until [ -s "$work/fake.$how.out" ]; do sleep 0.05; done
	refuses preloaded
	rc=$?
	kill "$fake"
	[ "$rc" -eq 0 ] && grep -qE "$want" "$work/said"
}
row 'another wire number: 803' fake '^cuInit\(0\): 803$' refuse
for how in junk short huge close type; do
	row "a broker that answers with $how" fake '^cuInit\(0\): [0-9]+$' $how
done

# ---- limits -----------------------------------------------------------------

# The broker itself: it starts, or says one line.
starts_or_says() {
	# Through a pipe: its output must not be the file that is too large.
	said=$(timeout 30 "$bin/mpsd" -s "$CUDA_MPS_PIPE_DIRECTORY" \
		2>&1 </dev/null)
	rc=$?
	echo "mpsd: exit $rc $said" | cat
	case $rc in
	0) "$bin/mpsctl" status | cat >/dev/null ;;
	1) [ -n "$said" ] && [ "$said" = "${said%%$'\n'*}" ] ;;
	*) return 1 ;;
	esac
}
limited() {
	fresh
	set -o pipefail
	(ulimit "$1" "$2" && starts_or_says) | cat || return 1
	# And whoever comes then gets service or an error.
	timeout 60 "$mpsrun" "$guest" run
	rc=$?
	[ "$rc" -eq 0 ] || [ "$rc" -eq 3 ] || [ "$rc" -eq 125 ]
}
row 'mpsd with RLIMIT_NOFILE 6' limited -n 6
row 'mpsd with RLIMIT_NOFILE 20' limited -n 20
row 'mpsd with 20 MB of addresses' limited -v 20000
row 'mpsd with RLIMIT_FSIZE 0' limited -f 0

out_of_memory() {
	for kib in 8000 12000 20000 50000 200000 1000000; do
		(ulimit -v "$kib" && exec "$mpsrun" "$guest" run) \
			>"$work/said" 2>&1
		rc=$?
		echo "$kib KiB: exit $rc, $(tail -n 1 "$work/said")"
		# 127: the loader itself had no room.
		case $rc in 0 | 3 | 125 | 126 | 127 | 1) ;; *) return 1 ;; esac
	done
}
fresh
row 'a program with ever less addresses' out_of_memory

if mkdir "$work/full" && mount -t tmpfs -o size=16k,mode=700 none \
	"$work/full" 2>"$work/mount"; then
	trap 'end_broker; umount "$work/full"; rm -rf "$work"' EXIT
	dd if=/dev/zero of="$work/full/fill" bs=4k 2>/dev/null
	on_full() {
		export CUDA_MPS_PIPE_DIRECTORY=$work/full
		starts_or_says || return 1
		timeout 60 "$mpsrun" "$guest" run
		rc=$?
		echo "program: exit $rc"
		end_broker
		[ "$rc" -eq 0 ] || [ "$rc" -eq 3 ] || [ "$rc" -eq 125 ]
	}
	row 'a full file system for socket and log' on_full
else
	skip 'a full file system for socket and log' \
		"$(tail -n 1 "$work/mount")"
fi

# ---- junk code --------------------------------------------------------------

fresh
row 'a thousand junk images, and good ones' \
	"$mpsrun" python3 "$here/junk_images.py" 1000 "${SEED:-$(date +%Y%m%d)}"
row 'the worker is the first one' bash -c \
	'"$bin/mpsctl" status --json | grep -q -E "\"workers_started\": 1,?$"'
finish_rows
