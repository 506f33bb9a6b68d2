"""Checks of the inventory's entry for a node against the node itself."""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import check
from healthcheck.facts.gpu import Gpu
from healthcheck.facts.product import is_model
from healthcheck.model.outcome import Finding


@check("sku.matches")
def sku_matches(gpu: Gpu, *, model: str) -> Iterator[Finding]:
    """Every GPU is of the model that the node's SKU names; a single other one is a wrong replacement board.

    Where most are of another model, the SKU is wrong and not the node: then this and every rule that needs a
    number of the SKU is UNKNOWN.
    """
    if not is_model(gpu.model, model):
        yield Finding(gpu.model, model)
