"""Check results before and after a change, canary beside controls. Pure.

Rules fail now and then by themselves, and so does their measuring. The noise is the share of controls to
which the same happened, or of all nodes on which the rule failed before and does not since, as it comes and
goes; and never less than `NODES_FAIL`: one node in a hundred, for any rule between two snapshots. A rule that
newly fails, or can no longer be measured, is the change's work where so many nodes of the canary are unlikely
by that rate, and beside the controls, at the share of `healthcheck.change.chance`. Fewer are no proof, and no
pass either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from healthcheck.change.chance import SHARES, at_least, one_sided
from healthcheck.change.model import RESULTS, Compared, Grade, NodeStanding

NODES_FAIL = 0.01

_Nodes = Mapping[str, NodeStanding]


def compared(canary: Collection[str], controls: Collection[str], before: _Nodes, after: _Nodes,
             ) -> list[Compared]:
    """Each rule of which something is wrong or unknown on the canary, and one for all that are as before."""
    ours = [node for node in sorted(canary) if _measured(node, before, after)]
    theirs = [node for node in sorted(controls) if _measured(node, before, after)]
    found = list(_missing(canary, before, after))
    if ours and not theirs:
        found.append(Compared(RESULTS, RESULTS, Grade.UNCLEAR,
                                "no control has results before and since, so none can be compared",
                                tuple(sorted(controls))))
        return found
    rules = sorted({rule for node in ours for rule in after[node].failing | after[node].unmeasured
                    | before[node].unmeasured})
    for rule in rules:
        found += _newly_failing(rule, ours, theirs, before, after)
        found += _newly_unmeasured(rule, ours, theirs, before, after)
    found += _newly_skipped(ours, before, after)
    if ours and not found:
        found.append(Compared(RESULTS, RESULTS, Grade.SAME,
                                f"no rule newly fails on the canary ({len(ours)} nodes), nor on it alone"))
    return found


def _measured(node: str, before: _Nodes, after: _Nodes) -> bool:
    return node in before and node in after and not before[node].missing and not after[node].missing


def _missing(canary: Collection[str], before: _Nodes, after: _Nodes) -> Iterator[Compared]:
    for when, there in (("before", before), ("since", after)):
        reasons: dict[str, list[str]] = {}
        for node in sorted(canary):
            if node not in there or there[node].missing:
                why = there[node].missing if node in there else "there is no snapshot"
                reasons.setdefault(why, []).append(node)
        for why, nodes in sorted(reasons.items()):
            yield Compared(RESULTS, RESULTS, Grade.UNCLEAR, f"not measured {when} the change: {why}",
                             tuple(nodes))


def _newly_failing(rule: str, ours: list[str], theirs: list[str], before: _Nodes, after: _Nodes,
                   ) -> Iterator[Compared]:
    def newly(nodes: list[str]) -> tuple[list[str], list[str]]:
        known = [node for node in nodes if rule not in before[node].failing | before[node].unmeasured]
        return [node for node in known if rule in after[node].failing], known

    hits, known = newly(ours)
    others, control = newly(theirs)
    # A rule that failed before, or was not measured, does not fail newly.
    unknown = [node for node in ours if rule in before[node].unmeasured and rule in after[node].failing]
    if unknown:
        yield Compared(RESULTS, f"{RESULTS}/{rule}", Grade.UNCLEAR,
                         f"{rule} fails, and was not measured before", tuple(unknown))
    if hits:
        gone = [node for node in (*ours, *theirs) if rule in before[node].failing
                and rule not in after[node].failing | after[node].unmeasured]
        yield _weighed(rule, "newly fails", hits, len(known), others, len(control),
                       len(gone) / (len(ours) + len(theirs)))


def _newly_unmeasured(rule: str, ours: list[str], theirs: list[str], before: _Nodes, after: _Nodes,
                      ) -> Iterator[Compared]:
    def newly(nodes: list[str]) -> tuple[list[str], list[str]]:
        known = [node for node in nodes if rule not in before[node].unmeasured]
        return [node for node in known if rule in after[node].unmeasured], known

    hits, known = newly(ours)
    others, control = newly(theirs)
    still = [node for node in ours if rule in before[node].unmeasured & after[node].unmeasured]
    since = [node for node in ours if rule in before[node].unmeasured
             and rule not in after[node].unmeasured | after[node].failing]
    if still:
        yield Compared(RESULTS, f"{RESULTS}/{rule}", Grade.UNCLEAR,
                         f"{rule} was not measured, neither before nor since", tuple(still))
    if since:
        yield Compared(RESULTS, f"{RESULTS}/{rule}", Grade.NOISE,
                         f"{rule} does not fail, and was not measured before", tuple(since))
    if hits:
        weighed = _weighed(rule, "can no longer be measured", hits, len(known), others, len(control))
        yield (weighed if weighed.grade is Grade.WORSE else
               Compared(RESULTS, weighed.key, Grade.UNCLEAR, weighed.words, weighed.nodes))


def _newly_skipped(ours: list[str], before: _Nodes, after: _Nodes) -> Iterator[Compared]:
    """What was judged before and is left out since, as where a new driver does not support the question, was
    not measured: no pass. Of the store's snapshots only the number is known."""
    on: dict[str, list[str]] = {}
    for node in ours:
        for rule in after[node].skipped - before[node].skipped - before[node].unmeasured:
            on.setdefault(rule, []).append(node)
    for rule, nodes in sorted(on.items()):
        yield Compared(RESULTS, f"{RESULTS}/{rule}", Grade.UNCLEAR,
                         f"{rule} is left out since, and was judged before", tuple(nodes))
    more = [node for node in ours if not after[node].skipped and after[node].skips > before[node].skips]
    if more:
        yield Compared(RESULTS, f"{RESULTS}/skipped", Grade.UNCLEAR,
                         "more rules are left out than before; a saved sweep shows which", tuple(more))


def _weighed(rule: str, what: str, hits: list[str], of: int, others: list[str], controls: int,
             comes_and_goes: float = 0.0) -> Compared:
    rate = max(NODES_FAIL, comes_and_goes, len(others) / controls if controls else 0.0)
    chance = at_least(len(hits), of, rate)
    words = (f"{rule} {what} on {len(hits)} of {of} canary nodes and {len(others)} of {controls} controls")
    key = f"{RESULTS}/{rule}"
    if others and one_sided(len(hits), of, len(others), controls) > SHARES[RESULTS]:
        if controls and len(others) / controls >= len(hits) / of:
            return Compared(RESULTS, key, Grade.NOISE, f"{words}: controls show it as well", tuple(hits))
        return Compared(RESULTS, key, Grade.UNCLEAR, f"{words}, which chance explains", tuple(hits))
    if controls and chance <= SHARES[RESULTS]:
        return Compared(RESULTS, key, Grade.WORSE, f"{words}; by chance {_percent(chance)}", tuple(hits))
    return Compared(RESULTS, key, Grade.UNCLEAR,
                      f"{words}: may be chance ({_percent(chance)}), so it is no proof and no pass",
                      tuple(hits))


def _percent(chance: float) -> str:
    return f"{chance:.1%}" if chance >= 0.001 else "less than 0.1%"
