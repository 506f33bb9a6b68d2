"""An upgrade goes ring by ring, and stops after a ring that got worse."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from inventory.errors import UsageError
from inventory.model import Node
from inventory.transport.base import Limits
from inventory.transport.local import LocalTransport
from provisioning.agent.bundle import Bundle
from provisioning.agent.install import AgentAction, AgentRequest, AgentResult, act
from provisioning.agent.rings import AgentSample, RingSize, ring_sizes, rings, sample, worse
from provisioning.agent.status import AgentStatus, show
from provisioning.agent.upgrade import RingOutcome, upgrade_rings, wait_s
from provisioning.cli.agentupgrade import RingReport
from tests.provisioning.agent import test_install as installs

bundle = installs.bundle
OLD, NEW = "a" * 12, "b" * 12
WELL = AgentSample("", "healthy", frozenset())


class World:
    """Agents that answer as they are put; each runs `lag` seconds of pauses after its upgrade."""

    def __init__(self, count: int, lag: float = 3.0) -> None:
        self.names = [f"n{number:02}" for number in range(count)]
        self.version = dict.fromkeys(self.names, OLD)
        self.ran = dict(self.version)
        self.after: dict[str, dict[str, Any]] = {}      # what is reported once the new version has run
        self.now, self.lag = 0.0, lag
        self.upgraded: dict[str, float] = {}
        self.failing: set[str] = set()
        self.asked: list[int] = []

    def ask(self, names: Sequence[str]) -> Iterable[AgentResult]:
        self.asked.append(len(names))
        for name in names:
            own = self.after.get(name, {})
            if not own.get("silent") and self.now >= self.upgraded.get(name, 1e9) + self.lag:
                self.ran[name] = self.version[name]
            new = self.ran[name] == NEW
            result = {"bundle": self.ran[name], "state": own.get("state", "healthy") if new else "healthy",
                      "time": 1000.0}
            yield AgentResult(name, True, "", (), {
                "current": self.version[name], "whole": True, "timer": "active, enabled", "now": 1010.0,
                "result": result, "installed": {"period": 60},
                "unknown": own.get("unknown", []) if new else []})

    def upgrade(self, names: Sequence[str]) -> Iterable[AgentResult]:
        for name in names:
            if name in self.failing:
                yield AgentResult(name, False, "connect: refused")
                continue
            self.version[name], self.upgraded[name] = NEW, self.now
            yield AgentResult(name, True, f"{NEW} in use")

    def pause(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds

    def run(self, sizes: str = "1,10%,rest", wait: float = 60.0) -> list[RingOutcome]:
        return list(upgrade_rings(rings(self.names, ring_sizes(sizes)), self.ask, self.upgrade, wait,
                                  clock=lambda: self.now, pause=self.pause))

    @property
    def new(self) -> int:
        return sum(version == NEW for version in self.version.values())


@pytest.mark.parametrize(("text", "expected"), [
    ("1,10%,rest", [1, 2, 17]), ("rest", [20]), ("1,rest", [1, 19]), ("30,rest", [20]), ("100%, rest", [20]),
    ("3,50%,7,rest", [3, 10, 7]),
])
def test_rings_are_of_the_sizes_that_are_named_in_the_nodes_order(text: str, expected: list[int]) -> None:
    names = [f"n{number}" for number in range(20)]
    made = rings(names, ring_sizes(text))
    assert [len(ring) for ring in made] == expected
    assert [name for ring in made for name in ring] == names
    assert rings([], ring_sizes(text)) == []


@pytest.mark.parametrize("text",
                         ["", "1", "1,10%", "0,rest", "101%,rest", "rest,1", "-1,rest", "1;rest", "٣,rest"])
def test_sizes_that_are_none_are_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="--rings") as error:
        ring_sizes(text)
    assert "\n" not in str(error.value)


@given(st.text(max_size=30))
def test_any_text_is_sizes_or_one_line(text: str) -> None:
    try:
        assert all(isinstance(size, RingSize) for size in ring_sizes(text))
    except UsageError as error:
        assert str(error).isprintable()


def test_where_no_node_gets_worse_every_ring_is_upgraded_one_after_the_other() -> None:
    world = World(20)
    outcomes = world.run()
    assert [(len(one.nodes), dict(one.worse), dict(one.states)) for one in outcomes] == [
        (1, {}, {"healthy": 1}), (2, {}, {"healthy": 2}), (17, {}, {"healthy": 17})]
    starts = sorted(set(world.upgraded.values()))
    assert len(starts) == 3 and all(later - earlier >= world.lag
                                    for earlier, later in itertools.pairwise(starts))


@pytest.mark.parametrize(("change", "reason"), [
    ({"silent": True}, "no result by the new version within 60 s"),
    ({"state": "degraded"}, "degraded, before healthy"),
    ({"state": "unhealthy"}, "unhealthy, before healthy"),
    ({"unknown": ["gpu-count", "disk-full"]}, "became UNKNOWN: disk-full, gpu-count"),
])
def test_a_ring_with_a_worse_node_is_the_last_and_says_which_and_why(change: dict[str, Any],
                                                                     reason: str) -> None:
    world = World(20)
    world.after["n02"] = change
    outcomes = world.run()
    assert [one.good for one in outcomes] == [True, False]
    assert outcomes[-1].worse == {"n02": reason}
    assert world.new == 3


def test_nodes_where_it_fails_do_not_stop_it_unless_they_are_a_whole_ring() -> None:
    world = World(20)
    world.failing = {"n01"}
    assert [one.good for one in world.run()] == [True, True, True] and world.new == 19
    world = World(20)
    world.failing = {"n00"}
    assert [one.good for one in world.run()] == [False] and world.new == 0


def test_a_ring_of_agents_that_were_silent_and_are_silent_proves_nothing() -> None:
    world = World(6, lag=1e6)
    world.ran = dict.fromkeys(world.names, "")
    real = world.ask
    world.ask = lambda names: (dataclasses.replace(one, report={**one.report, "result": "No such file"})
                               for one in real(names))  # type: ignore[method-assign]
    (first,) = world.run("2,rest", 30.0)
    assert not first.good and not first.worse and first.upgraded and first.states == {"silent": 2}


def test_only_nodes_without_a_result_are_asked_again_and_without_a_wait_none_is() -> None:
    world = World(6)
    world.after["n05"] = {"silent": True}
    world.run("rest", 30.0)
    assert world.asked[0] == 6 and world.asked[-1] == 1 and world.now == 30.0 and len(world.asked) < 12
    world = World(6)
    assert [one.good for one in world.run("1,rest", 0.0)] == [True, True] and world.asked == []


def test_better_nodes_do_not_make_up_and_what_was_so_before_is_not_worse() -> None:
    silent = AgentSample("no result", None, frozenset())
    ill = AgentSample("", "unhealthy", frozenset({"a"}))
    assert (worse(silent, silent) == "" == worse(ill, ill) == worse(ill,
                                                                    WELL)
            == worse(silent, AgentSample("", "unknown", frozenset())))
    assert worse(WELL, AgentSample("nothing starts it", "healthy", frozenset())) == "nothing starts it"
    assert worse(WELL, AgentSample("", "unknown", frozenset())) == "unknown, before healthy"
    assert (worse(ill, AgentSample("", "unknown", frozenset("a")))
            == "unknown, before unhealthy"), "what is not measured is not better"
    assert worse(WELL, AgentSample("", "healthy",
                                   frozenset("abcdefg"))) == "became UNKNOWN: a, b, c, d, e and 2 more"


JSON = st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=9),
                    lambda inner: st.lists(inner, max_size=3)
                    | st.dictionaries(st.text(max_size=9), inner, max_size=3), max_leaves=6)


@given(st.dictionaries(st.sampled_from(["result", "unknown", "current", "installed", "whole", "timer",
                                        "now"]), JSON))
def test_whatever_a_node_reports_is_a_sample(report: dict[str, Any]) -> None:
    found = sample(AgentResult("n1", True, "", (), report))
    assert all(isinstance(rule, str) and rule.isprintable() for rule in found.unknown)
    assert "\n" not in worse(WELL, found)


def test_cron_has_two_periods_more() -> None:
    plain, cron = AgentResult("n1", True, ""), AgentResult("n2", True, "", (),
                                                           {"cron": True, "period": 300.0})
    assert wait_s([plain]) == 150 and wait_s([plain, cron]) == 750
    assert wait_s([dataclasses.replace(cron, report={"cron": True, "period": "x"})]) == 150


class Machines:
    """Nodes with root folders of their own, each with an agent of this bundle."""

    def __init__(self, folder: Path, old: Bundle, new: Bundle, count: int) -> None:
        self.nodes = [Node(f"n{number}", sku="hgx-h100", python=sys.executable) for number in range(count)]
        self.roots = {node.name: folder / node.name for node in self.nodes}
        self.new = new
        for node in self.nodes:
            (self.roots[node.name] / "etc/cron.d").mkdir(parents=True)
            assert next(iter(self.act([node], AgentRequest(AgentAction.INSTALL), old))).ok
            self.runs(node.name)

    def act(self, nodes: Sequence[Node], asked: AgentRequest,
            made: Bundle | None = None) -> Iterable[AgentResult]:
        for node in nodes:
            own = dataclasses.replace(asked, root=str(self.roots[node.name]))
            yield from act([node], LocalTransport(), own, Limits(), made or self.new)
            if asked.do is AgentAction.UPGRADE and not asked.dry:
                self.runs(node.name)

    def runs(self, name: str) -> None:
        """The agent leaves a result, as cron would have it."""
        state = self.roots[name] / "var/lib/muster/agent"
        state.mkdir(parents=True, exist_ok=True)
        rules = json.loads((self.roots[name] / "opt/muster/current/rules.json").read_text())
        bad = rules["digest"] == "bad"
        (state / "result.json").write_text(json.dumps({
            "bundle": self.version(name), "state": "unknown" if bad else "healthy", "time": 4e9,
            "report": {"results": [{"rule": "gpu-count", "status": "unknown" if bad else "pass"}]}}))

    def version(self, name: str) -> str:
        return (self.roots[name] / "opt/muster/current").readlink().name

    def upgrade(self, *, dry: bool = False) -> tuple[int, str]:
        """The command's exit code and what it prints."""
        @click.command()
        @click.pass_context
        def command(ctx: click.Context) -> None:
            ctx.exit(RingReport(self.nodes, self.act, as_json=False).run(
                AgentRequest(AgentAction.UPGRADE, dry), ring_sizes("1,rest"), 5.0))
        done = CliRunner().invoke(command)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.output


def test_rings_are_shown_stopped_named_and_gone_on_with_on_real_installations(tmp_path: Path,
                                                                              bundle: Bundle) -> None:
    bad = dataclasses.replace(bundle, rules=b'{"digest": "bad"}')
    fleet = Machines(tmp_path, bundle, bad, 3)
    old = {name: fleet.version(name) for name in fleet.roots}
    assert fleet.upgrade(dry=True) == (0,
                                       "ring 1 of 2: would upgrade n0\nring 2 of 2: would upgrade n[1-2]\n")
    assert {name: fleet.version(name) for name in fleet.roots} == old
    code, printed = fleet.upgrade()
    assert code == 4
    assert "ring 1 of 2: 1 of 1 nodes got worse (1 unknown)" in printed
    assert "n0: worse: unknown, before healthy; became UNKNOWN: gpu-count" in printed
    assert "stopped; n[1-2] keep the version before" in printed
    assert "next: muster check n0; to go back: muster agent rollback n0" in printed
    assert fleet.version("n0") != old["n0"] and fleet.version("n1") == old["n1"]
    # With the cause mended it goes on. Where it fails, the node is named and its agent is the one before.
    fleet.new = installs.newer(bundle)
    shutil.rmtree(fleet.roots["n2"] / "etc/cron.d")
    code, printed = fleet.upgrade()
    assert (code == 1
            and f"n2: NOT done: there is neither systemd nor cron here: what is to start the agent?; so "
                f"{old['n2']} stays in use" in printed)
    assert (fleet.version("n2") == old["n2"] and fleet.version("n0") != old["n0"]
            and fleet.version("n1") != old["n1"])
    (fleet.roots["n2"] / "etc/cron.d").mkdir()
    code, printed = fleet.upgrade()
    assert (code == 0 and "ring 1 of 1: no node got worse (1 healthy)" in printed
            and "n1: nothing to do" in printed)
    assert fleet.version("n2") != old["n2"]


def test_status_folds_versions_by_node_set_and_says_what_is_accepted_and_what_to_type(
        capsys: pytest.CaptureFixture[str]) -> None:
    def one(name: str, version: str | None) -> AgentStatus:
        return AgentStatus(name, True, OLD, version=version, period=60.0, state="healthy", age=1.0)
    fleet = [*(one(f"n{number}", "1.2.0") for number in range(1, 5)), one("n5", "1.1.0"), one("n7", "1.1.0"),
             AgentStatus("n9", False, trouble="connect")]
    assert show(fleet, "1.2.0", as_json=False) == 3
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "n[1-4]: version 1.2.0, as here",
        "n[5,7]: version 1.1.0, older than here; accepted: muster agent upgrade 'n[5,7]'"]
    assert show([*fleet, one("n6", "2.0"), one("n8", None)], "1.2.0", as_json=False) == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "n8: version -, unreadable; not accepted: muster agent upgrade n8",
        "n6: version 2.0, newer than here; not accepted: update muster here, or muster agent rollback n6"]
