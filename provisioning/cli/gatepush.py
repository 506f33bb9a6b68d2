"""`muster gate push`: sends nodes the head's keys, the source to fetch from, and the gate snapshot."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from inventory.cli.confirm import YES_MANY, confirm
from inventory.cli.folded import echo_folded
from inventory.cli.limits import FANOUT, LIMIT
from inventory.cli.span import span
from inventory.errors import CertificateError, UsageError

if TYPE_CHECKING:
    from inventory.model import Node


@click.command(short_help="Send nodes the snapshot, and the keys to trust it.")
@click.argument("nodes", shell_complete=completing.node_set)
@click.option("--trust", is_flag=True,
              help="Have nodes trust the head's keys and no others. Use it once, and after a key was stolen.")
@click.option("--from", "source", metavar="SOURCE",
              help="Where agents fetch from: the URL of the exporter's /gate, or a folder.")
@click.option("--no-snapshot", is_flag=True, help="Send only what --trust and --from name.")
@click.option("--become", is_flag=True, help="Go through sudo, whatever the inventory says.")
@click.option("--dry-run", is_flag=True, help="Show what would be done and change nothing.")
@YES_MANY
@LIMIT
@FANOUT
@click.option("--timeout", metavar="SPAN", callback=span(1, 86400),
              help="Time limit for the whole command. [2m a node]")
@click.option("--inventory", "-i", metavar="FILE", help="Default: as for muster check.")
@click.option("--state", metavar="DIR",
              help="Folder of keys and snapshot. Default: MUSTER_STATE, XDG, /var/lib/muster.")
def push(
    nodes: str, trust: bool, source: str | None, no_snapshot: bool, become: bool, dry_run: bool, yes: bool,
    fanout: int, timeout: float | None, inventory: str | None, state: str | None,
) -> int:
    """Send NODES the newest snapshot over the connection that `muster check` uses, as root. Each verifies it
    before storing it.

    \b
    muster gate push @train --trust --from http://head:9847/gate
    muster gate push gpu007

    Exit: 0 all nodes have it, 1 some have not, 2 usage.
    """
    from healthcheck.certify.keys import NAMESPACES, load_keys
    from healthcheck.certify.pair import NoPair, read_pair
    from healthcheck.cli.check import choose
    from healthcheck.gate.publish import OURS
    from healthcheck.gate.snapshot import NAME
    from healthcheck.ruleset.ruleset import ruleset_of
    from inventory.locate import state_dir
    from inventory.model import Privilege
    from inventory.nodeset import fold
    from inventory.transport.remote import RemoteTransport
    from provisioning.agent.install import bounds
    from provisioning.gate.push import push as pushed

    if source is not None and (
        not source.startswith(("http://", "https://", "/")) or not source.isprintable() or " " in source):
        raise UsageError(f"--from {ascii(source)[:80]}: expected http://HOST:PORT/gate, https://..., or the "
                         "absolute path of a folder")
    if no_snapshot and not (trust or source):
        raise UsageError("--no-snapshot leaves nothing to do: add --trust, or --from SOURCE")
    folder = state_dir(state)
    keys = load_keys(folder)
    try:
        pair = None if no_snapshot else read_pair(str(folder / OURS), NAME)
    except NoPair as error:
        raise CertificateError(f"{error}; muster gate publish") from None
    chosen: list[Node] = list(choose(nodes, inventory, False, False, ruleset_of(None)))
    if become:
        chosen = [node if node.become else replace(node, privilege=Privilege.BECOME) for node in chosen]
    what = ", ".join(name for name, sent in (
        ("the snapshot", pair), ("the keys to trust", trust), ("where to fetch from", source)) if sent)
    if dry_run:
        click.echo(f"would send {what} to {fold(node.name for node in chosen)}")
        return 0
    confirm(f"send {what} to", [node.name for node in chosen], stops=False, yes=yes)
    lines = "".join(key.public.line(NAMESPACES[:1]) for key in keys.trusted)
    undone: list[tuple[str, str]] = []
    for one in pushed(chosen, RemoteTransport(), bounds(chosen, timeout, fanout),
                      keys=lines if trust else None, source=f"{source}\n" if source else None, snapshot=pair):
        if one.ok:
            click.echo(f"{one.node}: {one.message}")
        else:
            undone.append((one.node, f"NOT done: {one.message}"))
    echo_folded(undone)
    return int(bool(undone))
