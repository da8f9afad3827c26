#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154
#
# What entry points answer, against codes recorded from the real driver, with
# the ring and without, and with posts turned into calls.
set -u
# shellcheck source=tests/api/rows.sh
. "$(dirname "$0")/rows.sh"

answers() {
	"$mpsrun" "$T/answers" "$top/tests/api/errors_real.tsv"
}
threads() {
	for _ in 1 2 3 4 5; do
		"$mpsrun" "$T/threads" || return 1
	done
}

row "entry points answer as the real driver" answers
row "six threads share a context" threads
export MPSSHIM_PERF=no_ring
row "they do over the socket" answers
row "six threads share a context over the socket" threads
export MPSSHIM_PERF=no_post,no_cache,no_word
row "they do when nothing is posted or cached" answers
finish_rows
