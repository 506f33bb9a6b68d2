"""How much of what was asked of a node was seen, and what was not for want of root."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from healthcheck.probes import Kind, Probe
from healthcheck.recording import Capture, Outcome, Recording

# What tools say, and end like any other failure.
_DENIED = re.compile("permission denied|operation not permitted|must be root|(?:requires?|needs?) root|run as root", re.IGNORECASE)
# What Docker's client before 23 says in its answer, and ends well.
_ANSWERED = re.compile(r'"ServerErrors": ?\["(?:[^"\\]|\\.){0,400}?permission denied', re.IGNORECASE)
_SEEN = (Outcome.DONE, Outcome.TRUNCATED)


@dataclass(frozen=True)
class Coverage:
    """Probes by number: asked for, captured at least in part, in need of root; and the ids of those not seen without it, sorted."""

    asked: int
    captured: int
    need_root: int
    denied: tuple[str, ...]


def coverage(recording: Recording, probes: Sequence[Probe]) -> Coverage:
    """What a reached node's recording holds of these probes."""
    held = recording.captures
    denied = tuple(sorted(probe.id for probe in probes if probe.root and probe.id in held and _denied(probe, held[probe.id])))
    seen = [probe for probe in probes if probe.id in held and held[probe.id].outcome in _SEEN and probe.id not in denied]
    return Coverage(len(probes), len(seen), sum(probe.root for probe in probes), denied)


def _denied(probe: Probe, capture: Capture) -> bool:
    if capture.outcome is Outcome.DENIED or any(entry.outcome is Outcome.DENIED for entry in capture.files.values()):
        return True
    said = capture.stderr + capture.text[-4096:] if capture.exit else capture.stderr
    return probe.kind is Kind.COMMAND and bool(_DENIED.search(said) or _ANSWERED.search(capture.text))
