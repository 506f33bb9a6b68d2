"""Becoming root through a real sudo, as a throw-away user, where that is allowed and where not."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from inventory.model import Privilege
from inventory.transport.base import Stage
from tests.inventory.transport.client import client
from tests.inventory.transport.speaker import gone, killed, speaker, waits
from tests.inventory.transport.sweeps import one, refusal
from tests.testbed.require import require
from tests.testbed.sshd import Sshd, sshd
from tests.testbed.users import allow_sudo, throwaway_user

Allow: TypeAlias = "Callable[[str], None]"

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.getuid() != 0, reason="needs root, to create a user and to write a sudoers file"),
]


@pytest.fixture(scope="module")
def stranger() -> Iterator[Sshd]:
    """An sshd that logs in a user of its own, who has no right to sudo."""
    require(shutil.which("sudo"), "no sudo on this machine: apt-get install -y sudo")
    # Not under pytest's folder, which only root may enter.
    with (throwaway_user() as user, tempfile.TemporaryDirectory() as folder,
          sshd(Path(folder), user=user) as server):
        yield server


@pytest.fixture
def allow(stranger: Sshd) -> Iterator[Allow]:
    """Call it with a sudoers rule for the user."""
    yield lambda rule: allow_sudo(stranger.user, f"{{}} {rule}")
    allow_sudo(stranger.user)


def test_with_the_right_the_program_runs_as_root(stranger: Sshd, allow: Allow) -> None:
    allow("ALL=(root) NOPASSWD: ALL")
    reply = one(stranger.node(privilege=Privilege.BECOME), speaker("answer(str(os.getuid()).encode())"))
    assert reply.body == b"0", reply.failure
    assert one(stranger.node(), speaker("answer(str(os.getuid()).encode())")).body != b"0"


@pytest.mark.parametrize(("right", "python", "stage", "said"), [
    ("ALL=(root) ALL", "python3", Stage.BECOME, "NOPASSWD"), ("", "python3", Stage.BECOME, "sudo"),
    ("ALL=(root) NOPASSWD: /bin/true", "python3", Stage.BECOME, ""),
    ("ALL=(root) NOPASSWD: ALL", "no-such-python", Stage.PYTHON, ""),
], ids=["sudo asks for a password", "no right", "a right to other commands only",
        "no Python that root finds"])
def test_who_cannot_become_root_is_reported_why(
    stranger: Sshd, allow: Allow, right: str, python: str, stage: Stage, said: str,
) -> None:
    if right:
        allow(right)
    assert said in refusal(one(stranger.node(privilege=Privilege.BECOME, python=python)), stage)


def test_what_runs_as_root_is_gone_after_the_deadline(stranger: Sshd, allow: Allow, tmp_path: Path) -> None:
    allow("ALL=(root) NOPASSWD: ALL")
    note = tmp_path / "pid"
    program = speaker(waits(note))
    refusal(one(stranger.node(privilege=Privilege.BECOME), program, node_s=2), Stage.DEADLINE)
    gone(note)


def test_what_runs_as_root_is_gone_after_the_client_is_killed(
    stranger: Sshd, allow: Allow, tmp_path: Path,
) -> None:
    allow("ALL=(root) NOPASSWD: ALL")
    note = tmp_path / "pid"
    killed(client(stranger, waits(note), n1={"privilege": Privilege.BECOME}), note)
