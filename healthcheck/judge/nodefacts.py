"""What is judged of one node: its facts, those of its earlier snapshot of the same boot, and what checks
derive from both.

What several rules share (a subject paired with its earlier snapshot, selections) is computed when the first
asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter
from typing import Any, NamedTuple

from healthcheck.checks import catalogue  # noqa: F401  (registers all facts)
from healthcheck.checks.base import GROWTH, SELECTIONS, SNAPSHOT_TIME, Check, NotMeasured, Peers, fact_of
from healthcheck.checks.growth import Growth
from healthcheck.facts.base import MEMBERS
from healthcheck.facts.plain import plain
from healthcheck.facts.values import Fact, Partial, Refusal, Unmeasured, readable, refusals
from healthcheck.judge.limits import MOST_SUBJECTS

Facts = Mapping[str, Any]
Identity = tuple[Any, ...]
_IDENTITY: Callable[[Any], Identity] = attrgetter("identity")


class Input(NamedTuple):
    """One fact, or collection, before any check reads it.

    `value` is what was measured; `nothing` says why it was not measured at all, `partly` why not wholly.
    `caveats` are what a PASS over it does not cover, each once. It is `plain` where it can be judged and none
    of these is set.
    """

    value: Any
    nothing: Unmeasured | None = None
    partly: Unmeasured | None = None
    caveats: tuple[str, ...] = ()
    plain: bool = False

    @classmethod
    def of(cls, fact: Any) -> Input:
        """From a fact, a collection, Partial or Unmeasured, with at most MOST_SUBJECTS members."""
        value, partly = fact, None
        if type(value) is tuple and len(value) > MOST_SUBJECTS:
            value = Partial(value[:MOST_SUBJECTS], f"more than {MOST_SUBJECTS}: the rest was not judged")
        if type(value) is Partial:
            value, partly = value.value, Unmeasured(value.reason)
        if type(value) is Unmeasured:
            return cls(value, value)
        caveats = _caveats(members(value))
        return cls(value, None, partly, caveats, partly is None and not caveats and value != ())


@dataclass(frozen=True)
class Selected:
    """What a selection chose, or why it failed, and the readings that were refused to it."""

    members: tuple[Any, ...]
    failed: Exception | None
    refused: tuple[Refusal, ...]


class Given(NamedTuple):
    """What checks of one signature are given on a node: for each subject the arguments of its call. `refused`
    are the readings that choosing subjects or arguments was refused, `lacking` is how many subjects lack an
    argument, and `failed` is a defect for which one does, or why there are no subjects."""

    calls: tuple[tuple[Any, ...], ...]
    lacking: int = 0
    refused: tuple[Refusal, ...] = ()
    failed: Exception | None = None


def members(value: Any) -> tuple[Any, ...]:
    """The members of a collection; a single fact is its own only member."""
    return value if type(value) is tuple else (value,)


def _caveats(facts: tuple[Any, ...]) -> tuple[str, ...]:
    """The caveats of these facts, each once; facts of most classes have none."""
    if not any(map(_may_have_caveat, set(map(type, facts)))):
        return ()
    return tuple(dict.fromkeys([fact.caveat for fact in facts if isinstance(fact, Fact) and fact.caveat]))


@cache
def _may_have_caveat(kind: type) -> bool:
    return issubclass(kind, Fact) and ("caveat" in kind.FIELDS or bool(kind.caveat))


def _subjects(check: Check, value: Any) -> tuple[Any, ...]:
    """What a check is called for, of the fact or collection that it judges."""
    if check.each:
        return members(value)
    return (Peers(members(value)),) if check.arguments[0] in check.peers_of else (value,)


def _without_frames(refused: Iterable[Refusal]) -> tuple[Refusal, ...]:
    """The readings, of which each let go of the frames that it passed: they hold the node's facts."""
    for one in refused:
        one.__traceback__ = None
    return tuple(refused)


def _identified(facts: Iterable[Any]) -> list[tuple[Any, Identity]]:
    """Each fact with its identity; without those that refuse it."""
    with refusals(None):
        return list(readable(facts, _IDENTITY))


class NodeFacts:
    """One node's facts. `previous` are those of its earlier snapshot of the same boot, or None."""

    def __init__(self, facts: Facts, previous: Facts | None = None) -> None:
        self.facts = facts
        self.previous = previous
        # Stands for the node in its growths, which would hold the node itself in a cycle
        self.mark = object()
        self._inputs: dict[str, Input] = {}
        self._earlier: dict[str, Input] = {}
        self._whole: dict[str, Given | None] = {}
        self._given: dict[str, Given] = {}
        self._growths: dict[str, dict[int, Growth[Any]]] = {}
        self._selected: dict[str, Selected] = {}
        self._chosen: dict[tuple[str, str], Selected] = {}
        self._by_identity: dict[str, dict[Identity, Fact]] = {}

    def input(self, name: str) -> Input:
        """A fact of this snapshot."""
        known = self._inputs.get(name)
        if known is None:
            known = self._inputs[name] = Input.of(
                self.facts[name] if name in self.facts else Unmeasured(f"{plain(name)} was not captured"))
        return known

    def earlier(self, name: str) -> Input | None:
        """A fact of the earlier snapshot; None where no snapshot captured it."""
        if self.previous is None or name not in self.previous or SNAPSHOT_TIME not in self.previous:
            return None
        known = self._earlier.get(name)
        if known is None:
            known = self._earlier[name] = Input.of(self.previous[name])
        return known

    def whole(self, check: Check) -> Given | None:
        """What a check of one node is given where everything that it takes was wholly measured, without
        caveats; None elsewhere."""
        signature = check.signature
        if signature not in self._whole:
            self._whole[signature] = self.given(check) if self.plain(check) else None
        return self._whole[signature]

    def plain(self, check: Check) -> bool:
        """Whether everything a check takes was wholly measured, without caveats."""
        for name in check.facts:
            if not self.input(name).plain:
                return False
        for name in check.earlier:
            before = self.earlier(name)
            if before is None or before.nothing is not None or before.partly is not None \
                    or before.value == ():
                return False
        return True

    def given(self, check: Check) -> Given:
        """What a check of one node is given."""
        known = self._given.get(check.signature)
        if known is None:
            known = self._given[check.signature] = self._give(check)
        return known

    def _give(self, check: Check) -> Given:
        value, refused = self.input(check.subject).value, list[Refusal]()
        if check.over:
            chosen = self.chosen(check.over, check.subject)
            value, refused = chosen.members, [*chosen.refused]
            if chosen.failed is not None:
                return Given((), refused=_without_frames(refused), failed=chosen.failed)
        subjects = _subjects(check, value)
        if len(check.arguments) == 1:
            return Given(tuple([(subject,) for subject in subjects]), refused=_without_frames(refused))
        calls: list[tuple[Any, ...]] = []
        failed = None
        with refusals(refused):
            try:
                beside = [self._beside(check, name) for name in check.arguments[1:]]
                for subject in subjects:
                    try:
                        calls.append((subject, *[of(subject) for of in beside]))
                    except Refusal:
                        continue        # `refused` holds it
                    except Exception as error:  # noqa: BLE001  (a defect of one subject hides no other)
                        failed = error
            except Exception as error:  # noqa: BLE001  (a defect of a fact costs its rules only)
                calls, subjects, failed = [], (), error
        return Given(tuple(calls), len(subjects) - len(calls), _without_frames(refused), failed)

    def _beside(self, check: Check, name: str) -> Callable[[Any], Any]:
        """A function that gives an argument for a subject."""
        if name == GROWTH:
            growth = growth_of(self.growths(check.subject))
            whole = not check.each and type(self.input(check.subject).value) is tuple
            return (lambda _: growth) if whole else growth
        if name in MEMBERS:
            return partial(self.joined, name)
        value = self.input(name).value
        given = Peers(members(value)) if name in check.peers_of else value
        return lambda _: given

    def taken(self, check: Check) -> list[Any]:
        """The facts that a check takes, of this snapshot and of the earlier one."""
        earlier = [before.value for name in check.earlier if (before := self.earlier(name)) is not None]
        return [self.input(name).value for name in check.facts] + earlier

    def growths(self, name: str) -> dict[int, Growth[Any]]:
        """By the id of each member its growth, without members whose identity was not measured."""
        known = self._growths.get(name)
        if known is None:
            known = self._growths[name] = self.paired(name)
        return known

    def paired(self, name: str) -> dict[int, Growth[Any]]:
        """As `growths`, but not kept: those of a whole fleet take more room than its facts."""
        value, moment = self.input(name).value, self.facts.get(SNAPSHOT_TIME)
        return pair(value, self.previous or {}, name, moment, self.mark)

    def selected(self, name: str) -> Selected:
        """What a selection chooses on this node."""
        known = self._selected.get(name)
        if known is None:
            known = self._selected[name] = self._select(name)
        return known

    def _select(self, name: str) -> Selected:
        selection, refused = SELECTIONS[name], list[Refusal]()
        given = [Peers(members(self.input(name).value)) if name in selection.peers_of
                 else self.input(name).value for name in selection.arguments]
        with refusals(refused):
            try:
                return Selected(tuple(selection.function(*given)), None, tuple(refused))
            except Exception as error:  # noqa: BLE001  (each check that uses the selection raises it again)
                return Selected((), error, tuple(refused))

    def chosen(self, selection: str, name: str) -> Selected:
        """The members of a fact that a selection chose, or whose identity begins with a chosen one's."""
        known = self._chosen.get((selection, name))
        if known is None:
            selected, refused = self.selected(selection), list[Refusal]()
            with refusals(refused):
                found = tuple(_belonging(members(self.input(name).value), selected.members))
            known = Selected(found, selected.failed, (*selected.refused, *refused))
            self._chosen[selection, name] = known
        return known

    def joined(self, member: str, subject: Fact) -> Fact:
        """The member of another collection with the subject's identity, or with the longest beginning of it.

        Raises NotMeasured where there is none.
        """
        name = fact_of(member)
        known = self._by_identity.get(name)
        if known is None:
            known = self._by_identity[name] = {
                identity: fact for fact, identity in _identified(members(self.input(name).value))}
        identity = subject.identity
        for length in range(len(identity), 0, -1):
            if identity[:length] in known:
                return known[identity[:length]]
        raise NotMeasured(subject, f"there is no {member} of the same identity")


def growth_of(growths: Mapping[int, Growth[Any]]) -> Callable[[Fact], Growth[Any]]:
    """A function that gives a subject's growth; it raises where its identity was not measured."""

    def growth(subject: Fact) -> Growth[Any]:
        known = growths.get(id(subject))
        if known is None:
            _ = subject.identity        # which refuses what it lacks
            raise NotMeasured(subject, "it is there twice")
        return known

    return growth


def pair(
    value: Any, previous: Facts, name: str, moment: Any, owner: object = None,
) -> dict[int, Growth[Any]]:
    """By the id of each member its growth. `moment` is the time of this snapshot, `owner` the node's mark.

    Of several with one identity (paths to one drive, GPUs that give one address) each is compared with the
    one of its name.
    """
    before = _identified(members(Input.of(previous[name]).value)) if name in previous else []
    found = _identified(members(value))
    earlier = {identity: fact for fact, identity in before}
    if len(earlier) < len(before):
        counted = Counter([identity for _, identity in before])
        before, found = ([(fact, (*identity, fact.name) if counted[identity] > 1 else identity)
                          for fact, identity in facts] for facts in (before, found))
        earlier = {identity: fact for fact, identity in before}
    began = previous.get(SNAPSHOT_TIME)
    seconds = moment.time - began.time if began is not None and moment is not None else 0.0
    return {id(fact): Growth(fact, earlier.get(identity), seconds, name, owner)
            for fact, identity in found}


def _belonging(subjects: tuple[Any, ...], selected: tuple[Any, ...]) -> list[Any]:
    ids = set(map(id, selected))
    if not ids or any(id(subject) in ids for subject in subjects):
        return [subject for subject in subjects if id(subject) in ids]
    identities = {identity for _, identity in readable(selected, _IDENTITY)}
    lengths = set(map(len, identities))
    return [subject for subject, own in readable(subjects, _IDENTITY)
            if not identities.isdisjoint([own[:length] for length in lengths])]
