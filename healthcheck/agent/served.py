"""The agent's state folder as a source of the exporter: this node's newest result while it is current.

A result that is cut, of another boot or node, from before a clock change,
or over two periods old makes the node unknown.
"""

from __future__ import annotations

import base64
import json
import math
import os
import socket
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from healthcheck.agent import metrics
from healthcheck.agent.keep import MOST
from healthcheck.config import agentnote
from healthcheck.config.codec import from_plain
from healthcheck.config.nodeentry import entry_digest
from healthcheck.exporter.source import FleetStatus, NodeNow
from healthcheck.model import agentfault
from healthcheck.model.agentmetric import PERIOD, WRITABLE, AgentBasis
from healthcheck.model.agentmetric import samples as run_samples
from healthcheck.model.outcome import NodeState
from healthcheck.model.places import RESULT, SCHEMA
from healthcheck.store import newest
from healthcheck.store.newest import Newest
from healthcheck.store.telemetry import Telemetry
from inventory.model import Node
from inventory.text import clean

PERIODS = 2.0
_CLOCK_S = 60.0         # by which two clocks may drift apart
_LONGEST_S = 1e7
_Stamp = tuple[int, int, int]


class _Unread(Exception):
    """Why no result can be served; one line."""


@dataclass(frozen=True)
class _Result:
    """One result. `uptime` is the time since boot, by a clock that cannot be set."""

    node: Node
    newest: Newest
    period: float
    uptime: float
    more: tuple[Any, ...]


class AgentSource:
    """Reads the state folder when its result has changed. `node` is from the installation;
    by default from the result."""

    def __init__(
        self, state: Path, node: Node | None = None, *,
        uptime: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    ) -> None:
        self._path = state / RESULT
        self._note = agentfault.note_of(str(state))
        self._node, self._uptime = node, uptime
        self._stamp: _Stamp | None = None
        self._held: _Result | str = ""
        self._shown: tuple[object, ...] = ()

    def read(self, now: float) -> FleetStatus | None:
        """The node, without data if its result is not reliable."""
        held = self._result()
        trouble = held if isinstance(held, str) else self._unbelievable(held, now)
        aged = "" if trouble or isinstance(held, str) else self._aged(held)
        faults = agentnote.read(self._note)
        if self._shown == (held, trouble, aged, faults):
            return None
        self._shown = (held, trouble, aged, faults)
        lost = faults.get(agentfault.STATE_FOLDER)
        trouble, aged = (f"{text}; its agent reports: {lost}" if text and lost else text
                         for text in (trouble, aged))
        if isinstance(held, str) or trouble:
            name = (held.node.name if isinstance(held, _Result) else self._node.name if self._node is not None
                    else _here())
            return FleetStatus((NodeNow(name, self._node, None),), None, trouble,
                               more=_writable(name, faults))
        # The page uses the clock for staleness, which is right while the clock is not set.
        return FleetStatus((NodeNow(held.node.name, held.node, held.newest),), None, aged,
                           stale=PERIODS * held.period,
                           more=(*held.more, *_writable(held.node.name, faults)))

    def close(self) -> None:
        """Nothing to close."""

    def _result(self) -> _Result | str:
        """The result, or why there is none; the same object while the file is unchanged."""
        try:
            with self._path.open("rb") as file:
                found = self._path.stat()
                stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
                if stamp != self._stamp:
                    self._held, self._stamp = self._parsed(file.read(MOST + 1)), stamp
        except OSError as error:
            self._stamp, self._held = None, f"{self._path}: {error.strerror}: has the agent run yet?"
        return self._held

    def _parsed(self, data: bytes) -> _Result | str:
        try:
            return _result(data, self._node)
        except _Unread as error:
            return f"{self._path}: {error}"
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError,
                zlib.error) as error:
            return f"{self._path}: cannot be read ({type(error).__name__}: {clean(str(error), 120)})"

    def _unbelievable(self, held: _Result, now: float) -> str:
        if held.newest.node != held.node.name:
            return f"its newest result is of another node, {clean(held.newest.node, 64)}"
        # Time of day minus time since boot is constant until the node boots or its clock is set.
        elapsed = self._uptime() - held.uptime
        if elapsed < 0:
            return "this node has booted since its newest result"
        if abs((now - held.newest.time) - elapsed) > _CLOCK_S:
            return "this node has booted, or its clock was set, since its newest result"
        return ""

    def _aged(self, held: _Result) -> str:
        old = self._uptime() - held.uptime > PERIODS * held.period
        return (f"the newest result is over two periods of {held.period:g} s old; see: systemctl status "
                "muster-agent.timer" if old else "")


def _writable(node: str, faults: Mapping[str, str]) -> tuple[Any, ...]:
    """The samples of what this node's agent could write; of node_exporter's folder only where it failed."""
    places = [place for place in (agentfault.STATE_FOLDER, agentfault.TEXTFILE)
              if place == agentfault.STATE_FOLDER or place in faults]
    return tuple((WRITABLE, WRITABLE.sample(place not in faults, node, place)) for place in places)


def _result(data: bytes, node: Node | None) -> _Result:
    """A result file's content; raises errors that `_parsed` handles."""
    if len(data) > MOST:
        raise _Unread(f"is over {MOST >> 20} MiB")
    result: Mapping[str, Any] = json.loads(data)
    if result["schema"] != SCHEMA:
        raise _Unread(f"is of another version ({ascii(result['schema'])[:60]}, expected {SCHEMA})")
    when, period, uptime = (_number(result, name) for name in ("time", "period", "uptime"))
    if not 0 < period <= _LONGEST_S:
        raise _Unread("names no period")
    own: Node = node or from_plain(Node, result["words"])
    name, rules, bundle = (_text(result, key) for key in ("node", "rules", "bundle"))
    if result["judged"] is True:
        key = "snapshot" if "snapshot" in result else "look"    # the second where an earlier version wrote it
        snapshot = base64.b64decode(_text(result, key), validate=True)
        machine = zlib.decompressobj()
        machine.decompress(snapshot, MOST)
        if not machine.eof:
            raise _Unread("its recording is cut, or too long")
        now = newest.decoded(name, when, rules, snapshot, result["kept"])
    else:
        kept = json.loads(result["kept"]) if result.get("kept") else {}
        now = Newest(name, when, rules, NodeState.UNKNOWN.value, _text(result, "reason"), "agent", None, {},
                     (), None, Telemetry(), kept.get("totals", {}), kept.get("xids"))
    if now.state not in {state.value for state in NodeState} or now.state != result["state"]:
        raise _Unread("does not name exactly one state")
    samples = [(PERIOD, PERIOD.sample(period, own.name)),
               (metrics.RULES, metrics.RULES.sample(1, bundle, own.name, rules[:12]))]
    if result["judged"] is True:
        profile, version = (_text(result, key) if key in result else "" for key in ("profile", "version"))
        basis = AgentBasis(now.shown.boot, entry_digest(result.get("words")), profile, rules, now.sku or "",
                           version)
        samples += run_samples(own.name, now.state == NodeState.HEALTHY.value, when, basis)
    if "seconds" in result:
        samples.insert(1, (metrics.TOOK, metrics.TOOK.sample(_number(result, "seconds"), own.name)))
    return _Result(own, now, period, uptime, tuple(samples))


def _number(result: Mapping[str, Any], name: str) -> float:
    found = result[name]
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not math.isfinite(found):
        raise _Unread(f"{name} is not a number")
    return float(found)


def _text(result: Mapping[str, Any], name: str) -> str:
    found = result[name]
    if not isinstance(found, str):
        raise _Unread(f"{name} is not text")
    return found


def _here() -> str:
    # In a pod, whose hostname is its own (provisioning.agent.manifest).
    return os.environ.get("MUSTER_NODE") or socket.gethostname().partition(".")[0]
