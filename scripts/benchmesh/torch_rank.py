"""One process of the other side of scripts/benchmesh: PyTorch's distributed training over gloo.

Each line of standard input is a request as JSON, each line of standard output its answer:

    {"ask": "begin", "rank": 0, "world": 2, "file": ..., "way": "ddp", "model": "gpt", "config": {...}, "batch": 8}
        {"parameters": ..., "memory": ..., "python": ..., "torch": ..., "threads": 1}
    {"ask": "steps", "count": 3}
        {"seconds": 2.5, "cpu": 2.4, "memory": ...}, of all steps together

Memory is the most bytes that this process ever had. A request that fails is answered with {"error": "..."}. The process
ends with its input.
"""

import json
import os
import platform
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

import models

WARMUP = 2


def peak_memory():
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


def shared_out(model, way):
    """The model as it is trained in a way: "ddp", or "fsdp" with or without "bf16" and "keep"."""
    if way == "ddp":
        return DistributedDataParallel(model, gradient_as_bucket_view=True)
    policy = MixedPrecisionPolicy()
    if "bf16" in way:
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mp_policy=policy, reshard_after_forward="keep" not in way)
    return fully_shard(model, mp_policy=policy)


class Rank:
    def begin(self, r):
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        dist.init_process_group("gloo", init_method="file://" + r["file"], rank=r["rank"], world_size=r["world"])
        answer = {"memory": peak_memory(), "python": platform.python_version(), "torch": torch.__version__,
                  "threads": torch.get_num_threads()}
        torch.manual_seed(1)
        model, batch = models.MODELS[r["model"]](r["config"], r["batch"])
        answer["parameters"] = sum(p.numel() for p in model.parameters())
        adamw = {"lr": 1e-4, "betas": (0.9, 0.95), "eps": 1e-8}
        self.step = models.step_of(shared_out(model, r["way"]), batch, adamw, 0.05)
        for _ in range(WARMUP):
            self.step()
        return answer

    def steps(self, r):
        dist.barrier()
        start, used = time.perf_counter(), time.process_time()
        for _ in range(r["count"]):
            self.step()
        dist.barrier()
        return {"seconds": time.perf_counter() - start, "cpu": time.process_time() - used, "memory": peak_memory()}


def main():
    out = os.fdopen(os.dup(1), "w")  # what libraries print goes to standard error
    os.dup2(2, 1)
    rank = Rank()
    asks = {f.__name__: f for f in (rank.begin, rank.steps)}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = asks[request["ask"]](request)
        except Exception as e:
            answer = {"error": f"{request['ask']}: {type(e).__name__}: {e}"}
        print(json.dumps(answer), file=out, flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


main()
