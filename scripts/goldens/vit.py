#!/usr/bin/env python3
"""Writes the goldens of model/vit: what PyTorch computes for two small vision transformers.

    python3 vit.py ../../model/vit/testdata

For each configuration NAME it writes NAME.json and NAME.f32. The .f32 file is a run of little-endian float32; "tensors"
in the JSON gives each tensor's name, shape and offset in elements:

    images            (STEPS, BATCH, channels, image, image)  one batch per step
    param/<name>      initial parameters, matrices as (out, in)
    logits            (BATCH, classes)    of batch 0, at the initial parameters
    grad/<name>       gradient of the SUM of batch 0's losses, at the initial parameters

and "labels" (STEPS x BATCH), "losses" (BATCH, of batch 0), "step_losses" (mean loss before each AdamW step), "norms"
(gradient norm of the mean loss before clipping) and "lr" (STEPS). Everything is computed in float64 from float32
parameters and images, and rounded at the end, so that the goldens are nearer to the truth than any float32 run.

The model is written here a second time, from torch.nn alone: it shares nothing with the Go code but the names.
"""

import json
import math
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

STEPS, BATCH = 10, 4
BETAS, EPS, WEIGHT_DECAY, CLIP, LR, WARMUP = (0.9, 0.95), 1e-8, 0.05, 1.0, 3e-3, 4

CONFIGS = {
    "small": dict(image=14, patch=7, channels=1, dim=16, depth=2, heads=2, classes=10),
    "odd": dict(image=9, patch=3, channels=2, dim=5, depth=3, heads=1, classes=3),
}


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (u.view(b, t, self.heads, c // self.heads).transpose(1, 2) for u in self.qkv(x).chunk(3, dim=-1))
        a = (q @ k.transpose(-2, -1) / math.sqrt(c // self.heads)).softmax(dim=-1)
        return self.proj((a @ v).transpose(1, 2).reshape(b, t, c))


class MLP(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc1 = nn.Linear(dim, 4 * dim)
        self.fc2 = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(dim), Attention(dim, heads)
        self.norm2, self.mlp = nn.LayerNorm(dim), MLP(dim)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, image, patch, channels, dim, depth, heads, classes):
        super().__init__()
        self.patch_embed = nn.Conv2d(channels, dim, patch, stride=patch)
        self.pos_embed = nn.Parameter(torch.empty((image // patch) ** 2, dim))
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, images):
        x = self.patch_embed(images).flatten(2).transpose(1, 2) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(dim=1))


def initialise(model, gen):
    """Draws every parameter, norms and biases too: zeros and ones would hide mistakes."""
    for name, p in model.named_parameters():
        r = torch.randn(p.shape, generator=gen)
        if p.dim() > 1:
            r = r / math.sqrt(p[0].numel())
        else:
            r = 0.1 * r + (1.0 if "norm" in name and name.endswith("weight") else 0.0)
        p.data.copy_(r.float())


class Writer:
    def __init__(self):
        self.index, self.data, self.offset = [], [], 0

    def add(self, name, t):
        t = t.detach().to(torch.float32).contiguous()
        self.index.append({"name": name, "shape": list(t.shape), "offset": self.offset})
        self.data.append(t.numpy().astype("<f4").tobytes())
        self.offset += t.numel()

    def add_parameter(self, prefix, name, t):
        # The convolution's weight (dim, channels, patch, patch) is a matrix (dim, channels*patch*patch).
        self.add(prefix + name, t.flatten(1) if t.dim() > 2 else t)


def decays(name):
    return name.endswith("weight") and "norm" not in name


def train(model, images, labels, record):
    """Takes STEPS AdamW steps with warmup, then a constant rate; decay on matrices only; the norm clipped to CLIP."""
    named = list(model.named_parameters())
    groups = [
        {"params": [p for n, p in named if decays(n)], "weight_decay": WEIGHT_DECAY},
        {"params": [p for n, p in named if not decays(n)], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS)
    for step in range(STEPS):
        lr = LR * min(1.0, (step + 1) / WARMUP)
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images[step]), labels[step])
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        record["step_losses"].append(loss.item())
        record["norms"].append(norm.item())
        record["lr"].append(lr)


def write(out, name, cfg, seed):
    gen = torch.Generator().manual_seed(seed)
    model = ViT(**cfg).double()
    initialise(model, gen)
    images = torch.randn(STEPS, BATCH, cfg["channels"], cfg["image"], cfg["image"], generator=gen)
    labels = torch.randint(cfg["classes"], (STEPS, BATCH), generator=gen)

    w = Writer()
    w.add("images", images)
    for n, p in model.named_parameters():
        w.add_parameter("param/", n, p)
    logits = model(images[0].double())
    losses = F.cross_entropy(logits, labels[0], reduction="none")
    losses.sum().backward()
    w.add("logits", logits)
    for n, p in model.named_parameters():
        w.add_parameter("grad/", n, p.grad)

    record = {
        "config": cfg, "steps": STEPS, "batch": BATCH,
        "beta1": BETAS[0], "beta2": BETAS[1], "eps": EPS, "weight_decay": WEIGHT_DECAY, "clip": CLIP,
        "labels": labels.flatten().tolist(), "losses": losses.tolist(),
        "step_losses": [], "norms": [], "lr": [],
    }
    train(model, images.double(), labels, record)
    record["tensors"] = w.index
    lines = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in record.items())
    (out / f"{name}.json").write_text("{\n" + lines + "\n}\n")
    (out / f"{name}.f32").write_bytes(b"".join(w.data))


def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} DIRECTORY")
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for seed, (name, cfg) in enumerate(CONFIGS.items(), start=1):
        write(out, name, cfg, seed)


main()
