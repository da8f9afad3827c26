#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154
#
# Stream capture, graphs and host functions under the shim, on the software
# device: the facts of tests/api/graphs.c over every transport, two clients at
# once, the runtime, and what is left of clients that die in the middle.
set -u
# shellcheck source=tests/api/rows.sh
. "$(dirname "$0")/rows.sh"

graphs=$T/graphs
moved=$T/graphs_moved
branches=$T/graphs_if

# The same lines on the software device alone: what the shim answers by itself
# is what a driver answers.
without_shim() {
	mkdir -p "$work/soft"
	ln -sf "$(realpath "$build/lib/libsoftcuda.so")" \
		"$work/soft/libcuda.so.1"
	LD_LIBRARY_PATH=$work/soft "$graphs" >"$work/plain"
	rc=$?
	grep -v '^ok' "$work/plain"
	LD_LIBRARY_PATH=$work/soft "$moved" >"$work/plain_moved" || rc=$?
	grep '^NO' "$work/plain_moved"
	LD_LIBRARY_PATH=$work/soft "$branches" >"$work/plain_if" || rc=$?
	grep '^NO' "$work/plain_if"
	return "$rc"
}

same_lines() {
	env MPSSHIM_PERF="$1" "$mpsrun" "$graphs" >"$work/under.$1"
	rc=$?
	diff "$work/plain" "$work/under.$1" || return 1
	echo "$(grep -c '^ok' "$work/under.$1") facts"
	return "$rc"
}

moved_children() {
	"$mpsrun" "$moved" >"$work/under_moved"
	rc=$?
	diff "$work/plain_moved" "$work/under_moved" || return 1
	return "$rc"
}

conditional_nodes() {
	env MPSSHIM_PERF="$1" "$mpsrun" "$branches" >"$work/under_if"
	rc=$?
	diff "$work/plain_if" "$work/under_if" || return 1
	return "$rc"
}

memory_nodes() {
	env MPSSHIM_PERF="$1" "$mpsrun" "$T/graphs_memory" >"$work/under_mem"
	rc=$?
	grep -A1 '^NO' "$work/under_mem"
	return "$rc"
}

two_at_once() {
	"$mpsrun" "$graphs" >"$work/one" &
	one=$!
	"$mpsrun" "$graphs" >"$work/two"
	two=$?
	wait "$one" || return 1
	[ "$two" -eq 0 ] && diff "$work/plain" "$work/one" &&
		diff "$work/plain" "$work/two"
}

# mappings and handles of the worker, once no client is left
left() {
	for _ in $(seq 600); do
		"$bin/mpsctl" status --json >"$work/status" || {
			echo "no status: $?"
			return 1
		}
		python3 -c '
import json, sys
s = json.load(sys.stdin)
w = s["workers"][0]
if s["clients"] or s["vault_chunks"]:
    sys.exit(1)
print(w["mappings"], w["handles"], w["descriptors"], w["pid"])
' <"$work/status" && return
		sleep 0.05
	done
	return 1
}

# Mappings that have become neighbours count as one.
no_more_left() {
	read -r mappings rest <"$work/before"
	read -r later later_rest <"$work/after"
	[ "$later" -le "$mappings" ] && [ "$rest" = "$later_rest" ] && return
	diff "$work/before" "$work/after"
}

# Killed while a host function holds a stream and another captures.
dies_holding() {
	# Emptied here: what runs in the background does so later than the
	# first look at it.
	: >"$work/held"
	"$mpsrun" "$graphs" hold >"$work/held" &
	victim=$!
	for _ in $(seq 1500); do
		grep -q held "$work/held" && break
		sleep 0.02
	done
	grep -q held "$work/held" || {
		echo "it does not hold: $(cat "$work/held")"
		return 1
	}
	"$mpsrun" "$graphs" >"$work/beside" || {
		echo "status $? beside it"
		grep -v '^ok' "$work/beside"
		return 1
	}
	kill -KILL "$victim"
	wait "$victim" 2>/dev/null
	diff "$work/plain" "$work/beside"
}
all_die() {
	dies_holding || return 1
	left >"$work/before" || return 1
	for _ in 1 2 3 4 5; do
		dies_holding || return 1
	done
	left >"$work/after" || return 1
	no_more_left
}
# Killed while streams wait for values that nobody writes.
waits_end() {
	left >"$work/before" || return 1
	: >"$work/held"
	"$mpsrun" "$T/memops" hold >"$work/held" &
	victim=$!
	for _ in $(seq 1500); do
		grep -q held "$work/held" && break
		sleep 0.02
	done
	"$mpsrun" "$T/memops" >"$work/beside" || {
		grep '^NO' "$work/beside"
		return 1
	}
	kill -KILL "$victim"
	wait "$victim" 2>/dev/null
	left >"$work/after" && no_more_left
}
neighbour_lives() {
	"$mpsrun" "$graphs" unload &&
		"$mpsrun" "$graphs" >"$work/beside" &&
		diff "$work/plain" "$work/beside"
}

row 'on the software device without the shim' without_shim
row 'by the rings' same_lines ''
row 'by the socket' same_lines no_ring
row 'every post a call' same_lines no_post
row 'both' same_lines no_ring,no_post
row 'children that were moved, and their children' moved_children
row 'conditional nodes' conditional_nodes ''
row 'conditional nodes, by the socket' conditional_nodes no_ring,no_post
row 'waits that are apart' "$mpsrun" "$T/graphs_memops" apart
row 'memory nodes' memory_nodes ''
row 'memory nodes, by the socket' memory_nodes no_ring,no_post
row 'two clients at once' two_at_once
if [ -x "$T/graphs_rt" ]; then
	row 'the runtime' "$mpsrun" "$T/graphs_rt"
	row 'the runtime, by the socket' env MPSSHIM_PERF=no_ring \
		"$mpsrun" "$T/graphs_rt"
else
	skip 'the runtime' 'no nvcc'
fi
row 'five clients killed with everything open' all_die
row 'a client killed with waits for values' waits_end
row 'module, event and memory gone under a graph' neighbour_lives
finish_rows
