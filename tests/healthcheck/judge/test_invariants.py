"""Invariant 1 as properties of GPUs' readings and of single files; of whole captures, rule by rule, in
tests/scenarios/test_unmeasured.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.model.outcome import NodeReport, NodeState, Status
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from inventory.model import Node
from tests.healthcheck import machine
from tests.healthcheck.assessing import assessed
from tests.healthcheck.checks.verdicts import after
from tests.packagedrules import RULES
from tests.tries import tries

NODES = tuple(Node(name=f"gpu00{n}", sku="hgx-h100") for n in range(1, 5))
TARGET = NODES[0].name
BY_PROBE: Mapping[str, frozenset[str]] = MappingProxyType(
    {probe: frozenset(rule.id for rule in RULES.rules if probe in {p.id for p in rule.probes})
     for probe in machine.captures()})


EARLIER = after(machine.recording(TARGET), -600)


def report(target: Recording) -> NodeReport:
    """The target's report in a sweep with three healthy nodes."""
    peers = (machine.recording(node.name) for node in NODES[1:])
    return assessed(target, *peers, nodes=NODES, before={TARGET: EARLIER}).reports[0]


@cache
def healthy() -> NodeReport:
    return report(machine.recording(TARGET))


def passing(of: NodeReport) -> set[str]:
    return {result.rule for result in of.results if result.status is Status.PASS}


def lost(capture: Capture, outcome: Outcome | None, keep: float) -> Capture | None:
    """The capture as if it had ended so: what a real collector hands over for each outcome."""
    if outcome is None:
        return None
    if outcome is Outcome.TRUNCATED:
        entries = list(capture.files.items())
        kept = dict(entries[: int(len(entries) * keep)])
        return replace(capture, outcome=outcome, text=capture.text[: int(len(capture.text) * keep)],
                       files=kept)
    return replace(capture, outcome=outcome, text="", files={}, exit=None)


def _readings() -> tuple[str, ...]:
    line = json.loads(machine.nvml().text.splitlines()[1])
    return tuple(sorted(key for key in line if key != "index"))


READING = st.one_of(st.just(None), st.just({"na": True}), st.just({"error": [15, "GPU is lost"]}),
                    st.just({"error": [999, "Unknown Error"]}),
                    st.sampled_from([0, 1, 7, 2**40, -1, "x", True, None, [],
                                     [[0] * 20]]).map(lambda value: {"ok": value}), st.just("nonsense"))


@settings(deadline=None, max_examples=tries(40))
@given(changed=st.dictionaries(st.tuples(st.integers(0, 7), st.sampled_from(_readings())), READING,
                               min_size=1, max_size=6), probe=st.sampled_from(sorted(BY_PROBE)),
       outcome=st.sampled_from([None, *(o for o in Outcome if o is not Outcome.DONE)]),
       keep=st.floats(0, 0.99))
def test_invariant_1_no_damage_turns_what_failed_or_was_unknown_of_a_gpu_into_pass(
    changed: dict[tuple[int, str], object], probe: str, outcome: Outcome | None, keep: float,
) -> None:
    lines = [json.loads(line) for line in machine.nvml().text.splitlines()]
    for (gpu, key), value in changed.items():
        lines[1 + gpu][key] = value
    sick = machine.recording(
        TARGET, gpu_nvml=replace(machine.nvml(), text="".join(json.dumps(line) + "\n" for line in lines)))
    before = {result.rule for result in report(sick).results
              if result.status in (Status.FAIL, Status.UNKNOWN)}
    damaged = lost(sick.captures[probe], outcome, keep)
    held = {name: capture for name, capture in sick.captures.items() if name != probe}
    if damaged is not None:
        held[probe] = damaged
    cured = before & passing(report(replace(sick, captures=held)))
    assert not cured, f"{cured} passed once {probe} was {outcome and outcome.value}"


@settings(deadline=None, max_examples=tries(40))
@given(gpu=st.integers(0, 7), key=st.sampled_from(_readings()),
       how=st.sampled_from([None, {"error": [999, "Unknown Error"]}, {"ok": None}, 3]))
def test_invariant_1_no_rule_gains_a_pass_from_a_reading_that_is_not_there(
    gpu: int, key: str, how: object,
) -> None:
    """What a healthy GPU does not pass (it has no retired pages, no fifth-generation links) is not passed by
    knowing less of it.
    """
    lines = [json.loads(line) for line in machine.nvml().text.splitlines()]
    lines[1 + gpu][key] = how
    less = machine.recording(
        TARGET, gpu_nvml=replace(machine.nvml(), text="".join(json.dumps(line) + "\n" for line in lines)))
    assert passing(report(less)) <= passing(healthy())


ENTRIES = [(name, path) for name, capture in machine.captures().items() for path in capture.files]


@settings(deadline=None, max_examples=tries(60))
@given(entry=st.sampled_from(ENTRIES),
       outcome=st.sampled_from([o for o in Outcome if o not in (Outcome.DONE, Outcome.MISSING)]))
def test_invariant_1_not_measured_is_never_pass_for_any_file(entry: tuple[str, str],
                                                             outcome: Outcome) -> None:
    """A file that is denied, hung, cut or failing: some rule that passed only with it must stop passing, and
    none may lie.
    """
    probe, path = entry
    recording = machine.recording(TARGET)
    capture = recording.captures[probe]
    files = {**capture.files, path: FileCapture(outcome)}
    after = report(replace(recording, captures={**recording.captures, probe: replace(capture, files=files)}))
    for unread in (result for result in after.results if result.status is Status.PASS
                   and result.rule in BY_PROBE[probe]):
        # A rule may pass beside an unreadable file only if it reads another file of the same probe.
        assert not _reads(unread.rule, path), f"{unread.rule} passed although {path} was {outcome.value}"
    if any(_reads(rule, path) for rule in BY_PROBE[probe]):
        assert after.state is not NodeState.HEALTHY


_READS = {
    "port-count": (), "port-state": ("/state", "/phys_state"), "port-rate": ("/state", "/rate"),
    "port-link-downed": ("/link_downed", "/uevent"), "fleet-kernel": ("/osrelease",),
    "fleet-driver": ("/version",), "kernel-xid": ("/dev/kmsg",), "kernel-hardware-error": ("/dev/kmsg",),
    **{f"kernel-{name}": ("/dev/kmsg",) for name in ("fault", "trouble", "told", "baseline")},
    **{f"kernel-{name}": ("/dev/kmsg",) for name in ("xid-watch", "xid-job", "xid-repeat", "xid-recovery",
                                                     "xid-nvlink", "sxid", "sxid-watch")},
    "host-memory": ("/proc/meminfo",), "host-swap": ("/proc/swaps",),
    "gpu-count": ("/uevent",), "filesystem-space": ("/proc/self/mountinfo", "/", "/raid"),
    "filesystem-inodes": ("/proc/self/mountinfo", "/", "/raid"),
    "filesystem-read-only": ("/proc/self/mountinfo",),
    "filesystem-expected": ("/proc/self/mountinfo", "/etc/fstab")}


def _reads(rule: str, path: str) -> bool:
    if rule.startswith("filesystem"):
        return path in _READS.get(rule, ())
    return any(path.endswith(end) for end in _READS.get(rule, ()))


@pytest.mark.parametrize("gone", sorted(BY_PROBE))
def test_every_probe_has_a_rule_that_needs_it(gone: str) -> None:
    assert BY_PROBE[gone]
