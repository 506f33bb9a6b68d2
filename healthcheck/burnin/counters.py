"""Compares error counters of links and GPUs before and after: which rose by more than the limit allows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from healthcheck.burnin import faults
from healthcheck.burnin.model import Accusation, Object, Participant
from healthcheck.burnin.published import BurninRules
from healthcheck.burnin.setting import SkuHardware
from healthcheck.facts.counter import BY_NAME
from inventory.text import clean

_PART = re.compile(r"(gpu|rail)(\d{1,4})")
# A port's counters are narrow and stay at their maximum, where they show nothing more.
FULL = {name: counter.full for name, counter in BY_NAME.items() if counter.bits} | {"link_downed": 255}
TEST = "counters"       # the test's name in an accusation


@dataclass(frozen=True)
class CounterGrowth:
    """One counter of one part of a node, before the first stage and after the last (`seconds` later); None:
    not read. `subject` is gpu0, gpu1 ... in the order of PCI addresses, rail0 ... by number, else the
    node."""

    node: str
    subject: str
    name: str
    before: int | None
    after: int | None
    seconds: float = 0

    @property
    def accused(self) -> tuple[Object, str]:
        """The object to accuse where this counter rises."""
        part = _PART.fullmatch(self.subject)
        if part is None:
            return Object.NODE, self.node
        return ((Object.GPU, f"{self.node}:{int(part[2])}")
                if part[1] == "gpu" else (Object.RAIL, f"{self.node}/rail{int(part[2])}"))


@dataclass(frozen=True)
class CounterJudgement:
    """Accusations by counters, by node what is unknown, and remarks."""

    accusations: tuple[Accusation, ...]
    unknown: Mapping[str, tuple[str, ...]]
    remarks: tuple[str, ...]


def counted(
    counters: Iterable[CounterGrowth], rules: BurninRules, places: Mapping[str, Participant],
    hardware: Mapping[str, SkuHardware],
) -> CounterJudgement:
    """Judges all counters. One that was not read, fell, or was full before is unknown."""
    accusations, unknown, unjudged = [], dict[str, list[str]](), set[str]()
    for one in counters:
        limit = rules.limit(one.name)
        if limit is None:
            unjudged.add(clean(one.name, 60))
            continue
        place = places.get(one.node)
        gbps = hardware.get(place.sku or "", SkuHardware()).gbps if place is not None else 0
        if limit.below_gbps is not None and not 0 < gbps < limit.below_gbps:
            continue        # normal on such links, and an unknown link may be one
        lost = ""
        if one.before is None or one.after is None:
            lost = f"not read {'before' if one.before is None else 'after'}"
        elif one.after < one.before:
            lost = f"went back from {one.before} to {one.after}: it was reset"
        elif one.before == FULL.get(one.name):
            lost = f"stands at {one.before}, its maximum: reset it"
        elif (rise := one.after - one.before) > (allowed := limit.allowed(one.seconds)):
            why = f"{limit.why}: {clean(one.name, 60)} rose by {rise}, allowed {allowed:g}"
            accusations.append(Accusation(*one.accused, faults.COUNTED, why, (TEST,)))
        if lost:
            unknown.setdefault(one.node, []).append(f"{clean(one.subject, 40)}: {limit.id}: {lost}")
    remarks = ((f"counters without a limit in the rules are not judged: {', '.join(sorted(unjudged)[:8])}",)
               if unjudged else ())
    return CounterJudgement(tuple(accusations), {node: tuple(reasons) for node, reasons in unknown.items()},
                            remarks)
