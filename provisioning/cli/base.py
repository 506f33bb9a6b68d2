"""`muster bringup base`: the base configuration of nodes, shown as a diff and made so."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from inventory.cli.span import span
from inventory.model import Node


@click.command("base", short_help="Show what of the base configuration differs on nodes, and make it so.")
@click.argument("nodes")
@click.option("--apply", "apply", is_flag=True, help="Make it so; without it nothing is changed.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document of all nodes.")
@click.option("--become", is_flag=True, help="Go through sudo, whatever the inventory says.")
@click.option("--rules", metavar="DIR", help="Site rules, as for muster check; `base:` of bringup.yaml says what is wanted.")
@click.option("--fanout", metavar="N", type=click.IntRange(1, 1024), default=64, show_default=True, help="Nodes at a time.")
@click.option("--timeout", metavar="SPAN", callback=span(1, 86400), help="For all of it. [1m a node; 4m with --apply]")
@click.option("--inventory", "-i", metavar="FILE", help="Default: as for muster check.")
def base(
    nodes: str, apply: bool, as_json: bool, become: bool, rules: str | None, fanout: int, timeout: float | None, inventory: str | None,
) -> int:
    """Show what of the little that muster needs of a machine, and what is a hazard if absent, differs on NODES.

    That is: a time service, the clock, the host name, locked memory, nvidia-persistenced, nouveau kept out, nvidia_peermem, and
    kernel.numa_balancing. Only files that begin with "# Made by muster" are written, each whole; where a file of yours says otherwise, that
    is said and left to you. All else on a machine is for your own tools.

    \b
    muster bringup base @new                    the diff
    muster bringup base @new --apply
    muster bringup base gpu007 --apply --become

    To undo it, remove /etc/security/limits.d/muster.conf, /etc/systemd/system.conf.d/90-muster.conf, /etc/sysctl.d/90-muster.conf,
    /etc/modprobe.d/muster-nouveau.conf and /etc/modules-load.d/muster.conf, and restart the machine; services that were enabled and the
    host name stay.

    Exit: 0 all is so, 1 on some nodes it is not, 2 usage, 3 some did not answer.
    """
    from dataclasses import replace

    from healthcheck.cli.check import choose
    from healthcheck.config import rulesfolder
    from healthcheck.ruleset.ruleset import load_ruleset
    from inventory.model import Privilege
    from inventory.transport.remote import RemoteTransport
    from provisioning.base import page, send
    from provisioning.base.wish import wish
    from provisioning.bringup.policy.load import load

    folders = rulesfolder.folders(rules)
    wanted = wish(load(folders).base)
    chosen = list(choose(nodes, inventory, False, False, load_ruleset(folders)))
    # A new name disturbs what goes by the old one, and so whatever job is there.
    fixed = {node.name for node in chosen if node.in_service} | _maybe_busy(chosen, inventory)
    if become:
        chosen = [node if node.become else replace(node, privilege=Privilege.BECOME) for node in chosen]
    ask = send.make if apply else send.look
    order = {node.name: at for at, node in enumerate(chosen)}
    told = sorted(ask(chosen, RemoteTransport(), wanted, fanout=fanout, seconds=timeout, fixed=fixed), key=lambda one: order[one.node])
    if as_json:
        click.echo(json.dumps(page.document(told), indent=2))
    else:
        for line in page.lines(told):
            click.echo(line)
        if not apply and any(one.change for one in told):
            click.echo("Nothing was changed; --apply makes it so.")
    return page.code(told)


def _maybe_busy(chosen: Sequence[Node], option: str | None) -> set[str]:
    """Those not in service of which nobody can say that no job is there; why is told."""
    from inventory.load import load_inventory
    from inventory.locate import find_inventory
    from provisioning.bmc.may import why_not

    path = find_inventory(option)
    others = [node for node in chosen if not node.in_service]
    refused = why_not(load_inventory(path), others, off=True) if path is not None and others else {}
    for name, why in refused.items():
        click.echo(f"muster: {name} keeps its host name: {why}", err=True)
    return set(refused)
