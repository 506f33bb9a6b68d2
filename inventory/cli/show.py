"""`muster inventory check|show|nodes`: check the file, show one node's values, and expand node sets."""

from __future__ import annotations

import datetime as dt
import json
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any

import click

from inventory.cli import completing
from inventory.cli.formatted import as_json as format_option
from inventory.cli.formatted import formats
from inventory.errors import ConfigError, Mark, UsageError
from inventory.load import load_inventory, load_with_origins
from inventory.locate import needed_inventory
from inventory.model import (
    Bmc,
    BurnInSettings,
    CordonBy,
    Lifecycle,
    Node,
    PortPlan,
    Secret,
    StageLimits,
    Via,
)
from inventory.nodeset import fold
from inventory.reasons import fold_reasons
from inventory.select import select
from inventory.text import clean, many

# The root command may put functions here, in click's Context.meta, that return the names of the known SKUs
# and profiles: these come with the rules, which this package does not know.
_BMC = {"speaks": "protocol", "secret": "password"}      # what the file calls them
SKUS, PROFILES = "muster.skus", "muster.profiles"

_CLIENT = {"paramiko": "muster itself", "openssh": "the system's ssh"}

_file = click.option(
    "--inventory", "-i", "file", metavar="FILE",
    help="Inventory file. Default: MUSTER_INVENTORY, ./muster.yaml, ~/.config, /etc.",
)
_format = formats()


@click.command(short_help="Check the file and summarise it.")
@_file
@format_option("json: the document (muster.inventory-check/1).")
@click.pass_context
def check(ctx: click.Context, file: str | None, as_json: bool) -> None:
    """Check the file; print a summary, or the first error with its line. It makes no connection.

    \b
    muster inventory check
    muster inventory check -i new.yaml && cp new.yaml /etc/muster/muster.yaml

    Exit: 0 the file is right, 2 it is wrong.
    """
    path = _found(file)
    known = _known_skus(ctx)
    found = load_inventory(path, known, _known_profiles(ctx))
    routes, unreached = _routes(found)
    today = dt.date.today()
    overdue = [node for node in found if node.lifecycle.until is not None and node.lifecycle.until < today]
    if as_json:
        click.echo(json.dumps({
            "schema": "muster.inventory-check/1", "file": str(path), "nodes": len(found),
            "groups": len(found.groups), "lifecycle": Counter(node.lifecycle.state.value for node in found),
            "sku": _given(node.sku for node in found), "skus_known": known is not None,
            "rack": _given(node.rack for node in found),
            "cordon": None if found.cordon is None else found.cordon.by.value,
            "ssh": {by: len(names) for by, names in routes.items()},
            "notes": [{"nodes": each.names, "text": clean(each.text)} for each in fold_reasons(unreached)],
            "overdue": [node.name for node in overdue]}, indent=1))
        return
    click.echo(f"{path}: OK, {many(len(found), 'node')}, {many(len(found.groups), 'group')}")
    click.echo(f"  lifecycle  {_tally(node.lifecycle.state.value for node in found)}")
    click.echo("  sku        "
               f"{_tally(node.sku for node in found)}{'' if known is not None else ' (names not checked)'}")
    click.echo(f"  rack       {_tally(node.rack for node in found)}")
    if found.cordon is not None:
        click.echo(f"  cordon     {_cordon(found.cordon)}")
    if routes:
        click.echo(f"  ssh        "
                   f"{', '.join(f'{len(names)} by {_CLIENT[by]}' for by, names in routes.items())}")
    for each in fold_reasons(unreached):
        click.echo(f"  ssh: {each.names}: {clean(each.text)}")
    for state in sorted({node.lifecycle.state.value for node in overdue}):
        names = fold(node.name for node in overdue if node.lifecycle.state.value == state)
        click.echo(f"  note: lifecycle {state} is overdue: {names}")


@click.command(short_help="Show one node's values and where each comes from.")
@click.argument("node", shell_complete=completing.node)
@_file
@_format
@click.pass_context
def show(ctx: click.Context, node: str, file: str | None, fmt: str) -> None:
    """Show all values of one node, the line of the file that sets each, and how SSH reaches the node.

    \b
    muster inventory show gpu007
    muster inventory show gpu007 --format json | jq .values.rack
    """
    loaded = load_with_origins(_found(file), _known_skus(ctx), _known_profiles(ctx))
    chosen = select(loaded.inventory, node)
    if len(chosen) != 1:
        raise UsageError(
            f"{node} names {len(chosen)} nodes, expected one; see them with: muster inventory nodes '{node}'")
    one = chosen[0]
    values = node_values(one)
    origins = loaded.origins[one.name]
    groups = [name for name, members in loaded.inventory.groups.items() if one.name in members]
    reach = _reach(one)
    cordon = loaded.inventory.cordon
    if fmt == "json":
        click.echo(json.dumps({
            "schema": "muster.node/1", "node": one.name, "source": loaded.inventory.source, "groups": groups,
            "ssh": reach, "cordon": None if cordon is None
            else {"by": cordon.by.value, "path": cordon.path, "argv": list(cordon.argv)},
            "values": {key: {"value": value, "from": _place(origins.get(key))}
                       for key, value in values.items()},
        }, indent=2))
        return
    rows = [(key, _text(value), _origin(origins, key)) for key, value in values.items()
            if value not in (None, [])]
    click.echo(one.name + (f"  in {', '.join('@' + name for name in groups)}" if groups else ""))
    _columns(rows)
    if cordon is not None:
        click.echo(f"  cordon: {_cordon(cordon)}")
    click.echo(f"  ssh: {reach['error'] or reach['to']}")
    if reach["by"] is not None:
        click.echo(f"  ssh: by {_CLIENT[reach['by']]}{', because:' if reach['why'] else ''}")
    for line in reach["why"]:
        click.echo(f"  ssh:   {line}")


@click.command(short_help="Print the nodes that a node set names.")
@click.argument("nodeset", required=False, shell_complete=completing.nodes)
@click.option("--expand", is_flag=True, help="One name per line, for a pipe.")
@click.option("--group", metavar="NAME", help="Only nodes of this group.")
@_file
@_format
@click.pass_context
def nodes(
    ctx: click.Context, nodeset: str | None, expand: bool, group: str | None, file: str | None, fmt: str,
) -> None:
    """Print the nodes that NODESET names (all, without it), folded.

    NODESET is in ClusterShell's syntax: gpu[001-064], @train, 'gpu*', with , for union, ! for difference, &
    for intersection and ^ for symmetric difference, from left to right.

    \b
    muster inventory nodes '@train!gpu007'
    muster inventory nodes @train --expand | xargs -n1 ...
    """
    found = load_inventory(_found(file), _known_skus(ctx))
    chosen = select(found, nodeset)
    if group is not None:
        members = frozenset(node.name for node in select(found, f"@{group.removeprefix('@')}"))
        chosen = [node for node in chosen if node.name in members]
    if fmt == "json":
        click.echo(json.dumps([{"node": node.name} | node_values(node) for node in chosen], indent=2))
    elif expand:
        for node in chosen:
            click.echo(node.name)
    elif chosen:
        click.echo(fold(node.name for node in chosen))


def node_values(node: Node) -> dict[str, Any]:
    """A node's values for JSON, in the model's order; labels, ports and the like as `labels.zone`."""
    values: dict[str, Any] = {}
    for field in fields(node):
        value = getattr(node, field.name)
        if field.name in ("name", "default_limits"):
            continue
        if isinstance(value, StageLimits):
            value = {key: inner for key, inner in vars(value.over(node.default_limits)).items()
                     if inner is not None}
        if isinstance(value, BurnInSettings):
            value = {key: inner for key, inner in vars(value).items() if inner not in (None, ())}
        if isinstance(value, Bmc):
            value = {_BMC.get(key, key): inner for key, inner in vars(value).items() if inner is not None}
        if isinstance(value, Mapping):
            values |= {f"{field.name}.{key}": _plain(inner) for key, inner in value.items()}
        else:
            values[field.name] = _plain(value)
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, Lifecycle):
        until = value.until.isoformat() if value.until is not None else None
        return {"state": value.state.value, "owner": value.owner, "until": until}
    if isinstance(value, PortPlan):
        return dict(vars(value))
    if isinstance(value, Secret):
        return {value.source.value: list(value.words) if len(value.words) > 1 else value.words[0]}
    if isinstance(value, Enum):
        return value.value
    return list(value) if isinstance(value, tuple) else value


def _text(value: Any) -> str:
    if isinstance(value, dict):
        text = ((key, shlex.join(inner) if isinstance(inner, list) else inner) for key, inner in value.items()
                if inner is not None)
        return ", ".join(f"{key} {inner}" for key, inner in text)
    if isinstance(value, list):
        return ", ".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _origin(origins: Mapping[str, Mark], key: str) -> str:
    return str(origins[key]) if key in origins else "default"


def _place(mark: Mark | None) -> dict[str, Any] | None:
    return mark._asdict() if mark is not None else None


def _columns(rows: Iterable[tuple[str, ...]]) -> None:
    table = list(rows)
    widths = [max((len(row[at]) for row in table), default=0) for at in range(2)]
    for key, value, origin in table:
        click.echo(f"  {key:{widths[0]}}  {value:{min(widths[1], 60)}}  {origin}")


def _reach(node: Node) -> dict[str, Any]:
    """How SSH would reach a node, by inventory and ssh_config; makes no connection."""
    from inventory.sshconfig import default_config
    from inventory.sshroute import route_for

    try:
        route = route_for(node, default_config())
    except ConfigError as problem:
        return {"to": None, "error": str(problem), "by": None, "why": []}
    target = route.target
    jump = f" through {target.proxy_jump}" if target.proxy_jump else ""
    why = [*route.why, *(["this machine has no ssh: install it (apt-get install openssh-client)"]
                         if route.via is Via.OPENSSH and shutil.which("ssh") is None else [])]
    return {"to": f"{target.user}@{target.hostname} port {target.port}{jump}", "error": None,
            "by": route.via.value, "why": why}


def _routes(nodes: Iterable[Node]) -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
    """Which client reaches which nodes; and of each node why so, or why none can reach it."""
    ways: dict[str, list[str]] = {}
    reasons: list[tuple[str, str]] = []
    for node in nodes:
        reach = _reach(node)
        if reach["error"] is not None:
            reasons.append((node.name, f"ssh cannot begin: {reach['error']}"))
            continue
        ways.setdefault(reach["by"], []).append(node.name)
        reasons += [(node.name, f"by {_CLIENT[reach['by']]}: {line}") for line in reach["why"]]
    return ways, reasons


def _given(values: Iterable[str | None]) -> dict[str, int]:
    """How often each value stands there; "" counts those without one."""
    return Counter(value or "" for value in values)


def _cordon(cordon: CordonBy) -> str:
    what = cordon.path or (f"{shlex.join(cordon.argv)} (at most {cordon.seconds:g} s)" if cordon.argv else "")
    if (there := cordon.kubernetes) is not None:
        chosen = [f"{key} {value}" for key, value in (("config", there.config), ("context", there.context))
                  if value is not None]
        what = ", ".join([*chosen, f"nodes by label {there.label}" if there.label is not None
                          else f"nodes as {there.name}"])
    return f"{cordon.by.value} {what}".rstrip()


def _known_skus(ctx: click.Context) -> Collection[str] | None:
    names: Callable[[], Collection[str]] | None = ctx.meta.get(SKUS)
    return names() if names is not None else None


def _known_profiles(ctx: click.Context) -> Collection[str] | None:
    names: Callable[[], Collection[str]] | None = ctx.meta.get(PROFILES)
    return names() if names is not None else None


def _found(file: str | None) -> Path:
    return needed_inventory(file, "no inventory found: name one with --inventory FILE or MUSTER_INVENTORY, "
                            "or write ./muster.yaml (muster inventory --help shows one)")


def _tally(values: Iterable[str | None], most: int = 8) -> str:
    counts = Counter("not given" if value is None else value for value in values)
    shown = [f"{number} {name}" for name, number in counts.most_common(most)]
    return ", ".join(shown) + (f", and {len(counts) - most} more" if len(counts) > most else "")
