#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What a build of this tree needs, on Debian 12, as root or with sudo.
# Without a CUDA toolkit, headers and nvcc come from PyPI into .deps/.
# Idempotent, and quick when nothing is missing. Usage: deps.sh [CUDA_HOME]
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
cuda=${1:-/usr/local/cuda}

packages="gcc g++ libc6-dev make python3 python3-venv ca-certificates
protobuf-c-compiler libprotobuf-c-dev libffi-dev check libsubunit-dev
liblz4-dev libzstd-dev procps"

# All 13.0.*: what nvcc, its headers and the static runtime consist of.
wheels="nvidia-cuda-runtime==13.0.96 nvidia-cuda-nvcc==13.0.88
nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85
nvidia-cuda-profiler-api==13.0.85"

missing=
for p in $packages; do
	dpkg-query -W -f '${Status}' "$p" 2>/dev/null |
		grep -q 'ok installed' || missing="$missing $p"
done
if [ -n "$missing" ]; then
	sudo=
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null || {
			echo "deps: need root or sudo to install:$missing" >&2
			exit 1
		}
		sudo=sudo
	fi
	echo "deps: apt-get install$missing"
	$sudo apt-get update -qq
	# shellcheck disable=SC2086
	DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq \
		--no-install-recommends $missing >/dev/null
fi

if [ -x "$cuda/bin/nvcc" ] && [ -r "$cuda/include/cudaTypedefs.h" ] &&
	[ -r "$cuda/include/cudaProfiler.h" ] &&
	[ "$cuda" != .deps/cuda ]; then
	exit 0
fi
# Complete means: by this very script.
sum=$(cksum <"$0")
if [ "$(cat "$top/.deps/complete" 2>/dev/null)" = "$sum" ]; then
	exit 0
fi
echo "deps: no CUDA toolkit found; headers and nvcc 13.0 from PyPI"
mkdir -p "$top/.deps"
[ -x "$top/.deps/venv/bin/pip" ] || python3 -m venv "$top/.deps/venv"
# pip of the virtual environment looks at its own CA bundle unless told.
bundle=/etc/ssl/certs/ca-certificates.crt
[ -r "$bundle" ] && export PIP_CERT="${PIP_CERT:-$bundle}"
rm -rf "$top/.deps/site"
# shellcheck disable=SC2086
"$top/.deps/venv/bin/pip" install -q --no-deps --no-compile \
	--disable-pip-version-check --target "$top/.deps/site" $wheels
# nvcc looks for the runtime where a toolkit has it.
ln -sfn lib "$top/.deps/site/nvidia/cu13/lib64"
ln -sfn site/nvidia/cu13 "$top/.deps/cuda"
chmod +x "$top"/.deps/cuda/bin/* "$top"/.deps/cuda/nvvm/bin/* 2>/dev/null || :
echo "$sum" >"$top/.deps/complete"
