"""A problem: one thing that was wrong with a node, from when to when, as the store remembers it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing that was wrong with a node, or could not be measured; `ended` is None while it holds. Times
    are epoch seconds.

    `rule` is empty where the node was not reached. `kind` and `serial` are those of the component at fault,
    where it has a serial number. `repair` is what the driver asks for, or what the table of its errors says,
    where one of them has a word on it. `emitter` and `ends` are those of a finding in a kernel log
    (`LogEvidence`); `emitter` is None for what was read from no log.
    """

    node: str
    rule: str
    subject: str
    status: str
    severity: str
    origin: str | None
    owner: str | None
    observed: str
    expected: str
    reason: str
    remedy: str
    began: float
    seen: float
    ended: float | None
    sweeps: int
    kind: str | None
    serial: str | None
    repair: str | None = None
    emitter: str | None = None
    ends: str | None = None
