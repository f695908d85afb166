#!/usr/bin/env python3
"""Writes the goldens of model/gpt: what PyTorch computes for two small language models.

    python3 gpt.py ../../model/gpt/testdata

For each configuration NAME it writes NAME.json and NAME.f32 (see common.py) with the tensors

    param/<name>      initial parameters, named and shaped as in Hugging Face's GPT-2
    logits            (BATCH, context, vocab)  of batch 0, at the initial parameters
    grad/<name>       gradient of the SUM of batch 0's losses, at the initial parameters

and "tokens", "labels" (STEPS x BATCH x context), "losses" (BATCH x context, of batch 0), "step_losses" (mean loss over
the batch's labels before each AdamW step), "norms" (gradient norm of the mean loss before clipping) and "lr" (STEPS).
Samples end early, each at its own length, and have the label -1 from there on: it is ignored. "frozen" has "names",
"step_losses", "norms" and "lr" of a second run from the same start, in which the parameters of these names don't
change and don't count in the norm.

The model is written here a second time, from torch.nn alone: it shares nothing with the Go code but the names.
"""

import copy
import fnmatch
import math

import torch
from torch import nn
from torch.nn import functional as F

import common

STEPS, BATCH = 10, 8
FROZEN = ["wte.weight", "h.0.*"]

CONFIGS = {
    "small": dict(vocab=13, context=8, dim=16, depth=2, heads=2),
    "odd": dict(vocab=7, context=5, dim=9, depth=3, heads=3),
}


class Conv1D(nn.Module):
    """GPT-2's linear layer, whose weight is (in, out)."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_in, n_out))
        self.bias = nn.Parameter(torch.empty(n_out))

    def forward(self, x):
        return x @ self.weight + self.bias


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = Conv1D(dim, 3 * dim)
        self.c_proj = Conv1D(dim, dim)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (u.view(b, t, self.heads, c // self.heads).transpose(1, 2) for u in self.c_attn(x).split(c, dim=-1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(c // self.heads)
        scores = scores.masked_fill(torch.ones(t, t).triu(1).bool(), -math.inf)
        return self.c_proj((scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, t, c))


class MLP(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.c_fc = Conv1D(dim, 4 * dim)
        self.c_proj = Conv1D(4 * dim, dim)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(dim), Attention(dim, heads)
        self.ln_2, self.mlp = nn.LayerNorm(dim), MLP(dim)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocab, context, dim, depth, heads):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, dim), nn.Embedding(context, dim)
        self.h = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.ln_f = nn.LayerNorm(dim)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


def initialise(model, gen):
    """Draws every parameter, norms and biases too: zeros and ones would hide mistakes."""
    for name, p in model.named_parameters():
        r = torch.randn(p.shape, generator=gen)
        if p.dim() > 1:
            r = r / math.sqrt(p.shape[1] if name.startswith("w") else p.shape[0])
        else:
            r = 0.1 * r + (1.0 if "ln_" in name and name.endswith("weight") else 0.0)
        p.data.copy_(r.float())


def decays(name):
    return name.endswith("weight") and "ln_" not in name and name != "wpe.weight"


def draw(cfg, gen):
    """Tokens and labels (STEPS, BATCH, context)."""
    t = cfg["context"]
    text = torch.randint(cfg["vocab"], (STEPS, BATCH, t + 1), generator=gen)
    lengths = torch.randint(1, t + 1, (STEPS, BATCH, 1), generator=gen)
    return text[..., :-1], text[..., 1:].masked_fill(torch.arange(t) >= lengths, -1)


def losses_of(model, tokens, labels, reduction):
    return F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten(), ignore_index=-1, reduction=reduction)


def write(out, name, cfg, seed):
    gen = torch.Generator().manual_seed(seed)
    model = GPT(**cfg).double()
    initialise(model, gen)
    tokens, labels = draw(cfg, gen)

    w = common.Writer()
    for n, p in model.named_parameters():
        w.add("param/" + n, p)
    losses = losses_of(model, tokens[0], labels[0], "none")
    losses.sum().backward()
    w.add("logits", model(tokens[0]))
    for n, p in model.named_parameters():
        w.add("grad/" + n, p.grad)

    def run(frozen):
        m = copy.deepcopy(model)
        named = [(n, p) for n, p in m.named_parameters() if not any(fnmatch.fnmatch(n, f) for f in frozen)]
        return common.train(named, decays, STEPS, lambda step: losses_of(m, tokens[step], labels[step], "mean"))

    w.save(out, name, {
        "config": cfg, "steps": STEPS, "batch": BATCH, **common.hyper(),
        "tokens": tokens.flatten().tolist(), "labels": labels.flatten().tolist(), "losses": losses.tolist(),
        **run([]), "frozen": {"names": FROZEN, **run(FROZEN)},
    })


common.write_all(CONFIGS, write)
