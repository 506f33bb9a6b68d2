"""Limits of the stages: what an inventory says, which entry wins, and the one line for a wrong one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.errors import InventoryError
from inventory.limits import limited, seconds
from inventory.load import load_inventory
from inventory.model import Node, StageLimits
from inventory.transport.base import Limits
from tests.command import muster

FILE = """\
version: 1
defaults: {limits: {connect: 5s, login: 30s}}
nodes:
  gpu[001-003]: {limits: {login: 2m, node: 90}}
  gpu002: {limits: {login: 0.5m}}
  gpu003:
  gpu004:
"""


def loaded(folder: Path, text: str) -> dict[str, Node]:
    path = folder / "m.yaml"
    path.write_text(text)
    return dict(load_inventory(path).nodes)


def test_the_node_wins_over_its_sets_and_those_over_the_defaults_stage_by_stage(tmp_path: Path) -> None:
    found = loaded(tmp_path, FILE)
    assert found["gpu001"].limits == StageLimits(login=120.0, node=90.0)
    assert found["gpu002"].limits == StageLimits(login=30.0, node=90.0)
    assert found["gpu004"].limits == StageLimits()
    for node in found.values():
        if node.name == "gpu004":
            assert node.default_limits == StageLimits(connect=5.0, login=30.0)
        else:
            assert node.default_limits == StageLimits(connect=5.0)
    holding = Limits().of(found["gpu001"])
    assert (holding.connect_s, holding.auth_s, holding.login_s) == (5.0, 20.0, 120.0)


def test_what_the_command_line_says_holds_for_every_node(tmp_path: Path) -> None:
    nodes = limited(loaded(tmp_path, FILE).values(), StageLimits(login=7.0))
    assert {Limits().of(node).login_s for node in nodes} == {7.0}
    assert Limits(program_s=50.0).of(nodes[0]).program_s == 95.0, "what another stage has stays"


@pytest.mark.parametrize(("text", "words"), [
    ("{logins: 5s}", ["m.yaml:3:21", "unknown key 'logins' in limits", "did you mean login?"]),
    ("{login: soon}", ["m.yaml:3:28", "limits.login is 'soon'", "expected seconds from 1s to 1h"]),
    ("{login: 0}", ["m.yaml:3:28", "limits.login is the number 0"]),
    ("{login: 2h}", ["limits.login is '2h'"]),
    ("{login: true}", ["limits.login is true"]),
    ("{login: }", ["limits.login is empty"]),
    ("{login: [5s]}", ["limits.login is a list"]),
    ("15s", ["m.yaml:3:20", "limits is '15s', expected a map with connect, auth, login, node"]),
])
def test_a_wrong_limit_is_one_line_with_file_line_and_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.yaml").write_text(f"version: 1\nnodes:\n  gpu001: {{limits: {text}}}\n")
    with pytest.raises(InventoryError) as error:
        load_inventory("m.yaml")
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


def test_two_sets_that_disagree_on_a_limit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match=r"disagree on limits\.login of n2: 5\.0 at .* 6\.0 here"):
        loaded(tmp_path, "version: 1\nnodes:\n  n[1-2]: {limits: {login: 5s}}\n"
                         "  n[2-3]: {limits: {login: 6s}}\n")


@settings(deadline=None)     # a busy machine is slow
@given(st.one_of(st.text(max_size=12), st.floats(), st.integers(), st.booleans(), st.none(),
                 st.from_regex(r"[0-9]{1,7}(\.[0-9]{1,4})?[smhd]?", fullmatch=True)))
def test_a_limit_is_seconds_within_bounds_or_is_refused(value: object) -> None:
    try:
        found = seconds(value)
    except ValueError:
        return
    assert 1.0 <= found <= 3600.0


def test_show_says_which_line_sets_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "muster.yaml"
    path.write_text(FILE)
    shown = muster("inventory", "show", "gpu002", "-i", str(path), "--format", "json", home=tmp_path)
    values = json.loads(shown.stdout)["values"]
    assert values["limits.login"]["value"] == 30.0
    assert values["limits.login"]["from"]["line"] == 5
    assert values["limits.connect"]["value"] == 5.0
    assert values["limits.connect"]["from"]["line"] == 2
    assert "limits.login" in muster("inventory", "show", "gpu002", "-i", str(path), home=tmp_path).stdout


def refused(home: Path, *words: str) -> str:
    """What a command says that takes none of it."""
    done = muster(*words, home=home)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


@pytest.mark.parametrize(("text", "words"), [
    ("login", "expected seconds from 1s to 1h"), ("login=forever", "expected seconds from 1s to 1h"),
    ("login=0.2s", "expected seconds from 1s to 1h"),
    ("", "expected STAGE=SPAN with one of connect, auth, login, node"),
])
def test_a_wrong_limit_on_the_command_line_is_a_usage_error(tmp_path: Path, text: str, words: str) -> None:
    assert words in refused(tmp_path, "check", "n1", "--limit", text)


@pytest.mark.parametrize("command", [
    ("check", "n1"), ("record", "n1", "-o", "x.json"), ("agent", "status", "n1"), ("burnin", "run", "n1"),
    ("bringup", "run", "n1"), ("bringup", "resume"), ("bringup", "base", "n1"), ("gate", "push", "n1"),
    ("inventory", "enroll", "n1"), ("sku", "learn", "n1"), ("baseline", "learn", "n1", "-o", "b.yaml"),
    ("remediate",), ("burnin", "screen"), ("evidence", "n1"),
])
def test_every_command_that_reaches_nodes_over_ssh_takes_limits(
    tmp_path: Path, command: tuple[str, ...],
) -> None:
    assert "did you mean login?" in refused(tmp_path, *command, "--limit", "logn=5s")


def test_limits_are_completed_by_the_shell(tmp_path: Path) -> None:
    def completed(incomplete: str) -> list[str]:
        words = f"muster check --limit {incomplete}"
        done = muster(home=tmp_path, _MUSTER_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD="3")
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert completed("") == ["connect=", "auth=", "login=", "node="]
    assert completed("lo") == ["login="]
