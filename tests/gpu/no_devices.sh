#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Clients of a broker that runs outside need no device file: programs run where
# /dev has none (without_devices.sh), print what they print natively, and have
# no /dev/nvidia* open, not even through NVML. Under 45 s on a GPU. What else
# there is to say, programs.sh says; skips (77) where there is no GPU, or no
# namespace. PROGRAMS="NAME..." takes others.
set -u
cd "$(dirname "$0")/../.." || exit 1
tests/gpu/without_devices.sh true || exit 77
# JAX looks whether there is a file of that name, and does not open it (README,
# Limits); then it asks NVML. It is not to take the CPU instead.
export EMPTY_FILES=nvidia0 JAX_PLATFORMS=cuda
if [ -n "${PROGRAMS:-}" ]; then
	eval "set -- $PROGRAMS"
else
	set -- examples vadd nvrtc 'numba kernels' 'cupy basics' \
		'triton kernels' 'jax basics' 'torch streams' 'torch gemm' \
		'torch graphs'
fi
if [ "${MPSSHIM_DRIVER:-cuda}" != cuda ]; then
	exec tests/gpu/programs.sh -d -n -j 2 -t 100 "$@"
fi
exec tests/gpu/programs.sh -d -j 12 -t 60 "$@"
