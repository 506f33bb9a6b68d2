"""How much of what was requested from a node was captured, and what was denied for want of root."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter

from healthcheck.model.probes import Probe, ProbeKind
from healthcheck.model.recording import Capture, Outcome, Recording

# Messages of tools, which then exit as for any other failure.
_DENIED = re.compile(
    "permission denied|operation not permitted|must be root|(?:requires?|needs?) root|run as root",
    re.IGNORECASE)
# Docker's client before 23 has this in its answer, and exits with 0.
_ANSWERED = re.compile(r'"ServerErrors": ?\["(?:[^"\\]|\\.){0,400}?permission denied', re.IGNORECASE)
_OUTCOME = attrgetter("outcome")
_SEEN = (Outcome.DONE, Outcome.TRUNCATED)


@dataclass(frozen=True)
class Coverage:
    """Numbers of probes requested, captured at least in part, and in need of root; the ids denied, sorted.

    `run_folder` is why the node's collector can remember no wedged probe, in its words; empty where it can.
    """

    asked: int
    captured: int
    need_root: int
    denied: tuple[str, ...]
    run_folder: str = ""


@dataclass(frozen=True)
class RequestedProbes:
    """The requested probes, analysed once for all nodes."""

    ids: tuple[str, ...]
    root: tuple[Probe, ...]

    @classmethod
    def of(cls, probes: Sequence[Probe]) -> RequestedProbes:
        """From these probes, each once."""
        return cls(tuple(probe.id for probe in probes), tuple(probe for probe in probes if probe.root))


def coverage(recording: Recording, asked: RequestedProbes) -> Coverage:
    """How much of these probes a reached node's recording holds."""
    held = recording.captures
    denied = tuple(sorted([probe.id for probe in asked.root
                           if probe.id in held and _denied(probe, held[probe.id])]))
    outcomes = [held[name].outcome for name in asked.ids if name in held and name not in denied]
    return _coverage(len(asked.ids), sum(map(outcomes.count, _SEEN)), len(asked.root), denied,
                     recording.host.run_folder if recording.host is not None else "")


# One object for all nodes with equal coverage.
_coverage = lru_cache(maxsize=64)(Coverage)


def _denied(probe: Probe, capture: Capture) -> bool:
    if capture.outcome is Outcome.DENIED or Outcome.DENIED in map(_OUTCOME, capture.files.values()):
        return True
    if probe.kind is not ProbeKind.COMMAND:
        return False
    output = capture.stderr + capture.text[-4096:] if capture.exit else capture.stderr
    return bool(output and _DENIED.search(output)) \
        or ('":' in capture.text and _ANSWERED.search(capture.text) is not None)
