#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154
#
# Memory and events shared between processes: what the programs state is so
# under mpsrun, with the ring and without, with one lane and with several; a
# handle means nothing to another broker; nothing is left when all have ended.
set -u
# shellcheck source=tests/api/rows.sh
. "$(dirname "$0")/rows.sh"

programs='ipc ipc_tokens'

under() {
	"$mpsrun" "$T/$1" >"$work/$1.under" 2>"$work/$1.err" || {
		grep -B 1 '^NO' "$work/$1.under"
		cat "$work/$1.err"
		return 1
	}
	echo "$(grep -c '^yes' "$work/$1.under") facts"
}

# What the worker and the broker hold: chunks, handles, descriptors (those of
# code apart, which the broker keeps).
holdings() {
	"$bin/mpsctl" status --json | python3 -c '
import json, sys
s = json.load(sys.stdin)
w = s["workers"][0]
print(len(s["clients"]), s["vault_chunks"], w["handles"],
      w["descriptors"], s["broker_descriptors"] - s["store_images"])'
}

# Memory goes back at a quiet moment after its client's end.
nothing_left() {
	for _ in $(seq 40); do
		now=$(holdings)
		[ "$now" = "$before" ] && echo "$now" && return 0
		sleep 0.1
	done
	echo "before: $before, now: $now"
	return 1
}

for program in $programs; do
	row "$program with the ring" under "$program"
done
sleep 1
before=$(holdings)
export before
for perf in no_ring no_post,no_cache; do
	export MPSSHIM_PERF=$perf
	for program in $programs; do
		row "$program with $perf" under "$program"
	done
done
unset MPSSHIM_PERF
row "nothing is left" nothing_left

killed() {
	"$mpsrun" "$T/ipc" >"$work/killed" 2>&1 &
	pid=$!
	sleep 0.3
	kill -9 "$pid"
	wait "$pid"
	nothing_left
}
row "nor when one is killed" killed

export MPSSHIM_LANES=4
fresh
for program in $programs; do
	row "$program on several lanes" under "$program"
done
unset MPSSHIM_LANES
fresh

# Exports in one broker, opens in another.
export FOREIGN=$work/foreign
foreign() {
	cat >"$FOREIGN.py" <<-'EOF'
		import ctypes, sys
		cuda = ctypes.CDLL("libcuda.so.1")
		class Handle(ctypes.Structure):
		    _fields_ = [("bytes", ctypes.c_char * 64)]
		c, p, e = (ctypes.c_void_p() for _ in range(3))
		def ok(r):
		    if r:
		        sys.exit(f"code {r}")
		ok(cuda.cuInit(0))
		ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(c), 0))
		ok(cuda.cuCtxSetCurrent(c))
		if sys.argv[1] == "give":
		    m, v = Handle(), Handle()
		    ok(cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(4096)))
		    ok(cuda.cuIpcGetMemHandle(ctypes.byref(m), p))
		    ok(cuda.cuEventCreate(ctypes.byref(e), 6))
		    ok(cuda.cuIpcGetEventHandle(ctypes.byref(v), e))
		    raw = ctypes.string_at(ctypes.byref(m), 64)
		    raw += ctypes.string_at(ctypes.byref(v), 64)
		    open(sys.argv[2], "wb").write(raw)
		    print("ready", flush=True)
		    sys.stdin.read()
		else:
		    raw = open(sys.argv[2], "rb").read()
		    # Whose it says that it is may be this very client's number.
		    for client in range(1, 40):
		        n = client.to_bytes(8, "little")
		        m = Handle.from_buffer_copy(raw[:24] + n + raw[32:64])
		        v = Handle.from_buffer_copy(raw[64:88] + n + raw[96:128])
		        r = (cuda.cuIpcOpenMemHandle_v2(ctypes.byref(p), m, 1),
		             cuda.cuIpcOpenEventHandle(ctypes.byref(e), v))
		        if r not in ((400, 400), (201, 201)):
		            sys.exit(f"opened: {r}")
		    print("neither opens:", r)
	EOF
	mkfifo "$FOREIGN.wait"
	"$mpsrun" python3 "$FOREIGN.py" give "$FOREIGN" \
		<"$FOREIGN.wait" >"$FOREIGN.out" &
	giver=$!
	exec 9>"$FOREIGN.wait"
	for _ in $(seq 100); do
		grep -q ready "$FOREIGN.out" && break
		sleep 0.1
	done
	CUDA_MPS_PIPE_DIRECTORY=$FOREIGN.dir "$mpsrun" \
		python3 "$FOREIGN.py" take "$FOREIGN"
	r=$?
	CUDA_MPS_PIPE_DIRECTORY=$FOREIGN.dir "$bin/mpsctl" quit --force \
		>"$FOREIGN.quit"
	exec 9>&-
	wait $giver || return 1
	return $r
}
row "a handle means nothing to another broker" foreign
finish_rows
