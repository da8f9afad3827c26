#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154
#
# A program that is stopped by another's kernel says so, and status says more;
# one that waits for its own kernel says nothing.
set -u
# shellcheck source=tests/api/rows.sh
. "$(dirname "$0")/rows.sh"
unset MPSSHIM_LOG
export MPSSHIM_WAIT_WARN_S=1

# until_there FILE PATTERN: the row's time limit ends it.
until_there() {
	until grep -q "$2" "$1" 2>/dev/null; do sleep 0.05; done
}

# hold: a kernel that runs until $work/go is there; sets $holder.
hold() {
	rm -f "$work/go"
	"$mpsrun" "$T/waits" "$work/go" >"$work/held" 2>"$work/held.err" &
	holder=$!
	until_there "$work/held" runs
}

# let_go NEWCOMER: both end as they would have.
let_go() {
	touch "$work/go"
	wait "$holder" && wait "$1" && grep -qx ended "$work/held"
}

is_told() {
	hold
	"$mpsrun" "$T/waits" >"$work/out" 2>"$work/err" &
	newcomer=$!
	until_there "$work/err" .
	"$bin/mpsctl" status >"$work/status"
	let_go "$newcomer" || return 1
	cat "$work/status" "$work/held.err" "$work/err"
	[ ! -s "$work/held.err" ] && [ "$(wc -l <"$work/err")" -eq 1 ] &&
		grep -qx loaded "$work/out" &&
		grep -qE "^mpsshim\\[$newcomer\\] warn: to load code .* another program, pid $holder \\(waits\\); .mpsctl status. says more" "$work/err" &&
		client=$(awk -v pid="$holder" '$2 == pid { print $1 }' "$work/status") &&
		grep -qE "^ +[0-9]+ +$newcomer .*\\(to load code, since client $client \\(pid $holder\\)" "$work/status"
}
row 'who waits for the kernel of another is told whose it is' is_told

is_silent() {
	hold
	MPSSHIM_WAIT_WARN_S=0 "$mpsrun" "$T/waits" >"$work/out" 2>"$work/err" &
	newcomer=$!
	# Of the same wait, by one who is told.
	"$mpsrun" "$T/waits" >"$work/out.2" 2>"$work/err.2" &
	second=$!
	until_there "$work/err.2" .
	let_go "$newcomer" && wait "$second" && [ ! -s "$work/err" ]
}
fresh
row 'who does not want to know is not' is_silent

has_ended() {
	hold
	"$mpsrun" "$T/waits" >"$work/out" 2>"$work/err" &
	newcomer=$!
	until_there "$work/err" .
	kill -9 "$newcomer"
	wait "$newcomer"
	until "$bin/mpsctl" status >"$work/status" &&
		grep -q "(ended; what it had .* (pid $holder) " "$work/status"; do
		sleep 0.05
	done
	touch "$work/go"
	wait "$holder"
}
fresh
row 'what is left of a program says for whom it waits' has_ended
finish_rows
