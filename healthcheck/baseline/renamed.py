"""Gives a node another name in a baseline: among the learned nodes, and where a template was seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from healthcheck.kernellog.model import Baseline, KnownTemplate
from inventory.nodeset import expand, fold


def renamed(baseline: Baseline, old: str, new: str) -> Baseline:
    """The baseline with the new name; the boots of both, where both were learned."""
    boots = dict(baseline.learned_boots)
    if old in boots:
        both = (*boots.pop(old), *boots.get(new, ()))
        boots[new] = tuple(dict.fromkeys(both))

    def entries(held: Mapping[str, KnownTemplate]) -> dict[str, KnownTemplate]:
        return {text: replace(one, on=_on(one.on, old, new)) for text, one in held.items()}

    return replace(baseline, learned_boots=boots, known=entries(baseline.known),
                   proposed=entries(baseline.proposed), expired=entries(baseline.expired))


def _on(nodes: str, old: str, new: str) -> str:
    names = expand(nodes) if nodes else ()
    return fold(new if name == old else name for name in names) if old in names else nodes
