"""Every recorded sweep, scrubbed and judged again: each node has the state, statuses and findings that it
had, and subjects differ in names only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from healthcheck.model.outcome import Finding, NodeReport, NodeState, Result, Severity, Status
from healthcheck.model.recording import Recording
from healthcheck.scrub import scrub
from healthcheck.sweep import saved
from healthcheck.sweep.assess import Assessment
from healthcheck.sweep.saved import SweepManifest
from inventory.model import Node
from tests.corpus.archives import NAMES, unpack
from tests.corpus.test_fleets import OLD
from tests.packagedrules import RULES

KEY = b"k" * 32
_WORD = re.compile(r"[^\W_]+")
_COUNTED = re.compile(r"[a-z]+\d+")       # container2


def judged(look: Recording, node: Node, previous: Recording | None, manifest: SweepManifest) -> NodeReport:
    """As `muster check --replay` judges the recording of one node."""
    assessment = Assessment((node,), RULES, manifest.default_sku or "hgx-h100", saved.sent_probes(manifest),
                            manifest.profiles)
    assessment.add(look, previous)
    return assessment.finish().reports[0]


def results_of(report: NodeReport) -> dict[str, tuple[object, ...]]:
    """By rule all that no name can be part of."""
    return {result.rule: (result.status.value, result.severity.value, result.origin, result.owner,
                          sorted(f"{one.owner} {one.repair}" for one in result.findings))
            for result in report.results}


def differences(raw: NodeReport, clean: NodeReport) -> Iterator[str]:
    """What scrubbing changed of a report, one line each."""
    if (raw.state, raw.stage, raw.in_service) != (clean.state, clean.stage, clean.in_service):
        yield f"{raw.state.value} became {clean.state.value}"
    before, after = results_of(raw), results_of(clean)
    for rule in sorted(before.keys() | after.keys()):
        if before.get(rule) != after.get(rule):
            yield f"{rule}: {before.get(rule)} became {after.get(rule)}"
    names: dict[str, str] = {}
    for old, new in zip(raw.results, clean.results, strict=True):
        if len(old.findings) == len(new.findings) and not _renamed(old.findings, new.findings, names):
            yield (f"{old.rule}: {[one.subject for one in old.findings]} became "
                   f"{[one.subject for one in new.findings]}")


def _renamed(old: tuple[Finding, ...], new: tuple[Finding, ...], names: dict[str, str]) -> bool:
    """Whether the subjects are the same but for names, each of which has one stand-in; findings in order of
    subjects may change places."""
    left = list(new)
    for one in old:
        fitting = next((other for other in left if _fits(one.subject, other.subject, names)), None)
        if fitting is None:
            return False
        left.remove(fitting)
        names.update(_pairs(one.subject, fitting.subject))
    return True


def _fits(old: str, new: str, names: dict[str, str]) -> bool:
    if _WORD.sub("", old) != _WORD.sub("", new) and not _COUNTED.fullmatch(new):
        return False
    pairs = {*names.items(), *_pairs(old, new)}
    return len(pairs) == len({word for word, _ in pairs}) == len({made for _, made in pairs})


def _pairs(old: str, new: str) -> list[tuple[str, str]]:
    """Each word and what stands for it; of a name of several words that has a stand-in as a whole, the
    name."""
    if _WORD.sub("", old) != _WORD.sub("", new):
        return [(old, new)]
    return list(zip(_WORD.findall(old), _WORD.findall(new), strict=True))


@cache
def sweep(name: str, folder: Path) -> tuple[Path, SweepManifest]:
    """A saved sweep; an archive's is unpacked into the folder."""
    place = OLD.get(name) or folder / name
    if name not in OLD:
        unpack(name, place)
    return place, saved.load_manifest(place)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fleets")


# A node costs 0.8 s. Of each fleet all are judged in the slow tier, and one of two always.
SOME = [*((name, 0, 1) for name in OLD), ("scenarios", 3, 162), ("demo-1", 5, 32)]
WHOLE = [pytest.param(name, 0, 1, marks=[pytest.mark.slow, pytest.mark.timeout(900)]) for name in NAMES]


@pytest.mark.parametrize(("name", "first", "step"), [*SOME, *WHOLE])
def test_a_scrubbed_sweep_is_judged_as_the_raw_one(name: str, first: int, step: int, folder: Path) -> None:
    place, manifest = sweep(name, folder)
    nodes = {node.name: node for node in manifest.nodes}
    chosen = [*saved.recorded_nodes(place, manifest)][first::step]
    assert chosen
    found = []
    for look, previous in (saved.snapshots(place, each) for each in chosen):
        # Called by a name that is no word: the scenarios' nodes have the names of faults, which logs hold.
        node, raw = replace(nodes[look.node], name="qx7"), replace(look, node="qx7")
        earlier = replace(previous, node="qx7") if previous is not None else None
        made = scrub(raw, node, previous=earlier, key=KEY)
        found += [f"{look.node}: {line}" for line in differences(
            judged(raw, node, earlier, manifest), judged(made.recording, made.node, made.previous, manifest))]
    assert found == []


def reported(*subjects: tuple[str, ...]) -> NodeReport:
    """A report with a rule for each of these groups of findings."""
    return NodeReport("qx7", NodeState.UNHEALTHY, "", tuple(
        Result(f"rule-{at}", "check", Status.FAIL, Severity.WARNING,
               tuple(Finding(1, 0, subject) for subject in group))
        for at, group in enumerate(subjects)))


def test_a_finding_too_many_and_a_name_with_two_stand_ins_are_reported() -> None:
    raw = reported(("a-b", "c"), ("a-b", "c"))
    assert list(differences(raw, reported(("x-y", "z"), ("x-y", "z")))) == []
    assert len(list(differences(raw, reported(("x-y", "z"), ("x-y", "q"))))) == 1      # c is z, and q
    assert len(list(differences(raw, reported(("x-x", "z"), ("x-x", "z"))))) == 2      # a and b are one
    assert len(list(differences(raw, reported(("x-y",), ("x-y", "z"))))) == 1
