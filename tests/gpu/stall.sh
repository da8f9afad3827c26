#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Who waits for a neighbour's kernel of 2 s, and whom does a third client wait
# for? Three clients of one broker: the neighbour launches such kernels one
# after the other, the third an empty one every 50 us, and the programs of
# tests/api, whose driver calls are timed, call (nearly) all that is served.
# First without the neighbour, then with it; stall/stall.py compares and judges.
# Under a minute on a GPU. Needs build/{bin,lib,tests} and
# build/gen/timed_names.h of `make tests` ($MPSSHIM_BUILD); the table goes to
# $OUT/stall.tsv. DRIVER=soft for the software device; skips (77) where there
# is no GPU. JUDGE=no prints what is beyond a bound, and fails only for
# programs that did.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${MPSSHIM_BUILD:-$PWD/build}
T=$build/tests
driver=${DRIVER:-cuda}
out=${OUT:-$(mktemp -d)}
kernel_ms=${KERNEL_MS:-2000}
# A program that loads a hundred images one after the other waits for as many
# of the neighbour's kernels: what it did until then counts.
limit=${LIMIT:-25}
jobs=${JOBS:-6}
programs=${PROGRAMS:-rest answers graphs graphs_moved memory_vmm memory_pool
	memory_host copies batches pageable textures tensor linker ipc ipc_tokens
	threads graphs_rt}

if [ "$driver" = cuda ] && [ ! -e /dev/nvidiactl ]; then
	echo "no NVIDIA device here"
	exit 77
fi
work=$(mktemp -d /tmp/mpsshim-stall.XXXXXX)
beside=
end() {
	[ -z "$beside" ] || kill $beside 2>/dev/null
	timeout 10 "$build/bin/mpsctl" quit --force >/dev/null 2>&1
	[ -n "${KEEP:-}" ] || rm -rf "$work"
}
trap end EXIT
trap 'exit 1' INT TERM HUP
export CUDA_MPS_PIPE_DIRECTORY="$work/socket" MPSSHIM_DRIVER="$driver"
export TIMED_DRIVER="$build/lib/libmpsshim.so" MPSSHIM_LOG="info:$work/log"

run() {
	"$build/bin/mpsrun" "$@"
}
# What it does counts only once its code is loaded and it goes round.
start_beside() {
	file=$1
	shift
	run "$T/beside" "$@" "$file" &
	beside="$beside $!"
	for _ in $(seq 500); do
		[ -s "$file" ] && [ "$(od -An -N8 -tu8 "$file")" -gt 0 ] &&
			return 0
		sleep 0.02
	done
	echo "FAIL  $* does not start"
	return 1
}
# shellcheck disable=SC2317
timed() {
	args=
	[ "$1" != answers ] || args=tests/api/errors_real.tsv
	[ -x "$T/$1" ] || return 0
	# shellcheck disable=SC2086
	timeout -k 2 "$limit" "$build/bin/mpsrun" env \
		LD_PRELOAD="$T/timed.so $build/lib/libmpsshim.so" \
		"$T/$1" $args >"$TIMED_DIR/$1.txt" 2>&1 </dev/null
	echo "$1 $?" >>"$TIMED_DIR/exits"
}
export -f timed
export T build limit
# All programs, so many at a time. Exit 1 if what is beside them ended.
all_timed() {
	export TIMED_DIR="$1"
	# shellcheck disable=SC2086
	printf '%s\n' $programs | xargs -P "$jobs" -I '{}' bash -c 'timed {}'
	for pid in $beside; do
		kill -0 "$pid" || return 1
	done
}
end_beside() {
	# shellcheck disable=SC2086
	kill $beside
	beside=
}

# Some programs fill all the memory that there is for them, and others come
# beside them.
mkdir -m 700 "$work/socket"
"$build/bin/mpsd" --device-limit=1G || exit 1
mkdir "$work/alone" "$work/beside"
start_beside "$work/alone/third.spans" third || exit 1
all_timed "$work/alone" || exit 1
end_beside
cp "$work/log" "$work/alone/log"
start_beside "$work/beside/third.spans" third || exit 1
start_beside "$work/beside/neighbour.spans" neighbour "$kernel_ms" || exit 1
all_timed "$work/beside" || exit 1
end_beside
tail -n "+$(($(wc -l <"$work/alone/log") + 1))" "$work/log" >"$work/beside/log"

# A neighbour changes no answer; 124 is a program that ran out of time.
bad=0
for when in alone beside; do
	grep -v ' \(0\|124\)$' "$work/$when/exits" >"$work/bad" || continue
	while read -r program status; do
		echo "FAIL  $program, $when: exit $status"
		grep -v '^\(yes\|ok\)' "$work/$when/$program.txt" | tail -n 5
	done <"$work/bad"
	bad=1
done
# What the worker saw of it: calls of its own that the driver kept for long.
for when in alone beside; do
	sed -n "s/^.* a slow call of the driver: /$when: /p" \
		"$work/$when/log"
done
python3 tests/gpu/stall/stall.py "$build/gen/timed_names.h" "$work/alone" \
	"$work/beside" "$out/stall.tsv" || [ "${JUDGE:-yes}" = no ] || bad=1
echo "the table: $out/stall.tsv"
exit "$bad"
