"""Rebuilds what triage knew of a node at a past time, from rows with only their start, end and last sighting.

It holds nothing found later. Intermediate states are not stored: the sweeps that saw a problem are counted
from the sweeps that looked at most nodes; its severity and words are its last. What the inventory says is as
it says now.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from healthcheck.model.outcome import NodeState
from healthcheck.model.problem import Problem
from healthcheck.replay.record import PastCordon, PastSeat, ProblemRow, StoreHistory
from healthcheck.store.history import ComponentLocation
from healthcheck.store.rmas import CHASSIS, Rma, RmaAlarm, alarm, answered
from healthcheck.store.silences import silenced
from healthcheck.triage.faults import accuses
from healthcheck.triage.gather import domains, ports, returned, window
from healthcheck.triage.past import (
    NodeHistory,
    OpenCordon,
    OpenVerdict,
    Repaired,
    RequalifySnapshot,
    SilencedHistory,
)
from healthcheck.triage.policy import TriagePolicy
from inventory.model import Node

_NO_VERSIONS: Mapping[str, str] = {}


@dataclass
class _Split:
    """What is known of a node of what is silenced, or of all else."""

    problems: list[Problem] = field(default_factory=list)
    over: list[Problem] = field(default_factory=list)
    moved: list[Problem] = field(default_factory=list)
    left: float = 0.0


class Rebuilt:
    """The nodes of a record as they were known at any time."""

    def __init__(self, record: StoreHistory, policy: TriagePolicy) -> None:
        self._record = record
        self._policy = policy
        self._window = window(policy)
        self._sweeps = record.sweeps
        self._alarms: tuple[float, Mapping[int, RmaAlarm]] = (float("-inf"), {})

    def past(
        self, node: Node, now: float, cordons: tuple[OpenCordon, ...] = (),
        verdict: OpenVerdict | None = None, overridden: str = "", overridden_at: float = float("inf"),
    ) -> NodeHistory:
        """What was known at `now` of a node that we hold so, with that verdict."""
        name = node.name
        quiet = self._quiet(name, now)
        here = {seat.component for seat in self._record.seats.get(name, ()) if self._sits(seat, now)}
        heard, hidden = _Split(), _Split()
        for row in self._record.problems.get(name, ()):
            if (problem := self.known(row, now)) is None:
                continue
            to = hidden if quiet(problem) else heard
            if problem.ended is None:
                to.problems.append(problem)
            elif row.component is None or row.component in here:
                to.over.append(problem)
            elif accuses(problem, self._policy):
                to.left = max(to.left, problem.ended)
        for problem, silent in self._moved(name, here, now):
            (hidden if silent else heard).moved.append(problem)
        repaired = [one for one in self._record.repairs.get(name, ())
                    if now - self._window <= one.time <= now]
        away = self._away(name, now, repaired)
        was = next((one for one in reversed(self._record.states.get(name, ()))
                    if self._sweeps.known(one.began) <= now), None)
        machine = self._record.machines.get(name)
        if machine is not None and self._sweeps.known(machine.at) > now:
            machine = None
        began = [cordon.began for cordon in cordons] + ([machine.at] if machine is not None else [])
        return NodeHistory(
            name, node.in_service, node.lifecycle.state.value, tuple(heard.problems), tuple(heard.over),
            tuple(heard.moved), SilencedHistory(tuple(hidden.problems), tuple(hidden.over),
                                                tuple(hidden.moved), hidden.left),
            tuple(began for began in self._record.boots.get(name, ()) if self._sweeps.known(began) <= now),
            self._looks(name, now, min(began)) if began else (), tuple(repaired),
            max((seat.began for seat in self._record.chassis.get(name, ()) if self._sits(seat, now)),
                default=0.0), cordons, verdict,
            overridden, "", self._leased(name, now), domains(node), away, heard.left,
            was.state if was is not None else "", self._seen(was.began, was.seen, now) if was is not None
            else 0.0, self._record.versions.get(name, _NO_VERSIONS), ports(node),
            new_since=machine.at if machine is not None else 0.0, sku=node.sku or "", machine=machine,
            overridden_at=overridden_at)

    def known(self, row: ProblemRow, now: float) -> Problem | None:
        """A problem as the sweeps until then had left it; None where it was not there yet,
        or is too long over."""
        problem, known = row.problem, self._sweeps.known
        if known(problem.began) > now:
            return None
        if problem.ended is not None and known(problem.ended) <= now:
            return problem if problem.ended >= now - self._window else None
        if known(problem.seen) <= now:
            return replace(problem, ended=None)
        seen = self._seen(problem.began, problem.seen, now)
        sweeps = min(problem.sweeps - 1, self._sweeps.between(problem.began, seen))
        return replace(problem, ended=None, seen=seen, sweeps=max(1, sweeps))

    def _seen(self, began: float, seen: float, now: float) -> float:
        """When something that holds on had been seen last."""
        if self._sweeps.known(seen) <= now:
            return seen
        ended = self._sweeps.until(now)
        return max(began, min(seen, self._sweeps.broad[ended - 1])) if ended else began

    def _sits(self, seat: PastSeat, now: float) -> bool:
        return (self._sweeps.known(seat.began) <= now
                and (seat.ended is None or self._sweeps.known(seat.ended) > now))

    def _quiet(self, node: str, now: float) -> Callable[[Problem], bool]:
        held = [one for one in self._record.silences.get(node, ()) if one.holds(now)]
        return lambda problem: bool(held) and silenced(problem, held, now) is not None

    def _moved(self, node: str, here: Iterable[int], now: float) -> Iterable[tuple[Problem, bool]]:
        """Each failure of its components elsewhere, and whether it is silenced."""
        for component in here:
            for row in self._record.of_component[component]:
                elsewhere = self.known(row, now) if row.problem.node != node else None
                if elsewhere is not None:
                    yield elsewhere, self._quiet(elsewhere.node, now)(elsewhere)

    def _leased(self, node: str, now: float) -> str:
        return next((why for began, ended, why in self._record.leases.get(node, ()) if began <= now
                     and (ended is None or ended > now)), "")

    def _away(self, node: str, now: float, repaired: list[Repaired]) -> str:
        """As `gather`: what is away, or came back wrong and sits here;
        a part that came back well is put with what was repaired."""
        away = ""
        wrong = {number: one for number, one in self._wrong(now).items() if one.node == node}
        for rma in self._record.rmas.get(node, ()):
            if rma.opened > now:
                continue
            rma = self._then(rma, now)
            if rma.away:
                away = f"RMA {rma.id} is {rma.state.value}: {rma.why}"
            elif (rma.returned is not None and rma.returned >= now - self._window and rma.repaired
                  and rma.id not in wrong):
                repaired.append(returned(rma))
        for number, one in wrong.items():
            away = f"RMA {number}: {one.said}; see: muster rma list"
        return away

    @staticmethod
    def _then(rma: Rma, now: float) -> Rma:
        """What was known of it at that time."""
        if rma.closed is not None and rma.closed > now:
            rma = replace(rma, closed=None, closed_why="")
            if not rma.repaired:
                rma = replace(rma, returned=None, outcome=None)
        if rma.returned is None or rma.returned <= now:
            return rma if rma.shipped is None or rma.shipped <= now else replace(rma, shipped=None)
        return replace(rma, returned=None, outcome=None,
                       shipped=rma.shipped if rma.shipped is not None and rma.shipped <= now else None)

    def _wrong(self, now: float) -> Mapping[int, RmaAlarm]:
        """What was not as it was said to be, on all nodes, by RMA; as known at that time."""
        if self._alarms[0] != now:
            every = [self._then(each, now) for of_node in self._record.rmas.values() for each in of_node
                     if each.opened <= now]
            found = {}
            for rma in every:
                one = alarm(rma, self._since(rma, now))
                if one is not None and not answered(rma, every, one.said.startswith("ANOTHER")):
                    found[rma.id] = one
            self._alarms = now, found
        return self._alarms[1]

    def _since(self, rma: Rma, now: float) -> list[ComponentLocation]:
        """Seats that were seen since its return, or its opening while it is away, as known then."""
        back = rma.returned if rma.returned is not None else rma.opened
        serials = {word.lower() for word in (rma.serial, rma.new) if word}
        seats = [ComponentLocation(seat.kind, seat.serial, seat.node, seat.slot, seat.began,
                                   self._seen(seat.began, seat.seen, now),
                                   None if self._sits(seat, now) else seat.ended)
                 for seat in self._record.parts if self._sweeps.known(seat.began) <= now
                 and ((seat.node, seat.slot) == (rma.node, rma.slot or CHASSIS)
                      or seat.serial.lower() in serials)]
        return sorted((seat for seat in seats if seat.seen > back), key=lambda seat: (seat.seen, seat.began))

    def _looks(
        self, node: str, now: float, began: float,
    ) -> tuple[RequalifySnapshot, ...]:
        """The looks at a node that we hold, or that is another machine, since then; and where it was not held
        in truth, so that no one had cause to look, what sweeps said of it.

        Where triage returned it in truth, and its looks are stored no more,
        they were as many as the policy asks for.
        """
        found: dict[tuple[float, int], RequalifySnapshot] = {}
        for time, state, measured in self._record.snapshots.get(node, ()):
            if began <= time and self._sweeps.known(time) <= now:
                found[time, 0] = RequalifySnapshot(time, state, measured)
        wanted = self._policy.requalify.sweeps
        held = [cordon for cordon in self._record.cordons.get(node, ())
                if cordon.by_triage and cordon.began <= now]
        for cordon in held:
            if cordon.ended is not None and began <= cordon.ended <= now and cordon.back_by_triage \
                    and sum(cordon.began <= time <= cordon.ended for time, _ in found) < wanted:
                found |= {(cordon.ended, at): RequalifySnapshot(cordon.ended, NodeState.HEALTHY.value)
                          for at in range(1, wanted + 1)}
        for time in self._unheld(node, began, now, held, wanted):
            found.setdefault((time, 0), RequalifySnapshot(time, self._state(node, time)))
        return tuple(found[key] for key in sorted(found))

    def _unheld(
        self, node: str, began: float, now: float, held: Iterable[PastCordon], wanted: int,
    ) -> list[float]:
        """The newest broad sweeps of this hold at which nothing of ours held the node in truth."""
        found: list[float] = []
        at = self._sweeps.until(now) - 1
        while at >= 0 and len(found) < wanted and (time := self._sweeps.broad[at]) >= began:
            if any(cordon.began <= time and (cordon.ended is None or time < cordon.ended) for cordon in held):
                break
            found.append(time)
            at -= 1
        return found

    def _state(self, node: str, time: float) -> str:
        states = self._record.states.get(node, ())
        at = bisect_right([one.began for one in states], time) - 1
        return (states[at].state if at >= 0 and (states[at].ended is None or time < (states[at].ended or 0))
                else NodeState.UNKNOWN.value)
