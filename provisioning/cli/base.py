"""`muster bringup base`: shows the base configuration of nodes as a diff, and applies it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from healthcheck.cli import completing
from inventory.cli.formatted import as_json as format_option
from inventory.cli.limits import FANOUT, LIMIT
from inventory.cli.span import span
from inventory.model import Node


@click.command("base", short_help="Show where the base configuration of nodes differs, and apply it.")
@click.argument("nodes", shell_complete=completing.node_set)
@click.option("--apply", "apply", is_flag=True, help="Apply it. Without this, nothing changes.")
@format_option("json: one JSON document of all nodes.")
@click.option("--become", is_flag=True, help="Go through sudo, whatever the inventory says.")
@click.option("--rules", metavar="DIR",
              help="Site rules, as for muster check; `base:` in bringup.yaml is the desired state.")
@LIMIT
@FANOUT
@click.option("--timeout", metavar="SPAN", callback=span(1, 86400),
              help="Time limit for the whole command. [1m a node; 4m with --apply]")
@click.option("--inventory", "-i", metavar="FILE", help="Default: as for muster check.")
def base(
    nodes: str, apply: bool, as_json: bool, become: bool, rules: str | None, fanout: int,
    timeout: float | None, inventory: str | None,
) -> int:
    """Show where NODES differ from the little that muster needs of a machine.

    It checks a time service, the clock, the host name, locked memory, nvidia-persistenced, that nouveau is
    off, nvidia_peermem, and kernel.numa_balancing. It writes only files that begin with "# Made by muster",
    each whole. If a file of yours says otherwise, muster reports it and leaves it to you. Everything else on
    a machine is for your own tools.

    \b
    muster bringup base @new                    the diff
    muster bringup base @new --apply
    muster bringup base gpu007 --apply --become

    To undo this, remove /etc/security/limits.d/muster.conf, /etc/systemd/system.conf.d/90-muster.conf,
    /etc/sysctl.d/90-muster.conf, /etc/modprobe.d/muster-nouveau.conf and /etc/modules-load.d/muster.conf, and
    restart the machine; services that were enabled and the host name stay.

    Exit: 0 nothing differs, 1 some nodes differ, 2 usage, 3 some did not answer.
    """
    from dataclasses import replace

    from healthcheck.cli.check import choose
    from healthcheck.config import rulesfolder
    from healthcheck.ruleset.ruleset import load_ruleset
    from inventory.model import Privilege
    from inventory.transport.remote import RemoteTransport
    from provisioning.base import page, send
    from provisioning.base.desired import desired
    from provisioning.bringup.policy.load import load

    folders = rulesfolder.folders(rules)
    wanted = desired(load(folders).base)
    chosen = list(choose(nodes, inventory, False, False, load_ruleset(folders)))
    # A new host name disturbs any job that uses the old one.
    fixed = {node.name for node in chosen if node.in_service} | _maybe_busy(chosen, inventory)
    if become:
        chosen = [node if node.become else replace(node, privilege=Privilege.BECOME) for node in chosen]
    ask = send.make if apply else send.look
    order = {node.name: at for at, node in enumerate(chosen)}
    report = sorted(ask(chosen, RemoteTransport(), wanted, fanout=fanout, seconds=timeout, fixed=fixed),
                    key=lambda one: order[one.node])
    if as_json:
        click.echo(json.dumps(page.document(report), indent=2))
    else:
        for line in page.lines(report):
            click.echo(line)
        if not apply and any(one.change for one in report):
            click.echo("Nothing changed. Run again with --apply to do this.")
    return page.code(report)


def _maybe_busy(chosen: Sequence[Node], option: str | None) -> set[str]:
    """Nodes not in service that may have a job; prints why."""
    from inventory.load import load_inventory
    from inventory.locate import find_inventory
    from provisioning.bmc.permission import why_not

    path = find_inventory(option)
    others = [node for node in chosen if not node.in_service]
    refused = why_not(load_inventory(path), others, off=True) if path is not None and others else {}
    for name, why in refused.items():
        click.echo(f"muster: {name} keeps its host name: {why}", err=True)
    return set(refused)
