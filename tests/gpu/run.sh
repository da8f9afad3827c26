#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Everything that is proved on a real GPU, in one go: the shared context, the
# API programs natively and under mpsrun with their lines compared, the
# runtimes, the contract programs, and the table of real programs. Skips (77)
# where there is no GPU.
# Needs the outputs of `make tests` in $MPSSHIM_BUILD; results go to $OUT.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${MPSSHIM_BUILD:-$PWD/build}
export MPSSHIM_BUILD="$build" MPSSHIM_DRIVER=cuda
out=${OUT:-$(mktemp -d)}
bin=$build/bin t=$build/tests
passed=0 failed=0

if [ ! -e /dev/nvidiactl ]; then
	echo "no NVIDIA device here"
	exit 77
fi
row() {
	if [ "$1" -eq 0 ]; then
		passed=$((passed + 1))
		echo "ok    $2"
	else
		failed=$((failed + 1))
		echo "FAIL  $2"
	fi
}

echo "== shared context"
timeout 200 tests/gpu/shared_context.sh >"$out/shared_context.txt" 2>&1
row $? "shared_context.sh: $(tail -n 1 "$out/shared_context.txt")"
grep -a -A6 '^FAIL' "$out/shared_context.txt"

echo "== the same lines natively and under mpsrun"
CUDA_MPS_PIPE_DIRECTORY=$(mktemp -d)
export CUDA_MPS_PIPE_DIRECTORY
# Not what the driver crashes at.
export FACTS_COMPARABLE=1
: >"$out/compare.txt"
compare() {
	name=$1
	shift
	# Natively no daemon is to be looked for in our directory.
	CUDA_MPS_PIPE_DIRECTORY=/nonexistent timeout 60 "$@" \
		>"$out/native" 2>&1
	a=$?
	timeout 60 "$bin/mpsrun" "$@" >"$out/shim" 2>&1
	b=$?
	{
		echo "=== $name: native exit $a, mpsrun exit $b"
		diff "$out/native" "$out/shim"
	} >"$out/diff"
	d=$?
	cat "$out/diff" >>"$out/compare.txt"
	[ $a -eq $b ] && [ $d -eq 0 ]
	row $? "$name: exits $a and $b, $(grep -c '^[<>]' "$out/diff") lines differ"
	head -n 12 "$out/diff" | grep '^[<>]' | cut -c1-160
}
for p in answers threads graphs graphs_rt managed_rt graphs_moved graphs_if graphs_memory memory_vmm memory_pool memory_host mapped mapped_parts \
	copies attributes batches memops graphs_memops textures tensor linker queries launch_set ipc ipc_tokens kill_client; do
	[ -x "$t/$p" ] || continue
	case $p in
	answers) compare $p "$t/$p" tests/api/errors_real.tsv ;;
	*) compare $p "$t/$p" ;;
	esac
done
rm -f "$out/native" "$out/shim" "$out/diff"
timeout 20 "$bin/mpsctl" status >>"$out/compare.txt" 2>&1
cp "$CUDA_MPS_PIPE_DIRECTORY/mpsd.log" "$out/mpsd.txt" 2>/dev/null
timeout 20 "$bin/mpsctl" quit --force >/dev/null 2>&1
unset CUDA_MPS_PIPE_DIRECTORY

if [ -d "${CONTRACT:=$t/contract}" ]; then
	echo "== contract"
	timeout 150 tests/contract/run.sh libcuda.so.1 "$CONTRACT" \
		>"$out/contract.txt" 2>&1
	row $? "contract: $(tail -n 1 "$out/contract.txt")"
	grep -a -A4 '^fail' "$out/contract.txt"
fi

echo "== programs"
OUT=$out timeout 300 tests/gpu/programs.sh -t "${PROGRAMS_S:-200}" \
	>"$out/programs.txt" 2>&1
row $? "programs.sh: $(tail -n 1 "$out/programs.txt")"
cat "$out/programs.txt"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
