"""A person at every point between our calls of a real scontrol, and kills of its controller."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from healthcheck.store.cordons import open_cordons
from healthcheck.store.file import Store, opened
from healthcheck.store.ledger import lines
from inventory.discover import CommandOutput, _run
from provisioning.actions.base import ActionError, Holder
from provisioning.actions.cordon import cordon, uncordon
from provisioning.actions.slurm import SlurmBackend as Backend
from provisioning.triage.apply import settle
from tests.testbed.death import Death
from tests.testbed.newslurm import programs
from tests.testbed.require import require
from tests.testbed.slurm import WHY_NOT, Slurm, can_run
from tests.testbed.slurm import slurm as cluster
from tests.testbed.sshd import wait_until

# Names of two brackets, in partitions that overlap, one of which is hidden.
NODES = ["rack1gpu01", "rack1gpu02", "rack2gpu01", "rack2gpu02"]
OURS = NODES[:3]
THEIRS = "rack1gpu02"
# One bulk read, then for each node a read and a change, then one bulk read. What a person does to THEIRS is
# seen alike before each read of another node, and after its own change.
# The fast tier has it before THEIRS is read, before its change and after it.
CALLS = [pytest.param(at, marks=[] if at in (3, 4, 5) else [pytest.mark.slow])
         for at in range(2 * len(OURS) + 3)]


@pytest.fixture(scope="module",
                params=["22.05", pytest.param("24.11", marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
def bed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    require(can_run(), WHY_NOT)
    newer = programs(tmp_path_factory.mktemp("trixie")) if request.param == "24.11" else None
    partitions = {"main": ["rack[1-2]gpu[01-02]"], "more": NODES[:2], "secret Hidden=YES": NODES[1:]}
    with cluster(tmp_path_factory.mktemp("slurm"), NODES, partitions=partitions, extra="MessageTimeout=3",
                 programs=newer) as running:
        yield running


@pytest.fixture(autouse=True)
def all_idle(bed: Slurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for key, value in bed.environment.items():
        monkeypatch.setenv(key, value)
    yield
    for node in NODES:
        subprocess.run(["scontrol", "update", f"nodename={node}", "state=resume"], env=bed.environment,
                       check=False, capture_output=True)
    wait_until(lambda: all(state(bed, node) == "idle" for node in NODES), what="idle nodes")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path, make=True) as opened_:
        yield opened_


def state(bed: Slurm, node: str) -> str:
    return bed.ask("sinfo", "-a", "-h", "-n", node, "-o", "%T").split("\n")[0].rstrip("*")


def reason(bed: Slurm, node: str) -> str:
    return bed.ask("sinfo", "-a", "-h", "-n", node, "-o", "%E").split("\n")[0].strip()


class Points:
    """Calls of scontrol, before the one with the number `at` of which `act` is done."""

    def __init__(self, at: int, act: Callable[[], object]) -> None:
        self.at, self.act = at, act
        self.calls: list[tuple[str, ...]] = []

    def __call__(self, argv: Sequence[str]) -> CommandOutput:
        if len(self.calls) == self.at:
            self.act()
        self.calls.append(tuple(argv))
        return _run(argv)

    @property
    def unseen(self) -> bool:
        """Whether it came between the last read of a node and its change, which Slurm does not show."""
        return self.at < len(
            self.calls) and self.calls[self.at][:3] == ("scontrol", "update", f"NodeName={THEIRS}")


def takes_over(bed: Slurm) -> Callable[[], object]:
    return lambda: bed.ask(
        "scontrol", "update", f"nodename={THEIRS}", "state=drain", "reason=mine: bad riser")


@pytest.mark.parametrize("at", CALLS)
def test_a_drain_that_a_person_sets_while_we_cordon_stays_theirs(bed: Slurm, store: Store, at: int) -> None:
    points = Points(at, takes_over(bed))
    done = {one.node: one for one in cordon(store, Backend(points), OURS, "new cables", "me", time.time)}
    if at >= len(points.calls):      # after the last
        takes_over(bed)()
    assert len(points.calls) <= 2 * len(OURS) + 2 and all(one.held for one in done.values())
    assert [state(bed, node) for node in OURS] == ["drained"] * 3
    if not points.unseen:
        assert reason(bed, THEIRS) == "mine: bad riser"
        uncordon(store, Backend(), None, "done", "me", time.time)
        assert (state(bed, THEIRS), reason(bed, THEIRS)) == ("drained", "mine: bad riser")
    assert open_cordons(store, [THEIRS]) == [] or points.unseen
    assert all(line.outcome for line in lines(store))


def dies() -> None:
    raise Death


@pytest.mark.parametrize(
    ("at", "room"),
    [(1, "not done: it was cut short before slurm was asked"), (2, "not done; found so later")])
def test_a_run_that_was_killed_before_it_asked_has_certainly_not_done_it(
    bed: Slurm, store: Store, at: int, room: str,
) -> None:
    with pytest.raises(Death):      # as it reads the node again, or as it changes it
        cordon(store, Backend(Points(at, dies)), OURS[:1], "new cables", "triage", time.time)
    settle(store, Backend(), "me", time.time)
    assert [line.outcome for line in lines(store)] == [
        room] and open_cordons(store) == [] and state(bed, OURS[0]) == "idle"


@pytest.mark.parametrize("at", CALLS)
def test_a_node_that_a_person_takes_over_while_we_give_back_stays_theirs(
    bed: Slurm, store: Store, at: int,
) -> None:
    cordon(store, Backend(), OURS, "new cables", "me", time.time)
    points = Points(at, takes_over(bed))
    done = {one.node: one for one in uncordon(store, Backend(points), None, "done", "me", time.time)}
    if at >= len(points.calls):
        takes_over(bed)()
    seen = not points.unseen or bed.ask("scontrol", "--version").split()[1] >= "23"
    assert [state(bed, node) for node in OURS if node != THEIRS] == ["idle"] * 2
    assert len(points.calls) <= 2 * len(OURS) + 2 + 2 * points.unseen       # and two to repair what we did
    if seen:
        assert (state(bed, THEIRS), reason(bed, THEIRS)) == ("drained", "mine: bad riser")
        assert (done[THEIRS].message == "left alone, others hold it now: mine: bad riser"
                or at > points.calls.index(("scontrol", "update", f"NodeName={THEIRS}", "State=UNDRAIN")))
    assert open_cordons(store) == [] and all(line.outcome for line in lines(store))


@pytest.mark.parametrize("at", CALLS)
def test_a_note_that_a_person_adds_beside_our_mark_while_we_give_back_keeps_the_node(
    bed: Slurm, store: Store, at: int,
) -> None:
    cordon(store, Backend(), OURS, "new cables", "me", time.time)
    note = f"{reason(bed, THEIRS)} - KEEP DOWN until Friday"
    points = Points(
        at, lambda: bed.ask("scontrol", "update", f"nodename={THEIRS}", "state=drain", f"reason={note}"))
    done = {one.node: one for one in uncordon(store, Backend(points), None, "done", "me", time.time)}
    asked = ("scontrol", "update", f"NodeName={THEIRS}", "State=UNDRAIN") in points.calls
    if at < len(points.calls) and not points.unseen:
        assert (state(bed, THEIRS), reason(bed, THEIRS)) == ("drained", note)
        if not asked:
            assert done[THEIRS].failed and "a person wrote: KEEP DOWN until Friday" in done[THEIRS].message
            assert uncordon(
                store, Backend(), [THEIRS], "", "me", time.time)[0].failed and state(bed, THEIRS) == "drained"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("at", range(4 + 1))
@pytest.mark.parametrize("act", ["cordon", "uncordon"])
def test_a_controller_that_is_killed_at_a_call_loses_no_cordon_and_no_release(
    bed: Slurm, store: Store, act: str, at: int,
) -> None:
    node = NODES[0]
    bed.saved()
    if act == "uncordon":
        cordon(store, Backend(), [node], "fan", "me", time.time)
        bed.saved()
    points = Points(at, bed.kill)
    try:
        if act == "cordon":
            cordon(store, Backend(points), [node], "fan", "me", time.time)
        else:
            uncordon(store, Backend(points), [node], "done", "me", time.time)
        finished = True
    except ActionError:
        finished = False
    if at >= len(points.calls):
        bed.kill()
    bed.start()
    settle(store, Backend(), "me", time.time)       # some nodes have not registered with it yet
    wait_until(lambda: state(bed, node) != "unknown", what="the node")
    settle(store, Backend(), "me", time.time)
    known = open_cordons(store)
    held = Backend().held([node])[node]
    # Nothing is drained that we do not know, nothing free that we hold, and what was reported as done is so.
    assert (held.mark == known[0].mark) if known else held.holder is Holder.NO_ONE
    if finished and at >= len(points.calls):
        assert bool(known) is (act == "cordon")
    assert all(line.outcome for line in lines(store))


def test_what_the_controller_lost_is_cordoned_again_under_its_mark_and_what_a_person_gave_back_is_not(
    bed: Slurm, store: Store,
) -> None:
    lost, saved = NODES[:2]
    cordon(store, Backend(), [saved], "fan", "me", time.time)
    bed.saved()
    settle(store, Backend(), "me", time.time)       # a later run has seen it
    file = bed.saved()
    before = file.read_bytes()
    cordon(store, Backend(), [lost], "riser", "me", time.time)
    bed.kill()
    file.write_bytes(before)       # as if it had not come to saving that
    bed.start()
    assert state(bed, lost) in ("unknown", "idle") and state(bed, saved) == "drained"
    # as long as the node has not registered it is no one's to cordon
    done = settle(store, Backend(), "me", time.time)
    assert done == [] or state(bed, lost) == "drained"
    wait_until(lambda: state(bed, lost) != "unknown", what="the node")
    done += settle(store, Backend(), "me", time.time)
    assert [(one.node, one.held) for one in done] == [(lost, True)] and "slurm lost it" in done[0].message
    assert (Backend().held([lost])[lost].mark == open_cordons(store, [lost])[0].mark
            and open_cordons(store, [lost])[0].id == 2)
    settle(store, Backend(), "me", time.time)
    for node in (lost, saved):
        bed.ask("scontrol", "update", f"nodename={node}", "state=resume")
    bed.kill()
    bed.start()
    for node in (lost, saved):      # whatever of that was saved
        subprocess.run(["scontrol", "update", f"nodename={node}", "state=resume"], env=bed.environment,
                       check=False, capture_output=True)
    assert settle(store, Backend(), "me", time.time) == [] and open_cordons(store) == []
