#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Two clients' kernels at once on the driver that MPSSHIM_DRIVER names, at the
# broker that CUDA_MPS_PIPE_DIRECTORY names: each says that it runs before
# either may end, so they are in flight together for MS milliseconds however
# slow the machine is. Prints "BOTH ALL DEVICE EVENTS": nanoseconds in which
# both ran and from the first start to the last end by the kernels' own clock,
# then the overlap inside the driver library and by events around launches as
# `mpsctl status` has them ("?": not measured).
# Usage: both_run.sh [MS]
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
build=${MPSSHIM_BUILD:-$top/build}
bin=$build/bin
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# await NAME: a file of that name by each; not when one has ended, nor for ever
# where kernels of two clients do not run at once.
await() {
	n=0
	while [ "$(find "$dir" -name "$1.*" | wc -l)" -lt 2 ]; do
		n=$((n + 1))
		[ $n -lt 1200 ] || break
		kill -0 "$first" 2>/dev/null && kill -0 "$second" 2>/dev/null ||
			break
		sleep 0.05
	done
}
"$bin/mpsrun" "$build/tests/overlap" "${1:-300}" "$dir" >"$dir/1" 2>"$dir/e1" &
first=$!
"$bin/mpsrun" "$build/tests/overlap" "${1:-300}" "$dir" >"$dir/2" 2>"$dir/e2" &
second=$!
await ready
: >"$dir/go"
await running
sleep 0.1
: >"$dir/stop"
rc=0
wait "$first" || rc=1
wait "$second" || rc=1
cat "$dir/e1" "$dir/e2" >&2
[ $rc -eq 0 ]
"$bin/mpsctl" status --json >"$dir/status"
python3 - "$dir" <<'END'
import json
import sys

(a, b), (c, d) = [tuple(map(int, open("%s/%d" % (sys.argv[1], i)).read()
                            .split())) for i in (1, 2)]
workers = json.load(open(sys.argv[1] + "/status"))["workers"]
w = workers[0]
print(max(0, min(b, d) - max(a, c)), max(b, d) - min(a, c),
      w["overlap_ns"] if w["overlap_known"] else "?",
      w["events_overlap_ns"] if w["events_known"] else "?")
END
