"""A Python for burn-in whose "GPUs" have faults: `[python, badgpu.py, PLAN]` in place of `[python]`, with the
unchanged worker in it.

The lowest seam there is is PyTorch itself: what the worker calls (torch.mm, torch.mul, Tensor.fill_,
Tensor.backward, torch.distributed's collectives, and torch.set_num_threads or torch.cuda.set_device, by which
a rank takes its CPU or GPU) is wrapped here, in the nursery, before it forks ranks. Everything else is real:
processes, signals, gloo or NCCL, the store. Where there is a GPU, nodes share it: NCCL refuses two ranks of
one host on one GPU, so that each node gets a host's name of its own (NCCL_HOSTID), and they reach each other
by sockets. PLAN is a file, read by each rank as it begins, that holds a JSON list of faults:

    {"fault": "killed", "node": "n1", "gpu": 0, "iteration": 3}

for the ranks on that node and GPU, or with that "rank"; "least_world" and "most_world" limit it to tasks of
so many ranks, "every": true has it come back in each iteration from that one on, and "seconds" is how late a
slow one is. In a task of single ranks an iteration is a product, else a collective, of which a step of a
training has one. What alters data may be limited to one ("op": "broadcast", "call": 2, the third of them) and
says

    "when"      "made": in the rank's memory, before it looks (by iteration alone); "entry": after that, as
    the collective begins; "exit": in its result "what"      "own": an element that is not 0; "foreign": one
    that is, in data in which others' elements are "at"        which of those, as a share of them; "every"
    alters that place each time

and "adder" has every rank's part of a sum that one rank makes (its share of the buffer) be made wrongly: see
ADDERS. Each alteration is written to PLAN.RANK as a line [number of the row, iteration].
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
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
    "alters": "an element is another: see above",
    "adder": "sums that it makes are wrong",
    "product": "one element of a product is another",
    "gradient": "one bit (\"bit\") of the largest gradient of a training's step is another",
    "weight": "one bit of a weight is another after that step",
    "loss": "the loss of that step is no number",
    "stuck": "one bit of one word of memory is 0 whatever value it is filled with",
}

ALTERS = {"flip": {"when": "entry", "what": "own", "at": 0.0}, "receive": {"when": "exit", "at": 0.1},
          "buffer": {"when": "made", "count": 8},
          "alters": {}}
ADDERS = ("max", "or", "first of two that are not 0", "12 bits stuck at 0")
COLLECTIVES = ("all_reduce", "reduce_scatter_tensor", "all_gather_into_tensor", "all_to_all_single",
               "broadcast", "batch_isend_irecv")


class Faults:
    """The faults of this rank; iterations are counted by what it calls."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []
        self.reduced = 0
        self.calls = dict.fromkeys(COLLECTIVES, 0)
        self.products = 0
        self.made = -1
        self.together = False
        self.everybodys: list[dict[str, Any]] = []

    def load(self) -> None:
        """Those of this rank, once it knows which one it is."""
        env = os.environ
        with open(self.path, encoding="utf-8") as file:
            rows = json.load(file)
        world = int(env.get("WORLD_SIZE", "1"))
        self.everybodys = rows
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
            if (row["fault"] in names
                and (iteration == due or (iteration > due and (row.get("every") or row["fault"] == "slow")))):
                return row
        return None

    def alterations(self, when: str, op: str) -> list[tuple[int, dict[str, Any]]]:
        """The rows of data that is to be altered now, with their numbers."""
        found = []
        for number, row in enumerate(self.rows):
            row = {**ALTERS.get(row["fault"], {}), **row}
            due = row.get("call", 0) if "op" in row else row.get("iteration", 0)
            at = self.calls.get(op, -1) if "op" in row else self.reduced
            if row["fault"] not in ALTERS or row["when"] != when or row.get("op", op) != op:
                continue
            if at == due or (at > due and row.get("every")):
                found.append((row.get("number", number), row))
        return found

    def alter(self, torch: Any, flat: Any, when: str, op: str) -> None:
        """Alters what is due in this buffer."""
        for number, row in self.alterations(when, op):
            if row.get("count"):
                flat[torch.arange(8) * (flat.numel() // 8) // 2 + torch.arange(8)] += 3
            elif row.get("what") == "own":
                mine = flat.nonzero()[:, 0]
                at = int(mine[int(row["at"] * len(mine))])
                flat[at] = -flat[at]    # the sign's bit: of all bits the one that no sum's rounding can hide
            else:
                # The same place each time, in whatever data: the one at or after it that holds 0 where it
                # must be another's.
                at = int(row.get("at", 0.0) * flat.numel())
                if row.get("what") == "foreign" and bool((flat == 0).any()):
                    at = next(each % flat.numel()
                              for each in range(at, at + flat.numel()) if flat[each % flat.numel()] == 0)
                flat[at] += 16384       # is not lost in what any type of number holds there
            with open(self.path + "." + os.environ["RANK"], "a", encoding="utf-8") as file:
                file.write(json.dumps([number, self.reduced]) + "\n")


def added(torch: Any, parts: Any, kind: str) -> Any:
    """What an adder of this kind makes of so many parts."""
    total = parts[0].clone()
    for part in parts[1:]:
        if kind == "max":
            total = torch.maximum(total, part)
        elif kind == "or":
            total = (bits_of(torch, total) | bits_of(torch, part)).view(part.dtype)
        elif kind == "first of two that are not 0":
            total = torch.where((total != 0) & (part != 0), total, total + part)
        else:
            total = (bits_of(torch, total + part) & ~0xFFF).view(part.dtype)
    return total


def bits_of(torch: Any, tensor: Any) -> Any:
    """Its bits as whole numbers."""
    return tensor.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])


def plant(torch: Any, faults: Faults) -> None:
    """Wraps what the worker calls."""
    dist = torch.distributed
    take, mm, mul, fill, init = (torch.set_num_threads, torch.mm, torch.mul, torch.Tensor.fill_,
                                 dist.init_process_group)
    take_gpu = torch.cuda.set_device
    backward, addcdiv, log_softmax = torch.Tensor.backward, torch.Tensor.addcdiv_, torch.log_softmax
    real = {name: getattr(dist, name) for name in COLLECTIVES}

    def set_num_threads(count: int) -> None:
        faults.load()
        if faults.now("never"):
            asleep()
        take(count)

    def set_device(number: int) -> None:
        faults.load()
        if faults.now("never"):
            asleep()
        os.environ.update(NCCL_HOSTID=os.environ["MUSTER_NODE"], NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1")
        take_gpu(number)

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

    def mul_(*words: Any, **named: Any) -> Any:
        made = mul(*words, **named)
        # Once in an iteration, however many pieces its data has.
        if faults.together and "out" in named and faults.made < faults.reduced:
            faults.made = faults.reduced
            faults.alter(torch, made.view(-1), "made", "")
        return made

    def fill_(target: Any, value: Any) -> Any:
        made = fill(target, value)
        if not faults.together and target.numel() > 1234 and any(row["fault"] == "stuck"
                                                                 for row in faults.rows):
            target.view(-1)[1234] &= ~(1 << 7)
        return made

    def backward_(loss: Any) -> None:
        row = faults.now("killed", "hung", "slow")
        if row is not None:
            trouble(row)
        leaf = next(leaves(loss.grad_fn))
        backward(loss)
        row = faults.now("gradient")
        if row is not None:
            whole = leaf.grad._base
            flipped(torch, whole, int(whole.abs().argmax()), row.get("bit", 0))

    def addcdiv_(target: Any, *words: Any, **named: Any) -> Any:
        made = addcdiv(target, *words, **named)
        faults.reduced -= 1         # the step's all-reduce is done, and it is still that step
        row = faults.now("weight")
        faults.reduced += 1
        if row is not None:
            flipped(torch, target, int(row.get("at", 0.1) * target.numel()), row.get("bit", 0))
        return made

    def log_softmax_(*words: Any) -> Any:
        return log_softmax(*words) * (float("nan") if faults.now("loss") else 1)

    def planted(name: str, source: Any, target: Any) -> Any:
        """A collective; `source` and `target` give of its words the buffers that are sent from and come
        to."""
        def collective(*words: Any, **named: Any) -> Any:
            if name == "all_reduce" and words[0].numel() == 1:      # an agreement, not data
                return real[name](*words, **named)
            sent = source(words)
            if sent is not None:
                faults.alter(torch, sent.view(-1), "entry", name)
            wrong = next((row for row in faults.everybodys if row["fault"] == "adder"), None)
            if wrong is not None and name in ("all_reduce", "reduce_scatter_tensor"):
                done = summed(words, wrong, sent)
            else:
                done = real[name](*words, **named)
            if name == "batch_isend_irecv":
                done = [work.wait() for work in done][:0]
            if target(words) is not None:
                faults.alter(torch, target(words).view(-1), "exit", name)
            faults.reduced += 1
            faults.calls[name] += 1
            return done
        return collective

    def summed(words: Any, row: dict[str, Any], sent: Any) -> None:
        """A sum of which each rank makes its share, as in a ring, and one makes it wrongly (without "rank":
        all do)."""
        world, rank = dist.get_world_size(), dist.get_rank()
        parts = [torch.empty_like(sent) for _ in range(world)]
        dist.all_gather(parts, sent.clone())
        shares = []
        for owner, shared in enumerate(zip(*(part.view(-1).chunk(world) for part in parts), strict=True)):
            bad = row.get("rank", owner) == owner
            shares.append(added(torch, shared, row["adder"]) if bad else sum(shared[1:], shared[0].clone()))
        whole = torch.cat(shares)
        words[0].view(-1).copy_(whole if len(words) == 1 else whole.chunk(world)[rank])

    buffers = {
        "all_reduce": (lambda words: words[0], lambda words: words[0]),
        "reduce_scatter_tensor": (lambda words: words[1], lambda words: words[0]),
        "all_gather_into_tensor": (lambda words: words[1], lambda words: words[0]),
        "all_to_all_single": (lambda words: words[1], lambda words: words[0]),
        "broadcast": (lambda words: words[0] if words[1] == dist.get_rank() else None,
                      lambda words: words[0] if words[1] != dist.get_rank() else None),
        "batch_isend_irecv": (lambda words: words[0][0].tensor, lambda words: words[0][1].tensor),
    }
    for name, (source, target) in buffers.items():
        setattr(dist, name, planted(name, source, target))
    torch.set_num_threads, torch.mm, torch.mul, torch.Tensor.fill_ = set_num_threads, product, mul_, fill_
    torch.Tensor.backward, torch.Tensor.addcdiv_, torch.log_softmax = backward_, addcdiv_, log_softmax_
    dist.init_process_group, torch.cuda.set_device = init_process_group, set_device


def leaves(function: Any) -> Iterator[Any]:
    """The parameters that a loss was computed from."""
    while function is not None and not hasattr(function, "variable"):
        function = next((each for each, _ in function.next_functions if each is not None), None)
    if function is not None:
        yield function.variable


def flipped(torch: Any, whole: Any, at: int, bit: int) -> None:
    """Flips one bit of an element."""
    with torch.no_grad():
        whole.view(torch.int32)[at] ^= 1 << bit if bit < 31 else -(1 << 31)


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
    gc.disable()    # as the nursery has it
    import torch
    import torch.distributed
    gc.enable()
    plant(torch, Faults(path))
    exec(boot)  # noqa: S102  (the nursery's own first line, as Python would have run it)


if __name__ == "__main__":
    main()
