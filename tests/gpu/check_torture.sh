#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154
#
# Whoever has waited sees the newest data (tests/gpu/torture.sh), on the
# software device, whichever way a wait learns of its end; and whoever looks
# before does not.
set -u
# shellcheck source=tests/api/rows.sh
. "$(dirname "$0")/../api/rows.sh"

# ROUNDS CLIENTS [NAME=VALUE]: the last line is of the rounds that look early.
torture() {
	env DRIVER=soft MPSSHIM_BUILD="$build" ROUNDS="$1" CLIENTS="$2" \
		SECONDS_MAX=50 ${3:+"$3"} "$top/tests/gpu/torture.sh" \
		>"$work/torture" || {
		cat "$work/torture"
		return 1
	}
	ran=$(sed -n 's/^rounds \([0-9]*\), mismatches 0,.*/\1/p' \
		"$work/torture")
	tail -n 2 "$work/torture" | paste -s -d ';'
	[ "${ran:-0}" -ge "$1" ]
}

row 'one client' torture 2600 1
row 'four clients' torture 10400 4
for off in no_line no_word no_ring no_backlog; do
	row "two clients with $off" torture 2600 2 "MPSSHIM_PERF=$off"
done
finish_rows
