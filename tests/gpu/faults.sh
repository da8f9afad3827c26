#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Faults and killed workers on a real GPU: other clients go on with their
# data, or hear what they lost, and how soon (tests/hostile/faults.c). Under
# a minute. Needs build/bin, build/lib and build/tests/{faults,puppet} of
# `make tests` ($MPSSHIM_BUILD); ROUNDS= repeats faults more often. Skips (77)
# where there is no GPU.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${MPSSHIM_BUILD:-$PWD/build}
if [ ! -e /dev/nvidiactl ]; then
	echo "no NVIDIA device here"
	exit 77
fi
unset MPSSHIM_PERF
MPSSHIM_DRIVER=cuda
export MPSSHIM_DRIVER
exec timeout -k 5 "${LIMIT:-100}" "$build/tests/faults" "$build/bin" \
	"$build/tests/puppet" "${ROUNDS:-4}"
