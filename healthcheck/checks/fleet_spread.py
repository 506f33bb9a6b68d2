"""Fleet checks of GPUs: quantities and rates, each compared with the median of its equals.

Equals are GPUs of one SKU in the same slot (their index) and in the same load state: a hot place in the
chassis and a running job each make a healthy GPU warmer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from healthcheck.checks.base import fleet_check
from healthcheck.checks.fleet import Comparison, FleetReadings, Uncompared, far_off
from healthcheck.checks.growth import HOUR, SHORTEST_S, Growth
from healthcheck.facts.gpu import Gpu
from healthcheck.facts.values import Fact, readable

F = TypeVar("F", bound=Fact)
Fleet = Mapping[str, tuple[Gpu, ...]]
Growths = Mapping[str, Callable[[F], Growth[F]]]
# A GPU between jobs, or between steps of one, is in neither state, and has few peers.
_IDLE_PERCENT, _BUSY_PERCENT = 5, 80
_BUSY = "busy"
_SLOT = ("index", "utilization_percent")        # what `_by_slot` reads


def _state(gpu: Gpu) -> str:
    percent = gpu.utilization_percent
    return "idle" if percent <= _IDLE_PERCENT else _BUSY if percent >= _BUSY_PERCENT else "partly busy"


def _by_slot(gpus: Fleet, read: Callable[[Gpu], float]) -> Iterator[tuple[str, FleetReadings]]:
    """The reading of each GPU that can be read, and before it the GPU's load state."""
    for node, found in gpus.items():
        for gpu, (value, slot, state) in readable(found, lambda gpu: (read(gpu), gpu.index, _state(gpu))):
            yield state, FleetReadings(node, (gpu.name,), (value,), f"GPUs in slot {slot}, {state}")


@fleet_check("fleet.temperature", reads=("temperature_c", *_SLOT))
def fleet_temperature(gpus: Fleet, *, spreads: float, floor_c: float, at_least: int) -> Comparison:
    """No GPU is far hotter than the same slot of its peers in the same load state: its cooling is at fault,
    before it throttles."""
    readings = [reading for _, reading in _by_slot(gpus, lambda gpu: gpu.temperature_c)]
    yield from far_off(readings, " C", spreads=spreads, floor=floor_c, at_least=at_least, below=False)


@fleet_check("fleet.power", reads=("power_watts", *_SLOT))
def fleet_power(gpus: Fleet, *, spreads: float, floor_watts: float, at_least: int) -> Comparison:
    """No GPU draws far more or less power than the same slot of its peers in the same load state."""
    readings = [reading for _, reading in _by_slot(gpus, lambda gpu: gpu.power_watts)]
    yield from far_off(readings, " W", spreads=spreads, floor=floor_watts, at_least=at_least)


@fleet_check("fleet.clocks", reads=("clock_sm_mhz", *_SLOT))
def fleet_clocks(gpus: Fleet, *, spreads: float, floor_mhz: float, at_least: int) -> Comparison:
    """No busy GPU runs its multiprocessors far slower than the same slot of its peers; idle GPUs are not
    judged."""
    busy = []
    for state, reading in _by_slot(gpus, lambda gpu: gpu.clock_sm_mhz):
        if state == _BUSY:
            busy.append(reading)
        else:
            yield reading.node, Uncompared(
                reading.subjects[0], "not busy, and clocks are compared under load")
    yield from far_off(busy, " MHz", spreads=spreads, floor=floor_mhz, at_least=at_least, above=False)


def far_off_rates(
    things: Mapping[str, tuple[F, ...]], growth: Growths[F], counter: str, what: str, *,
    spreads: float, floor_hourly: float, at_least: int,
) -> Comparison:
    """Compares a counter's growth in an hour, for each subject that the earlier snapshot also has, with all
    others of the cohort."""
    readings = [_rates(node, found, growth[node], counter, what) for node, found in things.items()]
    yield from far_off(readings, " an hour",
                       spreads=spreads, floor=floor_hourly, at_least=at_least, below=False)


def _rates(
    node: str, things: tuple[F, ...], growth: Callable[[F], Growth[F]], counter: str, what: str,
) -> FleetReadings:
    def hourly(thing: F) -> float:
        grown = growth(thing)
        number, seconds = grown.of(counter), grown.seconds      # a rate of 0 needs the time as well
        return number * HOUR / max(seconds, SHORTEST_S) if number else 0.0

    rates = list(readable(things, hourly))
    return FleetReadings(node, [thing.name for thing, _ in rates], [rate for _, rate in rates], what)


@fleet_check("fleet.ecc_corrected", reads=("ecc_corrected",))
def fleet_ecc_corrected(
    gpus: Fleet, growth: Growths[Gpu], *, spreads: float, floor_hourly: float, at_least: int,
) -> Comparison:
    """No GPU corrects memory errors far more often than its peers do; each is harmless, but many precede an
    uncorrectable one."""
    yield from far_off_rates(gpus, growth, "ecc_corrected", "GPUs",
                             spreads=spreads, floor_hourly=floor_hourly, at_least=at_least)


@fleet_check("fleet.pcie_replays", reads=("pcie_replays",))
def fleet_pcie_replays(
    gpus: Fleet, growth: Growths[Gpu], *, spreads: float, floor_hourly: float, at_least: int,
) -> Comparison:
    """No GPU's PCI Express link repeats packets far more often than its peers' do."""
    yield from far_off_rates(gpus, growth, "pcie_replays", "GPUs",
                             spreads=spreads, floor_hourly=floor_hourly, at_least=at_least)
