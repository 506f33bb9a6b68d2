"""Homes on a file server that hangs: a stage that says so, and nothing waited for."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from inventory.transport.base import Stage
from tests.inventory.transport.sweeps import one, refusal, sweep
from tests.testbed import fuse
from tests.testbed.require import require
from tests.testbed.sshd import Sshd, sshd
from tests.testbed.users import throwaway_user

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.getuid() != 0, reason="needs root, to create a user whose home hangs"),
]


@contextmanager
def hung_home(folder: Path, config: str = "") -> Iterator[tuple[Sshd, Path]]:
    """An sshd whose user's home is below a mount point that hangs, as NFS without its server."""
    require(not (why := fuse.available()), why or "")
    folder.chmod(0o755)
    point = folder / "nfs"
    point.mkdir()
    with (throwaway_user(point / "home") as user, fuse.hung(point),
          sshd(folder / "sshd", user=user, config=config) as server):
        yield server, point


@pytest.fixture
def folder() -> Iterator[Path]:
    import tempfile

    # Not under pytest's folder, which only root may enter.
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def test_a_hung_home_is_stage_login_and_the_reason_names_it(folder: Path) -> None:
    with hung_home(folder) as (server, _):
        began = time.monotonic()
        reason = refusal(one(server.node(), login_s=2), Stage.LOGIN)
        assert "hung home" in reason
        assert time.monotonic() - began < 6


def test_keys_in_a_hung_home_are_stage_auth_and_the_reason_names_it(folder: Path) -> None:
    with hung_home(folder, "AuthorizedKeysFile .ssh/authorized_keys") as (server, _):
        assert "hung home" in refusal(one(server.node(), auth_s=2), Stage.AUTH)


def test_a_service_account_with_a_local_home_is_looked_at_while_others_hang(folder: Path) -> None:
    with hung_home(folder) as (server, _):
        replies = sweep([server.node("theirs"), server.node("service", user="root")], login_s=2)
        refusal(replies["theirs"], Stage.LOGIN)
        assert replies["service"].body == b"well"
