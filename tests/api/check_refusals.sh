#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154
#
# Why a function is refused reaches whoever looks at the program's stderr,
# once, and nothing is said of what libraries ask in passing.
set -u
# shellcheck source=tests/api/rows.sh
. "$(dirname "$0")/rows.sh"
unset MPSSHIM_LOG

# says COUNT PART: stdout has what the program prints, stderr COUNT lines.
says() {
	"$mpsrun" "$T/refusals" "$2" >"$work/out" 2>"$work/err" || {
		cat "$work/out" "$work/err"
		return 1
	}
	cat "$work/err"
	grep -qx 'refused [0-9]*' "$work/out" &&
		[ "$(wc -l <"$work/out")" -eq 1 ] &&
		[ "$(wc -l <"$work/err")" -eq "$1" ]
}

names_the_reason() {
	says 1 one && grep -qE '^mpsshim\[[0-9]+\] warn: cuTexRefCreate is refused with CUDA_ERROR_NOT_SUPPORTED: .*texture and surface objects are served$' "$work/err"
}
row 'four threads get one line between them, with the reason' names_the_reason

names_the_rest() {
	says 1 part && grep -q 'warn: cuGraphInstantiateWithFlags is refused in this form, with CUDA_ERROR_NOT_SUPPORTED .*graphs that the device launches' "$work/err"
}
row 'a form that is not served is told from one that is' names_the_rest

row 'what libraries ask in passing is not worth a line' says 0 probes

many() {
	says 9 all && tail -n 1 "$work/err" | grep -q 'MPSSHIM_LOG=info'
}
row 'of many functions the first eight are named' many

whoever_asks() {
	export MPSSHIM_LOG=info
	says 12 all && says 3 probes
}
row 'who asks for more is told all' whoever_asks

whoever_minds() {
	MPSSHIM_LOG=error says 0 one
}
row 'who wants no warnings gets none' whoever_minds

to_a_file() {
	MPSSHIM_LOG="warn:$work/told" says 0 one &&
		[ "$(grep -c cuTexRefCreate "$work/told")" -eq 1 ]
}
row 'the line goes to the log file where there is one' to_a_file

closed() {
	"$mpsrun" "$T/refusals" one 2>&-
}
row 'nothing is amiss without stderr' closed
finish_rows
