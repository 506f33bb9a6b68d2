"""Becoming root through a real sudo, beyond what test_both.py says of every transport."""

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
from tests.inventory.transport.speaker import killed, waits
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


@pytest.mark.parametrize(("right", "python", "stage", "said"), [
    ("ALL=(root) NOPASSWD: /bin/true", "python3", Stage.BECOME, ""),
    ("ALL=(root) NOPASSWD: ALL", "no-such-python", Stage.PYTHON, ""),
], ids=["a right to other commands only", "no Python that root finds"])
def test_who_cannot_become_root_is_reported_why(
    stranger: Sshd, allow: Allow, right: str, python: str, stage: Stage, said: str,
) -> None:
    allow(right)
    assert said in refusal(one(stranger.node(privilege=Privilege.BECOME, python=python)), stage)


def test_what_runs_as_root_is_gone_after_the_client_is_killed(
    stranger: Sshd, allow: Allow, tmp_path: Path,
) -> None:
    allow("ALL=(root) NOPASSWD: ALL")
    note = tmp_path / "pid"
    killed(client(stranger, waits(note), n1={"privilege": Privilege.BECOME}), note)
