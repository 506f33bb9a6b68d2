"""What was unusual in a node's kernel log at its earlier snapshots. The sweep passes it in; no machine is
read for it.

Each snapshot in the state folder has one more capture, UNUSUAL_CAPTURE, with a fingerprint of each unusual
thing that its rules reported (a line that the baseline does not know, one that is missing or too frequent, a
late phase), of this boot and the boot before it. So checks distinguish new findings from repeated ones, and a
saved sweep holds what its replay needs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from healthcheck.facts.limits import FINGERPRINTS
from healthcheck.facts.values import Fact
from healthcheck.model.outcome import Result, Status
from healthcheck.model.recording import Capture, Outcome, Recording

SEEN_BEFORE = "seen_before"
UNUSUAL_CAPTURE = "muster.unusual"
CHECKS = ("kernel.novel", "kernel.missing", "kernel.order", "kernel.rate", "kernel.suspect")


class SeenBefore(Fact):
    """Fingerprints of what earlier snapshots reported as unusual, of this boot or of the one before."""

    name: str
    fingerprints: frozenset[str]


NOTHING_SEEN = SeenBefore("kernel log", frozenset())


def fingerprint(subject: str) -> str:
    """The stored identity of a finding's subject."""
    return hashlib.sha256(subject.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def unusual(results: Mapping[str, Result]) -> tuple[str, ...]:
    """Fingerprints of all that these results report as unusual."""
    failed = (result for result in results.values() if result.status is Status.FAIL
              and result.check in CHECKS)
    return tuple(sorted({fingerprint(finding.subject) for result in failed
                         for finding in result.findings})[:FINGERPRINTS])


def seen_before(previous: Recording | None) -> SeenBefore:
    """The fact; `previous` is the newest snapshot before this one, of any boot."""
    capture = previous.captures.get(UNUSUAL_CAPTURE) if previous is not None else None
    if capture is None:
        return NOTHING_SEEN
    now, before = _read(capture)
    return SeenBefore("kernel log", frozenset((*now, *before)))


def unusual_capture(recording: Recording, previous: Recording | None, now: Iterable[str]) -> Capture:
    """The capture that is stored with this snapshot: fingerprints of its boot, and of the boot before it."""
    earlier, before = _read(previous.captures.get(UNUSUAL_CAPTURE)) if previous is not None else ((), ())
    if previous is not None and _boot(previous) != _boot(recording):
        earlier, before = (), earlier
    held = sorted({*now, *earlier})[:FINGERPRINTS]
    text = json.dumps({"boot": held, "boot_before": list(before)}, separators=(",", ":"))
    return Capture(Outcome.DONE, bytes=len(text), text=text)


def _boot(recording: Recording) -> str:
    return recording.host.boot_id if recording.host is not None else ""


def _read(capture: Capture | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fingerprints of this boot and of the one before; none from another version's capture or a damaged
    one."""
    try:
        document: Any = json.loads(capture.text) if capture is not None else {}
        now, before = document.get("boot", []), document.get("boot_before", [])
        return _words(now), _words(before)
    except (ValueError, AttributeError, RecursionError):
        return (), ()


def _words(value: Any) -> tuple[str, ...]:
    return (tuple(word for word in value[:FINGERPRINTS] if isinstance(word, str))
            if isinstance(value, list) else ())
