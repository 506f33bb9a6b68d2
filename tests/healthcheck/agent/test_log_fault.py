"""A fault that the kernel logged stays on the agent and at home when the log has forgotten it: the agent's
own program and `muster check`."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from inventory.model import Node
from provisioning.agent.bundle import Bundle
from tests.command import muster
from tests.healthcheck import logworld
from tests.healthcheck.agent.world import World, world

GPU = "0000:1b:00"
ECC, FALLEN = (line.replace(logworld.GPU, GPU) for line in (logworld.ECC, logworld.FALLEN))
HERE = socket.gethostname().partition(".")[0]


@pytest.fixture
def node(tmp_path: Path, made: Bundle, earlier: World) -> World:
    (tmp_path / "home").mkdir()
    return world(tmp_path, made, Node(HERE, sku="hgx-h100")).compiled(earlier)


class Log:
    """The node's /dev/kmsg as a file."""

    def __init__(self, node: World) -> None:
        self.path = node.tree / "dev/kmsg"

    def end(self) -> tuple[int, int]:
        heads = [line.split(",", 3) for line in self.path.read_text().splitlines() if line[:1].isdigit()]
        return int(heads[-1][1]), int(heads[-1][2])

    def say(self, text: str, priority: int = 4) -> None:
        number, at = self.end()
        with self.path.open("a") as file:
            file.write(f"{priority},{number + 1},{at + 1_000_000},-;{text}\n")

    def rotate(self) -> None:
        """Nothing of what it held is left."""
        number, at = self.end()
        self.path.write_text(f"30,{number + 1},{at + 1_000_000},-;systemd[1]: Started Daily tasks.\n")


def results(document: dict[str, Any]) -> tuple[str, str]:
    rules = {one["rule"]: one["status"] for one in document["results"]}
    return document["state"], rules["kernel-xid"]


def both(node: World, home: Path) -> set[tuple[str, str]]:
    """What the agent says, and what `muster check --store` does of the same tree."""
    node.run()
    there = node.check(home, "--store", "--sku", "hgx-h100", "--profile", "timer")
    found = {results(node.result["report"]), results(there)}
    return {((state == "unhealthy" and "unhealthy") or "fine", status) for state, status in found}


def test_an_xid_outlives_the_log_on_the_agent_and_at_home_until_root_says_that_the_gpu_was_reset(
    node: World, tmp_path: Path,
) -> None:
    log, home = Log(node), tmp_path / "home"
    assert {status for _, status in both(node, home)} == {"pass"}
    log.say(ECC)
    assert both(node, home) == {("unhealthy", "fail")}
    log.rotate()
    assert both(node, home) == {("unhealthy", "fail")}
    # What the agent hands on is in its own file, for home to judge.
    handed_on = node.look["recording"]["captures"]["kernel.log"]
    assert "Xid" in handed_on["text"] and "Xid" not in json.dumps(handed_on["files"])
    log.say(f"muster: GPU {GPU}.0 was reset", priority=12)
    assert {status for _, status in both(node, home)} == {"pass"}


def test_an_xid_that_a_boot_ends_is_over_in_another_boot_and_a_persons_word_ends_it_at_home(
    node: World, tmp_path: Path,
) -> None:
    log, home = Log(node), tmp_path / "home"
    log.say(FALLEN)
    assert both(node, home) == {("unhealthy", "fail")}
    log.rotate()
    said = muster("repaired", HERE, "--component", GPU, "--reason", "reseated", home=home)
    assert (said.returncode, "kernel-xid" in said.stdout) == (0, True)
    assert results(node.check(home, "--store", "--sku", "hgx-h100", "--profile", "timer"))[1] == "pass"
    node.run()      # the agent does not hear of it, and goes on accusing: it opens nothing
    assert results(node.result["report"]) == ("unhealthy", "fail")
    boot = node.tree / "proc/sys/kernel/random/boot_id"
    boot.write_text("11111111-2222-3333-4444-555555555555\n")
    assert {status for _, status in both(node, home)} == {"pass"}


def test_where_the_looks_are_gone_the_sweep_says_what_the_store_knows_and_its_exit_code_does(
    node: World, tmp_path: Path,
) -> None:
    log, home = Log(node), tmp_path / "home"
    log.say(ECC)
    words = ("--store", "--sku", "hgx-h100", "--profile", "timer")
    assert results(node.check(home, *words)) == ("unhealthy", "fail")
    log.rotate()
    shutil.rmtree(home / "state/snapshots")
    found = node.check(home, *words)
    assert (*results(found), found["code"]) == ("unhealthy", "fail", 1)
    assert "reported before, and nothing shows that it ended" in found["reason"]
