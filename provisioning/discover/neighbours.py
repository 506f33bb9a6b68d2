"""Reads the neighbours of nodes: by `lldpctl` over SSH, or from files that hold its output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from healthcheck.collector import program, reply
from healthcheck.facts.base import Captures, why
from healthcheck.facts.lldp import LLDP
from healthcheck.facts.lldpneighbours import MOST_LETTERS, LldpNeighbour, neighbours
from healthcheck.facts.netdev import BASE, NETDEV
from healthcheck.facts.port import slot
from healthcheck.facts.values import Unread
from healthcheck.model.probes import ProbeSet
from healthcheck.model.recording import Capture, Outcome, Recording
from inventory.errors import UsageError
from inventory.model import Node
from inventory.text import clean
from inventory.transport.base import RETURN_S, Limits, Transport
from inventory.transport.deadline import bounded
from provisioning.discover.labels import LabelEvidence

_PROGRAM_S = 30.0
_SUFFIXES = (".json", ".json0", ".xml")


def ask(
    nodes: Sequence[Node], transport: Transport, *, fanout: int = 64, seconds: float | None = None,
) -> Iterator[LabelEvidence]:
    """What lldpd on each node says of its neighbours; changes nothing there."""
    probes = ProbeSet.of((LLDP, NETDEV), _PROGRAM_S)
    limits = bounded(nodes, Limits(fanout=fanout, program_s=_PROGRAM_S + RETURN_S, node_s=90.0), seconds)
    for one in transport.run(nodes, program.build(probes, nvml=False), limits):
        yield read(reply.within(reply.decode(one), probes))


def read(recording: Recording) -> LabelEvidence:
    """What a recording says of a node's neighbours and of the addresses of its interfaces."""
    if recording.failure is not None:
        words = f"{recording.failure.stage.value}: {recording.failure.reason}"
        return LabelEvidence(recording.node, "lldpctl", unread=(words,))
    captures, unread = Captures(recording), []
    found: tuple[LldpNeighbour, ...] = ()
    try:
        found = neighbours(captures.text(LLDP))
    except Unread:
        capture = captures.capture(LLDP)
        unread.append(f"{why(LLDP, capture)}{_advice(capture)}")
    except ValueError as problem:
        unread.append(f"lldpctl: {problem}")
    addresses: dict[str, str] = {}
    try:
        files = captures.files(NETDEV)
        for path in files:
            name = path[len(BASE) + 1:].partition("/")[0]
            if path == f"{BASE}/{name}/device/uevent" and isinstance(at := files.read(path, slot), str):
                addresses[name] = at
    except Unread as problem:
        unread.append(f"interfaces: {problem}")
    return LabelEvidence(recording.node, "lldpctl", found, addresses, unread=tuple(unread))


def _advice(capture: Capture | None) -> str:
    if capture is None:
        return ""
    if capture.outcome is Outcome.MISSING:
        return "; install and start lldpd"
    denied = capture.outcome is Outcome.DENIED or "Permission denied" in capture.stderr
    return "; lldpd answers root alone: --become" if denied else ""


def saved(nodes: Sequence[Node], folder: Path) -> Iterator[LabelEvidence]:
    """The same, of a folder with NODE.json, NODE.json0 or NODE.xml, as lldpctl printed them; such a file says
    no address of an interface. Raises UsageError where there is no such folder."""
    if not folder.is_dir():
        raise UsageError(f"--saved {clean(folder)}: is no folder")
    for node in nodes:
        path = next((path for suffix in _SUFFIXES if (path := folder / f"{node.name}{suffix}").is_file()),
                    None)
        if path is None:
            names = ", ".join(f"{node.name}{suffix}" for suffix in _SUFFIXES)
            yield LabelEvidence(node.name, clean(folder), unread=(f"{clean(folder)} has none of {names}",))
            continue
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                found = neighbours(file.read(MOST_LETTERS + 1))
        except (OSError, ValueError) as problem:
            words = problem.strerror if isinstance(problem, OSError) else str(problem)
            yield LabelEvidence(node.name, clean(path), unread=(f"{clean(path)}: {words}",))
        else:
            yield LabelEvidence(node.name, clean(path), found)
