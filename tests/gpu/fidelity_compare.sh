#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Compares two outputs of tests/gpu/fidelity, row by row.
#
#	fidelity_compare.sh NATIVE OURS API [EXPLAINED [SOFT]]
#
# API is proto/cuda.api, the others tables of explanations: function, case and
# reason between tabs, * in the first two for any text, # for a remark. A row
# may differ when
#   - ours is 801 and cuda.api refuses the function,
#   - the native driver dies in the call, and ours answers with an error,
#   - a table says why.
# With SOFT, OURS ran on the software device: a difference may then be
# explained by either table, and only explanations of SOFT can be stale.
# A row whose answer is ? in NATIVE is not recorded yet, and not compared.
# Prints rows that differ for no reason, explanations that explain nothing, and
# last "N equal, N refused, N crash natively, N explained, N not recorded, N
# unexplained, N stale"; exit status 1 unless the last two are 0.
set -u
[ $# -ge 3 ] || exit 2
for f in "$@"; do
	[ -r "$f" ] || {
		echo "cannot read $f"
		exit 2
	}
done

awk -F '\t' -v soft="$([ $# -ge 5 ] && echo 1)" '
function glob(text)
{
	gsub(/[][\\.^$+?(){}|]/, "\\\\&", text)
	gsub(/\*/, ".*", text)
	return "^" text "$"
}
function explanation(name, case_name,    i, found)
{
	found = 0
	for (i = 1; i <= entries; i++)
		if (name ~ entry_name[i] && case_name ~ entry_case[i]) {
			entry_used[i] = 1
			found = i
		}
	return found
}
function unexplained_row(native, ours)
{
	printf "%s | %s\n\tnative %s\n\tours   %s\n", $1, $2, native, ours
	unexplained++
}
# NATIVE, OURS: the rows are in the same order, whoever printed them.
file <= 2 {
	answer = $3 "\t" $4 "\t" $5
	key = $1 "\t" $2
	if (file == 1) {
		order[++rows] = key
		native_of[key] = answer
	} else {
		ours_of[key] = answer
		if (!(key in native_of))
			order[++rows] = key
	}
	next
}
file == 3 {
	if (match($0, /^[0-9]+ CUresult [A-Za-z0-9_]+/)) {
		split(substr($0, 1, RLENGTH), word, " ")
		function_name = word[3]
	} else if ($0 ~ /^\tcover refused/) {
		refused[function_name] = 1
	} else if ($0 ~ /^\talias /) {
		split($0, word, " ")
		alias[function_name] = word[2]
	}
	next
}
/^#/ || NF == 0 { next }
NF != 3 {
	printf "%s:%d: not function, case and reason\n", FILENAME, FNR
	bad = 1
	next
}
{
	entry_name[++entries] = glob($1)
	entry_case[entries] = glob($2)
	entry_text[entries] = $1 " | " $2
	entry_soft[entries] = file > 4
}
END {
	for (i = 1; i <= rows; i++) {
		key = order[i]
		n = (key in native_of) ? native_of[key] : "no row"
		o = (key in ours_of) ? ours_of[key] : "no row"
		if (n == o) {
			equal++
			continue
		}
		if (n ~ /^\?/) {
			unrecorded++
			continue
		}
		split(key, part, "\t")
		split(n, native, "\t")
		split(o, ours, "\t")
		name = part[1]
		if (name in alias)
			name = alias[name]
		# All entries are looked at, so that none is stale by chance.
		why = explanation(part[1], part[2])
		if (why) {
			explained++
		} else if (ours[1] == 801 && name in refused) {
			refusals++
		} else if (native[1] ~ /^SIG/ && ours[1] + 0 > 0) {
			crashes++
		} else {
			$1 = part[1]
			$2 = part[2]
			unexplained_row(n, o)
		}
	}
	for (i = 1; i <= entries; i++)
		if (!entry_used[i] && (entry_soft[i] || !soft)) {
			print "explains nothing: " entry_text[i]
			stale++
		}
	printf "%d equal, %d refused, %d crash natively, %d explained, " \
	       "%d not recorded, %d unexplained, %d stale\n", equal,
	       refusals, crashes, explained, unrecorded, unexplained, stale
	exit unexplained > 0 || stale > 0 || bad || equal == 0
}' file=1 "$1" file=2 "$2" file=3 "$3" file=4 "${4:-/dev/null}" \
	file=5 "${5:-/dev/null}"
