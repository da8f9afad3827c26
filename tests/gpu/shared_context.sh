#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The nvcc-built examples on the driver that DRIVER names (cuda, soft or a
# path; default cuda): natively where that is possible, then under mpsrun
# alone, two and eight at once, over ring and socket. Checks their results,
# that there is one worker with one context, that nothing is left behind, and
# that kernels of two clients overlapped, by the device's own clock and by
# events around the launches.
# Needs `make` and `make tests` outputs in $MPSSHIM_BUILD (default build).
set -u

top=$(cd "$(dirname "$0")/../.." && pwd)
build=${MPSSHIM_BUILD:-$top/build}
driver=${DRIVER:-cuda}
bin=$build/bin ex=$build/examples
work=$(mktemp -d)
passed=0 failed=0 skipped=0
export CUDA_MPS_PIPE_DIRECTORY="$work/socket"
export MPSSHIM_DRIVER="$driver"
# shellcheck disable=SC2317
finish() {
	timeout 20 "$bin/mpsctl" quit --force >/dev/null 2>&1
	rm -rf "$work"
}
trap finish EXIT

if [ "$driver" = cuda ] && [ ! -e /dev/nvidiactl ]; then
	echo "no NVIDIA device here"
	exit 77
fi

row() {
	if [ "$1" -eq 0 ]; then
		passed=$((passed + 1))
		echo "ok    $2"
	else
		failed=$((failed + 1))
		echo "FAIL  $2"
		[ -n "${3:-}" ] && [ -r "$3" ] && sed 's/^/      /' "$3"
	fi
}
ms() {
	echo $(($(date +%s%N) / 1000000))
}
one() {
	label=$1
	shift
	t=$(ms)
	timeout 120 "$@" >"$work/out" 2>&1
	rc=$?
	t=$(($(ms) - t))
	row $rc "$label ($t ms): $(tail -n 1 "$work/out")" "$work/out"
}
many() {
	label=$1 n=$2
	shift 2
	t=$(ms)
	pids=
	for i in $(seq "$n"); do
		timeout 120 "$bin/mpsrun" "$@" >"$work/out.$i" 2>&1 &
		pids="$pids $!"
	done
	rc=0
	for p in $pids; do
		wait "$p" || rc=1
	done
	t=$(($(ms) - t))
	cat "$work"/out.[0-9]* >"$work/out"
	rm -f "$work"/out.[0-9]*
	row $rc "$label, $n at once ($t ms): $(tail -n 1 "$work/out")" \
		"$work/out"
}
status() {
	timeout 20 "$bin/mpsctl" status --json >"$work/status" 2>&1
}
check_status() {
	status
	python3 - "$work/status" "$1" >"$work/out" 2>&1 <<'END'
import json
import sys

s = json.load(open(sys.argv[1]))
w = s["workers"]
print("workers %d, contexts %s, clients now %d, served %d, overlap %s ms, "
      "late errors %d, bad frames %d, broker fds %d, worker fds %s, "
      "worker mappings %s, vault chunks %d" % (
          len(w), [x["contexts"] for x in w], len(s["clients"]),
          s["total_clients"],
          [round(x["overlap_ns"] / 1e6, 1) if x["overlap_known"] else "?"
           for x in w],
          sum(c["late_errors"] for c in s["clients"]), s["bad_frames"],
          s["broker_descriptors"], [x["descriptors"] for x in w],
          [x["mappings"] for x in w], s["vault_chunks"]))
ok = len(w) == 1 and w[0]["contexts"] == 1 and s["bad_frames"] == 0
if sys.argv[2] == "idle":
    ok = ok and not s["clients"] and s["vault_chunks"] == 0
sys.exit(0 if ok else 1)
END
	row $? "status ($1): $(tail -n 1 "$work/out")" "$work/status"
}

if [ "$driver" = cuda ]; then
	for p in vecadd_driver vecadd streams; do
		one "native $p" "$ex/$p"
	done
	one "native infer.py" python3 "$top/examples/infer.py"
fi
one "first client: vecadd" "$bin/mpsrun" -v "$ex/vecadd"
for p in vecadd_driver vecadd streams; do
	one "mpsrun $p" "$bin/mpsrun" "$ex/$p"
done
one "mpsrun infer.py" "$bin/mpsrun" python3 "$top/examples/infer.py"
one "preload alone: vecadd" env LD_PRELOAD="$build/lib/libmpsshim.so" \
	"$ex/vecadd"
for n in 2 8; do
	many vecadd $n "$ex/vecadd" 1000000
	many streams $n "$ex/streams" 40
done
check_status busy
export MPSSHIM_PERF=no_ring
one "over the socket: vecadd" "$bin/mpsrun" "$ex/vecadd"
one "over the socket: streams" "$bin/mpsrun" "$ex/streams"
many "over the socket: streams" 8 "$ex/streams" 20
unset MPSSHIM_PERF

sleep 1
check_status idle

# Two kernels of 300 ms by the device's clock, and what the worker saw of them.
"$bin/mpsctl" quit >/dev/null 2>&1
export CUDA_MPS_PIPE_DIRECTORY="$work/socket.overlap"
MPSSHIM_OVERLAP=1 timeout 120 "$top/tests/gpu/both_run.sh" 300 >"$work/both" \
	2>"$work/out"
row $? "two clients, each kernel held until both run" "$work/out"
read -r both all device events <"$work/both"
[ "${both:-0}" -gt 0 ]
row $? "they were on the device together for ${both:-?} ns of ${all:-?}"
# Two clocks, which go by steps of their own.
[ "${events:-?}" != '?' ] && [ "$((events + 100000))" -ge "$both" ]
row $? "the worker saw ${events:-?} ns by events around the launches \
(inside the driver library: ${device:-?})"
timeout 20 "$bin/mpsctl" status | sed 's/^/      /'
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
