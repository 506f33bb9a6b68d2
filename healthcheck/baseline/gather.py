"""Gets what is learned from: digests of the boots that saved logs or recordings of nodes hold, and why others hold none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from healthcheck.baseline.fold import fold
from healthcheck.baseline.forms import read
from healthcheck.baseline.model import Digest
from healthcheck.facts.base import FACTS, Captures, Partial, Unmeasured, build_fact
from healthcheck.facts.host import UPTIME
from healthcheck.facts.kernel import LOG
from healthcheck.facts.kernel_event import KernelEvents
from healthcheck.probes import ProbeSet
from healthcheck.recording import Recording
from inventory.text import clean

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")
_ENDS = (".gz", ".xz", ".bz2", ".txt", ".log", ".dmesg", ".kmsg", ".json", ".journal")


@dataclass
class Gathered:
    """Digests, the nodes without one and why, and what could not be seen in those that have."""

    digests: list[Digest] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    caveats: dict[str, str] = field(default_factory=dict)


def probes() -> ProbeSet:
    """What a sweep that only learns sends: the kernel's log, and how long the node is up."""
    return ProbeSet.of((LOG, UPTIME))


def node_of(file: str) -> str:
    """The node's name that a saved log's name stands for: gpu001 for logs/gpu001.dmesg.gz."""
    name = file.replace("\\", "/").rstrip("/").rpartition("/")[2]
    while (end := next((end for end in _ENDS if name.lower().endswith(end) and len(name) > len(end)), None)) is not None:
        name = name[:-len(end)]
    return _NOT_IN_NAMES.sub("-", name).lstrip(".-")[:200] or "node"


def of_files(files: Mapping[str, bytes], sku: str) -> Gathered:
    """The boots of saved logs, by the files' names. Raises UsageError for one that is damaged or too long."""
    found = Gathered()
    for name, data in files.items():
        logs, node = read(data, name), node_of(name)
        if not logs:
            found.left_out[node] = f"{clean(name, 200)} holds no line of a kernel log"
        for log in logs:
            if log.caveats:
                found.caveats[node] = "; ".join(log.caveats)
            digest = fold(log.lines, node=node, boot=log.boot, caveats=log.caveats)
            found.digests.append(replace(digest, scope=replace(digest.scope, sku=sku)))
    return found


def of_recordings(looks: Iterable[Recording], skus: Mapping[str, str]) -> Gathered:
    """The boot that each look was made in; `skus` are those of the nodes, by name."""
    found = Gathered()
    for look in looks:
        if look.host is None:
            reason = f"{look.failure.stage.value}: {look.failure.reason}" if look.failure is not None else "it was not reached"
            found.left_out[look.node] = clean(reason, 300)
            continue
        events = build_fact(FACTS["kernel_events"], Captures(look))
        if isinstance(events, Unmeasured):
            found.left_out[look.node] = clean(events.reason, 300)
            continue
        if isinstance(events, Partial):
            found.caveats[look.node] = clean(events.reason, 300)
            events = events.value
        assert isinstance(events, KernelEvents)  # noqa: S101  (narrowing; it is what the fact is)
        if events.caveat:
            found.caveats.setdefault(look.node, clean(events.caveat, 300))
        scope = replace(events.digest.scope, sku=skus.get(look.node, ""))
        found.digests.append(replace(events.digest, node=look.node, boot=look.host.boot_id, scope=scope))
    return found
