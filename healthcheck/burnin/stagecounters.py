"""Growth of GPU and link counters by stage: it names likely causes and accuses no one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from healthcheck.burnin import faults, limits
from healthcheck.burnin.counters import FULL
from healthcheck.burnin.merged import task_of
from healthcheck.burnin.model import Accusation, BurnInStage, Object, TaskResult
from inventory.text import clean, listed

Part = tuple[str, str]      # (subject, counter): ("gpu5", "pcie_replays")

WORDS = {
    "ecc_corrected": "corrected ECC errors", "ecc_uncorrected": "uncorrected ECC errors",
    "pcie_replays": "PCIe replays",
    "remapped_correctable": "rows remapped for corrected errors",
    "remapped_uncorrectable": "rows remapped for uncorrectable errors",
    "slowdown_power_ns": "time under its power cap", "slowdown_thermal_ns": "time slowed down for heat",
    "slowdown_hw_thermal_ns": "time slowed down by its hardware for heat",
    "slowdown_hw_power_brake_ns": "time slowed down by the power brake",
    "slowdown_sw_thermal_ns": "time slowed down by the driver for heat",
    "nvlink_replays": "NVLink replays", "nvlink_recoveries": "NVLink recoveries",
    "nvlink_crc_errors": "NVLink CRC errors",
    "link_downed": "losses of its link", "link_error_recovery": "retrainings of its link",
    "symbol_error": "symbol errors",
    "port_rcv_errors": "receive errors", "port_xmit_discards": "discarded packets",
    "port_xmit_wait": "waits to send",
}
# Faults that a counter may explain; not those of dead or missing ranks.
_EXPLAINED_FAULTS = (faults.SLOW, faults.SLOW_COMPUTE, faults.SLOW_LINK, faults.LATE, faults.JITTER,
                     faults.HUNG, faults.WRONG_DATA)
# These grow under any load or congestion, so they are named last.
_BY_NATURE = ("port_xmit_wait", "slowdown_power_ns")
NANOSECONDS = "_ns"


@dataclass(frozen=True)
class StageCounters:
    """The counters of one node in one stage, read right before and right after it: by subject how many were
    `read` both times, those that `grew` (subject, counter, growth), those that are `unknown`, and why; all
    others did not grow. `why` says why none of them is known."""

    stage: BurnInStage
    node: str
    read: Mapping[str, int]
    grew: tuple[tuple[str, str, int], ...] = ()
    unknown: tuple[tuple[str, str, str], ...] = ()
    why: str = ""


def between(stage: BurnInStage, node: str, before: Mapping[Part, int | None],
            after: Mapping[Part, int | None], why: str = "") -> StageCounters:
    """The growth between two samples of a node's counters; `why` is why one of them failed."""
    read: dict[str, int] = defaultdict(int)
    grew, unknown = [], []
    for subject, name in sorted(before.keys() | after.keys()):
        first, last = before.get((subject, name)), after.get((subject, name))
        if first is None or last is None:
            unknown.append((subject, name, f"not read {'before' if first is None else 'after'}"))
        elif last < first:
            unknown.append((subject, name, "was reset"))
        elif first == FULL.get(name):
            unknown.append((subject, name, f"stood at {first}, its maximum"))
        else:
            read[subject] += 1
            if last > first:
                grew.append((subject, name, last - first))
    return StageCounters(stage, node, dict(read), tuple(grew), () if why else tuple(unknown), why)


def with_causes(
    accusations: Iterable[Accusation], stages: Iterable[StageCounters], results: Iterable[TaskResult],
) -> tuple[Accusation, ...]:
    """The accusations, each with its counters' growth in the stages of its tests."""
    by_place: dict[tuple[BurnInStage, str], list[StageCounters]] = defaultdict(list)
    for each in stages:
        by_place[each.stage, each.node].append(each)
    if not by_place:
        return tuple(accusations)
    stage_of = {result.task.id: result.task.stage for result in results}
    found = []
    for one in accusations:
        lines: list[str] = []
        tests = [stage_of[name] for test in one.tests_for if (name := task_of(test)) in stage_of]
        for stage in dict.fromkeys(tests) if one.fault in _EXPLAINED_FAULTS else ():
            for node, part in _components(one):
                lines += _growth_lines(one, stage, node, part, by_place.get((stage, node), []))
        found.append(replace(one, counted=tuple(lines[:limits.COUNTER_LINES])) if lines else one)
    return tuple(found)


def _components(one: Accusation) -> Iterator[tuple[str, str]]:
    """The nodes of what is accused, each with the counter subject (or its prefix) that counts."""
    if one.object is Object.NODE:
        yield one.name, ""
    elif one.object is Object.GPU:
        node, _, gpu = one.name.rpartition(":")
        yield node, f"gpu{gpu}"
    elif one.object is Object.RAIL:
        node, _, rail = one.name.rpartition("/")
        yield node, rail
    elif one.object is Object.PAIR:
        for node in one.name.split(" - "):
            yield node, "rail"


def _growth_lines(one: Accusation, stage: BurnInStage, node: str, part: str,
                  samples: list[StageCounters]) -> Iterator[str]:
    own = part if one.object in (Object.GPU, Object.RAIL) else ""
    whose = "its" if own else f"{clean(node, 80)}'s"
    counters = "rail counters" if part == "rail" else "counters"
    in_stage = f"in the stage {stage.value}"
    failed = next((sample.why for sample in samples if sample.why), "")
    if failed:
        yield f"{whose} counters {in_stage} are not known: {clean(failed, 200)}"
        return

    def concerns(subject: str) -> bool:
        return subject == own if own else subject.startswith(part)

    grew: dict[Part, int] = defaultdict(int)
    unknown: dict[Part, str] = {}
    read: dict[str, int] = {}
    for sample in samples:
        read.update({subject: count for subject, count in sample.read.items() if concerns(subject)})
        # A sample without any GPU read none of this GPU's counters.
        unknown.update({(subject, name): why for subject, name, why in sample.unknown
                        if concerns(subject) or (subject == "GPUs" and own.startswith("gpu"))})
        for subject, name, by in sample.grew:
            if concerns(subject):
                grew[subject, name] += by
    named = sorted(grew, key=lambda key: (key[1] in _BY_NATURE, key))
    for subject, name in named[:limits.COUNTER_NAMES]:
        of = whose if own else f"{clean(node, 80)}/{clean(subject, 40)}'s"
        yield f"{of} {_called(name)} grew by {_amount(name, grew[subject, name])} {in_stage}"
    if len(named) > limits.COUNTER_NAMES:
        yield (f"{len(named) - limits.COUNTER_NAMES} more of {whose} {counters} grew {in_stage}: the "
               "document has all")
    if read and not named:
        yield f"none of {whose} {sum(read.values())} {counters} that were read grew {in_stage}"
    if unknown:
        names = [f"{'' if own else clean(subject, 40) + ' '}{_called(name)} ({why})"
                 for (subject, name), why in sorted(unknown.items())]
        yield f"not known {in_stage}: {whose} {listed(names, 3)}"


def _called(name: str) -> str:
    return WORDS.get(name, clean(name, 60))


def _amount(name: str, by: int) -> str:
    return f"{by / 1e9:.3g} s" if name.endswith(NANOSECONDS) else str(by)
