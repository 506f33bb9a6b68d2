"""Leases in a real Slurm, one operation at a time: what happens between looks, and after deaths."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from healthcheck.store.file import Store, opened
from healthcheck.store.leases import LeaseRecord, open_leases
from healthcheck.store.ledger import lines
from inventory.discover import CommandOutput, _run
from inventory.model import Node
from inventory.transport.base import Limits, Program, Reply, Stage
from provisioning.actions.slurm import SlurmBackend as Backend
from provisioning.lease.check import give_back_abandoned, manager
from provisioning.lease.reservation import Reservation
from provisioning.lease.take import LeaseGrant, LeaseManager, give_back, take
from provisioning.lease.watch import LeaseWatch
from tests.testbed.slurm import Slurm, fixture_of
from tests.testbed.sshd import wait_until

NODES = [f"gpu00{n}" for n in range(1, 9)]
BEAT_S = 0.05


bed = fixture_of(NODES)


@pytest.fixture(autouse=True)
def as_before(bed: Slurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for key in ("PATH", "SLURM_CONF"):
        monkeypatch.setenv(key, bed.environment[key])
    yield
    bed.idle_again()


def shown(bed: Slurm) -> dict[str, str]:
    """The line of each reservation."""
    return {
        line.split()[0].removeprefix("ReservationName="): line
        for line in bed.ask("scontrol", "--oneliner", "show", "reservation").splitlines()
        if line.startswith("ReservationName=")}


def job(bed: Slurm, node: str, *more: str) -> None:
    bed.ask("sbatch", "-p", "main", "-o", "/dev/null", "-w", node, *more, "--wrap", "sleep 600")
    wait_until(lambda: bed.states()[node].rstrip("*") in ("allocated", "mixed"), what="the job")


def reserving(store: Store, clock: Callable[[], float] = time.time) -> LeaseManager:
    return manager("reservation", Backend(), "root", clock)(store)


class Between(Reservation):
    """Something happens after the first look, before the nodes are held."""

    def __init__(self, operation: Callable[[], object]) -> None:
        super().__init__(time.time)
        self.operation: Callable[[], object] | None = operation

    def hold(self, entry: object) -> None:
        operation, self.operation = self.operation, None
        if operation is not None:
            operation()
        super().hold(entry)  # type: ignore[arg-type]


def taken_between(
    folder: Path, operation: Callable[[], object], nodes: Sequence[str],
) -> tuple[LeaseGrant, LeaseManager]:
    with opened(folder, make=True) as store:
        ours = LeaseManager(store, Between(operation), "root", time.time)
        return take(ours, nodes, 300, "a test"), ours


def test_a_job_that_starts_between_the_look_and_the_hold_is_left_in_peace(bed: Slurm, tmp_path: Path) -> None:
    taken, _ = taken_between(tmp_path, lambda: job(bed, "gpu001"), ["gpu001", "gpu002"])
    assert taken.nodes == ("gpu002",) and taken.refused["gpu001"].endswith("(RUNNING) is on it")
    assert taken.entry is not None and " Nodes=gpu002 " in shown(bed)[taken.entry.name]
    assert bed.states()["gpu001"].rstrip("*") == "allocated" and bed.ask("squeue", "-h", "-t", "R").strip()


def test_a_node_that_another_reserves_between_costs_the_others_nothing(bed: Slurm, tmp_path: Path) -> None:
    def theirs() -> None:
        bed.ask("scontrol", "create", "reservation", "ReservationName=theirs", "StartTime=now", "Duration=5",
                "Users=root", "Nodes=gpu001")

    taken, _ = taken_between(tmp_path, theirs, ["gpu001", "gpu002"])
    assert taken.nodes == ("gpu002",) and taken.refused == {"gpu001": "reservation 'theirs' has it"}
    assert taken.entry is not None and set(shown(bed)) == {"theirs", taken.entry.name}


def test_a_job_in_every_state_that_holds_a_node_is_a_job(bed: Slurm, tmp_path: Path) -> None:
    job(bed, "gpu001")
    bed.ask("scontrol", "suspend", bed.ask("squeue", "-h", "-o", "%A").strip())
    wait_until(lambda: bed.ask("squeue", "-h", "-t", "S").strip() != "", what="the suspended job")
    with opened(tmp_path, make=True) as store:
        taken = take(reserving(store), ["gpu001"], 300, "a test")
    assert (taken.entry is None and taken.refused["gpu001"].endswith("(SUSPENDED) is on it")
            and shown(bed) == {})


def test_a_node_that_slurm_does_not_know_is_refused_and_costs_no_other(bed: Slurm, tmp_path: Path) -> None:
    with opened(tmp_path, make=True) as store:
        taken = take(reserving(store), ["gpu001", "gpu099"], 300, "a test")
        assert taken.nodes == ("gpu001",) and taken.refused == {"gpu099": "slurm does not know it"}
        assert taken.entry is not None and give_back(reserving(store), taken.entry, "done") == ""
    assert shown(bed) == {}


@pytest.mark.parametrize("kind", [pytest.param("reservation", marks=pytest.mark.slow), "cordon"])
def test_of_two_stores_one_has_the_node(bed: Slurm, tmp_path: Path, kind: str) -> None:
    ready, had = threading.Barrier(2), dict[str, LeaseGrant]()

    def run(argv: Sequence[str]) -> CommandOutput:
        if argv[:2] == ("scontrol", "create") or "State=DRAIN" in argv:
            with contextlib.suppress(threading.BrokenBarrierError):
                ready.wait(10)
        done = subprocess.run(argv, env=bed.environment, capture_output=True, check=False)
        return CommandOutput(done.returncode, done.stdout, done.stderr)

    def want(folder: Path) -> None:
        with opened(folder, make=True) as store:
            had[folder.name] = take(
                manager(kind, Backend(run), "root", run=run)(store), ["gpu003"], 300, "a test")

    def lost(folder: Path, entry: LeaseRecord) -> dict[str, str]:
        return LeaseWatch(folder, manager(kind, Backend(), "root"), entry,
                          Working()).check()  # type: ignore[arg-type]

    threads = [threading.Thread(target=want, args=(tmp_path / name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A reservation Slurm refuses to the second. A drain's reason it lets anyone replace: whoever looked
    # before the other wrote learns of it at the look that goes before all that is done under a lease.
    stand = [taken.entry for name, taken in had.items()
             if taken.entry is not None and not lost(tmp_path / name, taken.entry)]
    assert len(stand) == 1, had
    assert kind == "cordon" or sum(taken.entry is None for taken in had.values()) == 1, had


def test_giving_back_leaves_what_another_store_holds_under_the_same_number(
    bed: Slurm, tmp_path: Path,
) -> None:
    theirs = "muster#1: muster-1-0123abcd: of another store"
    with opened(tmp_path, make=True) as store:
        ours = manager("cordon", Backend(), "root")(store)
        taken = take(ours, ["gpu003", "gpu004"], 300, "a test")
        assert taken.entry is not None and taken.nodes == ("gpu003", "gpu004")
        bed.ask("scontrol", "update", "nodename=gpu003", "state=drain", f"reason={theirs}")
        assert give_back(ours, taken.entry, "done") == "" and open_leases(store) == []
    assert (bed.states()["gpu003"].rstrip("*"), bed.states()["gpu004"].rstrip("*")) == ("drained", "idle")
    assert Backend().held(["gpu003"])["gpu003"].reason == theirs


def leased_and_killed(folder: Path, kind: str, operation: str, when: str) -> int:
    """How a process ends that takes a lease and gives it back, killed before or after that operation."""
    def dying(argv: Sequence[str]) -> CommandOutput:
        last = operation in " ".join(argv)
        if last and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = _run(argv)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    pid = os.fork()
    if not pid:
        try:
            with opened(folder, make=True) as store:
                ours = manager(kind, Backend(dying), "root", run=dying)(store)
                taken = take(ours, ["gpu005", "gpu006"], 300, "a test")
                assert taken.entry is not None
                give_back(ours, taken.entry, "done")
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize(("kind", "operation", "when"), [
    ("reservation", "create reservation", "after"), ("reservation", "scontrol delete", "before"),
    ("cordon", "NodeName=gpu006 State=DRAIN", "after"),
    *(pytest.param(*one, marks=pytest.mark.slow) for one in (
        ("reservation", "create reservation", "before"), ("reservation", "scontrol delete", "after"),
        ("cordon", "NodeName=gpu006 State=DRAIN", "before"),
        ("cordon", "NodeName=gpu006 State=UNDRAIN", "before"),
        ("cordon", "NodeName=gpu006 State=UNDRAIN", "after")))])
def test_killed_beside_an_action_the_next_run_gives_back_what_was_left(
    bed: Slurm, tmp_path: Path, kind: str, operation: str, when: str,
) -> None:
    assert leased_and_killed(tmp_path, kind, operation, when) == -signal.SIGKILL
    with opened(tmp_path) as store:
        [left] = open_leases(store)
        assert give_back_abandoned(
            store, Backend(), "root") == [f"{left.name}: given back: the process that held it is gone"]
        assert open_leases(store) == [] and all(line.outcome is not None for line in lines(store))
    assert shown(bed) == {} and {bed.states()[node].rstrip("*") for node in ("gpu005", "gpu006")} == {"idle"}


def test_a_reservation_ends_by_itself_when_no_one_comes(bed: Slurm, tmp_path: Path) -> None:
    with opened(tmp_path, make=True) as store:
        taken = take(reserving(store), ["gpu001"], 2, "a test")
        assert taken.entry is not None and "State=ACTIVE" in shown(bed)[taken.entry.name]
        name = taken.entry.name
        wait_until(lambda: "State=ACTIVE" not in shown(bed).get(name, ""), 60, "the end of the reservation")
        job(bed, "gpu001")


def test_a_controller_that_does_not_answer_leaves_the_lease_open_for_the_next(
    bed: Slurm, tmp_path: Path,
) -> None:
    def silent(argv: Sequence[str]) -> CommandOutput:
        raise TimeoutError

    with opened(tmp_path, make=True) as store:
        taken = take(reserving(store), ["gpu001"], 300, "a test")
        assert taken.entry is not None
        said = give_back(
            manager("reservation", Backend(silent), "root", run=silent)(store), taken.entry, "done")
        assert "did not answer" in said and [one.name for one in open_leases(store)] == [taken.entry.name]
        assert give_back(reserving(store), taken.entry, "done") == "" and open_leases(store) == []
        assert [line.outcome for line in lines(store)][1].startswith("not done: scontrol did not answer")


# ---- while work is done


class Working:
    """Work that goes on until `end` is set, after which the node answers."""

    def __init__(self) -> None:
        self.begun, self.end = threading.Event(), threading.Event()
        self.sent: list[str] = []

    def run(self, nodes: Sequence[Node], program: Program, limits: Limits) -> Iterator[Reply]:
        self.sent += [node.name for node in nodes]
        self.begun.set()
        assert self.end.wait(60)
        for node in nodes:
            yield Reply(node.name, b"", None, 0, 0)


def worked(bed: Slurm, folder: Path, operation: Callable[[LeaseGrant, LeaseWatch], object],
           seconds: float = 300, beat: float = BEAT_S) -> tuple[
               list[Reply], dict[str, str], Working, LeaseGrant]:
    """What comes of work on gpu001 and gpu002 while `operation` is done; the lease is given back
    afterwards."""
    made = manager("reservation", Backend(), "root")
    work = Working()
    with opened(folder, make=True) as store:
        taken = take(made(store), ["gpu001", "gpu002"], seconds, "a test")
        assert taken.entry is not None

        def beside() -> None:
            assert work.begun.wait(60)
            try:
                operation(taken, watch)
            finally:
                work.end.set()

        thread = threading.Thread(target=beside)
        with LeaseWatch(folder, made, taken.entry, work, beat=beat) as watch:      # type: ignore[arg-type]
            thread.start()
            replies = list(watch.run([Node("gpu001"), Node("gpu002")], Program("", "", b""), Limits()))
            lost = watch.stood()
        thread.join()
        give_back(made(store), taken.entry, "done")
    assert shown(bed) == {}
    return replies, lost, work, taken


def test_a_reservation_that_somebody_deletes_stops_the_work(bed: Slurm, tmp_path: Path) -> None:
    def operation(taken: LeaseGrant, watch: LeaseWatch) -> None:
        assert taken.entry is not None
        bed.ask("scontrol", "delete", f"ReservationName={taken.entry.name}")
        wait_until(lambda: bool(watch.lost), what="that it is noticed")
        wait_until(lambda: not watch._working, what="that the work ends")

    replies, lost, _, taken = worked(bed, tmp_path, operation)
    assert taken.entry is not None
    why = f"reservation {taken.entry.name} is not there"
    assert ({(reply.node, reply.failure.stage, reply.failure.reason) for reply in replies if reply.failure}
            == {("gpu001", Stage.LEASE, why), ("gpu002", Stage.LEASE, why)})
    assert lost == dict.fromkeys(("gpu001", "gpu002"), f"its lease was lost: {why}")


def test_a_job_that_runs_in_the_reservation_stops_the_work(bed: Slurm, tmp_path: Path) -> None:
    def operation(taken: LeaseGrant, watch: LeaseWatch) -> None:
        assert taken.entry is not None
        job(bed, "gpu002", f"--reservation={taken.entry.name}")
        wait_until(lambda: bool(watch.lost), what="that it is noticed")
        wait_until(lambda: not watch._working, what="that the work ends")
        bed.ask("scancel", "-u", "root")
        wait_until(lambda: not bed.ask("squeue", "-h").strip(), what="the end of the job")

    replies, lost, _, _ = worked(bed, tmp_path, operation)
    assert all(reply.failure is not None and reply.failure.stage is Stage.LEASE for reply in replies)
    assert set(lost) == {"gpu002"} and "is on it" in lost["gpu002"]


def test_a_lease_is_renewed_as_long_as_the_work_goes_on(bed: Slurm, tmp_path: Path) -> None:
    def operation(taken: LeaseGrant, watch: LeaseWatch) -> None:
        began = time.time()
        wait_until(lambda: time.time() > began + 7, 60, "the lease's time, and more")
        assert taken.entry is not None and "State=ACTIVE" in shown(bed)[taken.entry.name]

    replies, lost, _, _ = worked(bed, tmp_path, operation, seconds=5, beat=0.5)
    assert [reply.failure for reply in replies] == [None, None] and lost == {}


def test_a_lease_that_was_lost_before_the_work_sends_nothing(bed: Slurm, tmp_path: Path) -> None:
    made, work = manager("reservation", Backend(), "root"), Working()
    work.end.set()
    with opened(tmp_path, make=True) as store:
        taken = take(made(store), ["gpu001", "gpu002"], 300, "a test")
        assert taken.entry is not None
        bed.ask("scontrol", "update", "reservation", f"ReservationName={taken.entry.name}", "Nodes=gpu002")
        with LeaseWatch(tmp_path, made, taken.entry, work, beat=60) as watch:    # type: ignore[arg-type]
            replies = {
                reply.node: reply.failure
                for reply in watch.run([Node("gpu001"), Node("gpu002")], Program("", "", b""), Limits())}
        give_back(made(store), taken.entry, "done")
    assert work.sent == ["gpu002"] and replies["gpu002"] is None
    assert replies["gpu001"] is not None and replies["gpu001"].stage is Stage.LEASE


def test_a_controller_that_is_down_while_the_lease_lasts_stops_nothing_but_is_no_proof(
    bed: Slurm, tmp_path: Path,
) -> None:
    down = threading.Event()

    def run(argv: Sequence[str]) -> CommandOutput:
        if down.is_set():
            raise TimeoutError
        done = subprocess.run(argv, env=bed.environment, capture_output=True, check=False)
        return CommandOutput(done.returncode, done.stdout, done.stderr)

    made, work = manager("reservation", Backend(run), "root", run=run), Working()
    with opened(tmp_path, make=True) as store:
        taken = take(made(store), ["gpu001"], 300, "a test")
        assert taken.entry is not None
        with LeaseWatch(tmp_path, made, taken.entry, work, beat=BEAT_S) as watch:    # type: ignore[arg-type]
            replies = watch.run([Node("gpu001")], Program("", "", b""), Limits())
            work.end.set()
            assert next(replies).failure is None
            down.set()
            looks = [watch.stood()]
        assert "whether its lease stood to the end is not known" in looks[0]["gpu001"]
        down.clear()
        give_back(made(store), taken.entry, "done")
    assert shown(bed) == {}
