#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154
#
# That tests/gpu/stall.sh sees what it is to judge, on the software device:
# every function that a program calls is in the table, both clients beside it
# ran, and a load waited for the neighbour. How long anything takes is judged
# on a GPU alone; how many kernels run beside so many loads, by loads.sh here.
set -u
# shellcheck source=tests/api/rows.sh
. "$(dirname "$0")/../api/rows.sh"

# Two devices, for questions about a pair.
measure() {
	SOFTCUDA_DEVICES=2 DRIVER=soft JUDGE=no PROGRAMS=rest KERNEL_MS=300 OUT=$work \
		"$top/tests/gpu/stall.sh" >"$work/judged"
	rc=$?
	grep -v '^never' "$work/judged"
	return "$rc"
}
# What the program takes from libcuda is what it calls. The software device has
# no levels of arrays.
all_seen() {
	nm -D --undefined-only "$T/rest" | sed -n 's/.* U \(cu[A-Z]\w*\)$/\1/p' |
		grep -v '^cuMipmapped' | sort >"$work/called"
	tail -n +2 "$work/stall.tsv" | cut -f 1 | sort >"$work/seen"
	comm -23 "$work/called" "$work/seen" >"$work/unseen"
	cat "$work/unseen"
	echo "$(wc -l <"$work/seen") functions"
	[ -s "$work/called" ] && [ ! -s "$work/unseen" ]
}
both_ran() {
	grep -E '^neighbour: [1-9][0-9]* kernels.* third: [1-9][0-9]* kernels' \
		"$work/judged"
}
# Far longer than a load and its pause, also where all else is slow.
takes_turns() {
	DRIVER=soft COUNT=30 PAUSE_MS=10 KERNEL_MS=600 \
		"$top/tests/gpu/loads.sh"
}

row 'three clients of one broker' measure
row 'every call is noted' all_seen
row 'the neighbour and the third ran' both_ran
row 'loads take turns with long kernels' takes_turns
finish_rows
