"""A slow NIC and a bad path in network namespaces: pairs name them, and no rank's times do.

Real gloo, real TCP.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from healthcheck.burnin import faults
from healthcheck.burnin.floors import Floors, LearnedFloor
from healthcheck.burnin.isolate import PairSearch
from healthcheck.burnin.model import (
    Accusation,
    BurnInStage,
    Object,
    Participant,
    Seat,
    Task,
    TaskKind,
    TaskResult,
)
from healthcheck.burnin.pairjudge import PairJudge
from healthcheck.burnin.publishedload import load_burnin
from healthcheck.burnin.rounds import tasks
from healthcheck.burnin.setting import setting_of
from healthcheck.config.rulesfolder import packaged
from inventory.transport.local import LocalTransport
from provisioning.burnin.conductor import Conductor
from tests.testbed import torches
from tests.testbed.namespaces import MBIT, Net, namespaces

# So large that a link takes far longer for it than a busy machine puts a rank off; half a link is as far from
# a sound one as from a bad one.
PARAMS = {"bytes": 1 << 20, "iterations": 8, "warmup": 1}
LINK = MBIT / 8e3       # GB/s


class Bed:
    def __init__(self, conductor: Conductor, net: Net) -> None:
        self.conductor, self.net = conductor, net
        self.places = {name: Participant(name, 1, leaf="leaf01") for name in net.spaces}
        self.count = 0

    def all(self) -> TaskResult:
        self.count += 1
        task = Task(f"all{self.count}", BurnInStage.ALL, TaskKind.ALLREDUCE,
                    tuple(Seat(name, 0) for name in self.places), 60, PARAMS)
        (result,) = self.conductor.run([task])
        assert result.whole, result
        print(f"all: {result.reports[0].figures['busbw_gb_s'] / LINK:.0%} of a link")
        return result

    def judge(self, results: list[TaskResult]) -> PairJudge:
        """Judges pairs as burn-in does, with a floor for what these measured."""
        setting = next(setting_of(result, self.places, {}) for result in results if result.whole).learned_from
        floor = LearnedFloor(setting, (2, 2), LINK, 0.0, 10, 0.5 * LINK, by="test", at="2026-11-01")
        return PairJudge(self.places, Floors(load_burnin([packaged()]), (floor,)), {})

    def isolated(self) -> tuple[Accusation, ...]:
        """Whom the pairs accuse."""
        isolation = PairSearch(self.places.values())
        judge: PairJudge | None = None
        began, rounds = time.monotonic(), 0
        while (round_ := isolation.next()) is not None:
            results = list(self.conductor.run(tasks(round_, self.places, 60, PARAMS)))
            for result in results:
                print(f"{round_.stage.value} {result.task.nodes}: "
                      f"{result.reports[0].figures.get('busbw_gb_s', 0) / LINK:.0%} of a link")
            judge = judge or self.judge(results)
            isolation.add_results(judge.tests(results))
            rounds += 1
        print(f"{rounds} rounds in {time.monotonic() - began:.1f} s: {isolation.accusations()}")
        return isolation.accusations()


def beds(folder: Path, count: int) -> Iterator[Bed]:
    with namespaces(folder, count) as net, Conductor(LocalTransport(), net.nodes((torches.python(),)),
                                                     hosts=[net.head]) as conductor:
        crew = conductor.ready(100)
        assert crew.whole, crew.missing
        yield Bed(conductor, net)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Bed]:
    yield from beds(tmp_path, 4)


@pytest.fixture
def six(tmp_path: Path) -> Iterator[Bed]:
    yield from beds(tmp_path, 6)


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_slow_nic_makes_all_equally_slow_and_pairs_name_its_node(small: Bed) -> None:
    small.net.nic("n2", MBIT // 4)
    result = small.all()
    assert not result.accusations
    accused = small.isolated()
    small.net.nic("n2", MBIT)
    assert [(each.object, each.name) for each in accused] == [(Object.NODE, "n2")]
    assert small.isolated() == ()


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_of_six_nodes_the_slow_nic_is_named_and_so_is_the_bad_path(six: Bed) -> None:
    six.net.nic("n4", MBIT // 3)
    six.all()
    assert [(each.object, each.name) for each in six.isolated()] == [(Object.NODE, "n4")]
    six.net.nic("n4", MBIT)
    assert six.isolated() == ()
    first = PairSearch(six.places.values()).next()
    assert first is not None
    met = first.pairs[0]
    six.net.path(*met, MBIT // 6)
    six.all()
    assert [(each.object, each.name) for each in six.isolated()] == [(Object.PAIR, str(met))]


@pytest.mark.root
@pytest.mark.slow
def test_a_node_that_is_cut_off_without_a_word_is_named_when_the_others_have_waited(six: Bed) -> None:
    task = Task("cut", BurnInStage.SOAK, TaskKind.ALLREDUCE, tuple(Seat(name, 0) for name in six.places), 100,
                {"bytes": 65536, "run_s": 60.0})
    cut = threading.Timer(3, six.net.cut, ["n3"])
    cut.start()
    (result,) = six.conductor.run([task])
    cut.join()
    print(f"named after {result.named_after}: {result.accusations}")
    assert [(each.object, each.name, each.fault) for each in result.accusations] == [
        (Object.NODE, "n3", faults.LOST)]
    assert result.named_after is not None and result.named_after < 15
