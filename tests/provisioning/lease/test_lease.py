"""Leases over an in-memory Slurm: any order of operations, deaths and jobs; readers of its text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from healthcheck.facts.gpu import GpuPresence
from healthcheck.facts.gpu_process import GpuLoad
from healthcheck.facts.values import UNSUPPORTED, Partial, Unmeasured, changed
from healthcheck.ruleset.sku import Sku
from healthcheck.store.cordons import open_cordons
from healthcheck.store.file import Store, opened
from healthcheck.store.leases import open_leases
from healthcheck.store.ledger import lines
from inventory.discover import CommandOutput
from inventory.errors import StoreError
from inventory.model import Node
from inventory.nodeset import expand
from inventory.transport.base import Limits, Program, Reply, Stage
from provisioning.actions.base import ActionError, Holder, NodeHold
from provisioning.actions.cordon import cordon
from provisioning.actions.hostfile import HostFile
from provisioning.actions.slurm import SlurmBackend
from provisioning.lease import holder, take
from provisioning.lease.check import give_back_abandoned, manager
from provisioning.lease.holder import HolderState
from provisioning.lease.idle import _NO_GPU, proof
from provisioning.lease.jobs import by_node, jobs
from provisioning.lease.reservation import parse
from provisioning.lease.take import LeaseGrant, give_back
from provisioning.lease.watch import LeaseWatch
from tests.documents import validate
from tests.testbed.death import Death
from tests.testbed.marks import muster
from tests.testbed.memory import in_memory
from tests.tries import tries

NODES = ("gpu001", "gpu002", "gpu003")


@dataclass
class Cluster:
    """What Slurm keeps of three nodes for leases: reasons of drains, jobs, reservations (nodes, end)."""

    now: float = 1e9
    reasons: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)
    reservations: dict[str, tuple[frozenset[str], float]] = field(default_factory=dict)
    lives: int = 10**9      # commands until the death of whoever asks
    late: bool = False      # it dies after the command, not before
    store: Store | None = None
    # after so many commands the scheduler starts a job there, if it may
    meanwhile: tuple[int, str] = 0, ""

    def run(self, argv: Sequence[str]) -> CommandOutput:
        self.now += 0.01
        self.lives -= 1
        left, node = self.meanwhile
        self.meanwhile = left - 1, node
        if left == 1:
            self.start(node)
        if self.lives < 0 or (not self.lives and not self.late):
            self.dying()
        answer = self._answer(argv)
        if not self.lives:
            self.dying()
        return answer

    def dying(self) -> None:
        """Nothing is asked and nothing is written any more."""
        if self.store is not None:
            self.store.close()
        raise Death

    def start(self, node: str) -> None:
        if node not in self.reasons and not self.active(node):
            self.jobs[node] = "job"

    def active(self, node: str) -> set[str]:
        return {name for name, (nodes, end) in self.reservations.items() if node in nodes and end > self.now}

    def _answer(self, argv: Sequence[str]) -> CommandOutput:
        words = dict(word.partition("=")[::2] for word in argv)
        if argv[0] == "squeue":
            return CommandOutput(
                0, "".join(f"7|RUNNING|{node}\n6|COMPLETED|{node}\n" for node in self.jobs).encode(), b"")
        if argv[3:5] == ("show", "node"):
            return CommandOutput(0, "".join(self._node(node) for node in argv[5:] or NODES).encode(), b"")
        if argv[-2:] == ("show", "reservation"):
            shown = [f"ReservationName={name} StartTime=2001-01-01T00:00:00 Nodes={','.join(sorted(nodes))} "
                     f"Flags=SPEC_NODES State={'ACTIVE' if end > self.now else 'INACTIVE'} "
                     f"Comment=Nodes={NODES[0]}\n" for name, (nodes, end) in self.reservations.items()]
            return CommandOutput(0, ("".join(shown) or "No reservations in the system\n").encode(), b"")
        name = words.get("ReservationName", "")
        if argv[1] == "delete":
            return CommandOutput(0 if self.reservations.pop(name, None) else 1, b"", b"invalid")
        if "NodeName" in words:
            if words["State"] == "UNDRAIN":
                self.reasons.pop(words["NodeName"], None)
            else:
                self.reasons[words["NodeName"]] = words["Reason"]
            return CommandOutput(0, b"", b"")
        nodes, end = self.reservations.get(name, (frozenset(), 0.0))
        if "Nodes" in words:
            nodes = frozenset(expand(words["Nodes"]))
        if "EndTime" in words:
            end = self.now + float(words["EndTime"].removeprefix("now+").removesuffix("seconds"))
        overlaps = any(self.active(node) - {name} for node in nodes)
        if overlaps or (argv[1] == "create") == (name in self.reservations):
            return CommandOutput(1, b"", b"Requested reservation overlaps with another reservation")
        self.reservations[name] = nodes, end
        return CommandOutput(0, b"", b"")

    def _node(self, node: str) -> str:
        state = ("ALLOCATED" if node in self.jobs else "IDLE") + ("+DRAIN" if node in self.reasons else "")
        reason = f" Reason={self.reasons[node]} [root@2026-11-21T10:00:00]" if node in self.reasons else ""
        return f"NodeName={node} State={state} Partitions=main{reason}\n"


class Hands(RuleBasedStateMachine):
    """Musters that lease, die and come back, among a scheduler's jobs and people."""

    @initialize()
    def begin(self) -> None:
        # In memory where there is such a place: each operation waits for the disk several times.
        self.folder = in_memory()
        self.cluster = Cluster()
        self.dead: set[str] = set()
        self.boot = 0
        self.sick: set[str] = set()
        self.theirs: dict[str, str] = {}
        self.taken: dict[str, LeaseGrant] = {}       # by lease name, those whose muster lives
        self.courses: dict[str, frozenset[str]] = {}
        take.me = lambda: f"process {self.boot}"        # type: ignore[attr-defined]
        take.life = lambda refusals: HolderState.DEAD if refusals in self.dead else HolderState.ALIVE  # type: ignore[attr-defined]

    def acting(self, lives: int, late: bool, act: Callable[[Store], object]) -> None:
        """A muster that lives for so many commands; what it holds when it dies, the dead hold."""
        self.boot += 1
        self.cluster.lives, self.cluster.late = lives, late
        with opened(Path(self.folder.name), make=True) as store:
            self.cluster.store = store
            try:
                act(store)
            except (Death, StoreError):
                assert self.cluster.lives <= 0
                self.dead.add(f"process {self.boot}")
        self.cluster.lives, self.cluster.store = 10**9, None

    LIVES = st.integers(1, 30) | st.just(1000)

    @rule(nodes=st.lists(st.sampled_from(NODES), min_size=1, unique=True),
          kind=st.sampled_from(["reservation", "cordon"]), lives=LIVES, late=st.booleans(),
          seconds=st.sampled_from([60.0, 600.0]),
          meanwhile=st.tuples(st.sampled_from([0, 4, 5, 6]), st.sampled_from(NODES)))
    def we_lease(
        self, nodes: list[str], kind: str, lives: int, late: bool, seconds: float, meanwhile: tuple[int, str],
    ) -> None:
        self.cluster.meanwhile = meanwhile
        held = {node for taken in self.taken.values() for node in taken.nodes}

        def act(store: Store) -> None:
            give_back_abandoned(
                store, SlurmBackend(self.cluster.run), "us", lambda: self.cluster.now, self.cluster.run)
            taken = take.take(self.manager(kind, store), nodes, seconds, "why")
            assert set(taken.nodes) | taken.refused.keys() == set(
                nodes) and not set(taken.nodes) & taken.refused.keys()
            for node in taken.nodes:
                assert node not in self.cluster.jobs and node not in self.theirs and not self.cluster.active(
                    node) & self.courses.keys()
            for node in taken.refused:      # it was given back at once
                ours = taken.entry.name if taken.entry is not None else "muster-"
                assert ours not in self.cluster.reasons.get(node, "") or node in held
                assert not [
                    name for name in self.cluster.active(node) if name.startswith(ours)] or node in held
            if taken.entry is not None:
                self.taken[taken.entry.name] = taken

        self.acting(lives, late, act)

    def manager(self, kind: str, store: Store) -> take.LeaseManager:
        return manager(
            kind, SlurmBackend(self.cluster.run), "us", lambda: self.cluster.now, self.cluster.run)(store)

    @rule(lives=LIVES, late=st.booleans(), data=st.data())
    def we_give_back(self, lives: int, late: bool, data: st.DataObject) -> None:
        if self.taken:
            entry = self.taken.pop(data.draw(st.sampled_from(sorted(self.taken)))).entry
            assert entry is not None
            self.dead.add(entry.holder)     # whether it dies now or ends well
            self.acting(lives, late, lambda store: give_back(self.manager(entry.kind, store), entry, "done"))

    @rule(lives=LIVES, late=st.booleans())
    def another_comes_by(self, lives: int, late: bool) -> None:
        self.acting(
            lives, late,
            lambda store: give_back_abandoned(
                store, SlurmBackend(self.cluster.run), "us", lambda: self.cluster.now, self.cluster.run))

    @rule(data=st.data())
    def one_that_holds_dies(self, data: st.DataObject) -> None:
        if self.taken:
            entry = self.taken.pop(data.draw(st.sampled_from(sorted(self.taken)))).entry
            assert entry is not None
            self.dead.add(entry.holder)

    @rule(node=st.sampled_from(NODES), starts=st.booleans())
    def the_scheduler_starts_a_job_where_it_may_or_one_ends(self, node: str, starts: bool) -> None:
        self.cluster.start(node) if starts else self.cluster.jobs.pop(node, None)

    @rule(node=st.sampled_from(NODES), act=st.sampled_from(["drain", "resume", "reserve"]))
    def a_person_does_as_they_like(self, node: str, act: str) -> None:
        if act == "drain":
            self.cluster.reasons[node] = self.theirs[node] = "fan"
            self.sick.discard(node)
        elif act == "resume" and self.theirs.pop(node, None):
            del self.cluster.reasons[node]
        elif act == "reserve" and not self.cluster.active(node):
            name = f"course-{len(self.courses)}"
            self.courses[name] = frozenset({node})
            self.cluster.reservations[name] = self.courses[name], self.cluster.now + 300

    @rule(node=st.sampled_from(NODES))
    def we_cordon_for_another_reason(self, node: str) -> None:
        with opened(Path(self.folder.name), make=True) as store:
            cordon(store, SlurmBackend(self.cluster.run), [node], "sick", "us", lambda: self.cluster.now)
        if self.cluster.reasons[node].endswith(": sick"):
            self.sick.add(node)

    @rule(seconds=st.sampled_from([1.0, 61.0, 601.0]))
    def time_passes(self, seconds: float) -> None:
        self.cluster.now += seconds
        over = [name for name, taken in self.taken.items()
                if taken.entry is not None and taken.entry.until < self.cluster.now]
        for name in over:       # whoever was late is told so by `LeaseWatch`, and does no more
            del self.taken[name]

    @invariant()
    def what_others_did_is_as_they_did_it(self) -> None:
        if hasattr(self, "cluster"):
            assert {
                node: reason for node, reason in self.cluster.reasons.items()
                    if not reason.startswith("muster:")} == self.theirs
            assert {
                name: nodes for name, (nodes, _) in self.cluster.reservations.items()
                    if name.startswith("course")} == self.courses

    @invariant()
    def what_we_cordoned_for_another_reason_stays_cordoned(self) -> None:
        if hasattr(self, "cluster"):
            assert all(self.cluster.reasons.get(node, "").endswith(": sick") for node in self.sick)

    @invariant()
    def no_job_runs_on_a_node_that_is_held_and_no_node_is_held_twice(self) -> None:
        if hasattr(self, "cluster"):
            held = [node for taken in self.taken.values() for node in taken.nodes]
            assert len(held) == len(set(held)) and not set(held) & self.cluster.jobs.keys()

    @rule()
    def nothing_is_leaked(self) -> None:
        self.dead.update(f"process {number}" for number in range(self.boot + 1))
        self.taken.clear()
        with opened(Path(self.folder.name), make=True) as store:
            give_back_abandoned(
                store, SlurmBackend(self.cluster.run), "us", lambda: self.cluster.now, self.cluster.run)
            assert open_leases(store) == []
            assert not [name for name in self.cluster.reservations if name.startswith("muster")]
            assert {one.why for one in open_cordons(store)} <= {"sick"}
            assert not [reason for reason in self.cluster.reasons.values() if "muster-" in reason]
            assert all(
                line.outcome is not None for line in lines(store) if line.action in ("lease", "unlease"))

    def teardown(self) -> None:
        take.me, take.life = holder.me, holder.life     # type: ignore[attr-defined]
        if hasattr(self, "folder"):
            self.folder.cleanup()


TestHands = Hands.TestCase
TestHands.settings = settings(
    max_examples=tries(60), stateful_step_count=25, deadline=None,
    suppress_health_check=[HealthCheck.too_slow])


# ---- who holds


def test_this_process_lives_and_one_that_ended_does_not() -> None:
    assert holder.life(holder.me()) is HolderState.ALIVE
    code = "from provisioning.lease.holder import me; print(me())"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)).stdout
    assert holder.life(ended) is HolderState.DEAD
    # its number is another's by now
    assert holder.life(json.dumps({**json.loads(holder.me()), "start": 1})) is HolderState.DEAD
    assert holder.life(json.dumps({**json.loads(holder.me()), "boot": "another"})) is HolderState.ELSEWHERE


def test_a_process_that_no_one_waited_for_is_dead() -> None:
    code = "from provisioning.lease.holder import me; print(me(), flush=True)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        refusals = child.stdout.readline()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)     # it has ended, and stays there
        assert holder.life(refusals) is HolderState.DEAD


@settings(max_examples=tries(200), deadline=None)
@given(st.text()
       | st.recursive(st.none() | st.booleans() | st.integers() | st.text(),
                      lambda each: st.dictionaries(
                          st.sampled_from(["boot", "pid", "start", "x"]), each, max_size=4)).map(json.dumps))
def test_whatever_stands_for_a_holder_it_is_not_taken_for_a_dead_one(text: str) -> None:
    assert holder.life(text) is HolderState.ELSEWHERE


def test_a_holder_of_another_boot_is_waited_for_until_its_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    monkeypatch.setattr(take, "me", lambda: '{"boot": "another", "pid": 1, "start": 1}')
    with opened(tmp_path, make=True) as store:
        ours = manager(
            "reservation", SlurmBackend(cluster.run), "us", lambda: cluster.now, cluster.run)(store)
        taken = take.take(ours, ["gpu001"], 600, "why")
        assert taken.nodes == ("gpu001",) and take.settle(ours) == []
        cluster.now += 601
        assert taken.entry is not None and take.settle(
            ours) == [f"{taken.entry.name}: given back: its time is over"]


def test_whoever_takes_nodes_gives_back_first_what_a_dead_process_held_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    with opened(tmp_path, make=True) as store:
        ours = manager(
            "reservation", SlurmBackend(cluster.run), "us", lambda: cluster.now, cluster.run)(store)
        dead = take.take(ours, ["gpu001", "gpu002"], 600, "why")
        monkeypatch.setattr(take, "life", lambda refusals: HolderState.DEAD)
        taken = take.take(ours, ["gpu001"], 600, "why")
        assert taken.nodes == ("gpu001",) and taken.refused == {} and dead.entry is not None
        assert [entry.nodes for entry in open_leases(store)] == [
            ("gpu001",)] and dead.entry.name not in cluster.reservations


def test_one_that_cannot_narrow_its_lease_gives_all_of_it_back(tmp_path: Path) -> None:
    cluster = Cluster()

    def run(argv: Sequence[str]) -> CommandOutput:
        if argv[1] == "create":
            cluster.jobs["gpu001"] = "job"
        return CommandOutput(1, b"", b"no") if argv[1] == "update" else cluster.run(argv)

    with opened(tmp_path, make=True) as store:
        ours = manager("reservation", SlurmBackend(run), "us", lambda: cluster.now, run)(store)
        with pytest.raises(ActionError, match="scontrol failed"):
            take.take(ours, ["gpu001", "gpu002"], 600, "why")
        assert open_leases(store) == [] and cluster.reservations == {}


class Working:
    """Work that never ends by itself."""

    def run(self, nodes: Sequence[Node], program: Program, limits: Limits) -> Iterator[Reply]:
        threading.Event().wait(60)
        yield from ()


def test_a_controller_that_stays_away_past_the_leases_end_stops_the_work(tmp_path: Path) -> None:
    cluster = Cluster()
    down = threading.Event()

    def run(argv: Sequence[str]) -> CommandOutput:
        if down.is_set():
            raise TimeoutError
        return cluster.run(argv)

    made = manager("reservation", SlurmBackend(run), "us", run=run)
    with opened(tmp_path, make=True) as store:
        taken = take.take(made(store), ["gpu001"], 1, "why")
        assert taken.entry is not None
        with LeaseWatch(tmp_path, made, taken.entry, Working(), beat=0.02) as watch:  # type: ignore[arg-type]
            threading.Timer(0.1, down.set).start()
            [reply] = watch.run([Node("gpu001")], Program("", "", b""), Limits())
    assert reply.failure is not None and reply.failure.stage is Stage.LEASE
    assert "was not renewed in time" in reply.failure.reason and set(watch.stood()) == {"gpu001"}


def test_somebody_elses_interrupt_is_not_taken_for_a_lost_lease(tmp_path: Path) -> None:
    cluster = Cluster()
    made = manager("reservation", SlurmBackend(cluster.run), "us", run=cluster.run)

    class Interrupted(Working):
        def run(self, nodes: Sequence[Node], program: Program, limits: Limits) -> Iterator[Reply]:
            raise KeyboardInterrupt
            yield

    with opened(tmp_path, make=True) as store:
        taken = take.take(made(store), ["gpu001"], 300, "why")
        assert taken.entry is not None
        with LeaseWatch(tmp_path, made, taken.entry,
                        Interrupted()) as watch, pytest.raises(KeyboardInterrupt):  # type: ignore[arg-type]
            list(watch.run([Node("gpu001")], Program("", "", b""), Limits()))
        assert watch.stood() == {}


def test_the_command_ends_what_is_over_and_what_is_named_and_nothing_else(tmp_path: Path) -> None:
    bad = HostFile(tmp_path / "bad")
    with opened(tmp_path / "state", make=True) as store:
        taken = take.take(manager("cordon", bad, "us")(store), ["gpu001", "gpu002"], 300, "why")
    assert taken.entry is not None and taken.unknown == {"gpu001", "gpu002"}
    name = taken.entry.name
    listed = muster("lease", "list", home=tmp_path).stdout
    assert listed.startswith(f"{name}  gpu[001-002]  cordon in hostfile  until 20") and listed.endswith(
        "Z  holder alive  us  why\n")
    document = json.loads(muster("lease", "list", "--format", "json", home=tmp_path).stdout)
    validate(document, "leases-1")
    (lease,) = document["leases"]
    assert (lease["name"], lease["nodes"], lease["holder"], lease["over"], lease["who"], lease["why"]) == (
        name, ["gpu001", "gpu002"], "alive", False, "us", "why")
    (tmp_path / "good").write_text("gpu003\n")
    for words, code, out, err in (
        (("--hostfile", "bad"), 0, f"{name}: is held; to end it anyway: muster lease release {name}\n", ""),
        ((name, "--golden", "good"), 1,
         f"{name}: NOT given back: it is in hostfile, and the back end here is golden\n", ""),
        (("muster-9", "--hostfile", "bad"), 2, "",
         "muster: no such lease: 'muster-9'; see: muster lease list\n")):
        done = muster("lease", "release", *words, home=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (code, out, err)
    assert (tmp_path / "bad").read_text().count(f"{name}: why") == 2
    done = muster("lease", "release", name, "--hostfile", "bad", home=tmp_path)
    assert (done.returncode, done.stdout) == (
        0, f"{name}: given back: by hand\n") and (tmp_path / "bad").read_text() == ""
    assert muster("lease", "list", home=tmp_path).stdout == "no leases\n"
    empty = json.loads(muster("lease", "list", "--format", "json", home=tmp_path).stdout)
    validate(empty, "leases-1")
    assert empty["leases"] == []
    assert muster("lease", "release", "--hostfile", "bad", home=tmp_path).stdout == "no leases\n"


# ---- what Slurm prints


LINE = ("ReservationName=muster-12-ab StartTime=2026-11-21T19:39:58 EndTime=2026-11-21T20:09:58 "
        "Duration=00:30:00 Nodes=gpu[001-002] NodeCnt=2 CoreCnt=2 Features=(null) PartitionName=(null) "
        "Flags=IGNORE_JOBS,SPEC_NODES TRES=cpu=2 Users=root Groups=(null) State=ACTIVE BurstBuffer=(null) "
        "Watts=n/a MaxStartDelay=(null)")


def test_a_line_of_slurm_22_is_read() -> None:
    shown = parse(LINE)
    assert (shown.name, shown.nodes, shown.active) == (
        "muster-12-ab", {"gpu001", "gpu002"}, True) and shown.start is not None
    assert parse(LINE.replace("gpu[001-002]", "(null)")).nodes == frozenset()
    assert parse(LINE.replace("2026-11-21T19:39:58", "Tomorr 10:00")).start is None
    assert parse(LINE + " Comment=State=INACTIVE Nodes=cpu1") == shown


@settings(max_examples=tries(300), deadline=None)
@given(st.text() | st.tuples(st.sampled_from(["Nodes=", "State=", "StartTime="]), st.text(max_size=30)).map(
    lambda part: LINE.replace(part[0], part[0] + part[1] + " ", 1)))
def test_whatever_stands_for_a_reservation_it_is_read_or_refused(line: str) -> None:
    with suppress(ActionError):
        assert isinstance(parse(line).nodes, frozenset)


@pytest.mark.parametrize(
    ("printed", "found"),
    [("", {}), ("12|RUNNING|gpu[001-002]\n", {"gpu001": "12 (RUNNING)", "gpu002": "12 (RUNNING)"}),
     ("12|PENDING|\n", {}), ("12|COMPLETED|gpu001\n13|COMPLETING|gpu001\n", {"gpu001": "13 (COMPLETING)"}),
     ("12|NEW_WORD|gpu001\n", {"gpu001": "12 (NEW_WORD)"})])
def test_what_squeue_prints_is_read_and_a_state_that_no_one_knows_holds_its_nodes(
    printed: str, found: dict[str, str],
) -> None:
    assert by_node(lambda argv: CommandOutput(0, printed.encode(), b"")) == found


@pytest.mark.parametrize(("before", "after", "busy"), [
    ("7|RUNNING|n1|muster-7-ab|muster-7-ab", "7|CANCELLED|n1|muster-7-ab|muster-7-ab", {}),
    ("", "7|RUNNING|n1|muster-7-ab|muster-7-ab", {}),
    ("7|RUNNING|n1|muster-7-ab|muster-7-ab", "8|RUNNING|n1||train", {"n1": "job 8 (RUNNING) is on it"}),
    ("7|CANCELLED|n1|muster-7-ab|muster-7-ab", "", {"n1": "a job is on it"}),
])
def test_a_job_of_ours_that_ends_or_begins_while_slurm_is_asked_is_no_other_s(
    before: str, after: str, busy: dict[str, str],
) -> None:
    class Busy(SlurmBackend):
        def held(self, nodes: Any) -> Any:
            return {node: NodeHold(Holder.OTHERS, busy=True) for node in nodes}

    answers = iter([before, after])
    assert (jobs(Busy(), ["n1"], lambda argv: CommandOutput(0, next(answers).encode(), b""),
                 "muster-7-ab").busy == busy)


@pytest.mark.parametrize(
    ("line", "ours"),
    [("12|RUNNING|gpu001|muster-7-ab|muster-7-ab", True), ("12|RUNNING|gpu001||muster-7-ab", False),
     ("12|RUNNING|gpu001|muster-7-ab|train", False), ("12|RUNNING|gpu001|muster-8-cd|muster-7-ab", False),
     ("12|RUNNING|gpu001|muster-7-ab|muster-7-ab|x", False), ("12|PENDING||muster-7-ab|muster-7-ab", None)])
def test_a_job_is_ours_by_its_reservation_and_its_name_together(line: str, ours: bool | None) -> None:
    own: set[str] = set()
    found = by_node(lambda argv: CommandOutput(0, line.encode(), b""), "muster-7-ab", own)
    assert (own, found) == (
        (set(), {}) if ours is None else ({"gpu001"}, {}) if ours else (set(), {"gpu001": "12 (RUNNING)"}))


@pytest.mark.parametrize("printed", ["12\n", "12|RUNNING\n", "x|RUNNING|gpu001\n", "12|RUNNING|gpu[001\n"])
def test_what_squeue_does_not_print_is_refused(printed: str) -> None:
    with pytest.raises(ActionError, match="squeue printed"):
        by_node(lambda argv: CommandOutput(0, printed.encode(), b""))


@settings(max_examples=tries(300), deadline=None)
@given(st.binary() | st.text(alphabet="12|RUNGcp[]-,\n ").map(str.encode))
def test_whatever_squeue_prints_it_is_read_or_refused(printed: bytes) -> None:
    with suppress(ActionError):
        by_node(lambda argv: CommandOutput(0, printed, b""))


# ---- what proves that GPUs are idle


def loads(*processes: Any) -> tuple[GpuLoad, ...]:
    return tuple(
        GpuLoad(f"GPU {at}", at, each, (), (), tuple("" for _ in each) if isinstance(each, tuple) else each,
                0) for at, each in enumerate(processes))


EIGHT = GpuPresence(name="GPUs", listed=8, on_pci=8)
IDLE = loads(*[()] * 8)
WITH = Sku("hgx", "", {}, frozenset(), "")
WITHOUT = replace(WITH, name="cpu-only", empty=frozenset({"gpus"}))
GONE = Unmeasured("NVML: it failed to start")


@pytest.mark.parametrize(("found", "presence", "sku", "why"), [
    (IDLE, EIGHT, WITH, None), (IDLE, EIGHT, None, None),
    (loads(*[()] * 7, (4711,)), EIGHT, WITH, "process 4711 runs on GPU 7"),
    (loads(*[()] * 7, (4711, 4712)), EIGHT, WITH, "process 4711 and 1 more runs on GPU 7"),
    (loads(*[()] * 7, GONE), EIGHT, WITH, "what runs on GPU 7 is not known: NVML: it failed to start"),
    (loads(*[()] * 7, UNSUPPORTED), EIGHT, WITH, "what runs on GPU 7 is not known"),
    (GONE, EIGHT, WITH, "what runs on its GPUs is not known: NVML: it failed to start"),
    (Partial(IDLE[:3], "cut"), EIGHT, WITH, "what runs on its GPUs is not known: cut"),
    (IDLE[:7], EIGHT, WITH, "the driver reports 7 GPUs, and there are 8"),
    (IDLE[:7], changed(EIGHT, listed=7), WITH, "the driver reports 7 GPUs, and there are 8"),
    (IDLE, changed(EIGHT, on_pci=GONE), WITH, "how many GPUs it has is not known"),  # type: ignore[arg-type]
    (IDLE, GONE, WITH, "how many GPUs it has is not known: NVML: it failed to start"),
    ((), changed(EIGHT, listed=0, on_pci=0), WITH, "no GPU was seen, and its SKU hgx has some"),
    ((), changed(EIGHT, listed=0, on_pci=0), None, _NO_GPU),
    ((), changed(EIGHT, listed=0, on_pci=0), WITHOUT, _NO_GPU), (GONE, GONE, WITHOUT, _NO_GPU),
    (Partial((), "cut"), GONE, WITHOUT, "what runs on its GPUs is not known: cut"),
    (loads((1,)), changed(EIGHT, listed=1, on_pci=1), WITHOUT, "process 1 runs on GPU 0"),])
def test_only_what_was_wholly_seen_proves_that_gpus_are_idle(
    found: Any, presence: Any, sku: Sku | None, why: str | None,
) -> None:
    assert proof(found, presence, sku) == why
