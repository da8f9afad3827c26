# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
#
# What the check_*.sh here share: sourced by them, never run. Gives each its
# own broker on the software device, and rows that are counted.
#
#     row NAME COMMAND...     passes when the command, which may be a function,
#                             exits 0 in time; its last line is shown
#     pass|fail|skip NAME [WHY]
#     fresh                   from here on another broker, not yet started
#     finish_rows             print the sum and exit

# A row is a process of its own, so that it can be ended whole; it knows our
# variables and functions through the environment.
set -a

top=$(cd "$(dirname "$0")/../.." && pwd)
build=${MPSSHIM_BUILD:-$top/build}
cuda=${MPSSHIM_CUDA:-/usr/local/cuda}
bin=$build/bin
T=$build/tests
mpsrun=$bin/mpsrun
# The loader wants a sanitizer before everything else; it comes first in the
# program or not at all.
if grep -qE '__(asan|tsan)_init' "$build/lib/libmpsshim.so"; then
	echo "a library with a sanitizer cannot be preloaded by programs without"
	exit 77
fi
passed=0 failed=0 skipped=0
# Seconds that a single row may take.
row_limit=60

work=$(mktemp -d /tmp/mpsshim-test.XXXXXX)
export MPSSHIM_DRIVER=soft
export MPSSHIM_LOG="warn:$work/log"
unset MPSSHIM_JOB MPSSHIM_NO_BROKER CUDA_VISIBLE_DEVICES

end_broker() {
	[ -n "${CUDA_MPS_PIPE_DIRECTORY:-}" ] || return 0
	timeout 10 "$bin/mpsctl" quit --force >"$work/quit" 2>&1 || :
}

brokers=0
fresh() {
	end_broker
	brokers=$((brokers + 1))
	export CUDA_MPS_PIPE_DIRECTORY="$work/$brokers"
}

clean_up() {
	end_broker
	rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 1' INT TERM HUP

pass() {
	passed=$((passed + 1))
	echo "ok    $1${2:+: $2}"
}

fail() {
	failed=$((failed + 1))
	echo "FAIL  $1${2:+: $2}"
}

skip() {
	skipped=$((skipped + 1))
	echo "skip  $1${2:+: $2}"
}

row() {
	row_name=$1
	shift
	row_start=$(date +%s%N)
	timeout -k 5 "$row_limit" bash -c '"$@"' row "$@" \
		>"$work/row" 2>&1 </dev/null
	row_rc=$?
	row_ms=$((($(date +%s%N) - row_start) / 1000000))
	if [ "$row_rc" -eq 0 ]; then
		pass "$row_name" "$(tail -n 1 "$work/row") ($row_ms ms)"
		return 0
	fi
	fail "$row_name" "exit $row_rc after $row_ms ms"
	tail -n 12 "$work/row" | sed 's/^/        /'
	return 1
}

finish_rows() {
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ] || exit 1
	[ "$passed" -ne 0 ] || exit 77
	exit 0
}

fresh
