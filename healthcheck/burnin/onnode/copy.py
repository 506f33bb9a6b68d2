"""Copies between host and device, from pinned memory, verified. Python 3.8.

Without a GPU they are copies within the host's memory.
"""

from __future__ import annotations

from typing import Any

from healthcheck.burnin.onnode.times import Spent


def copy_both_ways(rank: Any, device: Any) -> None:
    """Times copies each way, and compares what came back with what was sent."""
    torch, params = device.torch, rank.params
    rank.pause(params["ramp_s"] * rank.number / rank.world)
    words = max(1, params["bytes"] // 8)
    host, back = (torch.empty(words, dtype=torch.int64, pin_memory=device.cuda) for _ in range(2))
    there = torch.empty(words, dtype=torch.int64, device=device.at)
    torch.arange(words, out=host)
    repeats, spent = max(1, params["repeats"]), Spent()
    for name, source, target in (("copy_to_gb_s", host, there), ("copy_from_gb_s", there, back)):
        target.copy_(source, non_blocking=True)
        device.wait()
        before = spent.work_s
        for _ in range(repeats):
            rank.at("compute", rank.iteration + 1)
            spent.begin()
            target.copy_(source, non_blocking=True)
            device.wait()
            spent.worked()
        rank.figures[name] = 8.0 * words * repeats / (spent.work_s - before) / 1e9
    rank.at("verify")
    wrong = int(torch.count_nonzero(back != host))
    spent.checked()
    if wrong:
        rank.found_wrong(rank.iteration, wrong, [rank.number], False)
    rank.figures.update({"verified": 1.0, "check_share": spent.share})
