"""One reading for each judgement: of every kind of node any one file, line, key or row is taken away, and no
judgement changes but those that need just that. None becomes a pass that was none, and what still passes has
measured what it names.

What may change stands in readings.py, written by hand. The fast tier draws removals; the slow one does all of
them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.model.outcome import Result, Status
from healthcheck.model.recording import Recording
from tests.scenarios import kinds, node
from tests.scenarios.kinds import Kind, Recorded
from tests.scenarios.readings import MOST, SILENT, THINGS, TOGETHER, WIDE, exempt, of_subject
from tests.scenarios.removal import Removal, nonsense, removals, taken, without
from tests.tries import tries

Test = TypeVar("Test", bound=Callable[..., None])
Judged = Mapping[str, Result]
BAD = (Status.FAIL, Status.UNKNOWN)
# Some ten thousand removals on one core.
LONGEST_S = 3600
# A baseline is each site's own: without one it is unknown on the healthiest node.
BASELINE = "kernel-baseline"


def slow(test: Test) -> Test:
    """A test of the slow tier, with the time that it needs."""
    marked: Test = pytest.mark.slow(pytest.mark.timeout(LONGEST_S)(test))
    return marked


@cache
def by_hand() -> tuple[Kind, ...]:
    return kinds.written(), kinds.over_ethernet(), kinds.with_disks(), kinds.with_sick_disks()


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return Recorded(tmp_path_factory.mktemp("scenarios"))


_BEFORE: dict[tuple[str, str], Judged] = {}


def before(kind: Kind, probe: str) -> Judged:
    """What is said of the whole node."""
    key = kind.name, probe
    if key not in _BEFORE:
        _BEFORE[key] = kind.judged(kind.seen, probe)
    return _BEFORE[key]


def wrong(kind: Kind, removal: Removal, probe: str = "", noise: bool = True) -> list[str]:
    """What this removal shows to be wrong, a line each; of the rules that name the probe only, if one is
    given. With `noise` nonsense is put in its place, too."""
    whole, less = before(kind, probe), kind.judged(without(kind.seen, removal), probe)
    probe_id, called = removal.probe, removal.called
    changed = [rule for rule, result in less.items() if result.status is not whole[rule].status]
    found = []
    for rule in changed:
        said = (f"{kind.name}: without {removal}: {rule} {whole[rule].status.value} -> "
                f"{less[rule].status.value} ({less[rule].reason})")
        thing = exempt(THINGS, probe_id, called, rule)
        if not of_subject(probe_id, rule):
            found.append(f"{said}: the rule is about something else")
        if (less[rule].status is Status.PASS and whole[rule].status in BAD and not thing
            and not says(less[rule], whole[rule])):
            found.append(f"{said}: it passes, and did not")
        if less[rule].status is Status.FAIL and not thing:
            found.append(
                f"{said}: {less[rule].findings[0].subject}: {less[rule].findings[0].observed}: it fails, "
                f"and did not")
        if (whole[rule].status is Status.FAIL and less[rule].status is not Status.FAIL and not thing
            and not less[rule].reason):
            found.append(f"{said}: the failure is gone without a word")
        if not exempt(TOGETHER, probe_id, called, rule):
            found += [f"{said}: it hides the fault of {fault}"
                      for fault in hidden(removal, whole[rule], less[rule])]
    narrow = [rule for rule in changed if not exempt(WIDE, probe_id, called, rule)]
    if len(narrow) > MOST:
        found.append(f"{kind.name}: without {removal}: {len(narrow)} rules change: {' '.join(narrow)}")
    return found + (silent(kind, removal, before(kind, removal.probe), less) if noise else [])


# What a subject and a path call a part of the machine by.
_PART = re.compile(
    r"GPU \d+|mlx5_\d+|nvme\d+|en[op]\w+|sd[a-z]+|md\d+|[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def hidden(removal: Removal, whole: Result, less: Result) -> list[str]:
    """Subjects that are accused no more, though what was taken away is another part's."""
    own = set(_PART.findall(removal.path))
    if removal.probe == "gpu.nvml" and removal.line:
        own = {f"GPU {removal.line - 1}"}
    kept = {(finding.subject, str(finding.observed)) for finding in less.findings}
    lost = [finding for finding in whole.findings if (finding.subject, str(finding.observed)) not in kept]
    return [finding.subject for finding in lost
            if own and (parts := set(_PART.findall(finding.subject))) and not parts & own]


def says(less: Result, whole: Result) -> bool:
    """Whether a pass says that what had failed is not there to be judged."""
    return "not supported" in less.reason and less.reason != whole.reason


def silent(kind: Kind, removal: Removal, whole: Judged, less: Judged) -> list[str]:
    """Rules that nonsense in this place keeps from passing, and that pass without a word where there is
    nothing in it."""
    changed = nonsense(kind.seen, removal)
    if changed is None:
        return []
    return [
        f"{kind.name}: without {removal}: {rule} passes without a word; of nonsense in its place it says: "
        f"{result.reason or result.findings}"
        for rule, result in kind.judged(changed, removal.probe).items()
        if whole[rule].status is Status.PASS and result.status in BAD and less[rule].status is Status.PASS
        and less[rule].reason == whole[rule].reason
        and not exempt(SILENT, removal.probe, removal.called, rule)
    ]


def test_the_nodes_are_judged_so_that_the_rest_means_something(recorded: Recorded) -> None:
    for kind in (*by_hand(), recorded.kind("gpu001")):
        statuses = Counter(result.status for result in before(kind, "").values())
        assert statuses[Status.PASS] > 110, (kind.name, statuses)
        sick = {rule for rule, result in before(kind, "").items() if result.status is Status.FAIL}
        assert bool(sick) is (kind.name == "SATA and SAS, sick"), sick
        assert {rule
                for rule, result in before(kind, "").items() if result.status is Status.UNKNOWN} <= {BASELINE}
    assert len(recorded.names) > 120


def test_one_thing_that_is_not_there_changes_no_judgement_but_those_of_it(recorded: Recorded) -> None:
    every = [(kind, one) for kind in (*by_hand(), recorded.kind("gpu001")) for one in removals(kind.seen)]

    @settings(deadline=None, max_examples=tries(80))
    @given(st.sampled_from(every))
    def test(drawn: tuple[Kind, Removal]) -> None:
        assert wrong(*drawn) == []

    test()


FAIL, UNKNOWN, PASS = Status.FAIL, Status.UNKNOWN, Status.PASS
FAULTS = (
    ("driver-not-loaded", "gpu.nvml", ".error", "driver-loads", {UNKNOWN}),
    ("driver-and-library-differ", "gpu.nvml", ".error", "driver-module-matches", {UNKNOWN}),
    ("gpu-lost", "gpu.nvml", ".error", "gpu-answers", {UNKNOWN}),
    ("memory-reserved", "host.memory", "/proc/meminfo#HugePages_Total", "memory-hugepages", {FAIL}),
    ("memory-reserved", "host.memory", "/proc/meminfo#HugePages_Free", "memory-hugepages", {UNKNOWN}),
    ("memory-module-slow", "host.dimms", "#Configured", "host-dimm-alike", {FAIL, UNKNOWN}),
    ("memory-module-slow", "host.dimms", "#Size", "host-dimm-alike", {FAIL, UNKNOWN}),
    ("dimm-lost", "host.dimms", "#Locator", "host-dimm-count", {FAIL, UNKNOWN}),
    ("data-lost-on-the-link", "port.counters", "*/local_link_integrity_errors", "port-errors-fatal",
     {FAIL, UNKNOWN}),
    ("users-fault", "port.counters", "*/rnr_nak_retry_err", "port-retries", {FAIL, UNKNOWN}),
    ("disk-fails", "disk.smart", "*.critical_warning", "disk-smart-failed", {PASS, UNKNOWN}),
    ("nvme-given-up", "nvme.sysfs", "*/address", "disk-nvme-driven", {UNKNOWN}),
    ("ethernet-at-a-tenth", "netdev.sysfs", "*/speed", "netdev-speed", {FAIL, UNKNOWN}),
    ("iommu-translates", "pcie.iommu", "*/type#*", "pcie-iommu", {FAIL}),
    ("cpu-taken-away", "cpu.topology", "*/smt/control#*", "cpu-count", {FAIL}),
)


@pytest.mark.parametrize(("name", "probe", "called", "rule", "expected"), FAULTS)
def test_what_a_sick_node_does_not_say_is_no_pass_and_hides_nothing_else(
    name: str, probe: str, called: str, rule: str, expected: set[Status], recorded: Recorded,
) -> None:
    kind = recorded.kind(name)
    some = [one for one in removals(kind.seen) if one.probe == probe and fnmatchcase(one.called, called)]
    statuses = {kind.judged(without(kind.seen, one), probe)[rule].status for one in some}
    assert statuses and statuses <= expected, statuses


@slow
@pytest.mark.parametrize("which", range(4))
def test_no_removal_from_a_node_made_by_hand_changes_another_judgement(which: int) -> None:
    kind = by_hand()[which]
    sound = by_hand()[0].seen
    assert all_wrong(kind, (one for one in removals(kind.seen) if which == 0
                            or taken(sound, one) != taken(kind.seen, one))) == []


@slow
def test_no_removal_from_a_recorded_node_changes_another_judgement(recorded: Recorded) -> None:
    kind = recorded.kind("gpu001")
    assert all_wrong(kind, removals(kind.seen)) == []


@slow
@pytest.mark.parametrize("part", range(4))
def test_no_removal_from_a_sick_node_hides_or_moves_its_fault(part: int, recorded: Recorded) -> None:
    """What differs from the sound node, and of the probes of the rules that fail each reading once."""
    sound = recorded.kind("gpu001").seen
    found = []
    new: set[tuple[str, str]] = set()
    for name in recorded.names[part::4]:
        kind = recorded.kind(name)
        if kind.seen.host is not None and not name.startswith("gpu00"):
            found += [line for one in _of_sick(kind, sound, new)
                      for line in wrong(kind, one, one.probe, noise=False)]
            _BEFORE.clear()
    assert found == []


def _of_sick(kind: Kind, sound: Recording, new: set[tuple[str, str]]) -> Iterator[Removal]:
    """Of the probes that a rule names which fails here, each reading once, where it differs from the sound
    node's if it does; of others what is `new`: differs, and was not taken from an earlier node."""
    failing = {rule for rule, result in before(kind, "").items() if result.status is Status.FAIL}
    probes = {probe.id for rule in node.rules().rules if rule.id in failing for probe in rule.probes}
    chosen: dict[tuple[str, str, bool], Removal] = {}
    for one in removals(kind.seen):
        differs = taken(kind.seen, one) != taken(sound, one)
        if one.probe in probes or (differs and (one.probe, one.called) not in new):
            chosen.setdefault((one.probe, one.called, differs), one)
    new |= {(one.probe, one.called) for one in chosen.values()}
    yield from chosen.values()


def all_wrong(kind: Kind, some: Iterable[Removal]) -> list[str]:
    """All that is wrong; nonsense is put in the place of one reading of each name."""
    found, named = [], set()
    for one in some:
        found += wrong(kind, one, one.probe, noise=(one.probe, one.called) not in named)
        named.add((one.probe, one.called))
    return found
