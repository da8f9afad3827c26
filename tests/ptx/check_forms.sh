#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The software device computes for every PTX form what an H200 computed. A
# form that it refuses to load is listed in forms.tsv as not accepted and
# skipped.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${MPSSHIM_BUILD:-$PWD/build}
DRIVER=$build/lib/libsoftcuda.so
export DRIVER
if [ ! -r "$DRIVER" ]; then
	echo "libsoftcuda.so is not built"
	exit 77
fi
unset SOFTCUDA_DEVICES SOFTCUDA_FAULT CUDA_VISIBLE_DEVICES
"$build/tests/forms" check
rc=$?
# A library that is there and runs nothing is no reason to skip.
[ "$rc" -ne 77 ] || rc=1
exit "$rc"
