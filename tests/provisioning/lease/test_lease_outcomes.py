"""What is said, and written down, of each outcome of a lease, at chosen moments."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from healthcheck.model.recording import Recording
from healthcheck.store.cordons import open_cordons
from healthcheck.store.file import Store, opened
from healthcheck.store.leases import LeaseRecord, left, open_leases
from healthcheck.store.ledger import lines
from healthcheck.store.marks import mark_of
from healthcheck.sweep.sweep import SweepPlan
from inventory.discover import CommandOutput
from inventory.errors import StoreError, UsageError
from inventory.jobnodes import SQUEUE
from inventory.model import InKubernetes, Node
from inventory.transport.base import Failure, Limits, Program, Reply, Stage
from provisioning.actions.base import ActionError, Backend, Holder, NodeHold
from provisioning.actions.choose import Options
from provisioning.actions.cordon import cordon
from provisioning.actions.kubeapi import Api
from provisioning.actions.kubernetes import Kubernetes
from provisioning.actions.slurm import SlurmBackend
from provisioning.lease import check, holder, idle, take
from provisioning.lease.check import SweepLeases, give_back_abandoned, leased, manager
from provisioning.lease.holder import HolderState
from provisioning.lease.idle import IdleReport
from provisioning.lease.jobs import Jobs, by_node, jobs
from provisioning.lease.reservation import SHOW, Reservation, parse, reserved
from provisioning.lease.watch import LeaseWatch
from provisioning.triage import apply
from tests.healthcheck import machine
from tests.packagedrules import RULES
from tests.provisioning.actions.test_cordon_outcomes import FAN, Back, fails
from tests.provisioning.lease.test_lease import LINE, Cluster
from tests.testbed.kubernetes import serving

G1, G2, G3 = "gpu001", "gpu002", "gpu003"


class Head:
    """A muster at the store: leases through an in-memory Slurm, or by cordon through memory."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.folder = store, folder
        self.cluster, self.back = Cluster(), Back(G1, G2, G3)
        self.instead: dict[tuple[str, ...], CommandOutput] = {}        # by the first words of a command
        self.asked: list[str] = []

    def run(self, argv: Sequence[str]) -> CommandOutput:
        self.asked.append(" ".join(argv))
        return (next((answer for words, answer in self.instead.items() if tuple(argv[:len(words)]) == words),
                     None) or self.cluster.run(argv))

    def clock(self) -> float:
        return self.cluster.now

    def slurm(self, kind: str = "reservation") -> take.LeaseManager:
        return manager(kind, SlurmBackend(self.run), "us", self.clock, self.run)(self.store)

    def cordons(self) -> take.LeaseManager:
        return self.made()(self.store)

    def made(self) -> check.MakeManager:
        return manager(None, self.back, "us", self.clock, self.run)

    def reserve(self, *nodes: str) -> None:
        """Somebody else does, for a course."""
        self.cluster.reservations["course"] = frozenset(nodes), self.cluster.now + 300

    def told(self, action: str = "lease") -> list[str | None]:
        return [line.outcome for line in lines(self.store) if line.action == action]


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    with opened(tmp_path / "state", make=True) as store:
        yield Head(store, tmp_path / "state")


def entry_of(taken: take.LeaseGrant) -> LeaseRecord:
    assert taken.entry is not None
    return taken.entry


def before_hold(ours: take.LeaseManager, happens: Callable[[], object]) -> None:
    """This happens between the look at the nodes and the hold."""
    hold = ours.method.hold

    def late(entry: LeaseRecord) -> None:
        happens()
        hold(entry)

    ours.method.hold = late        # type: ignore[method-assign]


NO = CommandOutput(1, b"", b"no")


# ---- taking

def test_what_others_hold_what_is_busy_and_what_is_not_known_is_refused_and_the_rest_is_held_for_its_time(
    head: Head,
) -> None:
    head.cluster.jobs[G1] = head.cluster.jobs[G2] = "job"
    head.cluster.reasons[G2] = "fan"
    taken = take.take(head.slurm(), [G1, G2, G3], 600, "why")
    assert taken.refused == {
        G1: "job 7 (RUNNING) is on it", G2: "others hold it: fan"} and taken.nodes == (G3,)
    (nodes, end), = head.cluster.reservations.values()
    assert nodes == {G3} and abs(
        end - head.cluster.now - 600) < 2 and abs(entry_of(taken).until - entry_of(taken).began - 600) < 0.1
    assert head.told() == ["held, 1 of 1"]
    assert take.take(
        head.slurm(), [G3, "gpu009"], 600, "why").refused[G3].startswith("reservation 'muster-1-")
    assert take.LeaseGrant(None).nodes == ()


def test_a_node_of_another_lease_that_holds_is_told_by_its_number_and_one_whose_process_died_is_taken(
    head: Head, monkeypatch: pytest.MonkeyPatch,
) -> None:
    take.take(head.cordons(), [G1], 600, "why")
    again = take.take(head.cordons(), [G1], 600, "why")
    assert (
        again.entry, again.refused) == (None, {G1: "it is leased already (lease 1; see: muster lease list)"})
    monkeypatch.setattr(take, "life", lambda refusals: HolderState.DEAD)
    assert take.take(head.cordons(), [G1], 600, "why").nodes == (G1,)
    assert head.told("unlease") == ["released"]


def test_nothing_is_asked_for_where_all_is_refused(head: Head) -> None:
    assert take.take(
        head.cordons(), ["gpu009"], 600, "why") == take.LeaseGrant(None, {"gpu009": "back does not know it"})
    assert lines(head.store) == []


@pytest.mark.parametrize(("starts", "refused"), [(300, True), (600, False), (900, False)])
def test_a_reservation_that_begins_within_the_leases_time_is_in_the_way(
    head: Head, starts: float, refused: bool,
) -> None:
    soon = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(1e9 + starts))
    head.cluster.now = 1e9
    line = LINE.replace("muster-12-ab", "course").replace(
        "2026-11-21T19:39:58", soon).replace("State=ACTIVE", "State=INACTIVE")
    head.instead[SHOW] = CommandOutput(0, line.encode() + b"\n\n", b"")
    with_it = take.unfit(head.slurm(), [G1, G3], 1e9 + 600)
    assert with_it == ({G1: "reservation 'course' has it soon"} if refused else {})
    if refused:
        assert take.take(head.slurm(), [G1], 600, "why") == take.LeaseGrant(None, with_it)


def test_reservations_that_hold_now_or_begin_at_no_time_that_can_be_read_are_in_the_way() -> None:
    now = LINE.replace("muster-12-ab", "a")
    unread = LINE.replace("muster-12-ab", "b").replace(
        "2026-11-21T19:39:58", "Tomorr 10:00").replace("State=ACTIVE", "State=INACTIVE")
    for text, found in ((now, "reservation 'a' has it"), (unread, "reservation 'b' has it soon")):
        assert reserved([G1, G3], 0.0, lambda argv, text=text: CommandOutput(0, text.encode(), b"")) == {
            G1: found}  # type: ignore[misc]
    assert reserved([G1], 0.0, lambda argv: CommandOutput(0, b"No reservations in the system\n", b"")) == {}


@pytest.mark.parametrize(("shown", "refused"), [
    ("{}: sick", False), ("{}: sick; KEEP DOWN", True), ("muster:7f3a#9: theirs", True), ("fan", True)])
def test_a_node_that_we_cordoned_is_what_one_wants_to_test_and_one_that_a_person_noted_upon_is_theirs(
    head: Head, shown: str, refused: bool,
) -> None:
    cordon(head.store, head.back, [G1], "sick", "us", head.clock)
    reason = shown.format(open_cordons(head.store)[0].mark)
    mark = mark_of(reason)
    head.back.shows[G1] = NodeHold(Holder.US if mark is not None else Holder.OTHERS, reason, mark)
    assert take.unfit(head.cordons(), [G1, G2], 0.0) == ({G1: f"others hold it: {reason}"} if refused else {})


def test_a_node_that_is_drained_and_reserved_is_reported_as_drained(head: Head) -> None:
    head.cluster.reasons[G1] = "fan"
    head.cluster.reservations["course"] = frozenset({G1, G2}), 2e9
    assert take.unfit(
        head.slurm(), [G1, G2], 0.0) == {G1: "others hold it: fan", G2: "reservation 'course' has it"}


def test_what_somebody_reserves_between_the_look_and_the_hold_is_theirs_and_the_rest_is_held(
    head: Head,
) -> None:
    ours = head.slurm()
    before_hold(ours, lambda: head.cluster.reservations or head.reserve(G1))
    taken = take.take(ours, [G1, G2], 600, "why")
    assert (taken.nodes, taken.refused) == ((G2,), {G1: "reservation 'course' has it"})
    assert head.told() == ["held, 1 of 1"] and open_leases(head.store)[0].nodes == (G2,)


@pytest.mark.parametrize("taken_away", [False, True])
def test_what_cannot_be_held_at_all_is_refused_with_what_the_back_end_said(
    head: Head, taken_away: bool,
) -> None:
    head.instead["scontrol", "create"] = NO
    ours = head.slurm()
    if taken_away:
        before_hold(ours, lambda: head.reserve(G1, G2))
    taken = take.take(ours, [G1, G2], 600, "why")
    assert taken.entry is None and set(
        taken.refused) == {G1, G2} and all("scontrol" in why for why in taken.refused.values())
    assert (head.told()[0] or "").startswith(
        "not done: scontrol") and head.told("unlease") == ["it was gone already"]
    assert open_leases(head.store) == []


def test_a_node_that_fell_out_of_the_hold_at_once_is_reported_why_and_the_others_are_kept(head: Head) -> None:
    ours = head.slurm()
    hold = ours.method.hold

    def part(entry: LeaseRecord) -> None:
        hold(entry)
        head.cluster.reservations[entry.name] = frozenset({G2}), head.cluster.reservations[entry.name][1]

    ours.method.hold = part        # type: ignore[method-assign]
    taken = take.take(ours, [G1, G2], 600, "why")
    assert taken.nodes == (
        G2,) and taken.refused == {G1: f"reservation {entry_of(taken).name} does not hold it"}
    assert head.told() == ["held, 1 of 2"] and open_leases(head.store)[0].nodes == (G2,)


def test_a_back_end_that_complains_and_holds_all_the_same_is_believed_to_hold(head: Head) -> None:
    ours = head.slurm()
    hold = ours.method.hold

    def complains(entry: LeaseRecord) -> None:
        hold(replace(entry, nodes=(G1,)))
        raise ActionError("it took long")

    ours.method.hold = complains   # type: ignore[method-assign]
    taken = take.take(ours, [G1, G2], 600, "why")
    assert (taken.nodes, taken.refused) == ((G1,), {G2: "it took long"}) and head.told() == ["held, 1 of 2"]


def test_a_job_that_starts_before_the_hold_is_left_and_its_node_given_back(head: Head) -> None:
    ours = head.slurm()
    before_hold(ours, lambda: head.cluster.jobs.update({G1: "job"}))
    taken = take.take(ours, [G1, G2], 600, "why")
    assert (taken.nodes, taken.refused) == ((G2,), {G1: "job 7 (RUNNING) is on it"})
    assert [nodes for nodes, _ in head.cluster.reservations.values()] == [{G2}]
    assert take.without(ours, taken, {G1: "x"}) == taken
    assert take.without(
        ours, taken, {G2: "busy"}) == take.LeaseGrant(None, {G1: "job 7 (RUNNING) is on it", G2: "busy"})
    assert head.cluster.reservations == {} and head.told(
        "unlease") == ["released"] and take.without(ours, take.LeaseGrant(None), {G1: "x"}).entry is None


def test_taking_that_fails_midway_leaves_nothing_held(head: Head) -> None:
    head.back.moments["held", 4] = fails()
    with pytest.raises(ActionError):
        take.take(head.cordons(), [G1], 600, "why")
    assert open_leases(head.store) == [] and head.back.shows[G1].holder is Holder.NO_ONE
    assert [line.why for line in lines(head.store) if line.action == "unlease"] == ["taking it was cut short"]


# ---- giving back

def test_what_cannot_be_given_back_stays_open_with_the_reason_until_it_can(head: Head) -> None:
    taken = take.take(head.slurm(), [G1], 600, "why")
    name = entry_of(taken).name
    head.instead["scontrol", "delete"] = NO
    said = take.give_back(head.slurm(), entry_of(taken), "done")
    assert said.startswith(
        "scontrol") and head.told("unlease") == [f"not done: {said}"] and len(open_leases(head.store)) == 1
    head.instead = {("scontrol", "delete"): CommandOutput(0, b"", b"")}
    assert take.give_back(head.slurm(), entry_of(taken), "done") == f"reservation {name} is still there"
    head.instead = {SHOW: NO}
    assert "scontrol" in take.give_back(head.slurm(), entry_of(taken), "done")
    head.instead = {}
    assert take.give_back(head.slurm(), entry_of(taken), "done") == "" and open_leases(head.store) == []
    assert head.told("unlease")[-1] == "released"


def test_a_reservation_that_is_gone_is_not_deleted(head: Head) -> None:
    taken = take.take(head.slurm(), [G1], 600, "why")
    head.cluster.reservations = {"course": (frozenset({G3}), 2e9)}
    assert take.give_back(
        head.slurm(), entry_of(taken), "done") == "" and head.told("unlease") == ["it was gone already"]
    assert not [words for words in head.asked if words.startswith("scontrol delete")]


def test_a_lease_is_over_after_its_time_and_with_its_process(
    head: Head, monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = entry_of(take.take(head.slurm(), [G1], 600, "why"))
    assert (
        take.overdue(entry, entry.until), take.overdue(entry, entry.until + 1)) == ("", "its time is over")
    monkeypatch.setattr(take, "life", lambda refusals: HolderState.ELSEWHERE)
    assert take.settle(head.slurm()) == []
    monkeypatch.setattr(take, "life", lambda refusals: HolderState.DEAD)
    head.instead["scontrol", "delete"] = NO
    (said,) = take.settle(head.slurm())
    assert said.startswith(f"{entry.name}: NOT given back: scontrol")
    head.instead = {}
    assert take.settle(head.slurm()) == [
        f"{entry.name}: given back: the process that held it is gone"] and take.settle(head.slurm()) == []


def test_a_lease_that_is_over_and_was_not_given_back_is_listed_with_the_command_that_does(
    head: Head, monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = entry_of(take.take(head.slurm(), [G1, G2], 600, "why"))
    now = head.cluster.now
    said = f"lease {entry.name} (why) keeps jobs from gpu[001-002], and {{}}: muster lease release"
    assert left(head.store, now) == [] and left(head.store, now + 601) == [said.format("its time is over")]
    monkeypatch.setattr(take, "life", lambda holder: HolderState.DEAD)
    assert left(head.store, now, take.overdue) == [said.format("the process that held it is gone")]
    take.give_back(head.slurm(), entry, "by hand")
    assert left(head.store, now + 601) == []


def test_each_way_and_back_end_settles_its_own_leases(head: Head, monkeypatch: pytest.MonkeyPatch) -> None:
    for made in (head.slurm(), head.slurm("cordon"), head.cordons()):
        take.take(made,
                  [{"reservation": G1, "cordon": G2}[made.method.kind] if made.method.base.name == "slurm"
                   else G3], 600, "why")
    monkeypatch.setattr(take, "life", lambda refusals: HolderState.DEAD)
    assert len(take.settle(head.cordons())) == 1
    assert [(entry.kind, entry.backend) for entry in open_leases(head.store)] == [
        ("reservation", "slurm"), ("cordon", "slurm")]
    assert len(give_back_abandoned(head.store, head.back, "us", head.clock, head.run)) == 0
    assert (len(give_back_abandoned(head.store, SlurmBackend(head.run), "us", head.clock, head.run)) == 2
            and open_leases(head.store) == [])


def test_triage_gives_back_what_a_dead_process_held_before_it_decides(
    head: Head, monkeypatch: pytest.MonkeyPatch,
) -> None:
    take.take(head.cordons(), [G1], 600, "why")
    apply.settle(head.store, head.back, "us", head.clock)
    assert len(open_leases(head.store)) == 1
    monkeypatch.setattr(take, "life", lambda refusals: HolderState.DEAD)
    apply.settle(head.store, head.back, "us", head.clock)
    assert open_leases(
        head.store) == [] and open_cordons(head.store) == [] and head.told("unlease") == ["released"]


# ---- by cordon

def test_of_a_lease_by_cordon_only_its_own_cordons_are_given_back(head: Head) -> None:
    cordon(head.store, head.back, [G3], "sick", "us", head.clock)
    first = take.take(head.cordons(), [G1, G2], 600, "why")
    second = take.take(head.cordons(), [G3], 600, "why")
    assert (first.nodes, second.nodes) == ((G1, G2), (G3,)) and first.unknown == {G1, G2}
    method = head.cordons().method
    method.keep(entry_of(first), [G2])
    assert head.back.shows[G1].holder is Holder.NO_ONE and method.left(
        entry_of(first)) and not method.left(entry_of(second))
    assert set(method.gone(entry_of(first))) == {
        G1} and method.gone(entry_of(first))[G1] == "our cordon is not on it: nobody"
    method.free(entry_of(second))
    assert method.gone(entry_of(second)) == {} and head.back.shows[G3].reason.endswith(": sick")
    method.free(entry_of(first))
    assert not method.left(entry_of(first)) and [one.why for one in open_cordons(head.store)] == ["sick"]
    calls = len(head.back.calls)
    method.free(entry_of(first))
    assert len(head.back.calls) == calls


def test_a_cordon_of_a_lease_that_shows_other_words_is_not_on_it(head: Head) -> None:
    entry = entry_of(take.take(head.cordons(), [G1], 600, "why"))
    head.back.shows[G1] = replace(head.back.shows[G1], reason=f"{head.back.shows[G1].mark}: {'x' * 300}")
    (why,) = head.cordons().method.gone(entry).values()
    assert why.startswith("our cordon is not on it: muster:") and len(why) == 200
    head.back.shows[G1] = FAN
    assert head.cordons().method.gone(entry) == {G1: "our cordon is not on it: fan, Tuesday"}


def test_what_could_not_be_given_back_is_reported_and_what_could_is_not(head: Head) -> None:
    entry = entry_of(take.take(head.cordons(), [G1, G2], 600, "why"))
    before = sum(call[0] == "release" for call in head.back.calls)
    head.back.moments["release", before] = fails("it is not allowed")
    with pytest.raises(ActionError) as refused:
        head.cordons().method.free(entry)
    assert str(refused.value) == f"{G1}: NOT released: it is not allowed"


# ---- reservations

def test_a_reservation_is_made_moved_and_asked_for_by_its_name(head: Head) -> None:
    method = Reservation(head.clock, head.run)
    entry = LeaseRecord(1, "reservation", "slurm", "muster-1-ab", (G1, G2), "why", "us", "", 0,
                        head.cluster.now + 600, None, None, 1)
    assert method.gone(entry) == dict.fromkeys(
        [G1, G2], "reservation muster-1-ab is not there") and not method.left(entry)
    head.cluster.reservations["course"] = frozenset({G3}), 2e9
    method.hold(entry)
    assert method.gone(entry) == {} and method.left(entry)
    method.keep(entry, [G2])
    assert method.gone(entry) == {G1: "reservation muster-1-ab does not hold it"}
    method.extend(entry, head.cluster.now + 5000)
    assert head.cluster.reservations["muster-1-ab"][1] > head.cluster.now + 4000
    head.cluster.reservations["muster-1-ab"] = frozenset({G1, G2}), 0.0
    assert method.gone(entry) == dict.fromkeys([G1, G2], "reservation muster-1-ab does not hold it")
    method.free(entry)
    assert list(head.cluster.reservations) == ["course"]


@pytest.mark.parametrize(
    "line",
    ["Nodes=gpu001 State=ACTIVE StartTime=now", "ReservationName=a Nodes=gpu001 StartTime=now", "x " + LINE])
def test_what_is_no_whole_line_of_a_reservation_is_refused(line: str) -> None:
    with pytest.raises(ActionError, match="which is no reservation"):
        parse(line)


# ---- jobs

class Held_(Back):
    """A back end that knows of each node whether a job is on it."""

    def __init__(self, name: str, **busy: bool | None) -> None:
        super().__init__()
        self.name = name
        self.shows = {node: NodeHold(Holder.NO_ONE, busy=each) for node, each in busy.items()}


class Runs_(Back):
    """One that says itself what runs."""

    def running(self, nodes: Collection[str]) -> Mapping[str, str]:
        return {"a": "pod train runs on it"}


def never(argv: Sequence[str]) -> CommandOutput:
    raise AssertionError(argv)


def test_jobs_are_those_that_the_back_end_tells_of() -> None:
    assert jobs(Runs_(), ["a", "b"], never) == Jobs({"a": "pod train runs on it"}, frozenset())
    assert jobs(Held_("other", a=True, b=False, c=None), ["a", "b", "c"], never, "muster-1-ab") == Jobs(
        {"a": "a job is on it"}, frozenset("c"))
    asked: list[Sequence[str]] = []

    def run(argv: Sequence[str]) -> CommandOutput:
        asked.append(argv)
        return CommandOutput(0, b"8|RUNNING|n3\n", b"")

    found = jobs(Held_("slurm", n1=True, n2=False, n3=None, n4=None), ["n1", "n2", "n3", "n4"], run)
    assert found == Jobs(
        {"n1": "a job is on it", "n3": "job 8 (RUNNING) is on it"}, frozenset({"n4"})) and asked == [SQUEUE]
    by_node(run, "muster-1-ab")
    assert asked[1] == (*SQUEUE[:-1], f"{SQUEUE[-1]}|%v|%j")
    assert (by_node(lambda argv: CommandOutput(0, b"8|RUNNING|n3|muster-1-ab|muster-1-ab", b""),
                    "muster-1-ab") == {"n3": "8 (RUNNING)"})


# ---- who holds

def test_a_process_is_told_by_when_it_started() -> None:
    refusals = json.loads(holder.me())
    ticks = os.sysconf("SC_CLK_TCK")
    up = float(Path("/proc/uptime").read_text().split()[0])
    begun = Path(f"/proc/{os.getpid()}").stat().st_ctime
    assert (0 <= up - refusals["start"] / ticks <= up
            and abs(time.time() - begun - (up - refusals["start"] / ticks)) < 5)
    assert refusals["start"] == int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    assert holder.pid_of(holder.me()) == os.getpid() and holder.pid_of("x") is None


def test_one_that_never_knew_its_start_is_dead_once_there_is_no_such_process_and_never_alive() -> None:
    for pid in (os.getpid(), 2**22 + 1):
        assert holder.life(
            json.dumps({**json.loads(holder.me()), "pid": pid, "start": None})) is HolderState.DEAD


def test_where_no_one_knows_the_boot_no_one_knows_who_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder, "_boot", lambda: "")
    assert holder.life(holder.me()) is HolderState.ELSEWHERE


# ---- whether GPUs are idle

class Answers:
    """A transport that answers for these nodes, and not for others."""

    def __init__(self, *nodes: str) -> None:
        self.nodes = nodes

    def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
        for node in nodes:
            if node.name in self.nodes:
                yield Reply(node.name, None, Failure(Stage.CONNECT, "nobody"), 0, 0)


WITHOUT = replace(RULES.skus["hgx-h100"], name="cpu-only", empty=frozenset({"gpus"}))


def test_of_each_node_a_look_says_whether_it_is_idle_without_gpus_or_why_neither(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[str, Any] = {}

    def why(recording: Recording, sku: Any) -> str | None:
        seen[recording.node] = sku
        return {"a": None, "b": idle._NO_GPU, "c": "x" * 400}[recording.node]

    monkeypatch.setattr(idle, "_why", why)
    nodes = [Node("a", sku="cpu-only"), Node("b"), Node("c"), Node("d")]
    found = idle.idle(
        nodes, Answers("a", "b", "c"), {"cpu-only": WITHOUT, "hgx": RULES.skus["hgx-h100"]}, "hgx", Limits())
    assert found.without == {
        "b"} and set(found.refused) == {"c", "d"} and found.refused["d"] == "it was not checked"
    assert len(found.refused["c"]) == 300 and (seen["a"], seen["b"]) == (WITHOUT, RULES.skus["hgx-h100"])


def test_what_was_not_reached_is_not_idle_and_a_healthy_idle_machine_is() -> None:
    whole = machine.recording()
    assert idle._why(whole, RULES.skus["hgx-h100"]) is None
    assert (idle._why(replace(whole, failure=Failure(Stage.CONNECT, "no route")), None)
            == "it was not reached: connect: no route")
    assert idle._why(replace(whole, host=None), None) == "it was not reached"
    assert (idle._why(replace(whole, host=None, failure=Failure(Stage.CONNECT, "no route")), None)
            == "it was not reached: connect: no route")


# ---- under a lease

NODES = (Node(G1, sku="hgx-h100"), Node(G2, sku="hgx-h100"))
PLAN = SweepPlan(NODES, RULES.select(["dcgm-diag-quick"]))


def proven(
    monkeypatch: pytest.MonkeyPatch, refused: Mapping[str, str] | None = None, without: Collection[str] = (),
) -> list[list[str]]:
    looked: list[list[str]] = []

    def shown_idle(nodes: Sequence[Node], *_: object) -> IdleReport:
        looked.append([node.name for node in nodes])
        return IdleReport(dict(refused or {}), frozenset(without))

    monkeypatch.setattr(check, "idle", shown_idle)
    return looked


def test_the_way_is_the_back_ends_unless_it_is_named(head: Head) -> None:
    kinds: list[tuple[str | None, Backend, str]] = [
        (None, SlurmBackend(head.run), "reservation"), ("cordon", SlurmBackend(head.run), "cordon"),
        (None, head.back, "cordon"), ("cordon", head.back, "cordon")]
    for kind, base, expected in kinds:
        assert manager(kind, base, "us")(head.store).method.kind == expected
    with pytest.raises(UsageError, match="--lease reservation: back has no reservations; use --lease cordon"):
        manager("reservation", head.back, "us")


def test_the_back_end_is_that_of_the_inventory_or_slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert check.backend(None, Options()).name == "slurm"
    (tmp_path / "site.yaml").write_text("version: 1\ncordon: {hostfile: bad}\nnodes:\n  gpu001: {}\n")
    assert check.backend(str(tmp_path / "site.yaml"), Options()).name == "hostfile"


def test_a_sweep_under_a_lease_says_what_it_may_cost_and_needs_something_disruptive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    back = Back(G1, G2)
    monkeypatch.setattr(check, "backend", lambda option, options: back)
    proven(monkeypatch)
    with SweepLeases(None, None, tmp_path / "state", None, 64)(PLAN, Answers()) as granted:
        assert granted.lease.nodes == {
            G1, G2} and {held.holder for held in back.shows.values()} == {Holder.US}
        with opened(tmp_path / "state") as store:
            (entry,) = open_leases(store)
        assert entry.until - entry.began == pytest.approx(granted.bounds.sweep_s + 120)
    said = capsys.readouterr()
    assert (said.out, said.err.startswith("muster: 2 nodes, to be held for at most ")) == ("", True)
    with pytest.raises(UsageError, match="none of the rules that are judged is disruptive"), SweepLeases(
        None, None, tmp_path / "state", None, 64)(SweepPlan(NODES, RULES.select(["gpu-count"])), Answers()):
        pass
    many = SweepPlan(tuple(Node(f"n{number:03}", sku="hgx-h100") for number in range(512)), RULES)
    # whoever says for how long means it
    with SweepLeases(None, None, tmp_path / "state", 60.0, 64)(many, Answers()) as granted:
        assert granted.lease.nodes == frozenset() and len(granted.lease.refused) == 512


def test_a_lease_is_of_what_is_proven_idle_and_is_given_back_with_the_sweep(
    head: Head, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    looked = proven(monkeypatch, {G1: "process 1 runs on GPU 0"}, {G2})
    head.back.shows = {G1: NodeHold(Holder.NO_ONE, busy=False), G2: NodeHold(Holder.NO_ONE), G3: FAN}
    plan = replace(PLAN, nodes=(*NODES, Node(G3)))
    with leased(plan, Answers(), Limits(), head.folder, head.made()) as granted:
        assert (granted.lease.nodes == frozenset() and granted.lease.holder == "no one"
                and granted.bounds == Limits())
        assert granted.lease.refused == {
            G1: "process 1 runs on GPU 0", G3: "others hold it: fan, Tuesday",
            G2: "it has no GPU, and its scheduler cannot say whether a job is on it"}
    assert looked == [[G1, G2]] and open_leases(head.store) == [] and capsys.readouterr().err == ""
    with leased(replace(PLAN, nodes=(Node(G3),)), Answers(), Limits(), head.folder, head.made()) as granted:
        assert granted.lease.holder == "no one"
    assert looked == [[G1, G2]]


def test_a_node_without_gpus_of_which_the_scheduler_says_that_it_is_free_is_leased(
    head: Head, monkeypatch: pytest.MonkeyPatch,
) -> None:
    proven(monkeypatch, without={G1})
    named: list[str] = []

    def under(name: str) -> Any:
        named.append(name)
        return Answers()

    made = manager("reservation", SlurmBackend(head.run), "us", head.clock, head.run)
    with leased(
        replace(PLAN, nodes=NODES[:1]), Answers(), Limits(), head.folder, made, under=under) as granted:
        assert granted.lease.nodes == {G1} and named == [granted.lease.holder]
        assert granted.lease.stood() == {}
    assert head.cluster.reservations == {}
    head.cluster.jobs[G1] = "job"
    with leased(
        replace(PLAN, nodes=NODES[:1]), Answers(), Limits(), head.folder, made, under=under) as granted:
        assert granted.lease.refused == {G1: "job 7 (RUNNING) is on it"} and len(named) == 1


@pytest.mark.parametrize(("why", "look_s"), [(None, 120.0), ("job 7 waits", 20.0)])
def test_under_a_lease_that_gives_way_the_look_is_short_and_until_it_gave_way_it_stood(
    head: Head, monkeypatch: pytest.MonkeyPatch, why: str | None, look_s: float,
) -> None:
    bounds: list[Limits] = []

    def shown_idle(
        nodes: Sequence[Node], transport: object, skus: object, sku: object, given: Limits,
    ) -> IdleReport:
        bounds.append(given)
        return IdleReport({}, frozenset())

    monkeypatch.setattr(check, "idle", shown_idle)
    gives_way = None if why is None else lambda base, nodes: f"{why} for {len(nodes)}"
    with leased(PLAN, Work(), Limits(), head.folder, head.made(), beat=100, gives_way=gives_way) as granted:
        assert granted.lease.stood() == {} and granted.lease.gave_way() == (
            "" if why is None else "job 7 waits for 2")
        assert granted.lease.over() == ("" if why is None else "it gave way: job 7 waits for 2")
        answers = said_of(granted.transport.run(NODES[:1], Program("", "", b""), Limits()))
        assert answers == {
            G1: (Stage.CONNECT, "done") if why is None else (Stage.LEASE, "it gave way: job 7 waits for 2")}
    assert [given.sweep_s for given in bounds] == [look_s]


def test_what_was_left_is_given_back_first_and_what_went_wrong_with_the_lease_is_reported(
    head: Head, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    proven(monkeypatch)
    left = entry_of(take.take(head.cordons(), [G3], 600, "why"))
    head.cluster.now += 601
    with leased(PLAN, Answers(), Limits(), head.folder, head.made(), beat=100) as granted:
        assert capsys.readouterr().err == f"muster: lease {left.name}: given back: its time is over\n"
        head.back.shows[G1] = head.back.shows[G2] = FAN
        assert set(granted.lease.stood()) == {G1, G2}
    said = capsys.readouterr()
    assert said.out == "" and said.err == (f"muster: the lease was lost before the end ({G1}: our cordon is "
                                           "not on it: fan, Tuesday): its results are not judged\n")


def test_a_lease_that_cannot_be_given_back_is_reported(
    head: Head, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    proven(monkeypatch)
    with leased(PLAN, Answers(), Limits(), head.folder, head.made(), beat=100) as granted:
        before = sum(call[0] == "release" for call in head.back.calls)
        head.back.moments["release", before] = fails("it is not allowed")
    name = granted.lease.holder
    said = capsys.readouterr()
    assert (said.out == ""
            and said.err
            == f"muster: lease {name} was NOT given back: {G1}: NOT released: it is not allowed; see: muster "
               "lease list\n")

    def broken(*_: object) -> str:
        raise StoreError("the disk is full")

    head.back.moments.clear()
    give_back_abandoned(head.store, head.back, "us", lambda: head.cluster.now + 10_000)
    monkeypatch.setattr(check, "give_back", broken)
    with leased(PLAN, Answers(), Limits(), head.folder, head.made(), beat=100):
        pass
    assert "was NOT given back: the disk is full" in capsys.readouterr().err


# ---- while it lasts

class Work:
    """Work on nodes that answers for each in turn; `between` happens after the first."""

    def __init__(self, between: Callable[[], object] = lambda: None) -> None:
        self.between = between
        self.sent: list[str] = []

    def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
        for at, node in enumerate(nodes):
            if at:
                self.between()
            self.sent.append(node.name)
            yield Reply(node.name, None, Failure(Stage.CONNECT, "done"), 0, 0)


def watch(head: Head, work: Any, seconds: float = 600, made: check.MakeManager | None = None) -> LeaseWatch:
    made = made or head.made()
    return LeaseWatch(
        head.folder, made, entry_of(take.take(made(head.store), [G1, G2], seconds, "why")), work, beat=100)


def said_of(replies: Iterable[Reply]) -> dict[str, tuple[Stage, str]]:
    return {
        reply.node: (reply.failure.stage, reply.failure.reason) for reply in replies
        if reply.failure is not None}


def test_a_lease_is_renewed_in_the_second_half_of_its_term_for_a_whole_one(head: Head) -> None:
    here = watch(head, Work())
    began = here.entry.until - 600
    for passed, until in ((299, 600), (301, 901), (301, 901)):
        head.cluster.now = began + passed
        assert here.check() == {}
        assert open_leases(head.store)[0].until == pytest.approx(began + until, abs=1)
    head.cluster.now = began + 302
    assert here.check(
        share=1.0) == {} and open_leases(head.store)[0].until == pytest.approx(began + 902, abs=1)
    head.back.shows[G1] = FAN
    head.cluster.now = began + 900
    assert set(
        here.check()) == {G1} and open_leases(head.store)[0].until == pytest.approx(began + 1500, abs=1)
    head.back.shows[G2] = FAN
    head.cluster.now = began + 1400
    assert set(
        here.check()) == {G1, G2} and open_leases(head.store)[0].until == pytest.approx(began + 1500, abs=1)


def test_a_renewal_moves_the_reservation_too(head: Head) -> None:
    made = manager("reservation", SlurmBackend(head.run), "us", head.clock, head.run)
    here = watch(head, Work(), made=made)
    head.cluster.now += 400
    assert here.check() == {}
    ((_, end),) = head.cluster.reservations.values()
    assert end == pytest.approx(head.cluster.now + 600, abs=3)


def test_a_lease_that_somebody_ended_or_whose_time_is_over_does_not_stand(head: Head) -> None:
    here = watch(head, Work())
    head.cluster.now = here.entry.until
    assert here.check() == {}
    head.cluster.now += 700
    assert here.check() == dict.fromkeys([G1, G2], f"lease {here.entry.name} was not renewed in time")
    assert here.stood() == dict.fromkeys(
        [G1, G2], f"its lease was lost: lease {here.entry.name} was not renewed in time")
    take.give_back(head.cordons(), here.entry, "by hand")
    assert here.check() == dict.fromkeys([G1, G2], f"lease {here.entry.name} was ended by someone else")


def test_a_last_look_that_fails_is_a_reason(head: Head) -> None:
    here = watch(head, Work())
    assert here.stood() == {}
    head.back.moments["held", head.back.looks()] = fails()
    why = "its lease was lost: whether its lease stood to the end is not known: no answer"
    assert here.stood() == dict.fromkeys([G1, G2], why)


def test_work_goes_to_nodes_that_stand_a_look_just_before_and_is_renewed_for_a_whole_term(head: Head) -> None:
    work = Work()
    here = watch(head, work)
    head.cluster.now += 10
    assert said_of(
        here.run(NODES, Program("", "", b""), Limits())) == dict.fromkeys([G1, G2], (Stage.CONNECT, "done"))
    assert open_leases(head.store)[0].until == pytest.approx(head.cluster.now + 600, abs=1)
    head.back.shows[G1] = FAN
    found = said_of(here.run(NODES, Program("", "", b""), Limits()))
    assert (found == {G1: (Stage.LEASE, "our cordon is not on it: fan, Tuesday"), G2: (Stage.CONNECT, "done")}
            and work.sent == [G1, G2, G2])
    looks = head.back.looks()
    assert said_of(here.run([Node(G3)], Program("", "", b""), Limits())) == {
        G3: (Stage.CONNECT, "done")} and head.back.looks() == looks


def test_where_the_look_before_fails_nothing_is_sent(head: Head) -> None:
    work = Work()
    here = watch(head, work)
    head.back.moments["held", head.back.looks()] = fails()
    assert said_of(here.run(NODES, Program("", "", b""), Limits())) == dict.fromkeys(
        [G1, G2], (Stage.LEASE, "no answer")) and work.sent == []


def test_an_interrupt_of_a_lost_lease_ends_the_work_and_is_reported_of_each_node_that_had_not_answered(
    head: Head,
) -> None:
    here: LeaseWatch

    def lost() -> None:
        assert here._working
        here.lost[G1] = "gone"
        raise KeyboardInterrupt

    here = watch(head, Work(lost))
    assert not here._working
    assert said_of(here.run(NODES, Program("", "", b""), Limits())) == {
        G1: (Stage.CONNECT, "done"),
        G2: (Stage.LEASE, "another node's lease was lost, which ended the work: gone")}
    assert not here._working


def test_whoever_is_at_work_while_another_looks_at_nodes_can_still_be_interrupted(head: Head) -> None:
    here: LeaseWatch

    def check() -> None:
        assert said_of(here.run(NODES[:1], Program("", "", b""), Limits())) and here._working

    here = watch(head, Work(check))
    assert len(list(here.run(NODES, Program("", "", b""), Limits()))) == 2 and not here._working


def test_jobs_are_kept_from_a_node_beyond_its_lease_and_the_others_are_given_back_first(head: Head) -> None:
    ours = head.slurm()
    taken = take.take(ours, [G1, G2], 600, "why")
    rest, done = take.isolate(ours, taken, {G1: "a screening found wrong data", G3: "not of this lease"})
    ((reserved_, _),) = head.cluster.reservations.values()
    assert rest.nodes == (
        G1,) and reserved_ == {G1} and [(one.node, one.held) for one in done] == [(G1, True)]
    assert take.give_back(ours, entry_of(rest), "it is over") == "" and head.cluster.reservations == {}
    assert set(
        head.cluster.reasons) == {G1} and head.cluster.reasons[G1].endswith("a screening found wrong data")
    assert take.isolate(ours, take.take(ours, [G2], 600, "why"), {G1: "x"})[1] == []


def test_a_cordon_that_a_node_had_before_its_lease_keeps_its_own_reason(head: Head) -> None:
    ours = head.slurm()
    cordon(head.store, ours.method.base, [G1], "sick", "us", head.clock)
    take.isolate(ours, take.take(ours, [G1, G2], 600, "why"), {G1: "a screening found wrong data"})
    assert [(one.node, one.why) for one in open_cordons(head.store)] == [(G1, "sick")]


def test_a_cordon_of_a_lease_becomes_one_that_stays(tmp_path: Path) -> None:
    with serving(tmp_path) as bed, opened(tmp_path / "state", make=True) as store:
        for name in (G1, G2):
            bed.add(name)
        ours = manager(None, Kubernetes(InKubernetes(), Api(str(bed.config), None, 30.0, [].append)), "us",
                       time.time)(store)
        rest, done = take.isolate(
            ours, take.take(ours, [G1, G2], 600, "why"), {G1: "a screening found wrong data"})
        assert rest.nodes == (G1,) and not bed.node(
            G2)["spec"].get("unschedulable") and [one.held for one in done] == [True]
        assert take.give_back(
            ours, entry_of(rest), "it is over") == "" and bed.node(G1)["spec"]["unschedulable"]
        assert [(one.node, one.why) for one in open_cordons(store)] == [(G1, "a screening found wrong data")]


def test_the_thread_ends_with_the_watch_and_is_no_reason_to_live_on(head: Head) -> None:
    with watch(head, Work()) as here:
        assert here._thread.is_alive() and here._thread.daemon
    assert not here._thread.is_alive()


def test_only_who_is_at_work_is_interrupted(head: Head) -> None:
    here = watch(head, Work())
    here._beat = 0.01
    head.back.shows[G1] = FAN
    with here:
        here._thread.join(20)
        assert here.lost == {G1: "our cordon is not on it: fan, Tuesday"}


def test_a_controller_that_does_not_answer_within_the_leases_time_stops_nothing(head: Head) -> None:
    made = manager(None, head.back, "us", time.time)
    here = watch(head, Work(), made=made)
    here._beat = 0.01
    assert here.check(share=1.0) == {}       # it is renewed, and lasts as long from now on
    looks = head.back.looks()
    head.back.moments |= {("held", looks + number): fails() for number in range(3)}
    with here:
        while head.back.looks() < looks + 4:
            time.sleep(0.01)
        assert here.lost == {}
