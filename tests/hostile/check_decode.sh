#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Changed frames and code images through every decoder, in one process.
# Settings: COUNT frames (300000), a fifth as many images; SEED (of the day).
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${MPSSHIM_BUILD:-$top/build}
decode=$build/tests/decode
count=${COUNT:-300000}
seed=${SEED:-$(date +%Y%m%d)}
passed=0 failed=0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! "$top/tests/hostile/check_mutated.py" record "$work" >"$work/log" 2>&1
then
	tail -n 1 "$work/log"
	exit 77
fi
row() {
	start=$(date +%s)
	if "$decode" "$1" "$seed" "$2" "$work"/*.session >"$work/out" 2>&1; then
		passed=$((passed + 1))
		echo "ok    $(tail -n 1 "$work/out") ($(($(date +%s) - start)) s)"
	else
		failed=$((failed + 1))
		echo "FAIL  decode $1 $seed $2: exit $?"
		tail -n 40 "$work/out"
	fi
}
row frames "$count"
row images "$((count / 5))"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
