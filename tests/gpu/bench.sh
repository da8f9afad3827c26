#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What tests/bench measures, on a machine that builds nothing: from what
# `make bench-stage` left in .carry/bench.
#
#	[NAME=VALUE...] [OUT=folder] tests/gpu/bench.sh SET...
#
# The sets are run one after another with the settings of bench.py. Leaves
# one file, $OUT/bench.tar: per set a folder with bench.txt, .csv and .svg.
set -u
cd "$(dirname "$0")/../.." || exit 1
MPSSHIM_BUILD=${MPSSHIM_BUILD:-$PWD/.carry/bench}
export MPSSHIM_BUILD
out=${OUT:-.}
work=$(mktemp -d)
failed=0
# bench.py then reports what it has measured, and that is kept.
trap 'failed=1' TERM INT

# Links may not have travelled.
mkdir -p "$MPSSHIM_BUILD/lib/mpsshim"
for name in libcuda.so libcuda.so.1; do
	ln -sfn ../libmpsshim.so "$MPSSHIM_BUILD/lib/mpsshim/$name"
done
for name in "$@"; do
	date +%T
	SET=$name RESULTS="$work/$name" python3 -B tests/bench/bench.py ||
		failed=1
done
date +%T
tar cf "$out/bench.tar" -C "$work" .
rm -rf "$work"
exit $failed
