"""`muster cordon` lists every hold in our form, `muster uncordon` ends each, and says what is free."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from healthcheck.store import renaming
from healthcheck.store.file import opened
from tests.command import muster as named
from tests.testbed.marks import muster

SITE = ("version: 1\ncordon: {hostfile: bad}\ngroups: {train: \"gpu[001-004]\"}\nnodes:\n  gpu[001-004]: "
        "{rack: r1}\n")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "muster.yaml").write_text(SITE)
    return tmp_path


def run(home: Path, *words: str) -> tuple[int, str]:
    done = muster(*words, home=home)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def bad(home: Path) -> str:
    return (home / "bad").read_text()


def restored(home: Path) -> str:
    """A head whose store somebody has copied over by one of before its newest cordon, on gpu002; gives the
    mark of that."""
    assert run(home, "cordon", "gpu001", "--reason", "fan")[0] == 0
    assert run(home, "store", "backup", "copy.db")[0] == 0
    assert run(home, "cordon", "gpu002", "--reason", "newer than the copy")[0] == 0
    (path,) = home.glob("**/muster.db")
    shutil.copyfile(home / "copy.db", path)
    found = re.search(r"gpu002  # (muster:\w+#\d+): newer", bad(home))
    assert found is not None
    return found[1]


def test_a_cordon_that_is_newer_than_the_restored_store_is_listed_with_the_command_that_ends_it(
    home: Path,
) -> None:
    mark = restored(home)
    shown = named("cordon", home=home)
    (line,) = [line for line in shown.stdout.splitlines() if line.startswith("gpu002")]
    assert line == (f"gpu002  {mark}  hostfile  ours, without an open cordon in this store: newer than the "
                    f"copy; to end it: muster uncordon --mark '{mark}' --reason TEXT")
    done = named("uncordon", "gpu002", home=home)
    assert (done.returncode, done.stdout) == (
        1, f"gpu002: there is no cordon of ours; {mark} holds it, which this store has no open cordon for: "
        f"muster uncordon --mark '{mark}' --reason TEXT\n")
    typed = shlex.split(line.partition("to end it: muster ")[2])
    done = named(*typed, home=home)
    assert (done.returncode, done.stdout) == (0, f"gpu002: {mark} is removed; it goes back to jobs\n")
    assert ("gpu002" not in bad(home) and "gpu001" in bad(home)
            and "gpu002" not in named("cordon", home=home).stdout)
    assert named("uncordon", "gpu002", home=home).returncode == 0


def test_a_mark_of_ours_is_ended_by_its_number_and_a_persons_words_beside_it_are_not(home: Path) -> None:
    run(home, "cordon", "gpu[001-003]", "--reason", "fan")
    marks = dict(re.findall(r"(gpu\d+)  # (muster:\w+#\d+):", bad(home)))
    done = named("uncordon", "--mark", marks["gpu001"], "--mark", f"{marks['gpu003']}:", home=home)
    assert (done.returncode, done.stdout) == (
        0, f"gpu001: {marks['gpu001']} is released\ngpu003: {marks['gpu003']} is released\n")
    again = named("uncordon", "--mark", marks["gpu001"], home=home)
    assert again.returncode == 0 and "is over since" in again.stdout
    (home / "bad").write_text(bad(home).replace("fan", "KEEP DOWN, Ann"))
    refused = named("uncordon", "--mark", marks["gpu002"], home=home)
    assert refused.returncode == 1 and "NOT released" in refused.stdout and "KEEP DOWN, Ann" in bad(home)


def test_a_persons_words_beside_a_mark_that_is_over_are_theirs_too(home: Path) -> None:
    run(home, "cordon", "gpu001", "--reason", "fan")
    was = bad(home)
    mark = was.partition("# ")[2].partition(": fan")[0]
    run(home, "uncordon", "gpu001")
    (home / "bad").write_text(was.replace("fan", "fan; Ann: keep it"))
    done = named("uncordon", "--mark", mark, home=home)
    assert done.returncode == 1 and "it is a person's" in done.stdout and "Ann: keep it" in bad(home)
    (home / "bad").write_text(f"{was}gpu001  # Ann, too\n")
    done = named("uncordon", "--mark", mark, home=home)
    assert (done.returncode == 1 and bad(home) == "gpu001  # Ann, too\n"
            and "others hold it: Ann, too" in done.stdout)


@pytest.mark.parametrize(("words", "said"), [
    (("--mark", "gpu001"), "--mark is 'gpu001', expected a mark such as muster:7f3a#12; see: muster cordon"),
    (("gpu001", "--mark", "muster#1"), "NODES or --mark is expected, one of them"),
    ((), "NODES or --mark is expected, one of them")])
def test_what_is_no_mark_is_one_line(home: Path, words: tuple[str, ...], said: str) -> None:
    run(home, "cordon", "gpu001", "--reason", "fan")
    done = named("uncordon", *words, home=home)
    assert done.returncode == 2 and done.stderr.startswith(f"muster: {said}") and done.stderr.count("\n") == 1


def test_a_mark_that_no_node_shows_is_no_success(home: Path) -> None:
    run(home, "cordon", "gpu001", "--reason", "fan")
    assert run(home, "uncordon", "--mark", "muster:beef#9") == (
        1, "muster#9: no node shows it in hostfile; see: muster cordon\n")


def test_a_cordon_of_a_removed_node_is_listed_with_the_command_of_the_back_end_that_it_is_in(
        home: Path) -> None:
    other = str(home / "other")
    run(home, "cordon", "gpu004", "--reason", "fan")
    run(home, "cordon", "gpu003", "--reason", "fan", "--hostfile", other)
    (home / "muster.yaml").write_text(SITE.replace("gpu[001-004]", "gpu[001-002]"))
    file = {"gpu003": other, "gpu004": str(home / "bad")}
    for more in ((), ("--hostfile", other)):
        listed = re.findall(r"not in the inventory: muster uncordon (\w+)(?: --hostfile (\S+))?\)\n",
                            run(home, "cordon", *more)[1])
        assert {node: where or file["gpu004"] for node, where in listed} == file
    assert run(home, "uncordon", "gpu003", "--hostfile", other)[0] == 0
    assert run(home, "uncordon", "gpu004")[0] == 0


@pytest.mark.parametrize("after",
                         [SITE.replace("gpu[001-004]: ", "gpu[001-003]: ").replace("[001-004]", "[001-003]"),
                          SITE.replace("gpu[001-004]", "gpu[001-003],node9")])
def test_a_node_that_left_the_inventory_is_listed_and_given_back_under_its_own_name(
    home: Path, after: str,
) -> None:
    run(home, "cordon", "gpu004", "--reason", "fan")
    (home / "muster.yaml").write_text(after)
    code, shown = run(home, "cordon")
    assert code == 0 and shown.endswith("fan  (not in the inventory: muster uncordon gpu004)\n")
    assert run(home, "uncordon", "gpu[003-004]") == (
        0, "gpu003: there is no cordon of ours\ngpu004: muster#1 is released\n")
    assert bad(home) == "" and run(home, "cordon") == (0, "no cordons\n")
    code, shown = run(home, "uncordon", "gpu004")
    assert (code == 2 and "has no node 'gpu004', and no cordon or mark is on it" in shown
            and "did you mean" not in shown)


def test_a_stray_mark_on_a_node_that_left_the_inventory_can_be_adopted_and_forgotten(home: Path) -> None:
    (home / "bad").write_text("old1  # muster:beef#3: fan\nold2  # muster:beef#4: fan\nold3  # Ann\n")
    code, shown = run(home, "cordon")
    assert code == 0 and [line.split()[0] for line in shown.splitlines()] == ["old1", "old2"]
    assert run(home, "cordon", "adopt", "old1", "--reason", "the head is gone")[0] == 0
    assert run(home, "cordon", "forget", "old2", "--reason", "the head is gone")[0] == 0
    assert run(home, "uncordon", "old1")[0] == 0 and bad(home) == "old3  # Ann\n"
    assert run(home, "uncordon", "old3")[0] == 2


def test_the_list_needs_no_store_and_makes_none_and_says_what_it_could_not_see(home: Path) -> None:
    assert run(home, "cordon") == (0, "no cordons\n") and not (home / "state").exists()
    (home / "bad").write_text("gpu001  # muster:beef#3: fan\n")
    assert "muster uncordon --mark 'muster#3' " in run(home, "cordon")[1] and not (home / "state").exists()
    run(home, "cordon", "gpu002", "--reason", "fan")
    (home / "bad").unlink()
    (home / "bad").mkdir()
    code, shown = run(home, "cordon")
    assert (code == 3 and shown.startswith("gpu002  ")
            and "note: marks that the store does not know are not listed" in shown)


def test_what_became_of_a_cordon_stands_in_its_line(home: Path) -> None:
    run(home, "cordon", "gpu[001-003]", "--reason", "fan")
    text = bad(home).splitlines()
    (home / "bad").write_text(f"{text[1].replace('fan', 'fan, Ann: mine')}\ngpu003  # Bob\n")
    _, shown = run(home, "cordon")
    ends = [line.partition("  fan  ")[2] for line in shown.splitlines()]
    assert ends == ["(someone gave it back)", "(beside muster#2 a person wrote: Ann: mine)",
                    "(others hold it now: Bob)"]


def test_the_next_command_names_the_file_that_was_asked(home: Path) -> None:
    (home / "other").write_text("gpu001  # muster:beef#3: fan\n")
    shown = named("cordon", "--hostfile", "other", home=home).stdout
    assert shown.endswith("muster uncordon --mark 'muster:beef#3' --reason TEXT --hostfile other\n")


def test_a_cordon_in_another_back_end_is_no_free_node(home: Path) -> None:
    run(home, "cordon", "gpu001", "--reason", "fan", "--hostfile", "other")
    (home / "good").write_text("gpu[001-004]\n")
    assert run(home, "uncordon", "gpu001", "--golden", "good") == (
        1, "gpu001: there is no cordon of ours; hostfile holds it as muster#1, too: "
        f"muster uncordon gpu001 --hostfile {home / 'other'}\n")
    mark = (home / "other").read_text().partition("# ")[2].partition(": fan")[0]
    code, shown = run(home, "uncordon", "--golden", "good", "--mark", mark)
    assert code == 2 and "is a cordon of gpu001 in hostfile, and this is golden: add --hostfile FILE" in shown


def test_a_dry_run_changes_nothing_and_says_whether_it_would_succeed(home: Path) -> None:
    run(home, "cordon", "gpu[001-002]", "--reason", "fan")
    before = bad(home)
    assert run(home, "uncordon", "gpu[001-002]", "--dry-run")[0] == 0
    (home / "bad").write_text(before.replace("gpu002  # muster", "gpu002  # Ann: muster"))
    assert run(home, "uncordon", "gpu[001-002]", "--dry-run")[0] == 1
    mark = before.partition("# ")[2].partition(": fan")[0]
    assert run(home, "uncordon", "--mark", mark, "--dry-run")[0] == 0
    assert bad(home) == before.replace("gpu002  # muster", "gpu002  # Ann: muster")


def test_without_a_back_end_the_list_is_of_the_store(tmp_path: Path) -> None:
    done = muster("cordon", home=tmp_path, PATH="/nonexistent")
    assert (done.returncode, done.stdout) == (0, "no cordons by the store\n")
    run(tmp_path, "cordon", "gpu001", "--reason", "fan", "--hostfile", "bad")
    done = muster("cordon", home=tmp_path, PATH="/nonexistent")
    assert (done.returncode == 0 and done.stdout.startswith("gpu001  ")
            and "scontrol was not found" in done.stderr)


def test_with_a_store_that_is_lost_or_damaged_the_marks_are_still_listed_and_ended(home: Path) -> None:
    run(home, "cordon", "gpu[001-002]", "--reason", "fan")
    (home / "state" / "muster.db").write_bytes(b"damaged" * 1000)
    for end in ("-wal", "-shm"):
        (home / "state" / f"muster.db{end}").unlink(missing_ok=True)
    done = named("cordon", home=home)
    assert (done.returncode == 2
            and done.stdout.count("  the store cannot be read: fan; to end it: muster uncordon") == 2)
    assert done.stderr.count("\n") == 1
    shutil.rmtree(home / "state")
    shown = named("cordon", home=home).stdout
    for line in shown.splitlines():
        assert named(*shlex.split(line.partition("to end it: muster ")[2]), home=home).returncode == 0
    assert shown.count("\n") == 2 and bad(home) == ""


def test_a_rename_that_was_cut_short_is_named_with_its_command(home: Path) -> None:
    with opened(home / "state", make=True) as store:
        renaming.begin(store, "gpu001", "a1", "moved", "ann", 1.0)
    said = "note: a rename was cut short: muster inventory rename gpu001 a1\n"
    assert said in run(home, "cordon")[1] and said in run(home, "triage")[1]


def test_triage_names_cordons_that_no_plan_of_it_releases(home: Path) -> None:
    run(home, "cordon", "gpu004", "--reason", "fan")
    (home / "muster.yaml").write_text(SITE.replace("gpu[001-004]", "gpu[001-003]"))
    said = run(home, "triage")[1]
    assert "note: cordons of nodes that are not in the inventory: gpu004: muster uncordon gpu004, or " in said
