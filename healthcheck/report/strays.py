"""Marks and words on nodes that no cordon of this store accounts for, in lines for people: what, where, and the next command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from healthcheck.store.strays import Stray, StrayKind

Fold = Callable[[Iterable[str]], str]
_WHAT = {StrayKind.STORE: "marks of a store that this one does not know",
         StrayKind.NUMBER: "marks of ours of which this store has no open cordon"}


def lines(found: Iterable[Stray], fold: Fold) -> Iterator[str]:
    """What a person wrote, a line for each of their words; then marks, a line for each kind, with its nodes folded."""
    strays = list(found)
    for said in dict.fromkeys(one.words for one in strays if one.kind is StrayKind.PERSON):
        nodes = fold(one.node for one in strays if one.kind is StrayKind.PERSON and one.words == said)
        yield f"note: {nodes}: beside our mark {said}; it is theirs until muster cordon adopt|forget {nodes} --reason TEXT"
    for kind, what in _WHAT.items():
        of = [one for one in strays if one.kind is kind]
        if of:
            nodes = fold(one.node for one in of)
            marks = ", ".join(dict.fromkeys(one.mark for one in of[:3])) + (" ..." if len(of) > 3 else "")
            yield f"note: {what} stand on {nodes} ({marks}): muster cordon adopt|forget {nodes} --reason TEXT"
