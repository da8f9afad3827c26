#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What the driver answers to calls that it must refuse, natively and under
# mpsrun, on a machine with a GPU: every difference needs a reason. Skips (77)
# where there is no GPU.
#
#	[MPSSHIM_BUILD=build] [OUT=folder] [TWICE=1] tests/gpu/fidelity.sh
#
# Needs build/tests/fidelity. Leaves native.tsv (to be committed as
# tests/gpu/fidelity.tsv), ours.tsv and compare.txt in $OUT. With TWICE the
# native run is repeated and rows that differ from one to the other are shown.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${MPSSHIM_BUILD:-$PWD/build}
out=${OUT:-$(mktemp -d)}
fidelity=$build/tests/fidelity

if [ ! -e /dev/nvidiactl ]; then
	echo "no NVIDIA device here"
	exit 77
fi
export CUDA_CACHE_DISABLE=1 MPSSHIM_DRIVER=cuda

seconds() {
	echo "$1: status $2, $(($(date +%s) - start)) s, $(wc -l <"$3") rows"
}
# Natively no daemon is to be looked for in our directory.
native() {
	start=$(date +%s)
	CUDA_MPS_PIPE_DIRECTORY=/nonexistent timeout -k 5 80 "$fidelity" \
		>"$1" 2>"$1.err"
	native_rc=$?
	seconds native $native_rc "$1"
	sed 's/^/      /' "$1.err" | head -n 20
}
native "$out/native.tsv"
if [ -n "${TWICE:-}" ]; then
	native "$out/again.tsv"
	diff "$out/native.tsv" "$out/again.tsv" >"$out/unstable.txt"
	echo "rows of two native runs that differ:" \
		"$(grep -c '^<' "$out/unstable.txt")"
	cut -c1-200 "$out/unstable.txt" | head -n 40
fi

CUDA_MPS_PIPE_DIRECTORY=$(mktemp -d)
export CUDA_MPS_PIPE_DIRECTORY
start=$(date +%s)
timeout -k 5 80 "$build/bin/mpsrun" "$fidelity" >"$out/ours.tsv" \
	2>"$out/ours.tsv.err"
ours_rc=$?
seconds mpsrun $ours_rc "$out/ours.tsv"
grep -v 'the GPU worker is lost' "$out/ours.tsv.err" | head -n 20 |
	sed 's/^/      /'
cp "$CUDA_MPS_PIPE_DIRECTORY/mpsd.log" "$out/mpsd.txt" 2>/dev/null
timeout 20 "$build/bin/mpsctl" quit --force >/dev/null 2>&1
rm -rf "$CUDA_MPS_PIPE_DIRECTORY"

tests/gpu/fidelity_compare.sh "$out/native.tsv" "$out/ours.tsv" \
	proto/cuda.api tests/gpu/fidelity_explained.tsv >"$out/compare.txt"
compare_rc=$?
head -n 90 "$out/compare.txt"
[ "$(wc -l <"$out/compare.txt")" -gt 90 ] && tail -n 1 "$out/compare.txt"
[ $native_rc -eq 0 ] && [ $ours_rc -eq 0 ] && [ $compare_rc -eq 0 ]
