"""Learns what nodes of one scope write from digests of their boots, merges baselines, expires old lines.

    digests -> Learner -> proposals -> merge into the baseline -> a person approves -> current -> judging

Merging is associative: it does not matter in how many portions a fleet was learned. A boot counts once: a
`Learner` skips those that the baseline was learned from already.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from healthcheck.kernellog.model import (
    LONGEST_LINE,
    Baseline,
    Digest,
    KernelEventKind,
    KernelMessage,
    KnownTemplate,
    Phase,
    Scope,
)
from inventory.nodeset import expand, fold

BOOT_KEPT = 12      # characters of a boot's id that identify it
_BOOTS_KEPT = 64    # the newest of one node: enough that no log is learned twice
_ORDER = {phase: number for number, phase in enumerate(Phase)}


def boot_key(digest: Digest) -> str:
    """Identifies this boot among the node's: the beginning of its id, or of a digest of the log."""
    if digest.boot:
        return digest.boot.replace("-", "")[:BOOT_KEPT]
    text = repr([(message.template, message.count, message.first, message.last)
                 for message in digest.messages])
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:BOOT_KEPT]


@dataclass(slots=True)
class _Seen:
    """One template, summed over boots. `nodes` has a bit for each node; `last` is the last added phase."""

    example: str
    source: tuple[str, str]
    kind: KernelEventKind = KernelEventKind.LINE
    nodes: int = 0
    boots: int = 0
    least: int = 0
    most: int = 0
    busiest: int = 0
    priority: int | None = None
    last: Phase | None = None
    phases: set[Phase] = field(default_factory=set)

    def count(self, bit: int, times: int) -> None:
        """Adds one boot that has it so many times."""
        if times < self.least or not self.boots:
            self.least = times
        if times > self.most:
            self.most = times
        self.boots += 1
        self.nodes |= bit

    def add_message(self, message: KernelMessage) -> None:
        """Adds one message of the template."""
        if message.busiest > self.busiest:
            self.busiest = message.busiest
        if message.phase is not self.last:
            self.last = message.phase
            self.phases.add(message.phase)
        if message.kind is not KernelEventKind.LINE:
            self.kind = message.kind
        for line in message.lines:
            given = line.priority
            if given is not None and (self.priority is None or given < self.priority):
                self.priority = given


class Learner:
    """Adds boots one after another, holding only templates; `node_boots` were learned before."""

    def __init__(self, node_boots: Mapping[str, Sequence[str]] | None = None) -> None:
        self.offered = self.boots = 0
        self.learned_boots: dict[str, list[str]] = {}
        self._before = node_boots or {}
        self._seen: dict[str, _Seen] = {}
        self._bits: dict[str, int] = {}
        self._began: dict[Phase, tuple[float, float]] = {}

    def add(self, digest: Digest) -> None:
        """One more boot, unless it was learned before."""
        self.offered += 1
        node, key = digest.node, boot_key(digest)
        held = self.learned_boots.get(node, [])
        if key in self._before.get(node, ()) or key in held:
            return
        self.learned_boots[node] = [*held, key]
        self.boots += 1
        for phase, seconds in digest.began.items():
            least, most = self._began.get(phase, (seconds, seconds))
            self._began[phase] = (min(least, seconds), max(most, seconds))
        bit = self._bits.setdefault(node, 1 << len(self._bits))
        who = (node, key)
        # A template of both single lines and reports has two messages.
        times: dict[str, int] = {}
        for message in digest.messages:
            text = message.template
            seen = self._seen.get(text)
            if seen is None:
                seen = self._seen[text] = _Seen(message.head[:LONGEST_LINE], who)
            elif who < seen.source:
                # The same example, in whatever order nodes answer.
                seen.example, seen.source = message.head[:LONGEST_LINE], who
            seen.add_message(message)
            times[text] = times.get(text, 0) + message.count
        for text, count in times.items():
            self._seen[text].count(bit, count)

    def learned(self, scope: Scope, day: str, name: str = "") -> Baseline:
        """What these boots write, all of it proposed; `day` is the date of learning (ISO 8601)."""
        node_boots = {node: tuple(sorted(self.learned_boots[node])) for node in sorted(self.learned_boots)}
        known = {text: _known(text, seen, self._bits, day) for text, seen in self._seen.items()}
        when = day if node_boots else ""
        return Baseline(name, scope, len(node_boots), self.boots, {}, _by_phase(self._began),
                        proposed=_sorted(known), first=when, last=when, learned_boots=node_boots)


def _known(text: str, seen: _Seen, bits: Mapping[str, int], day: str) -> KnownTemplate:
    nodes = ([node for node, bit in bits.items() if seen.nodes & bit] if seen.nodes + 1 < 1 << len(bits)
             else list(bits))
    return KnownTemplate(
        text, _phases(seen.phases), len(nodes), seen.boots, seen.least, seen.most, seen.example, day, day,
        busiest=seen.busiest, kind=seen.kind, priority=seen.priority,
        on="" if len(nodes) == len(bits) else fold(sorted(nodes)),
    )


def merge(old: Baseline, new: Baseline) -> Baseline:
    """Both together, as the older one's: first seen stays, last seen moves on, counts add up. What either had
    approved is approved, with who did it and why; so is what had expired and is seen again."""
    node_boots = dict(old.learned_boots)
    for node, boots in new.learned_boots.items():
        kept = node_boots.get(node, ())
        node_boots[node] = (*kept, *(boot for boot in boots if boot not in kept))[-_BOOTS_KEPT:]
    joined = _joiner(old, new, node_boots)
    olds, news = {**old.proposed, **old.expired, **old.known}, {**new.proposed, **new.expired, **new.known}
    known: dict[str, KnownTemplate] = {}
    proposed: dict[str, KnownTemplate] = {}
    for text in olds.keys() | news.keys():
        before, after = olds.get(text), news.get(text)
        on, count = joined(before.on if before else None, after.on if after else None)
        if before is not None and after is not None:
            both = _both(before, after, on, count)
        elif before is not None:
            both = replace(before, on=on, nodes=count, unseen=before.unseen + new.boots)
        else:
            both = replace(news[text], on=on, nodes=count)
        approved = any(text in given for given in (old.known, old.expired, new.known, new.expired))
        (known if approved else proposed)[text] = both
    began = dict(old.phases)
    for phase, (least, most) in new.phases.items():
        held = began.get(phase, (least, most))
        began[phase] = (min(held[0], least), max(held[1], most))
    return replace(
        old, nodes=len(node_boots), boots=old.boots + new.boots, known=_sorted(known),
        proposed=_sorted(proposed), expired={}, learned_boots=node_boots, phases=_by_phase(began),
        first=min(old.first or new.first, new.first or old.first), last=max(old.last, new.last),
    )


def _both(old: KnownTemplate, new: KnownTemplate, on: str, nodes: int) -> KnownTemplate:
    given = [one for one in (old.priority, new.priority) if one is not None]
    return KnownTemplate(
        old.template, _phases({*old.phases, *new.phases}), nodes, old.boots + new.boots,
        min(old.least, new.least), max(old.most, new.most), old.example, min(old.first_seen, new.first_seen),
        max(old.last_seen, new.last_seen), old.by or new.by, old.why or new.why,
        max(old.busiest, new.busiest), old.kind if old.kind is not KernelEventKind.LINE else new.kind,
        min(given, default=None), on, new.unseen,
    )


def _joiner(
    old: Baseline, new: Baseline, node_boots: Mapping[str, object],
) -> Callable[[str | None, str | None], tuple[str, int]]:
    """Joins node sets of entries of both (None: no node, empty: all of that baseline). Cached: few differ."""
    every = frozenset(node_boots)

    @functools.cache
    def joined(before: str | None, after: str | None) -> tuple[str, int]:
        nodes = _members(before, old.learned_boots) | _members(after, new.learned_boots)
        return ("" if nodes == every else fold(sorted(nodes))), len(nodes)

    return joined


def _members(on: str | None, every: Iterable[str]) -> frozenset[str]:
    if on is None:
        return frozenset()
    return frozenset(expand(on) if on else every)


def current(baseline: Baseline, day: str) -> Baseline:
    """The baseline on that day: what has not been seen for too long is `expired` and no longer known."""
    try:
        oldest = (dt.date.fromisoformat(day[:10]) - dt.timedelta(days=baseline.expires_days)).isoformat()
    except (ValueError, OverflowError):     # the second: before the first day of the calendar
        oldest = ""
    approved = {**baseline.expired, **baseline.known}
    gone = {text for text, one in approved.items() if one.last_seen < oldest
            or one.unseen >= baseline.expires_boots}
    return replace(
        baseline, known=_sorted({text: one for text, one in approved.items() if text not in gone}),
        expired=_sorted({text: approved[text] for text in gone}),
    )


def lean(baseline: Baseline) -> Baseline:
    """Only what judging on a node's agent needs: no proposals, no names of nodes and people."""
    known = {text: replace(one, on="", by="", why="", flags=()) for text, one in baseline.known.items()}
    return replace(baseline, known=known, proposed={}, learned_boots={})


def _phases(phases: Iterable[Phase]) -> tuple[Phase, ...]:
    return tuple(sorted(phases, key=_ORDER.__getitem__))


def _by_phase(began: Mapping[Phase, tuple[float, float]]) -> dict[Phase, tuple[float, float]]:
    return {phase: began[phase] for phase in sorted(began, key=_ORDER.__getitem__)}


def _sorted(known: Mapping[str, KnownTemplate]) -> dict[str, KnownTemplate]:
    return {text: known[text] for text in sorted(known)}
