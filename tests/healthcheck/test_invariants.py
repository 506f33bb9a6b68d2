"""Invariant 1 as a property: drop, truncate, deny or delay any capture, and no rule that passed because of it may still pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.assess import Assessment
from healthcheck.outcome import NodeReport, NodeState, Status
from healthcheck.recording import Capture, FileCapture, Outcome, Recording
from healthcheck.ruleset import Ruleset, load_ruleset
from healthcheck.rulesfolder import packaged
from inventory.model import Node
from tests.healthcheck import machine

RULES: Ruleset = load_ruleset([packaged()])
NODES = tuple(Node(name=f"gpu00{n}", sku="hgx-h100") for n in range(1, 5))
TARGET = NODES[0].name
BY_PROBE: Mapping[str, frozenset[str]] = MappingProxyType({
    probe: frozenset(rule.id for rule in RULES.rules if probe in {p.id for p in rule.probes}) for probe in machine.captures()
})


def report(target: Recording, previous: Recording | None = None) -> NodeReport:
    """The target's report in a sweep with three healthy nodes."""
    assessment = Assessment(NODES, RULES)
    assessment.add(target, previous or machine.recording(TARGET))
    for node in NODES[1:]:
        assessment.add(machine.recording(node.name))
    return assessment.finish().reports[0]


def passing(of: NodeReport) -> set[str]:
    return {result.rule for result in of.results if result.status is Status.PASS}


def test_the_healthy_recording_passes_every_rule_so_that_the_property_means_something() -> None:
    healthy = report(machine.recording(TARGET))
    assert healthy.state is NodeState.HEALTHY
    assert passing(healthy) == {rule.id for rule in RULES.rules if not rule.disruptive}


def lost(capture: Capture, outcome: Outcome | None, keep: float) -> Capture | None:
    """The capture as if it had ended so: what a real collector hands over for each outcome."""
    if outcome is None:
        return None
    if outcome is Outcome.TRUNCATED:
        entries = list(capture.files.items())
        kept = dict(entries[: int(len(entries) * keep)])
        return replace(capture, outcome=outcome, text=capture.text[: int(len(capture.text) * keep)], files=kept)
    return replace(capture, outcome=outcome, text="", files={}, exit=None)


@settings(deadline=None, max_examples=150)
@given(probe=st.sampled_from(sorted(BY_PROBE)), outcome=st.sampled_from([None, *(o for o in Outcome if o is not Outcome.DONE)]),
       keep=st.floats(0, 0.99))
def test_invariant_1_not_measured_is_never_pass_for_any_capture(probe: str, outcome: Outcome | None, keep: float) -> None:
    recording = machine.recording(TARGET)
    damaged = lost(recording.captures[probe], outcome, keep)
    held = {name: capture for name, capture in recording.captures.items() if name != probe}
    if damaged is not None:
        held[probe] = damaged
    after = report(replace(recording, captures=held))
    depends = set(BY_PROBE[probe])
    if probe == "gpu.pci":
        # With NVML's answer at hand the bus is only asked whether 'no GPU' is true; the count is what needs it.
        depends = {"gpu-count"}
    still = passing(after) & depends
    assert not still, f"{still} passed without {probe}"
    assert after.state is not NodeState.HEALTHY


ENTRIES = [(name, path) for name, capture in machine.captures().items() for path in capture.files]


@settings(deadline=None, max_examples=150)
@given(entry=st.sampled_from(ENTRIES), outcome=st.sampled_from([o for o in Outcome if o not in (Outcome.DONE, Outcome.MISSING)]))
def test_invariant_1_not_measured_is_never_pass_for_any_file(entry: tuple[str, str], outcome: Outcome) -> None:
    """A file that is denied, hung, cut or failing: some rule that passed only with it must stop passing, and none may lie."""
    probe, path = entry
    recording = machine.recording(TARGET)
    capture = recording.captures[probe]
    files = {**capture.files, path: FileCapture(outcome)}
    after = report(replace(recording, captures={**recording.captures, probe: replace(capture, files=files)}))
    for unread in (result for result in after.results if result.status is Status.PASS and result.rule in BY_PROBE[probe]):
        # A rule may pass beside an unreadable file only if it reads another file of the same probe.
        assert not _reads(unread.rule, path), f"{unread.rule} passed although {path} was {outcome.value}"
    if any(_reads(rule, path) for rule in BY_PROBE[probe]):
        assert after.state is not NodeState.HEALTHY


_READS = {
    "port-count": (), "port-state": ("/state", "/phys_state"), "port-rate": ("/state", "/rate"),
    "port-link-downed": ("/link_downed", "/uevent"),
    "fleet-kernel": ("/osrelease",), "fleet-driver": ("/version",), "kernel-xid": ("/dev/kmsg",), "kernel-hardware-error": ("/dev/kmsg",),
    "host-memory": ("/proc/meminfo",), "host-swap": ("/proc/swaps",), "gpu-count": ("/uevent",),
    "filesystem-space": ("/proc/self/mountinfo", "/", "/raid"), "filesystem-inodes": ("/proc/self/mountinfo", "/", "/raid"),
    "filesystem-read-only": ("/proc/self/mountinfo",),
}


def _reads(rule: str, path: str) -> bool:
    if rule.startswith("filesystem"):
        return path in _READS[rule]
    return any(path.endswith(end) for end in _READS.get(rule, ()))


@pytest.mark.parametrize("gone", sorted(BY_PROBE))
def test_every_probe_has_a_rule_that_needs_it(gone: str) -> None:
    assert BY_PROBE[gone]
