"""The option `--delivery` of commands that compare faults by the lots of parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from healthcheck.cli.textfiles import text_of
from inventory.errors import InventoryError, Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from healthcheck.triage.lots import PartLot

DELIVERY: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--delivery", "delivery", metavar="FILE", multiple=True,
    help="What cables, optics, adapters and switches were delivered: CSV with serial or guid, part, date; "
         "repeatable.")


def delivered(files: Sequence[str]) -> Mapping[str, PartLot]:
    """The lots in all these lists. Raises UsageError for a file that cannot be read, InventoryError with its
    place for a wrong one, and for a part that two of them have."""
    from healthcheck.triage.partslist import parse

    found: dict[str, PartLot] = {}
    for name in files:
        listed = parse(text_of("--delivery", name), name)
        if twice := sorted(listed.keys() & found.keys()):
            raise InventoryError(f"{twice[0]} is in an earlier --delivery already", Mark(name, 1, 1))
        found |= listed
    return found
