"""The all-reduce: owner-coded data, verified exactly on every rank in every iteration, with a product of its own before each. Python 3.8.

Bandwidth is as nccl-tests defines it (doc/PERFORMANCE.md): algbw = bytes/s, busbw = algbw x 2(n-1)/n.
"""

from __future__ import annotations

import datetime
import time
from typing import Any

from healthcheck.burnin.onnode.data import OwnerCoded
from healthcheck.burnin.onnode.store import torch_store
from healthcheck.burnin.onnode.times import Times
from healthcheck.burnin.wire import Keys, Refused

RAMP_STEPS = 8
AGREE_S = 10.0      # of iterations between two agreements on how many more there will be
LAST_S = 10.0       # for the others to be done, too: who hangs up early cuts off what they still read


def allreduce(rank: Any, device: Any) -> None:
    """See the module's first line; leaves its figures with the rank."""
    import torch.distributed as dist
    params = rank.params
    rounds = Rounds(rank, device, params)
    link = rank.link()
    keys = Keys(link, rank.task["id"])
    dist.init_process_group("nccl" if device.cuda else "gloo", store=torch_store(keys, rank.seconds), rank=rank.number,
                            world_size=rank.world, timeout=datetime.timedelta(seconds=rank.seconds))
    rank.at("warm")
    rounds.run(1, timed=False)      # which opens connections, and says nothing of those that follow
    pace = rounds.agreed(rounds.run(max(1, params["warmup"] - 1), timed=False))
    steps = [(step + 1) / RAMP_STEPS for step in range(RAMP_STEPS)] if params["ramp_s"] else []
    for duty in steps:
        rounds.step(duty, params["ramp_s"] / RAMP_STEPS, pace)
    began = time.perf_counter()
    if params["run_s"]:
        left = params["run_s"]
        while left > 0:
            pace = rounds.agreed(rounds.run(max(1, int(min(left, AGREE_S) / pace)), timed=True))
            # By the slowest rank's clock, so that all agree on when it is over.
            left = params["run_s"] - rounds.agreed(time.perf_counter() - began)
    else:
        rounds.run(params["iterations"], timed=True)
    for duty in reversed(steps):
        rounds.step(duty, params["ramp_s"] / RAMP_STEPS, pace)
    rank.figures.update(rounds.figures())
    rank.parting = lambda: part(keys, rank.world)


def part(keys: Keys, world: int) -> None:
    """Returns when all ranks are done, or will not be."""
    try:
        if keys.add("done", 1) == world:
            keys.set("over", b"1")
        keys.get("over", LAST_S)
    except (Refused, OSError, EOFError):
        pass


class Rounds:
    """Iterations of one rank, and their times."""

    def __init__(self, rank: Any, device: Any, params: dict[str, Any]) -> None:
        import torch
        import torch.distributed
        self.torch: Any = torch
        self.rank, self.device = rank, device
        dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}.get(params["dtype"])
        if dtype is None:
            raise ValueError("dtype %s, expected fp32, bf16 or fp16" % ascii(params["dtype"]))
        size = torch.empty(0, dtype=dtype).element_size()
        self.data = OwnerCoded(rank.world, rank.number, max(1, params["bytes"] // size), device.at, dtype)
        self.bytes = self.data.count * size
        self.sent, self.summed = (torch.zeros(self.data.count, dtype=dtype, device=device.at) for _ in range(2))
        n = params["compute_n"]
        self.factor = torch.ones((n, n), dtype=dtype if device.cuda else torch.float32, device=device.at)
        self.product = torch.empty_like(self.factor)
        self.computes, self.collectives = Times(), Times()
        self.verified = 0
        self.own_s = self.whole_s = 0.0
        self.iteration = 0

    def run(self, count: int, timed: bool, idle_s: float = 0.0) -> float:
        """So many iterations, each followed by a pause; returns the seconds that one of them took on average, pauses not counted."""
        clock, rank, device, data, dist = time.perf_counter, self.rank, self.device, self.data, self.torch.distributed
        busy = 0.0
        began, helped = clock(), rank.helper_s
        for iteration in range(self.iteration, self.iteration + count):
            rank.at("compute", iteration)
            first = clock()
            if self.factor.numel():
                self.torch.mm(self.factor, self.factor, out=self.product)
            data.fill(self.sent, iteration)
            self.summed.copy_(self.sent)
            device.wait()
            second = clock()
            rank.at("send")
            third = clock()
            dist.all_reduce(self.summed)
            device.wait()
            fourth = clock()
            rank.at("verify")
            fifth = clock()
            wrong, owners = data.wrong(self.summed, iteration)
            if wrong:
                rank.found_wrong(iteration, wrong, owners, data.wrong_input(self.sent, iteration))
            sixth = clock()
            if timed:
                self.verified += 1
                self.computes.add(second - first)
                self.collectives.add(fourth - third)
            if idle_s:
                rank.pause(idle_s)
            busy += (second - first) + (fourth - third) + (sixth - fifth)
        self.iteration += count
        if timed:
            self.whole_s += clock() - began
            self.own_s += clock() - began - busy + rank.helper_s - helped
        return busy / count

    def step(self, duty: float, seconds: float, pace: float) -> None:
        """One step of a ramp: iterations with pauses, at work for this share of the time."""
        self.run(max(1, int(seconds * duty / pace)), timed=False, idle_s=pace * (1 / duty - 1))

    def agreed(self, number: float) -> float:
        """The largest of all ranks' numbers, the same on all of them."""
        self.rank.at("send", self.iteration)
        shared = self.torch.tensor([number], dtype=self.torch.float64, device=self.device.at)
        self.torch.distributed.all_reduce(shared, op=self.torch.distributed.ReduceOp.MAX)
        return max(1e-6, float(shared))

    def figures(self) -> dict[str, float]:
        """What is reported; without a timed iteration nothing is."""
        if not self.verified:
            return {}
        median, world = self.collectives.at(0.5), self.rank.world
        return {
            "size_bytes": float(self.bytes), "iterations": float(self.verified), "verified": float(self.verified),
            "seconds_p50": median, "seconds_p99": self.collectives.at(0.99), "seconds_max": self.collectives.longest,
            "seconds_often": self.collectives.often(),
            "compute_p50": self.computes.at(0.5), "algbw_gb_s": self.bytes / median / 1e9,
            "busbw_gb_s": self.bytes / median / 1e9 * 2 * (world - 1) / world, "overhead_share": self.own_s / self.whole_s,
        }
