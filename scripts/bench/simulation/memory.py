"""What sweeps would have left in the store about the simulated nodes, as the values that `gather` makes of
it.

Silences, people's own cordons and leases are not simulated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from simulation import rates
from simulation.rates import ASKED, MINUTES

from healthcheck.model.outcome import NodeState, Repair
from healthcheck.model.problem import Problem
from healthcheck.triage.past import (
    RETURNED,
    NodeHistory,
    OpenCordon,
    OpenVerdict,
    Repaired,
    RequalifySnapshot,
)

EPOCH = 1_800_000_000.0
_KEPT = 60 * 86400.0
_LOOKS = 4
Key = tuple[str, str]


def clock(tick: int) -> float:
    """A sweep's time, in epoch seconds."""
    return EPOCH + tick * MINUTES * 60


@dataclass
class Shown:
    """A problem that sweeps see; `times` are how many causes of it there are."""

    began: int
    part: bool
    times: int = 1


class Memory:
    """The memory of all nodes."""

    def __init__(self, nodes: int) -> None:
        self.names = [f"gpu{node:05d}" for node in range(nodes)]
        self.number = {name: node for node, name in enumerate(self.names)}
        self.shown: dict[int, dict[Key, Shown]] = defaultdict(dict)
        self.away: dict[int, str] = {}
        self.versions: dict[int, str] = {}
        self._over: dict[int, list[Problem]] = defaultdict(list)
        self._boots: dict[int, list[float]] = {}
        self._looks: dict[int, list[RequalifySnapshot]] = {}
        self._repaired: dict[int, list[Repaired]] = defaultdict(list)
        self._boards: dict[int, int] = defaultdict(int)
        self._left: dict[int, float] = {}
        self._places = [_place(node) for node in range(nodes)]
        self._pasts = [self.past(node, 0, (), None) for node in range(nodes)]

    def show(self, node: int, key: Key, now: int, *, part: bool) -> bool:
        """A sweep sees it; true where it is new."""
        here = self.shown[node]
        if key in here:
            here[key].times += 1
            return False
        here[key] = Shown(now, part)
        return True

    def hide(self, node: int, key: Key, now: int) -> None:
        """One cause of it is gone; with the last of them sweeps see it no more."""
        here = self.shown.get(node, {})
        if key not in here:
            return
        here[key].times -= 1
        if not here[key].times:
            self._over[node].append(self._problem(node, key, here.pop(key), now - 1, ended=now))
            if not here:
                del self.shown[node]
                self.settled(node, now)

    def boot(self, node: int, now: int) -> None:
        """A sweep meets another boot."""
        self._boots.setdefault(node, [EPOCH - 86400]).append(clock(now))

    def look(self, node: int, now: int) -> None:
        """A look under the profile of requalification."""
        state = NodeState.UNHEALTHY if node in self.shown else NodeState.HEALTHY
        self._looks[node] = [*self._looks.get(node, ())[1 - _LOOKS:],
                             RequalifySnapshot(clock(now), state.value)]

    def mended(self, node: int, action: Repair, now: int) -> None:
        """What the ledger and the RMAs say was done; a replacement changes the board with all its GPUs."""
        if action is Repair.REPLACE:
            self.away.pop(node, None)
            self._boards[node] += 1
            gone = [problem for problem in self._over[node] if problem.serial is not None]
            self._over[node] = [problem for problem in self._over[node] if problem.serial is None]
            self._left[node] = max([self._left.get(node, 0.0), *(problem.ended or 0.0 for problem in gone)])
        done = {Repair.REPLACE: RETURNED, Repair.INSPECT: "repaired"}.get(action, action.value)
        self._repaired[node].append(Repaired(clock(now), done))
        if action in (Repair.REBOOT, Repair.INSPECT, Repair.REPLACE):
            self.boot(node, now)

    def pasts(self, now: int, cordons: Mapping[int, OpenCordon],
              verdicts: Mapping[int, OpenVerdict]) -> tuple[NodeHistory, ...]:
        """Every node's past; made anew for those of which there is something to say, as nothing changes for
        the others."""
        for node in {*self.shown, *cordons, *verdicts, *self.away}:
            held = cordons.get(node)
            self._pasts[node] = self.past(node, now, (held,) if held is not None else (), verdicts.get(node))
        return tuple(self._pasts)

    def settled(self, node: int, now: int) -> None:
        """There is nothing more to say of a node: no problem shows, or no one holds it."""
        self._pasts[node] = self.past(node, now, (), None)

    def past(self, node: int, now: int, cordons: tuple[OpenCordon, ...],
             verdict: OpenVerdict | None) -> NodeHistory:
        here = self.shown.get(node, {})
        since = clock(now) - _KEPT
        over = tuple(problem for problem in self._over.get(node, ()) if (problem.ended or 0.0) >= since)
        domains, ports = self._places[node]
        return NodeHistory(
            self.names[node], over=over,
            problems=tuple(self._problem(node, key, shown, now) for key, shown in here.items()),
            boots=tuple(self._boots.get(node, (EPOCH - 86400,))), snapshots=tuple(self._looks.get(node, ())),
            repaired=tuple(done for done in self._repaired.get(node, ()) if done.time >= since),
            cordons=cordons, verdict=verdict,
            domains=domains, ports=ports, away=self.away.get(node, ""), left=self._left.get(node, 0.0),
            state=(NodeState.UNHEALTHY if here else NodeState.HEALTHY).value, seen=clock(now),
            versions={"driver": self.versions.get(node, "570.1")})

    def _problem(self, node: int, key: Key, shown: Shown, now: int, ended: int | None = None) -> Problem:
        rule, subject = key
        serial = f"S{node:05d}-{self._boards[node]}-{subject.partition(',')[0][4:]}" if shown.part else None
        status, origin = ("fail", None) if rule else ("unknown", "node")
        return Problem(self.names[node], rule, subject, status, "critical", origin, None,
                       "1" if rule else "", "0" if rule else "",
                       "" if rule else "it did not answer", "", clock(shown.began), clock(now),
                       clock(ended) if ended is not None else None,
                       now - shown.began + 1, "gpu" if shown.part else None, serial,
                       next((asked for number, asked in ASKED.items() if subject.endswith(number)), None))


_SHARED: dict[int, tuple[Mapping[str, tuple[str, ...]], Mapping[str, tuple[str, str]]]] = {}


def _place(node: int) -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, tuple[str, str]]]:
    """A node's failure domains, and its ports' leaf and rail."""
    rack, group = node // rates.RACK, node // rates.LEAF
    if rack not in _SHARED:
        leaves = [f"leaf-{group}-{rail}" for rail in range(rates.RAILS)]
        _SHARED[rack] = (
            {"rack": (f"rack-{rack}",), "leaf": tuple(leaves), "power": (f"power-{node // rates.POWER}",)},
            {f"0000:{rail}8:00.0": (leaf, str(rail)) for rail, leaf in enumerate(leaves)})
    return _SHARED[rack]
