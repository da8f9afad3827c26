#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154
#
# Unmodified CUDA runtimes of three major releases start on the shim, accept
# it as a genuine driver, and run a registered kernel on the software device.
# One wrong bit in the integrity answer makes each of them give 103
# (cudaErrorSoftwareValidityNotEstablished) from its first call on.
# The same rows pass natively on driver 580.159.04 (CUDA 13.0), the runtimes
# newer than that driver included: a major release runs on every driver of
# the same major release.
# Runtimes come from PyPI, once, into .deps/cudart. Without them: skipped.
set -u
# shellcheck source=tests/api/rows.sh
. "$(dirname "$0")/rows.sh"

runtimes="nvidia-cuda-runtime-cu11==11.8.89
nvidia-cuda-runtime-cu12==12.0.146
nvidia-cuda-runtime-cu12==12.4.127
nvidia-cuda-runtime-cu12==12.9.79
nvidia-cuda-runtime==13.0.96
nvidia-cuda-runtime==13.2.86
nvidia-cuda-runtime==13.5.37"
store=$top/.deps/cudart
pip=$top/.deps/venv/bin/pip

# Debian's own pip refuses to install outside of a virtual environment.
have_pip() {
	[ -x "$pip" ] || python3 -m venv "$top/.deps/venv" >"$work/pip" 2>&1
}

unpack() {
	python3 - "$@" <<-'END'
	import os, sys, zipfile

	wheel, folder = sys.argv[1:]
	with zipfile.ZipFile(wheel) as z:
	    for name in z.namelist():
	        if os.path.basename(name).startswith("libcudart.so."):
	            part = os.path.join(folder, os.path.basename(name))
	            with open(part + ".part", "wb") as f:
	                f.write(z.read(name))
	            os.rename(part + ".part", part)
	END
}

bundle=/etc/ssl/certs/ca-certificates.crt
[ -r "$bundle" ] && export PIP_CERT="${PIP_CERT:-$bundle}"

# One attempt: if a package cannot be had, the others are not tried.
unreachable=
fetch() {
	[ -z "$unreachable" ] || return 1
	mkdir -p "$2"
	have_pip && timeout 120 "$pip" download -q --no-deps --retries 1 \
		--timeout 20 --disable-pip-version-check \
		--only-binary :all: -d "$work/wheel" "$1" >"$work/pip" 2>&1 &&
		unpack "$work"/wheel/*.whl "$2" && rm -rf "$work/wheel" &&
		return 0
	unreachable=$(tail -n 1 "$work/pip")
	return 1
}

for package in $runtimes; do
	version=${package##*==}
	folder=$store/$version
	set -- "$folder"/libcudart.so.*
	[ -e "$1" ] || fetch "$package" "$folder" || {
		skip "cudart $version" "not fetched: $unreachable"
		continue
	}
	set -- "$folder"/libcudart.so.*
	row "cudart $version" "$mpsrun" "$T/register" "$1"
	for how in none speed size; do
		row "cudart $version, nvcc's fatbin, compress-mode $how" \
			"$mpsrun" "$T/register" "$1" "$T/register-$how.fatbin"
	done
done

for example in vecadd streams; do
	if [ -x "$build/examples/$example" ]; then
		row "static cudart: $example" "$mpsrun" \
			"$build/examples/$example"
	else
		skip "static cudart: $example" "not built"
	fi
done
row "static cudart: vecadd, relocatable device code" "$mpsrun" "$T/vecadd-rdc"
finish_rows
