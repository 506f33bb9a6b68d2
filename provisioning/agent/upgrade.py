"""Upgrades agents ring by ring: the next ring begins only if the one before did not get worse. Nothing is
kept on the head: nodes that have the new version are in no ring."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from provisioning.agent.install import AgentResult
from provisioning.agent.rings import AgentSample, reported, sample, worse

_LONGEST_S = 86400.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 15.0
# A run takes at most 60 s (`units.LIMIT_S`); one of the old version may have to end first.
_SYSTEMD_WAIT_S = 150.0
SILENT = "silent"        # in place of the state of a node without a result by its version
_NO_RESULT = "no result by the new version within {:.0f} s"
Asked = Callable[[Sequence[str]], Iterable[AgentResult]]


@dataclass(frozen=True)
class RingOutcome:
    """What became of one ring. `done` is of its upgrade, `worse` says of nodes why they are worse than
    before; `states` counts the nodes' states after it."""

    number: int
    nodes: tuple[str, ...]
    done: tuple[AgentResult, ...]
    worse: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, int] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Whether the next ring may begin: some were upgraded, none got worse, and not all are silent."""
        return not self.worse and self.upgraded and set(self.states) != {SILENT}

    @property
    def upgraded(self) -> bool:
        """Whether any node was."""
        return any(one.ok for one in self.done)


def upgrade_rings(
    rings: Sequence[Sequence[str]], ask: Asked, upgrade: Asked, wait_s: float, *,
    began: Callable[[int, Sequence[str]], None] = lambda number, ring: None,
    clock: Callable[[], float] = time.monotonic, pause: Callable[[float], None] = time.sleep,
) -> Iterator[RingOutcome]:
    """Upgrades ring after ring, and yields what became of each, up to one that is not good. `ask` gets
    agents' status and has one without a result of its version run; `upgrade` upgrades. First results are
    awaited `wait_s` seconds a ring; with 0 nothing is compared. `began` hears of each ring, from 1."""
    for number, ring in enumerate(rings, 1):
        began(number, ring)
        before = {one.node: sample(one) for one in ask(ring)} if wait_s else {}
        done = tuple(upgrade(ring))
        upgraded = [one.node for one in done if one.ok]
        outcome = RingOutcome(number, tuple(ring), done)
        if wait_s:
            after = _awaited(upgraded, ask, wait_s, clock, pause)
            outcome = RingOutcome(
                number, tuple(ring), done, {node: why for node in upgraded if (
                    why := _worse(before.get(node), after.get(node), wait_s))}, _counted(after))
        yield outcome
        if not outcome.good:
            return


def wait_s(planned: Iterable[AgentResult]) -> float:
    """Seconds to await a first result, by the answers to a dry run: cron has its own time."""
    by_cron = [one.report.get("period") for one in planned if one.report.get("cron") is True]
    periods = [float(period) for period in by_cron if isinstance(period, (int, float))
               and 0 < period <= _LONGEST_S]
    return _SYSTEMD_WAIT_S + 2 * max(periods, default=0.0)


def _awaited(
    nodes: Sequence[str], ask: Asked, wait_s: float, clock: Callable[[], float],
    pause: Callable[[float], None],
) -> Mapping[str, AgentResult]:
    """Each node's newest status: of the time when it first had a result by its version, or of the limit."""
    found: dict[str, AgentResult] = {}
    waiting, until, length = list(nodes), clock() + wait_s, _FIRST_PAUSE_S
    while waiting:
        found |= {one.node: one for one in ask(waiting)}
        waiting = [node for node in waiting if node not in found or not reported(found[node])]
        left = until - clock()
        if not waiting or left <= 0:
            break
        pause(min(length, left))
        length = min(_LONGEST_PAUSE_S, length * 1.5)
    return found


def _worse(before: AgentSample | None, done: AgentResult | None, wait_s: float) -> str:
    if done is None:
        return _NO_RESULT.format(wait_s)
    after = sample(done)
    if reported(done):
        return worse(before or AgentSample("", None, frozenset()), after)
    if before is not None and before.trouble:
        return ""       # it was silent before
    return _NO_RESULT.format(wait_s) + (f" ({after.trouble})" if after.trouble else "")


def _counted(after: Mapping[str, AgentResult]) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for done in after.values():
        state = (sample(done).state if reported(done) else None) or SILENT
        counts[state] = counts.get(state, 0) + 1
    return counts
