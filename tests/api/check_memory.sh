#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154
#
# Virtual memory management, pools, host memory, arrays and textures: what the
# programs state is so under mpsrun, with the ring and without, and on the
# driver library itself; and nothing of it is left when they have ended.
set -u
# shellcheck source=tests/api/rows.sh
. "$(dirname "$0")/rows.sh"

programs='memory_vmm memory_pool memory_host mapped mapped_parts copies batches
	pageable textures tensor linker globals queries launch_set memops
	graphs_memops attributes'
mkdir "$work/native"
ln -s "$(cd "$build/lib" && pwd -P)/libsoftcuda.so" "$work/native/libcuda.so.1"

# The driver library without us. Its pools take nothing back before its
# streams get there, so it runs out of memory where the real one does not; it
# has no batches, remembers no advice and no set-up of launches.
on_driver() {
	LD_LIBRARY_PATH=$work/native "$T/$1" >"$work/$1.native" || {
		grep '^NO' "$work/$1.native"
		return 1
	}
	tail -n 1 "$work/$1.native"
}

under() {
	"$mpsrun" "$T/$1" >"$work/$1.under" 2>"$work/$1.err" || {
		grep -B 1 '^NO' "$work/$1.under"
		cat "$work/$1.err"
		return 1
	}
	echo "$(grep -c '^yes' "$work/$1.under") facts"
}

alike() {
	diff "$work/$1.native" "$work/$1.under" && echo "same lines"
}

# What the worker and the broker hold: chunks, handles, descriptors (those of
# code apart, which the broker keeps), mappings.
holdings() {
	"$bin/mpsctl" status --json | python3 -c '
import json, sys
s = json.load(sys.stdin)
w = s["workers"][0]
print(len(s["clients"]), s["vault_chunks"], w["handles"],
      w["descriptors"], s["broker_descriptors"] - s["store_images"],
      w["mappings"])'
}

# Memory goes back at a quiet moment after its client's end. Prints what is
# held once no client is there and nothing changes any more.
settled() {
	was=''
	for _ in $(seq 300); do
		now=$(holdings)
		case $now in
		"0 0 "*) [ "$now" = "$was" ] && break ;;
		esac
		was=$now
		sleep 0.1
	done
	echo "$now"
}
nothing_left() {
	for _ in $(seq 300); do
		now=$(holdings)
		set -- $now $before
		# Mappings of the allocator and of code stay: some slack.
		if [ "$1 $2 $3 $4 $5" = "$7 $8 $9 ${10} ${11}" ] &&
			[ "$6" -le $((${12} + 24)) ]; then
			echo "clients, chunks, handles, descriptors: $1 $2 $3 $4"
			return 0
		fi
		sleep 0.1
	done
	echo "before: $before, now: $now"
	return 1
}

for program in $programs; do
	row "$program with the ring" under "$program"
	case $program in memory_pool | batches | queries | launch_set | attributes) continue ;; esac
	row "$program on the driver itself" on_driver "$program"
	row "$program prints the same on both" alike "$program"
done
if [ -x "$T/managed_rt" ]; then
	row "managed memory by the runtime" "$mpsrun" "$T/managed_rt"
fi
helped() {
	"$mpsrun" "$T/pageable" 2>&1 >"$work/helped" | grep '^3 helpers$'
}
row "threads help to move the bytes of large copies" helped
before=$(settled)
export before
for perf in no_ring no_post,no_cache no_pin no_word; do
	export MPSSHIM_PERF=$perf
	for program in $programs; do
		# Without, pinned memory is read as pageable: at once.
		[ "$perf $program" = 'no_pin batches' ] && continue
		row "$program with $perf" under "$program"
	done
done
unset MPSSHIM_PERF
row "nothing is left" nothing_left
# They would lie where the program cannot reach them.
managed_refused() {
	env -u MPSSHIM_LOG "$mpsrun" python3 -c '
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
c, m = ctypes.c_void_p(), ctypes.c_void_p()
ptx = b""".version 7.0
.target sm_70
.address_size 64
.visible .global %s.align 4 .u32 m;
.visible .entry k() { ret; }
"""
r = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(c), 0),
     cuda.cuCtxSetCurrent(c),
     cuda.cuModuleLoadData(ctypes.byref(m), ptx % b""),
     cuda.cuModuleLoadData(ctypes.byref(m), ptx % b".attribute(.managed) ")]
print(r)
sys.exit(r != [0, 0, 0, 0, 801])' 2>"$work/managed" || return
	cat "$work/managed"
	grep -q 'the managed variable m,' "$work/managed" &&
		[ "$(wc -l <"$work/managed")" -eq 1 ]
}
# The first block puts the next address off the border.
huge_pages() {
	[ -e /sys/kernel/mm/transparent_hugepage ] || {
		echo "this system has none"
		return 0
	}
	"$mpsrun" python3 -c '
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
c, p = ctypes.c_void_p(), ctypes.c_void_p()
r = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(c), 0),
     cuda.cuCtxSetCurrent(c), cuda.cuMemHostAlloc(ctypes.byref(p), 4096, 0),
     cuda.cuMemHostAlloc(ctypes.byref(p), 5 << 20, 0)]
flags = ""
for line in open("/proc/self/smaps"):
    if line[0] in "0123456789abcdef":
        inside = line.startswith("%x-" % p.value)
    elif inside and line.startswith("VmFlags:"):
        flags = line
print(r, hex(p.value), flags.strip())
sys.exit(any(r) or p.value % (2 << 20) != 0 or " hg" not in flags)'
}
row "large pinned memory asks for huge pages and can have them" huge_pages
row "an image with managed variables is refused" managed_refused
# The program states that registering to be mapped succeeds.
pages_stay() {
	MPSSHIM_PERF=no_swap "$mpsrun" "$T/mapped" >"$work/stay" 2>&1
	grep 'cuMemHostRegister.* 801' "$work/stay"
}
row "with no_swap a program's pages stay its own" pages_stay
killed() {
	"$mpsrun" "$T/memory_vmm" >"$work/killed" 2>&1 &
	pid=$!
	sleep 0.3
	kill -9 "$pid"
	wait "$pid"
	nothing_left
}
row "nor when one is killed" killed
fresh
# 8 processors with 2048 threads each; 1 KiB of it every context has.
deep_refused() {
	"$bin/mpsd" --device-limit=64M && "$mpsrun" python3 -c '
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
c, m, f = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
p, size = ctypes.c_uint64(), ctypes.c_size_t
ptx = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry k(.param .u64 p)
{ .local .align 4 .b8 room[%d]; .reg .b64 d, e; ld.param.u64 d, [p];
mov.u64 e, room; st.local.u64 [e], d; ld.local.u64 d, [e];
st.global.u64 [d], d; ret; }
"""
r = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(c), 0),
     cuda.cuCtxSetCurrent(c)]
# Too much by itself; 48 MiB of it; more than is then left; what is.
for n in 8192, 4096:
    r += [cuda.cuModuleLoadData(ctypes.byref(m), ptx % n),
          cuda.cuModuleGetFunction(ctypes.byref(f), m, b"k")]
r += [cuda.cuMemAlloc_v2(ctypes.byref(p), size(20 << 20)),
      cuda.cuMemAlloc_v2(ctypes.byref(p), size(16 << 20))]
print(r)
sys.exit(r != [0, 0, 0, 0, 2, 0, 0, 2, 0])'
}
row "local memory counts against the limit" deep_refused
export SOFTCUDA_DEVICES=2
fresh
row "batches and copies between two devices" under batches
# Its address there would be none on the other device.
registered_elsewhere() {
	"$mpsrun" python3 -c '
import ctypes, mmap, sys
cuda = ctypes.CDLL("libcuda.so.1")
c = [ctypes.c_void_p(), ctypes.c_void_p()]
p, memory = ctypes.c_uint64(), mmap.mmap(-1, 8192, mmap.MAP_PRIVATE)
at = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
def get(i):
    cuda.cuCtxSetCurrent(c[i])
    return cuda.cuMemHostGetDevicePointer_v2(ctypes.byref(p), at, 0)
r = [cuda.cuInit(0)]
r += [cuda.cuDevicePrimaryCtxRetain(ctypes.byref(c[i]), i) for i in (0, 1)]
r += [cuda.cuCtxSetCurrent(c[0]), cuda.cuMemHostRegister_v2(at, 8192, 2)]
r += [get(0), get(1)]
print(r)
sys.exit(r != [0, 0, 0, 0, 0, 0, 801])'
}
row "registered memory has an address on its own device" registered_elsewhere
finish_rows
