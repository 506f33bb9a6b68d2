"""What the commands of `muster bmc` share: chosen nodes, options, and answers printed as they come."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from healthcheck.cli import completing
from inventory.cli.chosen import needed
from inventory.cli.formatted import as_json as format_option
from inventory.cli.span import span
from inventory.cli.stacked import stacked
from inventory.errors import UsageError
from inventory.model import Inventory, Node
from inventory.nodeset import fold

if TYPE_CHECKING:
    from provisioning.bmc.base import Controller

SECONDS = 30.0
NO_INVENTORY = "no inventory was found, and only it says where controllers are: see muster bmc --help"
NODES = click.argument("nodes", shell_complete=completing.node_set)
JSON = format_option("json: one JSON document (muster.bmc/1), when all have answered.")


@dataclass(frozen=True)
class BmcOptions:
    """What --inventory, --state, --timeout (seconds) and --fanout say."""

    file: str | None
    state: str | None
    timeout: float | None
    fanout: int

    @property
    def folder(self) -> Path:
        """Where state is kept."""
        from inventory.locate import state_dir

        return state_dir(self.state)

    @property
    def seconds(self) -> float:
        """The time limit of each request."""
        return self.timeout or SECONDS

    def chosen(self, nodes: str) -> tuple[list[Node], Inventory]:
        """The chosen nodes, each with a controller. Raises InventoryError, UsageError."""
        named, found = needed(nodes, self.file, NO_INVENTORY)
        if without := [node.name for node in named if node.bmc is None]:
            raise UsageError(f"{found.source} names no controller for {fold(without)}; add bmc: "
                             "{address: ADDRESS} there, or leave them out")
        return named, found

    def ask(
        self, nodes: Sequence[Node], question: Callable[[Controller], Any],
    ) -> Iterator[tuple[Node, Any]]:
        """What the controllers of these nodes answer, each as soon as it does."""
        from provisioning.bmc.ask import ask_controllers, connector

        return ask_controllers(nodes, connector(self.folder, self.seconds), question, self.fanout)


_options = stacked(
    click.option("--inventory", "-i", "file", metavar="FILE",
                 help="Default: MUSTER_INVENTORY, ./muster.yaml, ~/.config, /etc."),
    click.option("--state", metavar="DIR",
                 help="Folder of pinned certificates and the ledger. Default: MUSTER_STATE, XDG, /var/lib."),
    click.option("--timeout", metavar="SPAN", callback=span(1, 3600),
                 help="Time limit of each request to a controller. [30s]"),
    click.option("--fanout", metavar="N", type=click.IntRange(1, 1024), default=64, show_default=True,
                 help="Controllers at a time."))


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--inventory, --state, --timeout and --fanout, as the parameter `bmc`."""
    @functools.wraps(command)
    def with_bmc(
        *args: Any, file: str | None, state: str | None, timeout: float | None, fanout: int, **others: Any,
    ) -> Any:
        return command(*args, bmc=BmcOptions(file, state, timeout, fanout), **others)

    return _options(with_bmc)


def question(command: Callable[..., Any]) -> click.Command:
    """A command that asks the controllers of NODES."""
    return click.command()(NODES(JSON(options(command))))


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
