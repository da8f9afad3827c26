#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154
#
# NVIDIA's libraries, unmodified, give a handle on the software device; what
# it cannot do, run machine code, is refused at the first launch and said in
# the worker's log. Libraries that are not on this machine are skipped.
set -u
# shellcheck source=tests/api/rows.sh
. "$(dirname "$0")/rows.sh"

# Some load hundreds of MiB of code.
row_limit=120
export LD_LIBRARY_PATH="$cuda/lib64:$cuda/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

for library in cublas cublasLt cudnn cufft curand cusolver cusparse nccl; do
	# Without the shim, because a library that cannot be opened with it
	# is no reason to skip.
	if "$T/libraries" "$library" present >"$work/present" 2>&1; then
		row "$library" "$mpsrun" "$T/libraries" "$library"
	else
		skip "$library" "$(tail -n 1 "$work/present")"
	fi
done

# 13 is CUBLAS_STATUS_EXECUTION_FAILED.
if "$T/libraries" cublas present >"$work/present" 2>&1; then
	row "cublasSgemm fails as a failed launch" \
		"$mpsrun" "$T/libraries" gemm 13
else
	skip "cublasSgemm fails as a failed launch" \
		"$(tail -n 1 "$work/present")"
fi

# 209 is CUDA_ERROR_NO_BINARY_FOR_GPU.
fresh
: >"$work/log"
row "first launch of machine code gives 209" "$mpsrun" "$T/sass" 209
lines=$(grep -c 'machine code' "$work/log")
if [ "$lines" -eq 1 ]; then
	pass "and one line of log" "$(grep 'machine code' "$work/log")"
else
	fail "and one line of log" "$lines lines"
	tail -n 5 "$work/log"
fi
finish_rows
