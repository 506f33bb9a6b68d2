"""Fixtures that several test folders use."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.testbed import fuse
from tests.testbed.require import require
from tests.testbed.sshd import SSHD, Sshd, sshd


def pytest_configure() -> None:
    # What a shell sends to the background has SIGINT ignored, and under nohup SIGHUP; children inherit that, and tests send both to
    # theirs. A handler of ours, even one that does nothing, is not inherited.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: None)


@pytest.fixture(scope="session")
def plain_sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """One sshd for all tests that only need to log in somewhere."""
    require(SSHD, "no sshd on this machine: apt-get install -y openssh-server")
    with sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def needs_fuse() -> None:
    """For tests with a file system that never answers."""
    missing = fuse.available()
    require(missing is None, str(missing))


@pytest.fixture(autouse=True)
def no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test uses the agent of whoever runs it."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
