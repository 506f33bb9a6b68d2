"""The all-reduce, timed and verified on every rank, a product before each; then every collective. Python 3.8.

Bandwidth is as nccl-tests defines it (doc/PERFORMANCE.md): algbw = bytes/s, busbw = algbw x 2(n-1)/n.
"""

from __future__ import annotations

import datetime
import time
from typing import Any

from healthcheck.burnin.onnode.data import OwnerCoded, Summed, Tiles, chain_bits, owned
from healthcheck.burnin.onnode.exchange import GLOO_SCATTERS, TABLE, checked, exchanges, remember, why_not
from healthcheck.burnin.onnode.store import torch_store
from healthcheck.burnin.onnode.times import Durations
from healthcheck.burnin.wire import RequestRefused, TaskKeys

RAMP_STEPS = 8
AGREE_S = 10.0      # seconds of iterations between agreements on how many follow
MOST_IN_A_ROW = 32
LAST_S = 10.0       # wait for the others: closing early would cut off what they still read


def allreduce(rank: Any, device: Any) -> None:
    """Runs the all-reduces and leaves figures with the rank."""
    params = rank.params
    rounds = Rounds(rank, device, params)
    keys = grouped(rank, device)
    pace = rounds.warm(params["warmup"])
    steps = [(step + 1) / RAMP_STEPS for step in range(RAMP_STEPS)] if params["ramp_s"] else []
    for duty in steps:
        rounds.step(duty, params["ramp_s"] / RAMP_STEPS, pace)
    began = time.perf_counter()
    if params["run_s"]:
        left = params["run_s"]
        while left > 0:
            pace = rounds.agreed(rounds.run(max(1, int(min(left, AGREE_S) / pace)), timed=True))
            # By the slowest rank's clock, so that all agree on the end.
            left = params["run_s"] - rounds.agreed(time.perf_counter() - began)
    else:
        rounds.run(params["iterations"], timed=True)
    for duty in reversed(steps):
        rounds.step(duty, params["ramp_s"] / RAMP_STEPS, pace)
    rank.figures.update(rounds.figures())
    arithmetic(rank, device, rounds.iteration)
    rank.after_report = lambda: part(keys, rank.world)


def grouped(rank: Any, device: Any) -> TaskKeys:
    """The task's process group is set up; its keys at the head."""
    import torch.distributed as dist
    keys = TaskKeys(rank.link(), rank.task["id"])
    # PyTorch keeps only the C++ half of it, and NCCL asks it at the first collective.
    rank.store = torch_store(keys, rank.seconds)
    dist.init_process_group("nccl" if device.cuda else "gloo", store=rank.store, rank=rank.number,
                            world_size=rank.world, timeout=datetime.timedelta(seconds=rank.seconds))
    rank.at("warm")
    return keys


def arithmetic(rank: Any, device: Any, iteration: int) -> None:
    """Every collective of the table in each manner, `checks` times; reports what was tested and what not."""
    params, first = rank.params, iteration
    if not params["checks"]:
        rank.facts["arithmetic_not"] = "only the timed all-reduce was verified: checks is 0"
        return
    for check, exchange in exchanges(rank, device, params["check_bytes"]):
        for _ in range(params["checks"]):
            # The turn is the iteration, so that owners, senders and receivers change each time.
            checked(rank, device, exchange, check, iteration, turn=iteration)
            iteration += 1
    rank.figures["checks"] = float(iteration - first)
    rank.facts["arithmetic"] = ", ".join(name for name in TABLE if not why_not(name, rank.world))
    without = ["%s: %s" % (name, why) for name in TABLE if (why := why_not(name, rank.world))]
    rank.facts["arithmetic_not"] = "; ".join(without if device.cuda else [*without, GLOO_SCATTERS])


def part(keys: TaskKeys, world: int) -> None:
    """Waits until all ranks are done, or will not be."""
    try:
        if keys.add("done", 1) == world:
            keys.set("over", b"1")
        keys.get("over", LAST_S)
    except (RequestRefused, OSError, EOFError):
        pass


class Rounds:
    """Iterations of one rank, and their times; the number of the first is `iteration`.

    A check follows one all-reduce, or several in a row: the sum of one is each rank's input to the next, so
    that an error in any of them is still visible after the last (`chain_bits` says why the right sum is
    exact). So all are verified, and checks take no more than their share of the time. After the first error
    each all-reduce is checked by itself, which shows more. `exact`: of exactly so many bytes.
    """

    def __init__(
        self, rank: Any, device: Any, params: dict[str, Any], exact: bool = False, iteration: int = 0,
    ) -> None:
        import torch
        import torch.distributed
        self.torch: Any = torch
        self.rank, self.device, self.share = rank, device, params["check_share"]
        dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}.get(params["dtype"])
        if dtype is None:
            raise ValueError("dtype %s, expected fp32, bf16 or fp16" % ascii(params["dtype"]))
        size = torch.empty(0, dtype=dtype).element_size()
        elements = max(1, params["bytes"] // size)
        self.tiles = Tiles(torch, rank.world, elements, device.at, dtype, exact=exact)
        self.bytes = self.tiles.count * size
        self.buffer = self.tiles.empty()
        n = params["compute_n"]
        self.factor = torch.ones((n, n), dtype=dtype if device.cuda else torch.float32, device=device.at)
        self.product = torch.empty_like(self.factor)
        self.checked, self.iteration = 0, iteration
        self.named = ", %d bytes" % self.bytes if exact else ""
        self.in_a_row(1)
        self.begin()

    def in_a_row(self, length: int) -> None:
        """Sets how many all-reduces share a check; fewer where sums would not be exact."""
        while chain_bits(self.tiles, length) is None:
            length -= 1
        bits = chain_bits(self.tiles, length)
        self.length = length
        self.encodings = tuple(encoding(self.tiles, self.rank.number, bits)
                               for encoding in (OwnerCoded, Summed))

    def warm(self, count: int) -> float:
        """Runs at least two iterations, and calls `settle`."""
        self.run(1, timed=False)    # opens connections, so its time is no measure
        self.run(max(1, count - 1), timed=True)
        return self.settle()

    def settle(self) -> float:
        """Takes as many in a row as keep checks within their share of the time, and begins to count anew; the
        seconds of an iteration, both by the slowest rank."""
        rest = self.computes.at(0.5) + self.collectives.at(0.5)
        wanted = self.checks.at(0.5) * (1 - self.share) / max(1e-9, self.share * rest)
        self.in_a_row(max(1, min(MOST_IN_A_ROW, -int(-self.agreed(wanted) // 1))))
        pace = self.agreed(rest + self.checks.at(0.5) / self.length)
        self.begin()
        return pace

    def begin(self) -> None:
        """Resets all counts."""
        self.computes, self.collectives, self.checks = Durations(), Durations(), Durations()
        self.verified = 0
        self.own_s = self.whole_s = self.check_s = 0.0

    def run(self, count: int, timed: bool, idle_s: float = 0.0) -> float:
        """Runs at least `count` iterations, each with a pause; returns average seconds without pauses."""
        clock, rank, device = time.perf_counter, self.rank, self.device
        count = -(-count // self.length) * self.length
        busy = spent = 0.0
        began, helped = clock(), rank.helper_s
        inputs: tuple[int, list[int]] = (0, [])
        data, turn, at, length = self.encodings[0], self.iteration, 0, self.length
        for iteration in range(self.iteration, self.iteration + count):
            rank.at("compute", iteration)
            self.iteration = iteration + 1
            first = clock()
            if self.factor.numel():
                self.torch.mm(self.factor, self.factor, out=self.product)
            device.wait()
            prepared = clock()
            if at == 0:
                turn, length = iteration, self.length
                data = self.encodings[self.checked % len(self.encodings)]
                own = data.own(turn)
                self.tiles.fill(self.buffer, own, turn)
                inputs = self.tiles.differs(self.buffer, own, turn)
            second = clock()
            rank.at("send")
            third = clock()
            self.torch.distributed.all_reduce(self.buffer)
            device.wait()
            fourth = clock()
            rank.at("verify")
            fifth = clock()
            at += 1
            if at == length:
                at = 0
                self.verify(iteration, data, turn, length, inputs)
            sixth = clock()
            spent += second - prepared + sixth - fifth
            if timed:
                self.verified += 1
                self.computes.add(second - first)
                self.collectives.add(fourth - third)
                if at == 0:
                    self.checks.add(spent)
            if at == 0:
                self.check_s, spent = self.check_s + timed * spent, 0.0
            if idle_s:
                rank.pause(idle_s)
            busy += (second - first) + (fourth - third) + (sixth - fifth)
        if timed:
            self.whole_s += clock() - began
            self.own_s += clock() - began - busy + rank.helper_s - helped
        return busy / count

    def verify(
        self, iteration: int, data: Any, turn: int, length: int, inputs: tuple[int, list[int]],
    ) -> None:
        """Checks the sum after so many all-reduces, and records what is wrong."""
        self.checked += 1
        grown = float(self.rank.world) ** (length - 1)
        whole = (data.whole(turn).to(self.torch.float64) * grown).to(self.tiles.dtype)
        count, where = self.tiles.differs(self.buffer, whole, turn)
        # Of several in a row the wrong one is unknown, and so is the owner.
        places = list(owned(data, where, turn)) if length == 1 else [[place, -1] for place in where]
        check = "all-reduce %s %s in place%s%s" % (str(self.tiles.dtype).partition(".")[2],
                                                   data.encoding_name, self.named,
                                                   ", %d in a row" % length if length > 1 else "")
        remember(self.rank, iteration, check, inputs, (count, places))
        if length > 1 and self.agreed(float(bool(count or inputs[0]))) >= 1:
            self.in_a_row(1)

    def step(self, duty: float, seconds: float, pace: float) -> None:
        """One step of a ramp: iterations with pauses, at work for this share of the time."""
        self.run(max(1, int(seconds * duty / pace)), timed=False, idle_s=pace * (1 / duty - 1))

    def agreed(self, number: float) -> float:
        """The largest of all ranks' numbers, the same on all of them; called between iterations."""
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
            "size_bytes": float(self.bytes), "iterations": float(self.verified),
            "verified": float(self.verified),
            "seconds_p50": median, "seconds_p99": self.collectives.at(0.99),
            "seconds_max": self.collectives.longest,
            "seconds_often": self.collectives.often(),
            "compute_p50": self.computes.at(0.5), "compute_p10": self.computes.at(0.1),
            "algbw_gb_s": self.bytes / median / 1e9,
            "busbw_gb_s": self.bytes / median / 1e9 * 2 * (world - 1) / world,
            "sustained_gb_s": self.bytes * self.verified / self.whole_s / 1e9 * 2 * (world - 1) / world,
            "overhead_share": self.own_s / self.whole_s,
            "check_share": self.check_s / self.whole_s,
        }
