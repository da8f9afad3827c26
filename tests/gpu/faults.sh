#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Faults and killed workers on a real GPU: other clients go on with their
# data, or hear what they lost, and how soon (tests/hostile/faults.c). Under
# a minute; a row that hangs is given up after ROW_S seconds (12), and what
# broker and worker are doing then is shown. Needs build/bin, build/lib and
# build/tests/{faults,puppet} of `make tests` ($MPSSHIM_BUILD); ROUNDS=
# repeats faults more often, ROWS=3,5 runs these rows only, LIMIT= is the
# time for all. Skips (77) where there is no GPU.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${MPSSHIM_BUILD:-$PWD/build}
if [ ! -e /dev/nvidiactl ]; then
	echo "no NVIDIA device here"
	exit 77
fi
unset MPSSHIM_PERF
MPSSHIM_DRIVER=cuda
ROW_S=${ROW_S:-12}
export MPSSHIM_DRIVER ROW_S
exec timeout -k 5 "${LIMIT:-60}" "$build/tests/faults" "$build/bin" \
	"$build/tests/puppet" "${ROUNDS:-2}"
