"""Back end `command`: a site's program says how a machine stands, and has it installed, as `PROGRAM ... state
NODE` and `... install NODE`, without a shell or standard input. `state` prints one JSON object; `install`
ends with 0 once the installation has begun or is accepted. Standard error goes nowhere."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from inventory.model import Node
from inventory.text import clean, short
from provisioning.bmc.base import BootTarget
from provisioning.osinstall.base import OsError, OsReport, OsState
from provisioning.osinstall.hostkeylines import MOST_KEYS, blob_of, line_of

KEYS = ("state", "image", "host_keys", "message", "advice")
MOST_BYTES = 64 * 1024
_STATES = ", ".join(state.value for state in OsState)
_BY_HAND = "run it by hand to see why"


class ByCommand:
    """`argv` is the program and its first words, `seconds` how long a call may take."""

    name = "command"
    target = BootTarget.NONE

    def __init__(self, argv: tuple[str, ...], seconds: float, drives_power: bool) -> None:
        self._argv, self._seconds, self.drives_power = argv, seconds, drives_power

    def state(self, node: Node) -> OsReport:
        """See `OsBackend.state`."""
        return parsed(self._ran("state", node), short(self._argv[0]))

    def changes(self, node: Node) -> tuple[str, ...]:
        """See `OsBackend.changes`."""
        return (f"run: {clean(' '.join([*self._argv, 'install', node.name]), 200)}",)

    def install(self, node: Node) -> None:
        """See `OsBackend.install`."""
        self._ran("install", node)

    def _ran(self, word: str, node: Node) -> bytes:
        """What it prints, if it ends well and in time."""
        what = f"{short(self._argv[0])} {word} {node.name}"
        try:
            process = subprocess.Popen([*self._argv, word, node.name], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                       start_new_session=True)
        except (OSError, ValueError) as problem:
            why = problem.strerror if isinstance(problem, OSError) else "a word with a NUL byte"
            raise OsError(f"{what} cannot be started: {why}", done=False) from None
        ended = False
        try:
            data = _output(process, time.monotonic() + self._seconds)
            ended = data is not None
        except TimeoutError:
            raise OsError(f"{what} did not end within {self._seconds:g} s, or what it started holds its "
                          "standard output open") from None
        finally:
            if not ended:                   # what it started goes, too: that may be all that is left
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if data is None:
            raise OsError(f"{what} printed over {MOST_BYTES // 1024} KiB")
        if process.returncode != 0:
            raise OsError(f"{what} ended with exit code {process.returncode}; {_BY_HAND}")
        return data


def _output(process: subprocess.Popen[bytes], end: float) -> bytes | None:
    """All that it prints until it ends; None where that is too much. Raises TimeoutError."""
    assert process.stdout is not None  # noqa: S101  (it has a pipe)
    data = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, end - time.monotonic())):
                raise TimeoutError
            chunk = os.read(process.stdout.fileno(), 65536)
            if not chunk:
                break
            data += chunk
            if len(data) > MOST_BYTES:
                return None
    try:
        process.wait(max(0.01, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return data


def parsed(data: bytes, what: str) -> OsReport:
    """What a program's `state` prints means; raises OsError, which names the key that is wrong."""
    try:
        given = json.loads(data.decode())
    except (ValueError, RecursionError):
        raise OsError(f"{what} state printed no JSON object; {_BY_HAND}") from None
    if not isinstance(given, dict):
        raise OsError(f"{what} state printed no JSON object; {_BY_HAND}")
    if unknown := [key for key in given if key not in KEYS]:
        raise OsError(f"{what} state: unknown key {short(unknown[0])}; known: {', '.join(KEYS)}")
    try:
        state = OsState(given.get("state"))
    except ValueError:
        raise OsError(f"{what} state: state: expected one of {_STATES}, got "
                      f"{short(given.get('state'))}") from None
    return OsReport(state, _line(given, "message", what, 300) or f"{state.value}, says its installer",
                    _line(given, "image", what, 80), _keys(given, what), _line(given, "advice", what, 200))


def _line(given: Mapping[str, Any], key: str, what: str, most: int) -> str:
    value = given.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise OsError(f"{what} state: {key}: expected text, got {short(value)}")
    return clean(value, most)


def _keys(given: Mapping[str, Any], what: str) -> tuple[str, ...]:
    value = given.get("host_keys") or []
    if not isinstance(value, list) or len(value) > MOST_KEYS:
        raise OsError(f"{what} state: host_keys: expected a list of at most {MOST_KEYS} public keys")
    try:
        return tuple(line_of(blob_of(one)) for one in value)
    except (ValueError, AttributeError, TypeError):
        raise OsError(f"{what} state: host_keys: expected lines such as \"ssh-ed25519 AAAA...\", as in "
                      "ssh_host_ed25519_key.pub") from None
