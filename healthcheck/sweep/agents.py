"""Fetches on the head what the agents have recorded: the usual program reads one file, and the head's own
rules judge it.

An agent's recording may be old, of another boot or machine, cut, or stamped by a wrong clock. Nothing is then
known about the node, and the failure says why.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from healthcheck.collector.reply import decode, within
from healthcheck.model import agentfault
from healthcheck.model.agentversion import AgentAge, agent_version, not_recorded
from healthcheck.model.places import RECORDING, STATE
from healthcheck.model.probes import MIB, Probe, ProbeKind, ProbeSet
from healthcheck.model.recording import (
    Capture,
    FileCapture,
    Host,
    Outcome,
    Recording,
    RecordingError,
    from_json,
)
from inventory.release import VERSION
from inventory.text import clean
from inventory.transport.base import Failure, Reply, Stage

PATH = f"{STATE}/{RECORDING}"
PROBE = Probe("muster.agent", ProbeKind.FILES, paths=(PATH, agentfault.NOTE), seconds=10.0, each_s=8.0,
              limit=4 * MIB, root=True)
MOST = 32 * MIB             # bytes, decompressed
CLOCK_S = 60.0              # by which a node's clock may differ from ours, including the time in transit
_FUTURE_S = 2.0             # a clock that is being disciplined may step back a little
_SHORTEST_S, _LONGEST_S = 10.0, 86400.0
_PERIODS = 2.0
_LATEST = 253_402_300_800.0     # the year 10000


class _Unusable(Exception):
    """The recording does not show the node as it is now; the text is one line."""

    stage = Stage.AGENT


class _NotThere(_Unusable):
    """No agent there, one of another version, or a file that we may not read: no fault of the node."""

    stage = Stage.NO_AGENT


@dataclass(frozen=True)
class Agents:
    """Reads agents' state files out of replies. `max_age` in seconds; None: twice the agent's own period.
    `head` is our own version, with which `model.agentversion` compares theirs."""

    max_age: float | None = None
    head: str = VERSION

    @cached_property
    def probes(self) -> ProbeSet:
        """The probe that fetches the file."""
        return ProbeSet.of([PROBE], 15.0)

    def snapshots(self, reply: Recording, wanted: ProbeSet) -> tuple[Recording, Recording | None]:
        """The agent's recording of these probes and its earlier one, or else a recording of the failure."""
        if reply.host is None:
            return reply, None
        try:
            recording, previous, lacks = self._read(reply, reply.host)
        except (_Unusable, RecordingError) as error:
            stage = error.stage if isinstance(error, _Unusable) else Stage.AGENT
            if lost := _fault(reply):
                # An agent that runs and cannot write is that node's matter, with or without an old file.
                stage, error = Stage.AGENT, _Unusable(f"{lost} ({error})")
            return Recording(reply.node, reply.received, None, Failure(stage, clean(str(error), 400))), None
        return (_completed(within(recording, wanted), wanted, lacks),
                None if previous is None else within(previous, wanted))

    def _read(self, reply: Recording, host: Host) -> tuple[Recording, Recording | None, str]:
        """The recordings, and what is to be said of probes that the agent's version does not have; empty
        where it is ours."""
        if abs(off := host.time - reply.received) > CLOCK_S:
            raise _Unusable(
                f"the node's clock is {abs(off):.0f} s {'ahead' if off > 0 else 'behind'}, so the age of its "
                "agent's snapshot is not known; set its clock (chronyc tracking)")
        document = _document(_bytes(reply))
        theirs = document.get("version")
        found = agent_version(theirs, self.head, reply.node, document.get("schema"))
        if found.refused:
            raise _NotThere(found.refused)
        lacks = "" if found.age is AgentAge.SAME else not_recorded(theirs, self.head, reply.node)
        if document.get("node") != reply.node:
            raise _Unusable(f"the agent there belongs to node {ascii(document.get('node'))[:80]}: "
                            f"install this node's own (muster agent install {reply.node})")
        recording = _recording(reply.node, document.get("recording"), document.get("reply"),
                               document.get("time"))
        if recording is None:
            raise _Unusable("its agent's file holds no recording")
        if recording.host is None:
            return recording, None, lacks
        self._same_machine(recording.host, host)
        self._fresh(recording.host.time, host.time, document.get("period"))
        before = document.get("previous"), document.get("previous_reply"), document.get("previous_time")
        try:
            previous = _recording(reply.node, *before)
        except (_Unusable, RecordingError):
            previous = None
        return recording, previous if previous is not None and previous.host is not None else None, lacks

    def _same_machine(self, then: Host, now: Host) -> None:
        if then.hostname != now.hostname:
            raise _Unusable("its agent's snapshot is of a machine that calls itself "
                            f"{ascii(then.hostname)[:80]}, and this one is {ascii(now.hostname)[:80]}")
        if then.boot_id != now.boot_id:
            raise _Unusable("the node was booted after its agent's snapshot")

    def _fresh(self, then: float, now: float, period: Any) -> None:
        if then > now + _FUTURE_S:
            raise _Unusable(
                f"its agent's snapshot is {then - now:.0f} s in the future: the node's clock was wrong")
        if self.max_age is not None:
            most = self.max_age
        elif type(period) in (int, float) and _SHORTEST_S <= period <= _LONGEST_S:
            most = _PERIODS * period
        else:
            raise _Unusable("its agent does not say how often it runs")
        if now - then > most:
            raise _Unusable(f"its agent's snapshot is {_span(now - then)} old, and at most {_span(most)} is "
                            "accepted (muster agent status)")


def _fault(reply: Recording) -> str:
    """Why the agent could not write its state folder in its newest run, as it noted; empty if it could."""
    capture = reply.captures.get(PROBE.id)
    entry = capture.files.get(agentfault.NOTE) if capture is not None else None
    if entry is None or entry.outcome is not Outcome.DONE or len(entry.text) > agentfault.MOST:
        return ""
    return agentfault.decode(entry.text.encode("utf-8", "replace")).get(agentfault.STATE_FOLDER, "")


def _bytes(reply: Recording) -> bytes:
    capture = reply.captures.get(PROBE.id)
    if capture is None:
        raise _Unusable("the node did not report whether it has an agent's file")
    done = capture.outcome is Outcome.DONE
    entry = capture.files.get(PATH) or FileCapture(Outcome.MISSING if done else capture.outcome)
    if entry.outcome is Outcome.MISSING:
        raise _NotThere(f"none has left a snapshot there (muster agent install {reply.node})")
    if entry.outcome is Outcome.DENIED:
        raise _NotThere(f"{PATH} is readable for root only: give the node `privilege: become` or `helper` in "
                        "the inventory, or log in as root")
    if entry.outcome is Outcome.TRUNCATED:
        raise _Unusable(f"its agent's file is over {PROBE.limit // MIB} MiB")
    if entry.outcome is not Outcome.DONE:
        raise _Unusable("its agent's file cannot be read "
                        f"({entry.outcome.value}{': ' + capture.note if capture.note else ''})")
    try:
        return entry.text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise _Unusable("its agent's file is damaged: it does not hold bytes") from None


def _document(data: bytes) -> dict[str, Any]:
    machine = zlib.decompressobj(wbits=31)
    try:
        text = machine.decompress(data, MOST + 1)
    except zlib.error:
        raise _Unusable("its agent's file is damaged") from None
    if len(text) > MOST:
        raise _Unusable(f"its agent's file grows past {MOST // MIB} MiB")
    if not machine.eof:
        raise _Unusable("its agent's file is cut")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise _Unusable("its agent's file is damaged: it is not JSON") from None
    return document if isinstance(document, dict) else {}


def _completed(recording: Recording, wanted: ProbeSet, lacks: str) -> Recording:
    """The recording, with a capture that says why for each probe that an agent of another version lacks."""
    if not lacks or recording.host is None:
        return recording
    missing = {probe.id: Capture(Outcome.UNABLE, note=lacks) for probe in wanted.probes
               if probe.id not in recording.captures}
    return replace(recording, captures={**recording.captures, **missing}) if missing else recording


def _recording(node: str, recorded: Any, reply: Any, time: Any) -> Recording | None:
    """The recording, or the collector's answer if the node could not decode it; None without either."""
    if recorded is not None:
        recording = from_json(recorded)
    elif isinstance(reply, str):
        when = float(time) if type(time) in (int, float) and abs(time) < _LATEST else 0.0
        try:
            body = base64.b64decode(reply, validate=True)
        except ValueError:
            raise _Unusable("its agent's file is damaged: the answer in it is not base64") from None
        recording = decode(Reply(node, body, None, when, when), limit=MOST)
        if recording.failure is not None:
            raise _Unusable(f"its agent's recording: {recording.failure.reason}")
    else:
        return None
    if recording.node != node:
        raise _Unusable(f"its agent's snapshot is of node {ascii(recording.node)[:80]}")
    return recording


def _span(seconds: float) -> str:
    return (f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
            if seconds < 7200 else f"{seconds / 3600:.0f} h")
