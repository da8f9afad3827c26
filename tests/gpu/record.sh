#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Records what a real driver and GPU answer. From the root of the tree:
#
#	tests/gpu/build.sh .carry/bin          (any machine with cuda.h)
#	OUT=folder tests/gpu/record.sh [BIN]   (the machine with the GPU)
#
# Writes to OUT: forms.tsv (replaces tests/ptx/forms.tsv), procaddr_real.tsv
# (replaces the one in tests/api), contract.txt (a line per contract program
# and what it printed), log.txt. BIN is .carry/bin without an argument.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=${1:-.carry/bin}
out=${OUT:?a folder for the results}
export CUDA_CACHE_DISABLE=1
{
	nvidia-smi --query-gpu=name,driver_version,memory.total \
		--format=csv,noheader
	uname -r
	date -u +%FT%TZ
} >"$out/log.txt" 2>&1

echo "== forms" >>"$out/log.txt"
timeout -k 5 80 "$bin/forms" record >"$out/forms.tsv" 2>>"$out/log.txt"
echo "status $?, $(date +%s)" >>"$out/log.txt"

echo "== procaddr" >>"$out/log.txt"
timeout -k 5 20 "$bin/record_procaddr" tests/api/procaddr_names.tsv \
	>"$out/procaddr_real.tsv" 2>>"$out/log.txt"
echo "status $?, $(date +%s)" >>"$out/log.txt"

echo "== contract" >>"$out/log.txt"
timeout -k 5 135 tests/contract/run.sh "${DRIVER:-libcuda.so.1}" \
	"$bin/contract" >"$out/contract.txt" 2>&1
echo "status $?, $(date +%s)" >>"$out/log.txt"
tail -n 40 "$out/log.txt"
grep -E '^(fail|skip)|passed,' "$out/contract.txt"
