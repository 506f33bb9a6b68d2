"""Differences between two baselines: new, gone, expired, re-decided templates, changed shares of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from healthcheck.kernellog.model import Baseline, KnownTemplate

_SHARE = 0.1        # of the nodes: less depends on which nodes were up


class TemplateChange(Enum):
    """In the order of the report."""

    NEW = "new"             # in the second only
    GONE = "gone"           # in the first only
    EXPIRED = "expired"     # approved, but not seen for too long
    APPROVED = "approved"   # proposed in the first, approved in the second
    WITHDRAWN = "withdrawn"     # the other way round
    SHARE = "share"         # on more nodes or fewer


@dataclass(frozen=True)
class TemplateDifference:
    """One template's change; `before` or `after` is None if a baseline does not have it."""

    change: TemplateChange
    template: str
    before: KnownTemplate | None
    after: KnownTemplate | None
    shares: tuple[float | None, float | None]


def differences(first: Baseline, second: Baseline) -> list[TemplateDifference]:
    """All of them, by kind and template. Both baselines are current (`learn.current`)."""
    order = list(TemplateChange)
    return sorted(_all(first, second), key=lambda one: (order.index(one.change), one.template))


def _all(first: Baseline, second: Baseline) -> Iterator[TemplateDifference]:
    before = {**first.proposed, **first.expired, **first.known}
    after = {**second.proposed, **second.expired, **second.known}
    for template in before.keys() | after.keys():
        old, new = before.get(template), after.get(template)
        shares = _share(old, first), _share(new, second)
        change = _change(template, first, second, shares)
        if change is not None:
            yield TemplateDifference(change, template, old, new, shares)


def _change(
    template: str, first: Baseline, second: Baseline, shares: tuple[float | None, float | None],
) -> TemplateChange | None:
    old, new = shares
    if new is None:
        return TemplateChange.GONE
    if template in second.expired and template not in first.expired:
        return TemplateChange.EXPIRED
    if old is None:
        return TemplateChange.NEW
    if template in second.known and template not in first.known:
        return TemplateChange.APPROVED
    if template in second.proposed and template not in first.proposed:
        return TemplateChange.WITHDRAWN
    return TemplateChange.SHARE if abs(new - old) > _SHARE else None


def _share(one: KnownTemplate | None, of: Baseline) -> float | None:
    return None if one is None else one.nodes / max(1, of.nodes)
