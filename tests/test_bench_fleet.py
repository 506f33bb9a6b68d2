"""The simulation of a fleet keeps its books: every node-hour is in one bucket, and its policies do what they
are called."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TREE / "scripts/bench"))

from simulation.memory import Memory, clock  # noqa: E402
from simulation.outcome import played  # noqa: E402
from simulation.policies import NAMES, made  # noqa: E402
from simulation.rates import DAY, HOUR, KINDS  # noqa: E402
from simulation.site import Site  # noqa: E402
from simulation.world import Alarm, Event, Fault, World, drawn  # noqa: E402

from healthcheck.config.rulesfolder import packaged  # noqa: E402
from healthcheck.model.outcome import (  # noqa: E402
    Finding,
    NodeReport,
    NodeState,
    Repair,
    Result,
    Severity,
    Status,
    state_of,
)
from healthcheck.ruleset.ruleset import load_ruleset  # noqa: E402
from healthcheck.store.file import opened  # noqa: E402
from healthcheck.store.history import Problem  # noqa: E402
from healthcheck.store.readings import Component, NodeReadings  # noqa: E402
from healthcheck.store.sweeps import SweepRecord, record  # noqa: E402
from healthcheck.triage.gather import gather  # noqa: E402
from healthcheck.triage.policyload import load_policy  # noqa: E402
from inventory.model import Node  # noqa: E402

NODES = 64
XID = next(kind for kind in KINDS if kind.rule == "kernel-xid")
RESET = next(iter(XID.needs))


def fault(node: int, began: int) -> Fault:
    return Fault(node, began, XID, 3, RESET, lemon=False, heals=None, spells=((0, None),))


@pytest.mark.parametrize("name", NAMES)
def test_every_node_hour_is_in_one_bucket(name: str) -> None:
    found = played(drawn(NODES, 5.0, 3, false_alarms=20.0), 3, name)
    assert sum(found.buckets.values()) == pytest.approx(NODES * 5 * 24)
    assert all(hours >= 0 for hours in found.buckets.values())
    figures = found.figures
    assert figures["hours_lost"] == pytest.approx(found.buckets[False, False, True, False] + sum(
        hours for (_, sick, held, busy), hours in found.buckets.items() if sick and busy and not held))
    assert (figures["false"] <= figures["isolations"] and figures["needless"] <= figures["visits"]
            and figures["hits"] <= figures["jobs"])


@pytest.mark.parametrize("name", NAMES)
def test_a_fleet_in_which_nothing_fails_loses_nothing(name: str) -> None:
    found = played(World(NODES, 2 * DAY), 1, name)
    assert found.figures["isolations"] == found.figures["hits"] == found.figures["hours_lost"] == 0
    assert sum(hours for (faulty, *_),
               hours in found.buckets.items() if not faulty) == pytest.approx(NODES * 48)


@pytest.mark.parametrize(("name", "sweeps"), list(zip(NAMES, (0, 2, 0, 0), strict=True)))
def test_a_failure_is_isolated_after_the_sweeps_that_a_policy_takes_repaired_and_given_back(
        name: str, sweeps: int) -> None:
    found = played(World(NODES, 4 * DAY, faults=(fault(5, DAY),)), 1, name)
    assert (found.figures["faults"], found.figures["isolations"], found.figures["false"]) == (1, 1, 0)
    assert found.figures["delay_median"] == sweeps * 5
    assert found.figures["undetected"] == found.figures["needless"] == 0
    assert sum(hours for (_, _, held, _), hours in found.buckets.items() if held) < 2 * 24


@pytest.mark.parametrize(("name", "false"), list(zip(NAMES, (1, 0, 0, 0), strict=True)))
def test_an_alarm_of_one_sweep_isolates_where_nothing_confirms_it(name: str, false: int) -> None:
    found = played(World(NODES, 2 * DAY,
                         alarms=(Alarm(7, DAY, DAY + 1, "port-state", "mlx5_1/1 (0000:18:00.0)"),)), 1, name)
    assert found.figures["isolations"] == found.figures["false"] == false


@pytest.mark.parametrize("name", NAMES)
def test_what_is_sick_and_never_shows_is_never_isolated_and_hits_jobs(name: str) -> None:
    silent = Fault(5, DAY, XID, 3, RESET, lemon=False, heals=None, spells=())
    found = played(World(NODES, 3 * DAY, faults=(silent,)), 1, name)
    assert (found.figures["undetected"], found.figures["isolations"]) == (1, 0)
    assert found.buckets[True, True, False, True] + found.buckets[True, True, False,
                                                                  False] == pytest.approx(48)
    assert found.figures["hits"] > 10


def test_a_rack_that_loses_power_is_held_in_one_name_with_incidents_and_in_one_a_node_without() -> None:
    rack = range(8, 16)
    world = World(320, 3 * DAY, events=(Event("rack", "rack-1", DAY, DAY + 4 * HOUR, dict.fromkeys(rack, DAY),
                                              "", "", reboots=True),))
    alone, together = (played(world, 1, name).figures for name in NAMES[2:])
    assert alone["isolations"] == alone["isolations_rack"] == alone["names_rack"] > 1
    assert together["names_rack"] == 1 and together["isolations"] == together["isolations_rack"] > 1
    assert (together["incidents"], together["right"], together["wrong"], together["missed"]) == (1, 1, 0, 0)
    assert alone["incidents"] is None
    assert together["false"] == 0 and together["visits"] < alone["visits"]


def test_the_same_seed_gives_the_same_world_and_figures_and_another_does_not() -> None:
    first, again, other = (drawn(NODES, 20.0, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert played(first, 1, NAMES[3]).figures == played(again, 1, NAMES[3]).figures


def test_every_policy_lets_go_of_all_nodes_when_nothing_is_wrong_for_days() -> None:
    world = World(NODES, 30 * DAY, faults=tuple(fault(node, DAY + node * HOUR) for node in range(8)))
    for name in NAMES:
        memory = Memory(NODES)
        site = Site(world, 1, memory, made(name, memory))
        site.run()
        assert not site.held, name


def test_the_command_prints_a_table_with_n_and_seeds() -> None:
    words = [sys.executable, str(TREE / "scripts/bench/fleet"), "--nodes", "64", "--days", "1",
             "--seeds", "2"]
    text = subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True).stdout
    assert text.startswith("N=64 nodes, 1 days, seeds 1 to 2")
    for word in (*NAMES, "node-hours lost (both)", "jobs hit", "breaker openings", "peak"):
        assert word in text
    values = json.loads(subprocess.run([*words, "--json", "--only", NAMES[0]], stdout=subprocess.PIPE,
                                       check=True, text=True).stdout)
    assert len(values["policies"][NAMES[0]]) == 2


@pytest.mark.parametrize("words", [["--nodes", "3"], ["--days", "0"], ["--seeds", "0"]])
def test_a_fleet_that_is_none_is_a_usage_error(words: list[str]) -> None:
    done = subprocess.run([sys.executable, str(TREE / "scripts/bench/fleet"), *words], stderr=subprocess.PIPE,
                          check=False, text=True)
    assert done.returncode == 2 and "at least 64 nodes" in done.stderr


def told(problem: Problem) -> tuple[object, ...]:
    return (problem.node, problem.rule, problem.subject, problem.status, problem.severity, problem.origin,
            problem.began, problem.seen,
            problem.ended, problem.sweeps, problem.kind, problem.serial)


def test_the_values_of_the_simulation_are_those_that_sweeps_leave_in_a_real_store(tmp_path: Path) -> None:
    policy = load_policy([packaged()], load_ruleset([packaged()]))
    memory = Memory(1)
    rule, subject = "gpu-ecc-uncorrected", "GPU 0"
    bad, dark, boots, looks, boards = {3, 4, 5, 8, 9}, {11, 12, 13}, {6}, {14, 15}, {10}
    with opened(tmp_path, make=True) as store:
        for tick in range(17):
            shown = (tick in bad, tick in dark)
            was = (tick - 1 in bad, tick - 1 in dark)
            for key, before, now, part in (((rule, subject), was[0], shown[0], True),
                                           (("", ""), was[1], shown[1], False)):
                if now and not before:
                    memory.show(0, key, tick, part=part)
                elif before and not now:
                    memory.hide(0, key, tick)
            if tick in boards:
                memory.mended(0, Repair.REPLACE, tick)
            elif tick in boots:
                memory.boot(0, tick)
            if tick in looks:
                memory.look(0, tick)
            board = sum(tick >= each for each in boards)
            report = NodeReport("gpu00000", NodeState.UNKNOWN, "connect: refused", (), True, "connect")
            read = {}
            if not shown[1]:
                found = Result(rule, "gpu.ecc_uncorrected", Status.FAIL if shown[0] else Status.PASS,
                               Severity.CRITICAL,
                               (Finding(1, 0, subject),) if shown[0] else ())
                report = NodeReport("gpu00000", state_of([found]), "", (found,))
                boot = sum(tick >= each for each in boots | boards)
                parts = (Component("gpu", "0000:1b:00.0", f"S00000-{board}-0", subject),)
                read = {"gpu00000": NodeReadings(parts, (), frozenset({"gpu"}), f"boot-{boot}")}
            profiles = ("bringup",) if tick in looks else ()
            record(store, SweepRecord(clock(tick), clock(tick) + 9, False, "test", "digest", profiles),
                   [report], read)
            real = gather(store, [Node("gpu00000")], policy, clock(tick)).nodes[0]
            value = memory.past(0, tick, (), None)
            assert list(map(told, value.problems)) == list(map(told, real.problems)), tick
            assert sorted(map(told, value.over), key=str) == sorted(map(told, real.over), key=str), tick
            assert value.boots[1:] == real.boots[1:] and value.left == real.left, tick
            # The simulation's looks measure everything.
            assert [(look.time, look.state)
                    for look in value.snapshots] == [(look.time, look.state) for look in real.snapshots], tick
