"""How the base configuration of nodes stands, for people and for programs; nodes of one mind are told of together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from inventory.nodeset import fold
from provisioning.base.told import BaseReport, ItemState

_WIDE = 12
_SHOWN = (ItemState.DIFFERS, ItemState.TROUBLE, ItemState.UNSEEN, ItemState.WAIT)


def lines(all_: Sequence[BaseReport]) -> Iterator[str]:
    """Lines of text, the nodes in their order."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for told in all_:
        groups.setdefault(tuple(_of(told)), []).append(told.node)
    for said, names in groups.items():
        yield f"{fold(names)}: {said[0]}"
        yield from said[1:]


def _of(told: BaseReport) -> Iterator[str]:
    if not told.answered:
        yield f"not seen: {told.stage.value if told.stage else 'reply'}: {told.said}"
        return
    yield _headline(told)
    if not told.ok:
        yield f"  NOT done: {told.said}"
    for name, why in told.failed.items():
        yield f"  NOT done: {name}: {why}"
    for item in told.items:
        if item.how not in _SHOWN:
            continue
        if item.how is ItemState.DIFFERS:
            yield from (f"  {item.name if not at else '':{_WIDE}} {line}" for at, line in enumerate(item.change))
        else:
            yield f"  {item.name:{_WIDE}} {item.how.value}: {item.said}"
    if so := told.of(ItemState.SO):
        yield f"  so: {', '.join(item.name for item in so)}"
    for item in told.of(ItemState.ABSENT, ItemState.OUT):
        yield f"  {item.name:{_WIDE}} {item.how.value}: {item.said}"


def _headline(told: BaseReport) -> str:
    if told.changed:
        return f"made so: {', '.join(told.changed)}" + ("" if told.done else "; and not all is so")
    return "nothing to do" if told.done else "not all is so"


def document(all_: Sequence[BaseReport]) -> dict[str, Any]:
    """One document of all nodes."""
    return {"schema": "muster.base/1", "nodes": [{
        "node": told.node, "answered": told.answered, "done": told.done, "stage": told.stage.value if told.stage else None,
        "reason": told.said or None, "changed": list(told.changed), "failed": dict(told.failed),
        "items": [{"item": item.name, "stand": item.how.value, "said": item.said, "change": list(item.change)} for item in told.items],
    } for told in all_]}


def code(all_: Sequence[BaseReport]) -> int:
    """0 all is so, 1 on some nodes it is not, 3 some did not answer."""
    if any(told.answered and not told.done for told in all_):
        return 1
    return 3 if any(not told.answered for told in all_) else 0
