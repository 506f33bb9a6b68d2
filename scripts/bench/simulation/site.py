"""One run: a world, one policy, and the people who repair what it isolates, sweep by sweep."""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simulation import rates
from simulation.jobs import Scheduler
from simulation.memory import Key, Memory
from simulation.policies import Deciding
from simulation.rates import HOUR
from simulation.tally import FAULTY, HELD, SICK, Counts, Tally
from simulation.world import Alarm, Event, Fault, World, hours

from healthcheck.model.outcome import Repair

_RUNGS = tuple(Repair)
_LOOK_AGAIN = 4 * HOUR      # people come back to a node that is still held


@dataclass
class _Trouble:
    """A fault that is there. `hidden` grows with every repair that did not reach it; `sleeps` while it comes
    and goes, and is away."""

    fault: Fault
    held: bool
    hidden: int = 0
    isolated: bool = False
    shown: bool = False
    sleeps: bool = False


class Site:
    """The fleet under one policy; `run` gives the books."""

    def __init__(self, world: World, seed: int, memory: Memory, policy: Deciding) -> None:
        self._world, self._memory, self._policy = world, memory, policy
        self._people = random.Random(f"{seed} people")  # noqa: S311
        self.tally, self.counts = Tally(world.nodes), Counts()
        self.jobs = Scheduler(world.nodes, seed, self.tally)
        self._due: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0
        self._now = 0
        self._wake: set[int] = set()
        self._troubles: dict[int, _Trouble] = {}
        self._in: dict[int, set[int]] = defaultdict(set)        # node -> the events that hit it now
        self.held: dict[int, int] = {}                          # node -> which isolation of it this is
        self._visited: set[int] = set()
        self._working: set[int] = set()
        self._inspected: set[int] = set()                       # held, and an inspection found nothing
        self._cured: set[int] = set()
        self._crowded = False

    def run(self) -> None:
        for fault in self._world.faults:
            self._at(fault.began, self._fail, fault)
        for number, event in enumerate(self._world.events):
            for node, when in event.hit.items():
                self._at(when, self._hit, number, event, node)
        for alarm in self._world.alarms:
            self._at(alarm.began, self._alarm, alarm)
        for now in range(self._world.ticks):
            self._now = now
            while self._due and self._due[0][0] <= now:
                _, _, what, said = heapq.heappop(self._due)
                what(*said)
            self.jobs.end(now)
            if now % HOUR == 0:
                for node in self.held.keys() - self._working:
                    self._memory.look(node, now)
            if now in self._wake or (now % HOUR == 0 and self.held) or (now % 3 == 0 and self._crowded):
                self._wake.discard(now)
                self._act()
            self.jobs.start(now)
        self.counts.undetected += sum(not trouble.isolated and not trouble.held
                                      for trouble in self._troubles.values())
        self.tally.close(self._world.ticks)

    def _at(self, when: int, what: Callable[..., None], *said: Any) -> None:
        self._number += 1
        heapq.heappush(self._due, (when, self._number, what, said))

    # ---- what happens to nodes

    def _fail(self, fault: Fault) -> None:
        node = fault.node
        if node in self._troubles or node in self._working or (fault.lemon and node in self._cured):
            return
        self.counts.faults += 1
        trouble = self._troubles[node] = _Trouble(fault, node in self.held)
        self._condition(node)
        for at, until in fault.spells:
            self._at(self._now + at, self._show, trouble, 0)
            if until is not None:
                self._at(self._now + until, self._hide, trouble, 0)
        if fault.heals is not None:
            self._at(self._now + fault.heals, self._over, trouble)

    def _show(self, trouble: _Trouble, hidden: int) -> None:
        there = self._troubles.get(trouble.fault.node) is trouble
        if there and trouble.hidden == hidden and not trouble.shown:
            trouble.shown, trouble.sleeps = True, False
            self._condition(trouble.fault.node)
            self._seen(trouble.fault.node, _key(trouble.fault), part=trouble.fault.kind.part)

    def _hide(self, trouble: _Trouble, hidden: int) -> None:
        if self._troubles.get(trouble.fault.node) is trouble and trouble.hidden == hidden and trouble.shown:
            trouble.shown, trouble.sleeps = False, True
            self._gone(trouble.fault.node, _key(trouble.fault))
            self._condition(trouble.fault.node)

    def _over(self, trouble: _Trouble) -> None:
        node = trouble.fault.node
        if self._troubles.get(node) is not trouble:
            return
        self._hide(trouble, trouble.hidden)
        del self._troubles[node]
        self.counts.undetected += not trouble.isolated and not trouble.held
        self._condition(node)

    def _hit(self, number: int, event: Event, node: int) -> None:
        if event.version:
            self._memory.versions[node] = event.version
            self._memory.settled(node, self._now)
        if self._now >= event.ended:
            return
        self._in[node].add(number)
        if event.sick:
            self._condition(node)
        self._seen(node, (event.rule, event.subject), part=False)
        self._at(event.ended, self._heal, number, event, node)

    def _heal(self, number: int, event: Event, node: int) -> None:
        self._in[node].discard(number)
        self._memory.versions.pop(node, None)
        if event.reboots:
            self._memory.boot(node, self._now)
        self._gone(node, (event.rule, event.subject))
        self._condition(node)

    def _alarm(self, alarm: Alarm) -> None:
        self._seen(alarm.node, (alarm.rule, alarm.subject), part=False)
        self._at(alarm.ended, self._gone, alarm.node, (alarm.rule, alarm.subject))

    def _seen(self, node: int, key: Key, *, part: bool) -> None:
        if self._memory.show(node, key, self._now, part=part) and node not in self.held:
            self._wake.add(self._now + self._policy.patience(key[0]) - 1)

    def _gone(self, node: int, key: Key) -> None:
        self._memory.hide(node, key, self._now)

    def _condition(self, node: int) -> None:
        """Tells the books and the scheduler how the node is. Of one that is down the scheduler knows by
        itself."""
        trouble = self._troubles.get(node)
        events = [self._world.events[number] for number in self._in.get(node, ())
                  if self._world.events[number].sick]
        awake = trouble is not None and not trouble.sleeps
        fatal = events or (trouble is not None and awake and trouble.fault.kind.fatal)
        how = "fatal" if fatal else "slow" if awake else ""
        self.tally.turn(node, FAULTY, on=bool(events) or trouble is not None, now=self._now)
        self.tally.turn(node, SICK, on=bool(how), now=self._now)
        self.jobs.sick(node, how, self._now)
        if self._down(node):
            self.jobs.close(node, self._now)
        elif node not in self.held:
            self.jobs.open(node)

    def _down(self, node: int) -> bool:
        trouble = self._troubles.get(node)
        return (trouble is not None and not trouble.sleeps and not trouble.fault.kind.rule) or any(
            self._world.events[number].sick and not self._world.events[number].rule
            for number in self._in.get(node, ()))

    # ---- what the policy does

    def _act(self) -> None:
        actions = self._policy.decide(self._now)
        self.counts.plans += 1
        self._crowded = actions.crowded
        for node in actions.release:
            self._release(node)
        for node, evict, incident in actions.isolate:
            self._isolate(node, evict, incident)
        if actions.opens:
            self.counts.openings += 1
            self._at(self._now + hours(self._people, *rates.UNTIL_CLOSED), self._closed)

    def _closed(self) -> None:
        self._policy.close_breaker()
        self._wake.add(self._now)

    def _isolate(self, node: int, evict: bool, incident: int) -> None:
        self._number += 1
        self.held[node] = self._number
        self._visited.discard(node)
        self._inspected.discard(node)
        self.tally.turn(node, HELD, on=True, now=self._now)
        self.jobs.close(node, self._now, evict=evict)
        self._count(node, incident)
        self._at(self._now + hours(self._people, *rates.TAKE), self._visit, node, self._number)

    def _count(self, node: int, incident: int) -> None:
        self.counts.isolations += 1
        for number in self._in.get(node, ()):
            self.counts.events[number] = self.counts.events.get(number, 0) + 1
            names = self.counts.names.setdefault(number, set())
            names.add(f"incident {incident}" if incident else f"node {node}")
        trouble = self._troubles.get(node)
        if trouble is not None:
            if not trouble.isolated and not trouble.held:
                self.counts.delays.append(self._now - trouble.fault.began)
            trouble.isolated = True
        elif not any(self._world.events[number].sick for number in self._in.get(node, ())):
            self.counts.false += 1
            self.counts.false_incident += bool(incident)

    def _release(self, node: int) -> None:
        del self.held[node]
        self.tally.turn(node, HELD, on=False, now=self._now)
        if not self._down(node):
            self.jobs.open(node)

    # ---- what people do

    def _visit(self, node: int, isolation: int) -> None:
        """Somebody comes. Whoever has inspected a node and found nothing leaves it alone until it has a fault
        of its own."""
        if self.held.get(node) != isolation:
            return
        if node in self._visited and self._given_back(node):
            return
        action = self._policy.ask(node)
        if action in (None, Repair.WATCH) or (node in self._inspected and node not in self._troubles):
            self._at(self._now + (HOUR if self._policy.trusts else _LOOK_AGAIN), self._visit, node, isolation)
            return
        self.counts.visits += 1
        self.counts.needless += node not in self._troubles
        self._visited.add(node)
        self._work(node, isolation, action)

    def _work(self, node: int, isolation: int, action: Repair) -> None:
        self._working.add(node)
        if action is Repair.REPLACE:
            self._memory.away[node] = "RMA is open"
        self._at(self._now + hours(self._people, *rates.LASTS[action]), self._mended, node, isolation, action)

    def _mended(self, node: int, isolation: int, action: Repair) -> None:
        trouble = self._troubles.get(node)
        if trouble is not None and action is Repair.INSPECT and trouble.fault.needs is Repair.REPLACE:
            self._work(node, isolation, Repair.REPLACE)
            return
        self._working.discard(node)
        if trouble is None and action is Repair.INSPECT:
            self._inspected.add(node)
        if trouble is not None:
            if _RUNGS.index(action) >= _RUNGS.index(trouble.fault.needs):
                self._over(trouble)
            else:
                self._hide(trouble, trouble.hidden)
                trouble.hidden += 1
                self._at(self._now + hours(self._people, rates.AGAIN), self._show, trouble, trouble.hidden)
        self._memory.mended(node, action, self._now)
        if (node in self._world.lemons and action in (Repair.INSPECT, Repair.REPLACE)
                and self._people.random() < rates.CURED):
            self._cured.add(node)
        if self.held.get(node) == isolation and not self._given_back(node):
            self._at(self._now + (1 if self._policy.trusts else _LOOK_AGAIN), self._visit, node, isolation)

    def _given_back(self, node: int) -> bool:
        """Where people give nodes back, they do as soon as nothing shows."""
        if not self._policy.trusts or node in self._memory.shown:
            return False
        self._policy.given_back(node)
        self._release(node)
        return True


def _key(fault: Fault) -> Key:
    return fault.kind.rule, fault.kind.subject.format(fault.slot)
