#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Several unmodified programs at once, in one GPU context. Runs each example
# alone, then all of them together, and asks the worker what it saw.
# Usage: two_tenants.sh   (after `make`; MPSSHIM_BUILD names another build)
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
build=${MPSSHIM_BUILD:-$top/build}
bin=$build/bin
work=$(mktemp -d)
# A broker of our own, so that the figures are of these programs alone.
export CUDA_MPS_PIPE_DIRECTORY="$work/socket"
# The worker measures whose kernels ran beside whose.
export MPSSHIM_OVERLAP=1
# shellcheck disable=SC2317
finish() {
	"$bin/mpsctl" quit --force >/dev/null 2>&1 || :
	rm -rf "$work"
}
trap finish EXIT

fail() {
	echo "demo: FAILED: $1" >&2
	exit 1
}

echo "== each alone"
"$bin/mpsrun" -v "$build/examples/vecadd_driver" || fail "vecadd_driver"
"$bin/mpsrun" "$build/examples/vecadd" || fail "vecadd"
"$bin/mpsrun" "$build/examples/streams" || fail "streams"
"$bin/mpsrun" python3 "$top/examples/infer.py" || fail "infer.py"

echo "== five at once"
pids=
start() {
	name=$1
	shift
	"$bin/mpsrun" "$@" >"$work/$name.out" 2>&1 &
	pids="$pids $!:$name"
}
start vecadd_driver "$build/examples/vecadd_driver" 1000000
start vecadd "$build/examples/vecadd" 1000000
start streams_1 "$build/examples/streams" 60
start streams_2 "$build/examples/streams" 60
start infer python3 "$top/examples/infer.py" 20
for entry in $pids; do
	pid=${entry%%:*} name=${entry#*:}
	wait "$pid" || {
		cat "$work/$name.out" >&2
		fail "$name"
	}
	cat "$work/$name.out"
done

echo "== what the worker saw"
"$bin/mpsctl" status --json >"$work/status.json" || fail "mpsctl status"
python3 - "$work/status.json" <<'END' || fail "the figures above"
import json
import sys

with open(sys.argv[1]) as f:
    status = json.load(f)
workers = status["workers"]
worker = workers[0]
print("device:              %s" % worker["device_name"])
print("driver library:      %s" % worker["driver"])
print("clients served:      %d" % status["total_clients"])
print("workers, contexts:   %d, %d" % (len(workers), worker["contexts"]))
print("kernels of two clients were running at once for %.1f ms of %.1f ms, "
      "by events around %d launches" % (
          worker["events_overlap_ns"] / 1e6, worker["events_busy_ns"] / 1e6,
          worker["events_timed"]))
if worker["overlap_known"]:
    print("                     executing at once, as seen inside the "
          "software device: %.1f ms" % (worker["overlap_ns"] / 1e6))
right = len(workers) == 1 and worker["contexts"] == 1 and \
    worker["events_overlap_ns"] > 0
sys.exit(0 if right else 1)
END
echo "demo: all results right, one context for all"
