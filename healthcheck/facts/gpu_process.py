"""Facts of what runs on each GPU: the processes that the driver lists, and what /proc says of them."""

from __future__ import annotations

from dataclasses import dataclass

from healthcheck.facts.base import Fact


@dataclass(frozen=True)
class GpuLoad(Fact):
    """What runs on one GPU ("GPU 3"): process numbers of those that compute on it, sorted; empty where it is idle.

    `gone` are those that the driver lists but that no longer exist, `zombies` those that have ended and were not waited for; both are
    among `processes`. `commands` are their names as the kernel has them, in the order of `processes`, "" where they are not known.
    `memory_used_bytes` leaves out what the driver reserves.
    """

    name: str
    index: int
    processes: tuple[int, ...]
    gone: tuple[int, ...]
    zombies: tuple[int, ...]
    commands: tuple[str, ...]
    memory_used_bytes: int
