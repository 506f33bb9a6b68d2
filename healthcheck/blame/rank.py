"""Ranks evidence: who or what most likely ended a job. Pure.

    score = what it is x when it was x how bad, and more where a second,
    independent word says the same of that node

- What it is: a cause beats its symptom (`Weight`). That ranks time out, that peers close connections and that
  Xid 45 follows is what a job shows whose other part failed: it is shown, and accuses no one. The first rank
  that ended, or that did not come to a collective, is a lead: it says where, and an error of the same node
  says why.
- When: within `NEAR` before the job began to fail is best (a collective waits 10 min by default before its
  watchdog speaks, PyTorch's older default was 30). What came long before its end, it lived with, and what was
  over before it began is never the cause: it is listed apart. What came after, beyond `SKEW` of clocks that
  differ a little, is no cause. Where only looks bound the time, it may have been at any moment between
  two.
- How wide: the same kind of fault on several nodes of one leaf, rack or power domain, or nodes of an incident
  that the store knows, is one cause there and not one of each node.
- How sure: certain (a device or the scheduler says so itself, at a known moment before the end), likely,
  a guess.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from healthcheck.blame.evidence import Case, Evidence, SharedPlace, Weight
from healthcheck.model.outcome import Owner

NEAR = 35 * 60.0        # seconds
SKEW = 30.0             # seconds by which clocks of nodes, head and logs may differ
LEAST = 25.0            # of a score, for something to be called found

_WORTH = {Weight.ORDERED: 150.0, Weight.DEVICE: 100.0, Weight.ACTION: 98.0, Weight.LOST: 90.0,
          Weight.NETWORK: 80.0, Weight.HOST: 70.0, Weight.USER: 68.0, Weight.LEAD: 58.0, Weight.STOPPED: 50.0,
          Weight.ODD: 20.0, Weight.SYMPTOM: 8.0}
_SAME_FAULT = 3         # nodes that show the same
_SHARE = 0.5            # of the job's nodes behind one thing
_BESIDE = 15.0          # for each further word of another kind on the same node
_WIDE = 20.0
_ALSO = ("oom", "lost")
_FAULTS = (Weight.DEVICE, Weight.LOST, Weight.NETWORK, Weight.HOST)
_BACKED_BY = (Weight.DEVICE, Weight.ACTION, Weight.LOST, Weight.NETWORK, Weight.HOST, Weight.USER,
              Weight.LEAD)


@dataclass(frozen=True)
class Suspect:
    """One node, one shared thing, or the job itself (both empty), with its evidence, the best first."""

    node: str
    shared: SharedPlace | None
    evidence: tuple[Evidence, ...]
    score: float

    @property
    def main(self) -> Evidence:
        """What tells most."""
        return self.evidence[0]

    @property
    def sure(self) -> str:
        """certain, likely or a guess."""
        clear = self.score >= 90 or self.main.group == "oom"
        if clear and self.main.sure and (self.main.exact or self.shared is not None):
            return "certain"
        return "likely" if self.score >= 55 else "a guess"

    @property
    def owner(self) -> Owner:
        """Who acts."""
        return (self.shared.owner if self.shared is not None else None) or self.main.owner or Owner.OPERATOR


def suspects(case: Case) -> list[Suspect]:
    """All that something speaks against, the likeliest first; below LEAST is what others show."""
    by_node: dict[str, list[Evidence]] = defaultdict(list)
    # What was said of the job, and of one of its nodes, too, is of that node, at that time.
    whose = {one.group: one.node for one in reversed(case.evidence) if one.node and one.group in _ALSO}
    at = {one.group: one.by for one in case.evidence if not one.node and one.by is not None}
    for one in case.evidence:
        if one.by is None and one.group in whose and one.group in at:
            one = replace(one, after=at[one.group], by=at[one.group])
        by_node[one.node or whose.get(one.group, "")].append(one)
    alone = [_of_node(node, found, case) for node, found in by_node.items()]
    wide = _shared(alone, case)
    behind = {node for suspect in wide if suspect.shared is not None for node in suspect.shared.nodes}
    # Behind a shared cause a node is suspect for what is its own only.
    rest = [left for suspect in alone if (left := _without(suspect, wide, case) if suspect.node in behind
                                          else suspect) is not None]
    return sorted([*wide, *rest], key=lambda suspect: (-suspect.score, suspect.main.place,
                                                       suspect.main.by or 0.0, suspect.node))


def worth(one: Evidence) -> float:
    """What a piece of evidence is worth by what it is and by how sure, whenever it was."""
    return _WORTH[one.weight] if one.sure else _WORTH[one.weight] * 0.75


def score(one: Evidence, case: Case) -> float:
    """How well a piece of evidence explains the end, by itself."""
    return worth(one) * _when(one, case)


def early(one: Evidence, case: Case) -> bool:
    """Whether it was over before the job began, or, where the job's time is unknown, may have been."""
    if one.by is None or one.place:
        return False        # the job's own log
    return not case.window.known or one.by < case.window.start - SKEW


def _when(one: Evidence, case: Case) -> float:
    if one.by is None or one.place:
        return 1.0          # the job's own log, whose lines have been ranked among themselves
    late, soon = case.window.end + SKEW, case.window.start - SKEW
    after = one.after if one.after is not None else one.by
    if early(one, case):
        return 0.1
    if one.exact:
        if one.by > (late if one.weight in (Weight.ORDERED, Weight.STOPPED, Weight.USER, Weight.LEAD)
                     else case.failed + SKEW):
            # A failure that is found minutes after the end may be what ended it;
            # the first word of the end is not always the first end.
            return 0.45 if one.by <= late else 0.1
        return 1.0 if one.by >= case.failed - NEAR else 0.55
    if after > late:
        return 0.1
    # Between two snapshots: the longer they are apart, the less it says of this moment.
    return 0.8 if after >= soon or one.by - after <= 3600 else 0.65


def _of_node(node: str, found: Sequence[Evidence], case: Case) -> Suspect:
    ranked = sorted(found,
                    key=lambda one: (-score(one, case), one.by if one.by is not None else case.window.end))
    best = score(ranked[0], case)
    if best >= LEAST and ranked[0].weight in _BACKED_BY:
        kinds = {one.weight for one in ranked[1:] if one.weight in _BACKED_BY
                 and one.weight is not ranked[0].weight and score(one, case) >= LEAST
                 and _file(one) != _file(ranked[0])}
        best += _BESIDE * len(kinds) if node else 0
    return Suspect(node, None, tuple(ranked), best)


def _file(one: Evidence) -> str:
    """Where it is from, without its line."""
    return one.source.partition(", line ")[0]


def _shared(alone: Sequence[Suspect], case: Case) -> list[Suspect]:
    """One suspect for each thing that several nodes of one fault have in common; the narrowest of all."""
    groups: dict[tuple[Weight, str], dict[str, Evidence]] = defaultdict(dict)
    for suspect in alone:
        for one in suspect.evidence:
            if suspect.node and one.weight in _FAULTS and score(one, case) >= LEAST:
                groups[one.weight, one.group].setdefault(suspect.node, one)
    found: list[Suspect] = []
    for by_node in groups.values():
        best: SharedPlace | None = None
        for shared in case.shared:
            behind = by_node.keys() & shared.nodes
            of_job = shared.nodes & set(case.window.nodes)
            enough = (len(behind) >= (2 if shared.kind == "incident" else _SAME_FAULT)
                      and len(behind) >= _SHARE * len(of_job))
            # That all nodes of a job share a thing says nothing of it,
            # unless nodes outside it do not show the same.
            telling = shared.kind == "incident" or len(behind) > _SHARE * len(by_node)
            if enough and telling and (best is None or _narrow(shared) < _narrow(best)):
                best = shared
        if best is not None:
            evidence = sorted((by_node[node] for node in by_node.keys() & best.nodes),
                              key=lambda one: (one.by or 0.0, one.node))
            top = max(score(one, case) for one in evidence)
            found.append(Suspect("", best, tuple(evidence), top + _WIDE))
    return found


def _narrow(shared: SharedPlace) -> tuple[bool, int]:
    return shared.kind != "incident", len(shared.nodes)


def _without(suspect: Suspect, wide: Sequence[Suspect], case: Case) -> Suspect | None:
    taken = {one for shared in wide for one in shared.evidence}
    left = [one for one in suspect.evidence if one not in taken]
    return replace(_of_node(suspect.node, left, case)) if left else None


def culprit(ranked: Sequence[Suspect]) -> Suspect | None:
    """The first one, if strong enough; what was over before the job never is."""
    return ranked[0] if ranked and ranked[0].score >= LEAST else None
