#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What each shortcut is worth: parts of the micro benchmarks with it and
# without, and what a worker's start is spent on. On a machine that builds
# nothing, from what `make bench-stage` left in .carry/bench; 60 s.
#
#	[OUT=folder] tests/gpu/perf.sh [PART...]
#
# Parts: wait kernels backlog copy start. Leaves $OUT/perf.txt.
set -u
cd "$(dirname "$0")/../.." || exit 1
MPSSHIM_BUILD=${MPSSHIM_BUILD:-$PWD/.carry/bench}
export MPSSHIM_BUILD
out=${OUT:-.}
work=$(mktemp -d)
failed=0
trap 'rm -rf "$work"' EXIT

mkdir -p "$MPSSHIM_BUILD/lib/mpsshim"
for name in libcuda.so libcuda.so.1; do
	ln -sfn ../libmpsshim.so "$MPSSHIM_BUILD/lib/mpsshim/$name"
done

# MODE PARTS [NAME=VALUE...]
measure() {
	mode=$1 parts=$2
	shift 2
	echo "== $mode: $parts $*"
	env SET=micro MODES="$mode" ONLY="$parts" LIMIT=20 \
		RESULTS="$work/results" "$@" \
		timeout 25 python3 -B tests/bench/bench.py >"$work/text" ||
		failed=1
	sed -n '/^---/,/^\*/p; /^!/p' "$work/text" | grep -v '^[-*]'
}

wait_part() {
	measure native "wait event"
	measure mpsrun "wait event local"
	measure mpsrun "wait event" MPSSHIM_PERF=no_line
	measure mpsrun "wait event" MPSSHIM_PERF=no_word
}

kernels_part() {
	measure mpsrun "empty"
	measure mpsrun "empty" MPSSHIM_LANES=4
	measure mpsrun "empty" MPSSHIM_LANES=2
}

# Kernels of nothing and of 15 us, of 1 client and of 8.
backlog_part() {
	for kernels in empty spin; do
		measure native "$kernels"
		measure mpsrun "$kernels"
		measure mpsrun "$kernels" MPSSHIM_PERF=no_backlog
	done
}

copy_part() {
	measure native "copy"
	measure mpsrun "copy"
}

# The driver's own start is in it; native is a process beside it.
start_part() {
	measure native "start"
	measure mpsrun "start"
	echo "== what the worker's start is spent on (ms)"
	export CUDA_MPS_PIPE_DIRECTORY="$work/socket" MPSSHIM_LOG=info
	for _ in 1 2; do
		timeout 20 "$MPSSHIM_BUILD/bin/mpsrun" \
			"$MPSSHIM_BUILD/tests/bench/start" 1 || failed=1
		"$MPSSHIM_BUILD/bin/mpsctl" quit --force
	done
	grep -h "started in" "$work"/socket/mpsd.log
	unset CUDA_MPS_PIPE_DIRECTORY MPSSHIM_LOG
}

[ $# -gt 0 ] || set -- wait kernels backlog copy start
for part in "$@"; do
	"${part}_part"
done | tee "$out/perf.txt"
exit $failed
