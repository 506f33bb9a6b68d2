"""Learns what nodes of one scope say from digests of their boots, adds it to what was learned before, and lets go of what nobody says.

    digests -> Learner -> Baseline of proposals -> merge into the one there is -> a person approves -> current -> judging

Adding is associative, so that it does not matter in how many portions a fleet was learned. A boot counts once: a `Learner` leaves out
those that a baseline was learned of already.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from healthcheck.kernellog.model import LONGEST_LINE, Baseline, Digest, KernelEventKind, KernelMessage, KnownTemplate, Phase, Scope
from inventory.nodeset import expand, fold

BOOT_KEPT = 12      # characters of a boot's id that tell it from others
_BOOTS_KEPT = 64    # of one node, the newest: so many that a log is not learned twice
_ORDER = {phase: number for number, phase in enumerate(Phase)}


def boot_key(digest: Digest) -> str:
    """What tells this boot of the node from its others: the beginning of its id, or for a log that has none, of what it says."""
    if digest.boot:
        return digest.boot.replace("-", "")[:BOOT_KEPT]
    said = repr([(told.template, told.count, told.first, told.last) for told in digest.told])
    return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:BOOT_KEPT]


@dataclass(slots=True)
class _Seen:
    """One template, as it adds up over boots. `nodes` has a bit for each node; `last` is the phase that was noted last."""

    example: str
    said_by: tuple[str, str]
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
        """One boot that said it so often."""
        if times < self.least or not self.boots:
            self.least = times
        if times > self.most:
            self.most = times
        self.boots += 1
        self.nodes |= bit

    def note(self, told: KernelMessage) -> None:
        """How it was said."""
        if told.busiest > self.busiest:
            self.busiest = told.busiest
        if told.phase is not self.last:
            self.last = told.phase
            self.phases.add(told.phase)
        if told.kind is not KernelEventKind.LINE:
            self.kind = told.kind
        for line in told.lines:
            given = line.priority
            if given is not None and (self.priority is None or given < self.priority):
                self.priority = given


class Learner:
    """Adds boots up one after another, so that no more is held than templates; `looks` are the boots that count for learned before."""

    def __init__(self, looks: Mapping[str, Sequence[str]] | None = None) -> None:
        self.offered = self.boots = 0
        self.looks: dict[str, list[str]] = {}
        self._before = looks or {}
        self._seen: dict[str, _Seen] = {}
        self._bits: dict[str, int] = {}
        self._began: dict[Phase, tuple[float, float]] = {}

    def add(self, digest: Digest) -> None:
        """One more boot, unless it was learned before."""
        self.offered += 1
        node, key = digest.node, boot_key(digest)
        held = self.looks.get(node, [])
        if key in self._before.get(node, ()) or key in held:
            return
        self.looks[node] = [*held, key]
        self.boots += 1
        for phase, seconds in digest.began.items():
            least, most = self._began.get(phase, (seconds, seconds))
            self._began[phase] = (min(least, seconds), max(most, seconds))
        bit = self._bits.setdefault(node, 1 << len(self._bits))
        who = (node, key)
        # A template is said by lines that stand alone and by reports: then it is there twice.
        times: dict[str, int] = {}
        for told in digest.told:
            text = told.template
            seen = self._seen.get(text)
            if seen is None:
                seen = self._seen[text] = _Seen(told.head[:LONGEST_LINE], who)
            elif who < seen.said_by:
                # Of many the same one, in whatever order nodes answer.
                seen.example, seen.said_by = told.head[:LONGEST_LINE], who
            seen.note(told)
            times[text] = times.get(text, 0) + told.count
        for text, count in times.items():
            self._seen[text].count(bit, count)

    def learned(self, scope: Scope, day: str, name: str = "") -> Baseline:
        """What these boots say, all of it proposed and nothing accepted; `day` is the date of learning (ISO 8601)."""
        looks = {node: tuple(sorted(self.looks[node])) for node in sorted(self.looks)}
        known = {text: _known(text, seen, self._bits, day) for text, seen in self._seen.items()}
        when = day if looks else ""
        return Baseline(name, scope, len(looks), self.boots, {}, _by_phase(self._began), proposed=_sorted(known), first=when, last=when,
                        looks=looks)


def learn(digests: Iterable[Digest], scope: Scope, day: str, name: str = "") -> Baseline:
    """What these boots say, all of it proposed and nothing accepted; each boot counts once."""
    learner = Learner()
    for digest in digests:
        learner.add(digest)
    return learner.learned(scope, day, name)


def _known(text: str, seen: _Seen, bits: Mapping[str, int], day: str) -> KnownTemplate:
    nodes = [node for node, bit in bits.items() if seen.nodes & bit] if seen.nodes + 1 < 1 << len(bits) else list(bits)
    return KnownTemplate(
        text, _phases(seen.phases), len(nodes), seen.boots, seen.least, seen.most, seen.example, day, day, busiest=seen.busiest,
        kind=seen.kind, priority=seen.priority, on="" if len(nodes) == len(bits) else fold(sorted(nodes)),
    )


def merge(old: Baseline, new: Baseline) -> Baseline:
    """Both together, under the older one's name, scope and expiry. First seen is kept, last seen moves on, counts are added.

    What either had approved is approved, and keeps who did it and why; so does what had expired and is seen again.
    """
    looks = dict(old.looks)
    for node, boots in new.looks.items():
        kept = looks.get(node, ())
        looks[node] = (*kept, *(boot for boot in boots if boot not in kept))[-_BOOTS_KEPT:]
    joined = _joiner(old, new, looks)
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
        old, nodes=len(looks), boots=old.boots + new.boots, known=_sorted(known), proposed=_sorted(proposed), expired={}, looks=looks,
        phases=_by_phase(began), first=min(old.first or new.first, new.first or old.first), last=max(old.last, new.last),
    )


def _both(old: KnownTemplate, new: KnownTemplate, on: str, nodes: int) -> KnownTemplate:
    given = [one for one in (old.priority, new.priority) if one is not None]
    return KnownTemplate(
        old.template, _phases({*old.phases, *new.phases}), nodes, old.boots + new.boots, min(old.least, new.least),
        max(old.most, new.most), old.example, min(old.first_seen, new.first_seen), max(old.last_seen, new.last_seen),
        old.by or new.by, old.why or new.why, max(old.busiest, new.busiest), old.kind if old.kind is not KernelEventKind.LINE else new.kind,
        min(given, default=None), on, new.unseen,
    )


def _joiner(old: Baseline, new: Baseline, looks: Mapping[str, object]) -> Callable[[str | None, str | None], tuple[str, int]]:
    """Joins node sets of entries of both: None is no node, and an empty one all of that baseline. Few are different."""
    everybody = frozenset(looks)

    @functools.cache
    def joined(before: str | None, after: str | None) -> tuple[str, int]:
        nodes = _members(before, old.looks) | _members(after, new.looks)
        return ("" if nodes == everybody else fold(sorted(nodes))), len(nodes)

    return joined


def _members(on: str | None, everybody: Iterable[str]) -> frozenset[str]:
    if on is None:
        return frozenset()
    return frozenset(expand(on)) if on else frozenset(everybody)


def current(baseline: Baseline, day: str) -> Baseline:
    """As it holds on that day: what has not been seen for too long stands under `expired`, and is not known any more."""
    try:
        oldest = (dt.date.fromisoformat(day[:10]) - dt.timedelta(days=baseline.expires_days)).isoformat()
    except (ValueError, OverflowError):     # the second: so many days ago there was no calendar
        oldest = ""
    approved = {**baseline.expired, **baseline.known}
    gone = {text for text, one in approved.items() if one.last_seen < oldest or one.unseen >= baseline.expires_boots}
    return replace(
        baseline, known=_sorted({text: one for text, one in approved.items() if text not in gone}),
        expired=_sorted({text: approved[text] for text in gone}),
    )


def lean(baseline: Baseline) -> Baseline:
    """Only what judging needs, for a node's agent: no proposals, and not who said what."""
    known = {text: replace(one, on="", by="", why="", flags=()) for text, one in baseline.known.items()}
    return replace(baseline, known=known, proposed={}, looks={})


def _phases(phases: Iterable[Phase]) -> tuple[Phase, ...]:
    return tuple(sorted(phases, key=_ORDER.__getitem__))


def _by_phase(began: Mapping[Phase, tuple[float, float]]) -> dict[Phase, tuple[float, float]]:
    return {phase: began[phase] for phase in sorted(began, key=_ORDER.__getitem__)}


def _sorted(known: Mapping[str, KnownTemplate]) -> dict[str, KnownTemplate]:
    return {text: known[text] for text in sorted(known)}
