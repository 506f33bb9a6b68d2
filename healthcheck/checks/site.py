"""Checks of what the inventory says of a node against what it is."""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import check
from healthcheck.facts.gpu import Gpu
from healthcheck.model.outcome import Finding


@check("sku.matches")
def sku_matches(gpu: Gpu, *, model: str) -> Iterator[Finding]:
    """Every GPU is of the model that the node's SKU names; a single other one is a board that was exchanged for the wrong one.

    Where most are of another model, the SKU is wrong and not the node: then this and every rule that needs a number of the SKU
    is UNKNOWN, and says so.
    """
    if model.casefold() not in gpu.model.casefold():
        yield Finding(gpu.model, model)
