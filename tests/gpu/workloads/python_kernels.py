# SPDX-License-Identifier: Apache-2.0
"""Kernels written in Python or compiled at run time: python_kernels.py NAME."""
import sys

import numpy as np

SOURCE = r"""
extern "C" __global__ void saxpy(float a, const float *x, float *y, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		y[i] = helper(a, x[i]) + y[i];
}
"""
HELPER = r"""
extern "C" __device__ float helper(float a, float x) { return a * x; }
"""
DECLARED = 'extern "C" __device__ float helper(float, float);'


def cupy_basics():
    """CuPy: every way of making a kernel, and the libraries behind it."""
    import cupy as cp
    a = cp.arange(1 << 16, dtype=cp.float32)
    print("sum", float((a * 2).sum()), float(a.max()), int(a.argmax()))
    raw = cp.RawKernel('extern "C" __global__ void k(float *x, int n) { '
                       'int i = blockIdx.x * blockDim.x + threadIdx.x; '
                       'if (i < n) x[i] += 1; }', "k")
    raw((256,), (256,), (a, 1 << 16))
    print("raw", float(a[3]))
    square = cp.ElementwiseKernel("float32 x", "float32 y", "y = x * x", "sq")
    print("elementwise", float(square(a).sum()))
    norm = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)",
                              "0", "norm")
    print("reduction", f"{float(norm(a)):.6g}")
    print("sort", cp.sort(cp.sin(a))[:3].tolist())
    print("unique", cp.unique(a.astype(cp.int32) % 17).tolist())
    print("scan", float(cp.cumsum(a)[-1]))

    @cp.fuse()
    def fused(x, y):
        return cp.sqrt(x * x + y * y)
    print("fused", f"{float(fused(a, a)[100]):.6g}")
    with cp.cuda.Stream(non_blocking=True) as s:
        b = a * 3
        s.synchronize()
    print("stream", float(b[7]))
    graph_stream = cp.cuda.Stream(non_blocking=True)
    with graph_stream:
        graph_stream.begin_capture()
        b += 1
        graph = graph_stream.end_capture()
        for _ in range(5):
            graph.launch(graph_stream)
        graph_stream.synchronize()
    print("graph", float(b[7]))


def cupy_libraries():
    """cuBLAS, cuSOLVER, cuFFT, cuSPARSE and cuRAND, as CuPy calls them."""
    import cupy as cp
    import cupyx.scipy.sparse as sparse
    rng = np.random.default_rng(0)
    a = cp.asarray(rng.standard_normal((200, 200)))
    print("gemm", f"{float((a @ a).sum()):.10g}")
    print("solve", f"{float(cp.linalg.solve(a, a.sum(1)).sum()):.6g}")
    print("svd", f"{float(cp.linalg.svd(a)[1].sum()):.8g}")
    print("fft", f"{float(cp.abs(cp.fft.fft2(a)).sum()):.10g}")
    m = sparse.csr_matrix(cp.where(a > 1.5, a, 0))
    print("sparse", m.nnz, f"{float((m @ a).sum()):.10g}")
    for kind in (cp.random.XORWOW, cp.random.Philox4x3210,
                 cp.random.MRG32k3a):
        g = cp.random.Generator(kind(5, size=1000))
        print(kind.__name__, g.random(3).tolist(),
              f"{float(g.standard_normal(1000).sum()):.6g}")
    cp.random.seed(3)
    print("cuRAND", cp.random.rand(3).tolist(),
          f"{float(cp.random.normal(size=1001).sum()):.6g}")
    pinned = cp.cuda.alloc_pinned_memory(1 << 20)
    host = np.frombuffer(pinned, np.float32, 1 << 18)
    host[:] = 2
    d = cp.empty(1 << 18, cp.float32)
    d.set(host)
    print("pinned", float(d.sum()))
    texture = cp.cuda.texture.CUDAarray(
        cp.cuda.texture.ChannelFormatDescriptor(
            32, 0, 0, 0, cp.cuda.runtime.cudaChannelFormatKindFloat), 16, 16)
    image = cp.arange(256, dtype=cp.float32).reshape(16, 16)
    texture.copy_from(image)
    back = cp.empty_like(image)
    texture.copy_to(back)
    print("array", bool((back == image).all()))


def triton_kernels():
    """Triton: addition, a reduction, and a matrix product, autotuned."""
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def add(x, y, o, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        m = i < n
        tl.store(o + i, tl.load(x + i, m) + tl.load(y + i, m), m)

    @triton.jit
    def softmax(x, o, n, B: tl.constexpr):
        r = tl.program_id(0)
        i = tl.arange(0, B)
        v = tl.load(x + r * n + i, i < n, -float("inf"))
        e = tl.exp(v - tl.max(v, 0))
        tl.store(o + r * n + i, e / tl.sum(e, 0), i < n)

    @triton.autotune([triton.Config({"B": b}, num_warps=w)
                      for b in (32, 64) for w in (2, 4)], key=["n"])
    @triton.jit
    def product(a, b, c, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)[:, None]
        j = tl.program_id(1) * B + tl.arange(0, B)[None, :]
        k = tl.arange(0, B)
        sums = tl.zeros((B, B), tl.float32)
        for s in range(0, n, B):
            sums += tl.dot(tl.load(a + i * n + s + k[None, :]),
                           tl.load(b + (s + k[:, None]) * n + j))
        tl.store(c + i * n + j, sums)

    torch.manual_seed(0)
    x, y = torch.rand(2, 98432).cuda()
    o = torch.empty_like(x)
    add[(triton.cdiv(98432, 1024),)](x, y, o, 98432, B=1024)
    print("add", torch.equal(o, x + y))
    x = torch.randn(64, 500).cuda()
    o = torch.empty_like(x)
    softmax[(64,)](x, o, 500, B=512)
    print("softmax", torch.allclose(o, x.softmax(1)))
    a, b = torch.randn(2, 256, 256).cuda().half()
    c = torch.empty(256, 256, device="cuda")
    product[lambda meta: (256 // meta["B"],) * 2](a, b, c, 256)
    print("product", torch.allclose(c, a.float() @ b.float(), atol=1e-1))


def numba_kernels():
    """numba: kernels, shared memory, atomics, reduction, streams, events."""
    from numba import cuda, float32

    @cuda.jit
    def increment(a):
        i = cuda.grid(1)
        if i < a.size:
            a[i] += 1

    @cuda.jit
    def reverse(a):
        tile = cuda.shared.array(128, float32)
        i = cuda.grid(1)
        tile[cuda.threadIdx.x] = a[i]
        cuda.syncthreads()
        a[i] = tile[127 - cuda.threadIdx.x]

    @cuda.jit
    def histogram(a, h):
        i = cuda.grid(1)
        cuda.atomic.add(h, int(a[i]) % 10, 1)

    host = np.arange(1024, dtype=np.float32)
    s = cuda.stream()
    with s.auto_synchronize():
        d = cuda.to_device(host, stream=s)
        increment[8, 128, s](d)
        reverse[8, 128, s](d)
        h = cuda.to_device(np.zeros(10, np.int32), stream=s)
        histogram[8, 128, s](d, h)
    print(d.copy_to_host().sum(), d.copy_to_host()[:4].tolist(),
          h.copy_to_host().tolist())
    largest = cuda.reduce(lambda a, b: a if a > b else b)
    print(largest(d))


def numba_vectorize():
    """numba: a universal function and a generalised one."""
    from numba import float64, guvectorize, vectorize

    @vectorize([float64(float64, float64)], target="cuda")
    def hypotenuse(a, b):
        return (a * a + b * b) ** 0.5

    @guvectorize(["void(float64[:], float64[:])"], "(n)->(n)", target="cuda")
    def running(x, y):
        total = 0.0
        for i in range(x.shape[0]):
            total += x[i]
            y[i] = total

    x = np.arange(1000, dtype=np.float64)
    print(hypotenuse(x, x[::-1].copy()).sum(), running(
        x.reshape(10, 100)).sum())


def nvrtc():
    """NVRTC to PTX and the driver API, through cuda-bindings."""
    from cuda.bindings import driver, nvrtc as rtc

    def ok(result):
        assert int(result[0]) == 0, result
        return result[1] if len(result) == 2 else result[1:]

    ok(driver.cuInit(0))
    device = ok(driver.cuDeviceGet(0))
    context = ok(driver.cuDevicePrimaryCtxRetain(device))
    ok(driver.cuCtxSetCurrent(context))
    program = ok(rtc.nvrtcCreateProgram((HELPER + SOURCE).encode(),
                                        b"saxpy.cu", 0, [], []))
    ok(rtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=compute_90"]))
    ptx = b" " * ok(rtc.nvrtcGetPTXSize(program))
    ok(rtc.nvrtcGetPTX(program, ptx))
    module = ok(driver.cuModuleLoadData(np.char.array(ptx).ctypes.data))
    kernel = ok(driver.cuModuleGetFunction(module, b"saxpy"))
    x = np.arange(1000, dtype=np.float32)
    y = np.ones(1000, dtype=np.float32)
    dx, dy = (ok(driver.cuMemAlloc(4000)) for _ in range(2))
    ok(driver.cuMemcpyHtoD(dx, x.ctypes.data, 4000))
    ok(driver.cuMemcpyHtoD(dy, y.ctypes.data, 4000))
    holders = [np.array([2.5], np.float32), np.array([int(dx)], np.uint64),
               np.array([int(dy)], np.uint64), np.array([1000], np.int32)]
    arguments = np.array([h.ctypes.data for h in holders], np.uint64)
    ok(driver.cuLaunchKernel(kernel, 4, 1, 1, 256, 1, 1, 0, 0,
                             arguments.ctypes.data, 0))
    ok(driver.cuMemcpyDtoH(y.ctypes.data, dy, 4000))
    print(bool((y == 2.5 * x + 1).all()), y[:4].tolist())
    ok(driver.cuModuleUnload(module))


def _saxpy(module):
    from cuda.core import Device, LaunchConfig, launch
    device = Device()
    stream = device.create_stream()
    x = np.arange(1000, dtype=np.float32)
    buffers = [device.allocate(4000, stream=stream) for _ in range(2)]
    from cuda.bindings import driver
    for b in buffers:
        driver.cuMemcpyHtoD(int(b.handle), x.ctypes.data, 4000)
    launch(stream, LaunchConfig(grid=4, block=256),
           module.get_kernel("saxpy"), np.float32(3), buffers[0], buffers[1],
           np.int32(1000))
    stream.sync()
    y = np.empty_like(x)
    driver.cuMemcpyDtoH(y.ctypes.data, int(buffers[1].handle), 4000)
    print(bool((y == 4 * x).all()), y[:4].tolist())


def cuda_core():
    """cuda-core: compile, allocate, launch."""
    from cuda.core import Device, Program, ProgramOptions
    Device().set_current()
    arch = "sm_%d%d" % Device().compute_capability
    program = Program(HELPER + SOURCE, "c++", ProgramOptions(arch=arch))
    _saxpy(program.compile("cubin"))


def nvjitlink():
    """nvJitLink: two translation units, linked at link time optimisation."""
    from cuda.core import (Device, Linker, LinkerOptions, Program,
                           ProgramOptions)
    Device().set_current()
    arch = "sm_%d%d" % Device().compute_capability
    parts = [Program(source, "c++", ProgramOptions(
        arch=arch, relocatable_device_code=True,
        link_time_optimization=True)).compile("ltoir")
        for source in (HELPER, DECLARED + SOURCE)]
    _saxpy(Linker(*parts, options=LinkerOptions(
        arch=arch, link_time_optimization=True)).link("cubin"))


globals()[sys.argv[1]]()
