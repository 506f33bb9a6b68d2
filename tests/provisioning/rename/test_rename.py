"""`muster inventory rename`: holds, history and certificate go along, whatever the order."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.baseline.file import dump
from healthcheck.baseline.fileload import as_yaml
from healthcheck.certify.certificate import numbered
from healthcheck.certify.manifest import load_manifest, revoke
from healthcheck.kernellog.model import Baseline, KnownTemplate, Phase, Scope
from healthcheck.model.recording import Host, Recording
from healthcheck.store.cordons import CordonState, open_cordons
from healthcheck.store.file import Store, opened
from healthcheck.store.leases import begin as lease
from healthcheck.store.renaming import rename as rename_in_store
from healthcheck.sweep.snapshots import KeptSnapshots
from inventory.errors import UsageError
from inventory.load import load_inventory
from inventory.model import InKubernetes
from provisioning.actions.base import Backend, Holder
from provisioning.actions.golden import GoldenSet
from provisioning.actions.kubeapi import Api
from provisioning.actions.kubernetes import Kubernetes
from provisioning.bmc import pins
from provisioning.bringup.engine import site as bringup
from provisioning.cli import burninscreen, remediate
from provisioning.lease.runlock import alone
from provisioning.rename import run
from provisioning.rename.holds import carry, check_holds, drop
from provisioning.triage import onerun
from tests.healthcheck.certify.world import head
from tests.testbed.backends import Memory
from tests.testbed.kubernetes import serving
from tests.testbed.marks import muster

SITE = ("version: 1\ncordon: {hostfile: bad}\ngroups: {train: \"gpu[001-004]\"}\nnodes:\n  gpu[001-004]: "
        "{rack: r1}\n")
NOW = 1_795_000_000.0


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "muster.yaml").write_text(SITE)
    return tmp_path


def call(home: Path, *words: str, code: int = 0) -> str:
    done = muster(*words, home=home)
    assert done.returncode == code and "Traceback" not in done.stderr, done.stdout + done.stderr
    return done.stdout + done.stderr


def rename(home: Path, old: str, new: str, *words: str, code: int = 0) -> str:
    return call(home, "inventory", "rename", old, new, "--yes", *words, code=code)


def bad(home: Path) -> str:
    return re.sub(r":[0-9a-f]{4}#", "#", (home / "bad").read_text())


def test_a_cordoned_node_is_held_under_its_new_name_and_given_back_by_it(home: Path) -> None:
    call(home, "cordon", "gpu002", "--reason", "fan")
    said = rename(home, "gpu002", "node9")
    assert said.endswith("gpu002 -> node9: muster#1 in hostfile, the store, muster.yaml\n")
    assert bad(home) == "node9  # muster#1: fan\n"
    assert set(load_inventory(home / "muster.yaml").nodes) == {"gpu001", "gpu003", "gpu004", "node9"}
    assert "node9  muster#1  hostfile" in call(home, "cordon") and call(home, "cordon").endswith("  fan\n")
    assert "no node" in call(home, "uncordon", "gpu002", code=2)
    assert call(home, "uncordon", "node9") == "node9: muster#1 is released\n" and bad(home) == ""


def test_twice_it_is_done_once_and_back_again_all_is_as_before(home: Path) -> None:
    call(home, "cordon", "gpu002", "--reason", "fan")
    before = (home / "muster.yaml").read_text(), bad(home)
    rename(home, "gpu002", "node9")
    assert rename(home, "gpu002", "node9") == "gpu002 has the name node9 already; nothing to change\n"
    rename(home, "node9", "gpu002")
    assert ((home / "muster.yaml").read_text(), bad(home)) == before
    assert call(home, "uncordon", "gpu002") == "gpu002: muster#1 is released\n"


def test_two_nodes_change_their_names_by_way_of_a_third(home: Path) -> None:
    call(home, "cordon", "gpu001", "--reason", "fan")
    call(home, "cordon", "gpu002", "--reason", "DIMM")
    for old, new in (("gpu001", "tmp"), ("gpu002", "gpu001"), ("tmp", "gpu002")):
        rename(home, old, new)
    assert sorted(bad(home).splitlines()) == ["gpu001  # muster#2: DIMM", "gpu002  # muster#1: fan"]
    with opened(home / "state") as store:
        assert {one.node: one.why for one in open_cordons(store)} == {"gpu001": "DIMM", "gpu002": "fan"}


def test_a_node_that_was_renamed_by_hand_first_is_taken_along_afterwards(home: Path) -> None:
    call(home, "cordon", "gpu004", "--reason", "fan")
    (home / "muster.yaml").write_text(SITE.replace("gpu[001-004]", "gpu[001-003],node9"))
    assert "not in the inventory: muster uncordon gpu004" in call(home, "cordon")
    said = call(home, "inventory", "rename", "gpu004", "node9", "--dry-run")
    assert said == "gpu004 -> node9: muster#1 in hostfile, the store; the inventory does not change\n"
    assert bad(home).startswith("gpu004")
    assert call(home, "inventory", "rename", "gpu004", "node9").startswith("gpu004 -> node9: ")
    assert bad(home) == "node9  # muster#1: fan\n"


def test_a_dry_run_shows_what_moves_and_changes_nothing(home: Path) -> None:
    call(home, "cordon", "gpu002", "--reason", "fan")
    said = call(home, "inventory", "rename", "gpu002", "node9", "--dry-run")
    assert "+  gpu[001,003-004],node9: {rack: r1}" in said and "moves: muster#1 in hostfile" in said
    assert (home / "muster.yaml").read_text() == SITE and bad(home) == "gpu002  # muster#1: fan\n"
    call(home, "inventory", "rename", "gpu002", "node9", code=2)       # no terminal to ask on
    assert (home / "muster.yaml").read_text() == SITE


def test_before_the_first_sweep_only_the_inventory_changes_and_no_store_is_made(home: Path) -> None:
    assert rename(home, "gpu001", "a1").endswith("gpu001 -> a1: muster.yaml\n")
    assert not (home / "state").exists() and "a1" in load_inventory(home / "muster.yaml").nodes


@pytest.mark.parametrize(("old", "new", "said"), [
    ("gpu009", "x", "muster: 'gpu009' is known neither to muster.yaml nor to the store\n"),
    ("gpu001", "gpu002", "has a node gpu002 already"),
    ("gpu001", "gpu001", "muster: gpu001 is its name already\n"),
    ("gpu001", "a b", "is not a node name")])
def test_what_cannot_be_is_one_line_and_no_other_node_is_suggested(
    home: Path, old: str, new: str, said: str,
) -> None:
    call(home, "cordon", "gpu003", "--reason", "fan")
    text = rename(home, old, new, code=2)
    assert said in text and text.count("\n") == 1 and "did you mean" not in text
    assert (home / "muster.yaml").read_text() == SITE and bad(home) == "gpu003  # muster#1: fan\n"


def test_a_persons_words_come_along_as_theirs_and_a_line_of_their_own_is_shown(home: Path) -> None:
    call(home, "cordon", "gpu[001-002]", "--reason", "fan")
    (home
     / "bad").write_text(f"{(home / 'bad').read_text().replace('fan', 'fan, Ann: mine', 1)}gpu002  # Bob\n")
    rename(home, "gpu001", "a1")
    assert "a1  # muster#1: fan, Ann: mine\n" in bad(home)
    assert "NOT released" in call(home, "uncordon", "a1", code=1)
    said = rename(home, "gpu002", "a2", code=1)
    assert "note: others hold gpu002 in hostfile, and a2 is another name to it: Bob" in said
    assert "gpu002  # Bob\n" in bad(home) and "a2  # muster#2: fan\n" in bad(home)


def test_a_cordon_that_someone_gave_back_does_not_come_back_with_the_name(home: Path) -> None:
    call(home, "cordon", "gpu001", "--reason", "fan")
    (home / "bad").write_text("")
    rename(home, "gpu001", "a1")
    assert bad(home) == "" and "(someone gave it back)" in call(home, "cordon")


def test_a_cordon_in_a_file_that_was_not_named_is_asked_for(home: Path) -> None:
    call(home, "cordon", "gpu001", "--reason", "fan", "--hostfile", "bad")
    (home / "good").write_text("gpu[001-004]\n")
    call(home, "cordon", "gpu001", "--reason", "fan", "--golden", "good")
    text = rename(home, "gpu001", "a1", code=2)
    assert (f"gpu001 has a cordon in golden, muster#2: add --golden {home / 'good'}, or give it back first: "
            "muster uncordon gpu001") in text
    assert (home / "muster.yaml").read_text() == SITE
    rename(home, "gpu001", "a1", "--golden", "good")
    assert "a1  # muster#1: fan" in bad(home)
    assert call(home, "uncordon", "a1", "--golden", "good",
                code=1).startswith("a1: muster#2 is released; hostfile holds it")
    assert (home / "good").read_text() == "gpu[002-004]\na1\n"


def test_cordons_in_two_host_files_both_come_along_where_both_are_named(home: Path) -> None:
    for file in ("spare", "other"):
        call(home, "cordon", "gpu001", "--hostfile", file, "--reason", "loan")
    text = rename(home, "gpu001", "a1", "--hostfile", "spare", code=2)
    assert f"add --hostfile {home / 'other'}" in text and (home / "muster.yaml").read_text() == SITE
    rename(home, "gpu001", "a1", "--hostfile", "spare", "--hostfile", "other")
    for file in ("spare", "other"):
        assert (home / file).read_text().startswith("a1  # ")
        assert "is released" in call(home, "uncordon", "a1", "--hostfile", file,
                                     code=1 if file == "spare" else 0)
        assert (home / file).read_text() == ""


def test_what_holds_the_new_name_already_is_in_the_way(home: Path) -> None:
    call(home, "cordon", "gpu001", "--reason", "fan")
    (home / "bad").write_text((home / "bad").read_text() + "a1  # Bob\n")
    assert "a1 is held in hostfile already: Bob; and gpu001 is cordoned there" in rename(home, "gpu001", "a1",
                                                                                         code=2)
    assert (home / "muster.yaml").read_text() == SITE


def test_a_node_that_is_leased_is_not_renamed_under_its_users(home: Path) -> None:
    with opened(home / "state", make=True) as store:
        lease(store, "cordon", "hostfile", ["gpu001", "gpu002"], "burn-in", "ann", "{}", NOW, NOW + 60)
    assert "gpu002 is leased (" in rename(home, "gpu002", "a2", code=2)
    assert rename(home, "gpu003", "a3")


@pytest.mark.parametrize("lock", [onerun.LOCK, bringup.LOCK, remediate._LOCK, "screen.lock"])
def test_what_acts_on_nodes_by_their_names_is_waited_for(home: Path, lock: str) -> None:
    (home / "state").mkdir()
    with alone(home / "state", lock, "something"):
        assert " is running: " in rename(home, "gpu001", "a1", code=2)
    assert (home / "muster.yaml").read_text() == SITE
    assert lock in inspect.getsource(burninscreen) or lock != "screen.lock"


def test_a_rename_at_work_is_named_to_whoever_waits_for_it(home: Path) -> None:
    (home / "state").mkdir()
    with alone(home / "state", "triage.lock", "triage", "inventory rename"):
        assert "another muster inventory rename is running: " in rename(home, "gpu001", "a1", code=2)


def test_another_machine_of_the_new_name_keeps_its_history_to_itself(home: Path) -> None:
    with opened(home / "state", make=True) as store, store.writing() as db:
        for number, (name, began,
                     seen) in enumerate((("gpu001", NOW, NOW + 60), ("old9", NOW - 90, NOW + 30)), 1):
            db.execute("INSERT INTO node (id, name) VALUES (?, ?)", (number, name))
            db.execute(
                "INSERT INTO spell (node, state, reason, began, seen, sweeps) VALUES (?, 'healthy', '', "
                "?, ?, 1)",
                (number, began, seen))
    text = rename(home, "gpu001", "old9", code=2)
    assert "the store has another machine as old9, last swept 2026-11-18T" in text
    rename(home, *text.rsplit("rename ", 1)[1].split())
    rename(home, "gpu001", "old9")
    with opened(home / "state") as store:
        assert [row[0] for row in store.rows("SELECT name FROM node ORDER BY id")] == ["old9", "old9-old"]


def test_one_machine_by_its_chassis_has_one_history_whatever_the_order(home: Path) -> None:
    with opened(home / "state", make=True) as store, store.writing() as db:
        db.execute(
            "INSERT INTO component (id, kind, serial) VALUES (1, 'chassis', 'C1'), (2, 'chassis', 'C2')")
        for number, (name, part) in enumerate((("gpu001", 1), ("new1", 1), ("gpu002", 1), ("new2", 2)), 1):
            db.execute("INSERT INTO node (id, name) VALUES (?, ?)", (number, name))
            db.execute(
                "INSERT INTO spell (node, state, reason, began, seen, sweeps) VALUES (?, 'healthy', '', "
                "?, ?, 1)",
                (number, NOW, NOW + 60))
            db.execute("INSERT INTO seat (component, node, slot, began, seen) VALUES (?, ?, 'chassis', ?, ?)",
                       (part, number, NOW, NOW + 60))
    rename(home, "gpu001", "new1")
    assert "another machine as new2" in rename(home, "gpu002", "new2", code=2)


# back ends that know their nodes

@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path / "state", make=True) as opened_:
        yield opened_


def cordoned(store: Store, back: Backend, node: str) -> str:
    from provisioning.actions.cordon import cordon

    assert cordon(store, back, [node], "fan", "ann", lambda: NOW)[0].held
    return str(open_cordons(store, [node])[0].mark)


def test_a_scheduler_that_does_not_know_the_new_name_yet_is_waited_for(store: Store) -> None:
    back = Memory(["a", "c"])
    cordoned(store, back, "a")
    with pytest.raises(UsageError, match="memory does not know b yet, and a is cordoned there as muster:"):
        check_holds(store, [back], "a", "b")


@pytest.mark.parametrize("still_there", [True, False])
def test_a_scheduler_holds_the_new_name_before_the_store_changes_and_the_old_one_for_good(
    store: Store, still_there: bool,
) -> None:
    back = Memory(["a", "b"])
    mark = cordoned(store, back, "a")
    if not still_there:
        del back.reasons["a"]
    assert check_holds(store, [back], "a", "b") == [f"{mark} in memory"]
    holds = carry(store, [back], "a", "b")
    assert back.reasons["b"] == f"{mark}: fan" and [one.node for one in open_cordons(store)] == ["a"]
    rename_in_store(store, "a", "b", "ann", NOW, holds)
    left = drop(store, [back], "a", "b")
    if still_there:
        assert back.reasons["a"] == f"{mark}: fan" and left == [
            f"memory still has a, which stays held as {mark}: when that name is gone there, nothing is to be "
            f"done; to give it back: muster uncordon --mark '{mark}' --reason TEXT"]
    else:
        assert left == [] and "a" not in back.reasons
    assert [(one.node, str(one.mark), one.state)
            for one in open_cordons(store)] == [("b", mark, CordonState.HELD)]


def test_a_node_of_kubernetes_by_its_label_is_the_same_node_under_the_new_name(tmp_path: Path,
                                                                               store: Store) -> None:
    with serving(tmp_path) as bed:
        bed.add("w1", {"example.org/machine": "a"})
        back = Kubernetes(InKubernetes(label="example.org/machine"), Api(str(bed.config)))
        mark = cordoned(store, back, "a")
        with pytest.raises(UsageError, match="does not know b yet"):
            check_holds(store, [back], "a", "b")
        bed.patch("w1", {"metadata": {"labels": {"example.org/machine": "b"}}})
        assert check_holds(store, [back], "a", "b") == []
        rename_in_store(store, "a", "b", "ann", NOW, carry(store, [back], "a", "b"))
        assert drop(store, [back], "a", "b") == [] and back.held(["b"])["b"].holder is Holder.US
        assert str(open_cordons(store, ["b"])[0].mark) == mark


def test_the_good_nodes_that_stood_in_one_set_are_given_back_whatever_was_renamed(tmp_path: Path,
                                                                                  store: Store) -> None:
    (tmp_path / "good").write_text("# row 1\ngpu[1-3]  # best\n")
    back = GoldenSet(tmp_path / "good")
    for node in ("gpu1", "gpu2", "gpu3"):
        cordoned(store, back, node)
    holds = carry(store, [back], "gpu1", "x1")
    assert back.held(["gpu1", "x1"])["gpu1"].holder is back.held(["x1"])["x1"].holder is Holder.US
    rename_in_store(store, "gpu1", "x1", "ann", NOW, holds)
    assert drop(store, [back], "gpu1", "x1") == []
    for node in ("gpu2", "x1", "gpu3"):
        back.release(node)
    lines = (tmp_path / "good").read_text().splitlines()
    assert lines[0] == "# row 1" and sorted(lines[1:]) == ["gpu[2-3]  # best", "x1"]


# files of the state folder and of the rules

def test_certificate_snapshot_pin_evidence_and_baselines_are_of_the_new_name(tmp_path: Path) -> None:
    state, rules = tmp_path / "state", tmp_path / "rules"
    made = head(state)
    made.certify("a", "c")
    revoke(state, ["a"], "leak", "ann", NOW)
    pins.write(state, {"a": "0" * 64}, {})
    kept = KeptSnapshots(state)
    kept.prepare()
    kept.write(Recording("a", NOW, Host("a.local", "boot1", NOW, 0, "3.11", "x86_64", 0.1), None), None)
    (state / "evidence" / "a" / "20261101T000000Z").mkdir(parents=True)
    (rules / "baseline").mkdir(parents=True)
    known = KnownTemplate("x <n>", (Phase.KERNEL,), 2, 1, 1, 1, "x 1", "2026-11-01", "2026-11-01", "ann",
                          "seen", on="a,d")
    baseline = Baseline("one", Scope("", "", "", ""), 3, 3, {known.template: known}, first="2026-11-01",
                        last="2026-11-01",
                        learned_boots={"a": ("b1",), "d": ("b2",), "e": ("b3",)})
    (rules / "baseline" / "one.yaml").write_text(dump(baseline))
    want = run.RenameRequest("a", "b", state, [rules], [], "moved", "ann")
    for _ in range(2):
        run.rename(want, lambda: None, lambda: NOW)
        manifest = load_manifest(state)
        assert set(manifest.nodes) == {"b", "c"} and manifest.nodes["b"] == numbered("b", manifest.nodes["b"])
        gone = manifest.revocation("b")
        assert gone is not None and (gone.node, gone.why) == ("b", "leak")
        assert pins.read(state) == {"b": "0" * 64}
        assert [path.name for path in (state / "evidence").iterdir()] == ["b"]
        snapshot = kept.read("b")
        assert snapshot is not None and (snapshot.node,
                                         snapshot.received) == ("b", NOW) and kept.read("a") is None
        after, _ = as_yaml(rules / "baseline" / "one.yaml")
        assert after == replace(baseline, learned_boots={"b": ("b1",), "d": ("b2",), "e": ("b3",)},
                                file=after.file, name=after.name,
                                known={known.template: replace(known, on="b,d")})


def test_two_pins_are_two_machines(tmp_path: Path) -> None:
    pins.write(tmp_path, {"a": "0" * 64, "b": "1" * 64}, {})
    with pytest.raises(UsageError,
                       match="a and b have different certificates pinned: one of them is another machine"):
        run.check(run.RenameRequest("a", "b", tmp_path, [], [], "", "ann"))
