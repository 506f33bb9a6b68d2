"""The growth of a subject's counters between two snapshots of one boot, for checks of trends."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from healthcheck.facts.base import MEMBERS
from healthcheck.facts.values import Fact, NotMeasured, NotSupported

F = TypeVar("F", bound=Fact)

SECOND, MINUTE, HOUR, DAY = 1.0, 60.0, 3600.0, 86400.0
# DCGM counts over a minute; over less, a handful of events would look like a storm.
SHORTEST_S = 60.0


class Growth(Generic[F]):
    """One subject now and in the earlier snapshot of the same boot."""

    __slots__ = ("_before", "_fact", "_owner", "_seconds", "now")

    def __init__(self, now: F, before: F | None, seconds: float, fact: str = "subject",
                 owner: object = None) -> None:
        """`seconds` passed between the two by the node's clock, which may have been set; `fact` is the fact
        or collection that the subject is of, and `owner` stands for the node, of which a subject may be as
        another's."""
        self.now = now
        self._before = before
        self._seconds = seconds
        self._fact = fact
        self._owner = owner

    @property
    def new(self) -> bool:
        """Whether the earlier snapshot has no such subject."""
        return self._before is None

    @property
    def before(self) -> F:
        """The subject as it was. Raises NotMeasured where the earlier snapshot has none."""
        if self._before is None:
            member = next((name for name, fact in MEMBERS.items() if fact == self._fact), self._fact)
            raise self._refusal(f"the earlier snapshot has no such {member.replace('_', ' ')}")
        return self._before

    @property
    def seconds(self) -> float:
        """The time between the snapshots. Raises NotMeasured where the node's clock went back, so that it is
        not known."""
        if self._seconds <= 0:
            at = f"was taken {-self._seconds:g} s later" if self._seconds else "has the same time, or none"
            raise self._refusal(f"by the node's clock the earlier snapshot {at}, so no rate can be computed")
        return self._seconds

    def of(self, counter: str) -> int:
        """The growth of one counter. Raises NotMeasured where it fell (it was reset), and NotSupported where
        it is full and counts no more, as port.counter_full says of it."""
        now: Any = getattr(self.now, counter)
        before: Any = getattr(self.before if self._before is None else self._before, counter)
        if now == before:
            if now and now == self.now.full(counter):
                raise NotSupported(self.now, f"growth of {counter}, which is full at {now},")
            return 0
        if now < before:
            raise self._refusal(f"{counter} went from {before} to {now}: it was reset between the two "
                                "snapshots")
        return int(now - before)

    def rate(self, counter: str, *, per: float) -> float:
        """The growth of one counter in every `per` seconds, over a minute at least; 0 where it did not
        grow."""
        grown = self.of(counter)
        return grown * per / max(self.seconds, SHORTEST_S) if grown else 0.0

    def _refusal(self, reason: str) -> NotMeasured:
        refused = NotMeasured(self.now, reason)
        refused.source = id(self._owner), id(self.now)
        return refused
