#!/usr/bin/env python3
"""Writes the goldens of model/vit: what PyTorch computes for two small vision transformers.

    python3 vit.py ../../model/vit/testdata

For each configuration NAME it writes NAME.json and NAME.f32 (see common.py) with the tensors

    images            (STEPS, BATCH, channels, image, image)  one batch per step
    param/<name>      initial parameters, matrices as (out, in)
    logits            (BATCH, classes)    of batch 0, at the initial parameters
    grad/<name>       gradient of the SUM of batch 0's losses, at the initial parameters

and "labels" (STEPS x BATCH), "losses" (BATCH, of batch 0), "step_losses" (mean loss before each AdamW step), "norms"
(gradient norm of the mean loss before clipping) and "lr" (STEPS).

The model is written here a second time, from torch.nn alone: it shares nothing with the Go code but the names.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

import common

STEPS, BATCH = 10, 4

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


def matrix(t):
    """The convolution's weight (dim, channels, patch, patch) is a matrix (dim, channels*patch*patch)."""
    return t.flatten(1) if t.dim() > 2 else t


def decays(name):
    return name.endswith("weight") and "norm" not in name


def write(out, name, cfg, seed):
    gen = torch.Generator().manual_seed(seed)
    model = ViT(**cfg).double()
    initialise(model, gen)
    images = torch.randn(STEPS, BATCH, cfg["channels"], cfg["image"], cfg["image"], generator=gen)
    labels = torch.randint(cfg["classes"], (STEPS, BATCH), generator=gen)

    w = common.Writer()
    w.add("images", images)
    for n, p in model.named_parameters():
        w.add("param/" + n, matrix(p))
    logits = model(images[0].double())
    losses = F.cross_entropy(logits, labels[0], reduction="none")
    losses.sum().backward()
    w.add("logits", logits)
    for n, p in model.named_parameters():
        w.add("grad/" + n, matrix(p.grad))

    record = {
        "config": cfg, "steps": STEPS, "batch": BATCH, **common.hyper(),
        "labels": labels.flatten().tolist(), "losses": losses.tolist(),
        **common.train(list(model.named_parameters()), decays, STEPS,
                       lambda step: F.cross_entropy(model(images[step].double()), labels[step])),
    }
    w.save(out, name, record)


common.write_all(CONFIGS, write)
