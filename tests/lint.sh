#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Rules of the house that a machine can check. Prints each breach as
# file:line: rule; the last line is "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1

passed=0 failed=0
rule() {
	what=$1
	found=$2
	if [ -n "$found" ]; then
		echo "$found" | sed "s|\$|   <- $what|"
		failed=$((failed + 1))
	else
		passed=$((passed + 1))
	fi
}
sources() {
	git ls-files -co --exclude-standard "$@"
}
search() {
	pattern=$1
	shift
	sources "$@" | xargs -r grep -nE "$pattern" /dev/null
}

rule 'shim/ never includes server/' \
	"$(search '#include "server/' 'shim/*.[ch]')"
rule 'server/ never includes shim/' \
	"$(search '#include "shim/' 'server/*.[ch]' 'server/**/*.[ch]')"
rule 'proto/ includes neither' \
	"$(search '#include "(shim|server)/' 'proto/*.[ch]')"
rule 'broker and worker do not include each other' \
	"$(search '#include "server/worker/' 'server/broker/*.[ch]'
	search '#include "server/broker/' 'server/worker/*.[ch]')"
rule 'the broker never calls CUDA' \
	"$(search '[^_a-z]cu[A-Z][A-Za-z]*\(' 'server/broker/*.[ch]' |
		grep -vE '/\*|^\S+\s+\*')"
rule 'first line is the licence' "$(sources '*.[ch]' '*.cu' '*.py' '*.sh' \
	'*.mk' Makefile '.ci/run' | while read -r f; do
	[ -s "$f" ] || continue
	head -n 3 "$f" | grep -q 'SPDX-License-Identifier: Apache-2.0' ||
		echo "$f:1:"
done)"
rule 'no trailing white space' "$(search '[ 	]+$' '*.[ch]' '*.cu' '*.py' \
	'*.sh' '*.mk' Makefile '*.api' '*.proto')"
rule 'nothing unfinished' "$(search \
	'\bTODO\b|\bFIXME\b|\bXXX\b|for now|not implemented yet' '*.[ch]' '*.py' \
	'*.api' '*.mk' | grep -v 'tests/lint.sh')"
rule 'lines of at most 100 columns' "$(sources '*.[ch]' ':!*_rows.h' | xargs -r \
	awk '{ l = $0; gsub(/\t/, "        ", l)
	       if (length(l) > 100) print FILENAME ":" FNR ":" }')"
rule 'no typedef of a struct' "$(search '^typedef struct' '*.[ch]')"
rule 'headers are guarded' "$(sources '*.h' ':!*_rows.h' | while read -r f; do
	grep -q '^#ifndef [A-Z0-9_]*_H$' "$f" || echo "$f:1:"
done)"
if command -v python3 >/dev/null; then
	# What is there for our scanner of texts alone is no whole code.
	rule 'ptxas takes it' "$(sources '*.c' '*.h' \
		':!tests/unit/check_worker_traits.c' |
		xargs -r grep -l '\.version [0-9]' | xargs -r tests/ptx/ptxas.py)"
fi
if command -v shellcheck >/dev/null; then
	rule 'shellcheck' "$(sources '*.sh' '.ci/run' | xargs -r shellcheck -S warning -f gcc)"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
