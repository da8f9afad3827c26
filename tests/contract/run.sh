#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs the contract programs, one line each, and counts.
#
#	tests/contract/run.sh DRIVER [BIN [PREFIX]]
#
# DRIVER is the driver library (a path or libcuda.so.1), BIN the folder with
# the built programs (build-gpu/bin/contract), PREFIX takes only programs
# whose name begins so. The last line is "N passed, N failed, N skipped",
# before it stand the failures. Exit status 1 when one failed, 77 when none
# passed.
set -u
cd "$(dirname "$0")/../.." || exit 1
DRIVER=${1:?the driver library}
bin=${2:-build-gpu/bin/contract}
prefix=${3:-}
export DRIVER
passed=0 failed=0 skipped=0
log=$(mktemp) && wrong=$(mktemp) || exit 1
trap 'rm -f "$log" "$wrong"' EXIT

for program in "$bin/$prefix"*; do
	[ -x "$program" ] || continue
	name=$(basename "$program")
	# One line a program; its own output follows, indented.
	timeout -k 5 60 "$program" >"$log" 2>&1 </dev/null
	status=$?
	case $status in
	0) passed=$((passed + 1)) word=pass ;;
	77) skipped=$((skipped + 1)) word=skip ;;
	124 | 137) failed=$((failed + 1)) word='fail (60 s)' ;;
	1) failed=$((failed + 1)) word=fail ;;
	*) failed=$((failed + 1)) word="fail (status $status)" ;;
	esac
	echo "$word	$name"
	sed 's/^/	/' "$log"
	case $word in
	fail*) { echo "$word	$name" && grep -a '^failed' "$log"; } >>"$wrong" ;;
	esac
done
# Once more what matters: who shows only the end of a log shows this.
cat "$wrong"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] || exit 1
[ "$passed" -gt 0 ] || exit 77
