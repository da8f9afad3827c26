#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154
#
# The directory of socket and log lies on a disk that is full: what programs
# compute does not depend on it, a broker that cannot start says why, and what
# is lost is lines of the log. On a file system of our own, in a mount
# namespace.
set -u
if [ -z "${MPSSHIM_OWN_MOUNTS:-}" ]; then
	export MPSSHIM_OWN_MOUNTS=1
	for how in -m -rm; do
		unshare $how true 2>/dev/null && exec unshare $how "$0" "$@"
	done
	echo "no mount namespace may be made here"
	exit 77
fi
# shellcheck source=tests/api/rows.sh
. "$(dirname "$0")/../api/rows.sh"
unset MPSSHIM_LOG
guest=$T/guest_cuda
disk=$work/disk
mkdir "$disk"
if ! mount -t tmpfs -o size=256k,nr_inodes=16 none "$disk"; then
	echo "no file system may be mounted here"
	exit 77
fi
export CUDA_MPS_PIPE_DIRECTORY=$disk/mps

fill() {
	# It fails, that is its purpose.
	cat /dev/zero >"$disk/zeros" 2>/dev/null
	! echo more >"$disk/more" 2>/dev/null || [ ! -s "$disk/more" ]
}
empty() {
	rm -f "$disk"/zeros* "$disk/more"
}
fill_inodes() {
	n=0
	while : >"$disk/zeros$n"; do
		n=$((n + 1))
	done 2>/dev/null
	[ "$n" -gt 0 ]
}

row 'a program on a disk with room' "$mpsrun" "$guest" run
row 'the disk is full' fill
row 'programs run, and nothing is said' \
	bash -c '[ -z "$("$mpsrun" "$guest" run 2>&1 >/dev/null)" ] &&
		"$mpsrun" "$guest" twice'
row 'the broker answers' "$bin/mpsctl" status
row 'a log file of the program there is no matter' \
	env MPSSHIM_LOG="debug:$disk/own" "$mpsrun" "$guest" run
worker() {
	"$bin/mpsctl" status --json | python3 -c 'import json, sys
print(*(w["pid"] for w in json.load(sys.stdin)["workers"]))'
}
# A new worker wants files of its own, all of them in memory.
lost_worker() {
	kill -9 "$(worker)" && "$mpsrun" "$guest" run
}
row 'a worker is lost and replaced' lost_worker

lines() {
	empty
	before=$(wc -l <"$disk/mps/mpsd.log")
	"$mpsrun" "$guest" run || return 1
	after=$(wc -l <"$disk/mps/mpsd.log")
	echo "$before lines, then $after"
	[ "$after" -gt "$before" ]
}
row 'with room again there are lines again' lines
row 'the broker ends' "$bin/mpsctl" quit

# The directory is there, and what a start needs are names.
row 'the disk is full again' fill
row 'a broker starts and serves' "$mpsrun" "$guest" run
row 'and ends' "$bin/mpsctl" quit
empty
row 'not one file more has room' fill_inodes
rm -f "$disk"/mps/*
row 'not one file more has room, lock and log taken' fill_inodes
cannot() {
	"$mpsrun" "$guest" run >"$work/out" 2>"$work/err"
	rc=$?
	cat "$work/err"
	[ "$rc" -eq 125 ] && [ ! -s "$work/out" ] &&
		[ "$(wc -l <"$work/err")" -eq 1 ] &&
		grep -q 'No space left on device' "$work/err"
}
row 'no broker can start, and one line says why' cannot
without() {
	LD_PRELOAD=$build/lib/libmpsshim.so "$guest" run \
		>"$work/out" 2>"$work/err"
	rc=$?
	cat "$work/err"
	[ "$rc" -eq 3 ] && [ "$(wc -l <"$work/err")" -eq 1 ] &&
		grep -q 'No space left on device' "$work/err"
}
row 'a preloaded program gets a code and the same line' without
empty
row 'with room again it starts' "$mpsrun" "$guest" run
end_broker
umount "$disk"
finish_rows
