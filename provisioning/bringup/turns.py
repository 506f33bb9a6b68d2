"""Whose turn it is: which machines are sent into which step next, within the places there are, and when no more are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from provisioning.bringup.model import Step
from provisioning.bringup.places import Places
from provisioning.bringup.site import LOGIN_STEP, Policy
from provisioning.bringup.stop import Logins, Tally
from provisioning.bringup.ways import Way


class Turns:
    """The queues of all steps. `halts` says by step why no other machine is sent into it; with `free` nothing but refused logins halts."""

    def __init__(self, policy: Policy, ways: Iterable[Way], *, free: bool) -> None:
        self.order = tuple(policy.steps)
        self.halts: dict[str, str] = {}
        self._halted: dict[str, str] = {}       # but for refused logins, which are of one user
        self.logins = Logins()
        self._tally = Tally()
        self._policy, self._free = policy, free
        self._ways = {way.name: way for way in ways}
        self._places = {name: Places(step) for name, step in policy.steps.items()}
        self._live = Counter(way.step for way in self._ways.values())
        self._batches: set[str] = set()

    def past_login(self, step: str) -> bool:
        """Whether a machine in this step has been logged in to."""
        return LOGIN_STEP in self.order and self.order.index(step) > self.order.index(LOGIN_STEP)

    def ready(self, way: Way, now: float) -> None:
        """It is to be looked at as soon as there is a place. One that was changed in this step has its place already."""
        places = self._places[way.step]
        way.due = None
        if way.deeds and not way.placed:
            places.hold(way.domain)
            way.placed = True
        places.add(way.name, way.domain, now, has=way.placed)

    def give(self, way: Way) -> None:
        """It needs its place no more."""
        if way.placed:
            self._places[way.step].give(way.domain)
            way.placed = False

    def dropped(self, way: Way) -> None:
        """It is not to be looked at, though it may have been waiting for that."""
        self._places[way.step].remove(way.name, way.domain)

    def out(self, way: Way) -> None:
        """It goes no further in this run."""
        self.give(way)
        way.out = True
        self._live[way.step] -= 1

    def stuck(self, way: Way) -> None:
        """It met its step's trouble."""
        self._tally.stuck[way.step] += 1
        self.logins.refused[way.user] += way.refused
        self.out(way)

    def locked(self, way: Way) -> None:
        """Its controller refused the login before this run: it is left alone."""
        self.logins.refused[way.user] += 1
        self.out(way)

    def back(self, way: Way, step: str, *, refused: bool, counted: bool, now: float) -> None:
        """A person had it begun anew that was stuck in this step; `counted` if that was in this run."""
        self._tally.stuck[step] -= counted
        self.logins.refused[way.user] -= refused
        way.out = False
        self._live[way.step] += 1
        self.ready(way, now)

    def passed(self, way: Way) -> None:
        """Its step is so."""
        self._tally.passed[way.step] += 1
        if way.step == LOGIN_STEP:
            self.logins.accepted.add(way.user)

    def onward(self, way: Way, step: str | None) -> None:
        """It leaves its step for this one, None at the end."""
        self.give(way)
        self._live[way.step] -= 1
        if step is None:
            way.out = way.done = True
        else:
            way.onward(step)
            self._live[step] += 1

    def looked(self, way: Way) -> None:
        """A look at it came back."""
        if way.step == LOGIN_STEP:
            self.logins.trying[way.user] -= 1

    def over(self, step: str) -> None:
        """A look at many has ended."""
        self._batches.discard(step)

    def judge(self) -> Iterator[tuple[str, str]]:
        """Sees whether steps are to be halted, or go on after all; gives those that are from now on, with why."""
        before = self.halts
        self._halted = {} if self._free else {
            name: why for name in self.order if (why := self._tally.halted(name, self._policy.stop))}
        self.halts = dict(self._halted)
        for user in self.logins.refused:
            if LOGIN_STEP in self.order and (why := self.logins.halted(user, self._policy.stop)):
                self.halts[LOGIN_STEP] = why
        for name, why in self.halts.items():
            if name not in before and self._places[name].length:
                yield name, why

    def next(self, now: float, under_way: int) -> Iterator[tuple[Step, list[Way]]]:
        """Who is to be looked at now, those first that are nearest to the end; `under_way` is what the threads are at."""
        for name in reversed(self.order):
            places = self._places[name]
            if places.step.together:
                if batch := self._batch(places, now):
                    self._batches.add(name)
                    under_way += 1
                    yield places.step, batch
                continue
            # A look at many has a thread of its own.
            while places.length and under_way < self._policy.width + len(self._batches) and (way := next(self._taken(places), None)):
                under_way += 1
                yield places.step, [way]

    def ticks(self) -> Iterator[float]:
        """Until when looks at many wait for others to join."""
        for name, places in self._places.items():
            if places.since is not None and places.step.together and places.step.at_once and name not in self._batches:
                yield places.since + places.step.gather_s

    def _taken(self, places: Places, *, anew: bool = True) -> Iterator[Way]:
        while (name := places.take(self._may if anew else _nobody)) is not None:
            way = self._ways[name]
            if way.step == LOGIN_STEP:
                self.logins.trying[way.user] += 1
            way.placed = True
            yield way

    def _batch(self, places: Places, now: float) -> list[Way]:
        """Whoever is to be looked at together: all, if nobody is to be waited for. Who was changed here waits for nobody."""
        if places.since is None or places.step.name in self._batches:
            return []
        if now >= places.since + places.step.gather_s or not self._others_may_come(places.step.name):
            return list(self._taken(places))
        return list(self._taken(places, anew=False))

    def _others_may_come(self, step: str) -> bool:
        before = self.order[:self.order.index(step)]
        return (any(self._live[name] > (self._places[name].length if name in self.halts else 0) for name in before)
                or self._live[step] > self._places[step].length)

    def _may(self, name: str) -> bool:
        way = self._ways[name]
        if way.came:
            return True
        if way.step == LOGIN_STEP and not self.logins.may(way.user, self._policy.stop):
            return False
        return way.step not in self._halted


def _nobody(name: str) -> bool:
    return False
