"""A problem: one fault of a node over time, as the store keeps it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One fault of a node, or one thing that could not be measured; `ended` is None while it lasts. Times are
    epoch seconds.

    `rule` is empty where the node was not reached. `kind` and `serial` are those of the faulty component,
    where it has a serial number. `repair` is what the driver or the table of its errors asks for, if either
    does. `emitter` and `ends` are those of a finding in a kernel log (`LogEvidence`); `emitter` is None for
    what was read from no log.
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
