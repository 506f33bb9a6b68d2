"""muster.check/2: small, streamed, whole or no JSON, by its schema; and nothing that was not measured is lost
in it."""

from __future__ import annotations

import json
import subprocess
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.model.outcome import (
    Finding,
    NodeReport,
    NodeState,
    Origin,
    Owner,
    Result,
    Severity,
    Status,
    state_of,
)
from healthcheck.report.document import as_json, as_jsonl, document
from tests.command import MUSTER, environment, muster, unread
from tests.documents import SCHEMAS, all_results, schema, validate
from tests.healthcheck import machine
from tests.healthcheck.assessing import assessed

SWEEP = Path(__file__).resolve().parent.parent / "recordings/demo-sweep"
WHEN: dict[str, Any] = {"started": "2026-01-01T00:00:00.000Z", "finished": "2026-01-01T00:00:03.250Z",
                        "partial": False}
A_NODE = 8 * 1024       # bytes of a healthy node


@cache
def healthy(count: int) -> tuple[NodeReport, ...]:
    (one,) = assessed(machine.recording("gpu0000")).reports
    assert one.state is NodeState.HEALTHY
    return tuple(replace(one, node=f"gpu{number:04d}") for number in range(count))


def test_a_healthy_node_takes_at_most_8_kb() -> None:
    reports = healthy(64)
    assert sum(map(len, as_json(reports, **WHEN))) <= A_NODE * len(reports)
    lines = "".join(as_jsonl(reports, **WHEN)).splitlines()
    assert max(map(len, lines[:-1])) <= A_NODE and sum(map(len, lines)) <= A_NODE * len(reports)
    assert len(lines) == len(reports) + 1


@pytest.mark.parametrize("names", [
    [f"{number * 7919 % 99991:x}host" for number in range(200)],        # names that cannot be folded
    pytest.param([f"{uuid5(NAMESPACE_DNS, str(number))}.train.example.com" for number in range(200)],
                 marks=pytest.mark.slow)])
def test_whatever_nodes_are_called_a_healthy_one_takes_at_most_8_kb(names: list[str]) -> None:
    (one,) = healthy(1)
    reports = [replace(one, node=name) for name in names]
    pieces = list(as_json(reports, **WHEN))
    # Beside the nodes some 250 rules, each once.
    assert sum(map(len, pieces)) <= 1024 * len(reports) + 256 * 1024
    whole = json.loads("".join(pieces))
    validate(whole, "check-2")
    assert whole == document(reports, **WHEN)
    *_, last = map(json.loads, as_jsonl(reports, **WHEN))
    validate(last, "check-line-2")
    assert {**last, "nodes": whole["nodes"]} == whole
    assert all_results(whole) == document(reports, **WHEN, full=True)


@pytest.mark.parametrize("write", [as_json, as_jsonl])
def test_writing_holds_neither_the_document_nor_the_nodes(write: Any) -> None:
    (one,) = healthy(1)

    def held(count: int) -> int:
        reports = [replace(one, node=f"gpu{number:05d}") for number in range(count)]
        tracemalloc.start()
        try:
            for _ in write(reports, **WHEN):
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few, many = held(50), held(200)
    assert many - few < 150 * 700, f"{(many - few) / 150:.0f} bytes a node"      # the document has more


# ---- random results: the summarised document and the full one say the same

NAMES = st.lists(st.from_regex(r"[a-z]{1,3}[0-9]{0,3}(-[0-9]{1,2})?", fullmatch=True), unique=True,
                 min_size=1, max_size=9)
TEXT = st.text(max_size=8)
FINDINGS = st.builds(Finding, st.integers() | TEXT, st.integers() | TEXT, TEXT)


@st.composite
def results(draw: st.DrawFn, rule: int) -> Result:
    status = draw(st.sampled_from(Status))
    reason = draw(st.sampled_from(["", "a note", "another"]))
    severity = list(Severity)[rule % 3]
    name, check = f"rule-{rule:02d}", f"a.check{rule}"
    if status is Status.FAIL:
        found = tuple(draw(st.lists(FINDINGS, min_size=1, max_size=2)))
        return Result(name, check, status, severity, found, reason, None, "mend it", Owner.OPERATOR)
    if status is Status.UNKNOWN:
        return Result(name, check, status, severity, (), reason or "why not", draw(st.sampled_from(Origin)))
    return Result(name, check, status, severity, (),
                  reason if status is Status.PASS else reason or "left out")


@st.composite
def fleets(draw: st.DrawFn) -> list[NodeReport]:
    reports = []
    for name in draw(NAMES):
        reached = draw(st.booleans()) or draw(st.booleans())
        found = tuple(draw(results(rule)) for rule in range(draw(st.integers(1, 6)))) if reached else ()
        state = state_of(found)
        reports.append(NodeReport(name, state, "" if state is NodeState.HEALTHY else "a reason", found,
                                  draw(st.booleans()),
                                  None if reached else "connect"))
    return reports


def counted(entries: Sequence[dict[str, Any]]) -> dict[str, int]:
    counts = Counter(entry["status"] for entry in entries)
    return {status.value: counts[status.value] for status in Status}


@given(fleets(), st.booleans())
@settings(deadline=None)
def test_the_summarised_document_says_what_the_full_one_says(reports: list[NodeReport],
                                                             partial: bool) -> None:
    when = {**WHEN, "partial": partial}
    short, full = (json.loads("".join(as_json(reports, **when, full=whole))) for whole in (False, True))
    for whole, each in ((short, False), (full, True)):
        validate(whole, "check-2")
        *nodes, last = map(json.loads, "".join(as_jsonl(reports, **when, full=each)).splitlines())
        assert {**last, "nodes": nodes} == whole == document(reports, **when, full=each)
        for line in (*nodes, last):
            validate(line, "check-line-2")
    assert all_results(short) == full
    for few, node, report in zip(short["nodes"], full["nodes"], reports, strict=True):
        assert few["counts"] == node["counts"] == counted(node["results"])
        assert len(node["results"]) == len(report.results)
        # Whatever is unknown or failed is at its node, with its reason, in both.
        told = [entry for entry in node["results"] if entry["status"] in ("fail", "unknown")]
        assert [entry for entry in few["results"] if entry["status"] in ("fail", "unknown")] == told
        assert all(entry["reason"] for entry in told if entry["status"] == "unknown")
        assert few["counts"]["unknown"] == sum(entry["status"] == "unknown" for entry in few["results"])


@given(fleets(), st.data())
@settings(deadline=None)
def test_a_document_that_was_cut_off_is_no_json_and_lines_lack_the_last(reports: list[NodeReport],
                                                                        data: st.DataObject) -> None:
    text = "".join(as_json(reports, **WHEN))
    with pytest.raises(ValueError):
        json.loads(text[:data.draw(st.integers(0, len(text.rstrip()) - 1))])
    lines = "".join(as_jsonl(reports, **WHEN))
    at = data.draw(st.integers(0, len(lines) - 2))
    *whole, rest = lines[:at + (lines[at] == "\n")].split("\n")      # one that lacks but its end is whole
    assert all("schema" not in json.loads(line) for line in whole)
    with pytest.raises(ValueError):
        json.loads(rest)


# ---- the schemas

def test_every_schema_in_the_package_is_one_and_says_what_it_is_of() -> None:
    assert {path.stem for path in SCHEMAS.glob("*")} >= {"check-2", "check-line-2"}
    for path in SCHEMAS.iterdir():
        jsonschema.Draft202012Validator.check_schema(schema(path.stem))
        assert schema(path.stem)["title"]


@pytest.mark.parametrize("words", [(), ("--full",)])
def test_what_check_prints_is_by_its_schema(words: tuple[str, ...], tmp_path: Path) -> None:
    whole = muster("check", "--replay", str(SWEEP), "--format", "json", *words, home=tmp_path)
    lines = muster("check", "--replay", str(SWEEP), "--format", "jsonl", *words, home=tmp_path)
    assert whole.returncode == lines.returncode and whole.stdout and whole.stderr == lines.stderr
    told = json.loads(whole.stdout)
    validate(told, "check-2")
    *nodes, last = map(json.loads, lines.stdout.splitlines())
    for line in (*nodes, last):
        validate(line, "check-line-2")
    assert {**last, "nodes": nodes} == told and told["full"] is ("--full" in words)


def test_what_check_local_and_baseline_check_print_is_by_its_schema(tmp_path: Path) -> None:
    here = muster("check", "--local", "--sku", "cpu-only", "--format", "json", home=tmp_path)
    validate(json.loads(here.stdout), "check-2")
    (tmp_path / "a b,[1-2].dmesg").write_text("[    1.000000] Linux version 6.5.0\n")
    done = muster("baseline", "check", "a b,[1-2].dmesg", "--format", "json", home=tmp_path)
    told = json.loads(done.stdout)
    validate(told, "check-2")
    assert told["full"] and [node["node"] for node in told["nodes"]] == ["a b,[1-2].dmesg"]


WRONG = {
    "an unknown without its reason": lambda told: told["nodes"][0]["results"][0].update(
        status="unknown", reason="", origin="node"),
    "an unknown without its origin": lambda told: told["nodes"][0]["results"][0].update(status="unknown",
                                                                                        origin=None),
    "a failure without a finding": lambda told: told["nodes"][0]["results"][0].update(
        status="fail", origin=None, findings=[]),
    "an unknown that is folded": lambda told: told["rules"][0].update(status="unknown"),
    "a pass with a note that is folded": lambda told: told["rules"][0].update(status="pass",
                                                                              reason="half of it"),
    "folded results in a full one": lambda told: told.update(full=True),
    "no counts": lambda told: told["nodes"][0].pop("counts"),
    "the older schema": lambda told: told.update(schema="muster.check/1"),
    "a member more": lambda told: told["nodes"][0].update(results2=[])}


@pytest.mark.parametrize("how", WRONG)
def test_the_schema_refuses(how: str) -> None:
    unread = Result("b", "c.b", Status.UNKNOWN, Severity.INFO, (), "denied", Origin.NODE)
    passed = Result("a", "c.a", Status.PASS, Severity.CRITICAL)
    told = document([NodeReport("n1", NodeState.HEALTHY, "", (passed, unread))], **WHEN)
    validate(told, "check-2")
    WRONG[how](told)
    with pytest.raises(jsonschema.ValidationError):
        validate(told, "check-2")


# ---- the command

def test_a_closed_output_is_quiet_and_the_exit_code_is_the_sweep_s(tmp_path: Path) -> None:
    read = muster("check", "--replay", str(SWEEP), "--format", "json", home=tmp_path)
    assert read.returncode == 1
    assert unread("check", "--replay", str(SWEEP), "--format", "jsonl", home=tmp_path) == 1
    line = f"{MUSTER} check --replay {SWEEP} --full --format json | head -c 100"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], env=environment(tmp_path),
                          capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stdout), done.stderr) == (1, 100, read.stderr)


def test_a_full_disk_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([MUSTER, "check", "--replay", str(SWEEP), "--format", "json"],
                              env=environment(tmp_path), stdout=full,
                              stderr=subprocess.PIPE, text=True, check=False)
    assert ((done.returncode, done.stderr.splitlines()[-1])
            == (2, "muster: the output cannot be written: No space left on device")), done.stderr


def test_full_goes_with_a_document_only(tmp_path: Path) -> None:
    done = muster("check", "--replay", str(SWEEP), "--full", home=tmp_path)
    assert (done.returncode, done.stderr) == (2, "muster: --full goes with --format json or jsonl\n")


@pytest.mark.parametrize("words", [(), ("--full",)])
def test_the_document_is_explained_as_the_older_one_was(words: tuple[str, ...], tmp_path: Path) -> None:
    checked = muster("check", "--replay", str(SWEEP), "--format", "json", *words, home=tmp_path).stdout
    older = json.loads(checked)
    for key in ("full", "rules"):
        del older[key]
    for node in older["nodes"]:
        del node["counts"]
    explained = []
    for text in (checked, json.dumps({**older, "schema": "muster.check/1"})):
        (tmp_path / "check.json").write_text(text)
        explained.append(muster("explain", "check.json", home=tmp_path))
    new, old = explained
    assert (new.stdout == old.stdout and "gpu002: GPU 5: 35; expected at most 0" in new.stdout
            and new.returncode == old.returncode == 1)


def test_the_examples_of_jq_on_the_page_about_results_find_something(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "healthcheck/help/results.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("jq ")]
    assert len(lines) == 5
    (tmp_path / "check.json").write_text(muster("check", "--replay", str(SWEEP), "--format", "json",
                                                home=tmp_path).stdout)
    for line in lines:
        done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and done.stdout.strip() and not done.stderr, (line, done.stderr)
        assert len(done.stdout.splitlines()) > 1, line
