"""The all-reduce at sizes from 8 bytes on, timed and verified on every rank. Python 3.8.

A rank launches one all-reduce and waits for it. So at small sizes the launch takes most of the time, and on
one rank the log line that NCCL writes; nccl-tests launches many and waits once, and reports less. The largest
size comes first: an iteration that takes longer than all before it would look like a hang.
"""

from __future__ import annotations

from typing import Any

from healthcheck.burnin.onnode.allreduce import RAMP_STEPS, Rounds, grouped, part
from healthcheck.burnin.params import ladder

LEAST_TIMED = 5       # least iterations of each size, however long they take


def sizes(rank: Any, device: Any) -> None:
    """Measures the median time of each size, and records what NCCL chose for it."""
    params = rank.params
    keys = grouped(rank, device)
    chosen = []
    iteration = verified = 0
    check_s = whole_s = 0.0
    ladder_ = ladder(params["bytes"], params["factor"])
    for size in reversed(ladder_):
        asked = {"bytes": size, "dtype": "fp32", "compute_n": 0, "check_share": params["check_share"]}
        rounds = Rounds(rank, device, asked, exact=True, iteration=iteration)
        pace = rounds.warm(params["warmup"])
        if size == ladder_[-1] and params["ramp_s"]:
            for step in range(RAMP_STEPS):
                rounds.step((step + 1) / RAMP_STEPS, params["ramp_s"] / RAMP_STEPS, pace)
        logged = rank.log.length()
        rounds.run(max(LEAST_TIMED, min(params["iterations"], int(params["run_s"] / pace))), timed=True)
        chosen.append((size, rank.log.chosen(size, logged)))
        rank.figures["latency_us_%d" % size] = rounds.collectives.at(0.5) * 1e6
        iteration, verified = rounds.iteration, verified + rounds.verified
        check_s, whole_s = check_s + rounds.check_s, whole_s + rounds.whole_s
    rank.figures.update({"size_bytes": float(ladder_[-1]), "iterations": float(verified),
                         "verified": float(verified), "check_share": check_s / whole_s})
    rank.facts["nccl_chose"] = " ".join("%d:%s" % pair for pair in reversed(chosen) if pair[1])
    rank.after_report = lambda: part(keys, rank.world)
