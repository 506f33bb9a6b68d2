"""`muster burnin` beside its runs: plan, show, learn and approve as they are typed."""

from __future__ import annotations

from pathlib import Path

from healthcheck.burnin.document import write
from healthcheck.burnin.floors import load_floors
from healthcheck.config.rulesfolder import packaged
from tests.command import muster
from tests.healthcheck.burnin import made

INVENTORY = """\
version: 1
burnin: {max_kw: 60}
defaults: {sku: hgx-h100}
nodes:
  gpu[01-04]: {leaf: leaf01, ports: {"18:00.0": {rail: 0}, "19:00.0": {rail: 1}}}
  gpu[05-08]: {leaf: leaf02, ports: {"18:00.0": {rail: 0}, "19:00.0": {rail: 1}}}
"""


def test_a_plan_is_printed_and_nothing_is_touched(tmp_path: Path) -> None:
    (tmp_path / "muster.yaml").write_text(INVENTORY)
    done = muster("burnin", "plan", "@all", home=tmp_path)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[0].split()[
        0] == "STAGE" and [line.split()[0] for line in lines[1:12]] == ["node"] * 10 + ["rail"], done
    assert "note: all cannot be run: its nodes draw up to 91.8 kW, and 60 kW are allowed (max_kw)" in lines
    assert muster(
        "burnin", "plan", "@all", "--max-kw", "100", home=tmp_path).stdout.count("cannot be run") == 0
    assert not (tmp_path / "state").exists()


def test_a_node_of_which_no_one_says_how_many_gpus_it_has_is_named_with_what_to_write(tmp_path: Path) -> None:
    done = muster("burnin", "plan", "gpu[01-02]", home=tmp_path)
    assert (done.returncode, done.stderr) == (
        2,
        ("muster: how many GPUs gpu01 has is not known (SKU: none): give it a SKU that says so (sku: "
         "hgx-h100), or say how many processes are to take part on it (burnin: {ranks: 8})\n"))


def test_without_a_burn_in_it_is_said_how_to_have_one(tmp_path: Path) -> None:
    done = muster("burnin", "show", home=tmp_path)
    assert done.returncode == 2 and done.stderr.endswith("run `muster burnin run NODES` first\n")
    assert "no such burn-in is stored; see: muster burnin show --list" in muster(
        "burnin", "show", "x", home=tmp_path).stderr
    assert muster("burnin", "show", "--list", home=tmp_path).stdout == "no burn-in is stored\n"
    assert "no burn-in is stored: type" in muster("burnin", "learn", home=tmp_path).stderr


def test_what_was_learned_holds_once_somebody_has_approved_it(tmp_path: Path) -> None:
    there = made.places(16)
    write(tmp_path / "state", made.burnin(there, made.sound(there)))
    learned = muster("burnin", "learn", "-o", "floors.yaml", home=tmp_path)
    assert (learned.returncode == 0
            and "after reading them: muster burnin approve floors.yaml --by NAME"
            in learned.stderr), learned
    done = muster("burnin", "approve", "floors.yaml", "--by", "the operator", "--into", "site", home=tmp_path)
    assert (done.returncode, done.stdout) == (0, "site/burnin-floors.yaml: approved by the operator\n"), done
    floors = load_floors([packaged(), tmp_path / "site"])
    assert floors.learned and {one.by for one in floors.learned} == {"the operator"}
