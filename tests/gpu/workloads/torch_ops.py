# SPDX-License-Identifier: Apache-2.0
"""Operations of PyTorch, by the library that runs them: torch_ops.py NAME.

Prints digests of results; inputs come from a fixed generator on the CPU.
"""
import os
import sys
import zlib

import torch

DEVICE = os.environ.get("DEVICE", "cuda")
torch.manual_seed(7)


def data(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(DEVICE, dtype)


def show(name, *tensors):
    """Every bit counts in the digest; the sum is for the reader."""
    for t in tensors:
        t = torch.view_as_real(t) if t.is_complex() else t
        host = t.detach().cpu()
        # NumPy knows no bfloat16; single precision holds each of its values.
        bits = zlib.crc32((host.float() if host.dtype == torch.bfloat16
                           else host).numpy().tobytes())
        print(f"{name}: {tuple(host.shape)} {bits:08x} "
              f"{host.double().sum().item():.6g}", flush=True)


def linalg():
    """cuSOLVER: factorisations and solvers, one and many at once."""
    a, batch = data(96, 96), data(8, 32, 32)
    spd = a @ a.T + 96 * torch.eye(96, device=DEVICE)
    show("cholesky", torch.linalg.cholesky(spd))
    show("qr", *torch.linalg.qr(a))
    show("lu", *torch.linalg.lu_factor(a))
    show("solve", torch.linalg.solve(spd, a))
    show("eigh", torch.linalg.eigh(spd).eigenvalues)
    show("eigvals", torch.linalg.eigvals(a).abs().sort().values)
    show("svd", torch.linalg.svd(a).S)
    show("inv", torch.linalg.inv(batch))
    show("lstsq", torch.linalg.lstsq(a, data(96, 4)).solution)
    show("det", torch.linalg.det(batch))
    show("matrix_exp", torch.linalg.matrix_exp(batch / 8))


def fft():
    """cuFFT: powers of two, primes, several dimensions, real and complex."""
    for n in (1024, 1000, 997, 1 << 16):
        show(f"rfft {n}", torch.fft.rfft(data(4, n)))
    show("fft2", torch.fft.fft2(data(3, 128, 96)))
    show("fftn", torch.fft.fftn(data(32, 24, 20)))
    show("irfft", torch.fft.irfft(torch.fft.rfft(data(8, 512))))
    show("half", torch.fft.fft(data(4, 256, dtype=torch.float16)))
    show("stft", torch.stft(data(16000), 400, 160, return_complex=True,
                            window=torch.hann_window(400).to(DEVICE)))


def sparse():
    """cuSPARSE: COO and CSR products, addition, conversion."""
    dense = data(256, 256) * (torch.rand(256, 256) < 0.05).to(DEVICE)
    csr, coo = dense.to_sparse_csr(), dense.to_sparse_coo()
    b, v = data(256, 32), data(256)
    show("csr @ dense", csr @ b)
    show("csr @ vector", csr @ v)
    show("coo @ dense", torch.sparse.mm(coo, b))
    show("csr @ csr", (csr @ csr).to_dense())
    show("sampled", torch.sparse.sampled_addmm(csr, data(256, 64),
                                               data(64, 256)).to_dense())
    # cuSPARSE adds by atomics here: two runs differ in the last bits.
    c = data(256, 32)
    sums = torch.sparse.addmm(c, coo, b)
    print("addmm:", tuple(sums.shape),
          torch.allclose(sums, torch.addmm(c, dense, b), 1e-4, 1e-4),
          f"{sums.double().sum().item():.4g}", flush=True)
    show("coalesce", (coo + coo.t()).coalesce().values())


def gemm():
    """cuBLAS and cuBLASLt in every precision, with and without epilogue."""
    for n in (64, 257, 1024):
        a, b = data(n, n), data(n, n)
        for tf32 in (False, True):
            torch.backends.cuda.matmul.allow_tf32 = tf32
            show(f"{n} {'tf32' if tf32 else 'fp32'}", a @ b)
        for kind in (torch.float16, torch.bfloat16, torch.float64):
            show(f"{n} {kind}", a.to(kind) @ b.to(kind))
    show("batched", torch.bmm(data(16, 64, 48), data(16, 48, 80)))
    show("addmm", torch.addmm(data(512), data(256, 128), data(128, 512)))
    show("addmm gelu", torch._addmm_activation(
        data(512), data(256, 128), data(128, 512), use_gelu=True))
    show("complex", torch.complex(data(64, 64), data(64, 64)) @
         torch.complex(data(64, 64), data(64, 64)))
    eight = (torch.randint(-8, 8, (64, 64), dtype=torch.int8).to(DEVICE),
             torch.randint(-8, 8, (64, 64), dtype=torch.int8).to(DEVICE))
    show("int8", torch._int_mm(*eight))
    torch.backends.cuda.preferred_blas_library("cublaslt")
    show("cublasLt", data(384, 384) @ data(384, 384))


def fp8():
    """cuBLASLt in eight-bit floating point, scaled."""
    a = data(256, 512).to(torch.float8_e4m3fn)
    b = data(384, 512).to(torch.float8_e4m3fn).t()
    one = torch.ones((), device=DEVICE)
    for out in (torch.bfloat16, torch.float32):
        show(f"fp8 to {out}", torch._scaled_mm(a, b, one, one,
                                               out_dtype=out))
    rows, columns = data(256, 1).abs(), data(1, 384).abs()
    show("fp8 by rows", torch._scaled_mm(a, b, rows, columns,
                                         out_dtype=torch.bfloat16))


def conv():
    """cuDNN: convolutions, normalisation and recurrent nets, both ways."""
    torch.backends.cudnn.deterministic = True
    for kind in (torch.float32, torch.float16, torch.bfloat16):
        for layout in (torch.contiguous_format, torch.channels_last):
            net = torch.nn.Sequential(
                torch.nn.Conv2d(16, 32, 3, padding=1),
                torch.nn.BatchNorm2d(32), torch.nn.ReLU(),
                torch.nn.Conv2d(32, 32, 3, stride=2, groups=4),
                torch.nn.ConvTranspose2d(32, 8, 4, 2),
            ).to(DEVICE, kind, memory_format=layout)
            x = data(8, 16, 32, 32, dtype=kind).to(memory_format=layout)
            x.requires_grad_()
            y = net(x)
            y.float().pow(2).mean().backward()
            show(f"{kind} {layout}", y, x.grad, net[0].weight.grad)
    volume = torch.nn.Conv3d(4, 8, 3).to(DEVICE)
    show("conv3d", volume(data(2, 4, 12, 12, 12)))
    for cell in (torch.nn.LSTM, torch.nn.GRU):
        net = cell(24, 40, 2, bidirectional=True).to(DEVICE)
        y, _ = net(data(12, 6, 24))
        y.sum().backward()
        show(cell.__name__, y, net.weight_ih_l0.grad)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.deterministic = False
    net = torch.nn.Conv2d(8, 8, 3).to(DEVICE)
    with torch.no_grad():
        y = net(data(4, 8, 64, 64))
    print("benchmark mode: finite", bool(y.isfinite().all()))


def attention():
    """Every back end of scaled dot product attention, both ways."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    for backend in (SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION,
                    SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        torch.manual_seed(3)
        q, k, v = (data(2, 4, 192, 64, dtype=torch.float16).requires_grad_()
                   for _ in range(3))
        try:
            with sdpa_kernel(backend):
                y = torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, is_causal=True)
        except RuntimeError as e:
            print(backend.name, str(e).splitlines()[0])
            continue
        show(backend.name, y)
        y.float().sum().backward()
        # Some add the gradient of q in any order.
        print(f"{backend.name}: |dq| {q.grad.float().norm().item():.2f}")


def index():
    """Sorting, scans, scatter and gather, unique, masks: CUB and our own."""
    x = data(100003)
    show("sort", *torch.sort(x))
    show("topk", *torch.topk(x, 50))
    show("cumsum", torch.cumsum(x.double(), 0))
    show("unique", *torch.unique((x * 10).int(), return_counts=True))
    show("nonzero", torch.nonzero(x > 2))
    show("histc", torch.histc(x, 64, -3, 3))
    show("bincount", torch.bincount((x.abs() * 10).long()))
    show("scatter", torch.zeros(64, device=DEVICE, dtype=torch.long)
         .scatter_add_(0, (x.abs() * 10).long().clamp(max=63),
                       torch.ones_like(x, dtype=torch.long)))
    show("index_put", torch.zeros(1000, device=DEVICE).index_put(
        (torch.arange(1000, device=DEVICE),), x[:1000]))
    show("median", x.median(), x.kthvalue(1000).values)
    show("masked", x[x > 1.5], x.masked_fill(x < 0, 0))
    show("embedding bag", torch.nn.functional.embedding_bag(
        torch.arange(600, device=DEVICE) % 128, data(128, 16),
        torch.arange(0, 600, 6, device=DEVICE)))


def random():
    """Generators: equal numbers from an equal seed, also after a restore."""
    torch.manual_seed(11)
    g = torch.Generator(DEVICE).manual_seed(5)
    show("rand", torch.rand(1000, device=DEVICE))
    state = torch.get_rng_state() if DEVICE == "cpu" else \
        torch.cuda.get_rng_state()
    show("randn", torch.randn(1001, device=DEVICE, generator=g))
    show("randint", torch.randint(0, 99, (77,), device=DEVICE))
    (torch.set_rng_state if DEVICE == "cpu" else
     torch.cuda.set_rng_state)(state)
    show("randint again", torch.randint(0, 99, (77,), device=DEVICE))
    show("perm", torch.randperm(5000, device=DEVICE))
    show("multinomial", torch.multinomial(
        torch.rand(100, device=DEVICE), 20))
    show("dropout", torch.nn.functional.dropout(
        torch.ones(4096, device=DEVICE)))
    show("poisson", torch.poisson(torch.full((999,), 4.0, device=DEVICE)))


globals()[sys.argv[1]]()
