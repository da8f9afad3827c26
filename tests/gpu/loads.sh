#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What does a program that loads code again and again pay beside clients with
# long kernels, and what do those? COUNT images with a pause of PAUSE_MS after
# each, beside two clients whose kernels take KERNEL_MS, one after the other;
# natively and under mpsrun, about 10 s each. Fails if a load waits for as much
# as half a kernel of each of them on average: that is counted, not timed. Needs
# build/{bin,lib,tests} of `make tests` ($MPSSHIM_BUILD). DRIVER=soft for the
# software device; skips (77) where there is no GPU.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${MPSSHIM_BUILD:-$PWD/build}
T=$build/tests
driver=${DRIVER:-cuda}
kernel_ms=${KERNEL_MS:-200}
count=${COUNT:-60}
pause_ms=${PAUSE_MS:-30}
limit=${LIMIT:-40}

if [ "$driver" = cuda ] && [ ! -e /dev/nvidiactl ]; then
	echo "no NVIDIA device here"
	exit 77
fi
work=$(mktemp -d /tmp/mpsshim-loads.XXXXXX)
beside=()
end_beside() {
	[ ${#beside[@]} -eq 0 ] || kill "${beside[@]}" 2>/dev/null
	wait 2>/dev/null
	beside=()
}
end() {
	end_beside
	timeout 10 "$build/bin/mpsctl" quit --force >/dev/null 2>&1
	rm -rf "$work"
}
trap end EXIT
trap 'exit 1' INT TERM HUP
export CUDA_MPS_PIPE_DIRECTORY="$work/socket" MPSSHIM_DRIVER="$driver"
export MPSSHIM_LOG="info:$work/log"

kernels() {
	od -An -N8 -tu8 "$work/$1" 2>/dev/null | tr -d ' '
}
start_beside() {
	"${@:2}" "$T/beside" neighbour "$kernel_ms" "$work/$1" &
	beside+=($!)
	for _ in $(seq 500); do
		[ "$(kernels "$1" || true)" -gt 1 ] 2>/dev/null && return 0
		sleep 0.02
	done
	echo "FAIL  a neighbour does not start"
	return 1
}
# NAME [mpsrun]: loads and what ran beside them.
measure() {
	local name=$1 before rc
	shift
	start_beside "$name.1" "$@" && start_beside "$name.2" "$@" || return 1
	before=$(($(kernels "$name.1") + $(kernels "$name.2")))
	timeout "$limit" "$@" "$T/loader" "$count" "$pause_ms" >"$work/$name"
	rc=$?
	ran=$(($(kernels "$name.1") + $(kernels "$name.2") - before))
	end_beside
	echo "$name: $(cat "$work/$name") beside $ran kernels of $kernel_ms ms"
	return "$rc"
}

failed=0
if [ "$driver" = cuda ]; then
	CUDA_MPS_PIPE_DIRECTORY=/nonexistent measure native || failed=1
fi
measure mpsrun "$build/bin/mpsrun" || failed=1
if [ "$failed" -eq 0 ] && [ "$ran" -gt "$count" ]; then
	echo "FAIL  each load waited for a kernel"
	failed=1
fi
[ "$failed" -eq 0 ] && echo "ok"
exit "$failed"
