#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Line coverage of what decodes bytes from outside, by the tests that feed it:
# each file at least 95 %. Builds into build-cov (make BUILD=build-cov
# COVERAGE=--coverage OPT=-O0). Usage: decoder_coverage.sh
set -u
cd "$(dirname "$0")/../.." || exit 1
if ! command -v gcovr >/dev/null; then
	echo "skipped: no gcovr"
	exit 77
fi
least=95
# A worker ends by _exit() and writes its counts by __gcov_dump(), which it
# refers to weakly.
# Threads count at the same time.
coverage="--coverage -fprofile-update=atomic -Wl,-u,__gcov_dump"
out=${BUILD_COV:-build-cov}
jobs=${JOBS:-2}
tests='check_data check_marshal check_ring check_sock check_chan check_broker
	check_broker_memory check_broker_worker check_worker
	check_worker_hostile check_worker_parts check_worker_queue
	check_worker_journal check_edges check_attach'
programs=''
for t in $tests decode replay record kill_client graphs graphs_moved graphs_if faults \
	puppet; do
	programs="$programs $out/tests/$t"
done

# shellcheck disable=SC2086
make --no-print-directory -j"$jobs" BUILD="$out" COVERAGE="$coverage" OPT=-O0 \
	all examples $programs || exit 1
find "$out" -name '*.gcda' -delete
export MPSSHIM_BUILD=$PWD/$out
failed=0
for t in $tests; do
	timeout 300 "$out/tests/$t" >"$out/$t.log" 2>&1 || {
		echo "FAIL  $t"
		tail -n 5 "$out/$t.log"
		failed=$((failed + 1))
	}
done
for t in hostile/check_mutated.py hostile/check_decode.sh \
	hostile/check_faults.sh api/check_graphs.sh; do
	COUNT=20000 timeout 300 "tests/$t" >"$out/${t##*/}.log" 2>&1 || {
		echo "FAIL  $t"
		tail -n 20 "$out/${t##*/}.log"
		failed=$((failed + 1))
	}
done

gcovr -r . --gcov-ignore-parse-errors --object-directory "$out" --csv \
	-f 'proto/(data|marshal|frame|ring|sock|channel)\.c' \
	-f 'server/worker/(call|launch|lane)\.c' \
	-f 'server/broker/(conn|session|client)\.c' >"$out/decoders.csv" ||
	exit 1
passed=0
while IFS=, read -r file lines covered percent _; do
	[ "$file" = filename ] && continue
	percent=$(awk "BEGIN {printf \"%.1f\", 100 * $covered / $lines}")
	case $file in
	*/broker/client.c | */worker/launch.c | */worker/lane.c)
		# What acts on messages that are decoded already.
		echo "      $file: $covered of $lines lines, $percent %"
		continue ;;
	esac
	if awk "BEGIN {exit !($percent >= $least)}"; then
		passed=$((passed + 1))
		echo "ok    $file: $covered of $lines lines, $percent %"
	else
		failed=$((failed + 1))
		echo "FAIL  $file: $covered of $lines lines, $percent %"
	fi
done <"$out/decoders.csv"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
