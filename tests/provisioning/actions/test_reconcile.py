"""After a restore, back ends and store come together: each mark listed, releasable, numbered once."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Collection
from contextlib import closing
from pathlib import Path

import pytest

from healthcheck.store import waiting
from healthcheck.store.cordons import CordonState, mean, open_cordons
from healthcheck.store.file import NAME, Store, opened
from healthcheck.store.ledger import lines
from healthcheck.store.marks import CordonMark
from healthcheck.store.restore import Restored, restore
from healthcheck.store.strays import StrayKind
from provisioning.actions.base import Holder, SupportsMarks, reason_with_mark, unlisted
from provisioning.actions.command import CommandBackend, ListingCommand
from provisioning.actions.cordon import cordon, uncordon
from provisioning.actions.hostfile import HostFile
from provisioning.actions.reconcile import Reconciled, reconcile
from provisioning.triage.apply import resolve_lost
from tests.command import muster
from tests.testbed.backends import CommandSite, Site
from tests.testbed.slurm import fixture_of

NOW = 1_795_000_000.0
NODES = ["n1", "n2", "n3", "n4"]


class Head:
    """A head, its back end, and a copy of its store from some time ago."""

    def __init__(self, at: Path) -> None:
        self.at, self.state, self.copy, self.bad = at, at / "state", at / "copy.db", HostFile(at / "bad")
        self.now = NOW
        self.cordoned("n1", "n2")
        with opened(self.state) as store:
            store.backup(self.copy)

    def clock(self) -> float:
        self.now += 1
        return self.now

    def cordoned(self, *nodes: str, why: str = "fan") -> None:
        with opened(self.state, make=True) as store:
            assert all(not one.failed for one in cordon(store, self.bad, nodes, why, "ann", self.clock))

    def released(self, *nodes: str) -> None:
        with opened(self.state) as store:
            assert all(not one.failed for one in uncordon(store, self.bad, nodes, "fit", "ann", self.clock))

    def restored(self, *, waits: tuple[CordonMark, ...] = ()) -> tuple[Restored, Reconciled]:
        found: list[Reconciled] = []

        def also(store: Store) -> None:
            found.append(reconcile(store, [self.bad], NODES, "ann", self.clock, waiting=waits))

        made = restore(self.copy, self.state, "ann", self.clock(), replace=True, also=also)
        return made, found[0]

    def known(self) -> dict[str, str]:
        with opened(self.state) as store:
            assert store.check() == []
            return {one.node: str(one.mark) for one in open_cordons(store)}

    def shown(self) -> dict[str, str]:
        held = self.bad.held(NODES)
        return {node: str(one.mark) for node, one in held.items() if one.mark is not None}


@pytest.fixture
def head(tmp_path: Path) -> Head:
    return Head(tmp_path)


def test_what_was_cordoned_after_the_copy_is_listed_under_its_mark_and_can_be_released(head: Head) -> None:
    head.cordoned("n3", why="Xid 79")
    shown = head.shown()
    _, found = head.restored()
    assert [(one.node, str(one.mark), one.why) for one in found.taken] == [("n3", shown["n3"], "Xid 79")]
    assert head.known() == shown == head.shown() and found.over == found.strays == ()
    head.released("n3")
    assert head.shown() == {node: mark for node, mark in shown.items() if node != "n3"} == head.known()


def test_no_number_of_a_lost_cordon_is_given_again(head: Head) -> None:
    head.cordoned("n3")
    lost = head.bad.held(["n3"])["n3"].number
    head.restored()
    head.cordoned("n4")
    new = head.bad.held(["n4"])["n4"].number
    assert lost is not None and new is not None and new > lost


def test_what_was_released_after_the_copy_is_over_and_its_verdict_with_it(head: Head) -> None:
    head.released("n1")
    _, found = head.restored()
    assert [one.node for one in found.over] == ["n1"] and list(head.known()) == ["n2"]
    with opened(head.state) as store:
        assert store.rows("SELECT state FROM cordon WHERE node = 'n1'")[0][0] == CordonState.RELEASED.value
    head.cordoned("n1")     # and it can be cordoned again
    assert head.known() == head.shown()


def test_released_and_cordoned_again_after_the_copy_the_newer_mark_holds(head: Head) -> None:
    head.released("n1")
    head.cordoned("n1", why="again")
    head.restored()
    assert head.known() == head.shown()
    with opened(head.state) as store:
        assert [row[0] for row in store.rows("SELECT state FROM cordon WHERE node = 'n1' ORDER BY id")] == [
            CordonState.VOID.value, CordonState.HELD.value]


@pytest.mark.parametrize("times", [1, 2, 3])
def test_restored_again_and_again_nothing_changes_any_more(head: Head, times: int) -> None:
    head.cordoned("n3")
    head.released("n2")
    for _ in range(times):
        head.restored()
        assert head.known() == head.shown() and sorted(head.shown()) == ["n1", "n3"]
        with opened(head.state) as store:
            twice = reconcile(store, [head.bad], NODES, "ann", head.clock)
        assert twice == Reconciled("hostfile", (), (), ())


def test_a_store_that_was_there_meanwhile_is_ours_too(head: Head) -> None:
    shutil.rmtree(head.state)
    head.cordoned("n4", why="on a new store, under a new name")
    made, found = head.restored()
    assert [one.node for one in found.taken] == ["n4"] and len(made.was) == 2
    assert head.known() == head.shown()


def test_a_mark_of_a_stranger_is_left_to_people_and_a_number_that_is_another_cordons_too(head: Head) -> None:
    with opened(head.state) as store:
        (ours,) = (one.mark for one in open_cordons(store, ["n1"]))
    head.bad.isolate("n3", "muster:beef#7: theirs")
    head.bad.isolate("n4", reason_with_mark(ours, "copied by hand"))
    _, found = head.restored()
    assert {one.node: one.kind for one in found.strays} == {"n3": StrayKind.STORE, "n4": StrayKind.NUMBER}
    assert found.taken == () and sorted(head.known()) == ["n1", "n2"]


def test_a_number_beyond_all_reason_does_not_move_the_counter(head: Head) -> None:
    with opened(head.state) as store:
        (ours,) = (one.mark for one in open_cordons(store, ["n1"]))
    head.bad.isolate("n3", f"muster:{ours.store}#999999999999: a typing error")
    head.restored()
    assert head.known() == head.shown()
    head.cordoned("n4")
    number = head.bad.held(["n4"])["n4"].number
    assert number is not None and number < 100


def test_what_waits_for_the_store_is_taken_in_by_itself_and_once(head: Head) -> None:
    one = waiting.WaitingCordon(CordonMark("deadbeef", 1), "n3", "hostfile", "smoke", "ann", NOW, held=True)
    head.bad.isolate("n3", reason_with_mark(one.mark, one.why))
    waiting.begin(head.state, one)
    waiting.finish(head.state, one)
    _, found = head.restored(waits=(one.mark,))
    assert found.taken == found.strays == () and head.known() == head.shown()


def test_of_two_files_what_either_shows_is_not_over(head: Head) -> None:
    other = HostFile(head.at / "other")
    with opened(head.state) as store:
        cordon(store, other, ["n3"], "in the other file", "ann", head.clock)
        store.backup(head.copy)
    done = muster("store", "restore", str(head.copy), "--replace", "--hostfile",
                  str(head.bad.path), "--hostfile",
                  str(other.path), home=head.at)
    assert done.returncode == 0 and "released after" not in done.stdout, done
    assert sorted(head.known()) == ["n1", "n2", "n3"]


def test_where_no_back_end_can_be_asked_it_is_restored_and_said_and_done_later(head: Head) -> None:
    head.cordoned("n3")
    done = muster("store", "restore", str(head.copy), "--replace", home=head.at, PATH="/nowhere")
    assert done.returncode == 0 and "note: no back end was asked for marks" in done.stderr, done
    assert "muster store reconcile" in done.stderr and sorted(head.known()) == ["n1", "n2"]
    refused = muster("store", "reconcile", home=head.at, PATH="/nowhere")
    assert refused.returncode == 1 and "no back end was asked" in refused.stderr
    (head.at / "muster.yaml").write_text("version: 1\ncordon: {hostfile: bad}\nnodes:\n  n[1-4]:\n")
    done = muster("store", "reconcile", home=head.at)
    assert done.returncode == 0 and "taken in, as made after the copy: n3" in done.stdout, done
    assert "muster uncordon n3" in done.stdout and head.known() == head.shown()
    assert "nothing to take in: hostfile" in muster("store", "reconcile", home=head.at).stdout


def test_a_back_end_that_cannot_be_read_does_not_keep_the_store_from_being_restored(head: Head) -> None:
    (head.at / "muster.yaml").write_text("version: 1\ncordon: {hostfile: bad}\nnodes:\n  n[1-4]:\n")
    head.bad.path.unlink()
    head.bad.path.mkdir()
    done = muster("store", "restore", str(head.copy), "--replace", home=head.at)
    assert done.returncode == 0 and "hostfile could not be asked for marks" in done.stderr, done
    assert sorted(head.known()) == ["n1", "n2"]


def own_wal(copy: Path, head: Head) -> None:
    with opened(head.state) as store:
        assert mean(store, "n4", "hostfile", "late", "ann", NOW) is not None
        for end in ("", "-wal", "-shm"):
            shutil.copyfile(f"{head.state / NAME}{end}", f"{copy}{end}")


def foreign_wal(copy: Path, head: Head) -> None:
    with opened(head.at / "other", make=True) as store:
        for number in range(40):
            mean(store, f"x{number}", "hostfile", "theirs", "bob", NOW)
        for end in ("-wal", "-shm"):
            shutil.copyfile(f"{head.at / 'other' / NAME}{end}", f"{copy}{end}")


def foreign_wal_of_a_copied_store(copy: Path, head: Head) -> None:
    with opened(head.state):
        pass
    shutil.copyfile(head.state / NAME, copy)
    foreign_wal(copy, head)


def wal_of_an_older_state(copy: Path, head: Head) -> None:
    with opened(head.state) as store:
        with store.writing() as db:
            db.execute("UPDATE cordon SET why = 'older'")
        wal = (head.state / f"{NAME}-wal").read_bytes()
    head.cordoned("n3")
    shutil.copyfile(head.state / NAME, copy)
    Path(f"{copy}-wal").write_bytes(wal)


def hot_journal(copy: Path, head: Head) -> None:
    with closing(sqlite3.connect(copy, isolation_level=None)) as writer:
        writer.execute("PRAGMA cache_size=1")
        writer.execute("BEGIN IMMEDIATE")
        writer.executemany("INSERT INTO node (name) VALUES (?)",
                           [(f"x{number}" * 50,) for number in range(3000)])
        writer.execute("UPDATE cordon SET state = 'void', ended = 1")
        writer.execute(
            "INSERT INTO ledger (id, time, who, action, node, why, evidence) VALUES (999, 1, '', '', "
            "'', '', '')")
        shutil.copyfile(copy, f"{copy}.cut")
        shutil.copyfile(f"{copy}-journal", f"{copy}.cut-journal")
        writer.execute("ROLLBACK")
    for end in ("", "-journal"):
        Path(f"{copy}.cut{end}").replace(f"{copy}{end}")


@pytest.mark.parametrize(("beside", "taken", "left", "nodes"), [
    (own_wal, ("copy.db-wal",), (), ["n1", "n2", "n4"]), (foreign_wal, (), ("copy.db-wal",), ["n1", "n2"]),
    (hot_journal, ("copy.db-journal",), (), ["n1", "n2"]),
    (foreign_wal_of_a_copied_store, (), ("copy.db-wal",), ["n1", "n2"]),
    (wal_of_an_older_state, (), ("copy.db-wal",), ["n1", "n2", "n3"]),
])
def test_a_journal_beside_the_copy_is_taken_in_if_it_is_its_own(
    head: Head, beside: Callable[[Path, Head], None], taken: tuple[str, ...], left: tuple[str, ...],
    nodes: list[str],
) -> None:
    beside(head.copy, head)
    before = {path.name: path.read_bytes() for path in head.at.glob("copy.db*")}
    made = restore(head.copy, head.at / "new", "ann", NOW)
    assert (made.taken, made.left_out) == (taken, left)
    with opened(head.at / "new") as store:
        assert store.check() == [] and sorted(one.node for one in open_cordons(store)) == nodes
    assert {path.name: path.read_bytes() for path in head.at.glob("copy.db*")} == before


def test_a_copy_put_there_by_hand_beside_an_older_journal_is_not_damaged_and_the_message_leads_out(
    head: Head,
) -> None:
    with opened(head.state) as store:
        assert mean(store, "n3", "hostfile", "late", "ann", NOW) is not None
        wal = (head.state / f"{NAME}-wal").read_bytes()
    shutil.copyfile(head.copy, head.state / NAME)
    (head.state / f"{NAME}-wal").write_bytes(wal)
    whole = head.copy.read_bytes()
    for words in (("nodes",), ("cordon",), ("history",), ("store", "check")):
        done = muster(*words, home=head.at)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 + (words == ("cordon",)), (words, done)
        assert "beside the journal muster.db-wal of the store before it" in done.stderr
        assert (head.state / NAME).read_bytes() == whole
    path = head.state / NAME
    path.rename(f"{path}.copy")
    done = muster("store", "restore", f"{path}.copy", "--hostfile", str(head.bad.path), home=head.at)
    assert done.returncode == 0 and sorted(head.known()) == ["n1", "n2"], done
    assert not (head.state / f"{NAME}-wal").exists()


def test_a_store_that_is_missing_and_left_a_journal_is_not_made_anew(head: Head) -> None:
    with opened(head.state) as store:
        assert mean(store, "n3", "hostfile", "late", "ann", NOW) is not None
        wal = (head.state / f"{NAME}-wal").read_bytes()
    (head.state / NAME).unlink()
    (head.state / f"{NAME}-wal").write_bytes(wal)
    done = muster("cordon", home=head.at)
    assert done.returncode == 2 and "the store is missing, but its journal" in done.stderr, done
    assert (head.state / f"{NAME}-wal").read_bytes() == wal


def test_moved_to_another_head_one_acts_and_the_other_says_so(head: Head) -> None:
    (head.at
     / "muster.yaml").write_text(f"version: 1\ncordon: {{hostfile: {head.bad.path}}}\nnodes:\n  n[1-4]:\n")
    target = head.at / "moved.db"
    done = muster("store", "move", str(target), home=head.at)
    assert (done.returncode == 0
            and f"moved to {target}: 2 cordons; this head no longer acts" in done.stdout), done
    for words in (("nodes",), ("triage",), ("triage", "--apply"), ("cordon", "n3", "--reason", "x"),
                  ("uncordon", "n1"),
                  ("cordon",), ("gate", "publish"), ("store", "prune", "--older", "9d"),
                  ("store", "move", str(target))):
        done = muster(*words, home=head.at)
        assert done.returncode == 2 and "moved" in done.stderr and "n3" not in head.shown(), (words, done)
    assert muster("store", "check", home=head.at).returncode == 0
    (head.at / "second").mkdir()
    shutil.copyfile(head.at / "muster.yaml", head.at / "second" / "muster.yaml")
    done = muster("store", "restore", str(target), home=head.at / "second", code=0)
    done = muster("uncordon", "n1", home=head.at / "second")
    assert done.returncode == 0 and sorted(head.shown()) == ["n2"], done
    done = muster("store", "move", "--back", home=head.at)
    assert done.returncode == 0 and "make sure that no other head" in done.stdout
    assert muster("cordon", home=head.at).returncode == 0
    assert muster("store", "move", "--back", home=head.at).returncode == 2
    with opened(head.state) as store:
        assert [line.outcome
                for line in lines(store) if line.action.startswith("move")] == ["moved", "kept here"]


def test_a_move_onto_the_store_itself_or_into_no_folder_is_refused_and_the_head_acts_on(head: Head) -> None:
    for target, words in ((head.state / NAME, "is the store itself"),
                          (head.at / "no" / "x.db", "there is no folder")):
        done = muster("store", "move", str(target), home=head.at)
        assert done.returncode == 2 and words in done.stderr, done
        assert muster("cordon", home=head.at).returncode == 0
    for wrong in ((), (str(head.at / "x.db"), "--back")):
        assert muster("store", "move", *wrong, home=head.at).returncode == 2


def test_a_writer_that_had_the_store_open_when_it_was_moved_writes_no_more(head: Head) -> None:
    with opened(head.state) as early:
        assert muster("store", "move", str(head.at / "moved.db"), home=head.at).returncode == 0
        with pytest.raises(Exception, match="this head no longer acts"):
            mean(early, "n3", "hostfile", "late", "ann", NOW)


bed = fixture_of(NODES)


@pytest.fixture(params=["golden", "command", "slurm", *(
    pytest.param(kind, marks=pytest.mark.slow) for kind in ("listing command", "kubernetes"))])
def site(request: pytest.FixtureRequest, site_of: Callable[[str, Collection[str]], Site]) -> Site:
    one = site_of(request.param.removeprefix("listing "), NODES)
    if request.param == "listing command":
        assert isinstance(one.backend, CommandBackend)
        one.backend = ListingCommand(one.backend.argv, 30, one.backend.argv)
    return one


def test_every_back_end_and_the_restored_store_come_together(site: Site, tmp_path: Path) -> None:
    clock = iter(range(2_000_000_000, 2_000_001_000)).__next__
    state, copy = tmp_path / "state", tmp_path / "copy.db"

    def now() -> float:
        return float(clock())

    with opened(state, make=True) as store:
        assert all(not one.failed for one in cordon(store, site.backend, ["n1", "n2"], "fan", "ann", now))
        store.backup(copy)
        uncordon(store, site.backend, ["n1"], "fit", "ann", now)
        assert all(not one.failed for one in cordon(store, site.backend, ["n3", "n4"], "late", "ann", now))
    found: list[Reconciled] = []

    def also(store: Store) -> None:
        # n4 is in the inventory no more, and the copy has never heard of it
        found.append(reconcile(store, [site.backend], ["n1", "n2", "n3"], "ann", now))

    restore(copy, state, "ann", now(), replace=True, also=also)
    listing = isinstance(site.backend, SupportsMarks)
    assert sorted(one.node for one in found[0].taken) == ["n3", "n4"][:1 + listing]
    assert [one.node for one in found[0].over] == ["n1"] and found[0].strays == ()
    assert bool(unlisted(site.backend)) is not listing
    with opened(state) as store:
        assert store.check() == []
        assert reconcile(store, [site.backend], NODES[:3], "ann", now) == Reconciled(
            site.backend.name, (), (), ())
        nodes = ["n2", "n3", "n4"][:2 + listing]
        assert all(not one.held and not one.failed
                   for one in uncordon(store, site.backend, nodes, "fit", "ann", now))
    held = site.backend.held(NODES)
    assert all(held[node].holder is Holder.NO_ONE for node in nodes)


def test_a_command_that_cannot_list_its_marks_says_so_where_they_are_listed(tmp_path: Path) -> None:
    site = CommandSite(tmp_path, NODES)
    assert isinstance(site.backend, CommandBackend)
    (program,) = site.backend.argv
    site.hold("n4", "muster:beef#7: left by another head")
    for lists, finds in (("", False), (f", list: [{program}]", True)):
        (tmp_path / "muster.yaml").write_text(
            f"version: 1\ncordon: {{command: [{program}]{lists}}}\nnodes:\n  n[1-3]:\n")
        done = muster("cordon", home=tmp_path)
        assert ("n4  muster:beef#7" in done.stdout,
                "cannot list its marks" in done.stderr) == (finds, not finds)
        assert muster("cordon", "n1", "--reason", "x", home=tmp_path).returncode == 0
        done = muster("store", "reconcile", home=tmp_path)
        assert done.returncode == 0 and ("cannot list its marks" in done.stderr) is not finds, done


def test_of_two_files_of_one_kind_what_the_other_holds_is_neither_released_nor_lost(head: Head) -> None:
    other = HostFile(head.at / "other")
    with opened(head.state) as store:
        assert all(not one.failed
                   for one in cordon(store, other, ["n1", "n3"], "in the other", "ann", head.clock))
        store.backup(head.copy)
    _, found = head.restored()      # only the first file is given
    assert found.over == ()
    said = muster("store", "reconcile", "--hostfile", str(head.bad.path), home=head.at)
    assert f"there are cordons in hostfile {other.path}, which was not asked" in said.stderr, said
    with opened(head.state) as store:
        assert [one.node for one in open_cordons(store)] == ["n1", "n2", "n1", "n3"]
        assert resolve_lost(store, head.bad, "triage", head.clock) == [] and len(open_cordons(store)) == 4
    said = muster("uncordon", "n1", "--hostfile", str(head.bad.path), home=head.at)
    assert said.returncode == 1 and f"muster uncordon n1 --hostfile {other.path}" in said.stdout, said
    assert muster("uncordon", "n1,n3", "--hostfile", str(other.path), home=head.at).returncode == 0
    assert other.path.read_text().strip() == "" and sorted(head.shown()) == ["n2"]
