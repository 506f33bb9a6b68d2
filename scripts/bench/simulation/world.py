"""The world that every policy meets alike: what fails in the fleet and when, drawn once from a seed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from simulation import rates
from simulation.rates import DAY, HOUR, KINDS, Kind

from healthcheck.model.outcome import Repair


@dataclass(frozen=True)
class Fault:
    """A failure of one node. `spells` are the sweeps in which it shows, (from, to) after `began`; None: until
    it is over."""

    node: int
    began: int
    kind: Kind
    slot: int
    needs: Repair
    lemon: bool
    heals: int | None
    spells: tuple[tuple[int, int | None], ...]


@dataclass(frozen=True)
class Event:
    """What several nodes share: `nodes` and when each of them is hit. `sick`: they can do no work; else only
    the head does not see them."""

    kind: str
    name: str
    began: int
    ended: int
    hit: Mapping[int, int]
    rule: str
    subject: str
    sick: bool = True
    reboots: bool = False
    version: str = ""


@dataclass(frozen=True)
class Alarm:
    """A check that fails on a healthy node."""

    node: int
    began: int
    ended: int
    rule: str
    subject: str


@dataclass(frozen=True)
class World:
    """All of it, with `nodes` nodes over `ticks` sweeps."""

    nodes: int
    ticks: int
    faults: tuple[Fault, ...] = ()
    events: tuple[Event, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    lemons: frozenset[int] = field(default_factory=frozenset)


def hours(chance: random.Random, mean: float, least: float = 0.0) -> int:
    """An exponential duration in sweeps."""
    return max(1, round((least + chance.expovariate(1 / max(mean - least, 1e-9))) * HOUR))


def poisson(chance: random.Random, rate: float, ticks: int) -> list[int]:
    """The sweeps before which something came, at `rate` in one sweep."""
    found: list[int] = []
    at = 0.0
    while rate > 0 and (at := at + chance.expovariate(rate)) < ticks:
        found.append(int(at))
    return found


def drawn(nodes: int, days: float, seed: int, false_alarms: float = rates.FALSE_ALARMS) -> World:
    ticks = int(days * DAY)
    chance = random.Random(f"{seed} world")  # noqa: S311
    lemons = frozenset(chance.sample(range(nodes), max(1, round(nodes * rates.LEMONS))))
    whole = rates.WEEKLY * nodes / rates.WEEK
    faults = tuple(_faults(nodes, ticks, lemons, whole, chance))
    events = _events(nodes, ticks, random.Random(f"{seed} events"))  # noqa: S311
    alarms = tuple(_alarms(nodes, ticks, false_alarms, random.Random(f"{seed} alarms")))  # noqa: S311
    return World(nodes, ticks, faults, tuple(sorted(events, key=lambda event: event.began)), alarms, lemons)


def _faults(nodes: int, ticks: int, lemons: frozenset[int], rate: float,
            chance: random.Random) -> list[Fault]:
    habit = {node: (_kind(chance), chance.randrange(8)) for node in sorted(lemons)}
    often = sorted(lemons)
    others = [node for node in range(nodes) if node not in lemons]
    found = []
    for began in poisson(chance, rate, ticks):
        lemon = chance.random() < rates.LEMON_SHARE
        node = chance.choice(often if lemon else others)
        kind, slot = habit[node] if lemon else (_kind(chance), chance.randrange(8))
        needs = chance.choices(list(kind.needs), list(kind.needs.values()))[0]
        heals = hours(chance, 3.0) if chance.random() < kind.heals else None
        found.append(Fault(node, began, kind, slot, needs, lemon, heals, _spells(kind, chance)))
    return found


def _kind(chance: random.Random) -> Kind:
    return chance.choices(KINDS, [kind.weight for kind in KINDS])[0]


def _spells(kind: Kind, chance: random.Random) -> tuple[tuple[int, int | None], ...]:
    """When it shows: always from the lag on, or for some minutes every few hours."""
    at = hours(chance, kind.lag) if kind.lag else 0
    if chance.random() >= kind.flaps:
        return ((at, None),)
    spells: list[tuple[int, int | None]] = []
    while at < 14 * DAY:
        until = at + hours(chance, 0.4)
        spells.append((at, until))
        at = until + hours(chance, 3.0, 0.25)
    return tuple(spells)


def _events(nodes: int, ticks: int, chance: random.Random) -> list[Event]:
    year, machines = 365 * DAY, nodes / rates.PER_MACHINES
    found = []

    def members(size: int) -> tuple[int, range]:
        which = chance.randrange(max(1, nodes // size))
        return which, range(which * size, min(nodes, (which + 1) * size))

    leaves = nodes / rates.LEAF * rates.RAILS
    for began in poisson(chance, rates.LEAF_QUARTER * leaves / (90 * DAY), ticks):
        which, there = members(rates.LEAF)
        rail = chance.randrange(rates.RAILS)
        found.append(Event("leaf", f"leaf-{which}-{rail}", began, began + hours(chance, *rates.LEAF_LASTS),
                           dict.fromkeys(there, began), "port-state", f"mlx5_{rail}/1 (0000:{rail}8:00.0)"))
    for began in poisson(chance, rates.RACKS_YEAR * machines / year, ticks):
        which, there = members(rates.RACK)
        found.append(Event("rack", f"rack-{which}", began, began + round(chance.uniform(1, 6) * HOUR),
                           dict.fromkeys(there, began), "", "", reboots=True))
    for began in poisson(chance, rates.POWER_YEAR * machines / year, ticks):
        which, there = members(rates.POWER)
        found.append(Event("power", f"power-{which}", began, began + 6 * HOUR, dict.fromkeys(there, began),
                           "", "", reboots=True))
    for began in poisson(chance, rates.LINKS_YEAR * machines / year, ticks):
        _, there = members(rates.LINK_NODES)
        found.append(Event("management", "network", began, began + HOUR // 2, dict.fromkeys(there, began),
                           "", "", sick=False))
    for number, began in enumerate(poisson(chance, 1 / (rates.FIRMWARE_DAYS * DAY), ticks)):
        got = chance.sample(range(nodes), min(rates.FIRMWARE_NODES, nodes // 4))
        bad = {node: began + chance.randrange(12 * HOUR) for node in got
               if chance.random() < rates.FIRMWARE_BAD}
        # Who got it and is well has the version, too: hit only when it is over.
        found.append(Event("firmware", f"release-{number}", began, began + 24 * HOUR,
                           {node: bad.get(node, began + 24 * HOUR) for node in sorted(got)}, "kernel-xid",
                           "GPU 0, Xid 62", version=f"bad-{number}"))
    return found


def _alarms(nodes: int, ticks: int, rate: float, chance: random.Random) -> list[Alarm]:
    found = []
    for began in poisson(chance, rate * nodes / 1000 / DAY, ticks):
        rule, subject, _ = chance.choices(rates.FALSE, [share for *_, share in rates.FALSE])[0]
        lasts = chance.choices((1, 2, chance.randint(3, 12)), (70, 15, 15))[0]
        found.append(
            Alarm(chance.randrange(nodes), began, began + lasts, rule, subject.format(chance.randrange(8))))
    return found
