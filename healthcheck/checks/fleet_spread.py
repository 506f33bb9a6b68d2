"""Fleet checks of GPUs: quantities and rates, each compared with the median of its equals.

Equals are GPUs of one SKU in the same slot (their index) and in the same load state, for a hot place in the chassis and a running job
each make a GPU warmer than others without anything being wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from healthcheck.checks.base import NotMeasured, fleet_check, increase
from healthcheck.checks.fleet import Readings, Said, Uncompared, far_off
from healthcheck.checks.trend import SHORTEST, elapsed
from healthcheck.facts.gpu import Gpu
from healthcheck.facts.look import Look
from healthcheck.facts.values import Fact

F = TypeVar("F", bound=Fact)
Fleet = Mapping[str, tuple[Gpu, ...]]
Looks = Mapping[str, Look]
# A GPU that is between jobs, or between steps of one, is of neither state, and has few peers.
_IDLE_PERCENT, _BUSY_PERCENT = 5, 80


def _state(gpu: Gpu) -> str:
    percent = gpu.utilization_percent
    return "idle" if percent <= _IDLE_PERCENT else "busy" if percent >= _BUSY_PERCENT else "partly busy"


def _by_slot(gpus: Fleet, read: Callable[[Gpu], float]) -> Iterator[Readings]:
    peers: dict[tuple[int, str], str] = {}
    for node, found in gpus.items():
        for gpu in found:
            value, place = read(gpu), (gpu.index, _state(gpu))
            if place not in peers:
                peers[place] = "GPUs in slot {}, {}".format(*place)
            yield Readings(node, (gpu.name,), (value,), peers[place])


@fleet_check("fleet.temperature")
def fleet_temperature(gpus: Fleet, *, spreads: float, floor_c: float, at_least: int) -> Said:
    """No GPU is far hotter than the same slot of its peers in the same load state: its cooling is at fault, before it throttles."""
    yield from far_off(_by_slot(gpus, lambda gpu: gpu.temperature_c), " C", spreads=spreads, floor=floor_c, at_least=at_least, below=False)


@fleet_check("fleet.power")
def fleet_power(gpus: Fleet, *, spreads: float, floor_watts: float, at_least: int) -> Said:
    """No GPU draws far more or less power than the same slot of its peers in the same load state."""
    yield from far_off(_by_slot(gpus, lambda gpu: gpu.power_watts), " W", spreads=spreads, floor=floor_watts, at_least=at_least)


@fleet_check("fleet.clocks")
def fleet_clocks(gpus: Fleet, *, spreads: float, floor_mhz: float, at_least: int) -> Said:
    """No busy GPU runs its multiprocessors far slower than the same slot of its peers; one that is idle may clock as it likes."""
    readings = list(_by_slot(gpus, lambda gpu: gpu.clock_sm_mhz))
    uncompared: dict[str, Uncompared] = {}
    for reading in readings:
        if not reading.peers.endswith(", busy"):
            name = reading.subjects[0]
            if name not in uncompared:
                uncompared[name] = Uncompared(name, "not busy, and clocks are compared under load")
            yield reading.node, uncompared[name]
    busy = [reading for reading in readings if reading.peers.endswith(", busy")]
    yield from far_off(busy, " MHz", spreads=spreads, floor=floor_mhz, at_least=at_least, above=False)


def far_off_rates(
    things: Mapping[str, tuple[F, ...]], before: Mapping[str, tuple[F, ...]], look: Looks, previous_look: Looks, counter: str, what: str, *,
    spreads: float, floor_hourly: float, at_least: int,
) -> Said:
    """What grew in an hour, for each thing that has an earlier self by its name, against all others of the cohort."""
    readings = []
    # Nodes share facts that are equal (hundreds of links without an error), which are then looked at once.
    known: dict[tuple[int, int], _Growth] = {}
    for node, found in things.items():
        try:
            hours = max(elapsed(look[node], look[node], previous_look[node]), SHORTEST) / 3600
        except NotMeasured as error:
            yield from ((node, Uncompared(thing.name, error.reason, unmeasured=True)) for thing in found)
            continue
        growth = known.get((id(found), id(before[node])))
        if growth is None:
            growth = known[id(found), id(before[node])] = _grown(found, before[node], counter)
        yield from ((node, uncompared) for uncompared in growth.uncompared)
        rates = [grown / hours if grown else 0.0 for grown in growth.grown] if growth.any else growth.none
        readings.append(Readings(node, growth.names, rates, what))
    yield from far_off(readings, " an hour", spreads=spreads, floor=floor_hourly, at_least=at_least, below=False)


class _Growth(NamedTuple):
    """By how much a counter of each thing grew between two looks, what cannot be said of others, and the rates where not `any` grew."""

    names: list[str]
    grown: list[int]
    uncompared: list[Uncompared]
    any: bool
    none: list[float]


def _grown(things: tuple[F, ...], before: tuple[F, ...], counter: str) -> _Growth:
    names: list[str] = []
    growths: list[int] = []
    uncompared: list[Uncompared] = []
    earlier = {thing.name: thing for thing in before}
    for thing in things:
        name = thing.name
        if name not in earlier:
            uncompared.append(Uncompared(name, f"the earlier look could not read {counter} of it", unmeasured=True))
            continue
        try:
            grown = increase(thing, earlier[name], counter)
        except NotMeasured as error:
            uncompared.append(Uncompared(name, error.reason, unmeasured=True))
        else:
            names.append(name)
            growths.append(grown)
    return _Growth(names, growths, uncompared, any(growths), [0.0] * len(names))


@fleet_check("fleet.ecc_corrected")
def fleet_ecc_corrected(
    gpus: Fleet, previous_gpus: Fleet, look: Looks, previous_look: Looks, *, spreads: float, floor_hourly: float, at_least: int,
) -> Said:
    """No GPU corrects memory errors far more often than its peers do; each alone is harmless, and many announce the uncorrectable one."""
    yield from far_off_rates(gpus, previous_gpus, look, previous_look, "ecc_corrected", "GPUs", spreads=spreads,
                              floor_hourly=floor_hourly, at_least=at_least)


@fleet_check("fleet.pcie_replays")
def fleet_pcie_replays(
    gpus: Fleet, previous_gpus: Fleet, look: Looks, previous_look: Looks, *, spreads: float, floor_hourly: float, at_least: int,
) -> Said:
    """No GPU's PCI Express link repeats packets far more often than its peers' do."""
    yield from far_off_rates(gpus, previous_gpus, look, previous_look, "pcie_replays", "GPUs", spreads=spreads,
                              floor_hourly=floor_hourly, at_least=at_least)
