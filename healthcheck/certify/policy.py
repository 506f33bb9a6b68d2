"""The policy of certificates as a value: when a node is asked to show again what it has shown."""

from __future__ import annotations

from dataclasses import dataclass

NONE = "none"


@dataclass(frozen=True)
class CertificatePolicy:
    """Stages that are asked for: after so many `days` (`jitter_days` less, each node its own), after a reboot, for another component, and
    for another firmware on the same one; `none` asks for nothing. As many as `at_once` nodes are named at a time for their age.
    """

    days: float
    jitter_days: float
    at_once: int
    age: str
    rebooted: str
    component: str
    firmware: str
