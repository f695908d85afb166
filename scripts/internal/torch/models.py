"""The models of model/vit and model/gpt, written plainly in torch.nn, with the ops that PyTorch is fastest with."""

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """One pre-norm transformer block on (B, T, C)."""

    def __init__(self, dim, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.qkv, self.proj = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.norm2, self.fc1, self.fc2 = nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x)), approximate="tanh"))


class ViT(nn.Module):
    """From patches (B, T, P) and labels (B) to the mean loss."""

    def __init__(self, image, patch, channels, dim, depth, heads, classes):
        super().__init__()
        self.patch_embed = nn.Linear(channels * patch * patch, dim)
        self.pos_embed = nn.Parameter(0.02 * torch.randn((image // patch) ** 2, dim))
        self.blocks = nn.ModuleList(Block(dim, heads, causal=False) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, classes)

    def forward(self, patches, labels):
        x = self.patch_embed(patches) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x).mean(dim=1)), labels)


class GPT(nn.Module):
    """From tokens (B, T) and labels (B, T) to the mean loss. The head's matrix is that of the token embedding."""

    def __init__(self, vocab, context, dim, depth, heads):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, dim), nn.Embedding(context, dim)
        self.blocks = nn.ModuleList(Block(dim, heads, causal=True) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, tokens, labels):
        x = self.wte(tokens) + self.wpe.weight
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(F.linear(self.norm(x), self.wte.weight).flatten(0, 1), labels.flatten())


def vit(config, batch):
    """The model and a batch for it."""
    patches = (config["image"] // config["patch"]) ** 2
    images = torch.randn(batch, patches, config["channels"] * config["patch"] ** 2)
    return ViT(**config), (images, torch.randint(config["classes"], (batch,)))


def gpt(config, batch):
    """The model and a batch for it."""
    text = torch.randint(config["vocab"], (batch, config["context"] + 1))
    return GPT(**config), (text[:, :-1].contiguous(), text[:, 1:].contiguous())


MODELS = {"vit": vit, "gpt": gpt}


def step_of(model, batch, adamw, weight_decay):
    """One training step: a function without arguments. adamw are settings of torch.optim.AdamW; matrices decay."""
    matrices = [p for n, p in model.named_parameters() if p.dim() > 1 and n not in ("pos_embed", "wpe.weight")]
    vectors = [p for p in model.parameters() if not any(p is m for m in matrices)]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}], fused=True, **adamw)

    def step(call=model):
        optimizer.zero_grad()
        call(*batch).backward()
        optimizer.step()

    return step
