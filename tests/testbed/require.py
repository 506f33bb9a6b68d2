"""What a test needs of the machine: where CI runs a missing real component is a failure, on a laptop it is a
skip with its reason."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.testbed.sshd import SSHD


def require(condition: object, reason: str) -> None:
    """Returns when the condition is true. Otherwise the test fails where CI=true, so that nothing goes
    untested unseen, and is skipped elsewhere; `reason` says what is missing, and how to get it."""
    if condition:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must have it: {reason}", pytrace=False)
    pytest.skip(reason)


def require_fleet() -> None:
    """What `provisioning.demo.fleet` needs: sshd, and a C compiler for the simulated hardware."""
    require(SSHD, "no sshd on this machine: apt-get install -y openssh-server")
    require(any(map(shutil.which, ("cc", "gcc", "clang"))),
            "no C compiler on this machine: apt-get install -y gcc libc6-dev")
