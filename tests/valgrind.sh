#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Unit test programs under valgrind: no invalid access, nothing definitely
# lost. Usage: valgrind.sh PROGRAM...; the last line adds up.
set -u

if ! command -v valgrind >/dev/null; then
	echo "valgrind is not installed"
	exit 77
fi
passed=0 failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for program in "$@"; do
	# Every test is a fork of its own; one with an error exits with 99 and
	# Check says so.
	if CK_DEFAULT_TIMEOUT=120 timeout 300 valgrind -q --error-exitcode=99 \
		--leak-check=full --show-leak-kinds=definite \
		--errors-for-leak-kinds=definite "$program" >"$log" 2>&1; then
		passed=$((passed + 1))
		echo "ok    ${program##*/} under valgrind"
	else
		failed=$((failed + 1))
		echo "FAIL  ${program##*/} under valgrind"
		tail -n 30 "$log" | sed 's/^/      /'
	fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
