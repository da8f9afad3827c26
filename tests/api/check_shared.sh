#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Unmodified nvcc-built programs share one context of the software device,
# and their kernels run at the same time: measured inside the driver library
# as wall time in which kernels of two clients were both executing. With a
# pool of one thread that time must be 0, or the measurement is worth nothing.
# The worker's own measure, by events, counts a kernel that waits for its turn
# as running: it is no less, and with one thread not 0.
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

# both THREADS: sets $device and $events, nanoseconds.
both() {
	export CUDA_MPS_PIPE_DIRECTORY="$work/socket.$1"
	export SOFTCUDA_THREADS="$1"
	device='?' events='?'
	MPSSHIM_DRIVER=soft MPSSHIM_OVERLAP=1 tests/gpu/both_run.sh 300 \
		>"$work/both" 2>"$work/err"
	rc=$?
	cat "$work/err"
	read -r _ _ device events <"$work/both"
	"$bin/mpsctl" quit --force >/dev/null 2>&1
	return $rc
}
both 2
row $? "two clients on two threads run"
[ "$device" != '?' ] && [ "$device" -gt 0 ]
row $? "their kernels overlapped for $device ns"
# Times of events are good to a microsecond.
[ "$events" != '?' ] && [ "$((events + 2000))" -ge "$device" ]
row $? "by events for $events ns, no less"
both 1
row $? "two clients on one thread run"
[ "$device" = 0 ]
row $? "their kernels never overlapped: $device ns"
[ "$events" != '?' ] && [ "$events" -gt 0 ]
row $? "but both were between start and end for $events ns"

# A failed assertion: CUDA's text and code, one line for the user.
unset SOFTCUDA_THREADS
export CUDA_MPS_PIPE_DIRECTORY="$work/socket.assert"
got=$("$bin/mpsrun" --driver=soft "$build/tests/assert" 2>"$work/err")
[ "$got" = 710 ] && [ "$(wc -l <"$work/err")" -eq 2 ] && grep -q 'is lost (error 710): a kernel of this program has faulted' "$work/err"
row $? "a failed assertion gives $got and says whose fault it was"
text="assert.cu:11: void expects_more(int): block: [0,0,0], thread: [0,0,0]"
text="$text Assertion \`n > 5 && \"wanted more\"\` failed."
grep -qxF "tests/api/$text" "$work/err"
row $? "before that its text, as CUDA has it: $(head -n 1 "$work/err")"
grep -qF "$text" "$CUDA_MPS_PIPE_DIRECTORY/mpsd.log"
row $? "its text is in the broker's log"
"$bin/mpsrun" --driver=soft "$build/examples/vecadd" >"$work/out" 2>&1
row $? "the next program gets a new worker: $(tail -n 1 "$work/out")"
"$bin/mpsctl" quit --force >/dev/null 2>&1

# Settings that mean nothing, or come too late: one line that names them.
export CUDA_MPS_PIPE_DIRECTORY="$work/socket.settings" MPSSHIM_DRIVER=soft
for bad in MPSSHIM_PERF=banana MPSSHIM_IDLE_S=abc MPSSHIM_LOG=bogus \
	MPSSHIM_LOG=info:/nowhere/x SOFTCUDA_MEMORY=banana SOFTCUDA_SMS=-3; do
	env "$bad" "$bin/mpsrun" true >"$work/out" 2>&1
	[ $? -eq 125 ] && [ "$(wc -l <"$work/out")" -eq 1 ] &&
		grep -qF "$bad: it takes" "$work/out"
	row $? "$bad is refused: $(cat "$work/out")"
done
SOFTCUDA_SMS=3 "$bin/mpsrun" true >"$work/out" 2>&1 && [ ! -s "$work/out" ]
row $? "a broker starts with SOFTCUDA_SMS=3"
SOFTCUDA_SMS=3 "$bin/mpsrun" true >"$work/out" 2>&1 && [ ! -s "$work/out" ]
row $? "the same again is not worth a word"
SOFTCUDA_SMS=5 SOFTCUDA_NAME=foo "$bin/mpsrun" true >"$work/out" 2>&1 &&
	[ "$(wc -l <"$work/out")" -eq 1 ] &&
	grep -q 'SOFTCUDA_SMS=5.*without effect' "$work/out" &&
	grep -q 'SOFTCUDA_NAME=foo' "$work/out"
row $? "others come too late: $(cat "$work/out")"
MPSSHIM_PERF=banana LD_PRELOAD="$build/lib/libmpsshim.so" \
	"$build/examples/vecadd" >"$work/out" 2>"$work/err" &&
	[ "$(wc -l <"$work/err")" -eq 1 ] && grep -q PERF=banana "$work/err"
row $? "the preload alone says: $(cat "$work/err")"
"$bin/mpsctl" quit --force >/dev/null 2>&1
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
