"""Marks and notes on nodes that belong to no cordon of this store, one line each: what, where,
and the next command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from healthcheck.store.strays import Stray, StrayKind
from inventory.nodeset import fold

_WHAT = {StrayKind.STORE: "marks of an unknown store",
         StrayKind.NUMBER: "marks of ours without an open cordon in this store"}


def lines(found: Iterable[Stray]) -> Iterator[str]:
    """Notes of people, one line each; then marks, one line per kind, with folded nodes."""
    strays = list(found)
    for said in dict.fromkeys(one.words for one in strays if one.kind is StrayKind.PERSON):
        nodes = fold(one.node for one in strays if one.kind is StrayKind.PERSON and one.words == said)
        yield (f"note: {nodes}: beside our mark {said}; it belongs to a person until muster cordon "
               f"adopt|forget {nodes} --reason TEXT")
    for kind, what in _WHAT.items():
        of = [one for one in strays if one.kind is kind]
        if of:
            nodes = fold(one.node for one in of)
            marks = ", ".join(dict.fromkeys(one.mark for one in of[:3])) + (" ..." if len(of) > 3 else "")
            yield f"note: {what} on {nodes} ({marks}): muster cordon adopt|forget {nodes} --reason TEXT"
