"""The state of each node, one line each: lifecycle, state, verdict, cordon, silences, RMA;
as text and as JSON (muster.nodes/1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from healthcheck.model.faultkind import Isolation
from healthcheck.model.outcome import NodeState
from healthcheck.model.verdict import MACHINE, Verdict
from healthcheck.store.clock import in_future
from healthcheck.store.history import Spell
from healthcheck.triage.past import NodeHistory
from inventory.nodeset import fold
from inventory.text import clean
from inventory.times import ago, iso, minute

NEVER = "never-seen"
HEALTHY = NodeState.HEALTHY.value
Paint = Callable[[str, str], str]       # (text, a state or "head") -> the text, coloured if wanted
_HEAD = ("NODE", "LIFECYCLE", "STATE", "ISOLATION", "REPAIR", "OWNER", "FAULT", "SINCE", "CORDON", "SILENCED",
         "RMA", "WHY")
_WHY = 150
_LEAST = 30      # columns that the last one has at least, for the table to be printed


@dataclass(frozen=True)
class NodeRow:
    """One node. `seen` is when a full sweep last saw it, None if never, or by a wrong clock; `stale`: too
    long ago to rely on.

    `since` is when the cause of its isolation, or else its state, began. Texts may be empty. `by_agent` is
    when its agent judged it healthy, where the newest sweep left it out for that; None where it was visited.
    `hidden` says which silence hides what, until when; `machine` that another machine has its name, not
    proven yet.
    """

    node: str
    lifecycle: str
    in_service: bool
    state: str
    seen: float | None
    stale: bool
    isolation: Isolation
    repair: str
    owner: str
    fault: str
    since: float | None
    why: str
    cordon: str
    silenced: int
    rma: str
    alarm: str
    incidents: tuple[int, ...] = ()
    by_agent: float | None = None
    hidden: str = ""
    machine: str = ""

    @property
    def quiet(self) -> bool:
        """Whether there is nothing to show but its state and lifecycle."""
        said = self.fault or self.cordon or self.silenced or self.rma or self.alarm or self.incidents
        said = said or self.machine or self.isolation is not Isolation.NONE
        return not said and self.state in (HEALTHY, NEVER)


def row(
    past: NodeHistory, spell: Spell | None, verdict: Verdict | None, now: float, stale_s: float,
    rma: str = "", alarm: str = "", incidents: tuple[int, ...] = (), by_agent: float | None = None,
    hidden: str = "", machine: str = "",
) -> NodeRow:
    """The row of one node; a node that no sweep has seen is never healthy."""
    began = spell.began if spell is not None and not in_future(spell.began, now) else None
    if verdict is not None and verdict.faults:
        began = verdict.faults[0].began
    elif verdict is not None and past.verdict is not None:
        began = past.verdict.began
    return NodeRow(
        past.node, past.lifecycle, past.in_service, spell.state if spell is not None else NEVER,
        None if spell is None or in_future(spell.seen, now) else spell.seen,
        spell is not None and (now - spell.seen > stale_s or in_future(spell.seen, now)),
        verdict.isolation if verdict is not None else Isolation.NONE,
        verdict.repair.value if verdict is not None and verdict.owner is not None else "",
        verdict.owner.value if verdict is not None and verdict.owner is not None else "",
        verdict.fault if verdict is not None else "",
        began,
        (verdict.why if verdict is not None else "") or (spell.reason if spell is not None else ""),
        ",".join(str(cordon.mark) for cordon in past.cordons), past.silenced, rma, alarm, incidents,
        by_agent, hidden, machine)


def lines(
    rows: Sequence[NodeRow], now: float, paint: Paint, *, every: bool = False,
    width: int | None = None,
) -> Iterator[str]:
    """The table, then the quiet nodes, folded; a stale state has a question mark. Where a terminal of this
    width has no room for the table, a few lines a node."""
    shown = [one for one in rows if every or not one.quiet]
    cells = [_cells(one, now) for one in shown]
    widths = [max(len(line[at]) for line in (_HEAD, *cells)) for at in range(len(_HEAD) - 1)]
    if width is not None and sum(widths) + 2 * len(widths) + _LEAST > width:
        for one, line in zip(shown, cells, strict=True):
            yield from _block(one, line, paint)
        cells = []
    for number, line in enumerate([_HEAD, *cells] if cells else []):
        padded = [f"{text:<{size}}" for text, size in zip(line, widths, strict=False)]
        kind = shown[number - 1].state if number else "head"
        padded[2] = paint(padded[2], kind)
        whole = "  ".join([*padded, line[-1]]).rstrip()
        if width is None:
            yield whole
        else:
            # Painted cells take no room; the words of the last column stay in it.
            before = "  ".join(padded) + "  "
            column = sum(widths) + 2 * len(widths)
            first, *more = wrap(line[-1], width - column) or [""]
            yield (before + first).rstrip()
            yield from (" " * column + text for text in more)
    quiet: dict[tuple[str, str, bool, bool], list[str]] = {}
    for one in rows:
        if not every and one.quiet:
            quiet.setdefault((one.state, one.lifecycle if not one.in_service else "", one.stale,
                              one.by_agent is not None), []).append(one.node)
    for (state, lifecycle, stale, by_agent), names in quiet.items():
        yield (f"{fold(names)}: {paint(state + '?' * stale, state)}{f', {lifecycle}' if lifecycle else ''}"
               f"{', by their agents; not visited by the newest sweep' if by_agent else ''}")


def _block(one: NodeRow, line: Sequence[str], paint: Paint) -> Iterator[str]:
    """One node in a narrow terminal: what it is, what is wrong since when, who repairs it how, what holds
    it."""
    node, lifecycle, state, isolation, repair, owner, fault, since, cordon, silenced, rma, why = line
    yield "  ".join((node, paint(state, one.state), *(() if isolation == "-" else (isolation,)),
                     *(() if one.in_service else (lifecycle,))))
    wrong = " ".join((*(() if fault == "-" else (fault,)), *(() if since == "-" else (f"since {since}",))))
    if text := ": ".join(filter(None, (wrong, why))):
        yield f"    {text}"
    held = ("" if owner == "-" else f"by {owner}" if repair == "-" else f"{repair}, by {owner}",
            *(() if cordon == "-" else (f"cordon {cordon}",)),
            *(() if silenced == "-" else (f"{silenced} silenced",)), *(() if rma == "-" else (f"RMA {rma}",)))
    if text := "; ".join(filter(None, held)):
        yield f"    {text}"


def _cells(one: NodeRow, now: float) -> tuple[str, ...]:
    old = "" if not one.stale else f"not checked for {ago(now - one.seen)}" if one.seen is not None else (
        "not checked by a right clock")
    shared = "; ".join(f"in incident {number}" for number in one.incidents
                       if not one.why.startswith(f"incident {number}:"))
    agent = f"not visited, healthy by its agent at {minute(one.by_agent)}" if one.by_agent is not None else ""
    # A verdict on an alarm, or on another machine, has its words.
    own = "" if (one.alarm and one.alarm in one.why) or (one.machine and one.fault == MACHINE) else one.why
    said = (one.alarm, one.machine, old, agent, shared, own, one.hidden)
    why = "; ".join(text for text in said if text)
    return (one.node, one.lifecycle, one.state + "?" * one.stale, one.isolation.value if one.fault else "-",
            one.repair or "-", one.owner or "-", one.fault or "-",
            minute(one.since) if one.since is not None else "-", one.cordon or "-",
            str(one.silenced) if one.silenced else "-", one.rma or "-", clean(why, _WHY))


def remarks(
    rows: Sequence[NodeRow], newest: float | None, now: float, stale_s: float,
) -> Iterator[str]:
    """Remarks: the number of nodes, the age of the newest sweep, and nodes not seen for long, or ever."""
    age = (f"the newest sweep is {ago(now - newest)} old" if newest is not None
           else "no sweep is stored: muster check --store")
    unfit = sum(one.isolation is not Isolation.NONE and one.in_service for one in rows)
    yield (f"{len(rows)} node{'s' * (len(rows) != 1)}, {sum(one.in_service for one in rows)} in service; "
           f"{unfit} not fit for new jobs; {age}")
    if stale := [one.node for one in rows if one.stale and one.in_service]:
        yield f"warning: no full sweep of {fold(stale)} for over {ago(stale_s)}; the states shown are older"
    if never := [one.node for one in rows if one.state == NEVER and one.in_service]:
        yield f"warning: no stored sweep has ever seen {fold(never)}"


def document(rows: Sequence[NodeRow], newest: float | None, now: float) -> dict[str, Any]:
    """All of it as muster.nodes/1; times are epoch seconds."""
    return {
        "schema": "muster.nodes/1",
        "time": iso(now),
        "newest_sweep": newest, "nodes": [{**vars(one), "isolation": one.isolation.value} for one in rows],
    }
