"""What follows from what was learned of a machine: it is written down, told, and decided what is next; inside one transaction of the run.

What is to be done outside is put into `tasks`, what is to be told into `events`: both are for after the transaction.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from healthcheck.store import bringupnotes as notes
from provisioning.bringup.advance import After, Do, Stuck, Through, Times, Until, after, late
from provisioning.bringup.book import Book
from provisioning.bringup.model import Deed, Doer, Effect, Machine, Made, Past, Seen, Stand, Step, Together
from provisioning.bringup.site import BY_POLICY, Event, Policy, Site
from provisioning.bringup.turns import Turns
from provisioning.bringup.ways import Way
from provisioning.bringup.workers import Asked, Ended, Looked, Over, Result, Workers


@dataclass
class Course:
    """The machines of a run. `skips` says by machine and step why a person had it left out. With `dry` none goes beyond its first step
    that is not so. `under_way` counts looks, questions and deeds; a look at many is one."""

    site: Site
    ways: Mapping[str, Way]
    doers: Mapping[str, Doer]
    policy: Policy
    book: Book
    dry: bool
    skips: dict[tuple[str, str], str]
    turns: Turns
    workers: Workers
    woke: float
    events: list[Event] = field(default_factory=list)
    tasks: list[Callable[[], None]] = field(default_factory=list)
    under_way: int = 0
    _heap: list[tuple[float, int, str]] = field(default_factory=list)
    _number: count[int] = field(default_factory=count)
    _pumped: float = 0.0
    # Of steps that make their deeds of many machines at once, by name: who is asked about or changed, and who waits for the others.
    _joining: Counter[str] = field(default_factory=Counter)
    _joined: dict[str, list[tuple[Way, Machine, Deed]]] = field(default_factory=dict)
    _looking: set[str] = field(default_factory=set)

    def begin(self) -> None:
        """Every machine is where the store has it."""
        for way in self.ways.values():
            if way.refused:
                self.turns.locked(way)
            elif self.turns.past_login(way.step) and not way.unlogged:
                self.turns.logins.accepted.add(way.user)
        for way in self.ways.values():
            if not way.out:
                self._arrive(way, self.woke)

    def learn(self, result: Result, now: float) -> None:
        """Takes in what came back from outside."""
        if isinstance(result, Over):
            self._looking.discard(result.step)
            self.under_way -= 1
            self._together(result.step)
        elif isinstance(result, (Looked, Asked, Ended)):
            way = self.ways[result.node]
            way.busy = False
            self.under_way -= not (isinstance(result, Looked) and self.policy.steps[way.step].together)
            if isinstance(result, Looked):
                self._looked(way, result.seen, now)
            elif isinstance(result, Asked):
                self._asked(way, result, now)
            else:
                self._made(way, result, now)

    def next_due(self) -> float | None:
        """When something is to be done though nothing was learned; None where that is never."""
        while self._heap and self.ways[self._heap[0][2]].due != self._heap[0][0]:
            heapq.heappop(self._heap)       # it went on meanwhile
        # A look at many that could not begin when its time had come waits for something to be learned.
        ticks = [time for time in self.turns.ticks() if time > self._pumped]
        return min([*ticks, self._heap[0][0]] if self._heap else ticks, default=None)

    def due(self, now: float) -> None:
        """Machines whose time has come are to be looked at."""
        while self._heap and self._heap[0][0] <= now:
            due, _, name = heapq.heappop(self._heap)
            if self.ways[name].due == due:
                self.turns.ready(self.ways[name], now)

    def pump(self, now: float) -> None:
        """Sends machines where there are places."""
        self._pumped = now
        self.events += [Event("", name, "halted", why) for name, why in self.turns.judge()]
        for step, batch in self.turns.next(now, self.under_way):
            self.under_way += 1
            self._look(step, batch, now)

    def skip(self, way: Way, why: str, now: float) -> None:
        """A person had its step left out meanwhile."""
        self.turns.dropped(way)
        self._leave(way, notes.SKIPPED, now, why)

    def _look(self, step: Step, batch: list[Way], now: float) -> None:
        for way in batch:
            way.busy, way.looked, way.came = True, now, way.came or now
            if way.began is None:
                way.began = now
                self.book.entered(way.name, step.name, now)
        machines = [way.machine(now) for way in batch]
        if step.together:
            self._looking.add(step.name)
        self.tasks.append(lambda: self.workers.look(self.doers[step.name], step.name, machines, together=step.together))

    def _looked(self, way: Way, seen: Seen, now: float) -> None:
        self.turns.looked(way)
        way.seen = (way.step, seen)
        way.kept.update({str(name): str(value) for name, value in seen.keep.items()})
        step = self.policy.steps[way.step]
        if way.hindered and seen.stand is Stand.NOT_SO:
            seen = replace(seen, said=f"{seen.said}; {way.hindered}")
        what = after(step, way.machine(way.looked), seen, Times(way.came, self.woke, now, self.policy.grace_s))
        self._settle(way, what, now)
        why = self.skips.get((way.name, way.step))
        if isinstance(what, Through):
            self.turns.passed(way)
            self._leave(way, notes.SO, now, seen.said)
        elif why is not None:
            self._leave(way, notes.SKIPPED, now, why)
        elif isinstance(what, Stuck):
            self._stuck(way, what, now)
        elif self.dry:
            self._tell(way, "unknown" if seen.stand is Stand.UNKNOWN else "deed" if seen.deed else "waiting", seen.said, seen.deed)
            self.turns.out(way)
        elif isinstance(what, Until):
            self._until(way, what, now)
        elif what.deed.effect is Effect.DISRUPTIVE:
            self._ask(way, seen, what.deed, now)
        else:
            self._make(way, what.deed, now)

    def _settle(self, way: Way, what: After, now: float) -> None:
        """Writes down what became of deeds of which nobody knew the end, as far as this look shows it."""
        for number in way.unended():
            past = way.deeds[number]
            if isinstance(what, Through):
                made = Made(True, "it shows; found so later")
            elif isinstance(what, Do):
                known = what.deed.key == past.key and what.deed.once
                made = Made(False if known else None, "it does not show; found so later" if known else "another deed is next by now")
            elif isinstance(what, Stuck):
                made = Made(None, "nobody knows")
            else:
                continue
            way.ended(number, made, now)
            self.book.deed_ended(number, made, now)

    def _ask(self, way: Way, seen: Seen, deed: Deed, now: float) -> None:
        way.busy = True
        self.under_way += 1
        self._joining[way.step] += 1
        machine = way.machine(now)
        self.tasks.append(lambda: self.workers.ask(self.site.idle, machine, seen, deed))

    def _asked(self, way: Way, asked: Asked, now: float) -> None:
        step = self.policy.steps[way.step]
        over = way.came + step.seconds
        way.hindered = f"NOT done: {asked.deed.name}: {asked.why}" if asked.why else ""
        self._joining[step.name] -= 1
        if (skipped := self.skips.get((way.name, way.step))) is not None:
            self._leave(way, notes.SKIPPED, now, skipped)
        elif not asked.why:
            self._make(way, asked.deed, now)
        elif now >= over:
            self._stuck(way, Stuck((late(step, way.name, way.hindered),)), now)
        else:
            self._until(way, Until(min(now + asked.seen.again_s, over), way.hindered), now)
        self._together(step.name)

    def _make(self, way: Way, deed: Deed, now: float) -> None:
        """Writes down that a deed is about to be done; afterwards it is."""
        machine = way.machine(now)
        number = self.book.deed_begun(way.name, way.step, deed, now)
        way.deeds[number] = Past(deed.key, deed.name, now, None, None, "")
        way.making, way.busy, way.said = number, True, deed.name
        self.book.stood(way.name, notes.WAITING, deed.name, looked=now, kept=way.kept)
        self.book.troubled(way.name, way.step, (), now)
        self._tell(way, "deed", deed.name, deed)
        self.under_way += 1
        doer = self.doers[way.step]
        self._joining[way.step] += 1
        if isinstance(doer, Together) and self.policy.steps[way.step].together:
            self._joined.setdefault(way.step, []).append((way, machine, deed))
            return

        def task() -> None:
            way.begun = True
            self.workers.make(doer, machine, deed)
        self.tasks.append(task)

    def _together(self, name: str) -> None:
        """Has a deed done to all that were found to need it, once nobody is looked at or asked about any more; until it is over nobody
        else is looked at in this step."""
        joined = self._joined.get(name, [])
        if name in self._looking or self._joining[name] > len(joined):
            return
        if not joined:
            self.turns.over(name)
            return
        del self._joined[name]
        doer = self.doers[name]
        assert isinstance(doer, Together)  # noqa: S101  (they were joined because it is)
        machines, what = [machine for _, machine, _ in joined], joined[0][2].name

        def task() -> None:
            for way, *_ in joined:
                way.begun = True
            self.workers.make_together(doer, machines, what)
        self.tasks.append(task)

    def _made(self, way: Way, ended: Ended, now: float) -> None:
        number = way.making
        assert number is not None  # noqa: S101  (it was made)
        way.ended(number, ended.made, now)
        way.making, way.begun = None, False
        self._joining[way.step] -= 1
        self.book.deed_ended(number, ended.made, now)
        self._tell(way, "made", ended.made.said)
        name = way.step
        if ended.defect is not None:
            self._stuck(way, Stuck((ended.defect,)), now)
        else:
            self.turns.ready(way, now)
        self._together(name)

    def _until(self, way: Way, until: Until, now: float) -> None:
        if not way.deeds:
            self.turns.give(way)
        self.book.stood(way.name, notes.WAITING, until.said, again=until.time, looked=now, kept=way.kept)
        self.book.troubled(way.name, way.step, (), now)
        if until.said != way.said:
            unknown = way.seen is not None and way.seen[1].stand is Stand.UNKNOWN
            self._tell(way, "unknown" if unknown else "waiting", until.said)
        way.said, way.due = until.said, until.time
        heapq.heappush(self._heap, (until.time, next(self._number), way.name))

    def _stuck(self, way: Way, stuck: Stuck, now: float) -> None:
        said = stuck.troubles[0].what
        self.book.stood(way.name, notes.TROUBLE, said, looked=now, kept=way.kept)
        self.book.troubled(way.name, way.step, stuck.troubles, now)
        self._tell(way, "trouble", said)
        self.turns.stuck(way)

    def _leave(self, way: Way, outcome: str, now: float, said: str) -> None:
        """It is through with its step, and comes to the next one; `said` is what the look said, or why it was skipped."""
        for number in way.unended():
            self.book.deed_ended(number, Made(None, "nobody looked, for the step was skipped"), now)
        onward = next(iter(self.turns.order[self.turns.order.index(way.step) + 1:]), None)
        if way.seen is not None and way.seen[0] == way.step:
            self.book.stood(way.name, notes.WAITING, said, looked=now, kept=way.kept)
        self.book.left(way.name, way.step, outcome, onward, now, said if outcome == notes.SKIPPED else "")
        self._tell(way, outcome, said)
        if onward is None:
            self._tell(way, notes.DONE, "")
        self.turns.onward(way, onward)
        if onward is not None:
            self._arrive(way, now)

    def _arrive(self, way: Way, now: float) -> None:
        """It is in its step from now on, unless that is left out for it."""
        why = BY_POLICY if way.step in self.policy.without else self.skips.get((way.name, way.step))
        if why is not None:
            self._leave(way, notes.SKIPPED, now, why)
        else:
            self.turns.ready(way, now)

    def _tell(self, way: Way, stand: str, said: str, deed: Deed | None = None) -> None:
        seen = way.seen[1] if way.seen is not None and way.seen[0] == way.step else None
        self.events.append(Event(way.name, way.step, stand, said, seen, deed))
