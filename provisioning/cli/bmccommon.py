"""What the commands of `muster bmc` share: choosing nodes, common options, and printing answers as they
come."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from inventory.cli.formatted import as_json as format_option
from inventory.cli.span import span
from inventory.errors import UsageError
from inventory.model import Inventory, Node
from inventory.nodeset import fold

SECONDS = 30.0


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--inventory, --state, --timeout, --fanout."""
    for option in (click.option("--fanout", metavar="N", type=click.IntRange(1, 1024), default=64,
                                show_default=True, help="Controllers at a time."),
                   click.option("--timeout", metavar="SPAN", callback=span(1, 3600),
                                help="Time limit of each request to a controller. [30s]"),
                   click.option("--state", metavar="DIR",
                                help="Folder of pinned certificates and the ledger. Default: MUSTER_STATE, "
                                     "XDG, /var/lib."),
                   click.option("--inventory", "-i", "file", metavar="FILE",
                                help="Default: MUSTER_INVENTORY, ./muster.yaml, ~/.config, /etc.")):
        command = option(command)
    return command


def as_json(command: Callable[..., Any]) -> Callable[..., Any]:
    """--format."""
    return format_option("json: one JSON document (muster.bmc/1), when all have answered.")(command)


def chosen(nodes: str, file: str | None) -> tuple[list[Node], Inventory]:
    """The chosen nodes, each with a controller. Raises InventoryError, UsageError."""
    from inventory.load import load_inventory
    from inventory.locate import needed_inventory
    from inventory.select import select

    path = needed_inventory(file, "no inventory was found, and only it says where controllers are: see "
                            "muster bmc --help")
    found = load_inventory(path)
    named = select(found, nodes)
    if without := [node.name for node in named if node.bmc is None]:
        raise UsageError(f"{path} names no controller for {fold(without)}; add bmc: {{address: ADDRESS}} "
                         "there, or leave them out")
    return named, found


def folder(state: str | None) -> Path:
    """Where state is kept."""
    from inventory.locate import state_dir

    return state_dir(state)


def print_lines(name: str, lines: Iterable[str], *, one_line: bool) -> None:
    """Prints what one node's controller answered."""
    if one_line:
        for line in lines:
            click.echo(f"{name}  {line}")
    else:
        click.echo(f"{name}:")
        for line in lines:
            click.echo(f"  {line}")


def document(nodes: Sequence[Node], values: dict[str, Any]) -> None:
    """Prints the JSON document, in the order of the inventory."""
    from provisioning.bmc.page import SCHEMA

    reported = [{"node": node.name, **values[node.name]} for node in nodes if node.name in values]
    click.echo(json.dumps({"schema": SCHEMA, "nodes": reported}, indent=1))
