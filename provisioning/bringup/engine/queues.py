"""Who is next in a step: machines to be checked, so many at once in all and of a power domain. A machine has
a place while it is checked, and from its first operation there until the step ends: a machine that was
switched on draws power until it is through, and one that only waits keeps no one out. Domains take turns."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from provisioning.bringup.engine.model import BringupStep


@dataclass
class StepQueue:
    """One step's queue. `since` is when the oldest of those in it came, None where no one is in it."""

    step: BringupStep
    used: int = 0
    of: Counter[str] = field(default_factory=Counter)
    # those in the queue that have a place already
    placed: deque[str] = field(default_factory=deque)
    queues: dict[str, deque[str]] = field(default_factory=dict)
    since: float | None = None
    length: int = 0

    def add(self, name: str, domain: str, now: float, *, has: bool) -> None:
        """Puts a machine at the end of the queue; with `has` it kept its place."""
        self.since = now if self.since is None else self.since
        self.length += 1
        if has:
            self.placed.append(name)
        else:
            self.queues.setdefault(self._key(domain), deque()).append(name)

    def take(self, may: Callable[[str], bool]) -> str | None:
        """The next machine that may be begun and now has a place; None where there is none."""
        name = self.placed.popleft() if self.placed else self._fresh(may)
        if name is not None:
            self.length -= 1
            if not self.length:
                self.since = None
        return name

    def remove(self, name: str, domain: str) -> None:
        """Takes a machine out of the queue that was not begun."""
        queue = self.placed if name in self.placed else self.queues.get(self._key(domain), deque())
        if name in queue:
            queue.remove(name)
            self.length -= 1
            if not self.length:
                self.since = None

    def hold(self, domain: str) -> None:
        """A machine has a place without having waited for it: it was changed here before this run began."""
        self.used += 1
        self.of[self._key(domain)] += 1

    def give(self, domain: str) -> None:
        """A place is free again."""
        self.used -= 1
        self.of[self._key(domain)] -= 1

    def _fresh(self, may: Callable[[str], bool]) -> str | None:
        if self.used >= self.step.in_parallel:
            return None
        most = self.step.domain_at_once
        for domain, queue in list(self.queues.items()):
            if most is not None and self.of[domain] >= most:
                continue
            name = next((one for one in queue if may(one)), None)
            if name is not None:
                queue.remove(name)
                del self.queues[domain]
                if queue:
                    self.queues[domain] = queue     # the others' turn
                self.hold(domain)
                return name
        return None

    def _key(self, domain: str) -> str:
        return "" if self.step.domain_at_once is None else domain
