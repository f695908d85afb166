"""What the goldens have in common: the file format and the training loop.

A golden is a pair of files. NAME.f32 is a run of little-endian float32; NAME.json has "tensors", each tensor's name,
shape and offset in elements, next to what the script that wrote it explains. Everything is computed in float64 from
float32 parameters, and rounded at the end, so that the goldens are nearer to the truth than any float32 run.
"""

import json
import sys
from pathlib import Path

import torch

BETAS, EPS, WEIGHT_DECAY, CLIP, LR, WARMUP = (0.9, 0.95), 1e-8, 0.05, 1.0, 3e-3, 4


class Writer:
    def __init__(self):
        self.index, self.data, self.offset = [], [], 0

    def add(self, name, t):
        t = t.detach().to(torch.float32).contiguous()
        self.index.append({"name": name, "shape": list(t.shape), "offset": self.offset})
        self.data.append(t.numpy().astype("<f4").tobytes())
        self.offset += t.numel()

    def save(self, out, name, record):
        record["tensors"] = self.index
        lines = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in record.items())
        (out / f"{name}.json").write_text("{\n" + lines + "\n}\n")
        (out / f"{name}.f32").write_bytes(b"".join(self.data))


def hyper():
    """The settings of train, for the record."""
    return {"beta1": BETAS[0], "beta2": BETAS[1], "eps": EPS, "weight_decay": WEIGHT_DECAY, "clip": CLIP, "warmup": WARMUP}


def train(named, decays, steps, loss_of):
    """Takes AdamW steps on the named parameters with warmup, then a constant rate; decay where decays(name); the norm
    clipped to CLIP. loss_of(step) is the mean loss. Returns the losses before each step, the norms before clipping and
    the rates."""
    groups = [
        {"params": [p for n, p in named if decays(n)], "weight_decay": WEIGHT_DECAY},
        {"params": [p for n, p in named if not decays(n)], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS)
    record = {"step_losses": [], "norms": [], "lr": []}
    for step in range(steps):
        lr = LR * min(1.0, (step + 1) / WARMUP)
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.zero_grad()
        loss = loss_of(step)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_([p for _, p in named], CLIP)
        optimizer.step()
        record["step_losses"].append(loss.item())
        record["norms"].append(norm.item())
        record["lr"].append(lr)
    return record


def write_all(configs, write):
    """Calls write(folder, name, config, seed) for each configuration; the folder is the program's argument."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} DIRECTORY")
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for seed, (name, cfg) in enumerate(configs.items(), start=1):
        write(out, name, cfg, seed)
