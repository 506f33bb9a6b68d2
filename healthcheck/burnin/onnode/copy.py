"""Copies between host and device, from pinned memory, and within a device's memory, verified; without a GPU
within the host's memory alone. Python 3.8."""

from __future__ import annotations

from typing import Any

from healthcheck.burnin.onnode.times import Spent

# Of a copy within a device: far more than its caches hold (H200: 60 MB), in a share of a millisecond.
WITHIN_BYTES = 1 << 30
WITHIN_REPEATS = 50


def copies(rank: Any, device: Any) -> None:
    """Times copies each way and within the device, and compares what came back with what was sent."""
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
    if device.cuda:
        rank.figures["copy_within_gb_s"], changed = within(rank, device, spent)
        wrong += changed
    spent.checked()
    if wrong:
        rank.found_wrong(rank.iteration, wrong, [rank.number], False)
    rank.figures.update({"verified": 1.0, "check_share": spent.share})


def within(rank: Any, device: Any, spent: Spent) -> tuple[float, int]:
    """(bytes read and written within the device's memory, 1e9 a second; words that changed on the way)."""
    torch = device.torch
    words = min(WITHIN_BYTES, device.free_bytes()[0] // 4) // 8
    source = torch.arange(words, dtype=torch.int64, device=device.at)
    target = torch.zeros_like(source)
    target.copy_(source)
    device.wait()
    spent.checked()
    before = spent.work_s
    rank.at("compute", rank.iteration + 1)
    spent.begin()
    for _ in range(WITHIN_REPEATS):
        target.copy_(source)
    device.wait()
    spent.worked()
    rank.at("verify")
    seconds = spent.work_s - before
    return 16.0 * words * WITHIN_REPEATS / seconds / 1e9, int(torch.count_nonzero(target != source))
