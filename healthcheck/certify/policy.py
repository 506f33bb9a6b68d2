"""The certificate policy as a value: when a node must repeat a burn-in."""

from __future__ import annotations

from dataclasses import dataclass

NONE = "none"


@dataclass(frozen=True)
class CertificatePolicy:
    """Required stages: after `days` (minus a per-node part of `jitter_days`), after a reboot, for a new
    component, and for new firmware on the same one; `none` requires nothing. At most `at_once` nodes are due
    by age."""

    days: float
    jitter_days: float
    at_once: int
    age: str
    rebooted: str
    component: str
    firmware: str
