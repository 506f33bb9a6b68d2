"""Digests for learning, of the boots in saved logs or recordings of nodes; notes why others hold none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from healthcheck.baseline.formats import read
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.host import UPTIME
from healthcheck.facts.kernel import LOG
from healthcheck.facts.kernel_event import KernelEvents
from healthcheck.facts.values import Partial, Unmeasured
from healthcheck.kernellog.fold import fold
from healthcheck.kernellog.model import Digest
from healthcheck.model.probes import ProbeSet
from healthcheck.model.recording import Recording
from inventory.text import clean

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")
_ENDS = (".gz", ".xz", ".bz2", ".txt", ".log", ".dmesg", ".kmsg", ".json", ".journal")


@dataclass
class LearningNotes:
    """The nodes that nothing was learned from, with the reason, and what could not be seen of others."""

    left_out: dict[str, str] = field(default_factory=dict)
    caveats: dict[str, str] = field(default_factory=dict)


def probes() -> ProbeSet:
    """The probes of a sweep that only learns: the kernel's log and the uptime."""
    return ProbeSet.of((LOG, UPTIME))


def node_of(file: str) -> str:
    """The node's name in a saved log's name: gpu001 for logs/gpu001.dmesg.gz."""
    name = file.replace("\\", "/").rstrip("/").rpartition("/")[2]
    while (end := next((end for end in _ENDS if name.lower().endswith(end) and len(name) > len(end)),
                       None)) is not None:
        name = name[:-len(end)]
    return _NOT_IN_NAMES.sub("-", name).lstrip(".-")[:200] or "node"


def digests_from_file(name: str, data: bytes, sku: str, notes: LearningNotes) -> Iterator[Digest]:
    """The boots of a saved log; its name gives the node. Raises UsageError if it is damaged or too long."""
    logs, node = read(data, name), node_of(name)
    if not logs:
        notes.left_out[node] = f"{clean(name, 200)} holds no line of a kernel log"
    for log in logs:
        if log.caveats:
            notes.caveats[node] = "; ".join(log.caveats)
        digest = fold(log.lines, node=node, boot=log.boot, caveats=log.caveats)
        yield replace(digest, scope=replace(digest.scope, sku=sku))


def digests_from_recording(recording: Recording, sku: str, notes: LearningNotes) -> Iterator[Digest]:
    """The boot of the recording; nothing if the node was not reached, or its log was not read."""
    if recording.host is None:
        reason = (f"{recording.failure.stage.value}: {recording.failure.reason}"
                  if recording.failure is not None else "it was not reached")
        notes.left_out[recording.node] = clean(reason, 300)
        return
    events = build_fact(FACTS["kernel_events"], Captures(recording))
    if isinstance(events, Unmeasured):
        notes.left_out[recording.node] = clean(events.reason, 300)
        return
    if isinstance(events, Partial):
        notes.caveats[recording.node] = clean(events.reason, 300)
        events = events.value
    assert isinstance(events, KernelEvents)  # noqa: S101  (narrowing; it is what the fact is)
    if events.caveat:
        notes.caveats.setdefault(recording.node, clean(events.caveat, 300))
    yield replace(events.digest.complete, node=recording.node, boot=recording.host.boot_id,
                  scope=replace(events.digest.scope, sku=sku))
