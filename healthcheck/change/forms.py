"""Forms of kernel-log lines that are new on the canary, beside controls. Pure.

A form is new where no node wrote it before the change, and no control did since. Healthy nodes write a new
form now and then: the noise is how many the controls wrote, a node, over all forms that are new somewhere,
and never less than `NODES_WRITE`. A form that the kernel means as a warning or worse is the change's work
where so many canary nodes write it that chance is unlikely at the share of `healthcheck.change.chance`,
divided by the number of forms. One on a single node of three or more is noise; what lies between is no pass,
nor is it where more canary nodes than controls, beyond chance, write a line that is each node's own.

A node that was restarted writes all its start again. Where every log of before has lost its beginning, the
lines of the start have nothing to be compared with, and that is said.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from healthcheck.change.chance import SHARES, at_least, one_sided
from healthcheck.change.model import LOG, Compared, Grade, LogForm, NodeStanding, Stood

NODES_WRITE = 0.02
_MOST_INFORMATIVE = 5


def compared(canary: Collection[str], controls: Collection[str], before: Stood, after: Stood,
             ) -> list[Compared]:
    """Each new form that warns, what could not be compared, and one of all else."""
    found = [*_missing("before", canary, before.nodes), *_missing("since", canary, after.nodes)]
    ours = _logged(canary, before.nodes, after.nodes)
    theirs = _logged(controls, before.nodes, after.nodes)
    if not ours:
        return found
    if not theirs:
        return [*found, Compared(LOG, LOG, Grade.UNCLEAR, "no control has a kernel log before and since",
                                   tuple(sorted(controls)))]
    restarted = [node for node in ours if before.nodes[node].boot != after.nodes[node].boot]
    # Any one whole log of before shows how such nodes start.
    shown = any((log := one.log) is not None and log.whole for one in before.nodes.values())
    if restarted and not shown:
        found.append(Compared(LOG, f"{LOG}/start", Grade.UNCLEAR,
                                "the nodes were restarted, and no log of before still had its beginning: "
                                "lines of the start cannot be compared", tuple(restarted)))
    known = {form for one in before.nodes.values() if one.log is not None for form in one.log.ids}
    new = {node: _new(node, after.nodes, known, starting=shown or node not in restarted)
           for node in (*ours, *theirs)}
    by_control = {form for node in theirs for form in new[node]}
    on: dict[str, list[str]] = defaultdict(list)
    for node in ours:
        for form in new[node] - by_control:
            on[form].append(node)
    warning = {form: nodes for form, nodes in on.items() if after.forms[form].warns}
    somewhere = len({form for forms in new.values() for form in forms if after.forms[form].warns})
    written = sum(after.forms[form].warns for node in theirs for form in new[node])
    rate = max(NODES_WRITE, written / len(theirs) / max(1, somewhere))
    for form, nodes in sorted(warning.items(), key=lambda each: (-len(each[1]), each[0])):
        found.append(_weighed(form, after.forms[form], nodes, len(ours), len(theirs), rate, len(warning)))
    lone = sorted({nodes[0] for nodes in warning.values() if len(nodes) == 1 and len(ours) >= 3})
    others = sum(any(after.forms[form].warns for form in new[node]) for node in theirs)
    if lone and one_sided(len(lone), len(ours), others, len(theirs)) <= SHARES[LOG]:
        found.append(Compared(LOG, f"{LOG}/lone", Grade.UNCLEAR,
                                f"{len(lone)} of {len(ours)} canary nodes log a new warning that no other "
                                f"logs, and {others} of {len(theirs)} controls do: it may be one line, "
                                "in which something differs from node to node", tuple(lone)))
    quiet = sorted(on.keys() - warning.keys(), key=lambda form: (-len(on[form]), form))
    if quiet:
        shown_forms = "; ".join(after.forms[form].template[:120] for form in quiet[:_MOST_INFORMATIVE])
        found.append(Compared(LOG, f"{LOG}/informative", Grade.NOISE,
                                f"{len(quiet)} new forms that the kernel does not mean as warnings: "
                                f"{shown_forms}",
                                tuple(sorted({node for form in quiet for node in on[form]}))))
    if not any(one.grade in (Grade.WORSE, Grade.UNCLEAR) for one in found):
        found.append(Compared(LOG, LOG, Grade.SAME, f"no new warning that chance does not explain, in "
                                f"{len(ours)} logs beside {len(theirs)} of controls"))
    return found


def _missing(when: str, nodes: Collection[str], there: Mapping[str, NodeStanding]) -> Iterator[Compared]:
    reasons: dict[str, list[str]] = defaultdict(list)
    for node in sorted(nodes):
        if node not in there or there[node].log is None:
            known = there.get(node)
            why = (known.missing or known.unlogged) if known is not None else "there is no snapshot"
            reasons[why or "it was not read"].append(node)
    for why, names in sorted(reasons.items()):
        yield Compared(LOG, LOG, Grade.UNCLEAR, f"no kernel log {when} the change: {why}", tuple(names))


def _logged(nodes: Collection[str], before: Mapping[str, NodeStanding], after: Mapping[str, NodeStanding],
            ) -> list[str]:
    return [node for node in sorted(nodes)
            if node in before and before[node].log is not None
            and node in after and after[node].log is not None]


def _new(node: str, after: Mapping[str, NodeStanding], known: Collection[str], *, starting: bool) -> set[str]:
    log = after[node].log
    if log is None:
        return set()
    return {form for form in log.ids - set(known) if starting or form not in log.starting}


def _weighed(form: str, line: LogForm, nodes: list[str], of: int, controls: int, rate: float, forms: int,
             ) -> Compared:
    chance = at_least(len(nodes), of, min(1.0, rate)) * forms
    words = (f"new in the kernel log of {len(nodes)} of {of} canary nodes and none of {controls} controls: "
             f"{line.template[:300]}")
    if len(nodes) == 1 and of >= 3:
        grade, why = Grade.NOISE, "on one node, as healthy nodes write new lines now and then"
    elif chance <= SHARES[LOG]:
        grade, why = Grade.WORSE, "beyond chance"
    else:
        grade, why = Grade.UNCLEAR, "may be chance, so it is no proof and no pass"
    return Compared(LOG, f"{LOG}/{form}", grade, f"{words} ({why})", tuple(nodes))
