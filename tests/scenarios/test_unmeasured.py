"""Invariant 1 over every packaged rule and every probe that it needs: whatever a probe does but end well, the
rule does not pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache

import pytest

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.boot import EARLIER_BOOT, earlier_boot
from healthcheck.facts.site import PORT_PLANS, PortPlans
from healthcheck.facts.unanswered import UNANSWERED, unanswered
from healthcheck.facts.values import UNSUPPORTED, changed, readings
from healthcheck.judge.judge import judge
from healthcheck.judge.nodefacts import NodeFacts
from healthcheck.model.outcome import NodeReport, Status
from healthcheck.model.probes import Probe, ProbeKind
from healthcheck.model.recording import Capture, Outcome, Recording
from healthcheck.ruleset.rule import Rule, UnsupportedPolicy
from inventory.model import LifecycleState
from tests.scenarios import node
from tests.scenarios.conftest import Room

# A baseline is each site's own: without one it is unknown on the healthiest node.
RULES = {rule.id: rule for rule in node.rules().rules if not rule.left_out and rule.id != "kernel-baseline"}
JUDGED = sorted(rule.id for rule in RULES.values() if not rule.disruptive and rule.probes)
WAYS = ("absent", "missing", "denied", "timeout", "timeout with nothing", "truncated",
        "truncated with nothing", "crashed", "wedged", "unable")
# One of each kind: nothing, no right, a part, nothing in time. The slow tier has all.
FEW = ("absent", "denied", "truncated", "timeout with nothing")
BY_WAYS = pytest.mark.parametrize("ways", [pytest.param(FEW, id="few"),
                                           pytest.param(WAYS, id="all", marks=pytest.mark.slow)])


@dataclass(frozen=True)
class Spare:
    """Rules (a glob, without some) that may pass although this probe did not end well, in these ways, and why
    that is no lie."""

    probe: str
    rules: str
    why: str
    ways: tuple[str, ...] = WAYS
    but: frozenset[str] = frozenset()


SPARE = (
    Spare("gpu.smi", "*", "nvidia-smi is asked only where NVML did not answer"),
    Spare("gpu.pci", "*", "the driver answered, so the bus is not asked whether there are GPUs at all",
          but=frozenset({"gpu-count"})),
    Spare("service.nvidia", "*-persistence*", "persistence mode is on, so nobody needs the daemon"),
    Spare("driver.module", "driver-*",
          "the driver itself said that it loads, which version it is, and that its library fits",
          ("denied",)),
    Spare("driver.module", "driver-peermem",
          "a module's file that may not be read is there all the same", ("denied",)),
    Spare("port.sysfs", "driver-peermem", "ports are counted by their names, which were seen", ("denied",)),
    Spare("gpu.nvml",
          "kernel-*xid*",
          "NVML only shows that what the log says is over; without it nothing is, and more is accused, "
          "never less"),
    Spare("host.versions", "cdi-paths",
          "the loaded driver is asked only where libraries of a specification are gone"),
    Spare("container.cdi", "container-toolkit",
          "a file that may not be read is there all the same", ("denied",)),
    Spare("host.versions", "kernel-*",
          "the log mostly names its kernel itself; without that no baseline is chosen, which is said"),
    Spare("disk.scsi", "disk-smart-*",
          "it leaves out a BMC's virtual drives; without it more is judged, never less"),
    Spare("nvme.sysfs", "disk-smart-*",
          "it leaves out drives over a network; without it more is judged, never less"),
    Spare("nvme.sysfs", "disk-nvme-count",
          "drives are counted on the bus; a controller's file only says which of them it runs", ("denied",)),
    Spare("nvme.temperature", "disk-smart-*", "without a sensor SMART's own bit for a temperature is judged"),
    Spare("disk.raid-smart", "disk-smart-*", "the bus has no RAID controller whose drives it would ask"),
    Spare("disk.scsi", "fleet-disk-sizes",
          "the node has no such disk, so no file of one may be refused", ("denied",)),
    Spare("nvme.namespaces", "disk-nvme-*", "namespaces are readings of their own",
          but=frozenset({"disk-nvme-namespace", "disk-nvme-read-only"})),
    Spare("netdev.teamd", "*",
          "it tells which interfaces are a team's members; without it more is judged, never less",
          but=frozenset({"bond-members", "bond-lacp", "fleet-bond"})),
    Spare("netdev.teamd", "*bond*", "the node has no team that could refuse to tell of itself", ("denied",)),
    Spare("netdev.sysfs", "hca-present",
          "it tells which cards are one bond; without it more is judged, never less"),
    Spare("netdev.sysfs", "port-count",
          "it tells which cards are one bond; without it more is judged, never less"),
    Spare("docker.info", "container-*",
          "it tells podman's containers from Docker's; without it more is judged, never less"),
    Spare("roce.sysfs", "fleet-rdma-binding",
          "interfaces are known by their names, which were seen", ("denied",)),
    Spare("roce.sysfs", "fleet-addressing",
          "interfaces are known by their names, which were seen", ("denied",)),
    Spare("port.sysfs", "*pcie-*",
          "it tells which plain Ethernet adapters have RDMA; the node has none of them"),
    Spare("hca.vpd",
          "*",
          "it tells part and serial numbers of adapters, by which delivery lists find their lot and no "
          "rule judges"),
    Spare("host.uptime", "*",
          "without it the log's newest record stands for the look, and more is judged for it, never less",
          but=frozenset({"fleet-boot-time"})),
)


def damaged(probe: Probe, capture: Capture, way: str) -> Capture | None:
    """The capture as a real collector hands it over when the probe ends so."""
    nothing = replace(capture, text="", files={}, exit=None, stderr="")
    if way == "absent":
        return None
    if way == "denied":
        return _denied(probe, capture)
    if way == "truncated":
        kept = dict(list(capture.files.items())[: len(capture.files) // 2])
        return replace(capture, outcome=Outcome.TRUNCATED,
                       text=capture.text[: len(capture.text) // 2], files=kept)
    if way == "timeout":
        kept = dict(list(capture.files.items())[: len(capture.files) // 2])
        return replace(capture, outcome=Outcome.TIMEOUT, text=capture.text[: len(capture.text) // 2],
                       files=kept, exit=None)
    return replace(nothing, outcome=Outcome(way.removesuffix(" with nothing")))


def _denied(probe: Probe, capture: Capture) -> Capture:
    if probe.kind is ProbeKind.FILES or probe.each:
        return replace(capture, files={
            path: entry._replace(outcome=Outcome.DENIED, text="") if entry.outcome is Outcome.DONE else entry
            for path, entry in capture.files.items()
        })
    if probe.kind is ProbeKind.COMMAND:
        return replace(capture, exit=1, text="", stderr="permission denied\n")
    return replace(capture, outcome=Outcome.DENIED, text="", files={}, exit=None)


_REPORTS: dict[tuple[tuple[str, ...], str], NodeReport] = {}


def report(room: Room, probes: tuple[Probe, ...], way: str) -> NodeReport:
    """The node's report where these probes end so; judged once for all rules that need one of them."""
    key = tuple(probe.id for probe in probes), way
    if key not in _REPORTS:
        held = dict(room.healthy.captures)
        for probe in probes:
            capture = damaged(probe, held.pop(probe.id), way) if probe.id in held else None
            if capture is not None:
                held[probe.id] = capture
        seen: Recording = replace(room.healthy, captures=held)
        _REPORTS[key] = node.judged(seen, node.earlier(room.healthy), room.peers, only=needing(key[0]))
    return _REPORTS[key]


@cache
def needing(probes: tuple[str, ...]) -> tuple[str, ...]:
    """The rules that are judged here and need one of these probes."""
    return tuple(rule for rule in JUDGED if any(probe.id in probes for probe in RULES[rule].probes))


def status(of: NodeReport, rule: str) -> Status:
    return next(result.status for result in of.results if result.rule == rule)


def needed(rule: Rule) -> tuple[Probe, ...]:
    """The rule's probes, each once, without those that only stand in for another."""
    return tuple({probe.id: probe for probe in rule.probes}.values())


def test_every_rule_that_may_be_judged_beside_a_job_passes_on_the_healthy_node(room: Room) -> None:
    healthy = node.judged(room.healthy, node.earlier(room.healthy), room.peers)
    passing = {result.rule for result in healthy.results if result.status is Status.PASS}
    skipped = {result.rule: result.reason for result in healthy.results if result.status is Status.SKIPPED}
    assert passing | skipped.keys() >= set(RULES), set(RULES) - passing - skipped.keys()
    assert passing >= set(JUDGED) - skipped.keys()
    assert all(reason for reason in skipped.values())


def may_pass(rule: str, probe: str, way: str) -> bool:
    """Whether this file says so, with its reason."""
    return any(spare.probe == probe and fnmatchcase(rule, spare.rules) and way in spare.ways
               and rule not in spare.but for spare in SPARE)


def passes(rule: str, probes: tuple[Probe, ...], way: str, room: Room) -> bool:
    return status(report(room, probes, way), rule) is Status.PASS


@BY_WAYS
@pytest.mark.parametrize("rule", JUDGED)
def test_a_rule_does_not_pass_where_none_of_its_probes_ended_well(rule: str, ways: tuple[str, ...],
                                                                  room: Room) -> None:
    without = needed(RULES[rule])
    asked = [way for way in ways if not all(may_pass(rule, probe.id, way) for probe in without)]
    assert [way for way in asked if passes(rule, without, way, room)] == []


@BY_WAYS
@pytest.mark.parametrize("rule", JUDGED)
def test_a_rule_passes_without_one_of_its_probes_only_where_another_holds_the_same(
        rule: str, ways: tuple[str, ...], room: Room) -> None:
    assert [(probe.id, way) for probe in needed(RULES[rule]) for way in ways
            if passes(rule, (probe,), way, room) and not may_pass(rule, probe.id, way)] == []


def test_no_exception_stands_here_that_is_not_needed(room: Room) -> None:
    idle = [
        (spare.probe, spare.rules) for spare in SPARE
        if not any(passes(rule, (probe,), way, room) for rule in JUDGED for probe in needed(RULES[rule])
                   for way in spare.ways
                   if probe.id == spare.probe and fnmatchcase(rule, spare.rules) and rule not in spare.but)
    ]
    assert idle == []


LACKING = sorted(rule.id for rule in RULES.values()
                 if rule.unsupported is not UnsupportedPolicy.UNKNOWN and not rule.disruptive
                 and not rule.checked.fleet)


@pytest.mark.parametrize("rule", LACKING)
def test_what_no_device_has_is_what_the_rule_makes_of_it(rule: str, room: Room) -> None:
    """Each reading of each fact in turn is one that this hardware, or every second part of it, does not have.
    A rule that reads it skips what lacks it, or fails, as it says."""
    of = RULES[rule]
    sku = node.rules().skus[node.NODE.sku or ""]
    # What the SKU declines to judge is judged here.
    numbers = {**{number: 8 if value is None else value for number, value in sku.numbers.items()},
               "imex": True, "fabric": True}
    # And what is judged only where the SKU is silent, too: a number that the rule can do without is not
    # given.
    numbers |= dict.fromkeys(set(of.numbers) - set(of.needed))
    captures = Captures(room.healthy)
    facts = {name: build_fact(spec, captures) for name, spec in FACTS.items()}
    facts[EARLIER_BOOT] = earlier_boot(room.healthy, node.earlier(room.healthy), LifecycleState.SERVICE)
    facts[UNANSWERED] = unanswered(room.healthy, node.earlier(room.healthy))
    facts[PORT_PLANS] = PortPlans(PORT_PLANS, dict.fromkeys(port.pci for port in facts["ports"]), frozenset(),
                                  frozenset(), frozenset())
    said = []
    for name in set(of.fact_names) & FACTS.keys():
        held = facts[name]
        subjects = held[:16] if isinstance(held, tuple) else (held,)
        for field in readings(subjects[0]):
            if field in ("name", "caveat"):
                continue
            lacking = tuple(changed(subject, **{field: UNSUPPORTED}) for subject in subjects)
            half = tuple(pair[number % 2] for number, pair in enumerate(zip(subjects, lacking, strict=True)))
            for some in (lacking, half):
                now = {**facts, name: some if isinstance(held, tuple) else some[0]}
                said.append(judge(of, NodeFacts(now, facts), replace(sku, numbers=numbers)))
    skipped = any(result.status in (Status.SKIPPED, Status.PASS) and "not supported" in result.reason
                  for result in said)
    failed = any(finding.observed == "not supported" for result in said for finding in result.findings)
    assert (skipped, failed) == ((True, False) if of.unsupported is UnsupportedPolicy.SKIP else (False, True))
