# SPDX-License-Identifier: Apache-2.0
"""Every operator of PyTorch on PyTorch's own samples, forward.

For each the norm of its results in three digits, so that sums in any order
print alike, or the error it gives.
"""
import os
import sys
import warnings

import torch

warnings.filterwarnings("ignore")
from torch.testing._internal.common_methods_invocations import op_db  # noqa

DEVICE = os.environ.get("DEVICE", "cuda")
# Their results, or parts of them, are whatever the memory held before.
UNDEFINED = ("empty", "new_empty", "resize", "_efficient_attention_forward")
SAMPLES = 4


def tensors(x):
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, (tuple, list)):
        for part in x:
            yield from tensors(part)


def norm(t):
    t = t.to_dense() if t.layout != torch.strided else t
    t = t.resolve_conj().resolve_neg()
    t = t.abs() if t.is_complex() else t
    t = t.double()
    return t[t.isfinite()].norm().item()


for op in sorted(op_db, key=lambda op: (op.name, op.variant_test_name)):
    if any(u in op.name for u in UNDEFINED) or \
            torch.float32 not in op.dtypesIfCUDA:
        continue
    torch.manual_seed(1)
    total, errors = 0.0, []
    samples = op.sample_inputs(DEVICE, torch.float32, requires_grad=False)
    for _, s in zip(range(SAMPLES), samples):
        torch.manual_seed(2)
        try:
            total += sum(map(norm, tensors(op(s.input, *s.args, **s.kwargs))))
        except Exception as e:
            errors.append(type(e).__name__)
    print(op.name, op.variant_test_name, f"{total:.3g}", *errors, flush=True)
print("done", file=sys.stderr)
