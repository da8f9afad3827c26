#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every function of libmpsshim.so, called with nothing but zeros, answers
# with a code of cuda.h: where no broker is, and as a client of a broker with
# the software device. The last line is "N passed, N failed, N skipped";
# every call counts.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${MPSSHIM_BUILD:-$PWD/build}
library=$build/lib/libmpsshim.so
if [ ! -r "$library" ]; then
	echo "libmpsshim.so is not built"
	exit 77
fi
passed=0 failed=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export CUDA_MPS_PIPE_DIRECTORY="$work" MPSSHIM_DRIVER=soft MPSSHIM_IDLE_S=1

# run STATUS COMMAND: the status that a run without failures ends with.
run() {
	wanted=$1
	shift
	timeout -k 5 60 "$@" "$library" >"$work/log" 2>&1
	status=$?
	calls=$(sed -n 's/^\([0-9]*\) calls with zeros, .*/\1/p' "$work/log")
	wrong=$(sed -n 's/.*calls with zeros, \([0-9]*\) failed$/\1/p' \
		"$work/log")
	if [ -z "$calls" ] || { [ "$status" -ne "$wanted" ] &&
		[ "$wrong" -eq 0 ]; }; then
		echo "failed: $*: status $status, not $wanted"
		failed=$((failed + 1))
		cat "$work/log"
	fi
	[ -n "$calls" ] || return
	[ "$wrong" -eq 0 ] || cat "$work/log"
	failed=$((failed + wrong))
	passed=$((passed + calls - wrong))
}

# 77: cuInit found nothing, so that only the calls before it were made.
run 77 env MPSSHIM_NO_BROKER=error "$build/tests/test_zeros"
run 0 "$build/bin/mpsrun" "$build/tests/test_zeros"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
