#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# libmpsshim.so shows the face of libcuda.so.1 and nothing else: the names of
# the lists in proto/, its SONAME, and no need beyond libc.
#
#	tests/api/check_exports.sh [LIBRARY]
#
# The last line is "N passed, N failed, N skipped"; every name counts.
set -u
cd "$(dirname "$0")/../.." || exit 1
library=${1:-${MPSSHIM_BUILD:-build}/lib/libmpsshim.so}
if [ ! -r "$library" ]; then
	echo "libmpsshim.so is not built"
	exit 77
fi
passed=0 failed=0 skipped=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# check SENTENCE FOUND: passes when nothing was found.
check() {
	if [ -z "$2" ]; then
		passed=$((passed + 1))
		return
	fi
	failed=$((failed + 1))
	echo "failed: $1: $2"
}

LC_ALL=C
export LC_ALL
sort -u proto/exports-13.0.txt proto/exports-gl-13.0.txt >"$work/wanted"
readelf -W --dyn-syms "$library" >"$work/symbols" || exit 1
readelf -W -d "$library" >"$work/dynamic" || exit 1
# A function of our own that programs can bind to, without a version.
awk '$4 == "FUNC" && $5 == "GLOBAL" && $6 == "DEFAULT" && $7 ~ /^[0-9]+$/ {
	print $8 }' "$work/symbols" | sort -u >"$work/functions"
awk '$5 != "LOCAL" && $7 != "UND" && $8 ~ /./ && $1 ~ /^[0-9]+:$/ {
	print $8 }' "$work/symbols" | sort -u >"$work/defined"

missing=$(comm -23 "$work/wanted" "$work/functions")
for name in $missing; do
	echo "failed: $name is not exported as a function"
	failed=$((failed + 1))
done
passed=$((passed + $(comm -12 "$work/wanted" "$work/functions" | wc -l)))
check 'exports nothing unexpected' \
	"$(comm -13 "$work/wanted" "$work/defined" | tr '\n' ' ')"

# What the stub library of CUDA 13.0 exports: a short list would prove
# little.
check 'the list is whole' "$(wc -l <proto/exports-13.0.txt |
	awk '$1 != 637 { print $1 " names" }')"
soname=$(sed -n 's/.*(SONAME).*\[\(.*\)\].*/\1/p' "$work/dynamic")
check 'SONAME is libcuda.so.1' \
	"$([ "$soname" = libcuda.so.1 ] || echo "${soname:-none}")"
check 'no text relocation' "$(grep -E 'TEXTREL' "$work/dynamic")"
check 'is never unloaded' \
	"$(grep -qE 'FLAGS_1.*NODELETE' "$work/dynamic" || echo no NODELETE)"
check 'looks for no library of its own' \
	"$(grep -E '\((RPATH|RUNPATH)\)' "$work/dynamic")"

needed=$(sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' "$work/dynamic")
case $needed in
*lib?san.so* | *libubsan.so*)
	echo 'skipped: a sanitizer brings its own needs'
	skipped=$((skipped + 1)) ;;
*)
	check 'needs libc alone' "$(echo "$needed" | grep -vE \
		'^(|libc\.so\.6|libpthread\.so\.0|libdl\.so\.2|ld-linux-.*)$' |
		tr '\n' ' ')" ;;
esac
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
