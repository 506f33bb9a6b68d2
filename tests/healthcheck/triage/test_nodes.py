"""`muster nodes`: every node once, none healthy that was not seen to be,
and what is wrong on a line of its own."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from click.testing import Result as Result_
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.cli.main import root
from healthcheck.model.faultkind import Isolation
from healthcheck.model.outcome import Finding, NodeReport, NodeState, Origin, Owner, Result, Severity, Status
from healthcheck.report.nodes import NEVER, NodeRow, lines, row
from healthcheck.store import rmas
from healthcheck.store.cordons import CordonState, mean, settle
from healthcheck.store.file import opened
from healthcheck.store.history import Spell
from healthcheck.store.readings import Component, NodeReadings
from healthcheck.store.silences import silence
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.triage.past import NodeHistory, OpenVerdict
from inventory.errors import MusterError
from inventory.nodeset import expand
from tests.command import unread
from tests.healthcheck.terminals import on_terminal
from tests.testbed.marks import plain
from tests.tries import tries

HOUR = 3600.0
WORN = Result("gpu-row-remap-failed", "x", Status.FAIL, Severity.CRITICAL,
              (Finding("failed", "none", "GPU 0"),), "", None, "Send it back.", Owner.VENDOR)
DISK = Result("disk-wear", "x", Status.FAIL, Severity.WARNING, (Finding("91 %", "at most 90 %", "nvme0"),),
              "", None, "Order one.", Owner.OPERATOR)
FINE = Result("host-memory", "x", Status.PASS, Severity.CRITICAL)


def report(node: str, *results: Result, state: NodeState = NodeState.HEALTHY) -> NodeReport:
    return NodeReport(node, state, "", results or (FINE,))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twelve nodes: 1 worn out and cordoned, 2 with a warning, 3 not reached, 4 silenced, 5 never seen, 6 not
    seen for two days, 12 away."""
    (tmp_path / "muster.yaml").write_text("version: 1\nnodes:\n  gpu[001-010]: {rack: r01}\n  gpu011: "
                                          "{lifecycle: bringup}\n  gpu012: {lifecycle: rma}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUSTER_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("MUSTER_INVENTORY", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    now = time.time()
    with opened(tmp_path / "state", make=True) as store:
        for ago in (50, 49, 48):
            record(store, SweepRecord(now - ago * HOUR, now - ago * HOUR + 5, False, "t", "d"),
                   [report("gpu006")])
        for ago in (3, 2, 1):
            parts = NodeReadings((Component("gpu", "0000:1a:00.0", "S1", "GPU 0"),
                                  Component("chassis", "chassis", "C12", "chassis")), (),
                                 frozenset({"gpu", "chassis"}))
            record(store, SweepRecord(now - ago * HOUR, now - ago * HOUR + 5, False, "t", "d"), [
                report("gpu001", WORN, state=NodeState.UNHEALTHY),
                report("gpu002", DISK, state=NodeState.DEGRADED),
                NodeReport("gpu003", NodeState.UNKNOWN, "connect: refused", (), True, "connect"),
                report("gpu004", DISK, state=NodeState.DEGRADED),
                *(report(f"gpu{n:03d}") for n in range(7, 13))], {"gpu001": parts})
        held = mean(store, "gpu001", "slurm", "worn", "us", now)
        assert held is not None
        settle(store, held, CordonState.HELD, "cordoned", now)
        silence(store, ["gpu004"], "disk-*", "on order", "us", now, now + HOUR)
        _, line = rmas.begin(store, "gpu012", "", "chassis", "C12", "smoke", "us", "", "", now)
        rmas.settle(store, line, "open", now)
    return tmp_path


def run(*words: str) -> Result_:
    """The command in this process, as `main` runs it."""
    done = CliRunner().invoke(root, ["nodes", *words])
    assert done.exception is None or isinstance(done.exception, (MusterError, SystemExit)), done.exc_info
    return done


def table(*words: str) -> tuple[list[str], str]:
    done = run(*words)
    assert done.exit_code == 0, done.exception
    return done.stdout.splitlines(), done.stderr


def cells(*words: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split(maxsplit=11)[1:] for line in table(*words)[0]
            if ": " not in line.split("  ")[0]}


def test_what_is_wrong_has_a_line_and_the_rest_is_folded(home: Path) -> None:
    told = cells()
    assert list(told) == ["NODE", "gpu001", "gpu002", "gpu003", "gpu004", "gpu012"]
    assert told["gpu001"][:6] == ["service", "unhealthy", "no-new-jobs", "replace", "vendor", "gpu-worn-out"]
    assert (plain(" ".join(told["gpu001"][7:10])).split() == ["muster#1", "-", "-"]
            and "GPU 0: failed (expected none)" in told["gpu001"][10])
    assert told["gpu002"][:6] == ["service", "degraded", "none", "watch", "operator", "warning"]
    assert told["gpu003"][:6] == ["service", "unknown", "no-new-jobs", "inspect", "datacentre", "unreachable"]
    assert told["gpu004"][:9] == ["service", "degraded", "-", "-", "-", "-", told["gpu004"][6], "-", "1"]
    assert (told["gpu012"][:6] == ["rma", "healthy", "no-new-jobs", "replace", "vendor", "rma"]
            and told["gpu012"][9] == "1:open")
    out, said = table()
    folded = [line for line in out if ": " in line.split("  ")[0]]
    assert folded == ["gpu005: never-seen", "gpu006: healthy?", "gpu[007-010]: healthy",
                      "gpu011: healthy, bringup"]
    first, *warnings = said.splitlines()
    assert (first.startswith("12 nodes, 10 in service; 2 not fit for new jobs; the newest sweep is ")
            and first.endswith(" min old"))
    assert warnings == [
        "warning: no full sweep of gpu006 for over 24 h; the states shown are older",
        "warning: no stored sweep has ever seen gpu005"]


def test_all_gives_each_node_a_line_and_a_set_only_its_nodes(home: Path) -> None:
    assert len(cells("--all")) == 13
    assert list(cells("gpu[001,007]", "--all")) == ["NODE", "gpu001", "gpu007"]
    assert "not checked for 2 d" in cells("gpu006", "--all")["gpu006"][10]


@pytest.mark.parametrize(("words", "nodes"), [
    (("--is", "unhealthy", "--is", "never-seen"), ["gpu001", "gpu005"]),
    (("--isolation", "no-new-jobs"), ["gpu001", "gpu003", "gpu012"]),
    (("--owner", "operator"), ["gpu002"]),
    (("--is", "healthy", "--owner", "vendor"), ["gpu012"]),
    (("--isolation", "evict"), []),
])
def test_nodes_are_chosen_by_state_isolation_and_owner(
    home: Path, words: tuple[str, ...], nodes: list[str],
) -> None:
    found = json.loads(run(*words, "--format", "json").stdout)
    assert (found["schema"], [one["node"] for one in found["nodes"]]) == ("muster.nodes/1", nodes)


def test_how_old_is_too_old_can_be_said(home: Path) -> None:
    found = json.loads(run("--stale", "30m", "--format", "json").stdout)
    assert {one["node"] for one in found["nodes"] if not one["stale"]} == {"gpu005"}
    assert found["nodes"][4]["state"] == NEVER and found["nodes"][4]["seen"] is None


def test_a_board_that_came_back_the_same_is_reported_where_the_nodes_are(home: Path) -> None:
    with opened(home / "state") as store:
        one = rmas.rmas(store)[0]
        rmas.ship(store, one, "us", time.time())
        rmas.settle(store, rmas.give_back(store, one, rmas.outcome(same=False, new=""), "us", time.time()),
                    "returned", time.time())
        parts = NodeReadings((Component("chassis", "chassis", "C12", "chassis"),), (), frozenset({"chassis"}))
        record(store, SweepRecord(time.time() + 1, time.time() + 2, False, "t", "d"), [report("gpu012")],
               {"gpu012": parts})
    assert cells()["gpu012"][10].startswith("the SAME chassis came back: serial C12")


def test_without_an_inventory_the_store_says_who_there_is(home: Path) -> None:
    (home / "muster.yaml").unlink()
    assert "gpu[007-011]: healthy" in table()[0]
    assert str(run(
        "gpu005").exception) == "gpu005: no stored sweep has seen this node, and no inventory names it"


def test_nodes_that_only_the_store_knows_are_reported(home: Path) -> None:
    (home / "muster.yaml").write_text("version: 1\nnodes:\n  gpu[001-010]:\n")
    assert "note: the store has nodes that are not in muster.yaml: gpu[011-012]" in table()[1]


def test_a_pipe_gets_no_colour_and_its_end_is_no_failure(home: Path) -> None:
    assert "\x1b" not in "".join(table()[0]) and unread("nodes", home=home) == 0
    assert "\x1b[31m" in on_terminal("nodes", home=home)


def test_what_many_do_not_answer_is_no_verdict_on_each(home: Path) -> None:
    unread_ = Result("gpu-count", "x", Status.UNKNOWN, Severity.CRITICAL, (), "no nvidia-smi", Origin.NODE)
    with opened(home / "state") as store:
        for ago in (30, 20, 10):
            record(store, SweepRecord(time.time() - ago, time.time(), False, "t", "d"),
                   [report(f"gpu{n:03d}", unread_, state=NodeState.UNKNOWN) for n in range(7, 11)])
    told = cells("gpu007")
    assert told["gpu007"][1] == "unknown" and told["gpu007"][2] == "-"


TIMES = st.none() | st.floats(0, 1000)
SPELLS = st.none() | st.builds(Spell, st.just("n"), st.sampled_from([state.value for state in NodeState]),
                               st.sampled_from(["", "why", "\x1b[31m"]), st.none(), st.floats(0, 1000),
                               st.floats(0, 1000), TIMES, st.just(1))


@settings(max_examples=tries(200), deadline=None)
@given(st.lists(SPELLS, max_size=12), st.floats(1, 500), st.booleans())
def test_no_node_is_called_healthy_that_was_not_seen_so_lately_and_each_stands_once(
    spells: list[Spell | None], stale: float, every: bool,
) -> None:
    past = NodeHistory("n", verdict=OpenVerdict(1, "f", Isolation.EVICT, 0.0))
    rows = [NodeRow(**{**vars(row(past, spell, None, 1000.0, stale)), "node": f"n{at:02d}"})
            for at, spell in enumerate(spells)]
    told = list(lines(rows, 1000.0, lambda text, kind: text, every=every))
    assert all(line.isprintable() for line in told)
    healthy = {name for line in told if line.endswith(": healthy")
               for name in expand(line.rpartition(": ")[0])}
    healthy |= {line.split()[0] for line in told if " healthy " in f"{line} ".replace("  ", " ")
                and ": " not in line}
    assert healthy == {f"n{at:02d}" for at, spell in enumerate(spells) if spell and spell.state == "healthy"
                       and 1000.0 - spell.seen <= stale}
    names = [name for line in told if not line.startswith("NODE")
             for name in expand(line.split()[0].removesuffix(":"))]
    assert sorted(names) == [one.node for one in rows]
