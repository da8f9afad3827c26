#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One PyTorch tenant: inference with batches of one, a step at a time.

    tenant.py KIND INDEX

tenants.py leads it, over stdin and stdout, a line each:

    it: imported                      go: make the model and use it
    it: {"first_result_s": ...}       START SECONDS WINDOWS
    it: {"rate": [...], ...}          end of file: leave

START is a time of the monotonic clock, the same for all tenants. Rates and
percentiles are of each of the WINDOWS that the SECONDS are cut into.
"""
import json
import os
import sys
import time

import torch
import torchvision

import asked

WARM_STEPS = 20


def resnet():
    model = torchvision.models.resnet18(weights=None).eval().cuda()
    x = torch.randn(1, 3, 224, 224, device="cuda")
    return lambda: model(x)[0, 0]


def bert():
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
    model = model.eval().cuda()
    x = torch.randn(1, 64, 512, device="cuda")
    return lambda: model(x)[0, 0, 0]


def tiny():
    """Many small kernels, and one wait a step."""
    a = torch.randn(64, 64, device="cuda")
    b = torch.randn(64, 64, device="cuda")

    def step():
        y = a
        for _ in range(50):
            y = torch.tanh(y @ b)
        return y[0, 0]
    return step


KINDS = {"resnet": resnet, "bert": bert, "tiny": tiny}


def say(what):
    print(what, flush=True)


def cut(samples, start, seconds, windows):
    """[(steps a second, p50 ms, p99 ms)] of each window; samples are (when
    it ended, how long it took)."""
    parts = [[] for _ in range(windows)]
    for end, took in samples:
        at = int((end - start) / seconds * windows)
        # What ends after the last window has no window.
        if at < windows:
            parts[at].append(took)
    out = []
    for part in parts:
        part.sort()
        n = len(part)
        out.append((n * windows / seconds,
                    part[n // 2] * 1e3 if n else seconds * 1e3,
                    part[n * 99 // 100] * 1e3 if n else seconds * 1e3))
    return out


def measure(step, wanted, start, seconds, windows):
    samples, wrong = [], 0
    time.sleep(max(0, start - time.monotonic()))
    cpu = time.process_time()
    now = time.monotonic()
    while now < start + seconds:
        begun = now
        wrong += step().item() != wanted
        now = time.monotonic()
        samples.append((now, now - begun))
    cpu = time.process_time() - cpu
    rates, p50, p99 = zip(*cut(samples, start, seconds, windows))
    return {"rate": rates, "p50": p50, "p99": p99, "wrong": wrong,
            "steps": len(samples), "cpu_s": cpu}


def main():
    kind, index = sys.argv[1], int(sys.argv[2])
    if kind == "mix":
        kind = "bert" if index % 2 else "resnet"
    say("imported")
    if sys.stdin.readline() != "go\n":
        return
    begun = time.monotonic()
    torch.manual_seed(1)
    with torch.no_grad():
        step = KINDS[kind]()
        wanted = step().item()
        first = time.monotonic() - begun
        for _ in range(WARM_STEPS):
            step().item()
        said = {"kind": kind, "first_result_s": first,
                "reserved_mib": torch.cuda.memory_reserved() / 2**20}
        if asked.FOLDER in os.environ:
            said["asked_mib"] = asked.live(os.getpid()) / 2**20
        say(json.dumps(said))
        line = sys.stdin.readline().split()
        if not line:
            return
        say(json.dumps(measure(step, wanted, float(line[0]), float(line[1]),
                               int(line[2]))))
    sys.stdin.read()


if __name__ == "__main__":
    main()
