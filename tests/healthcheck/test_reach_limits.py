"""`muster check` of nodes that are slow to log in to, against a real sshd: limits as settings, the second
try, and sweep after sweep beside a login that hangs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from healthcheck.sweep import sweep
from healthcheck.sweep.sweep import _own_seconds
from inventory.model import Node, StageLimits
from tests.command import muster
from tests.inventory.transport.test_slow_nodes import hanging, slow_login
from tests.testbed.sshd import Sshd, sshd

ONLY = ("--only", "process-table")


def inventory(
    home: Path, server: Sshd, nodes: Mapping[str, str], defaults: str = "{}",
) -> None:
    """A muster.yaml of nodes that are all this sshd, each with its keys."""
    entries = "".join(f"  {name}: {{{keys}}}\n" for name, keys in nodes.items())
    (home / "muster.yaml").write_text(f"version: 1\ndefaults: {defaults}\nnodes:\n{entries}")
    (home / ".ssh").mkdir()
    (home / ".ssh/config").write_text(
        f"Host n*\n HostName 127.0.0.1\n Port {server.port}\n User {server.user}\n"
        f" IdentityFile {server.user_key}\n UserKnownHostsFile {server.known_hosts}\n")


def by_name(text: str) -> dict[str, Any]:
    return {node["node"]: node for node in json.loads(text)["nodes"]}


def reached(node: Mapping[str, Any]) -> bool:
    return node["probes"] is not None


@pytest.fixture
def home(tmp_path: Path) -> Path:
    found = tmp_path / "home"
    found.mkdir()
    return found


def test_the_skus_limit_is_over_the_defaults_the_nodes_over_that_and_the_command_lines_over_all(
    tmp_path: Path, home: Path,
) -> None:
    rules = tmp_path / "rules"
    (rules / "sku").mkdir(parents=True)
    (rules / "sku/slow.yaml").write_text(
        "sku: slow\ninherit: cpu-only\ntitle: nodes with homes on NFS\nlimits: {login: 40s}\n")
    with sshd(tmp_path / "d", config=slow_login(tmp_path, 3)) as server:
        inventory(home, server, {
            "n1": "sku: cpu-only", "n2": "sku: slow", "n3": "sku: slow, limits: {login: 1s}",
            "n4": "sku: cpu-only, limits: {login: 40s}"}, "{limits: {login: 1s}}")
        def looked_at(name: str, *words: str) -> dict[str, Any]:
            """One at a time: all of them are this machine, which a sweep would find out."""
            done = muster("check", name, "--rules", str(rules), *ONLY, "--format", "json", *words, home=home)
            found: dict[str, Any] = by_name(done.stdout)[name]
            return found

        for name in ("n2", "n4"):
            assert reached(looked_at(name)), name
        for name in ("n1", "n3"):
            found = looked_at(name)
            assert found["state"] == "unknown"
            assert "the shell has not run our command after 1" in found["reason"]
            assert reached(looked_at(name, "--limit", "login=40s"))
        assert reached(looked_at("n1", "--sku", "slow")) is False, "the node names its own"


def test_a_login_slower_than_muster_waits_by_itself_is_reached_with_a_raised_limit(
    tmp_path: Path, home: Path,
) -> None:
    with sshd(tmp_path / "d", config=slow_login(tmp_path, 17)) as server:
        inventory(home, server, {"n1": ""})
        done = muster("check", *ONLY, "--limit", "login=60s", "--format", "json", home=home, timeout=120)
    assert reached(by_name(done.stdout)["n1"])


def test_a_wrong_limit_of_a_sku_is_one_line_with_file_line_and_key(tmp_path: Path, home: Path) -> None:
    (tmp_path / "sku").mkdir()
    for text, words in (("{login: never}", "limits: login: expected seconds from 1s to 1h"),
                        ("{logn: 5s}", "limits: unknown key 'logn'"), ("5", "limits: expected a map")):
        (tmp_path / "sku/slow.yaml").write_text(f"sku: slow\ninherit: cpu-only\nlimits: {text}\n")
        done = muster("sku", "list", "--rules", str(tmp_path), home=home)
        assert done.returncode == 2
        assert "sku/slow.yaml:3:" in done.stderr
        assert words in done.stderr
        assert done.stderr.count("\n") == 1
    (tmp_path / "sku/slow.yaml").write_text("sku: slow\ninherit: cpu-only\nlimits: {login: 1m}\n")
    shown = muster("sku", "show", "slow", "--rules", str(tmp_path), "--format", "json", home=home)
    assert json.loads(shown.stdout)["limits"] == {"login": 60.0}


def test_a_login_that_hangs_once_is_reached_by_a_second_try_and_the_sweep_says_so(
    tmp_path: Path, home: Path,
) -> None:
    with hanging(tmp_path, 1) as (server, _):
        inventory(home, server, {"n1": ""})
        done = muster("check", *ONLY, "--limit", "login=4s", home=home)
    assert ("muster: reached by a second try, after the first was stuck at login: n1 (logged in, but the "
            "shell has not run our command after 4") in done.stderr
    assert done.returncode == 0, done.stdout


def test_the_deadline_is_said_at_the_start_and_a_timeout_replaces_it(tmp_path: Path, home: Path) -> None:
    with sshd(tmp_path / "d") as server:
        inventory(home, server, {"n1": "", "n2": "", "n3": "limits: {login: 75s}"})
        first = muster("check", *ONLY, "--fanout", "2", home=home).stderr.splitlines()[0]
        assert first.startswith("muster: 3 nodes, 2 at a time, 2 of them logging in; deadline 7 min 15 s (")
        assert "deadline 50 s (--timeout)" in muster("check", *ONLY, "--timeout", "50s", home=home).stderr


def test_a_short_interval_does_not_shorten_the_deadline(tmp_path: Path, home: Path) -> None:
    with sshd(tmp_path / "d", config=slow_login(tmp_path, 3)) as server:
        inventory(home, server, {"n1": ""})
        done = muster("check", *ONLY, "--every", "1s", "--count", "2", home=home)
    assert "deadline 3 min 30 s (by nodes" in done.stderr
    assert done.stderr.count("deadline") == 1
    assert done.returncode == 0, done.stdout


def test_sweep_after_sweep_no_more_logins_hang_and_the_node_is_unknown_with_the_reason(
    tmp_path: Path, home: Path,
) -> None:
    with hanging(tmp_path, 99) as (server, hangs):
        inventory(home, server, {"n1": ""})
        done = muster("check", *ONLY, "--every", "1s", "--count", "6", "--limit", "login=1s", "--format",
                      "jsonl", home=home)
        assert len(hangs.processes) == 2
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    nodes = [one for one in documents if one.get("node") == "n1"]
    assert len(nodes) == 6
    assert {one["state"] for one in nodes} == {"unknown"}
    assert ["left alone until" in one["reason"] for one in nodes] == [False, *[True] * 5]
    assert done.returncode == 3


def test_only_nodes_with_a_time_of_their_own_are_given_another_than_the_probe_set_has() -> None:
    nodes = [Node("n1"), Node("n2", limits=StageLimits(node=90.0)), Node("n3", limits=StageLimits(node=10.0)),
             Node("n4", default_limits=StageLimits(node=45.0)), Node("n5", limits=StageLimits(login=60.0))]
    bounds = sweep.limits(None, 64, nodes)
    assert _own_seconds(nodes, bounds, 45.0) == {"n2": ("seconds=90",), "n3": ("seconds=10",)}
    hurried = sweep.limits(20.0, 64, nodes)
    assert _own_seconds(nodes, hurried, 15.0) == {"n3": ("seconds=10",)}, "the sweep's end counts too"


def test_limits_do_not_go_with_a_replay_which_reaches_no_node(home: Path) -> None:
    done = muster("check", "--replay", "monday", "--limit", "login=60s", home=home)
    assert (done.returncode, "--limit does not go with --replay" in done.stderr) == (2, True)
