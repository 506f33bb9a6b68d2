"""The commonest GPU faults, one at a time, from the raw value to the advice: the real collector looks, the
packaged rules judge."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from healthcheck.model.outcome import NodeReport, NodeState, Result, Status
from inventory.model import LifecycleState
from tests.scenarios import node
from tests.scenarios.conftest import Room
from tests.scenarios.expect import EXPECTED as OF_GPUS
from tests.scenarios.expect import Expected, Said
from tests.scenarios.plant import PLANTS


def beside(prefix: str) -> list[ModuleType]:
    """The modules of the other subjects: plant_*.py add to PLANTS when they are imported, expect_*.py have an
    EXPECTED each."""
    return [import_module(f"tests.scenarios.{path.stem}")
            for path in sorted(Path(__file__).parent.glob(f"{prefix}_*.py"))]


beside("plant")
EXPECTED: dict[str, Expected] = {**OF_GPUS}
for _module in beside("expect"):
    EXPECTED |= _module.EXPECTED


class Story:
    """One fault from its planting to its repair. The repair is told when it is asked for: it takes a look of
    its own."""

    def __init__(self, name: str, room: Room) -> None:
        self._plant, self._room, self._machine = PLANTS[name], room, node.machine()
        self._plant.before(self._machine)
        self._before = node.kept(node.earlier(node.look(self._machine, room.folder)), None)
        self._plant.break_it(self._machine)
        self._seen = node.look(self._machine, room.folder)
        self.sick = node.judged(self._seen, self._before, room.peers)

    @cached_property
    def repaired(self) -> tuple[NodeReport, NodeReport]:
        """The reports of the first and the second look after the repair."""
        self._plant.mend_it(self._machine)
        mended = node.look(self._machine, self._room.folder)
        # Who repairs a node takes it out of service for that, and back after a look.
        out = LifecycleState.MAINTENANCE
        with_it = node.kept(node.earlier(self._seen), self._before)
        without_it = node.kept(node.earlier(mended), with_it, out)
        return node.judged(mended, with_it, self._room.peers,
                           out), node.judged(mended, without_it, self._room.peers)


_STORIES: dict[str, Story] = {}


def story(name: str, room: Room) -> Story:
    """Looks before the fault and with it; once for each fault."""
    if name not in _STORIES:
        _STORIES[name] = Story(name, room)
    return _STORIES[name]


@cache
def faults() -> tuple[str, ...]:
    return tuple(sorted(PLANTS))


def accused() -> Iterator[Any]:
    """All faults: those by which a rule fails that none before them makes fail, and in the slow tier the
    others."""
    known: set[str] = set()
    for name in faults():
        rules = {said.rule for said in EXPECTED[name].said}
        yield pytest.param(name, marks=[pytest.mark.slow] if rules and rules <= known else [])
        known |= rules


def repairs() -> Iterator[Any]:
    """All faults: the first of each way of repair, and in the slow tier the others that are repaired so."""
    known = set()
    for name in faults():
        mend = PLANTS[name].mend_it
        yield pytest.param(name, marks=[pytest.mark.slow] if mend in known else [])
        known.add(mend)


def test_every_fault_that_is_planted_is_expected_and_there_are_at_least_25() -> None:
    assert PLANTS.keys() == EXPECTED.keys()
    assert len(PLANTS) >= 25


def test_the_node_without_a_fault_is_healthy_and_nothing_is_unknown(room: Room) -> None:
    report = node.judged(room.healthy, node.earlier(room.healthy), room.peers)
    assert (report.state, told(report, Status.FAIL, Status.UNKNOWN)) == (NodeState.HEALTHY, [])


@pytest.mark.parametrize("fault", [*accused()])
def test_a_fault_is_named_with_its_severity_its_owner_and_its_remedy_and_nothing_else_is_accused(
        fault: str, room: Room) -> None:
    report, expected = story(fault, room).sick, EXPECTED[fault]
    failed = {result.rule: result for result in report.results if result.status is Status.FAIL}
    wrong = [problem for said in expected.said for problem in missing(said, failed.get(said.rule))]
    assert wrong == [], told(report, Status.FAIL)
    assert failed.keys() == {said.rule for said in expected.said}, told(report, Status.FAIL)
    assert report.state.value == expected.state, report.reason
    if not expected.blind:
        assert told(report, Status.UNKNOWN) == []


@pytest.mark.parametrize("fault", [*repairs()])
def test_after_the_repair_nothing_is_accused_and_at_the_second_look_the_node_is_healthy(fault: str,
                                                                                        room: Room) -> None:
    """Counters that a reset took back to 0 cannot be compared with the look before it: that is UNKNOWN once,
    and never a FAIL."""
    first, report = story(fault, room).repaired
    assert told(first, Status.FAIL) == []
    assert (report.state, told(report, Status.FAIL, Status.UNKNOWN)) == (NodeState.HEALTHY, [])


def missing(said: Said, result: Result | None) -> list[str]:
    """What of this the result does not say."""
    if result is None:
        return [f"{said.rule} does not fail"]
    wrong = []
    if result.severity.value != said.severity:
        wrong.append(f"{said.rule} is {result.severity.value}, expected {said.severity}")
    about = [finding for finding in result.findings if said.subject in finding.subject]
    if len(about) != len(result.findings) or not about:
        wrong.append(
            f"{said.rule} is about {[finding.subject for finding in result.findings]}, expected "
            f"{said.subject!r} only")
    for finding in about:
        text = f"{finding.subject}: {finding.observed}, expected {finding.expected}"
        wrong += [f"{said.rule} does not say {word!r}: {text}" for word in said.words if word not in text]
        remedy = (finding.remedy or result.remedy).lower()
        wrong += [f"{said.rule} does not advise {word!r}: {remedy}"
                  for word in said.remedy if word.lower() not in remedy]
        owner = finding.owner or result.owner
        if owner is None or owner.value != said.owner:
            wrong.append(f"{said.rule} goes to {owner}, expected {said.owner}")
    return wrong


def told(report: NodeReport, *statuses: Status) -> list[str]:
    """What a report says with these statuses, a line each."""
    return [
        f"{result.rule} {result.status.value} {result.reason} "
        + "; ".join(f"{f.subject}: {f.observed}, expected {f.expected}" for f in result.findings)
        for result in report.results
        if result.status in statuses
        and result.rule != "kernel-baseline"       # a baseline is each site's own
    ]
