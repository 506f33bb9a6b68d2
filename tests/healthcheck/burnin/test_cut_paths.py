"""A cut path between two nodes: neither the rank that notices first nor any other is accused.

Real gloo, in network namespaces.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pytest

from healthcheck.burnin.model import Accusation, BurnInStage, Object, Seat, Task, TaskKind
from healthcheck.burnin.watch import Patience
from inventory.transport.local import LocalTransport
from provisioning.burnin.conductor import Conductor
from tests.testbed import torches
from tests.testbed.namespaces import Net, namespaces

COUNT = 4
PATIENCE = Patience(join=30, stall=3, setup=5, setup_each=0)


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Conductor, Net]]:
    folder = tmp_path_factory.mktemp("cut")
    with namespaces(folder, COUNT) as net, Conductor(LocalTransport(), net.nodes((torches.python(),)),
                                                     hosts=[net.head], patience=PATIENCE) as conductor:
        crew = conductor.ready(100)
        assert crew.whole, crew.missing
        yield conductor, net


def cut(bed: tuple[Conductor, Net], one: str, other: str, *, silent: bool,
        after: float) -> tuple[Accusation, ...]:
    """Who is accused where the path between these two is cut so many seconds after the task was handed out;
    0: before.
    """
    conductor, net = bed
    params = {"bytes": 65536, "run_s": 20.0}
    task = Task(f"{one}-{other}-{after:.3f}-{silent}", BurnInStage.ALL, TaskKind.ALLREDUCE,
                tuple(Seat(name, 0) for name in net.spaces), 60, params)
    late = threading.Timer(after, lambda: net.apart(one, other, silent=silent))
    if after:
        late.start()
    else:
        net.apart(one, other, silent=silent)
    try:
        (result,) = conductor.run([task])
    finally:
        if after:
            late.join()
        net.joined(one, other, silent=silent)
    print(f"{one} - {other}, {'silent' if silent else 'told'}, after {after:.2f} s: {result.accusations}")
    assert not result.whole
    return result.accusations


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize("silent", [False, True])
def test_a_path_that_is_cut_before_the_start_convicts_neither_end(
    bed: tuple[Conductor, Net], silent: bool,
) -> None:
    assert {each.object for each in cut(bed, "n0", "n2", silent=silent, after=0)} == {Object.UNEXPLAINED}


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("planting", range(20))
def test_whichever_path_is_cut_and_whenever_no_one_is_convicted(
    bed: tuple[Conductor, Net], planting: int,
) -> None:
    chance = random.Random(planting)
    one, other = chance.sample([f"n{at}" for at in range(COUNT)], 2)
    # A ring of four does not use two of its six paths: a cut after its start may then harm no one, and says
    # nothing.
    unused = abs(int(one[1]) - int(other[1])) == 2
    after = 0.0 if unused else chance.choice([0.0, chance.uniform(0.5, 6)])
    assert {each.object for each in cut(bed, one, other, silent=chance.random() < 0.5,
                                        after=after)} == {Object.UNEXPLAINED}
