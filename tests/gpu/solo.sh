#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Clients with a worker of their own on a real GPU: the rows of
# tests/hostile/solo.c, and programs with a device heap, nested launches and
# larger limits, natively and under mpsrun, alone and four at once beside a
# client that shares. Some two minutes at most.
#
#	tests/gpu/solo.sh build	with nvcc: build-gpu/solo/{heap,nested,vecadd}
#	tests/gpu/solo.sh
#
# Needs those, and build/bin, build/lib and build/tests/{solo,puppet} of
# `make tests` ($MPSSHIM_BUILD). Skips (77) where there is no GPU.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${MPSSHIM_BUILD:-$PWD/build}
out="build-gpu/solo"
nvcc=${NVCC:-${CUDA:-/usr/local/cuda}/bin/nvcc}
arch=${ARCH:-sm_90}

if [ "${1:-}" = build ]; then
	mkdir -p "$out"
	"$nvcc" -O2 -arch="$arch" -o "$out/heap" tests/gpu/heap.cu || exit 1
	"$nvcc" -O2 -arch="$arch" -rdc=true -o "$out/nested" \
		tests/gpu/nested.cu -lcudadevrt || exit 1
	"$nvcc" -O2 -arch="$arch" -o "$out/vecadd" examples/vecadd.cu
	exit
fi
if [ ! -e /dev/nvidiactl ]; then
	echo "no NVIDIA device here"
	exit 77
fi
unset MPSSHIM_PERF MPSSHIM_SOLO
MPSSHIM_DRIVER=cuda
export MPSSHIM_DRIVER
room=$(mktemp -d)
CUDA_MPS_PIPE_DIRECTORY=$room/mps
MPSSHIM_IDLE_S=20
export CUDA_MPS_PIPE_DIRECTORY MPSSHIM_IDLE_S
passed=0 failed=0

row() {
	name=$1
	shift
	if "$@" >"$room/said" 2>&1; then
		echo "ok    $name"
		passed=$((passed + 1))
	else
		echo "FAIL  $name"
		sed 's/^/        /' "$room/said"
		failed=$((failed + 1))
	fi
}

# The same text as natively, alone and four at once.
same() {
	env -u CUDA_MPS_PIPE_DIRECTORY timeout 30 "$@" >"$room/native" 2>&1 || {
		cat "$room/native"
		return 1
	}
	timeout 30 "$build/bin/mpsrun" "$@" >"$room/ours" 2>&1
	diff "$room/native" "$room/ours" || return 1
	for i in 1 2 3 4; do
		timeout 40 "$build/bin/mpsrun" "$@" >"$room/ours.$i" 2>&1 &
	done
	wait
	for i in 1 2 3 4; do
		diff "$room/native" "$room/ours.$i" || return 1
	done
}

row "a device heap" same "$out/heap"
row "a device heap of 256 MiB" same "$out/heap" 268435456
row "nested launches" same "$out/nested"
row "a client that shares" same "$out/vecadd"
row "nested launches, asked to be solo" \
	env MPSSHIM_SOLO=1 "$build/bin/mpsrun" "$out/nested"
cp "$room/mps/mpsd.log" "${OUT:-$room}/solo-mpsd.log" 2>/dev/null
timeout 20 "$build/bin/mpsctl" quit --force
echo "$passed passed, $failed failed (programs)"
rm -rf "$room"
unset CUDA_MPS_PIPE_DIRECTORY MPSSHIM_IDLE_S
ROW_S=${ROW_S:-45}
export ROW_S
timeout -k 5 "${LIMIT:-120}" "$build/tests/solo" "$build/bin" \
	"$build/tests/puppet" "${ROUNDS:-6}" || failed=$((failed + 1))
[ "$failed" -eq 0 ]
