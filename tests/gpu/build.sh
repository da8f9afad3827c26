#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds what runs against a driver library: tests/ptx/forms, the programs
# of tests/contract, and the recorders of tests/gpu.
#
#	tests/gpu/build.sh [FOLDER]
#
# FOLDER is where binaries go (build-gpu/bin without). CC and CUDA choose the
# compiler and the toolkit. Needs cuda.h, no driver and no GPU.
set -eu
cd "$(dirname "$0")/../.."
out=${1:-build-gpu/bin}
cc=${CC:-gcc}
cuda=${CUDA:-/usr/local/cuda}
flags="-std=gnu11 -O2 -g1 -D_GNU_SOURCE -Wall -Wextra -Wstrict-prototypes
	-Wmissing-prototypes -Wshadow -Wvla -Werror -I. -I$cuda/include"
libs="-ldl -lpthread -lm"
mkdir -p "$out/contract"

for f in drv held neighbour descriptor; do
	$cc $flags -c "tests/contract/$f.c" -o "$out/$f.o"
done
$cc $flags tests/ptx/forms*.c "$out/drv.o" -o "$out/forms" $libs
$cc $flags tests/gpu/record_procaddr.c "$out/drv.o" \
	-o "$out/record_procaddr" $libs
for f in tests/contract/*.c; do
	name=$(basename "$f" .c)
	case $name in
	drv | held | neighbour | descriptor) continue ;;
	esac
	$cc $flags "$f" "$out/drv.o" "$out/held.o" "$out/neighbour.o" \
		"$out/descriptor.o" -o "$out/contract/$name" $libs
done
rm -f "$out/drv.o" "$out/held.o" "$out/neighbour.o" "$out/descriptor.o"
