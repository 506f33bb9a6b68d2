"""How power rises: which tasks may be at work at the same time, and how much later than the first of its
power domain each begins. Under a limit every node has to say what it draws at most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from healthcheck.burnin.model import Participant, Task
from inventory.errors import UsageError

# Between two nodes of one power domain that begin, and tasks of many nodes begin at once: their ranks ramp up
# by themselves.
STEP_S = 0.5
LONGEST_S = 30.0


@dataclass(frozen=True)
class PowerLimits:
    """What may be drawn, in kW: by all nodes at work, and by those of one power domain (None: any)."""

    max_kw: float | None = None
    domain_kw: float | None = None

    @property
    def bounded(self) -> bool:
        """Whether there is any limit."""
        return self.max_kw is not None or self.domain_kw is not None


@dataclass(frozen=True)
class Waves:
    """Tasks that may be at work together, wave after wave, and by id why the others may not be at all."""

    waves: tuple[tuple[Task, ...], ...]
    refused: Mapping[str, str]


def check(places: Iterable[Participant], power: PowerLimits) -> None:
    """Raises UsageError where there is a limit, and a node of which no one says what it draws."""
    unknown = [place.node for place in places if place.watts is None] if power.bounded else []
    if unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise UsageError(
            f"what {unknown[0]}{more} draws at most is not known, and power is limited: set it in the "
            f"inventory (burnin: {{watts: 10200}}), or give it a SKU that has power_limit_watts")


def waves(tasks: Sequence[Task], places: Mapping[str, Participant], power: PowerLimits) -> Waves:
    """Parts a round so that no wave draws more than allowed: each task in the first with room for it."""
    made: list[list[Task]] = []
    drawn: list[Counter[str]] = []
    refused = {}
    for task in tasks:
        needs = _kw(task.nodes, places)
        if over := _over(needs, power):
            refused[task.id] = over
            continue
        for wave, at in zip(made, drawn, strict=True):
            if not _over(at + needs, power):
                wave.append(task)
                at.update(needs)
                break
        else:
            made.append([task])
            drawn.append(Counter(needs))
    return Waves(tuple(map(tuple, made)), refused)


def over(places: Iterable[Participant], power: PowerLimits) -> str:
    """Why these nodes cannot be at work together, or ""."""
    there = {place.node: place for place in places}
    return _over(_kw(there, there), power)


def starts(
    tasks: Sequence[Task], places: Mapping[str, Participant], step_s: float = STEP_S,
) -> dict[str, float]:
    """By task, how many seconds after the wave's beginning it begins: in each power domain one after the
    other, the last at most LONGEST_S after the first, so that a domain of many nodes takes smaller steps."""
    each: Counter[str] = Counter(_domain(places, task.nodes[0]) for task in tasks)
    begun: Counter[str] = Counter()
    found = {}
    for task in tasks:
        domain = _domain(places, task.nodes[0])
        step = min(step_s, LONGEST_S / max(1, each[domain] - 1))
        found[task.id] = begun[domain] * step
        begun[domain] += 1
    return found


def drawn(tasks: Iterable[Task], places: Mapping[str, Participant]) -> float | None:
    """What the nodes of these tasks draw at most, in kW; None where of one it is not known."""
    watts = [places[node].watts for node in dict.fromkeys(node for task in tasks for node in task.nodes)]
    return None if None in watts else sum(one or 0.0 for one in watts) / 1000


def _kw(nodes: Iterable[str], places: Mapping[str, Participant]) -> Counter[str]:
    """kW by power domain; a Counter, for it adds."""
    found: Counter[str] = Counter()
    for node in nodes:
        found[_domain(places, node)] += (places[node].watts or 0.0) / 1000  # type: ignore[assignment]
    return found


def _domain(places: Mapping[str, Participant], node: str) -> str:
    """Nodes that name no power domain are in one together."""
    return places[node].power or ""


def _over(kw: Mapping[str, float], power: PowerLimits) -> str:
    whole = sum(kw.values())
    if power.max_kw is not None and whole > power.max_kw:
        return f"its nodes draw up to {whole:.1f} kW, and {power.max_kw:g} kW are allowed (max_kw)"
    if power.domain_kw is not None and kw:
        domain, most = max(kw.items(), key=lambda item: item[1])
        if most > power.domain_kw:
            where = f" in power domain {domain}" if domain else ""
            return (f"its nodes draw up to {most:.1f} kW{where}, and {power.domain_kw:g} kW are allowed "
                    "(domain_kw)")
    return ""
