#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Run test programs, each under a time limit, and add up their results.
# Usage: run.sh [-t SECONDS] PROGRAM...
#
# A program is one of two kinds. A Check suite prints "100%: Checks: N,
# Failures: F, Errors: E"; anything else counts as one test: exit 0 passed,
# 77 skipped with its last line as the reason, else failed; or, if its last
# line reads "N passed, N failed[, N skipped]", as that many.
# The last line printed is "N passed, N failed, N skipped".
set -u

limit=300
if [ "${1:-}" = -t ]; then
	limit=$2
	shift 2
fi
# Each test's software devices have their memory to themselves.
export SOFTCUDA_ACCOUNT="${SOFTCUDA_ACCOUNT-private}"
passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

for program in "$@"; do
	name=${program##*/}
	start=$(date +%s)
	timeout -k 10 "$limit" "$program" >"$log" 2>&1 </dev/null
	rc=$?
	took=$(($(date +%s) - start))
	counts=$(grep -aE '^[0-9]+%: Checks: [0-9]+' "$log" | tail -n 1)
	plain=$(tail -n 1 "$log" |
		grep -aE '^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$')
	p=0 f=0 s=0
	if [ -n "$counts" ]; then
		n=$(echo "$counts" | sed 's/.*Checks: \([0-9]*\).*/\1/')
		x=$(echo "$counts" | sed 's/.*Failures: \([0-9]*\).*/\1/')
		e=$(echo "$counts" | sed 's/.*Errors: \([0-9]*\).*/\1/')
		f=$((x + e)) p=$((n - x - e))
		[ "$rc" -ne 0 ] && [ "$f" -eq 0 ] && f=1
		[ "$n" -eq 0 ] && f=1
	elif [ -n "$plain" ]; then
		p=$(echo "$plain" | sed 's/ passed.*//')
		f=$(echo "$plain" | sed 's/.*passed, \([0-9]*\) failed.*/\1/')
		s=$(echo "$plain" |
			sed -n 's/.*failed, \([0-9]*\) skipped.*/\1/p')
		s=${s:-0}
		[ "$rc" -ne 0 ] && [ "$rc" -ne 77 ] && [ "$f" -eq 0 ] && f=1
	elif [ "$rc" -eq 0 ]; then
		p=1
	elif [ "$rc" -eq 77 ]; then
		s=1
	else
		f=1
	fi
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	if [ "$f" -ne 0 ]; then
		[ "$rc" -eq 124 ] && echo "time limit of ${limit} s" >>"$log"
		echo "FAIL  $name (exit $rc, ${took} s)"
		tail -n 40 "$log" | sed 's/^/      /'
	elif [ "$s" -ne 0 ] && [ "$p" -eq 0 ]; then
		echo "skip  $name: $(tail -n 1 "$log")"
	else
		printf 'ok    %s: %s passed' "$name" "$p"
		[ "$s" -ne 0 ] && printf ', %s skipped' "$s"
		echo " (${took} s)"
	fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
