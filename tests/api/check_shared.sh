#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Unmodified nvcc-built programs share one context of the software device,
# and their kernels run at the same time: measured inside the driver library
# as wall time in which kernels of two clients were both executing. With a
# pool of one thread that time must be 0, or the measurement is worth nothing.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${MPSSHIM_BUILD:-$PWD/build}
bin=$build/bin
if [ -n "${MPSSHIM_SAN:-}" ]; then
	echo "a sanitized shim cannot be preloaded into a plain program"
	exit 77
fi
unset MPSSHIM_PERF CUDA_VISIBLE_DEVICES
passed=0 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

row() {
	if [ "$1" -eq 0 ]; then
		passed=$((passed + 1))
		echo "ok    $2"
	else
		failed=$((failed + 1))
		echo "FAIL  $2"
	fi
}

DRIVER=soft tests/gpu/shared_context.sh >"$work/out" 2>&1
row $? "examples alone, two and eight at once: $(tail -n 1 "$work/out")"
grep -a -A8 '^FAIL' "$work/out"

# overlap THREADS: nanoseconds by the driver library's own measure.
overlap() {
	export CUDA_MPS_PIPE_DIRECTORY="$work/socket.$1"
	export SOFTCUDA_THREADS="$1"
	at=$(($(date +%s) + 2))
	"$bin/mpsrun" --driver=soft "$build/tests/overlap" 300 $at \
		>/dev/null 2>"$work/err.1" &
	first=$!
	"$bin/mpsrun" --driver=soft "$build/tests/overlap" 300 $at \
		>/dev/null 2>"$work/err.2"
	second=$?
	wait $first || second=1
	ns=$("$bin/mpsctl" status --json | python3 -c '
import json, sys
w = json.load(sys.stdin)["workers"]
print(sum(x["overlap_ns"] for x in w) if w[0]["overlap_known"] else "?")')
	"$bin/mpsctl" quit --force >/dev/null 2>&1
	[ $second -eq 0 ] || cat "$work"/err.*
	return $second
}
overlap 2
row $? "two clients on two threads run"
[ "$ns" != '?' ] && [ "$ns" -gt 0 ]
row $? "their kernels overlapped for $ns ns"
overlap 1
row $? "two clients on one thread run"
[ "$ns" = 0 ]
row $? "their kernels never overlapped: $ns ns"

# A failed assertion: CUDA's code, one line for the user, its text in the log.
unset SOFTCUDA_THREADS
export CUDA_MPS_PIPE_DIRECTORY="$work/socket.assert"
got=$("$bin/mpsrun" --driver=soft "$build/tests/assert" 2>"$work/err")
[ "$got" = 710 ] && grep -q 'the GPU worker is lost (error 710)' "$work/err"
row $? "a failed assertion gives $got and says that the worker is lost"
grep -q 'assert.cu:.*Assertion .n > 5' "$CUDA_MPS_PIPE_DIRECTORY/mpsd.log"
row $? "its text is in the broker's log"
"$bin/mpsrun" --driver=soft "$build/examples/vecadd" >"$work/out" 2>&1
row $? "the next program gets a new worker: $(tail -n 1 "$work/out")"
"$bin/mpsctl" quit --force >/dev/null 2>&1
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
