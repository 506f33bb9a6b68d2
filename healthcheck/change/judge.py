"""Judges a change: canary before and after beside controls before and after. Pure.

The verdict is `worse` where one comparison shows it, else `cannot tell` where one cannot be made or leaves it
open, else `passed`. What a person left out before the change (`without`) is not judged, and always named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from healthcheck.change import figures, forms, results
from healthcheck.change.model import (
    FIGURES,
    KINDS,
    LOG,
    MADE,
    RESULTS,
    ChangeJudgement,
    ChangeVerdict,
    Compared,
    Grade,
    NodeStanding,
    SiteChange,
    Stood,
)

_VERSIONS_SHOWN = 6


def judge(change: SiteChange, after: Stood, now: float, who: str, *, made: bool = False,
          ) -> ChangeJudgement:
    """What became of the canary, as of `now` (epoch seconds). `made`: a person says that the change was made,
    where no version and no boot shows it. Snapshots from before the change began count as missing."""
    before = change.before.nodes
    since = {name: _since(one, max(change.began, before[name].time if name in before else 0.0))
             for name, one in after.nodes.items()}
    after = Stood(after.source, after.rules, since, after.forms, after.figures, after.runs)
    changed = {node for node in change.controls if _versions_differ(node, before, since)}
    controls = [node for node in change.controls if node not in changed]
    found: list[Compared] = []
    if not change.leaves_out(RESULTS):
        found += _results(change, controls, after)
    if not change.leaves_out(LOG):
        found += forms.compared(change.canary, controls, change.before, after)
    if not change.leaves_out(FIGURES):
        found += _figures(change, controls, after)
    kept = [one for one in found if not change.leaves_out(one.key)]
    for kind in KINDS:
        if not change.leaves_out(kind) and not any(one.kind == kind for one in kept):
            kept.append(Compared(kind, kind, Grade.UNCLEAR, "nothing of this kind was compared"))
    if all(change.leaves_out(kind) for kind in KINDS):
        kept.append(Compared(MADE, MADE, Grade.UNCLEAR, "all kinds of evidence were left out"))
    if not made:
        kept += _unmade(change, since)
    grades = {one.grade for one in kept}
    verdict = (ChangeVerdict.WORSE if Grade.WORSE in grades
               else ChangeVerdict.UNCLEAR if Grade.UNCLEAR in grades else ChangeVerdict.PASSED)
    seen = f"{after.source}; {', '.join(after.runs)}" if after.runs else after.source
    return ChangeJudgement(now, who, verdict, seen, tuple(kept),
                           tuple(_remarks(change, since, sorted(changed))))


def _since(one: NodeStanding, began: float) -> NodeStanding:
    if one.missing or one.time > began:
        return one
    return NodeStanding(one.time, missing="no snapshot since the change began")


def _results(change: SiteChange, controls: list[str], after: Stood) -> list[Compared]:
    found = results.compared(change.canary, controls, change.before.nodes, after.nodes)
    if change.before.rules != after.rules and any(not one.missing for one in after.nodes.values()):
        found.append(Compared(RESULTS, f"{RESULTS}/rules", Grade.UNCLEAR,
                                "nodes were judged by other rules before than since: a rule may be gone"))
    return found


def _figures(change: SiteChange, controls: list[str], after: Stood) -> list[Compared]:
    canary = frozenset(change.canary)
    measured = [one for one in change.before.figures if set(one.nodes) <= canary]
    without = sorted(canary - {node for one in measured for node in one.nodes})
    found = [Compared(FIGURES, FIGURES, Grade.UNCLEAR, "no burn-in before the change measured them",
                        tuple(without))] if without else []
    wanted = [one for one in change.before.figures if not change.leaves_out(f"{FIGURES}/{one.figure}")]
    found += [Compared(FIGURES, f"{FIGURES}/{name}", Grade.UNCLEAR, f"{name} {why} before the change", nodes)
              for name, why, nodes in figures.lacking(wanted, canary - set(without))]
    return [*found, *figures.compared(canary, frozenset(controls), wanted, after.figures)]


def _versions_differ(
    node: str, before: Mapping[str, NodeStanding], after: Mapping[str, NodeStanding],
) -> bool:
    if node not in before or node not in after or before[node].missing or after[node].missing:
        return False
    one, other = before[node].versions, after[node].versions
    return any(one[name] != other[name] for name in one.keys() & other.keys())


def _unmade(change: SiteChange, after: Mapping[str, NodeStanding]) -> Iterator[Compared]:
    before = change.before.nodes
    same = [node for node in change.canary if node in before and node in after and not after[node].missing
            and not _versions_differ(node, before, after) and not _restarted(before[node], after[node])]
    if same:
        yield Compared(MADE, MADE, Grade.UNCLEAR,
                         "neither a version nor a new boot shows that the change was made there; if it was, "
                         "judge with --made", tuple(same))


def _restarted(before: NodeStanding, after: NodeStanding) -> bool:
    """Whether it has certainly booted since: a boot that was not read shows nothing."""
    return bool(before.boot and after.boot) and before.boot != after.boot


def _remarks(change: SiteChange, after: Mapping[str, NodeStanding], changed: list[str]) -> Iterator[str]:
    before = change.before.nodes
    differences: dict[str, list[str]] = defaultdict(list)
    for node in change.canary:
        if node in before and node in after:
            one, other = before[node].versions, after[node].versions
            for name in sorted(one.keys() & other.keys()):
                if one[name] != other[name]:
                    differences[f"{name} {one[name]} -> {other[name]}"].append(node)
    for what, nodes in sorted(differences.items())[:_VERSIONS_SHOWN]:
        yield f"{what} on {len(nodes)} of {len(change.canary)} canary nodes"
    if changed:
        yield f"left out of the controls, as their versions changed too: {', '.join(changed)}"
    if change.without:
        yield f"not judged, as was chosen at the start: {', '.join(change.without)}"
