#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154
#
# What entry points answer to calls that they must refuse, under mpsrun on the
# software device, against tests/gpu/fidelity.tsv, which tests/gpu/fidelity.sh
# recorded on an H200; and that the comparison finds what it is there for.
set -u
# shellcheck source=tests/api/rows.sh
. "$(dirname "$0")/../api/rows.sh"

recording=$top/tests/gpu/fidelity.tsv
compare=$top/tests/gpu/fidelity_compare.sh

# compared NATIVE OURS EXPLAINED: the last line of the comparison.
compared() {
	printf "$1" >"$work/a"
	printf "$2" >"$work/b"
	printf "$3" >"$work/c"
	"$compare" "$work/a" "$work/b" "$top/proto/cuda.api" "$work/c" |
		tail -n 1
}
# sums WANTED-PART NATIVE OURS EXPLAINED
sums() {
	got=$(compared "$2" "$3" "$4")
	echo "$got"
	case $got in
	*"$1"*) ;;
	*) return 1 ;;
	esac
}
one='cuInit\tflags 1\t1\t-\t0\n'
same_rows() {
	sums '1 equal, 0 refused, 0 crash natively, 0 explained, 0 not rec' \
		"$one" "$one" ''
}
difference() {
	sums '0 explained, 0 not recorded, 1 unexplained' "$one" \
		'cuInit\tflags 1\t3\t-\t0\n' ''
}
missing_row() {
	sums '1 unexplained' "$one"'cuInit\tflags 2\t1\t-\t0\n' "$one" ''
}
explained() {
	sums '1 explained, 0 not recorded, 0 unexplained, 0 stale' "$one" \
		'cuInit\tflags 1\t3\t-\t0\n' 'cuIn*\tflags *\tbecause\n'
}
stale() {
	sums '0 unexplained, 1 stale' "$one" "$one" \
		'cuInit\tflags *\tbecause\n'
}
refusal_is_no_excuse() {
	# cuInit is not refused in cuda.api.
	sums '0 refused, 0 crash natively, 0 explained, 0 not recorded, 1 unex' \
		"$one" 'cuInit\tflags 1\t801\t-\t0\n' ''
}
crash_is_no_excuse_for_success() {
	sums '0 crash natively, 0 explained, 0 not recorded, 1 unex' \
		'cuInit\tflags 1\tSIGSEGV\t-\t-\n' \
		'cuInit\tflags 1\t0\t-\t0\n' ''
}
not_recorded() {
	sums '0 equal, 0 refused, 0 crash natively, 0 explained, 1 not rec' \
		'cuInit\tflags 1\t?\t-\t-\n' "$one" ''
}
row "the comparison takes equal rows as equal" same_rows
row "it reports a difference" difference
row "it reports a row that is missing" missing_row
row "it accepts an explanation" explained
row "it reports an explanation of nothing" stale
row "it takes what is not recorded as unknown" not_recorded
row "it excuses no refusal of what is served" refusal_is_no_excuse
row "it excuses no success where the driver dies" crash_is_no_excuse_for_success

runs_to_its_end() {
	"$mpsrun" "$T/fidelity" -j 2 >"$work/ours.tsv" 2>"$work/err" || {
		tail -n 20 "$work/err"
		return 1
	}
	echo "$(wc -l <"$work/ours.tsv") rows over" \
		"$(cut -f 1 "$work/ours.tsv" | sort -u | wc -l) functions"
}
no_row_twice() {
	cut -f 1,2 "$work/ours.tsv" | sort | uniq -d | tee "$work/twice"
	[ ! -s "$work/twice" ]
}
nothing_hangs() {
	! grep -P '\t(TIMEOUT|EXIT\d+)\t' "$work/ours.tsv"
}
as_recorded() {
	"$compare" "$recording" "$work/ours.tsv" "$top/proto/cuda.api" \
		"$top/tests/gpu/fidelity_explained.tsv" \
		"$top/tests/gpu/fidelity_soft.tsv"
}
row "every group runs to its end" runs_to_its_end
row "no row is there twice" no_row_twice
row "no call hangs or ends the program" nothing_hangs

# The real driver follows what it is given, and dies of it where it is no
# handle. Natively so does the software device now; a worker gives it nothing
# that a client has made up.
wild=$work/wild
dies_natively() {
	mkdir -p "$wild"
	ln -sf "$build/lib/libsoftcuda.so" "$wild/libcuda.so.1"
	LD_LIBRARY_PATH=$wild SOFTCUDA_FAULT=wild "$T/fidelity" -j 2 \
		dead_handles_1 foreign_handles_1 >"$wild/native.tsv" 2>/dev/null
	n=$(grep -c SIGSEGV "$wild/native.tsv")
	echo "$n of $(wc -l <"$wild/native.tsv") rows"
	[ "$n" -ge 40 ]
}
no_worker_dies() {
	CUDA_MPS_PIPE_DIRECTORY=$wild/broker
	SOFTCUDA_FAULT=wild
	MPSSHIM_LOG=info:$wild/log
	export CUDA_MPS_PIPE_DIRECTORY SOFTCUDA_FAULT MPSSHIM_LOG
	"$mpsrun" "$T/fidelity" -j 2 >"$wild/ours.tsv" 2>"$wild/err"
	rc=$?
	timeout 10 "$bin/mpsctl" quit --force >/dev/null 2>&1
	grep 'signal [0-9]' "$wild/log" && return 1
	grep -q 'worker .* is ready' "$wild/log" && [ $rc -eq 0 ] && cmp "$work/ours.tsv" "$wild/ours.tsv"
}
row "what is no handle kills the driver, natively" dies_natively
row "no row kills a worker" no_worker_dies
if [ -r "$recording" ]; then
	row "rows are as recorded on an H200" as_recorded
else
	skip "rows are as recorded on an H200" "no recording (fidelity.tsv) yet"
fi
finish_rows
