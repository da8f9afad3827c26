#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Workers end on the software device, by faults and by SIGKILL, and their
# clients go on: tests/hostile/faults.c. ROUNDS= repeats faults more often.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${MPSSHIM_BUILD:-$PWD/build}
if [ -n "${MPSSHIM_SAN:-}" ]; then
	echo "a sanitized shim cannot be preloaded into a plain program"
	exit 77
fi
unset MPSSHIM_PERF CUDA_VISIBLE_DEVICES
MPSSHIM_DRIVER=soft
export MPSSHIM_DRIVER
ROW_S=${ROW_S:-100}
export ROW_S
exec timeout 280 "$build/tests/faults" "$build/bin" "$build/tests/puppet" \
	"${ROUNDS:-8}"
