# SPDX-License-Identifier: Apache-2.0
"""Models in PyTorch, weights from a fixed generator: torch_models.py NAME."""
import os
import sys

import torch
from torch import nn

DEVICE = os.environ.get("DEVICE", "cuda")
torch.manual_seed(0)


def steps(model, batches, optimizer, loss_of):
    for i, batch in enumerate(batches):
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {i} loss {loss.item():.7g}", flush=True)


def all_of_torch():
    """Inference, training, a graph, mixed precision and pinned memory."""
    import torchvision
    m = torchvision.models.resnet18(weights=None).eval().to(DEVICE)
    x = torch.randn(1, 3, 224, 224).to(DEVICE)
    with torch.no_grad():
        for _ in range(50):
            y = m(x)
        print(f"resnet18 {y.sum().item():.7g}")
    lm = nn.TransformerEncoder(nn.TransformerEncoderLayer(
        256, 4, 512, dropout=0, batch_first=True), 4).to(DEVICE)
    d = torch.randn(8, 64, 256).to(DEVICE)
    steps(lm, [d] * 10, torch.optim.AdamW(lm.parameters(), 1e-3),
          lambda m, b: m(b).pow(2).mean())
    g, s_in = torch.cuda.CUDAGraph(), x.clone()
    s = torch.cuda.Stream()
    with torch.no_grad():
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            for _ in range(3):
                m(s_in)
        torch.cuda.current_stream().wait_stream(s)
        with torch.cuda.graph(g):
            s_out = m(s_in)
    for _ in range(100):
        g.replay()
    print(f"graph replay {s_out.sum().item():.7g}")
    with torch.autocast("cuda", torch.bfloat16):
        print(f"autocast {m(x).float().sum().item():.7g}")
    p = torch.randn(1 << 20).pin_memory()
    dd = p.to(DEVICE, non_blocking=True)
    print("pinned", bool((dd.cpu() == p).all()))
    print("properties", torch.cuda.get_device_properties(0).name,
          torch.cuda.get_device_capability(), torch.cuda.memory_allocated())


def hugging_face():
    """A small causal language model writes 64 tokens, greedily."""
    from transformers import LlamaConfig, LlamaForCausalLM
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=2000, hidden_size=256, intermediate_size=512,
        num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4,
        max_position_embeddings=256)).eval().to(DEVICE)
    prompt = torch.arange(1, 13).reshape(1, 12).to(DEVICE)
    out = model.generate(prompt, attention_mask=torch.ones_like(prompt),
                         max_new_tokens=64, min_new_tokens=64,
                         do_sample=False, pad_token_id=0)
    print(out[0].tolist())


def bert():
    """An encoder with a classification head, fine-tuned by transformers."""
    from transformers import BertConfig, BertForSequenceClassification
    model = BertForSequenceClassification(BertConfig(
        vocab_size=1000, hidden_size=128, num_hidden_layers=3,
        num_attention_heads=4, intermediate_size=256,
        hidden_dropout_prob=0, attention_probs_dropout_prob=0,
        num_labels=3)).to(DEVICE)
    ids = torch.randint(0, 1000, (16, 32)).to(DEVICE)
    labels = torch.randint(0, 3, (16,)).to(DEVICE)
    # Gradients of embeddings add up in any order without this.
    torch.use_deterministic_algorithms(True)
    steps(model, [(ids, labels)] * 8,
          torch.optim.AdamW(model.parameters(), 5e-4),
          lambda m, b: m(input_ids=b[0], labels=b[1]).loss)


def vision():
    """torchvision's ResNet-18, twenty steps."""
    import torchvision
    torch.backends.cudnn.deterministic = True
    model = torchvision.models.resnet18(num_classes=10).to(DEVICE)
    x = torch.randn(20, 16, 3, 64, 64)
    t = torch.randint(0, 10, (20, 16))
    steps(model, zip(x.to(DEVICE), t.to(DEVICE)),
          torch.optim.SGD(model.parameters(), 0.01, momentum=0.9),
          lambda m, b: nn.functional.cross_entropy(m(b[0]), b[1]))


def detection():
    """torchvision's own CUDA operators: boxes and aligned regions."""
    from torchvision import ops
    corner = torch.rand(500, 2) * 80
    boxes = torch.cat([corner, corner + torch.rand(500, 2) * 20], 1)
    kept = ops.nms(boxes.to(DEVICE), torch.rand(500).to(DEVICE), 0.3)
    print(len(kept), kept[:20].tolist())
    image = torch.randn(1, 8, 100, 100).to(DEVICE)
    where = torch.cat([torch.zeros(500, 1), boxes], 1).to(DEVICE)
    print(f"{ops.roi_align(image, where, (7, 7)).sum().item():.6g}")
    print(f"{ops.roi_pool(image, where, (7, 7)).sum().item():.6g}")
    print(f"{ops.box_iou(boxes.to(DEVICE), boxes.to(DEVICE)).sum():.6g}")


def timm_models():
    """Three of timm's architectures."""
    import timm
    x = torch.randn(2, 3, 224, 224).to(DEVICE)
    for name in ("vit_tiny_patch16_224", "convnext_atto", "efficientnet_b0"):
        model = timm.create_model(name, pretrained=False).eval().to(DEVICE)
        with torch.inference_mode():
            print(name, f"{model(x).double().sum().item():.7g}")


def lora():
    """PEFT's LoRA on a small decoder; merged and unmerged agree."""
    from peft import LoraConfig, get_peft_model
    from transformers import GPT2Config, GPT2LMHeadModel
    base = GPT2LMHeadModel(GPT2Config(
        vocab_size=500, n_positions=64, n_embd=64, n_layer=2, n_head=4,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    model = get_peft_model(base, LoraConfig(
        r=4, lora_alpha=8, lora_dropout=0, target_modules=["c_attn"],
        fan_in_fan_out=True)).to(DEVICE)
    ids = torch.randint(0, 500, (4, 32)).to(DEVICE)
    steps(model, [ids] * 8,
          torch.optim.AdamW(model.parameters(), 1e-2),
          lambda m, b: m(input_ids=b, labels=b).loss)
    before = model(input_ids=ids).logits
    after = model.merge_and_unload()(input_ids=ids).logits
    print("merged agrees", torch.allclose(before, after, atol=1e-4))


def lightning_fit():
    """Lightning's own demonstration model and trainer."""
    import logging
    import warnings

    import lightning
    from lightning.pytorch.demos.boring_classes import BoringModel
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    lightning.seed_everything(1, verbose=False)
    model = BoringModel()
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu" if DEVICE == "cpu" else "gpu",
        devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(model)
    print(trainer.state.finished, trainer.global_step,
          f"{model.layer.weight.sum().item():.7g}")


def accelerated():
    """accelerate: mixed precision and gradient accumulation."""
    from accelerate import Accelerator
    a = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2,
                    cpu=DEVICE == "cpu")
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    x = torch.randn(64, 32)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), 8)
    model, optimizer, loader = a.prepare(model, optimizer, loader)
    for x, t in loader:
        with a.accumulate(model):
            loss = nn.functional.mse_loss(model(x), t)
            a.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        print(f"{loss.item():.7g}")


def graph_net():
    """torch-geometric: a two-layer GCN and GAT on a fake graph."""
    from torch_geometric.nn import GATConv, GCNConv
    n = 200
    edges = torch.randint(0, n, (2, 1500)).to(DEVICE)
    x = torch.randn(n, 16).to(DEVICE)
    t = torch.randint(0, 4, (n,)).to(DEVICE)
    for layer in (GCNConv, GATConv):
        torch.manual_seed(1)
        a, b = layer(16, 32).to(DEVICE), layer(32, 4).to(DEVICE)
        optimizer = torch.optim.Adam([*a.parameters(), *b.parameters()],
                                     0.01)
        for _ in range(10):
            y = b(a(x, edges).relu(), edges)
            loss = nn.functional.cross_entropy(y, t)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        # Messages are summed by atomic additions.
        print(layer.__name__, f"{loss.item():.3f}")


def gaussian_process():
    """gpytorch: exact regression; botorch: one acquisition step."""
    import gpytorch
    x = torch.linspace(0, 1, 64).to(DEVICE, torch.float64)
    t = torch.sin(6 * x) + 0.01 * torch.cos(90 * x)

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(x, t, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(
                gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood().to(x)
    model = Model(likelihood).to(x)
    model.train()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    steps(model, [None] * 15, torch.optim.Adam(model.parameters(), 0.1),
          lambda m, _: -objective(m(x), t))
    from botorch.acquisition import LogExpectedImprovement
    from botorch.models import SingleTaskGP
    model = SingleTaskGP(x[:, None], t[:, None])
    gain = LogExpectedImprovement(model, best_f=0.9)
    print([f"{v:.6g}" for v in gain(x[::16, None, None]).tolist()])


def differential_equation():
    """torchdiffeq: an adaptive solver, differentiated by the adjoint."""
    from torchdiffeq import odeint_adjoint
    net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2)) \
        .to(DEVICE)

    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, t, y):
            return self.net(y ** 3)

    y = odeint_adjoint(Field(), torch.tensor([[2.0, 0.0]]).to(DEVICE),
                       torch.linspace(0, 2, 9).to(DEVICE))
    y.pow(2).sum().backward()
    print(f"{y[-1].tolist()} {net[0].weight.grad.norm().item():.6g}")


def equivariant():
    """e3nn: spherical harmonics and a tensor product, TorchScript inside."""
    from e3nn import o3
    v = torch.randn(100, 3).to(DEVICE)
    y = o3.spherical_harmonics([0, 1, 2], v, True)
    product = o3.FullyConnectedTensorProduct(
        "1x0e+1x1o+1x2e", "1x0e+1x1o+1x2e", "4x0e+4x1o").to(DEVICE)
    print(f"{y.sum().item():.6g} {product(y, y).sum().item():.6g}")


def sound():
    """torchaudio: spectra, resampling, filters."""
    import torchaudio
    x = torch.sin(torch.arange(16000) * 0.05)[None].to(DEVICE)
    for f in (torchaudio.transforms.MelSpectrogram(16000, n_fft=400),
              torchaudio.transforms.MFCC(16000, melkwargs={"n_fft": 400}),
              torchaudio.transforms.Resample(16000, 8000)):
        y = f.to(DEVICE)(x)
        print(type(f).__name__, tuple(y.shape), f"{y.sum().item():.6g}")
    y = torchaudio.functional.lowpass_biquad(x[:, :2000], 16000, 1000)
    print("biquad", f"{y.abs().sum().item():.6g}")


globals()[sys.argv[1]]()
