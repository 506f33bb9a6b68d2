"""What is made of equal answers is made once (healthcheck.judge.shared), and says what it would say if it were made each time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from healthcheck.judge.shared import Shared
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.config.rulesfolder import packaged
from healthcheck.facts.base import BY_BUILDER, FACTS, Captures, build_fact
from healthcheck.facts.files import Files
from healthcheck.facts.values import Unmeasured, Unread
from healthcheck.judge.view import View
from healthcheck.model.outcome import NodeReport
from healthcheck.model.probes import Probe
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from healthcheck.model.recordingread import read
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.sweep.assess import Assessment
from healthcheck.sweep.looks import encode
from inventory.model import Node
from tests.healthcheck import machine

RULES = load_ruleset([packaged()])
VIEW = View.of(RULES.rules)
PROBES = sorted(machine.captures())
BY_DEVICE = ["port.sysfs", "port.counters", "nvme.sysfs", "netdev.sysfs", "netdev.lacp", "optics.hwmon"]


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
        # By hand, and not from JSON: of such recordings nothing is shared.
        alone = assessed([(now, before)])
        assert of_nodes(together[now.node]) == of_nodes(alone[now.node])


def afresh(self: Files, paths: tuple[str, ...], make: Any, *about: Any) -> Any:
    """Files.alike without its memory, and over all files."""
    return make(self, *about)


@settings(max_examples=60, deadline=None)
@given(changes=st.lists(st.tuples(st.sampled_from(BY_DEVICE), DAMAGE, st.integers(0, 10_000)), max_size=4))
def test_a_device_is_made_of_the_files_that_were_named_for_it_and_once_as_well_as_afresh(changes: list[tuple[str, str, int]]) -> None:
    captures = machine.captures()
    for probe, how, number in changes:
        files = dict(captures[probe].files)
        if not files:
            continue
        path = sorted(files)[number % len(files)]
        changed = damaged(Capture(Outcome.DONE, files={path: files.pop(path)}), how)
        if changed is not None:
            files[path] = changed.files[path] if how in ("cut", "digits") else FileCapture(changed.outcome, changed.files[path].text)
        captures[probe] = replace(captures[probe], files=files)
    look = replace(machine.recording("n1"), captures=captures)
    known = [build_fact(spec, Captures(look)) for spec in FACTS.values() for _ in range(2)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Files, "alike", afresh)
        assert known == [build_fact(spec, Captures(look)) for spec in FACTS.values() for _ in range(2)]


def test_files_that_are_long_are_not_kept() -> None:
    long = FileCapture(Outcome.DONE, "x" * 5000)
    made: list[str] = []

    def make(files: Files) -> int:
        made.append(files.text("/long"))
        return len(made)

    assert [Files({"/long": long}).alike(("/long",), make) for _ in range(2)] == [1, 2]


def test_what_could_not_be_read_of_a_device_is_known_to_have_been_asked_for_each_time() -> None:
    denied = {"/a": FileCapture(Outcome.DENIED), "/b": FileCapture(Outcome.DENIED)}

    def make(files: Files) -> Any:
        return files.read("/a", str)

    for _ in range(2):
        files = Files(denied)
        assert isinstance(files.alike(("/a",), make), Unmeasured) and files.unseen() == "/b: permission denied"
        files.passed_over(("/b",))
        assert files.unseen() is None


def test_what_nodes_have_in_common_is_made_once() -> None:
    shared = Shared()
    first, second, third, odd = (sent(named(name)) for name in ("n1", "n2", "n3", "odd"))
    odd = sent(replace(odd, captures={**odd.captures, "host.sysctl": replace(odd.captures["host.sysctl"], files={})}))
    made = [shared.facts([(look, ("sysctls", "hcas", "look"))])[0] for look in (first, second, third, odd)]
    assert made[1]["hcas"] is made[2]["hcas"] is made[3]["hcas"] and made[0]["hcas"] == made[1]["hcas"]
    assert made[2]["sysctls"] is made[1]["sysctls"] and made[3]["sysctls"] != made[2]["sysctls"]
    assert made[2]["look"] is not made[1]["look"]


def test_that_there_are_none_is_never_taken_for_an_answer_that_was_not_had() -> None:
    shared = Shared()
    for name in ("n1", "n2", "n3"):
        look = sent(named(name, port_sysfs=replace(machine.captures()["port.sysfs"], files={f"/sys/class/{name}": FileCapture(Outcome.MISSING)})))
        assert shared.facts([(look, ("ports",))])[0]["ports"] == ()
    silent = named("n4")
    unasked = sent(replace(silent, captures={probe: held for probe, held in silent.captures.items() if probe != "port.sysfs"}))
    assert isinstance(shared.facts([(unasked, ("ports",))])[0]["ports"], Unmeasured)


def test_two_looks_at_one_node_share_what_did_not_change_between_them() -> None:
    now, before = sent(named("n1")), sent(earlier(named("n1", port_counters=machine.counters(**{"mlx5_0.symbol_error": "7\n"}))))
    (new, old) = Shared().facts([(now, ("ports", "port_rate_counters", "look")), (before, ("ports", "port_rate_counters", "look"))])
    assert new["ports"] is old["ports"] and new["port_rate_counters"] != old["port_rate_counters"]
    assert (new["look"].time - old["look"].time, new["look"].received - old["look"].received) == (60, 60)


def test_a_fact_that_asks_for_the_look_itself_is_never_anothers() -> None:
    shared = Shared()
    names = [shared.facts([(sent(named(name)), ("host_name",))])[0]["host_name"].own for name in ("n1", "n2", "n3")]
    assert names == ["n1", "n2", "n3"]


def test_a_tool_that_had_all_of_its_time_is_not_one_that_was_cut_short() -> None:
    own = machine.captures()["host.own-name"]
    shared = Shared()
    slow = [sent(named(f"n{n}", **{"host_own-name": replace(own, outcome=Outcome.TIMEOUT, text="", exit=None, seconds=seconds)}))
            for n, seconds in enumerate((3.0, 1.0, 3.0, 1.0))]
    found = [shared.facts([(look, ("own_name",))])[0]["own_name"] for look in slow]
    assert [one.value.resolves is False for one in found] == [True, False, True, False]


def test_no_more_is_kept_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("healthcheck.judge.shared._MOST", 20)
    shared = Shared()
    for number in range(6):
        for _ in range(2):
            shared.facts([(sent(named("n1", host_swap=machine.done(**{"/proc/swaps": f"{number}\n"}))), VIEW.facts)])
            assert len(shared._facts) <= 20 and len(shared._common) <= 21 + len(shared._given)


def noted(asked: set[str], real: Any) -> Any:
    """The method, which from now on writes down the probes that it is asked for."""
    def method(self: Captures, probe: Probe) -> Any:
        asked.add(probe.id)
        return real(self, probe)
    return method


def test_every_fact_is_made_of_the_probes_that_it_declares_and_of_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = [machine.recording(), machine.recording(gpu_nvml=Capture(Outcome.MISSING)), machine.recording(port_sysfs=Capture(Outcome.TIMEOUT)),
             machine.recording(gpu_nvml=replace(machine.nvml(), outcome=Outcome.TIMEOUT)), machine.recording(docker_info=Capture(Outcome.DENIED))]
    asked: set[str] = set()
    for way in ("capture", "text", "files", "devices"):
        monkeypatch.setattr(Captures, way, noted(asked, getattr(Captures, way)))
    for look in looks:
        for spec in BY_BUILDER.values():
            asked.clear()
            build_fact(spec, Captures(look))
            assert asked <= {probe.id for probe in spec.everything}, spec.name


def test_equal_files_of_two_recordings_are_decoded_once_and_changed_ones_are_not() -> None:
    first, second = sent(named("n1")), sent(named("n2"))
    assert first.captures["hca.sysfs"].files is second.captures["hca.sysfs"].files
    path = next(iter(first.captures["hca.sysfs"].files))
    held = named("n3").captures["hca.sysfs"]
    third = sent(named("n3", hca_sysfs=replace(held, files={**held.files, path: FileCapture(Outcome.DONE, "28.39.9999\n")})))
    assert third.captures["hca.sysfs"].files != first.captures["hca.sysfs"].files
    assert third.captures["hca.sysfs"].files[path].text == "28.39.9999\n"


def test_what_a_builder_raises_is_not_kept() -> None:
    shared = Shared()
    denied = replace(machine.captures()["host.sysctl"], outcome=Outcome.DENIED)
    found = [shared.facts([(sent(named(name, host_sysctl=denied)), ("sysctls",))])[0]["sysctls"] for name in ("n1", "n2", "n3")]
    assert len({value.reason for value in found}) == 1
    with pytest.raises(Unread):
        FACTS["sysctls"].build(Captures(sent(named("n1", host_sysctl=denied))))


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
