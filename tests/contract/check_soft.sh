#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The software device keeps every sentence about the driver that the
# contract programs state. A program that needs a function which it does not
# export is skipped, with the function's name.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${MPSSHIM_BUILD:-$PWD/build}
soft=$build/lib/libsoftcuda.so
if [ ! -r "$soft" ]; then
	echo "libsoftcuda.so is not built"
	exit 77
fi
# As it is by default: with all that the real driver makes others wait for.
unset SOFTCUDA_DEVICES SOFTCUDA_RELAX SOFTCUDA_FAULT CUDA_VISIBLE_DEVICES
# The programs' processes share a device, with nobody else.
export SOFTCUDA_ACCOUNT="contract-$$"
trap 'rm -f /dev/shm/softcuda-*-"$SOFTCUDA_ACCOUNT"' EXIT
tests/contract/run.sh "$soft" "$build/tests/contract"
rc=$?
# A library that is there and passes nothing is no reason to skip.
[ "$rc" -ne 77 ] || rc=1
exit "$rc"
