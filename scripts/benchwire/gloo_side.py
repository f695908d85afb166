"""One rank of the other side of scripts/benchwire: PyTorch's all_reduce by gloo.

    gloo_side.py RANK WORLD STORE ELEMENTS

STORE is a file by which the ranks find one another. Once they have, it writes {"torch": its version}; then it answers each
line of standard input with {}, after a sum of ELEMENTS float32s over all ranks. It ends with its input.
"""

import json
import sys

import torch
import torch.distributed as dist


def main():
    rank, world, store, elements = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    x = torch.full((elements,), rank + 1, dtype=torch.float32)
    dist.all_reduce(x)
    if not bool((x == world * (world + 1) / 2).all()):
        sys.exit("gloo's sum is wrong")
    x.zero_()  # so that many sums stay finite
    print(json.dumps({"torch": torch.__version__}), flush=True)
    for _ in sys.stdin:
        dist.all_reduce(x)
        print("{}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
