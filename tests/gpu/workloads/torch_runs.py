# SPDX-License-Identifier: Apache-2.0
"""Ways of running PyTorch that ask much of a driver: torch_runs.py NAME."""
import os
import sys

import torch
from torch import nn

DEVICE = os.environ.get("DEVICE", "cuda")
torch.manual_seed(0)


def net(width=128):
    return nn.Sequential(nn.Linear(width, 256), nn.GELU(),
                         nn.LayerNorm(256), nn.Linear(256, width)).to(DEVICE)


def graphs():
    """A whole training step as a graph, and graphed callables."""
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, capturable=True)
    x, t = torch.randn(2, 32, 128).to(DEVICE)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(model(x), t)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = step()
    for i in range(20):
        x.copy_(torch.randn(32, 128))
        graph.replay()
        print(f"replay {i}: {loss.item():.7g}")
    called = torch.cuda.make_graphed_callables(
        net(), (torch.randn(8, 128).to(DEVICE).requires_grad_(),))
    y = torch.randn(8, 128).to(DEVICE).requires_grad_()
    called(y).sum().backward()
    print(f"callable {y.grad.norm().item():.6g}")


def streams():
    """Events, priorities and two streams that hand work to each other."""
    low, high = torch.cuda.Stream(priority=0), torch.cuda.Stream(priority=-1)
    a = torch.randn(512, 512).to(DEVICE)
    done = [torch.cuda.Event(enable_timing=True) for _ in range(40)]
    # What was made on the stream that is current is used on another.
    low.wait_stream(torch.cuda.current_stream())
    for i in range(0, 40, 2):
        with torch.cuda.stream(low):
            a = torch.tanh(a @ a / 20)
            a.record_stream(high)
            done[i].record()
        with torch.cuda.stream(high):
            high.wait_event(done[i])
            a = a + 0.01 * a.t()
            a.record_stream(low)
            done[i + 1].record()
        low.wait_event(done[i + 1])
    high.synchronize()
    print(f"{a.sum().item():.6g}", all(e.query() for e in done),
          done[0].elapsed_time(done[39]) > 0)


def workers():
    """Loader processes fill pinned memory that goes to the GPU unawaited."""
    class Numbers(torch.utils.data.Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, i):
            return torch.full((1000,), float(i)), i

    total = torch.zeros((), device=DEVICE)
    for x, i in torch.utils.data.DataLoader(
            Numbers(), 8, num_workers=3, pin_memory=True,
            persistent_workers=True):
        print(x.is_pinned(), i.tolist())
        total += x.to(DEVICE, non_blocking=True).sum()
    print(total.item())


def _child(queue, back, event):
    for t in iter(queue.get, None):
        t.add_(1)
        back.put(t.sum().item())
        del t
    event.wait()


def shared_between_processes():
    """torch.multiprocessing hands a CUDA tensor to another process."""
    import torch.multiprocessing as mp
    context = mp.get_context("spawn")
    queue, back, event = context.Queue(), context.Queue(), context.Event()
    child = context.Process(target=_child, args=(queue, back, event))
    child.start()
    for n in (1000, 300000):
        t = torch.arange(n, dtype=torch.float32, device=DEVICE)
        queue.put(t)
        print(n, back.get(timeout=60), t[5].item(), t.sum().item())
    queue.put(None)
    event.set()
    child.join()
    print("child's exit", child.exitcode)


def compiled():
    """torch.compile: fused pointwise code, a reduction, a model's gradient."""
    f = torch.compile(lambda z: (torch.sin(z) * z + 1).relu())
    z = torch.randn(4096).to(DEVICE)
    print("pointwise", torch.allclose(f(z), (torch.sin(z) * z + 1).relu(),
                                      atol=1e-6))
    model = net()
    x = torch.randn(16, 128).to(DEVICE)
    fast = torch.compile(model)
    fast(x).pow(2).mean().backward()
    print(f"loss {fast(x).pow(2).mean().item():.6g} "
          f"gradient {model[0].weight.grad.norm().item():.6g}")


def reduce_overhead():
    """torch.compile's graphs: mode="reduce-overhead"."""
    model = net().eval()
    fast = torch.compile(model, mode="reduce-overhead")
    with torch.no_grad():
        for i in range(6):
            x = torch.randn(16, 128).to(DEVICE)
            print(i, f"{fast(x).sum().item():.6g}",
                  torch.allclose(fast(x), model(x), atol=1e-4))


def flex_attention():
    """A compiled attention kernel with a mask of its own."""
    from torch.nn.attention.flex_attention import (create_block_mask,
                                                   flex_attention)
    q, k, v = torch.randn(3, 1, 2, 256, 64).to(DEVICE)
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 256, 256,
                             device=DEVICE)
    y = torch.compile(flex_attention)(q, k, v, block_mask=mask)
    want = nn.functional.scaled_dot_product_attention(q, k, v,
                                                      is_causal=True)
    print(tuple(y.shape), torch.allclose(y, want, atol=2e-2))


def growing():
    """The allocator on virtual memory: grow, free, shrink, out of memory."""
    kept = []
    for i in range(1, 40):
        kept.append(torch.full((i * 100000,), float(i), device=DEVICE))
        if i % 3 == 0:
            kept.pop(0)
    print(f"{sum(t.double().sum().item() for t in kept):.10g}",
          torch.cuda.memory_allocated())
    kept.clear()
    torch.cuda.empty_cache()
    print("after", torch.cuda.memory_allocated(),
          torch.cuda.memory_reserved())
    try:
        torch.empty(1 << 50, dtype=torch.uint8, device=DEVICE)
    except torch.OutOfMemoryError as e:
        print(type(e).__name__)
    print("goes on", torch.ones(1000, device=DEVICE).sum().item())


def profiled():
    """torch.profiler's view of a step, by names of operators.

    CUPTI sees the worker's kernels in no client (README), so that the device's
    side is not printed; a step under the profiler must run all the same.
    """
    from torch.profiler import ProfilerActivity, profile
    model, x = net(), torch.randn(16, 128).to(DEVICE)
    model(x).sum().backward()
    with profile(activities=[ProfilerActivity.CPU,
                             ProfilerActivity.CUDA]) as p:
        model(x).sum().backward()
        torch.cuda.synchronize()
    events = p.key_averages()
    print(sorted({e.key for e in events if e.key.startswith("aten::")}))


def one_rank():
    """torch.distributed over NCCL with a single rank."""
    import torch.distributed as dist
    os.environ.update(MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(20000 + os.getpid() % 20000))
    dist.init_process_group("nccl", rank=0, world_size=1,
                            device_id=torch.device("cuda", 0))
    x = torch.arange(1000.0, device=DEVICE)
    dist.all_reduce(x)
    parts = [torch.empty_like(x)]
    dist.all_gather(parts, x)
    model = nn.parallel.DistributedDataParallel(net(), device_ids=[0])
    model(torch.randn(4, 128).to(DEVICE)).sum().backward()
    print(x.sum().item(), parts[0].sum().item(),
          f"{model.module[0].weight.grad.norm().item():.6g}")
    dist.destroy_process_group()


def extension():
    """A C++ extension with a kernel, built by PyTorch on the spot."""
    from torch.utils.cpp_extension import load_inline
    module = load_inline(
        "twice", cpp_sources="torch::Tensor twice(torch::Tensor x);",
        cuda_sources="""
__global__ void kernel(const float *x, float *y, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		y[i] = 2 * x[i];
}
torch::Tensor twice(torch::Tensor x)
{
	auto y = torch::empty_like(x);
	int n = x.numel();
	kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(),
					 y.data_ptr<float>(), n);
	return y;
}""", functions=["twice"])
    x = torch.randn(10001).to(DEVICE)
    print(torch.equal(module.twice(x), 2 * x))


def descriptors():
    """The device files that this process has open, and who opened them.

    NVML opens some as well; nothing here loads it.
    """
    x = torch.randn(256, 256).to(DEVICE)
    print(f"{(x @ x).sum().item():.6g}")
    links = [os.path.join("/proc/self/fd", n)
             for n in os.listdir("/proc/self/fd")]
    files = sorted({os.readlink(f) for f in links if os.path.islink(f)})
    with open("/proc/self/maps") as f:
        maps = f.read()
    print("device files:", [f for f in files if "/dev/nvidia" in f],
          "NVML loaded:", "libnvidia-ml" in maps, file=sys.stderr)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
