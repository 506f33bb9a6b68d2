"""`muster bmc console`: what a machine wrote to its serial console, saved or as it comes."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.options import STATE
from inventory.cli.chosen import needed
from inventory.cli.formatted import as_json as format_option
from inventory.errors import UsageError
from inventory.locate import state_dir
from inventory.times import second
from provisioning.cli.bmccommon import NO_INVENTORY

if TYPE_CHECKING:
    from healthcheck.baseline.catalogue import Catalogue
    from inventory.model import Node
    from provisioning.console.log import ConsoleLine

SCHEMA = "muster.console/1"
_LOOK_S = 0.5


@click.command()
@click.argument("node", shell_complete=completing.node_set)
@click.option("--follow", "-f", is_flag=True,
              help="Capture the console and print it as it comes, until you interrupt it.")
@click.option("--lines", metavar="N", type=click.IntRange(1, 2000), default=200, show_default=True,
              help="Saved lines to print, the newest.")
@click.option("--rules", metavar="DIR", help="A folder of site rules over the packaged catalogue.")
@STATE
@click.option("--inventory", "-i", "file", metavar="FILE",
              help="Default: MUSTER_INVENTORY, ./muster.yaml, ~/.config, /etc.")
@format_option("json: one JSON document (muster.console/1) of the saved lines.")
def console(
    node: str, follow: bool, lines: int, rules: str | None, state: str | None, file: str | None,
    as_json: bool,
) -> int:
    """Show what NODE wrote to its serial console, and what the kernel catalogue knows of it.

    Without --follow it prints what was saved, by bring-up or an earlier --follow, and asks nothing. --follow
    reads the console log of the Redfish service, or opens serial over LAN; it only listens, and types
    nothing. What it prints is saved, too. While a run of bring-up captures this machine it prints what that
    saves. The one session that a controller has is never taken from another.

    \b
    muster bmc console gpu007
    muster bmc console gpu007 --follow

    Exit: 0 fine, 1 the catalogue knows a fault in it, 2 usage, 3 nothing was captured.
    """
    if follow and as_json:
        raise UsageError("--format json prints one document, and --follow goes on: leave one out")
    nodes, _ = needed(node, file, NO_INVENTORY)     # what is saved is shown without a controller, too
    if len(nodes) != 1:
        raise UsageError(f"NODE names {len(nodes)} nodes; a console is shown of one")
    return _followed(nodes[0], state) if follow else _saved(nodes[0], state, rules, lines, as_json)


def _saved(node: Node, state: str | None, rules: str | None, most: int, as_json: bool) -> int:
    from provisioning.console.log import captured, tail
    from provisioning.console.verdict import judged

    folder = state_dir(state)
    found = tail(folder, node.name, most=most)
    text = [one.text for one in found if one.mark is None]
    known = _catalogue(rules) if text else None
    findings = judged(text, known) if known is not None else ()
    with suppress(BrokenPipeError):
        if as_json:
            click.echo(json.dumps({
                "schema": SCHEMA, "node": node.name, "capturing": captured(folder, node.name),
                "lines": [{"time": one.time, "mark": one.mark.value if one.mark else None, "text": one.text}
                          for one in found],
                "findings": [{"entry": one.entry.id, "severity": one.entry.severity.value,
                              "owner": one.entry.owner.value, "meaning": one.entry.meaning,
                              "remedy": one.entry.remedy, "line": one.line, "count": one.count}
                             for one in findings]}, indent=1))
        else:
            for one in found:
                click.echo(_shown(one))
            for each in findings:
                click.echo(f"{each.entry.severity.value}: {each.entry.id} ({each.count}x, "
                           f"{each.entry.owner.value}): {each.entry.meaning}\n    next: {each.entry.remedy}")
            if not text:
                click.echo(f"note: nothing of {node.name}'s console is saved: muster bmc console {node.name} "
                           "--follow, or console: of bringup.yaml", err=True)
    return 3 if not text else 1 if findings else 0


def _catalogue(rules: str | None) -> Catalogue | None:
    from healthcheck.ruleset.ruleset import ruleset_of

    kernel = ruleset_of(rules).kernel
    return kernel.catalogue if kernel is not None else None


def _followed(node: Node, state: str | None) -> int:
    """Prints until interrupted; 3 where nothing can be captured."""
    from provisioning.bringup.engine.signals import stop_signals
    from provisioning.console.capture import ConsoleCapture
    from provisioning.console.log import ConsoleFollow, captured

    folder, stop = state_dir(state), threading.Event()
    follow = ConsoleFollow(folder, node.name)
    others = captured(folder, node.name)
    capture = ConsoleCapture(node, folder)
    if others:
        click.echo(f"note: another muster captures {node.name}'s console; this is what it saves", err=True)
    else:
        capture.start()
    wrote = False
    with stop_signals(stop.set), suppress(BrokenPipeError):
        while True:
            ended = stop.is_set() or not (capture.running or (others and captured(folder, node.name)))
            for one in follow.new():
                wrote |= one.mark is None
                click.echo(_shown(one))
            if ended:
                break
            stop.wait(_LOOK_S)
    follow.close()
    capture.end()
    if not others:
        capture.join(10.0)
    return 0 if wrote or stop.is_set() else 3


def _shown(one: ConsoleLine) -> str:
    when = second(one.time)
    return f"{when} | {one.text}" if one.mark is None else f"{when} # {one.mark.value}: {one.text}"
