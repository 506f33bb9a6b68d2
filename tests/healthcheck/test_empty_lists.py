"""Commands that list: where there is nothing they say so in one line, and none makes a store."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from healthcheck.cli.main import root
from healthcheck.store.file import opened
from tests.command import muster

# By the words that are typed: what is said where nothing is stored.
LISTS = {
    ("silence",): "no silences", ("silence", "list"): "no silences", ("silence", "--all"): "no silences",
    ("lease", "list"): "no leases", ("lease", "release", "--hostfile", "bad"): "no leases",
    ("rma", "list"): "nothing is away", ("rma", "list", "--all"): "nothing is away",
    ("incident", "list"): "no open incident",
    ("incident", "list", "--since", "7d"): "no open incident, and none was closed in that time",
    ("history",): "no problems", ("history", "--still"): "no problems",
    ("history", "--components"): "no components with serial numbers",
    ("burnin", "show", "--list"): "no burn-in is stored",
    ("certificate", "show"): "nothing is certified yet: muster certificate issue RESULT.burnin.json",
    ("certificate", "due"): "nothing is due",
    ("bringup", "status"): "no machine was started: muster bringup run NODES",
    ("remediate", "--hostfile", "bad"): "nothing to do",
    ("change", "list"): "no change was started: muster change start NAME",
    ("os", "status"): "no installations",
}
# Lists of what is packaged, which are never empty.
PACKAGED = {"rules list", "sku list"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With an inventory and a key, and no store."""
    made = tmp_path_factory.mktemp("home")
    (made / "muster.yaml").write_text('version: 1\nnodes:\n  "gpu[001-002]": {}\n')
    done = muster("certificate", "key", "new", "--cluster", "test", home=made)
    assert done.returncode == 0, done.stderr
    return made


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_a_list_without_a_store_says_so_in_one_line_and_makes_none(home: Path,
                                                                   words: tuple[str, ...]) -> None:
    done = muster(*words, home=home)
    said = (done.stdout + done.stderr).splitlines()
    assert len(said) == 1 and not (home / "state" / "muster.db").exists(), said
    if done.returncode == 0:
        assert done.stdout == f"{LISTS[words]}\n"
    else:
        assert "no store" in done.stderr or said == [LISTS[words]], said


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_a_list_of_an_empty_store_says_so_in_one_line(tmp_path: Path, home: Path,
                                                      words: tuple[str, ...]) -> None:
    with opened(tmp_path, make=True):
        pass
    (tmp_path / "keys").symlink_to(home / "state" / "keys")
    done = muster(*words, home=home, MUSTER_STATE=str(tmp_path))
    assert (done.stdout, done.stderr) == (f"{LISTS[words]}\n", "")


def test_every_command_that_is_called_list_is_asked_here() -> None:
    def leaves(command: click.Command, name: str, context: click.Context) -> list[str]:
        if not isinstance(command, click.Group):
            return [name]
        return [leaf for each in command.list_commands(context)
                if (sub := command.get_command(context, each)) is not None
                for leaf in leaves(sub, f"{name} {each}".strip(), click.Context(sub, parent=context))]

    lists = {leaf for leaf in leaves(root, "", click.Context(root)) if leaf.split()[-1] == "list"}
    assert lists - PACKAGED <= {" ".join(words[:2]) for words in LISTS} and len(lists) > 3
