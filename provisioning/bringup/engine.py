"""The loop of a run: machines go on by themselves, each as soon as it can, and what is learned of many at once is written down at once.

One thread decides and writes; looks and deeds are in others, for they wait. A deed is handed to them once it is in the store, never before.
Nothing is polled but the store, where a person may have said a word meanwhile: the loop sleeps until a result comes or a time is due.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from queue import Empty

from healthcheck.store import bringupnotes as notes
from healthcheck.store import bringups
from healthcheck.store.file import Store
from inventory.errors import StoreError
from provisioning.bringup import ways as paths
from provisioning.bringup.advance import Do, Stuck, Through, Times, Until, after, late
from provisioning.bringup.book import Book
from provisioning.bringup.model import Deed, Doer, Effect, Made, Past, Seen, Stand, Step
from provisioning.bringup.places import Places
from provisioning.bringup.site import BY_POLICY, LOGIN_STEP, Event, Policy, Site
from provisioning.bringup.stop import Logins, Tally
from provisioning.bringup.ways import Way
from provisioning.bringup.workers import Asked, Ended, Looked, Over, Result, Wake, Workers

POLL_S = 2.0        # how soon a word that somebody says meanwhile (skip, retry) is heard


@dataclass
class Engine:
    """One run over these machines. `store` is None for a dry run, in which each machine goes as far as its first step that is not so."""

    site: Site
    ways: Mapping[str, Way]
    doers: Mapping[str, Doer]
    policy: Policy
    told: Callable[[Event], None]
    book: Book
    store: Store | None
    dry: bool
    skips: dict[tuple[str, str], str]
    halts: dict[str, str] = field(default_factory=dict)
    stopping: bool = False

    def __post_init__(self) -> None:
        self.order = tuple(self.policy.steps)
        self.woke = self.site.clock()
        self.places = {name: Places(step) for name, step in self.policy.steps.items()}
        self.tally, self.logins = Tally(), Logins()
        self.workers = Workers(self.policy.width + sum(step.together for step in self.policy.steps.values()))
        self._live = Counter(way.step for way in self.ways.values())
        self._heap: list[tuple[float, int, str]] = []
        self._number = count()
        self._tasks: list[Callable[[], None]] = []
        self._under_way = 0                         # looks, questions and deeds; a look at many is one
        self._batches: set[str] = set()
        self._ticks: dict[str, float] = {}
        self._events: list[Event] = []
        self._unwritten: dict[int, Made] = {}
        self._version, self._heard = self._data_version(), self.woke

    def interrupt(self) -> None:
        """Has the loop end: nothing is begun any more."""
        self.stopping = True
        self.workers.results.put(Wake())

    def run(self) -> None:
        """Goes on until each machine is through, in trouble or halted, or somebody asks for an end. Deeds under way are waited for and
        written down, whatever happens. Raises StoreError."""
        try:
            with self.book.page():
                self._begin()
                self._pump()
            while not self.stopping:
                self._start()
                if not self._under_way and not self._heap:
                    break
                self._note(self._wait())
            self._drain()
        except KeyboardInterrupt:
            raise
        except BaseException:
            self._drain(quietly=True)
            raise
        finally:
            self.workers.close()

    # What happens outside.

    def _wait(self) -> list[Result]:
        """What was learned; sleeps until there is something, or something is due."""
        found: list[Result] = []
        due = self._heap[0][0] - self.site.clock() if self._heap else None
        if self.workers.results.empty():
            try:
                if self.site.sleep is None:
                    found.append(self.workers.results.get(timeout=max(0.0, POLL_S if due is None else min(due, POLL_S))))
                elif self._under_way:
                    found.append(self.workers.results.get())
                else:
                    self.site.sleep(max(0.0, due or 0.0))
            except Empty:
                pass
        while not self.workers.results.empty():
            found.append(self.workers.results.get())
        return found

    def _note(self, found: list[Result]) -> None:
        """Writes down what was learned and what follows, in one transaction."""
        now = self.site.clock()
        heard = self._others(now)
        if not found and not heard and not (self._heap and self._heap[0][0] <= now):
            return
        for result in found:
            if isinstance(result, Ended):
                number = self.ways[result.node].making
                assert number is not None  # noqa: S101  (it was made)
                self._unwritten[number] = result.made
        with self.book.page():
            if heard:
                self._hear(now)
            for result in found:
                self._learn(result, now)
            while self._heap and self._heap[0][0] <= now:
                due, _, name = heapq.heappop(self._heap)
                if name and self.ways[name].due == due:
                    self._ready(self.ways[name], now)
            self._pump()
        self._unwritten.clear()

    def _start(self) -> None:
        """Tells what happened, and hands what was decided to the threads, now that it is written down."""
        events, self._events = self._events, []
        for event in events:
            self.told(event)
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            self._under_way += 1
            task()

    def _drain(self, quietly: bool = False) -> None:
        """Waits for deeds under way, and writes down how they ended; of those that were not begun after all, that too."""
        making = {way.making: way.begun for way in self.ways.values() if way.making is not None}
        ends = dict(self._unwritten)
        if not quietly:
            ends.update((number, Made(False, "not begun: the run was ended")) for number, begun in making.items() if not begun)
        while {number for number, begun in making.items() if begun} - set(ends):
            result = self.workers.results.get()
            if isinstance(result, Ended):
                number = self.ways[result.node].making
                assert number is not None  # noqa: S101  (it was made)
                ends[number] = result.made
        try:
            if ends:
                with self.book.page():
                    for number, made in ends.items():
                        self.book.deed_ended(number, made, self.site.clock())
        except StoreError:
            if not quietly:
                raise

    # What people say meanwhile.

    def _data_version(self) -> int:
        return int(self.store.rows("PRAGMA data_version")[0][0]) if self.store is not None else 0

    def _others(self, now: float) -> bool:
        """Whether somebody else has written to the store."""
        if self.store is None or now - self._heard < POLL_S:
            return False
        version, self._heard = self._data_version(), now
        changed, self._version = version != self._version, version
        return changed

    def _hear(self, now: float) -> None:
        """Machines that a person had begun anew come back, and those go on that are in a step which is to be skipped by now."""
        assert self.store is not None  # noqa: S101  (it was asked)
        self.skips = skips(self.store)
        stuck = {way.name: (way.step, way.refused, bool(way.came)) for way in self.ways.values() if way.out and not way.done}
        for way in paths.again(self.store, [self.ways[name] for name in stuck]):
            step, refused, counted = stuck[way.name]
            self.tally.stuck[step] -= counted
            self.logins.refused[way.user] -= refused
            way.out = False
            self._live[way.step] += 1
            self._ready(way, now)
        for way in self.ways.values():
            if not way.out and not way.busy and (way.name, way.step) in self.skips:
                self.places[way.step].remove(way.name, way.domain)
                self._leave(way, notes.SKIPPED, now, self.skips[way.name, way.step])

    # What was learned of machines.

    def _begin(self) -> None:
        for way in self.ways.values():
            if way.refused:
                way.out = True
                self._live[way.step] -= 1
                self.logins.refused[way.user] += 1
            elif LOGIN_STEP in self.order and self.order.index(way.step) > self.order.index(LOGIN_STEP) and not self._over(way, LOGIN_STEP):
                self.logins.accepted.add(way.user)
        for way in self.ways.values():
            if way.out:
                continue
            if (why := self._over(way, way.step)):
                self._leave(way, notes.SKIPPED, self.woke, why)
            else:
                self._ready(way, self.woke)

    def _learn(self, result: Result, now: float) -> None:
        if isinstance(result, Wake):
            return
        if isinstance(result, Over):
            self._batches.discard(result.step)
            self._under_way -= 1
            return
        way = self.ways[result.node]
        way.busy = False
        self._under_way -= not (isinstance(result, Looked) and self.policy.steps[way.step].together)
        if isinstance(result, Looked):
            self._looked(way, result.seen, now)
        elif isinstance(result, Asked):
            self._asked(way, result, now)
        else:
            self._made(way, result, now)

    def _looked(self, way: Way, seen: Seen, now: float) -> None:
        step = self.policy.steps[way.step]
        if step.name == LOGIN_STEP:
            self.logins.trying[way.user] -= 1
        way.seen = (step.name, seen)
        way.kept.update({str(name): str(value) for name, value in seen.keep.items()})
        what = after(step, way.machine(way.looked), seen, Times(way.came, self.woke, now, self.policy.grace_s))
        self._settle(way, seen, what, now)
        why = self.skips.get((way.name, way.step))
        if isinstance(what, Through):
            self._leave(way, notes.SO, now, said=seen.said)
        elif why is not None:
            self._leave(way, notes.SKIPPED, now, why)
        elif isinstance(what, Stuck):
            self._stuck(way, what, now)
        elif self.dry:
            self._tell(way, "unknown" if seen.stand is Stand.UNKNOWN else "deed" if seen.deed else "waiting", seen.said, deed=seen.deed)
            self._out(way)
        elif isinstance(what, Until):
            self._until(way, what, now)
        elif what.deed.effect is Effect.DISRUPTIVE:
            way.busy = True
            machine = way.machine(now)
            self._tasks.append(lambda: self.workers.ask(self.site.idle, machine, seen, what.deed))
        else:
            self._make(way, what.deed, now)

    def _asked(self, way: Way, asked: Asked, now: float) -> None:
        step = self.policy.steps[way.step]
        over = way.came + step.seconds
        said = f"NOT done: {asked.deed.name}: {asked.why}"
        if (skipped := self.skips.get((way.name, way.step))) is not None:
            self._leave(way, notes.SKIPPED, now, skipped)
        elif not asked.why:
            self._make(way, asked.deed, now)
        elif now >= over:
            self._stuck(way, Stuck((late(step, way.name, said),)), now)
        else:
            self._until(way, Until(min(now + asked.seen.again_s, over), said), now)

    def _made(self, way: Way, ended: Ended, now: float) -> None:
        number = way.making
        assert number is not None  # noqa: S101  (it was made)
        way.ended(number, ended.made, now)
        way.making, way.begun = None, False
        self.book.deed_ended(number, ended.made, now)
        self._tell(way, "made", ended.made.said)
        if ended.defect is not None:
            self._stuck(way, Stuck((ended.defect,)), now)
        else:
            self._ready(way, now)

    def _settle(self, way: Way, seen: Seen, what: Through | Do | Until | Stuck, now: float) -> None:
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

    # What follows.

    def _make(self, way: Way, deed: Deed, now: float) -> None:
        machine = way.machine(now)
        number = self.book.deed_begun(way.name, way.step, deed, now)
        way.deeds[number] = Past(deed.key, deed.name, now, None, None, "")
        way.making, way.busy, way.said = number, True, deed.name
        self.book.stood(way.name, notes.WAITING, deed.name, looked=now, kept=way.kept)
        self.book.troubled(way.name, way.step, (), now)
        self._tell(way, "deed", deed.name, deed=deed)
        doer = self.doers[way.step]

        def task() -> None:
            way.begun = True
            self.workers.make(doer, machine, deed)
        self._tasks.append(task)

    def _until(self, way: Way, until: Until, now: float) -> None:
        self._give(way, keep=bool(way.deeds))
        self.book.stood(way.name, notes.WAITING, until.said, again=until.time, looked=now, kept=way.kept)
        self.book.troubled(way.name, way.step, (), now)
        if until.said != way.said:
            unknown = way.seen is not None and way.seen[1].stand is Stand.UNKNOWN
            self._tell(way, "unknown" if unknown else "waiting", until.said)
        way.said, way.due = until.said, until.time
        heapq.heappush(self._heap, (until.time, next(self._number), way.name))

    def _stuck(self, way: Way, stuck: Stuck, now: float) -> None:
        self.tally.stuck[way.step] += 1
        self.logins.refused[way.user] += way.refused
        said = stuck.troubles[0].what
        self.book.stood(way.name, notes.TROUBLE, said, looked=now, kept=way.kept)
        self.book.troubled(way.name, way.step, stuck.troubles, now)
        self._tell(way, "trouble", said)
        self._out(way)

    def _leave(self, way: Way, outcome: str, now: float, why: str = "", said: str = "") -> None:
        """It is through with its step, and with those after it that are left out."""
        while True:
            self._give(way)
            self._live[way.step] -= 1
            if outcome == notes.SO:
                self.tally.passed[way.step] += 1
                if way.step == LOGIN_STEP:
                    self.logins.accepted.add(way.user)
            onward = next(iter(self.order[self.order.index(way.step) + 1:]), None)
            if way.seen is not None and way.seen[0] == way.step:
                self.book.stood(way.name, notes.WAITING, said, looked=now, kept=way.kept)
            self.book.left(way.name, way.step, outcome, onward, now, why)
            self._tell(way, outcome, said or why)
            if onward is None:
                way.out = way.done = True
                self._tell(way, notes.DONE, "")
                return
            way.onward(onward)
            self._live[onward] += 1
            if not (why := self._over(way, onward)):
                self._ready(way, now)
                return
            outcome, said = notes.SKIPPED, ""

    def _over(self, way: Way, step: str) -> str:
        """Why a step is left out for a machine; empty where it is not."""
        return BY_POLICY if step in self.policy.without else self.skips.get((way.name, step), "")

    def _out(self, way: Way) -> None:
        self._give(way)
        way.out = True
        self._live[way.step] -= 1

    def _give(self, way: Way, keep: bool = False) -> None:
        """Gives back a machine's place."""
        if way.placed and not keep:
            self.places[way.step].give(way.domain)
            way.placed = False

    def _tell(self, way: Way, stand: str, said: str, deed: Deed | None = None) -> None:
        seen = way.seen[1] if way.seen is not None and way.seen[0] == way.step else None
        self._events.append(Event(way.name, way.step, stand, said, seen, deed))

    # Who is next.

    def _ready(self, way: Way, now: float) -> None:
        """It is to be looked at as soon as there is a place. One that was changed in this step has its place already."""
        places = self.places[way.step]
        way.due = None
        if way.deeds and not way.placed:
            places.hold(way.domain)
            way.placed = True
        places.add(way.name, way.domain, now, has=way.placed)

    def _pump(self) -> None:
        """Sends machines where there are places, those that are nearest to the end first."""
        now = self.site.clock()
        self._judge()
        for name in reversed(self.order):
            places = self.places[name]
            if places.step.together:
                self._gather(places, now)
                continue
            while places.length and self._under_way + len(self._tasks) < self._width() and (taken := places.take(self._may)) is not None:
                self._look(places.step, [self.ways[taken]], now)

    def _gather(self, places: Places, now: float) -> None:
        """Sends all that are there, if nobody is to be waited for."""
        step = places.step
        if places.since is None or step.name in self._batches:
            return
        until = places.since + step.gather_s
        if now < until and self._others_may_come(step):
            if self._ticks.get(step.name) != until:
                self._ticks[step.name] = until
                heapq.heappush(self._heap, (until, next(self._number), ""))
            return
        batch: list[Way] = []
        while (taken := places.take(self._may)) is not None:
            batch.append(self.ways[taken])
        if batch:
            self._batches.add(step.name)
            self._look(step, batch, now)

    def _others_may_come(self, step: Step) -> bool:
        before = self.order[:self.order.index(step.name)]
        return (any(self._live[name] > (self.places[name].length if name in self.halts else 0) for name in before)
                or self._live[step.name] > self.places[step.name].length)

    def _look(self, step: Step, batch: list[Way], now: float) -> None:
        for way in batch:
            way.busy = way.placed = True
            way.looked = now
            way.came = way.came or now
            if way.began is None:
                way.began = now
                self.book.entered(way.name, step.name, now)
            if step.name == LOGIN_STEP:
                self.logins.trying[way.user] += 1
        machines = [way.machine(now) for way in batch]
        self._tasks.append(lambda: self.workers.look(self.doers[step.name], step.name, machines, together=step.together))

    def _width(self) -> int:
        return self.policy.width + len(self._batches)

    def _may(self, name: str) -> bool:
        way = self.ways[name]
        if way.came:
            return True
        if way.step == LOGIN_STEP and not self.logins.may(way.user, self.policy.stop):
            return False
        return way.step not in self.halts or self.dry

    def _judge(self) -> None:
        """Sees whether steps are to be halted, or go on after all."""
        before, self.halts = self.halts, {}
        for name in self.order:
            if (why := self.tally.halted(name, self.policy.stop)) and not self.dry:
                self.halts[name] = why
        for user in self.logins.refused:
            if LOGIN_STEP in self.order and (why := self.logins.halted(user, self.policy.stop)):
                self.halts[LOGIN_STEP] = why
        for name, why in self.halts.items():
            if name not in before and self.places[name].length:
                self._events.append(Event("", name, "halted", why))


def skips(store: Store) -> dict[tuple[str, str], str]:
    """By machine and step, why a person had it left out."""
    return {(one.node, one.step): one.why for one in bringups.skips(store)}
