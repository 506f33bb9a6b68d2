"""Fills an allocation from the snapshot: the gate decides on each spare, and finally on the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from healthcheck.gate.decide import Gate, GateDecision, Why, answer
from healthcheck.gate.nodestatus import GateNode, gate_node
from healthcheck.gate.reading import GateSnapshot
from healthcheck.gate.spares import Filled, fill


def allocate(
    snapshot: GateSnapshot, said: GateDecision, wanted: Sequence[str], spares: Sequence[str], need: int,
    now: float, look: Callable[[Sequence[str]], GateDecision] | None = None,
) -> tuple[GateDecision, Filled]:
    """`need` nodes for which the gate opens as a whole (`said` of the wanted ones), with the nearest spares;
    or why there are not enough. A spare is left out that is open alone but unequal to the others, or that
    `look` finds closed, where the nodes themselves are to be asked, too."""
    closed = {why.node: why.why for why in reversed(said.whys) if why.node}
    open_ = [name for name in dict.fromkeys(spares) if name not in wanted
             and answer(snapshot, [name], now).gate is Gate.OPEN]
    if look is not None and open_:
        barred = look(open_).closed()
        open_ = [name for name in open_ if name not in barred]
    known = {name: node for name in (*wanted, *open_) if (node := _gate_node(snapshot, name)) is not None}
    while True:
        filled = fill(wanted, closed, open_, need, known)
        if filled.short:
            short = Why("", Gate.CLOSED, f"{filled.short} of {need} nodes are missing, with {len(open_)} of "
                                         f"{len(set(spares))} spares open",
                                         "name more --spares, or --need fewer")
            return GateDecision(Gate.CLOSED, (short, *said.whys), said.notices), filled
        whole = answer(snapshot, filled.nodes, now)
        found = {why.node: why.why for why in whole.whys if why.node}
        if not found:
            return whole, filled
        # Each round removes at least one node, so this ends.
        closed = {**closed, **{name: why for name, why in found.items() if name in wanted}}
        open_ = [name for name in open_ if name not in found]


def _gate_node(snapshot: GateSnapshot, name: str) -> GateNode | None:
    try:
        return gate_node(name, snapshot.entry(name))
    except ValueError:
        return None
