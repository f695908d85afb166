"""The other side of scripts/bench: numpy and PyTorch, which work when they are told to.

Each line of standard input is a request as JSON, each line of standard output its answer:

    {"ask": "about"}                                     {"python": ..., "torch": ..., "numpy": ..., "libraries": [...]}
    {"ask": "op", "op": "GELU", "shape": "262144"}       {"ways": [{"id": 0, "name": "eager"}]}
    {"ask": "step", "model": "vit", "config": {...}, ...}     the same, and "parameters" and "missing"
    {"ask": "turn", "id": 0, "milliseconds": 30}         {"seconds": 0.0021}, of one call

Ways are what PyTorch can do the same work by. A request that fails is answered with {"error": "..."}. The process ends with
its input.
"""

import copy
import json
import os
import platform
import sys
import timeit

import numpy as np
import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import models

aten = torch.ops.aten


def sizes(shape):
    """The numbers of a shape as shoal bench kernels prints it."""
    return [int(n) for n in shape.removesuffix(" causal").split("x")]


def product(trans):
    """C (m, n) = A (m, k) B (k, n), of which one may be stored transposed; several at once as a batch."""

    def make(shape):
        count, _, size = shape.rpartition(" of ")
        count, (m, n, k) = int(count or 1), sizes(size)
        a = torch.randn(count, k, m).transpose(1, 2) if trans == "TN" else torch.randn(count, m, k)
        b = torch.randn(count, n, k).transpose(1, 2) if trans == "NT" else torch.randn(count, k, n)
        c, d = torch.empty(count, m, n), np.empty((count, m, n), np.float32)
        na, nb = a.numpy(), b.numpy()
        if count > 1:
            return {"numpy": lambda: np.matmul(na, nb, out=d), "torch": lambda: torch.bmm(a, b, out=c)}
        a, b, c, na, nb, d = a[0], b[0], c[0], na[0], nb[0], d[0]
        return {"numpy": lambda: np.matmul(na, nb, out=d), "torch": lambda: torch.mm(a, b, out=c)}

    return make


def gelu(shape):
    x = torch.randn(sizes(shape))
    y = torch.empty_like(x)
    return {"eager": lambda: aten.gelu.out(x, approximate="tanh", out=y)}


def gelu_backward(shape):
    x, dy = torch.randn(sizes(shape)), torch.randn(sizes(shape))
    dx = torch.empty_like(x)
    return {"eager": lambda: aten.gelu_backward.grad_input(dy, x, approximate="tanh", grad_input=dx)}


def layer_norm(shape):
    x = torch.randn(sizes(shape))
    gamma, beta = torch.randn(x.shape[1]), torch.randn(x.shape[1])
    return {"eager": lambda: torch.native_layer_norm(x, x.shape[1:], gamma, beta, 1e-5)}


def layer_norm_backward(shape):
    x, dy = torch.randn(sizes(shape)), torch.randn(sizes(shape))
    gamma, beta = torch.randn(x.shape[1]), torch.randn(x.shape[1])
    _, mean, rstd = torch.native_layer_norm(x, x.shape[1:], gamma, beta, 1e-5)
    return {"eager": lambda: aten.native_layer_norm_backward(dy, x, x.shape[1:], mean, rstd, gamma, beta, [True] * 3)}


def qkv(shape, grad):
    """Queries, keys and values (B, H, T, D), and how attention is called."""
    b, t, h, d = sizes(shape)
    return [torch.randn(b, h, t, d, requires_grad=grad) for _ in range(3)], {"is_causal": shape.endswith("causal")}


def attention(shape):
    args, how = qkv(shape, False)

    def math():
        with sdpa_kernel(SDPBackend.MATH):
            F.scaled_dot_product_attention(*args, **how)

    return {"eager": lambda: F.scaled_dot_product_attention(*args, **how), "eager, math": math}


def attention_backward(shape):
    args, how = qkv(shape, True)
    dy = torch.randn_like(args[0])
    y = F.scaled_dot_product_attention(*args, **how)
    with sdpa_kernel(SDPBackend.MATH):
        z = F.scaled_dot_product_attention(*args, **how)
    return {"eager": lambda: torch.autograd.grad(y, args, dy, retain_graph=True),
            "eager, math": lambda: torch.autograd.grad(z, args, dy, retain_graph=True)}


def softmax(shape):
    x = torch.randn(sizes(shape))
    y = torch.empty_like(x)
    return {"eager": lambda: torch.softmax(x, -1, out=y), "eager, new": lambda: torch.softmax(x, -1)}


def softmax_backward(shape):
    """The weights again and the gradient of the scores, from the scores and the gradient of the weights; and the latter alone,
    from weights that were kept."""
    x, dp = torch.randn(sizes(shape)), torch.randn(sizes(shape))
    p, ds = torch.empty_like(x), torch.empty_like(x)

    def backward():
        aten._softmax_backward_data.out(dp, p, -1, torch.float32, grad_input=ds)

    def again():
        torch.softmax(x, -1, out=p)
        backward()

    again()
    return {"eager": again, "weights kept": backward}


def cross_entropy(shape):
    logits = torch.randn(sizes(shape), requires_grad=True)
    labels = torch.randint(logits.shape[1], (logits.shape[0],))
    return {"eager": lambda: torch.autograd.grad(F.cross_entropy(logits, labels, reduction="sum"), logits)}


def adamw(shape):
    def way(**setting):
        p = torch.randn(sizes(shape), requires_grad=True)
        p.grad = torch.randn_like(p)
        return torch.optim.AdamW([p], lr=1e-3, **setting).step

    return {"foreach": way(foreach=True), "fused": way(fused=True)}


def to_bf16(shape):
    x = torch.randn(sizes(shape))
    h = torch.empty_like(x, dtype=torch.bfloat16)
    return {"eager": lambda: h.copy_(x)}


def from_bf16(shape):
    h = torch.randn(sizes(shape)).bfloat16()
    x = torch.empty_like(h, dtype=torch.float32)
    return {"eager": lambda: x.copy_(h)}


OPS = {
    **{f"MatMul {t}": product(t) for t in ("NN", "NT", "TN")},
    "GELU": gelu, "GELUBackward": gelu_backward, "LayerNorm": layer_norm, "LayerNormBackward": layer_norm_backward,
    "Attention": attention, "AttentionBackward": attention_backward, "Softmax": softmax, "SoftmaxBackward": softmax_backward,
    "CrossEntropy": cross_entropy, "AdamW": adamw, "ToBF16": to_bf16, "FromBF16": from_bf16,
}


class Side:
    def __init__(self):
        self.calls = []

    def about(self, _):
        from threadpoolctl import threadpool_info

        keys = ("internal_api", "version", "architecture", "threading_layer", "num_threads")
        return {
            "python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__,
            "threads": torch.get_num_threads(),
            "capability": torch.backends.cpu.get_cpu_capability(),
            "config": [line.strip(" -") for line in torch.__config__.show().splitlines()],
            "libraries": [{k: lib.get(k) for k in keys} for lib in threadpool_info()],
        }

    def add(self, ways, **more):
        answer = []
        for name, call in ways.items():
            answer.append({"id": len(self.calls), "name": name})
            self.calls.append(call)
        return {"ways": answer, **more}

    def op(self, r):
        return self.add(OPS[r["op"]](r["shape"]))

    def step(self, r):
        model, batch = models.MODELS[r["model"]](r["config"], r["batch"])
        parameters = sum(p.numel() for p in model.parameters())
        other = copy.deepcopy(model)
        ways, missing = {"eager": models.step_of(model, batch, r["adamw"], r["weight_decay"])}, ""
        step, compiled = models.step_of(other, batch, r["adamw"], r["weight_decay"]), torch.compile(other)
        try:
            step(compiled)
            ways["compiled"] = lambda: step(compiled)
        except Exception as e:  # whatever a compiler may lack
            missing = f"torch.compile: {e}".splitlines()[0]
        return self.add(ways, parameters=parameters, missing=missing)

    def turn(self, r):
        return {"seconds": seconds(self.calls[r["id"]], r["milliseconds"] / 1e3)}

def seconds(call, limit):
    """How long a call takes, measured over as many as fill the limit after one that warms up and one that counts them. A
    call that is longer is measured once."""
    first = timeit.timeit(call, number=1)
    if first >= limit:
        return first
    count = 1 + int(limit / max(timeit.timeit(call, number=1), 1e-6))
    return timeit.timeit(call, number=count) / count


def main():
    out = os.fdopen(os.dup(1), "w")  # what libraries print goes to standard error
    os.dup2(2, 1)
    side = Side()
    asks = {f.__name__: f for f in (side.about, side.op, side.step, side.turn)}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = asks[request["ask"]](request)
        except Exception as e:
            answer = {"error": f"{request['ask']}: {type(e).__name__}: {e}"}
        print(json.dumps(answer), file=out, flush=True)


main()
