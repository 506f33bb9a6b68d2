"""`muster change` as a site uses it: saved sweeps and burn-ins before and after, in a home of its own."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from healthcheck.change.standing import of_store
from healthcheck.store import newest
from healthcheck.store.file import opened
from tests.command import muster
from tests.documents import validate
from tests.healthcheck.change import site
from tests.healthcheck.change.site import CANARY


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inventory, a sweep and burn-ins of an hour ago; each test has a copy."""
    home, before = site.with_an_inventory(tmp_path_factory.mktemp("made")), time.time() - 3600
    site.saved(home / "before", before)
    site.burnt(home, before, "before")
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "home")


@pytest.fixture(scope="module")
def begun_once(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = shutil.copytree(made, tmp_path_factory.mktemp("begun") / "home")
    started(home)
    return home


@pytest.fixture
def begun(begun_once: Path, tmp_path: Path) -> Path:
    """The home once the change has begun."""
    return shutil.copytree(begun_once, tmp_path / "home")


def change(home: Path, *words: str) -> CompletedProcess[str]:
    return muster("change", *words, home=home)


def started(home: Path, *words: str) -> None:
    done = change(home, "start", "driver-575", "--nodes", "@canary", "--controls", "gpu[009-016]", "--sweep",
                  "before", *words)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_change_that_does_nothing_passes_and_its_next_ring_is_named(begun: Path) -> None:
    home = begun
    assert change(home, "next", "driver-575").returncode == 3
    site.saved(home / "after", time.time(), boots=CANARY)
    site.burnt(home, time.time(), "after", everyone=0.96)
    done = change(home, "judge", "driver-575", "--sweep", "after")
    assert done.returncode == 0, done.stdout + done.stderr
    named = change(home, "next", "driver-575", "--format", "json")
    found = json.loads(named.stdout)
    validate(found, "change-next-1")
    assert named.returncode == 0 and found["ring"] == list(site.NODES[8:24])
    listed = json.loads(change(home, "list", "--format", "json").stdout)
    validate(listed, "changes-1")
    assert [(one["name"], one["state"]) for one in listed["changes"]] == [("driver-575", "passed")]
    shown = change(home, "show", "driver-575", "--format", "json")
    validate(json.loads(shown.stdout), "change-1")
    assert all(0 < len(one["skipped"]) <= one["skips"]
               for one in json.loads(shown.stdout)["before"]["nodes"].values())
    assert "driver-575: passed" in change(home, "show", "driver-575").stdout


def test_a_slower_collective_and_a_new_kernel_line_of_the_canary_are_worse(begun: Path) -> None:
    home = begun
    site.saved(home / "after", time.time(), boots=CANARY, lines=CANARY)
    site.burnt(home, time.time(), "after", slow=0.97)
    done = change(home, "judge", "driver-575", "--sweep", "after", "--format", "json")
    found = json.loads(done.stdout)
    validate(found, "change-judgement-1")
    worse = [one for one in found["comparisons"] if one["grade"] == "worse"]
    assert done.returncode == 1 and found["verdict"] == "worse"
    assert any(one["kind"] == "log" and "the new driver complains" in one["words"] for one in worse)
    figures = [one for one in worse if one["kind"] == "figures"]
    assert figures and all("busbw_gb_s, node" in one["words"] and "-3.0%" in one["words"]
                           for one in figures), figures
    done = change(home, "next", "driver-575")
    assert done.returncode == 1 and "no ring is named" in done.stdout and "start" not in done.stdout


def test_nodes_that_are_away_and_burn_ins_that_were_not_repeated_leave_it_open(begun: Path) -> None:
    home = begun
    site.saved(home / "after", time.time(), boots=CANARY, away=CANARY[:2])
    done = change(home, "judge", "driver-575", "--sweep", "after")
    assert (done.returncode == 3 and "connect" in done.stdout
            and "measured before and not since" in done.stdout), done.stdout
    assert "no ring is named before it passed" in done.stdout


def test_a_sweep_from_before_the_change_and_one_of_selected_rules_measure_nothing_since(home: Path) -> None:
    started(home, "--without", "figures")
    old = change(home, "judge", "driver-575", "--sweep", "before")
    assert old.returncode == 3 and "no snapshot since the change began" in old.stdout
    site.saved(home / "part", time.time(), boots=CANARY, only=("gpu-*",))
    part = change(home, "judge", "driver-575", "--sweep", "part")
    assert part.returncode == 3 and "selected rules" in part.stdout


def test_the_store_has_results_and_no_kernel_log_which_can_be_left_out(home: Path) -> None:
    site.stored(home, site.saved(home / "all", time.time() - 3600, nodes=site.NODES))
    done = change(home, "start", "bios-2.9", "--nodes", "@canary")
    assert (done.returncode == 3 and "the store keeps no kernel log" in done.stdout
            and "chosen by SKU and rack" in done.stdout), done.stdout
    left = change(home, "start", "bios-3", "--nodes", "@canary", "--without", "log", "--without", "figures",
                  "--format", "json")
    found = json.loads(left.stdout)
    validate(found, "change-1")
    assert {(bool(one["skips"]), bool(one["skipped"]))
            for one in found["before"]["nodes"].values()} == {(True, False)}
    assert left.returncode == 0 and len(found["controls"]) == 8 and not set(found["controls"]) & set(CANARY)


def test_an_old_snapshot_is_refused_with_its_age(home: Path) -> None:
    site.saved(home / "old", time.time() - 3 * 86400)
    done = change(home, "start", "x", "--nodes", "gpu001", "--sweep", "old")
    assert done.returncode == 2 and "3 d old" in done.stderr and not (home / "state" / "changes").exists()


@pytest.mark.parametrize(("words", "said"), [
    (("driver-575", "--nodes", "@canary", "--controls", "gpu008"), "gpu008 is in the canary"),
    (("driver-575", "--nodes", "@canary", "--ring", "gpu[001-009]"), "named twice"),
    (("driver-575", "--nodes", "@canary", "--ring", "gpu009", "--no-rings"), "give one of them"),
    (("driver-575", "--nodes", "gpu099"), "has no node gpu099"),
    (("driver-575", "--nodes", "gpu[001-024]"), "name --controls"),
    (("driver-575", "--nodes", "@canary", "--without", "gpu-count"), "results/gpu-count"),
    (("../up", "--nodes", "@canary"), "cannot be a change's name"),
    (("a\x1b[31m\nb", "--nodes", "@canary"), "cannot be a change's name"),
])
def test_what_is_wrong_is_one_line_and_nothing_is_kept(words: tuple[str, ...], said: str, home: Path) -> None:
    done = change(home, "start", *words, "--sweep", "before")
    assert (done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1
            and "\x1b" not in done.stderr)
    assert not (home / "state" / "changes").exists()


def test_a_name_is_used_once(begun: Path) -> None:
    done = change(begun, "start", "driver-575", "--nodes", "@canary", "--sweep", "before")
    assert done.returncode == 2 and "there is a change of that name" in done.stderr


def test_controls_are_chosen_the_same_each_time_and_by_name(home: Path) -> None:
    def chosen(name: str) -> list[str]:
        done = change(home, "start", name, "--nodes", "gpu[001-002]", "--sweep", "before", "--format", "json")
        found: list[str] = json.loads(done.stdout)["controls"]
        (home / "state" / "changes" / f"{name}.json").unlink()
        return found

    first = chosen("a")
    assert chosen("a") == first != chosen("b")
    assert len(first) == 8 and set(first) <= set(site.NODES[2:12])


@pytest.mark.parametrize(("away", "line"), [(("gpu001", "gpu010"), "incident 1"), (("gpu001",), "gpu001:")])
def test_triage_names_an_open_change_for_what_began_on_its_canary_since(away: tuple[str, ...], line: str,
                                                                        begun: Path) -> None:
    home = begun
    for at in (1, 2, 3):
        site.saved(home / f"sick{at}", time.time(), away=away, nodes=site.NODES[:10])
        site.stored(home, home / f"sick{at}", time.time())
    done = muster("triage", "--hostfile", "bad-hosts", home=home)
    said = " ".join(done.stdout.split())
    assert said.count("possible cause: change driver-575, begun at 20") == 1, done.stdout + done.stderr
    assert said.index(line) < said.index("possible cause")
    (home / "state" / "changes" / "broken.json").write_text("{")
    again = muster("triage", "--hostfile", "bad-hosts", home=home)
    assert again.returncode == done.returncode and "a change cannot be read" in again.stderr


def test_burn_ins_under_other_versions_than_the_newest_do_not_count(home: Path) -> None:
    site.burnt(home, time.time() - 7200, "older", driver="560.1", everyone=0.5)
    (home / "state" / "burnin" / "broken.burnin.json").write_text("{")
    done = change(home, "start", "driver-575", "--nodes", "@canary", "--controls", "gpu[009-016]", "--sweep",
                  "before", "--format", "json")
    before = json.loads(done.stdout)["before"]
    assert done.returncode == 0 and len(before["runs"]) == 6 and not any("older" in run
                                                                         for run in before["runs"])
    assert "broken.burnin.json: not a JSON document" in done.stderr
    assert {len(one["values"]) for one in before["figures"]} == {3}


def test_a_folder_that_is_no_saved_sweep_is_named_as_the_option_was(home: Path) -> None:
    done = change(home, "start", "x", "--nodes", "gpu001", "--sweep", "nothing")
    assert done.returncode == 2 and "--sweep nothing: no manifest.json" in done.stderr


def test_rules_that_the_store_counts_under_a_device_that_does_not_answer_were_not_measured(
        home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site.stored(home, home / "before")
    real = newest.decoded

    def decoded(node: str, *row: Any) -> newest.Newest:
        found = real(node, *row)
        return replace(found,
                       statuses={**found.statuses, newest.EXPLAINED: 3}) if node == CANARY[0] else found
    monkeypatch.setattr(newest, "decoded", decoded)
    with opened(home / "state") as store:
        nodes = of_store(store, CANARY[:2]).nodes
    assert [name for name in CANARY[:2] if "what-does-not-answer" in nodes[name].unmeasured] == [CANARY[0]]
