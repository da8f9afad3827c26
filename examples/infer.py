#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small neural network on the GPU in plain Python: ctypes and PTX.

Two dense layers with a ReLU between them, 64 inputs, 32 hidden units, 10
outputs, weights from a fixed generator. The same sums are made on the CPU in
single precision and compared. No package is needed:

    mpsrun python3 infer.py [BATCHES]
"""
import array
import ctypes
import struct
import sys

PTX = b"""
.version 7.0
.target sm_50
.address_size 64
// out[b, j] = act(bias[j] + sum_k in[b, k] * w[k, j]); one block a row.
.visible .entry dense(.param .u64 p_in, .param .u64 p_w, .param .u64 p_bias,
                      .param .u64 p_out, .param .u32 p_k, .param .u32 p_n,
                      .param .u32 p_relu)
{
    .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %d<16>; .reg .f32 %f<6>;
    ld.param.u64 %d1, [p_in];   ld.param.u64 %d2, [p_w];
    ld.param.u64 %d3, [p_bias]; ld.param.u64 %d4, [p_out];
    ld.param.u32 %r1, [p_k];    ld.param.u32 %r2, [p_n];
    ld.param.u32 %r3, [p_relu];
    mov.u32 %r4, %tid.x;        mov.u32 %r5, %ctaid.x;
    setp.ge.u32 %p1, %r4, %r2;  @%p1 bra END;
    mul.wide.u32 %d5, %r4, 4;   add.u64 %d6, %d3, %d5;
    ld.global.f32 %f1, [%d6];
    add.u64 %d7, %d2, %d5;
    mul.lo.u32 %r6, %r5, %r1;   mul.wide.u32 %d8, %r6, 4;
    add.u64 %d9, %d1, %d8;      mul.wide.u32 %d10, %r2, 4;
    mov.u32 %r7, 0;
LOOP:
    setp.ge.u32 %p2, %r7, %r1;  @%p2 bra STORE;
    ld.global.f32 %f2, [%d9];   ld.global.f32 %f3, [%d7];
    fma.rn.f32 %f1, %f2, %f3, %f1;
    add.u64 %d9, %d9, 4;        add.u64 %d7, %d7, %d10;
    add.u32 %r7, %r7, 1;        bra LOOP;
STORE:
    setp.eq.u32 %p3, %r3, 0;    @%p3 bra OUT;
    max.f32 %f1, %f1, 0f00000000;
OUT:
    mad.lo.u32 %r8, %r5, %r2, %r4;  mul.wide.u32 %d11, %r8, 4;
    add.u64 %d12, %d4, %d11;    st.global.f32 [%d12], %f1;
END:
    ret;
}
"""

INPUTS, HIDDEN, OUTPUTS, ROWS = 64, 32, 10, 16


class Driver:
    """The driver API; every call raises on an error."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")

    def __getattr__(self, name):
        function = getattr(self.lib, name)

        def call(*args):
            result = function(*args)
            if result:
                text = ctypes.c_char_p()
                self.lib.cuGetErrorName(result, ctypes.byref(text))
                raise SystemExit("infer: %s: %s" % (
                    name, (text.value or b"?").decode()))
        return call


def numbers(count, seed):
    """Floats in [-1, 1), exact in single precision."""
    out, state = array.array("f"), seed
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        out.append((state >> 8) / 2**23 - 1.0)
    return out


def dense_cpu(rows, weights, bias, k, n, relu):
    """The same layer in double precision."""
    out = array.array("f")
    for b in range(len(rows) // k):
        for j in range(n):
            total = bias[j] + sum(rows[b * k + i] * weights[i * n + j]
                                  for i in range(k))
            out.append(max(total, 0.0) if relu else total)
    return out


def main():
    batches = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    cuda = Driver()
    cuda.cuInit(0)
    device, context = ctypes.c_int(), ctypes.c_void_p()
    name = ctypes.create_string_buffer(100)
    cuda.cuDeviceGet(ctypes.byref(device), 0)
    cuda.cuDeviceGetName(name, 100, device)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    cuda.cuCtxSetCurrent(context)
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    cuda.cuModuleLoadData(ctypes.byref(module), PTX)
    cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"dense")

    def upload(values):
        pointer = ctypes.c_uint64()
        size = len(values) * 4
        cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))
        cuda.cuMemcpyHtoD_v2(pointer, values.tobytes(),
                             ctypes.c_size_t(size))
        return pointer

    def launch(source, weights, bias, out, k, n, relu):
        args = [source, weights, bias, out, ctypes.c_uint32(k),
                ctypes.c_uint32(n), ctypes.c_uint32(relu)]
        params = (ctypes.c_void_p * len(args))(
            *[ctypes.addressof(a) for a in args])
        cuda.cuLaunchKernel(kernel, ROWS, 1, 1, 64, 1, 1, 0, None, params,
                            None)

    w1, b1 = numbers(INPUTS * HIDDEN, 1), numbers(HIDDEN, 2)
    w2, b2 = numbers(HIDDEN * OUTPUTS, 3), numbers(OUTPUTS, 4)
    dw1, db1, dw2, db2 = map(upload, (w1, b1, w2, b2))
    hidden = upload(array.array("f", [0.0] * (ROWS * HIDDEN)))
    result = upload(array.array("f", [0.0] * (ROWS * OUTPUTS)))
    worst, classes = 0.0, []
    for batch in range(batches):
        rows = numbers(ROWS * INPUTS, 100 + batch)
        source = upload(rows)
        launch(source, dw1, db1, hidden, INPUTS, HIDDEN, 1)
        launch(hidden, dw2, db2, result, HIDDEN, OUTPUTS, 0)
        raw = ctypes.create_string_buffer(ROWS * OUTPUTS * 4)
        cuda.cuMemcpyDtoH_v2(raw, result, ctypes.c_size_t(len(raw)))
        cuda.cuMemFree_v2(source)
        got = struct.unpack("%df" % (ROWS * OUTPUTS), raw.raw)
        want = dense_cpu(dense_cpu(rows, w1, b1, INPUTS, HIDDEN, True),
                         w2, b2, HIDDEN, OUTPUTS, False)
        worst = max(worst, max(abs(g - w) for g, w in zip(got, want)))
        classes.append(max(range(OUTPUTS), key=lambda j: got[j]))
    # 64 products of numbers below 1 lose at most about 64 * 2^-24 each layer.
    right = worst < 1e-4
    print("infer: %d batches of %d rows on %s, first classes %s, "
          "largest difference from the CPU %.1e: %s" % (
              batches, ROWS, name.value.decode(), classes[:8], worst,
              "right" if right else "WRONG"))
    return 0 if right else 1


sys.exit(main())
