"""`muster inventory lifecycle`: lists nodes out of service, and edits their state in the inventory file."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import click

from inventory.cli import completing
from inventory.cli.propose import dry_run_option, propose, yes_option
from inventory.cli.show import _file, _format, _found, _known_skus
from inventory.edit import read_document
from inventory.errors import UsageError
from inventory.inventoryfile import InventoryFile
from inventory.load import LoadedInventory, parse_with_origins
from inventory.model import Inventory, Lifecycle, LifecycleState, Node
from inventory.nodeset import did_you_mean, fold, natural
from inventory.place import DesiredValues, change
from inventory.select import select
from inventory.text import short

_STATES = [state.value for state in LifecycleState]
_SPAN = re.compile(r"([0-9]{1,4})([dw])")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@click.command(short_help="Take nodes out of service and back, in the file; list who is out.")
@click.argument("nodes", required=False, shell_complete=completing.nodes)
@click.argument("state", required=False, metavar="[STATE]")
@click.option("--owner", metavar="WHO", help="Who has the node now: a team, a person or the vendor.")
@click.option("--until", metavar="DATE", help="Expected end: 2026-12-01, or 14d or 2w from today.")
@yes_option
@dry_run_option
@_file
@_format
@click.pass_context
def lifecycle(ctx: click.Context, nodes: str | None, state: str | None, owner: str | None, until: str | None,
              yes: bool, dry_run: bool, file: str | None, fmt: str) -> None:
    """Set the lifecycle STATE of NODES: planned, bringup, service, maintenance, rma or retired.
    Only nodes in service count.

    Without STATE, list the nodes that are not in service, with owner and date, and mark what is overdue.

    \b
    muster inventory lifecycle gpu007 rma --owner vendor --until 14d
    muster inventory lifecycle gpu007 service
    muster inventory lifecycle
    muster inventory lifecycle --format json | jq '.nodes[] | select(.overdue)'

    Edits the file in place, keeping comments and order; shows the difference and asks first. Owner and date
    stay while the state stays, and are removed when it changes. Exit: 0 done or nothing to change, 2 the file
    or the command is wrong.
    """
    given = InventoryFile.read(_found(file))
    skus = _known_skus(ctx)
    source = str(given.path)
    loaded = parse_with_origins(given.text, source, skus)
    chosen = select(loaded.inventory, nodes)
    if state is None:
        if owner is not None or until is not None:
            raise UsageError("--owner and --until go with a STATE")
        _list(loaded.inventory,
              chosen if nodes is not None else [node for node in chosen if not node.in_service], fmt)
        return
    today = dt.date.today()
    aim = Lifecycle(_state(state), _owner(owner), _date(until, today))
    wanted = {node.name: _next(node.lifecycle, aim) for node in chosen}
    changing = {name: value for name, value in wanted.items()
                if value != loaded.inventory.nodes[name].lifecycle}
    names = fold(wanted)
    if not changing:
        click.echo(f"{names}: {_lifecycle_text(next(iter(wanted.values())))} already; nothing to change")
        return

    after = edited(given, loaded, wanted, skus)
    if propose(source, given.text, after, lambda: given.write(after), yes=yes, dry_run=dry_run):
        click.echo(f"{fold(changing)}: {', '.join(dict.fromkeys(map(_lifecycle_text, changing.values())))}; "
                   f"written to {source}")


def edited(
    given: InventoryFile, loaded: LoadedInventory, wanted: Mapping[str, Lifecycle],
    skus: Collection[str] | None,
) -> str:
    """The file's text with these lifecycles and nothing else changed. Raises InventoryError."""
    source = str(given.path)

    def expected(before: Inventory) -> dict[str, Node]:
        return {node.name: replace(node, lifecycle=wanted.get(node.name, node.lifecycle)) for node in before}

    desired = DesiredValues(("lifecycle",), {name: _entry_value(value) for name, value in wanted.items()},
                            _otherwise(given, source), tidy=True, normalise=_normalised)
    return change(given.text, source, [desired], {}, expected, {}, loaded, skus)


def _next(now: Lifecycle, aim: Lifecycle) -> Lifecycle:
    if now.state is aim.state:
        return Lifecycle(aim.state, aim.owner or now.owner, aim.until or now.until)
    return aim


def _entry_value(value: Lifecycle) -> Any:
    if value.owner is None and value.until is None:
        return value.state.value
    spelt = {"state": value.state.value, "owner": value.owner,
             "until": value.until and value.until.isoformat()}
    return {key: inner for key, inner in spelt.items() if inner is not None}


def _normalised(value: Any) -> Any:
    """Treats `rma` and {state: rma} as equal."""
    found = value if isinstance(value, dict) else {"state": value}
    return [found.get(key) if found.get(key) is None else str(found[key])
            for key in ("state", "owner", "until")]


def _otherwise(given: InventoryFile, source: str) -> Any:
    defaults = read_document(given.text, source).get("defaults") or {}
    return defaults.get("lifecycle", LifecycleState.SERVICE.value)


def _state(text: str) -> LifecycleState:
    if text not in _STATES:
        raise UsageError(f"{short(text)} is not a lifecycle state: expected one of "
                         f"{', '.join(_STATES)}{did_you_mean(text, _STATES)}")
    return LifecycleState(text)


def _owner(text: str | None) -> str | None:
    if text is not None and (not text or not text.isprintable() or text != text.strip() or len(text) > 200):
        raise UsageError(f"--owner is {short(text)}, expected a name")
    return text


def _date(text: str | None, today: dt.date) -> dt.date | None:
    if text is None:
        return None
    span = _SPAN.fullmatch(text)
    try:
        if span is None and not _DAY.fullmatch(text):
            raise ValueError
        day = (today + dt.timedelta(days=int(span[1]) * (7 if span[2] == "w" else 1)) if span
               else dt.date.fromisoformat(text))
    except (ValueError, OverflowError):
        raise UsageError(
            f"--until is {short(text)}, expected a date such as 2026-12-01, or 14d, or 2w") from None
    if day < today:
        raise UsageError(f"--until is {day}, which has passed (today is {today})")
    return day


def _lifecycle_text(value: Lifecycle) -> str:
    owner = f", owner {value.owner}" if value.owner is not None else ""
    return f"{value.state.value}{owner}{f', until {value.until}' if value.until is not None else ''}"


def _list(found: Inventory, chosen: Iterable[Node], fmt: str) -> None:
    today = dt.date.today()
    ordered = sorted(chosen, key=lambda node: natural(node.name))
    if fmt == "json":
        click.echo(json.dumps({"schema": "muster.lifecycle/1", "source": found.source, "nodes": [
            {"node": node.name, "state": node.lifecycle.state.value, "owner": node.lifecycle.owner,
             "until": node.lifecycle.until.isoformat() if node.lifecycle.until else None,
             "overdue": _overdue(node.lifecycle, today)}
            for node in ordered
        ]}, indent=2))
        return
    if not ordered:
        click.echo(f"All {len(found)} nodes are in service.")
        return
    by_lifecycle: dict[Lifecycle, list[str]] = {}
    for node in ordered:
        by_lifecycle.setdefault(node.lifecycle, []).append(node.name)
    rows = [(fold(names), f"{_lifecycle_text(value)}{', OVERDUE' if _overdue(value, today) else ''}")
            for value, names in by_lifecycle.items()]
    width = min(max(len(names) for names, _ in rows), 60)
    for names, words in rows:
        click.echo(f"{names:{width}}  {words}")


def _overdue(value: Lifecycle, today: dt.date) -> bool:
    return value.until is not None and value.until < today
