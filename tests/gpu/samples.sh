#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Fetches and builds the programs of the table that are not ours and not
# installed with a Python package:
#
#	tests/gpu/samples.sh [FOLDER]
#
# Thrust's and CUB's examples (Debian's libthrust-dev and libcub-dev),
# CUTLASS's examples (PyPI's nvidia-cutlass), hashcat (Debian), OpenMM with its CUDA platform and
# CuPy's tests (PyPI), expecttest and filecheck (which the test suites of
# PyTorch and numba need).
# Each is unmodified. They are under Apache-2.0, BSD-3, MIT and LGPL, and
# stay out of the tree: sources in .deps/samples, what runs in FOLDER
# (.carry/samples), machine code and PTX for sm_90, and all of it packed in
# FOLDER.tar.gz, to take to another machine. PYTHON needs pip, and setuptools
# and Cython for CuPy; OpenMM is for CPython 3.12. What cannot be fetched or
# built is said, and its rows of the table are skipped.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=${1:-.carry/samples}
cuda=${CUDA:-/usr/local/cuda}
python=${PYTHON:-python3}
store=.deps/samples
log=$store/log
mkdir -p "$out/bin" "$out/python" "$log" "$store/deb" "$store/pip"
out=$(cd "$out" && pwd)
store=$(cd "$store" && pwd)
log=$store/log
failed=0

try() {
	what=$1
	shift
	if ! "$@" >"$log/$what" 2>&1; then
		echo "$what: $(tail -n 1 "$log/$what" | cut -c1-120)"
		failed=$((failed + 1))
		return 1
	fi
}
deb() {
	[ -d "$store/$1" ] && return
	(cd "$store/deb" && apt-get -qq download "$1") &&
		mkdir "$store/$1" && dpkg -x "$store/deb/$1"_*.deb "$store/$1"
}
wheel() {
	[ -d "$store/$1" ] && return
	rm -rf "$store/pip"
	"$python" -m pip download -q --no-deps --only-binary :all: \
		--python-version 3.12 --implementation cp \
		--platform manylinux_2_34_x86_64 \
		--platform manylinux2014_x86_64 -d "$store/pip" "$1$2" &&
		"$python" -m zipfile -e "$store"/pip/*.whl "$store/$1"
}
compile() {
	name=$1
	shift
	[ -x "$out/bin/$name" ] && return
	try "$name" timeout 900 "$cuda/bin/nvcc" -std=c++17 -O2 -w \
		-arch=sm_90 -o "$out/bin/$name" "$@"
}

if try hashcat deb hashcat && try hashcat-data deb hashcat-data &&
	try libminizip1 deb libminizip1 && try libxxhash0 deb libxxhash0; then
	mkdir -p "$out/hashcat/modules"
	cp "$store"/hashcat/usr/bin/hashcat \
		"$store"/libminizip1/usr/lib/*/libminizip.so.1 \
		"$store"/libxxhash0/usr/lib/*/libxxhash.so.0 "$out/hashcat/"
	mkdir -p "$out/hashcat/OpenCL"
	share=$(dirname "$(find "$store"/hashcat*/usr -name OpenCL)")
	cp -r "$(find "$store"/hashcat*/usr -name hashcat.hcstat2)" \
		"$(find "$store"/hashcat*/usr -name tunings)" "$out/hashcat/"
	cp "$share"/OpenCL/inc_* "$out/hashcat/OpenCL/"
	cp "$share"/OpenCL/*.h "$share"/OpenCL/markov* \
		"$share"/OpenCL/shared* "$share"/OpenCL/amp_* \
		"$out/hashcat/OpenCL/"
	# It looks for the kernels of 400 before anything else.
	for m in 00000 00400 01400; do
		cp "$share/OpenCL/m$m"* "$out/hashcat/OpenCL/"
		cp "$(find "$store"/hashcat*/usr -name "module_$m.so")" \
			"$out/hashcat/modules/"
	done
fi
for w in openmm openmm-cuda-13 expecttest filecheck; do
	try "$w" wheel "$w" "" && cp -r "$store/$w"/* "$out/python/"
done
if [ ! -d "$out/cupy_tests" ] && try cupy "$python" -m pip download -q \
	--no-deps --no-build-isolation --no-binary :all: -d "$store/pip-cupy" \
	cupy==14.2.0; then
	mkdir -p "$out/cupy_tests" && tar -xzf "$store"/pip-cupy/cupy-*.tar.gz \
		-C "$out/cupy_tests" --strip-components=2 --wildcards \
		'*/tests/*'
fi
if try libthrust-dev deb libthrust-dev; then
	examples=$store/libthrust-dev/usr/share/doc/libthrust-dev/examples
	for f in "$examples"/*.cu "$examples"/cuda/*.cu; do
		case $f in
		# No kernel of its own; a host back end of its own.
		*/version.cu | */minimal_custom_backend.cu) continue ;;
		esac
		compile "$(basename "$f" .cu)" --extended-lambda \
			-include tests/gpu/samples_compat.h -I"$examples" \
			-I"$(dirname "$f")" "$f"
	done
fi
if try libcub-dev deb libcub-dev; then
	examples=$store/libcub-dev/usr/share/doc/libcub-dev/examples
	mkdir -p "$examples/../test"
	cp tests/gpu/samples_cub.h "$examples/../test/test_util.h"
	for f in "$examples"/device/*.cu "$examples"/block/*.cu; do
		name=$(basename "$f" .cu)
		# Names a template parameter that CCCL 3 has not.
		[ "$name" = example_block_reduce_dyn_smem ] && continue
		compile "cub_${name#example_}" "$f"
	done
fi
if try nvidia-cutlass wheel nvidia-cutlass ==4.2.0.0; then
	source=$store/nvidia-cutlass/cutlass_library/source
	for f in 00_basic_gemm/basic_gemm 05_batched_gemm/batched_gemm \
		14_ampere_tf32_tensorop_gemm/ampere_tf32_tensorop_gemm; do
		compile "cutlass_$(basename $f)" --expt-relaxed-constexpr \
			-I"$source/include" -I"$source/tools/util/include" \
			-I"$source/examples/common" "$source/examples/$f.cu"
	done
fi
tar -czf "$out.tar.gz" -C "$out" .
echo "$(find "$out/bin" -type f | wc -l) programs built, $failed missing," \
	"$(du -m "$out.tar.gz" | cut -f1) MiB in $out.tar.gz"
[ "$failed" -eq 0 ]
