"""A Python for burn-in whose "GPUs" have faults: `[python, badgpu.py, PLAN]` in place of `[python]`, with the unchanged worker in it.

Without a GPU the lowest seam there is is PyTorch itself: what the worker calls (torch.mm, Tensor.copy_ and fill_, torch.distributed.all_reduce,
and torch.set_num_threads, by which a rank takes its CPU) is wrapped here, in the nursery, before it forks ranks. Everything else is real:
processes, signals, gloo, the store. PLAN is a file, read by each rank as it begins, that holds a JSON list of faults:

    {"fault": "killed", "node": "n1", "gpu": 0, "iteration": 3}

for the ranks on that node and GPU, or with that "rank"; "least_world" and "most_world" limit it to tasks of so many ranks, "every": true has it
come back in each iteration from that one on, and "seconds" is how late a slow one is. In a task of single ranks an iteration is a product.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from typing import Any

FAULTS = {
    "never": "is alive and does not join",
    "killed": "kills itself while it computes",
    "exits": "ends with code 3 while it computes",
    "raises": "an error of its own while it computes",
    "stopped": "stops itself (SIGSTOP) while it computes",
    "paused": "stops itself for a second (SIGSTOP, SIGCONT) while it computes",
    "hung": "goes on living and computes no further",
    "slow": "computes 30 ms longer, from that iteration on",
    "flip": "one bit of its own part is another when it is sent",
    "receive": "one element of the sum is another once it has arrived",
    "buffer": "eight elements of what it sends, of whomever, are others in its own memory",
    "product": "one element of a product is another",
    "stuck": "one bit of one word of memory is 0 whatever value it is filled with",
}


class Faults:
    """The faults of this rank; iterations are counted by what it calls."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []
        self.reduced = 0
        self.products = 0
        self.together = False

    def load(self) -> None:
        """Those of this rank, once it knows which one it is."""
        env = os.environ
        with open(self.path, encoding="utf-8") as file:
            rows = json.load(file)
        world = int(env.get("WORLD_SIZE", "1"))
        self.rows = [row for row in rows
                     if str(row.get("node", env["MUSTER_NODE"])) == env["MUSTER_NODE"]
                     and str(row.get("gpu", env["LOCAL_RANK"])) == env["LOCAL_RANK"]
                     and str(row.get("rank", env["RANK"])) == env["RANK"]
                     and row.get("least_world", 1) <= world <= row.get("most_world", world)]
        assert all(row["fault"] in FAULTS for row in self.rows), self.rows

    def now(self, *names: str) -> dict[str, Any] | None:
        """One of these faults, if this is its iteration."""
        iteration = self.reduced if self.together else self.products
        for row in self.rows:
            due = row.get("iteration", 0)
            if row["fault"] in names and (iteration == due or (iteration > due and (row.get("every") or row["fault"] == "slow"))):
                return row
        return None


def plant(torch: Any, faults: Faults) -> None:
    """Wraps what the worker calls."""
    take, mm, copy, reduce = torch.set_num_threads, torch.mm, torch.Tensor.copy_, torch.distributed.all_reduce
    init, fill = torch.distributed.init_process_group, torch.Tensor.fill_

    def set_num_threads(count: int) -> None:
        faults.load()
        if faults.now("never"):
            asleep()
        take(count)

    def init_process_group(*words: Any, **named: Any) -> None:
        init(*words, **named)
        faults.together = True

    def product(*words: Any, **named: Any) -> Any:
        row = faults.now("killed", "exits", "raises", "stopped", "paused", "hung", "slow")
        if row is not None:
            trouble(row)
        made = mm(*words, **named)
        if faults.now("product"):
            made.view(-1)[5] += 1
        faults.products += 1
        return made

    def copy_(target: Any, source: Any, *words: Any, **named: Any) -> Any:
        if faults.together and source.numel() > 1 and faults.now("buffer"):
            source.view(-1)[torch.arange(8) * (source.numel() // 8) // 2 + torch.arange(8)] += 3
        return copy(target, source, *words, **named)

    def fill_(target: Any, value: Any) -> Any:
        made = fill(target, value)
        if not faults.together and target.numel() > 1234 and any(row["fault"] == "stuck" for row in faults.rows):
            target.view(-1)[1234] &= ~(1 << 7)
        return made

    def all_reduce(tensor: Any, *words: Any, **named: Any) -> Any:
        if tensor.numel() == 1:     # an agreement, not data
            return reduce(tensor, *words, **named)
        flat = tensor.view(-1)
        if faults.now("flip"):
            at = int(flat.nonzero()[0])
            bits = flat.view(torch.int32) if flat.element_size() == 4 else flat.view(torch.int16)
            bits[at] ^= 1 << 5 if flat.element_size() == 2 else 1 << 21
        made = reduce(tensor, *words, **named)
        if faults.now("receive"):
            flat[7] += 1
        faults.reduced += 1
        return made

    torch.set_num_threads, torch.mm, torch.Tensor.copy_, torch.Tensor.fill_ = set_num_threads, product, copy_, fill_
    torch.distributed.all_reduce, torch.distributed.init_process_group = all_reduce, init_process_group


def trouble(row: dict[str, Any]) -> None:
    """What befalls a rank while it computes."""
    name = row["fault"]
    if name == "slow":
        time.sleep(row.get("seconds", 0.03))
    elif name == "exits":
        os._exit(3)
    elif name == "raises":
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore of it")
    elif name == "hung":
        asleep()
    elif name == "paused":
        waker = subprocess.Popen(["sh", "-c", f"sleep {row.get('seconds', 1.0)}; kill -CONT {os.getpid()}"])
        os.kill(os.getpid(), signal.SIGSTOP)
        waker.wait()
    else:
        os.kill(os.getpid(), signal.SIGKILL if name == "killed" else signal.SIGSTOP)


def asleep() -> None:
    """For ever."""
    while True:
        time.sleep(1)


def main() -> None:
    """What `python -I -c BOOT` would be, with faults planted."""
    path, boot = sys.argv[1], sys.argv[-1]
    sys.path.pop(0)     # this folder is none of the worker's
    warnings.simplefilter("ignore")     # PyTorch's, of what it could not find
    import torch
    import torch.distributed
    plant(torch, Faults(path))
    exec(boot)  # noqa: S102  (the nursery's own first line, as Python would have run it)


if __name__ == "__main__":
    main()
