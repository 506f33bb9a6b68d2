"""`muster inventory lifecycle`: what a person would have written, shown first; who is out of service."""

from __future__ import annotations

import datetime as dt
import difflib
import json
import os
import pty
import select
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inventory.cli.inventory import inventory
from inventory.errors import InventoryError, MusterError, UsageError
from inventory.load import load_inventory, parse_with_origins
from inventory.model import Inventory, Lifecycle, LifecycleState, Node
from inventory.place import DesiredValues, change
from tests.command import MUSTER
from tests.tries import tries

FILE = """\
version: 1
groups: {train: "gpu[001-006]", spares: "gpu[007-008]"}
nodes:
  gpu[001-004]: {rack: r01}   # by the door
  gpu[005-008]: {rack: r02}
  gpu007: {address: 10.1.0.7, lifecycle: {state: rma, owner: vendor, until: 2026-01-01}}   # case 17
"""


@pytest.fixture(autouse=True)
def _file(folder: Path) -> None:
    Path("muster.yaml").write_text(FILE)


def muster(*words: str) -> Result:
    result = CliRunner().invoke(inventory, ["lifecycle", *words])
    if isinstance(result.exception, MusterError):
        raise result.exception
    assert result.exit_code == 0, result.exception
    return result


def changed(*words: str) -> list[str]:
    """The lines that a command takes away and adds."""
    before = Path("muster.yaml").read_text()
    muster(*words, "--yes")
    after = Path("muster.yaml").read_text()
    return [line for line in difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
            if not line.startswith(("---", "+++", "@@"))]


SOON = (dt.date.today() + dt.timedelta(days=14)).isoformat()


@pytest.mark.parametrize(("words", "lines"), [
    (["gpu002", "rma"], ["+  gpu002: {lifecycle: rma}"]),
    (["gpu002", "rma", "--owner", "vendor", "--until", "2w"],
     [f"+  gpu002: {{lifecycle: {{state: rma, owner: vendor, until: {SOON}}}}}"]),
    (["gpu002", "rma", "--until", SOON], [f"+  gpu002: {{lifecycle: {{state: rma, until: {SOON}}}}}"]),
    (["gpu[002-003]", "maintenance"], ["+  gpu[002-003]: {lifecycle: maintenance}"]),
    (["gpu[001-004]", "maintenance"], ["-  gpu[001-004]: {rack: r01}   # by the door",
                                       "+  gpu[001-004]: {rack: r01, lifecycle: maintenance}   # by the "
                                       "door"]),
    (["@train", "bringup"], ["-  gpu[001-004]: {rack: r01}   # by the door",
                             "+  gpu[001-004]: {rack: r01, lifecycle: bringup}   # by the door",
                             "+  gpu[005-006]: {lifecycle: bringup}"]),
    (["gpu007", "service"],
     ["-  gpu007: {address: 10.1.0.7, lifecycle: {state: rma, owner: vendor, until: 2026-01-01}}   # case 17",
      "+  gpu007: {address: 10.1.0.7}   # case 17"]),
    (["gpu007", "rma", "--until", "14d"], [
        "-  gpu007: {address: 10.1.0.7, lifecycle: {state: rma, owner: vendor, until: 2026-01-01}}   # "
        "case 17",
        f"+  gpu007: {{address: 10.1.0.7, lifecycle: {{state: rma, owner: vendor, until: {SOON}}}}}   # "
        "case 17"]),
    (["gpu[007-008]", "service"],
     ["-  gpu007: {address: 10.1.0.7, lifecycle: {state: rma, owner: vendor, until: 2026-01-01}}   # case 17",
      "+  gpu007: {address: 10.1.0.7}   # case 17"]),
])
def test_the_file_changes_as_a_person_would_change_it(words: list[str], lines: list[str]) -> None:
    assert changed(*words) == lines


@pytest.mark.parametrize("nodes", ["gpu002", "gpu[002-003]", "gpu[001-004]", "@train", "gpu[001-002,005]",
                                   "gpu[001-006,008]"])
def test_there_and_back_again_leaves_the_file_as_it_was(nodes: str) -> None:
    assert changed(nodes, "maintenance", "--owner", "ops", "--until", "14d")
    changed(nodes, "service")
    assert Path("muster.yaml").read_text() == FILE


def test_nodes_that_return_one_by_one_leave_their_set_until_it_is_gone() -> None:
    changed("gpu[001-003]", "maintenance")
    assert changed("gpu002", "service") == ["-  gpu[001-003]: {lifecycle: maintenance}",
                                            "+  gpu[001,003]: {lifecycle: maintenance}"]
    assert changed("gpu001", "service") == ["-  gpu[001,003]: {lifecycle: maintenance}",
                                            "+  gpu003: {lifecycle: maintenance}"]
    changed("gpu003", "service")
    assert Path("muster.yaml").read_text() == FILE


def test_one_node_of_a_set_that_is_out_of_service_returns_by_an_entry_of_its_own() -> None:
    changed("gpu[001-004]", "planned")
    assert changed("gpu002", "service") == ["+  gpu002: {lifecycle: service}"]


def test_service_is_said_where_the_defaults_say_something_else() -> None:
    Path("muster.yaml").write_text("version: 1\ndefaults: {lifecycle: planned}\nnodes:\n  a[1-4]:\n")
    assert changed("a1", "service") == ["+  a1: {lifecycle: service}"]
    assert changed("a1", "planned") == ["-  a1: {lifecycle: service}"]


def test_what_is_so_already_is_said_and_nothing_is_written(folder: Path) -> None:
    def written() -> tuple[int, int]:
        status = Path("muster.yaml").stat()
        return status.st_ino, status.st_mtime_ns

    before = written()
    assert muster("gpu007",
                  "rma").output == "gpu007: rma, owner vendor, until 2026-01-01 already; nothing to change\n"
    assert written() == before


def test_a_dry_run_shows_the_difference_and_writes_nothing() -> None:
    shown = muster("gpu002", "rma", "--dry-run").output
    assert shown.startswith("--- muster.yaml\n+++ muster.yaml\n@@")
    assert "\n+  gpu002: {lifecycle: rma}\n" in shown
    assert Path("muster.yaml").read_text() == FILE


def test_without_a_terminal_and_yes_nothing_is_written() -> None:
    with pytest.raises(UsageError,
                       match="no terminal to ask on: --yes writes this, --dry-run only shows it") as caught:
        muster("gpu002", "rma")
    assert caught.value.exit_code == 2
    assert Path("muster.yaml").read_text() == FILE


@pytest.mark.parametrize(("answer", "colour", "written"),
                         [("y\n", True, True), ("n\n", False, False)])
def test_at_a_terminal_the_difference_is_coloured_and_the_answer_counts(
    answer: str, colour: bool, written: bool,
) -> None:
    keeper, terminal = pty.openpty()
    more = {} if colour else {"NO_COLOR": "1"}
    with subprocess.Popen([str(MUSTER), "inventory", "lifecycle", "gpu002", "rma"], stdin=terminal,
                          stdout=terminal, stderr=terminal,
                          env={**os.environ, "TERM": "xterm", **more}) as child:
        os.close(terminal)
        said = b""
        until = time.monotonic() + 60
        while time.monotonic() < until and select.select([keeper], [], [], 60)[0]:
            try:
                piece = os.read(keeper, 4096)
            except OSError:      # the other end is closed
                break
            said += piece
            if b"Write muster.yaml?" in said and answer:
                os.write(keeper, answer.encode())
                answer = ""
        assert child.wait(60) == 0
    os.close(keeper)
    assert (b"\x1b[32m+  gpu002" in said) == colour
    assert (b"\x1b[" in said) == colour
    assert (Path("muster.yaml").read_text() != FILE) == written


def test_a_list_names_who_is_out_for_whom_until_when_and_what_is_overdue() -> None:
    changed("gpu[001-002]", "maintenance", "--owner", "ops", "--until", SOON)
    assert muster().output == (
        f"gpu[001-002]  maintenance, owner ops, until {SOON}\n"
        "gpu007        rma, owner vendor, until 2026-01-01, OVERDUE\n"
    )
    found = json.loads(muster("--format", "json").output)
    assert found["schema"] == "muster.lifecycle/1"
    assert [(each["node"], each["overdue"]) for each in found["nodes"]] == [
        ("gpu001", False), ("gpu002", False), ("gpu007", True)]
    assert found["nodes"][2] == {"node": "gpu007", "state": "rma", "owner": "vendor", "until": "2026-01-01",
                                 "overdue": True}


def test_a_list_without_anyone_says_so() -> None:
    changed("gpu007", "service")
    assert muster().output == "All 8 nodes are in service.\n"
    assert muster("gpu001").output == "gpu001  service\n"


@pytest.mark.parametrize(("words", "said"), [
    (["gpu002", "rmaa"], "'rmaa' is not a lifecycle state: expected one of planned, bringup, service, "
                         "maintenance, rma, retired; did you mean rma?"),
    (["gpu009", "rma"], "muster.yaml has no node gpu009"),
    (["gpu002", "rma", "--until", "2020-01-01"], "--until is 2020-01-01, which has passed"),
    (["gpu002", "rma", "--until", "soon"],
     "--until is 'soon', expected a date such as 2026-12-01, or 14d, or 2w"),
    (["gpu002", "rma", "--until", "20300101"], "expected a date such as"),
    (["gpu002", "rma", "--until", "2030-W01-1"], "expected a date such as"),
    (["gpu002", "rma", "--owner", "a\nb"], "--owner is 'a\\nb', expected a name"),
    (["gpu002", "rma", "--owner", ""], "--owner is '', expected a name"),
    (["gpu002", "--owner", "me"], "--owner and --until go with a STATE"),
])
def test_a_mistake_is_one_line_and_writes_nothing(words: list[str], said: str) -> None:
    with pytest.raises(MusterError) as caught:
        muster(*words, "--yes")
    assert said in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert Path("muster.yaml").read_text() == FILE


def test_a_file_that_needs_a_hand_is_named_with_its_line_and_stays() -> None:
    text = "version: 1\nnodes:\n  a1: &x {rack: r1}\n  a2: *x\n"
    Path("muster.yaml").write_text(text)
    with pytest.raises(InventoryError, match=r"muster.yaml:4:7: there is an alias here.*edit it by hand"):
        muster("a2", "rma", "--yes")
    assert Path("muster.yaml").read_text() == text


NAMES = [f"a{number}" for number in range(1, 7)]
STATES = st.sampled_from(["rma", "service", "planned", {"state": "rma", "owner": "x"}])
SETS = st.lists(st.sampled_from(NAMES), min_size=2, max_size=6, unique=True)
HELD = st.fixed_dictionaries({}, optional={"lifecycle": STATES, "rack": st.just("r")})


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], deadline=None,
          max_examples=tries(300))
@given(
    st.lists(st.tuples(SETS.map(",".join), HELD), max_size=4),
    st.dictionaries(st.sampled_from(NAMES), HELD, max_size=4), st.none() | STATES,
    st.lists(st.sampled_from(NAMES), min_size=1, unique=True), STATES, st.booleans(),
)
def test_whatever_the_entries_are_exactly_the_named_nodes_change(
    sets: list[tuple[str, dict[str, object]]], single: dict[str, dict[str, object]], default: object,
    chosen: list[str], state: object, group: bool,
) -> None:
    import yaml

    from inventory.cli.lifecycle import _normalised

    defaults = {} if default is None else {"lifecycle": default}
    document = {"version": 1, "defaults": defaults, "nodes": {**dict(sets), **single}}
    if group:
        document |= {"groups": {"g": "a[1-3]"}, "nodes": {"@g": {"power": "p"},
                                                          **document["nodes"]}}  # type: ignore[dict-item]
    # without anchors for equal values
    text = yaml.safe_dump(json.loads(json.dumps(document)), sort_keys=False)
    try:
        loaded = parse_with_origins(text, "m.yaml")
    except InventoryError:      # sets that disagree, or no node at all
        return
    values = [name for name in chosen if name in loaded.inventory.nodes]
    if not values:
        return
    aim = (Lifecycle(LifecycleState("rma"), "x") if isinstance(state, dict)
           else Lifecycle(LifecycleState(str(state))))

    def meant(before: Inventory) -> dict[str, Node]:
        return {node.name: replace(node, lifecycle=aim) if node.name in values else node for node in before}

    want = DesiredValues(("lifecycle",), dict.fromkeys(values, state),
                         "service" if default is None else default, tidy=True, normalise=_normalised)
    after = change(text, "m.yaml", [want], {}, meant, {}, loaded)
    found = parse_with_origins(after, "m.yaml").inventory
    assert dict(found.nodes) == meant(loaded.inventory)
    assert list(found.nodes) == list(loaded.inventory.nodes)


@pytest.mark.slow
def test_four_thousand_nodes_are_edited_in_seconds(folder: Path) -> None:
    Path("muster.yaml").write_text("version: 1\nnodes:\n" + "".join(
        f"  gpu{n:04}: {{address: 10.0.{n // 256}.{n % 256}}}\n" for n in range(4096)))
    started = time.process_time()
    muster("gpu[0000-2047]", "maintenance", "--yes")
    assert time.process_time() - started < 15      # 3 s where it was measured
    assert sum(not node.in_service for node in load_inventory("muster.yaml")) == 2048


def test_the_help_shows_an_example() -> None:
    assert "muster inventory lifecycle gpu007 rma --owner vendor --until 14d" in muster("--help").output
