"""When a run sends no machines into a step: many met its trouble, or logins are refused. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol


class StopLimits(Protocol):
    """What the policy says of it: a share of machines and at least so many, and how many refused logins."""

    @property
    def share(self) -> float: ...
    @property
    def least(self) -> int: ...
    @property
    def refused_logins(self) -> int: ...


@dataclass
class Tally:
    """How the machines of this run that ended their way in a step, or passed it, fared there."""

    passed: Counter[str] = field(default_factory=Counter)
    stuck: Counter[str] = field(default_factory=Counter)

    def halted(self, step: str, bounds: StopLimits) -> str:
        """Why no other machine is to be sent into a step; empty where they may be."""
        stuck = self.stuck[step]
        ended = stuck + self.passed[step]
        if stuck < bounds.least or stuck <= bounds.share * ended:
            return ""
        return (f"{stuck} of {ended} machines are in trouble in {step}: that does not look like the "
                "machines' fault, so the others wait; fix the cause, then: muster bringup resume")


@dataclass
class Logins:
    """Which users were let in, and what became of other tries. Accounts lock: until a user's login was
    accepted, no more machines are tried at a time than may be refused."""

    accepted: set[str] = field(default_factory=set)
    refused: Counter[str] = field(default_factory=Counter)
    trying: Counter[str] = field(default_factory=Counter)

    def may(self, user: str, bounds: StopLimits) -> bool:
        """Whether another machine may be tried with this user."""
        return user in self.accepted or self.refused[user] + self.trying[user] < bounds.refused_logins

    def halted(self, user: str, bounds: StopLimits) -> str:
        """Why none is tried any more; empty where they may be."""
        if user in self.accepted or self.refused[user] < bounds.refused_logins:
            return ""
        return (f"{self.refused[user]} controllers refused the login and none accepted it, so no other is "
                "tried, because accounts lock; mend the password, then have them tried again: muster "
                "bringup retry NODES")
