"""Chooses the baseline that nodes are judged by, the most exact that holds (the order of `Scope`), and says
what it leaves open. An empty field holds for any node, except for the SKU: other machines write other lines.
A kernel of two numbers (6.5) is a series."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from healthcheck.kernellog.model import Baseline, Scope

_SERIES = re.compile(r"\d+\.\d+")
_FIELDS = ("kernel", "driver", "firmware")


class ScopeLevel(Enum):
    """How much of a scope a baseline is learned for, from exact to general."""

    EXACT = "exact"         # SKU, kernel, driver, firmware
    DRIVER = "driver"       # SKU, kernel, driver
    KERNEL = "kernel"       # SKU, kernel
    SERIES = "series"       # SKU and the kernel's series
    SKU = "sku"


class Fit(NamedTuple):
    """The baseline that holds, or None; `exact` if it leaves nothing open; `why` says what is open."""

    baseline: Baseline | None
    exact: bool
    why: str


def series(kernel: str) -> str:
    """The first two numbers of a kernel's release, 6.5 of 6.5.0-1007-nvidia; all of it if there are none."""
    match = _SERIES.match(kernel)
    return match[0] if match else kernel


def widened(scope: Scope, level: ScopeLevel) -> Scope:
    """The scope of a baseline that is learned at this level."""
    if level is ScopeLevel.SKU:
        return Scope(scope.sku)
    if level is ScopeLevel.SERIES:
        return Scope(scope.sku, series(scope.kernel))
    if level is ScopeLevel.KERNEL:
        return Scope(scope.sku, scope.kernel)
    return replace(scope, firmware="") if level is ScopeLevel.DRIVER else scope


def words(scope: Scope) -> str:
    """The scope as part of a sentence."""
    parts = [f"SKU {scope.sku}" if scope.sku else "", f"kernel {scope.kernel}" if scope.kernel else "",
             f"driver {scope.driver}" if scope.driver else "",
             f"firmware {scope.firmware}" if scope.firmware else ""]
    return ", ".join(filter(None, parts)) or "nodes without a SKU, with any kernel"


def fitting(baselines: Sequence[Baseline], scope: Scope) -> Fit:
    """The most exact baseline for a node of this scope, of equals the newest; never another SKU's."""
    ranked = [(rank, baseline) for baseline in baselines
              if (rank := _rank(baseline.scope, scope)) is not None]
    if not ranked:
        return Fit(None, False, _missing(baselines, scope))
    best = min(rank for rank, _ in ranked)
    chosen = max((baseline for rank, baseline in ranked if rank == best),
                 key=lambda baseline: (baseline.last, baseline.name))
    open_ = [name for name in _FIELDS if getattr(chosen.scope, name) != getattr(scope, name)]
    return Fit(chosen, not open_, _open(chosen, scope, open_))


def _rank(held: Scope, asked: Scope) -> tuple[int, ...] | None:
    """How much it leaves open, the kernel first; None if it does not hold."""
    if held.sku != asked.sku:
        return None
    ranks = []
    for name in _FIELDS:
        ours, theirs = getattr(held, name), getattr(asked, name)
        if ours == theirs:
            ranks.append(0)
        elif name == "kernel" and _SERIES.fullmatch(ours) and ours == series(theirs):
            ranks.append(1)
        elif not ours:
            ranks.append(2)
        else:
            return None
    return tuple(ranks)


def _open(chosen: Baseline, scope: Scope, open_: Sequence[str]) -> str:
    if not open_:
        return f"judged by the baseline {chosen.name}, for {words(scope)}"
    general = words(Scope(kernel=chosen.scope.kernel, driver=chosen.scope.driver,
                          firmware=chosen.scope.firmware))
    held = (f"{general} in general" if any(getattr(chosen.scope, name) for name in _FIELDS)
            else f"SKU {scope.sku} in general")
    if not scope.sku and held.startswith("SKU"):
        held = "any kernel"
    lacks = ", ".join(f"{'' if name == 'kernel' else name + ' '}{getattr(scope, name)}" for name in open_)
    return f"judged by the baseline for {held}: none for {lacks}"


def _missing(baselines: Sequence[Baseline], scope: Scope) -> str:
    same = sorted({words(baseline.scope) for baseline in baselines if baseline.scope.sku == scope.sku})
    if same:
        return f"no baseline for {words(scope)}; there are those for {'; '.join(same[:3])}"
    others = sorted({baseline.scope.sku or "no SKU" for baseline in baselines})
    return f"no baseline for {words(scope)}" + (f"; there are those for {', '.join(others[:5])}" if others
                                                else "")
