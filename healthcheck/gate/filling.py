"""Fills an allocation from the snapshot: which spares may step in is asked of the gate itself, and so is the whole, at last."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from healthcheck.gate.decide import Gate, GateDecision, Why, answer
from healthcheck.gate.reading import GateSnapshot
from healthcheck.gate.spares import Filled, fill
from healthcheck.gate.standing import NodeStanding, standing_of


def filling(
    snapshot: GateSnapshot, said: GateDecision, wanted: Sequence[str], spares: Sequence[str], need: int, now: float,
    look: Callable[[Sequence[str]], GateDecision] | None = None,
) -> tuple[GateDecision, Filled]:
    """`need` nodes on which the gate opens as a whole, as near to the wanted ones as spares are; or why there are not so many.

    `said` is the gate's answer for the wanted ones. A spare that is open alone but unequal to the others is left out, and so is one that
    `look` finds closed, where the nodes themselves are to be asked, too.
    """
    closed = {why.node: why.why for why in reversed(said.whys) if why.node}
    open_ = [name for name in dict.fromkeys(spares) if name not in wanted and answer(snapshot, [name], now).gate is Gate.OPEN]
    if look is not None and open_:
        barred = look(open_).closed()
        open_ = [name for name in open_ if name not in barred]
    known = {name: standing for name in (*wanted, *open_) if (standing := _standing(snapshot, name)) is not None}
    while True:
        filled = fill(wanted, closed, open_, need, known)
        if filled.short:
            short = Why("", Gate.CLOSED, f"{filled.short} of {need} nodes are wanting, with {len(open_)} of {len(set(spares))} spares open",
                        "name more --spares, or --need fewer")
            return GateDecision(Gate.CLOSED, (short, *said.whys), said.notices), filled
        whole = answer(snapshot, filled.nodes, now)
        found = {why.node: why.why for why in whole.whys if why.node}
        if not found:
            return whole, filled
        # Each turn takes at least one node out of the running, so this ends.
        closed = {**closed, **{name: why for name, why in found.items() if name in wanted}}
        open_ = [name for name in open_ if name not in found]


def _standing(snapshot: GateSnapshot, name: str) -> NodeStanding | None:
    try:
        return standing_of(name, snapshot.entry(name))
    except ValueError:
        return None
