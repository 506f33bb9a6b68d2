"""What follows from what was learned of a machine: it is written down, told, and decided what is next; inside one transaction of the run.

What is to be done outside is put into `tasks`, what is to be told into `events`: both are for after the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from healthcheck.store import bringupnotes as notes
from provisioning.bringup.advance import After, Stuck, Through, Times, Until, after, found, late
from provisioning.bringup.book import Book
from provisioning.bringup.dues import Dues
from provisioning.bringup.joint import Joined, Joint
from provisioning.bringup.model import Deed, Doer, Effect, Made, Past, Seen, Stand, Step, Together
from provisioning.bringup.site import BY_POLICY, Event, Policy, Site
from provisioning.bringup.turns import Turns
from provisioning.bringup.ways import Way
from provisioning.bringup.workers import AllMade, Asked, Ended, Looked, Over, Result, Workers


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
    _pumped: float = 0.0
    _joint: Joint = field(default_factory=Joint)

    def __post_init__(self) -> None:
        self._dues = Dues(self.ways)

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
            self._joint.looking.discard(result.step)
            self.under_way -= 1
            self._together(result.step)
        elif isinstance(result, AllMade):
            self.under_way -= 1
        elif isinstance(result, (Looked, Asked, Ended)):
            way = self.ways[result.node]
            way.busy = False
            # Of what is done to many at once the end counts, which is told of by itself.
            if isinstance(result, Looked):
                self.under_way -= not self.policy.steps[way.step].together
                self._looked(way, result.seen, now)
            elif isinstance(result, Ended):
                self.under_way -= not self._joins(way.step)
                self._made(way, result, now)
            else:
                self.under_way -= 1
                self._asked(way, result, now)

    def next_due(self) -> float | None:
        """When something is to be done though nothing was learned; None where that is never."""
        # A look at many that could not begin when its time had come waits for something to be learned.
        ticks = [time for time in self.turns.ticks() if time > self._pumped]
        due = self._dues.next()
        return min(ticks if due is None else [*ticks, due], default=None)

    def due(self, now: float) -> None:
        """Machines whose time has come are to be looked at."""
        for way in self._dues.come(now):
            self.turns.ready(way, now)

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
            self._joint.looking.add(step.name)
        self.tasks.append(lambda: self.workers.look(self.doers[step.name], step.name, machines, together=step.together))

    def _looked(self, way: Way, seen: Seen, now: float) -> None:
        self.turns.looked(way)
        way.seen = (way.step, seen)
        way.kept.update({str(name): str(value) for name, value in seen.keep.items()})
        step = self.policy.steps[way.step]
        if way.hindered and seen.stand is Stand.NOT_SO:
            seen = replace(seen, said=f"{seen.said}; {way.hindered}", troubles=())
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
            if (made := found(way.deeds[number], what)) is not None:
                way.ended(number, made, now)
                self.book.deed_ended(number, made, now)

    def _ask(self, way: Way, seen: Seen, deed: Deed, now: float) -> None:
        way.busy = True
        self.under_way += 1
        self._joint.open[way.step] += 1
        machine = way.machine(now)
        self.tasks.append(lambda: self.workers.ask(self.site.idle, machine, seen, deed))

    def _asked(self, way: Way, asked: Asked, now: float) -> None:
        step = self.policy.steps[way.step]
        over = way.came + step.seconds
        way.hindered = f"NOT done: {asked.deed.name}: {asked.why}" if asked.why else ""
        self._joint.open[step.name] -= 1
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
        self._joint.open[way.step] += 1
        if self._joins(way.step):
            self._joint.join(way.step, Joined(way, machine, deed))
            return
        self.under_way += 1
        doer = self.doers[way.step]

        def task() -> None:
            way.begun = True
            self.workers.make(doer, machine, deed)
        self.tasks.append(task)

    def _joins(self, step: str) -> bool:
        """Whether a deed of this step is done to all machines at once that need it."""
        return self.policy.steps[step].together and isinstance(self.doers[step], Together)

    def _together(self, name: str) -> None:
        """Has a deed done to all that were found to need it, once nobody else can join them."""
        joined = self._joint.all(name)
        if joined is None:
            return
        if not joined:
            self.turns.over(name)
            return
        doer = self.doers[name]
        assert isinstance(doer, Together)  # noqa: S101  (they were joined because it is)
        self.under_way += 1

        def task() -> None:
            for one in joined:
                one.way.begun = True
            self.workers.make_together(doer, name, [one.machine for one in joined], joined[0].deed.name)
        self.tasks.append(task)

    def _made(self, way: Way, ended: Ended, now: float) -> None:
        number = way.making
        assert number is not None  # noqa: S101  (it was made)
        way.ended(number, ended.made, now)
        way.making, way.begun = None, False
        self._joint.open[way.step] -= 1
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
        way.said = until.said
        self._dues.add(way, until.time)

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
