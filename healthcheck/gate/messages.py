"""A gate decision as text and as a JSON document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from healthcheck.gate.decide import Gate, GateDecision, Notice, span
from healthcheck.gate.reading import GateSnapshot
from inventory.text import clean

if TYPE_CHECKING:
    from healthcheck.gate.spares import Filled, Move

SCHEMA = "muster.gate-answer/1"
_MOST = 20      # reasons in the text; --format json has all
_HEADS = {Gate.OPEN: "open", Gate.CLOSED: "closed", Gate.UNSURE: "unknown"}


def text(answer: GateDecision, number: int, snapshot: GateSnapshot | None, now: float) -> str:
    """The decision in one line, then each reason with its nodes folded and what to do."""
    of = ""
    if snapshot is not None:
        of = (f" (snapshot {snapshot.serial} of {clean(snapshot.cluster, 60)}, "
              f"{span(max(0.0, now - snapshot.made))} old)")
    nodes = "1 node" if number == 1 else f"{number} nodes"
    barred = len(answer.closed())
    which = nodes if answer.gate is Gate.OPEN else f"{barred} of {nodes}" if barred else "no node"
    lines = [f"{_HEADS[answer.gate]}: {which}{of}" if number or answer.gate is Gate.OPEN
             else f"{_HEADS[answer.gate]}{of}"]
    folded: dict[tuple[str, str], list[str]] = {}
    # A limit on their number leaves out none that fails for one that is unknown.
    for why in sorted(answer.whys, key=lambda one: (one.gate is not Gate.CLOSED,
                                                    one.why.startswith("unknown"))):
        folded.setdefault((why.why, why.do), []).append(why.node)
    for (why_, do), names in list(folded.items())[:_MOST]:
        where = _fold(name for name in names if name)
        lines.append(f"  {where}: {clean(why_)}" if where else f"  {clean(why_)}")
        if do:
            lines.append(f"      {clean(do.replace('{}', where), 2000)}")
    if len(folded) > _MOST:
        lines.append(f"  ... and {len(folded) - _MOST} more reasons: --format json has all")
    return "\n".join(lines)


def notices(found: Iterable[Notice]) -> list[str]:
    """A line each."""
    return [f"{_fold(notice.nodes)}: {clean(notice.text)}" if notice.nodes else clean(notice.text)
            for notice in found]


def moved(filled: Filled) -> list[str]:
    """A line for each node that was replaced, added or left out."""
    return [*map(_moved, filled.moves), *([f"not needed: {_fold(filled.left)}"] if filled.left else [])]


def document(
    answer: GateDecision, number: int, snapshot: GateSnapshot | None, filled: Filled | None = None,
) -> dict[str, Any]:
    """The decision for JSON."""
    made: dict[str, Any] = {
        "schema": SCHEMA, "gate": answer.gate.name.lower(), "nodes": number,
        "snapshot": None if snapshot is None else {"cluster": snapshot.cluster, "serial": snapshot.serial,
                                                   "made": snapshot.made},
        "why": [{"node": why.node or None, "gate": why.gate.name.lower(), "why": why.why,
                 "do": why.do.replace("{}", why.node)}
                for why in answer.whys],
        "notices": [{"nodes": list(notice.nodes), "text": notice.text} for notice in answer.notices],
    }
    if filled is not None:
        moves = [{"away": move.away or None, "instead": move.instead, "where": move.where, "why": move.why}
                 for move in filled.moves]
        made |= {"hosts": list(filled.nodes), "short": filled.short, "left": list(filled.left),
                 "moved": moves}
    return made


def _moved(move: Move) -> str:
    return (f"{move.away} -> {move.instead} ({move.where}): {clean(move.why, 200)}" if move.away
            else f"+ {move.instead} ({move.where})")


def _fold(names: Iterable[str]) -> str:
    held = list(names)
    if len(held) < 2:
        return clean(held[0], 260) if held else ""
    from inventory.nodeset import fold

    return clean(fold(held), 2000)
