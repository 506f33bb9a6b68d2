"""What trend checks share: a device and its earlier self, and the rate at which a counter grew between two looks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from healthcheck.checks.base import NotMeasured, increase
from healthcheck.facts.gpu import Gpu
from healthcheck.facts.look import Look
from healthcheck.facts.values import Fact

F = TypeVar("F", bound=Fact)

# DCGM counts over a minute; over less, a handful of events would look like a storm.
SHORTEST = 60.0


def with_earlier(gpus: Iterable[Gpu], previous_gpus: Iterable[Gpu]) -> Iterator[tuple[Gpu, Gpu]]:
    """Each GPU with its earlier self, by PCI address: an index can change when the driver is loaded again."""
    before = {gpu.pci: gpu for gpu in previous_gpus}
    for gpu in gpus:
        earlier = before.get(gpu.pci)
        if earlier is None:
            raise NotMeasured(gpu, "the earlier look has no such GPU")
        yield gpu, earlier


def rate(now: F, before: F, counter: str, looks: tuple[Look, Look], *, per: float) -> float:
    """By how much the counter grew in every `per` seconds between the looks, over a minute at least; 0 where it did not grow."""
    grown = increase(now, before, counter)
    return grown * per / max(elapsed(now, *looks), SHORTEST) if grown else 0.0


def elapsed(subject: Fact, look: Look, previous_look: Look) -> float:
    """The seconds between the looks by the node's clock, which may have been set back in between: then they are not known."""
    seconds = look.time - previous_look.time
    if seconds <= 0:
        raise NotMeasured(subject, f"by the node's clock the earlier look was {-seconds:g} s later, so no rate can be told")
    return seconds
