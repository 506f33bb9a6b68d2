"""The shell completes the names of nodes, groups, rules, SKUs and incidents: at once, with no error, and it
makes nothing."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

from healthcheck.cli import completing
from healthcheck.cli.main import root
from healthcheck.config.rulesfolder import packaged
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.store.file import opened
from tests.command import MUSTER, environment
from tests.test_one_way import TREE

INVENTORY = """\
version: 1
groups: {rack7: 'gpu[001-016]', train: '@rack7'}
nodes:
  gpu[001-020]: {rack: r07}
"""


def offered(line: str, home: Path, **more: str) -> list[str]:
    """What bash would offer for the last word; nothing may appear on stderr."""
    words = {"_MUSTER_COMPLETE": "bash_complete", "COMP_WORDS": line,
             "COMP_CWORD": str(len(line.split(" ")) - 1)}
    done = subprocess.run([str(MUSTER)], env={**os.environ, **environment(home), **words, **more}, cwd=home,
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return [text.partition(",")[2] for text in done.stdout.splitlines() if text]


def inside(line: str) -> list[str]:
    """The same, in this process."""
    *before, last = line.split(" ")[1:]
    return [item.value
            for item in BashComplete(root, {}, "muster", "_MUSTER_COMPLETE").get_completions(before, last)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "muster.yaml").write_text(INVENTORY)
    monkeypatch.chdir(tmp_path)
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


def test_bash_gets_nodes_and_groups_of_the_inventory_and_no_store_is_made(home: Path) -> None:
    before = sorted(home.rglob("*"))
    assert offered("muster check gpu00", home) == [f"gpu00{n}" for n in range(1, 10)]
    assert offered("muster check gpu001,@ra", home) == ["gpu001,@rack7"]
    assert offered("muster incident show ", home) == [] and sorted(home.rglob("*")) == before


NODES = [words for words, command in TREE.items()
         if any(isinstance(one, click.Argument) and one.name in ("nodes", "nodeset", "node", "which")
                and "RUN" not in (one.metavar or "")
                and not str(one.metavar).startswith("[NODES|FILE") for one in command.params)]


@pytest.mark.parametrize("words", NODES)
def test_each_command_completes_its_nodes(words: str, home: Path) -> None:
    assert "gpu007" in inside(f"muster {words} gpu00")


def test_the_commands_that_take_nodes_were_found() -> None:
    assert len(NODES) > 40


@pytest.mark.parametrize(("line", "word"), [
    ("muster explain gpu-cou", "gpu-count"), ("muster rules show gpu-cou", "gpu-count"),
    ("muster check --only gpu-cou", "gpu-count"),
    ("muster check --skip gpu-cou", "gpu-count"), ("muster silence gpu001 gpu-cou", "gpu-count"),
    ("muster check --sku hgx-h10", "hgx-h100"),
    ("muster sku show hgx-h10", "hgx-h100"), ("muster burnin run gpu001 --sku hgx-h10", "hgx-h100"),
    ("muster check --profile ga", "gate"),
    ("muster cordon gpu00", "gpu007"), ("muster unsilence gpu00", "gpu007"),
    ("muster blame 12 --nodes @tr", "@train"),
])
def test_names_of_rules_skus_profiles_and_sets_are_completed(line: str, word: str, home: Path) -> None:
    assert word in inside(line)


def test_the_names_in_files_are_those_of_the_loaded_rules(home: Path) -> None:
    context = click.Context(root)
    ruleset = load_ruleset([packaged()])
    names = {"rule": {rule.id for rule in ruleset.rules}, "sku": set(ruleset.skus),
             "profile": set(ruleset.profiles)}
    for kind, known in names.items():
        found = {name for start in {name[:3] for name in known}
                 for name in getattr(completing, kind)(context, context.command, start)}
        assert found == known


def test_site_rules_are_completed_and_broken_ones_do_no_harm(home: Path) -> None:
    site = home / "site"
    (site / "sku").mkdir(parents=True)
    (site / "sku" / "ours.yaml").write_text("sku: our-box\nnumbers: [\n")
    (site / "mine.yaml").write_bytes(b"- id: our-rule\n\xff\xfe: {{{\n")
    assert inside("muster check --rules site --sku our") == ["our-box"]
    assert inside("muster rules list --rules site our") == ["our-rule"]
    assert inside("muster check --rules none --sku hgx") == []


def test_open_incidents_and_nodes_of_the_store_are_completed(home: Path) -> None:
    with opened(home / "state", make=True) as store, store.writing() as db:
        db.execute("INSERT INTO node (name) VALUES ('old001'), ('old002')")
        db.executemany(
            "INSERT INTO incident (id, kind, cause, nodes, why, owner, began, seen, ended) VALUES (?, "
            "'leaf', ?, '[]', '', '', 1, 1, ?)",
            [(1, "a", 2.0), (2, "b", None), (13, "c", None)])
    assert inside(f"muster incident show --state {home}/state ") == ["13", "2"]
    assert inside(f"muster incident close --state {home}/state 1") == ["13"]
    (home / "muster.yaml").unlink()
    assert inside(f"muster nodes --state {home}/state old") == ["old001", "old002"]


@pytest.mark.parametrize("spoil", ["text", "folder", "pipe", "binary", "empty", "unreadable", "missing"])
def test_what_cannot_be_read_offers_nothing_and_says_nothing(spoil: str, home: Path) -> None:
    (home / "state").mkdir()
    for path in (home / "muster.yaml", home / "state" / "muster.db"):
        path.unlink(missing_ok=True)
        if spoil == "folder":
            path.mkdir()
        elif spoil == "pipe":
            os.mkfifo(path)
        elif spoil != "missing":
            path.write_bytes({"text": b"nodes: [\n", "binary": b"\x00\xff" * 99, "empty": b"",
                              "unreadable": b"x"}[spoil])
            path.chmod(0o000 if spoil == "unreadable" else 0o600)
    before = sorted(home.rglob("*"))
    for line in ("muster check gpu", "muster rma open gpu", f"muster incident show --state {home}/state ",
                 f"muster nodes --state {home}/state g"):
        assert inside(line) == []
    assert offered("muster bmc power gpu", home, MUSTER_STATE=f"{home}/state") == []
    assert sorted(home.rglob("*")) == before


def test_five_thousand_nodes_are_completed_within_a_second_of_cpu(home: Path) -> None:
    (home / "muster.yaml").write_text("version: 1\nnodes:\n" + "".join(
        f"  n{i:05}: {{address: 10.9.{i // 256}.{i % 256}, rack: r{i // 16}}}\n" for i in range(5000)))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert offered("muster check n0499", home) == [f"n0499{n}" for n in range(10)]
    assert "gpu-count" in offered("muster explain gpu-c", home)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2
