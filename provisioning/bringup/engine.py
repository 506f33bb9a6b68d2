"""The loop of a run: machines go on by themselves, each as soon as it can, and what is learned of many at once is written down at once.

One thread decides and writes; looks and deeds are in others, for they wait. A deed is handed to them once it is in the store, never before.
Nothing is polled but the store, where a person may have said a word meanwhile: the loop sleeps until a result comes or a time is due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from queue import Empty

from healthcheck.store import bringups
from healthcheck.store.file import Store
from inventory.errors import StoreError
from provisioning.bringup import ways as paths
from provisioning.bringup.book import Book
from provisioning.bringup.course import Course
from provisioning.bringup.model import Doer, Made
from provisioning.bringup.site import Event, Policy, Site
from provisioning.bringup.turns import Turns
from provisioning.bringup.ways import Way
from provisioning.bringup.workers import Ended, Result, Wake, Workers

POLL_S = 2.0        # how soon a word that somebody says meanwhile (skip, retry) is heard


class Engine:
    """One run over these machines. With `dry` the store is only read, and each goes as far as its first step that is not so."""

    def __init__(
        self, site: Site, ways: Mapping[str, Way], doers: Mapping[str, Doer], policy: Policy, told: Callable[[Event], None],
        store: Store | None, *, dry: bool,
    ) -> None:
        self.ways, self.stopping = ways, False
        self.turns = Turns(policy, ways.values(), free=dry)
        self.book = Book(None if dry else store, site.who)
        self._site, self._told, self._store = site, told, None if dry else store
        self._workers = Workers(policy.width + sum(step.together for step in policy.steps.values()))
        woke = site.clock()
        self._course = Course(site, ways, doers, policy, self.book, dry, skips(store), self.turns, self._workers, woke)
        self._unwritten: dict[int, Made] = {}
        self._written = True                        # whether the newest deeds are in the store
        self._version, self._heard = self._data_version(), woke

    def interrupt(self) -> None:
        """Has the loop end: nothing is begun any more."""
        self.stopping = True
        self._workers.results.put(Wake())

    def run(self) -> None:
        """Goes on until each machine is through, in trouble or halted, or somebody asks for an end. Deeds under way are waited for and
        written down, whatever happens. Raises StoreError."""
        course = self._course
        try:
            with self._page():
                course.begin()
                course.pump(self._site.clock())
            while not self.stopping:
                self._hand_on()
                if not course.under_way and course.next_due() is None:
                    break
                self._note(self._wait())
            if self.stopping:
                self._told(Event("", "", "interrupted", self._awaited()))
            self._drain()
        except KeyboardInterrupt:
            raise
        except BaseException:
            self._drain(quietly=True)
            raise
        finally:
            self._workers.close()

    @contextmanager
    def _page(self) -> Iterator[None]:
        self._written = False
        with self.book.page():
            yield
        self._written = True

    def _hand_on(self) -> None:
        """Tells what happened, and hands what was decided to the threads, now that it is written down."""
        course = self._course
        events, course.events = course.events, []
        for event in events:
            self._told(event)
        tasks, course.tasks = course.tasks, []
        for task in tasks:
            task()

    def _wait(self) -> list[Result]:
        """What was learned; sleeps until there is something, or something is due."""
        found: list[Result] = []
        results, due = self._workers.results, self._course.next_due()
        left = POLL_S if due is None else max(0.0, due - self._site.clock())
        if results.empty():
            try:
                if self._site.sleep is None:
                    found.append(results.get(timeout=min(left, POLL_S)))
                elif self._course.under_way:
                    found.append(results.get())
                else:
                    self._site.sleep(left)
            except Empty:
                pass
        while not results.empty():
            found.append(results.get())
        return found

    def _note(self, found: list[Result]) -> None:
        """Writes down what was learned and what follows, in one transaction."""
        course, now = self._course, self._site.clock()
        for result in found:
            if isinstance(result, Ended):
                self._unwritten[self._making(result)] = result.made
        changed = self._changed(now)
        due = course.next_due()
        if not found and not changed and (due is None or due > now):
            return
        with self._page():
            if changed:
                self._hear(now)
            for result in found:
                course.learn(result, now)
            course.due(now)
            course.pump(now)
        self._unwritten.clear()

    def _drain(self, quietly: bool = False) -> None:
        """Waits for deeds under way, and writes down how they ended; of those that were not begun after all, that too."""
        making = {way.making: way.begun for way in self.ways.values() if way.making is not None}
        ends = dict(self._unwritten)
        if self._written:
            ends.update((number, Made(False, "not begun: the run was ended")) for number, begun in making.items() if not begun)
        while {number for number, begun in making.items() if begun} - set(ends):
            result = self._workers.results.get()
            if isinstance(result, Ended):
                ends[self._making(result)] = result.made
        try:
            if ends:
                with self.book.page():
                    for number, made in ends.items():
                        self.book.deed_ended(number, made, self._site.clock())
        except StoreError:
            if not quietly:
                raise

    def _awaited(self) -> str:
        number = sum(way.begun for way in self.ways.values())
        return f"deeds under way are waited for ({number}); once more to leave at once" if number else "nothing else is begun"

    def _making(self, ended: Ended) -> int:
        number = self.ways[ended.node].making
        assert number is not None  # noqa: S101  (it was made)
        return number

    # What people say meanwhile.

    def _data_version(self) -> int:
        return int(self._store.rows("PRAGMA data_version")[0][0]) if self._store is not None else 0

    def _changed(self, now: float) -> bool:
        """Whether somebody else has written to the store."""
        if self._store is None or now - self._heard < POLL_S:
            return False
        before, self._version, self._heard = self._version, self._data_version(), now
        return self._version != before

    def _hear(self, now: float) -> None:
        """Machines that a person had begun anew come back, and those go on that are in a step which is to be skipped by now."""
        assert self._store is not None  # noqa: S101  (it was asked)
        course = self._course
        course.skips = skips(self._store)
        stuck = {way.name: (way.step, way.refused, bool(way.came)) for way in self.ways.values() if way.out and not way.done}
        for way in paths.again(self._store, [self.ways[name] for name in stuck]):
            step, refused, counted = stuck[way.name]
            self.turns.back(way, step, refused=refused, counted=counted, now=now)
        for way in self.ways.values():
            why = course.skips.get((way.name, way.step))
            if why is not None and not way.out and not way.busy:
                course.skip(way, why, now)


def skips(store: Store | None) -> dict[tuple[str, str], str]:
    """By machine and step, why a person had it left out."""
    return {(one.node, one.step): one.why for one in bringups.skips(store, coming=True)} if store is not None else {}
