#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Whoever has waited sees the newest data: torture.c under mpsrun, several
# clients of one broker at once.
#
#	[ROUNDS=N] [CLIENTS=N] [SECONDS_MAX=N] tests/gpu/torture.sh
#
# Of 10^7 rounds in all, for 100 s at most; what was done in that time counts.
# Then again in few rounds, each of which looks before it waits and has to see
# old data. DRIVER=soft for the software device; skips (77) where there is no
# GPU. Needs bin, lib and tests/torture in $MPSSHIM_BUILD (by default build);
# `make bench-stage` leaves them in .carry/bench.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${MPSSHIM_BUILD:-$PWD/build}
driver=${DRIVER:-cuda}
rounds=${ROUNDS:-10000000}
clients=${CLIENTS:-8}
seconds=${SECONDS_MAX:-100}

if [ "$driver" = cuda ] && [ ! -e /dev/nvidiactl ]; then
	echo "no NVIDIA device here"
	exit 77
fi
work=$(mktemp -d /tmp/mpsshim-torture.XXXXXX)
export CUDA_MPS_PIPE_DIRECTORY="$work/socket" MPSSHIM_DRIVER="$driver"
pids=
# shellcheck disable=SC2317
end() {
	[ -z "$pids" ] || kill $pids 2>/dev/null
	timeout 20 "$build/bin/mpsctl" quit --force >/dev/null 2>&1
	rm -rf "$work"
}
trap end EXIT
trap 'exit 1' INT TERM HUP

# CLIENTS ROUNDS [early]: the exits that were not 0, and the sum of each way.
play() {
	count=$1
	each=$((($2 + count - 1) / count))
	shift 2
	rm -f "$work"/out.* "$work"/err.*
	pids='' bad=0
	for i in $(seq "$count"); do
		timeout $((seconds + 30)) "$build/bin/mpsrun" \
			"$build/tests/torture" "$each" "$seconds" "$@" \
			>"$work/out.$i" 2>"$work/err.$i" &
		pids="$pids $!"
	done
	for pid in $pids; do
		wait "$pid" || bad=$((bad + 1))
	done
	pids=''
	# "the way", N rounds, M old
	sed -n 's/^\(.*[^ ]\)  *\([0-9]*\) rounds  *\([0-9]*\) old$/\1:\2:\3/p' \
		"$work"/out.* | awk -F : '
		{ n[$1] += $2; old[$1] += $3 }
		END {
			for (way in n)
				printf "%-24s %9d rounds %9d old\n", way,
					n[way], old[way]
		}' | sort
	awk '/^rounds/ { n += $2; m += $4 } END { print n + 0, m + 0 }' \
		"$work"/out.* >"$work/sum"
	read -r ran old <"$work/sum"
}

rc=0
play "$clients" "$rounds"
echo "rounds $ran, mismatches $old, clients $clients"
if [ "$bad" -ne 0 ] || [ "$old" -ne 0 ] || [ "$ran" -eq 0 ]; then
	cat "$work"/err.* | head -n 20
	echo "FAIL  $bad of $clients clients failed"
	rc=1
fi
play 1 260 early >"$work/early"
echo "looking before waiting: rounds $ran, mismatches $old"
if [ "$ran" -ne 260 ] || [ "$old" -ne 260 ]; then
	cat "$work/early" "$work"/err.1
	echo "FAIL  the test sees no old data"
	rc=1
fi
exit $rc
