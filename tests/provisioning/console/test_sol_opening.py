"""A session of which the controller tells nothing once it is asked for is not left behind."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from inventory.model import Bmc, Node, Speaks
from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.console import sol
from provisioning.console.source import ConsoleUnavailable


class Loses:
    """A controller that does not answer any more once its console is attached."""

    def __init__(self, *given: object) -> None:
        self.asked = 0

    def console_session(self) -> int:
        self.asked += 1
        if self.asked > 1:
            raise BmcError(BmcErrorReason.TIMEOUT, "no answer")
        return 0

    def attach_console(self, level: object) -> subprocess.Popen[bytes]:
        made = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)
        STARTED.append(made)
        return made

    def close(self) -> None:
        pass


STARTED: list[subprocess.Popen[bytes]] = []


def test_a_controller_that_stops_answering_while_the_console_opens_leaves_no_process(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sol, "IpmiController", Loses)
    monkeypatch.setattr(sol, "supplier", lambda node: None)
    monkeypatch.setattr(sol, "_LOOKS_S", 0.01)
    with pytest.raises(ConsoleUnavailable) as caught:
        sol.opened(Node("n1", bmc=Bmc("192.0.2.9", speaks=Speaks.IPMI)), tmp_path)
    (process,) = STARTED
    try:
        assert caught.value.passing and process.poll() is not None
    finally:
        process.kill()
