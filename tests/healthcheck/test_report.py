"""What is printed: whole pages against golden files, folding,
and nothing of a node's that a terminal would act on."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from healthcheck.cli.check import _epoch
from healthcheck.judge.nodereport import reason_of
from healthcheck.model.outcome import (
    Finding,
    NodeReport,
    NodeState,
    Origin,
    Result,
    Severity,
    Status,
    exit_code,
    origin_of,
    state_of,
)
from healthcheck.model.recording import Capture, Outcome, Recording
from healthcheck.report.document import as_json, as_jsonl, document
from healthcheck.report.lines import TextPage
from healthcheck.report.table import Heading, brief, render
from healthcheck.sweep.assess import Assessed, Assessment
from inventory.model import Lifecycle, LifecycleState, Node
from inventory.nodeset import fold
from inventory.text import clean
from inventory.transport.base import Failure, Stage
from tests.command import muster
from tests.documents import all_results, validate
from tests.goldens import golden
from tests.healthcheck import machine
from tests.healthcheck.assessing import assessed as sweep_of
from tests.healthcheck.assessing import page_of
from tests.packagedrules import RULES

ENDED = 1_767_225_603.25
WHEN = {"started": "2026-01-01T00:00:00.000Z", "finished": "2026-01-01T00:00:03.250Z"}


@cache
def assessed(sku: str | None = "hgx-h100") -> Assessed:
    nodes = [Node(name=f"gpu{n:03d}", sku=sku) for n in range(1, 13)]
    nodes.append(Node(name="gpu013", sku=sku, lifecycle=Lifecycle(LifecycleState.RMA)))
    assessment = Assessment(nodes, RULES)
    odd = {
        "gpu004": machine.recording("gpu004",
                                    gpu_nvml=machine.nvml(gpu3={
                                        "ecc_uncorrected": {"ok": 12}, "serial": {"error": [999, "x"]}})),
        "gpu007": machine.recording("gpu007", docker_info=Capture(Outcome.TIMEOUT)),
        "gpu008": machine.recording("gpu008", docker_info=Capture(Outcome.TIMEOUT)),
        "gpu009": Recording("gpu009", 1.0, None,
                            Failure(Stage.CONNECT, "connection refused at 10.0.0.9 port 22")),
        "gpu010": machine.recording("gpu010", kernel_log=machine.done(**{
            "/dev/kmsg": machine.KMSG + "2,99,99000000,-;NVRM: Xid (PCI:0000:3b:00): 79, "
            "[bold]\x1b[2J\x07\udcff hostile\n"})),
        "gpu011": machine.recording(
            "gpu011", host_swap=machine.done(**{"/proc/swaps": "Filename\n/swap.img file 8388604 0 -2\n"})),
        "gpu013": machine.recording("gpu013", gpu_pci=machine.pci(7), gpu_nvml=machine.nvml(7)),
    }
    for node in nodes:
        assessment.add(odd.get(node.name) or machine.recording(node.name))
    return assessment.finish()


def page(of: Assessed) -> str:
    return page_of(of, RULES.rules, width=80, heading=Heading("muster.yaml", 3.25, False, 18))


def test_the_table_folds_equal_nodes_and_tells_each_sick_ones_story() -> None:
    golden("table.txt", page(assessed()))


def test_each_dead_jump_host_is_one_line_with_the_nodes_behind_it_and_of_origin_muster() -> None:
    reports = [NodeReport(f"gpu{number:03}", NodeState.UNKNOWN,
                          f"jump host: {hop}: 10.0.0.{at}:22 refused the connection", (), stage="jump host")
               for number in range(1, 129) for at, hop in [(1, "east") if number % 2 else (2, "west")]]
    lines = page(Assessed(tuple(reports))).splitlines()
    assert [line[:15] if line.startswith("    gpu[") else line for line in lines[2:9]] == [
        "UNKNOWN  not measured  64 nodes", "    gpu[001,003",
        "        jump host: east: 10.0.0.1:22 refused the connection (muster)", "",
        "UNKNOWN  not measured  64 nodes", "    gpu[002,004",
        "        jump host: west: 10.0.0.2:22 refused the connection (muster)"]
    assert {origin_of(report) for report in reports} == {Origin.MUSTER}


def test_sixty_four_mistyped_names_are_a_few_lines() -> None:
    reports = [NodeReport(f"gup{number:03}", NodeState.UNKNOWN,
                          f"resolve: gup{number:03} has no address (Name or service not known)", (),
                          stage="resolve") for number in range(1, 65)]
    text = page(Assessed(tuple(reports)))
    assert len(text.splitlines()) < 12
    assert "resolve: gup[001-064] has no address" in text


def screen(of: Assessed, width: int, *, every: bool = False, colour: bool = False) -> str:
    """The page on a terminal of so many columns."""
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, soft_wrap=True, highlight=False,
                      markup=False, emoji=False,
                      color_system="standard" if colour else None)
    render(console, of, {r.id: r for r in RULES.rules}, Heading("muster.yaml", 3.25, False, 18, ENDED),
           fold, every=every)
    return out.getvalue()


def fleet(number: int) -> Assessed:
    """So many nodes, of which one in 64 has lost a GPU and one in 100 has swap; each hundred of these shows
    another value."""
    once = {report.node: report for report in assessed().reports}
    swap, lost, well = once["gpu011"], once["gpu013"], once["gpu001"]
    reports = []
    for at in range(number):
        like = replace(lost, in_service=True) if at % 64 == 5 else swap if at % 100 == 7 else well
        results = tuple(
            replace(one, findings=tuple(replace(each, observed=f"{8 + at // 100 % 20}.0 GiB on /swap.img")
                                        for each in one.findings))
            if one.rule == "host-swap" else one for one in like.results)
        reports.append(replace(like, node=f"gpu{at + 1:04d}", results=results))
    return Assessed(tuple(reports))


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal_and_no_word_that_fits_is_broken(width: int) -> None:
    text = screen(assessed(), width)
    golden(f"screen-{width}.txt", text)
    assert max(map(len, text.splitlines())) <= width
    # which is clipped
    wide = [line for line in screen(assessed(), 1000).splitlines() if not line.startswith("healthy")]
    whole = {word for word in " ".join(wide).replace(",", ", ").split() if len(word) <= width - 16}
    assert not whole - set(text.replace(",", ", ").split())


def test_with_all_nothing_is_left_out() -> None:
    text = screen(assessed(), 80, every=True)
    golden("screen-all.txt", text)
    assert "Not shown" not in text
    assert all(one.rule in text for report in assessed().reports
               for one in report.results if one.status is not Status.PASS)


@pytest.mark.parametrize("number", [1, 512, pytest.param(4096, marks=pytest.mark.slow)])
def test_the_page_of_a_fleet_stays_a_few_screens(number: int) -> None:
    text = screen(fleet(number), 80)
    golden(f"screen-{number}-nodes.txt", text)
    assert len(text.splitlines()) < 130


def test_states_and_severities_have_colours_and_no_meaning_hangs_on_them() -> None:
    text = screen(assessed(), 80, colour=True)
    golden("screen-colour.txt", text)
    assert re.sub(r"\x1b\[[0-9;]*m", "", text) == screen(assessed(), 80)


def test_no_color_means_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = io.StringIO()
    render(Console(file=out, width=80, force_terminal=True, soft_wrap=True), assessed(), {},
           Heading("x", 1.0, False, 1), fold)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", out.getvalue())


@pytest.mark.parametrize(("width", "name"), [(None, "plain"), (40, "40")])
def test_brief_is_one_line_a_node(width: int | None, name: str) -> None:
    out = io.StringIO()
    brief(Console(file=out, width=width or 80, force_terminal=width is not None, soft_wrap=True,
                  color_system=None), assessed())
    golden(f"screen-brief-{name}.txt", out.getvalue())
    assert [line.split()[0] for line in out.getvalue().splitlines()] == [report.node
                                                                         for report in assessed().reports]


def test_where_no_sku_says_what_a_node_should_have_it_is_one_line_that_says_what_to_type() -> None:
    reasons = ("gpus: there are no gpus, and no SKU says whether there should be",
               "there are no NVLink error counters, and no SKU says whether there should be; there are no "
               "ports, and no SKU says whether there should be",
               "no SKU is named for this node, and too few nodes were measured to learn what to expect")
    results = tuple(Result(f"rule-{n}", "c", Status.UNKNOWN, Severity.CRITICAL, (), reason, Origin.MUSTER)
                    for n, reason in enumerate(reasons))
    compared = tuple(Result(f"fleet-{n}", "c", Status.UNKNOWN, Severity.WARNING, (),
                            f"{what}: there are no {what} to compare", Origin.NODE)
                     for n, what in enumerate(("gpus", "hcas")))
    text = page(Assessed((NodeReport("n1", NodeState.UNKNOWN, "", (*results, *compared)),)))
    assert ("UNKNOWN  3 rules\n    n1  no SKU says what this node should have: name one (`sku:` in the "
            "inventory, or --sku)") in text
    assert ("cpu-only (muster)\n        rule-0, rule-1, rule-2\n" in text
            and "   next: muster sku list\n" in text)
    assert "UNKNOWN  2 rules\n    n1  it shows none of what these rules compare (node)\n" in text
    assert "nvlink_errors" not in text and "NVLink error counters" not in text


def test_of_a_machine_that_no_one_declared_and_that_shows_no_gpu_one_line_names_cpu_only() -> None:
    """As judged, and not as a message was written: a reason that reads otherwise would not be folded."""
    text = page(sweep_of(machine.recording("login1", gpu_pci=machine.pci(0), gpu_nvml=machine.nvml(0)),
                         sku=None))
    assert ("no SKU says whether there should be" not in text
            and "too few nodes were measured to learn" not in text)
    assert (text.count("for a machine that is to have neither GPUs nor RDMA ports it is cpu-only (muster)")
            == 1)


@pytest.mark.parametrize(("words", "said"), [
    (("--brief", "--format", "json"), "--all and --brief are for the table"),
    (("--all", "--format", "jsonl"), "--all and --brief are for the table"),
    (("--all", "--brief"), "give one of them")])
def test_what_shapes_the_table_goes_with_the_table_alone(words: tuple[str, ...], said: str,
                                                         tmp_path: Path) -> None:
    done = muster("check", "--local", *words, home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1) and said in done.stderr


def test_a_kernel_line_has_the_time_of_the_clock_and_its_age() -> None:
    assert "2025-12-31T23:59Z, 21 s ago: NVRM" in screen(assessed(), 200)


@pytest.mark.parametrize(("first", "now"),
                         [(5.0, 1e300), (5.0, 1e12), (-1e300, 0.0), (float("nan"), 5.0), (7.0, 5.0)])
def test_a_node_whose_clock_is_none_costs_its_line_the_time_and_no_one_the_page(first: float,
                                                                                now: float) -> None:
    report = next(one for one in assessed().reports if one.node == "gpu010")
    assert report.log is not None
    results = tuple(replace(one,
                            findings=tuple(replace(each, log=replace(each.log, first=first) if each.log
                                                   else None) for each in one.findings))
                    for one in report.results)
    text = screen(Assessed((replace(report, log=replace(report.log, now=now), results=results),)), 200)
    assert "21 s ago: NVRM" in text and "2025-12-31" not in text


@pytest.mark.parametrize("finished", ["rubbish", "", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00",
                                      "2026-01-01T00:00:00"])
def test_a_saved_sweep_without_a_time_has_a_page(finished: str) -> None:
    assert _epoch(finished) is None
    assert _epoch(WHEN["finished"]) == ENDED


@given(st.text(max_size=300), st.integers(10, 120), st.integers(0, 20))
def test_wrapping_loses_nothing_and_keeps_to_the_width(text: str, width: int, indent: int) -> None:
    text = clean(text, 1000)
    out = io.StringIO()
    TextPage(Console(file=out, width=width, force_terminal=True, color_system=None,
                     soft_wrap=True)).line(text, indent=indent)
    lines = out.getvalue().removesuffix("\n").split("\n")
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert max(map(cell_len, lines)) <= max(width, indent + 2 + 24)


def test_the_table_without_a_sku_says_what_it_expects_and_who_differs() -> None:
    golden("table-no-sku.txt", page(assessed(None)))


def test_the_document_is_as_the_contract_says() -> None:
    reports = assessed().reports
    text = "".join(as_json(reports, **WHEN, partial=False))
    golden("check.json", text)
    whole = json.loads(text)
    validate(whole, "check-2")
    assert whole == document(reports, **WHEN, partial=False)
    full = json.loads("".join(as_json(reports, **WHEN, partial=False, full=True)))
    validate(full, "check-2")
    assert all_results(whole) == full == document(reports, **WHEN, partial=False, full=True)


def test_json_lines_hold_a_line_a_node_and_the_rest_last() -> None:
    reports = assessed().reports
    text = "".join(as_jsonl(reports, **WHEN, partial=True))
    golden("check.jsonl", text)
    *lines, last = map(json.loads, text.splitlines())
    for line in (*lines, last):
        validate(line, "check-line-2")
    assert {**last, "nodes": lines} == document(reports, **WHEN, partial=True)
    assert last["partial"] is True


def test_invariant_6_nothing_a_node_says_acts_on_a_terminal() -> None:
    text = page(assessed()) + "".join(as_json(assessed().reports, started="", finished="", partial=False))
    assert "[bold]\\x1b[2J\\x07\\xff hostile" in text
    assert not set(text) & {chr(c) for c in range(32) if c != 10} and "\x7f" not in text


@given(st.text(max_size=600))
def test_clean_text_is_one_bounded_line_that_prints(text: str) -> None:
    cleaned = clean(text)
    assert len(cleaned) <= 400 and "\n" not in cleaned and "\x1b" not in cleaned
    cleaned.encode()


def result(status: Status, severity: Severity) -> Result:
    return Result("r", "c", status, severity, (Finding(1, 2, "s"),) if status is Status.FAIL else ())


@pytest.mark.parametrize(("results", "state"), [
    ([], NodeState.UNKNOWN),
    ([result(Status.SKIPPED, Severity.CRITICAL)], NodeState.UNKNOWN),
    ([result(Status.PASS, Severity.CRITICAL)], NodeState.HEALTHY),
    ([result(Status.PASS, Severity.INFO), result(Status.FAIL, Severity.INFO)], NodeState.HEALTHY),
    ([result(Status.PASS, Severity.INFO), result(Status.UNKNOWN, Severity.INFO)], NodeState.HEALTHY),
    ([result(Status.FAIL, Severity.WARNING)], NodeState.DEGRADED),
    ([result(Status.FAIL, Severity.WARNING), result(Status.UNKNOWN, Severity.WARNING)], NodeState.UNKNOWN),
    ([result(Status.FAIL, Severity.CRITICAL), result(Status.UNKNOWN, Severity.CRITICAL)],
     NodeState.UNHEALTHY),
])
def test_a_nodes_state_follows_the_contract(results: list[Result], state: NodeState) -> None:
    assert state_of(results) is state


@pytest.mark.parametrize(("states", "code"), [
    ([("n", NodeState.HEALTHY, Status.PASS, True)], 0), ([("n", NodeState.UNKNOWN, Status.UNKNOWN, True)], 3),
    ([("n", NodeState.UNKNOWN, Status.UNKNOWN, True), ("m", NodeState.DEGRADED, Status.FAIL, True)], 1),
    ([("n", NodeState.UNHEALTHY, Status.FAIL, False)], 0),
    ([("n", NodeState.UNKNOWN, Status.UNKNOWN, False)], 0), ([], 0),
])
def test_the_exit_code_counts_nodes_in_service_only(
    states: list[tuple[str, NodeState, Status, bool]], code: int,
) -> None:
    reports = [NodeReport(n, state, "", (result(status, Severity.WARNING),), service)
               for n, state, status, service in states]
    assert exit_code(reports) == code


def test_a_node_of_which_every_rule_was_skipped_is_reported_why_it_is_unknown() -> None:
    results = (Result("host-memory", "c", Status.SKIPPED, Severity.WARNING,
                      reason="the SKU cpu-only does not say"),)
    reports = tuple(NodeReport(f"n{n}", state_of(results), reason_of(state_of(results), results), results)
                    for n in (1, 2))
    assert (
        "\nUNKNOWN  not measured  2 nodes\n    n[1-2]\n        nothing was measured: every rule was skipped\n"
        in page(Assessed(reports)))


def test_what_is_skipped_for_one_kind_of_reason_is_folded_into_one_line() -> None:
    results = [
        Result(f"r{n}", "c", Status.SKIPPED, Severity.WARNING,
               reason=f"not supported: field {n} of thing {n}") for n in range(8)
    ] + [Result("gone", "c", Status.SKIPPED, Severity.WARNING, reason="disabled in a.yaml")]
    report = NodeReport("gpu001", NodeState.HEALTHY, "", tuple(results))
    text = page_of(Assessed((report,)), every=True)
    assert ("skipped  not supported on these nodes  gpu001\n    8 rules: r0, r1, r2, r3, r4, r5, "
            "r6, r7\n") in text
    assert "skipped  gone: disabled in their rules files  gpu001\n" in text


def test_what_is_critical_comes_first_then_what_is_not_known_then_warnings() -> None:
    blind, failed = result(Status.UNKNOWN, Severity.CRITICAL), result(Status.FAIL, Severity.WARNING)
    worst = result(Status.FAIL, Severity.CRITICAL)
    reports = tuple(NodeReport(f"n{n}", NodeState.UNKNOWN, "", found)
                    for n, found in enumerate([(blind,), (failed,), (worst,)]))
    text = page(Assessed(reports))
    assert (text.index("\nCRITICAL") < text.index("\nUNKNOWN") < text.index("\nWARNING")
            < text.index("\nunknown "))
