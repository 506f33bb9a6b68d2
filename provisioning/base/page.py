"""The state of nodes' base configuration as text and JSON; nodes with equal results share a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from inventory.nodeset import fold
from provisioning.base.report import BaseReport, ItemState

_WIDE = 12
_SHOWN = (ItemState.DIFFERS, ItemState.TROUBLE, ItemState.UNSEEN, ItemState.WAIT)


def lines(all_: Sequence[BaseReport]) -> Iterator[str]:
    """Lines of text, the nodes in their order."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for report in all_:
        groups.setdefault(tuple(_of(report)), []).append(report.node)
    for message, names in groups.items():
        yield f"{fold(names)}: {message[0]}"
        yield from message[1:]


def _of(report: BaseReport) -> Iterator[str]:
    if not report.answered:
        yield f"not seen: {report.stage.value if report.stage else 'reply'}: {report.message}"
        return
    yield _headline(report)
    if not report.ok:
        yield f"  NOT done: {report.message}"
    for name, why in report.failed.items():
        yield f"  NOT done: {name}: {why}"
    for item in report.items:
        if item.how not in _SHOWN:
            continue
        if item.how is ItemState.DIFFERS:
            yield from (
                f"  {item.name if not at else '':{_WIDE}} {line}" for at, line in enumerate(item.change))
        else:
            yield f"  {item.name:{_WIDE}} {item.how.value}: {item.message}"
    if so := report.of(ItemState.SO):
        yield f"  so: {', '.join(item.name for item in so)}"
    for item in report.of(ItemState.ABSENT, ItemState.OUT):
        yield f"  {item.name:{_WIDE}} {item.how.value}: {item.message}"


def _headline(report: BaseReport) -> str:
    if report.changed:
        return f"applied: {', '.join(report.changed)}" + ("" if report.done else "; some items still differ")
    return "nothing to do" if report.done else "some items differ"


def document(all_: Sequence[BaseReport]) -> dict[str, Any]:
    """One document of all nodes."""
    return {
        "schema": "muster.base/1",
        "nodes": [
            {
                "node": report.node, "answered": report.answered, "done": report.done,
                "stage": report.stage.value if report.stage else None, "reason": report.message or None,
                "changed": list(report.changed), "failed": dict(report.failed),
                "items": [{
                    "item": item.name, "stand": item.how.value, "said": item.message,
                    "change": list(item.change)} for item in report.items]} for report in all_]}


def code(all_: Sequence[BaseReport]) -> int:
    """0 all is so, 1 on some nodes it is not, 3 some did not answer."""
    if any(report.answered and not report.done for report in all_):
        return 1
    return 3 if any(not report.answered for report in all_) else 0
