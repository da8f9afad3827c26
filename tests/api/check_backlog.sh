#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154
#
# Launches that wait go to the driver in batches: what they come to is right,
# with the shortcut and without; a fault among them and the end of their
# program are what they are without, and harm nobody else.
set -u
# shellcheck source=tests/api/rows.sh
. "$(dirname "$0")/rows.sh"

# The launches so far that went in batches, of all programs.
batched() {
	"$bin/mpsctl" status --json | python3 -c '
import json, sys
s = json.load(sys.stdin)
print(sum(c["graph_launches"] for c in s["clients"]))'
}

# [N]
sums() {
	"$mpsrun" "$T/backlog" "$@" >"$work/sums" || {
		grep '^NO' "$work/sums"
		return 1
	}
	grep -c '^yes' "$work/sums"
}

fault() {
	"$mpsrun" "$T/backlog" fault
}

# Start one that floods, and wait until it does.
flooding=''
flood() {
	"$mpsrun" "$T/backlog" flood >"$work/flood" 2>&1 &
	flooding=$!
	until grep -q flooding "$work/flood"; do
		kill -0 "$flooding" || return 1
		sleep 0.1
	done
}

end_flood() {
	kill -9 "$flooding"
	wait "$flooding" 2>/dev/null
	:
}

# WHETHER: in batches, or each by itself.
goes() {
	flood || return 1
	for _ in $(seq 100); do
		n=$(batched)
		[ "$n" -eq 0 ] || break
		[ "$1" = batches ] || break
		sleep 0.1
	done
	end_flood
	echo "$n launches in batches"
	if [ "$1" = batches ]; then [ "$n" -gt 0 ]; else [ "$n" -eq 0 ]; fi
}

killed_beside_others() {
	flood || return 1
	"$mpsrun" "$T/backlog" 20000 >"$work/beside" &
	beside=$!
	sleep 0.3
	end_flood
	wait "$beside" && tail -n 1 "$work/beside"
}

fresh
row "100,000 launches sum up" sums
row "they go in batches" goes batches
row "a program killed among them harms no other" killed_beside_others
row "and those after it sum up" sums 20000
row "a fault among them is theirs" fault
row "and those after it sum up" sums 20000
fresh
export MPSSHIM_PERF=no_backlog
row "switched off: they sum up" sums
row "switched off: each goes by itself" goes alone
row "switched off: a fault among them is theirs" fault
finish_rows
