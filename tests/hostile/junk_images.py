# SPDX-License-Identifier: Apache-2.0
"""A client that loads junk: every junk image gets an error of the driver's,
and the good one works before and after. junk_images.py COUNT SEED"""
import collections
import ctypes
import random
import sys

PTX = b""".version 7.0
.target sm_50
.address_size 64
.global .align 4 .u32 counter[16] = {1, 2, 3};
.visible .entry bump(.param .u64 p)
{ .reg .u64 %a; .reg .u32 %b; ld.param.u64 %a, [p];
  ld.global.u32 %b, [%a]; add.u32 %b, %b, 1; st.global.u32 [%a], %b; ret; }
"""
# What the driver answers to images: 2 out of memory, 200 invalid image, 209
# no binary for the device, 218 invalid PTX, 222 unsupported version, 300
# invalid source, 301 and 302 of files.
KNOWN = {0, 2, 1, 200, 209, 218, 222, 300, 301, 302}

cuda = ctypes.CDLL("libcuda.so.1")
count, seed = int(sys.argv[1]), int(sys.argv[2])
rng = random.Random(seed)
answers = collections.Counter()


def load(image):
    module = ctypes.c_void_p()
    # A page of zeros behind: the interface does not say where an image ends.
    r = cuda.cuModuleLoadData(ctypes.byref(module),
                              ctypes.c_char_p(image + bytes(4096)))
    if r == 0:
        assert cuda.cuModuleUnload(module) == 0
    return r


def junk():
    how = rng.randrange(4)
    if how == 0:        # text with changes
        image = bytearray(PTX)
        for _ in range(rng.randrange(1, 8)):
            image[rng.randrange(len(image))] = rng.randrange(256)
        return bytes(image)
    body = bytes(rng.randrange(256) for _ in range(rng.randrange(200)))
    if how == 1:        # an ELF header and what follows
        return b"\x7fELF\x02\x01\x01\x33\x08" + body
    if how == 2:        # a fatbin: its length stays in what is there
        return (b"\x50\xed\x55\xba\x01\x00\x10\x00" +
                len(body).to_bytes(8, "little") + body)
    return body


assert cuda.cuInit(0) == 0
context = ctypes.c_void_p()
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert load(PTX) == 0
for i in range(count):
    answers[load(junk())] += 1
assert load(PTX) == 0
print("seed %d:" % seed, dict(answers))
sys.exit(0 if set(answers) <= KNOWN and {200, 218} <= set(answers) else 1)
