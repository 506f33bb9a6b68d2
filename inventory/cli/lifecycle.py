"""`muster inventory lifecycle`: who is not in service and why; and changes that in the inventory file."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import click

from inventory.cli.look import _file, _format, _found, _known_skus
from inventory.cli.propose import dry_run_option, propose, yes_option
from inventory.edit import InventoryFile, read_document
from inventory.errors import UsageError
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
@click.argument("nodes", required=False)
@click.argument("state", required=False, metavar="[STATE]")
@click.option("--owner", metavar="WHO", help="Who has the node now: a team, a person, the vendor.")
@click.option("--until", metavar="DATE", help="Until when it should last: 2026-12-01, or 14d or 2w from today.")
@yes_option
@dry_run_option
@_file
@_format
@click.pass_context
def lifecycle(ctx: click.Context, nodes: str | None, state: str | None, owner: str | None, until: str | None,
              yes: bool, dry_run: bool, file: str | None, form: str) -> None:
    """Give NODES another lifecycle STATE: planned, bringup, service, maintenance, rma or retired. Only nodes in service count.

    Without STATE, list who is not in service, with owner, date, and what is overdue.

    \b
    muster inventory lifecycle gpu007 rma --owner vendor --until 14d
    muster inventory lifecycle gpu007 service
    muster inventory lifecycle
    muster inventory lifecycle --format json | jq '.nodes[] | select(.overdue)'

    The file is edited in place: comments and order stay, the difference is shown, and then you are asked. An owner and a date stay
    while the state stays, and go with it. Exit: 0 done, or nothing to change, 2 the file or the command is wrong.
    """
    given = InventoryFile.read(_found(file))
    skus = _known_skus(ctx)
    source = str(given.path)
    loaded = parse_with_origins(given.text, source, skus)
    chosen = select(loaded.inventory, nodes)
    if state is None:
        if owner is not None or until is not None:
            raise UsageError("--owner and --until go with a STATE")
        _list(loaded.inventory, chosen if nodes is not None else [node for node in chosen if not node.in_service], form)
        return
    today = dt.date.today()
    aim = Lifecycle(_state(state), _owner(owner), _date(until, today))
    wanted = {node.name: _next(node.lifecycle, aim) for node in chosen}
    changing = {name: value for name, value in wanted.items() if value != loaded.inventory.nodes[name].lifecycle}
    names = fold(wanted)
    if not changing:
        click.echo(f"{names}: {_words(next(iter(wanted.values())))} already; nothing to change")
        return

    after = edited(given, loaded, wanted, skus)
    if propose(source, given.text, after, lambda: given.write(after), yes=yes, dry_run=dry_run):
        click.echo(f"{fold(changing)}: {', '.join(dict.fromkeys(map(_words, changing.values())))}; written to {source}")


def edited(given: InventoryFile, loaded: LoadedInventory, wanted: Mapping[str, Lifecycle], skus: Collection[str] | None) -> str:
    """The file's text with which these nodes have these lifecycles, and everything else is as it was. Raises InventoryError."""
    source = str(given.path)

    def meant(before: Inventory) -> dict[str, Node]:
        return {node.name: replace(node, lifecycle=wanted.get(node.name, node.lifecycle)) for node in before}

    want = DesiredValues(("lifecycle",), {name: _spelt(value) for name, value in wanted.items()}, _otherwise(given, source),
                         tidy=True, meaning=_meaning)
    return change(given.text, source, [want], {}, meant, {}, loaded, skus)


def _next(now: Lifecycle, aim: Lifecycle) -> Lifecycle:
    if now.state is aim.state:
        return Lifecycle(aim.state, aim.owner or now.owner, aim.until or now.until)
    return aim


def _spelt(value: Lifecycle) -> Any:
    if value.owner is None and value.until is None:
        return value.state.value
    spelt = {"state": value.state.value, "owner": value.owner, "until": value.until and value.until.isoformat()}
    return {key: inner for key, inner in spelt.items() if inner is not None}


def _meaning(value: Any) -> Any:
    """One form for `rma` and {state: rma}."""
    found = value if isinstance(value, dict) else {"state": value}
    return [found.get(key) if found.get(key) is None else str(found[key]) for key in ("state", "owner", "until")]


def _otherwise(given: InventoryFile, source: str) -> Any:
    defaults = read_document(given.text, source).get("defaults") or {}
    return defaults.get("lifecycle", LifecycleState.SERVICE.value)


def _state(text: str) -> LifecycleState:
    if text not in _STATES:
        raise UsageError(f"{short(text)} is no lifecycle state: expected one of {', '.join(_STATES)}{did_you_mean(text, _STATES)}")
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
        day = today + dt.timedelta(days=int(span[1]) * (7 if span[2] == "w" else 1)) if span else dt.date.fromisoformat(text)
    except (ValueError, OverflowError):
        raise UsageError(f"--until is {short(text)}, expected a date such as 2026-12-01, or 14d, or 2w") from None
    if day < today:
        raise UsageError(f"--until is {day}, which has passed (today is {today})")
    return day


def _words(value: Lifecycle) -> str:
    owner = f", owner {value.owner}" if value.owner is not None else ""
    return f"{value.state.value}{owner}{f', until {value.until}' if value.until is not None else ''}"


def _list(found: Inventory, chosen: Iterable[Node], form: str) -> None:
    today = dt.date.today()
    ordered = sorted(chosen, key=lambda node: natural(node.name))
    if form == "json":
        click.echo(json.dumps({"schema": "muster.lifecycle/1", "source": found.source, "nodes": [
            {"node": node.name, "state": node.lifecycle.state.value, "owner": node.lifecycle.owner,
             "until": node.lifecycle.until.isoformat() if node.lifecycle.until else None, "overdue": _overdue(node.lifecycle, today)}
            for node in ordered
        ]}, indent=2))
        return
    if not ordered:
        click.echo(f"All {len(found)} nodes are in service.")
        return
    alike: dict[Lifecycle, list[str]] = {}
    for node in ordered:
        alike.setdefault(node.lifecycle, []).append(node.name)
    rows = [(fold(names), f"{_words(value)}{', OVERDUE' if _overdue(value, today) else ''}") for value, names in alike.items()]
    width = min(max(len(names) for names, _ in rows), 60)
    for names, words in rows:
        click.echo(f"{names:{width}}  {words}")


def _overdue(value: Lifecycle, today: dt.date) -> bool:
    return value.until is not None and value.until < today
