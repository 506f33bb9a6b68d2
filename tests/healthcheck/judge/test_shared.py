"""What is said of a node is the same whatever nodes were judged before it (healthcheck.judge.shared)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.config.rulesfolder import packaged
from healthcheck.model.outcome import NodeReport
from healthcheck.model.recording import Capture, Outcome, Recording, read
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.sweep.assess import Assessment
from healthcheck.sweep.looks import encode
from inventory.model import Node
from tests.healthcheck import machine

RULES = load_ruleset([packaged()])
PROBES = sorted(machine.captures())


def sent(recording: Recording) -> Recording:
    """The recording as it comes from a node or from disk."""
    return read(encode(recording))


def named(node: str, **changes: Capture) -> Recording:
    return replace(machine.recording(node, **changes), host=replace(machine.HOST, hostname=node, boot_id=f"boot of {node}"))


def earlier(look: Recording) -> Recording:
    assert look.host is not None
    return replace(look, host=replace(look.host, time=look.host.time - 60), received=look.received - 60)


def assessed(looks: Iterable[tuple[Recording, Recording | None]], only: str = "") -> dict[str, NodeReport]:
    pairs = list(looks)
    assessment = Assessment([Node(now.node, sku="hgx-h100") for now, _ in pairs], RULES)
    for now, before in pairs:
        assessment.add(now, before)
    return {report.node: report for report in assessment.finish().reports if not only or report.node == only}


def of_nodes(report: NodeReport) -> list[Any]:
    """Results of the rules that look at one node alone."""
    fleet = {rule.id for rule in RULES.rules if rule.checked.fleet}
    return [result for result in report.results if result.rule not in fleet]


DAMAGE = st.sampled_from(["missing", "denied", "timeout", "truncated", "cut", "digits", "gone"])


def damaged(capture: Capture, how: str) -> Capture | None:
    if how == "gone":
        return None
    if how in ("missing", "denied", "timeout", "truncated"):
        return replace(capture, outcome=Outcome(how))
    if how == "cut":
        return replace(capture, text=capture.text[:-3], files={path: replace(entry, text=entry.text[:-3]) for path, entry in capture.files.items()})
    other = str.maketrans("0123456789", "1234567890")
    return replace(capture, text=capture.text.translate(other),
                   files={path: replace(entry, text=entry.text.translate(other)) for path, entry in capture.files.items()})


@settings(max_examples=30, deadline=None)
@given(changes=st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.sampled_from(PROBES), DAMAGE), max_size=6))
def test_a_node_is_judged_among_others_as_it_is_judged_alone(changes: list[tuple[int, bool, str, str]]) -> None:
    looks = [[named(f"n{number}"), earlier(named(f"n{number}"))] for number in range(4)]
    for number, before, probe, how in changes:
        look = looks[number][before]
        captures = dict(look.captures)
        if probe in captures:
            changed = damaged(captures.pop(probe), how)
            looks[number][before] = replace(look, captures=captures if changed is None else {**captures, probe: changed})
    together = assessed((sent(now), sent(before)) for now, before in looks)
    for now, before in looks:
        alone = assessed([(now, before)])
        assert of_nodes(together[now.node]) == of_nodes(alone[now.node])


def alone(now: Recording, before: Recording | None = None) -> list[Any]:
    return of_nodes(assessed([(now, before)])[now.node])


def test_a_node_of_another_model_than_its_sku_is_told_its_own_model_however_often_it_is_looked_at() -> None:
    def of_model(node: str, model: str) -> Recording:
        return sent(named(node, gpu_nvml=machine.nvml(**{f"gpu{index}": {"name": {"ok": model}} for index in range(8)})))

    names = [f"n{number:02}" for number in range(16)]
    assessment = Assessment([Node(name, sku="hgx-h100") for name in names], RULES)
    for name in names:
        assessment.add(of_model(name, f"NVIDIA A{name}"))
        assessment.add(of_model(name, f"NVIDIA B{name}"))       # the SKU of the look before is no longer needed
    for report in assessment.finish().reports:
        assert of_nodes(report) == alone(of_model(report.node, f"NVIDIA B{report.node}"))


def test_what_both_looks_lack_is_told_alike_whether_they_are_one_fact_or_two() -> None:
    smart = machine.captures()["disk.smart"]

    def read(node: str, written: int) -> Recording:
        def changed(text: str) -> str:
            return re.sub(r'"data_units_written": \d+', f'"data_units_written": {written}', re.sub(r'"serial_number": ?"[^"]*",?\s*', "", text))

        files = {path: replace(entry, text=changed(entry.text)) for path, entry in smart.files.items()}
        return sent(named(node, disk_smart=replace(smart, text=changed(smart.text), files=files)))

    looks = [(read(f"n{number:02}", number), earlier(read(f"n{number:02}", number + 700 * (number % 2)))) for number in range(12)]
    reports = assessed(looks)
    for now, before in looks:
        assert of_nodes(reports[now.node]) == alone(now, before)
