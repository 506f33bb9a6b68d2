"""Asks a machine over SSH for signs of an installed system; nothing is changed or pinned. A host key that is
pinned is checked as ever. Where none is, or another, the shown one is taken for this one look
(`inventory.transport.unpinned`), and the keys that were proven in that connection come with the report."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import provisioning.base.onnode
from healthcheck.collector import joined
from healthcheck.collector.loader import LOADER, payload
from inventory.model import Node
from inventory.sshconfig import SshConfig
from inventory.text import clean
from inventory.transport.base import Failure, Limits, Program, Reply, Stage, Transport
from inventory.transport.deadline import bounded
from inventory.transport.unpinned import run_unpinned
from provisioning.agent import onnode
from provisioning.osinstall.banner import banner
from provisioning.osinstall.base import OsReport, OsState
from provisioning.osinstall.evidence import INSTALLERS, WantedSigns, judged
from provisioning.osinstall.hostkeylines import line_of
from provisioning.osinstall.signs import SignsUnreadable, read

_PARTS = (Path(onnode.__file__).with_name("files.py"),
          Path(provisioning.base.onnode.__file__).with_name("answer.py"),
          Path(__file__).with_name("onnode") / "signs.py")
_LIMITS = Limits(node_s=45.0, reply_bytes=1 << 20, fanout=1, twice=False)
_ADVICE = {
    Stage.AUTH: "if it is the installed system, put the public key of muster's user there (authorized_keys); "
                "if it is an installer, wait or see its console",
    Stage.PYTHON: "if it is the installed system, install python3 (3.8 or newer) there, or name it in the "
                  "inventory (python:)",
    Stage.BECOME: "let the user go through sudo without a password, or log in as root"}
_CONSOLE = "see its console, sshd there, and its address in the inventory"
# Whoever is on the way has failed, and nothing is known of the machine.
_ON_THE_WAY = (Stage.HEAD, Stage.RESOLVE, Stage.JUMP, Stage.TURN)


class SshSigns:
    """`transport` reaches machines and checks host keys strictly; `config` None: ssh's files."""

    def __init__(
        self, transport: Callable[[], Transport], wanted: WantedSigns, config: SshConfig | None = None,
    ) -> None:
        self._transport, self._wanted, self._config = transport, wanted, config

    def state(self, node: Node) -> OsReport:
        """PLANNED where nothing answers; else as its signs say. Raises nothing for a machine's sake."""
        found = banner(node, config=self._config)
        if not found.line:
            state = OsState.PLANNED if found.asked else OsState.UNKNOWN
            return OsReport(state, clean(f"nothing answers: {found.why}", 300), advice=_CONSOLE)
        program = self._program()
        limits = bounded([node], _LIMITS, None)
        (reply,) = self._transport().run([node], program, limits)
        keys: tuple[bytes, ...] = ()
        if reply.failure is not None and reply.failure.stage is Stage.HOST_KEY:
            unpinned = run_unpinned(node, program, limits, self._config)
            reply, keys = unpinned.reply, unpinned.host_keys
        report = self._read(reply, found.line)
        proven = map(line_of, keys) if report.state is OsState.INSTALLED else ()
        return replace(report, host_keys=tuple(proven), answered=True)

    def _program(self) -> Program:
        marker = self._wanted.marker
        request = {"marker": marker.file if marker is not None else "", "programs": sorted(INSTALLERS)}
        return Program(secrets.token_hex(8), LOADER,
                       payload(joined.joined(_PARTS).encode(), json.dumps(request).encode()), repeatable=True)

    def _read(self, reply: Reply, line: str) -> OsReport:
        if reply.failure is not None:
            return _unreached(reply.failure, line)
        try:
            return judged(read(reply.body), self._wanted)
        except SignsUnreadable as error:
            return OsReport(OsState.UNKNOWN, f"an SSH server answers, and {error}", advice=_CONSOLE)


def _unreached(failure: Failure, line: str) -> OsReport:
    why = f"{failure.stage.value}: {failure.reason}"
    message = why if failure.stage in _ON_THE_WAY else (
        f"an SSH server answers ({line}), which may be an installer's: {why}")
    return OsReport(OsState.UNKNOWN, clean(message, 300), advice=_ADVICE.get(failure.stage, _CONSOLE))


