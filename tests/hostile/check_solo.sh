#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Clients with a worker of their own, on the software device:
# tests/hostile/solo.c.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${MPSSHIM_BUILD:-$PWD/build}
if [ -n "${MPSSHIM_SAN:-}" ]; then
	echo "a sanitized shim cannot be preloaded into a plain program"
	exit 77
fi
unset MPSSHIM_PERF MPSSHIM_SOLO CUDA_VISIBLE_DEVICES
MPSSHIM_DRIVER=soft
export MPSSHIM_DRIVER
exec timeout 280 "$build/tests/solo" "$build/bin" "$build/tests/puppet"
