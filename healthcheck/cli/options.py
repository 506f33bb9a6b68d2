"""Options that several commands share, and how commands show times and paths."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from inventory.cli.span import span
from inventory.errors import UsageError

if TYPE_CHECKING:
    from healthcheck.ruleset.ruleset import Ruleset

INVENTORY = click.option("--inventory", "-i", metavar="FILE",
                         help="Inventory file. Default: MUSTER_INVENTORY, ./muster.yaml, ~/.config, /etc.")
GROUPS = click.option("--inventory", "-i", metavar="FILE",
                      help="For groups in NODES. Default: as for muster check.")
RULES = click.option("--rules", metavar="DIR",
                     help="A folder of site rules and SKUs that override the packaged ones by id.")
POLICY = click.option("--rules", metavar="DIR",
                      help="A folder of site rules and policy that override the packaged ones.")
CATALOGUE = click.option("--rules", metavar="DIR",
                         help="A folder of site rules and catalogue entries over the packaged ones.")
STATE = click.option("--state", metavar="DIR",
                     help="Where the store is. Default: MUSTER_STATE, XDG, /var/lib/muster.")
TIMEOUT = click.option("--timeout", metavar="SPAN", callback=span(1, 86400),
                       help="Deadline of the whole sweep: 90, 90s, 2m. [by nodes, fan-out and limits]")


def check_sku(name: str | None, ruleset: Ruleset) -> None:
    """Raises UsageError for a --sku that is not known."""
    if name is not None and name not in ruleset.skus:
        raise UsageError(f"--sku {name}: no such SKU; there are {', '.join(sorted(ruleset.skus))}")


def near(path: str) -> str:
    """A path relative to the current folder where it lies below it."""
    return path.removeprefix(f"{Path.cwd()}/")
