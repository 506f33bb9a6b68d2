"""What a sweep says of recordings that a test has made."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console

from healthcheck.model.outcome import Result
from healthcheck.model.recording import Recording
from healthcheck.report.table import Heading, render
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.sweep.assess import Assessed, Assessment
from inventory.model import Node
from inventory.nodeset import fold
from tests import packagedrules

HEADING = Heading("x", 1.0, False, 1)


def assessed(*seen: Recording, rules: Ruleset = packagedrules.RULES, sku: str | None = "hgx-h100",
             nodes: Sequence[Node] | None = None,
             before: Mapping[str, Recording | None] | None = None, **more: Any) -> Assessed:
    """A sweep of these recordings, each of a node of this SKU if no nodes are given; `before` has earlier
    snapshots by node."""
    assessment = Assessment([Node(one.node, sku=sku) for one in seen] if nodes is None else nodes,
                            rules, **more)
    for one in seen:
        assessment.add(one, (before or {}).get(one.node))
    return assessment.finish()


def by_rule(seen: Recording, before: Recording | None = None, **more: Any) -> dict[str, Result]:
    """What each rule says of one recording in a sweep of its own."""
    (report,) = assessed(seen, before={seen.node: before}, **more).reports
    return {result.rule: result for result in report.results}


def page_of(found: Assessed, rules: Iterable[Rule] = (), *, width: int = 200, heading: Heading = HEADING,
            **more: Any) -> str:
    """The page of the sweep, without colours."""
    out = io.StringIO()
    console = Console(file=out, width=width, soft_wrap=True, highlight=False, markup=False, emoji=False,
                      color_system=None)
    render(console, found, {rule.id: rule for rule in rules}, heading, fold, **more)
    return out.getvalue()
