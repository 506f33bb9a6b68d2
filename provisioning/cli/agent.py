"""`muster agent`: installs the agent on nodes, upgrades it, and shows its state."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from healthcheck.cli import completing
from healthcheck.cli.agentrun import run
from healthcheck.cli.options import check_sku
from inventory.cli.confirm import YES_MANY, confirm
from inventory.cli.folded import echo_folded
from inventory.cli.formatted import as_json as format_option
from inventory.cli.limits import FANOUT, LIMIT, announce
from inventory.cli.span import span
from inventory.cli.stacked import stacked
from provisioning.cli.agentmanifest import manifest

EXPORTER = "127.0.0.1:9847"

if TYPE_CHECKING:
    from inventory.model import Node
    from provisioning.agent.install import AgentRequest, AgentResult
    from provisioning.agent.rings import RingSize


@click.group()
def agent() -> None:
    """Have nodes check themselves on a timer: install the agent, upgrade it, roll it back, remove it.

    The agent goes to /opt/muster on the node, over the connection that `muster check` uses. It needs root
    there and Python 3.8, nothing else. Its results are in /var/lib/muster/agent and, where there is one, in
    node_exporter's folder for text files. `muster check --from-agent` judges them again here.

    \b
    muster agent install @train
    muster agent status @train
    muster agent upgrade @train         after muster, its rules or the inventory have changed
    muster agent rollback gpu007        back to the previous version
    muster agent uninstall gpu007       nothing is left
    muster agent manifest --image I     the DaemonSet for nodes without SSH or Python
    muster agent run                    one check of this machine, where muster itself is installed
    """


agent.add_command(run)
agent.add_command(manifest)


_common = stacked(
    click.option("--inventory", "-i", metavar="FILE", help="Default: as for muster check."),
    format_option("json: one JSON document of all nodes."),
    click.option("--become", is_flag=True, help="Go through sudo, whatever the inventory says."),
    click.option("--timeout", metavar="SPAN", callback=span(1, 86400),
                 help="Time limit for the whole command. [2m a node]"),
    LIMIT, FANOUT)
_sent = stacked(
    _common, YES_MANY,
    click.option("--dry-run", is_flag=True, help="Show what would be done and change nothing."),
    click.option("--sku", metavar="NAME", shell_complete=completing.sku, help="SKU of nodes that name none."),
    click.option("--rules", metavar="DIR", help="Site rules, as for muster check."),
    click.option("--exporter", metavar="[HOST:PORT]", is_flag=False, flag_value=EXPORTER,
                 help="Have each node serve its result to Prometheus there, or `none`. Without a value: "
                      f"{EXPORTER}."),
    click.option("--textfile", metavar="DIR",
                 help="node_exporter's folder on the nodes, or `none`. [the customary one]"),
    click.option("--profile", metavar="NAME", help="The profile of each check. [timer]"),
    click.option("--period", metavar="SPAN", callback=span(10, 86400), help="Time between two checks. [5m]"))


@agent.command(short_help="Put the agent on nodes.")
@click.argument("nodes", shell_complete=completing.node_set)
@_sent
def install(nodes: str, **options: Any) -> int:
    """Install this version, its rules and each node's inventory entry on NODES, and have systemd (or cron)
    start it.

    A second run does nothing, or finishes an interrupted one. The version in use stays active until the new
    one is complete and has started once. Then a rename switches `current`; the previous version stays for
    `muster agent rollback`.

    \b
    muster agent install @train
    muster agent install 'gpu[001-004]' --period 1m --become
    muster agent install @train --exporter 0.0.0.0:9847

    Exit: 0 in use on all nodes, 1 not on some, 2 usage.
    """
    return _send("INSTALL", nodes, **options)


@agent.command(short_help="Bring the agent up to date where it is installed.")
@click.argument("nodes", shell_complete=completing.node_set)
@click.option("--rings", metavar="SIZES", default="1,10%,rest", show_default=True,
              help="Nodes, or per cent of all, that are upgraded one ring after another; the last is `rest`.")
@click.option("--wait", metavar="SPAN", callback=span(0, 86400),
              help="Time for the first results of a ring; 0s compares nothing. [150s, and two periods with "
                   "cron]")
@_sent
def upgrade(nodes: str, rings: str, wait: float | None, **options: Any) -> int:
    """As install, but only where an agent is installed, and in rings. A running check is not disturbed.

    After a ring, the agents' first results by the new version are compared with those before. The next ring
    begins only if no node of this one got worse: silent, in a worse state, or with results that became
    UNKNOWN. Nodes that have the version already are in no ring, so that a stopped upgrade goes on where it
    was. A node where it fails is named and keeps its version.

    Period, profile, SKU, textfile and exporter stay on each node as installed, except for those given here.

    \b
    muster agent upgrade @train --dry-run
    muster agent upgrade @train --rings 1,8,25%,rest
    muster agent upgrade @train --rings rest --wait 0s      all at once, and no comparison

    Exit: 0 in use on all nodes, 1 not on some, 2 usage, 4 nodes got worse, and the rings after theirs did not
    begin.
    """
    from provisioning.agent.rings import ring_sizes

    return _send("UPGRADE", nodes, sizes=ring_sizes(rings), wait=wait, **options)


@agent.command(short_help="Go back to the previous version.")
@click.argument("nodes", shell_complete=completing.node_set)
@click.option("--dry-run", is_flag=True, help="Show what would be done and change nothing.")
@YES_MANY
@_common
def rollback(nodes: str, dry_run: bool, **options: Any) -> int:
    """Have NODES use the previous version, with its period and its exporter. A second run switches back.

    \b
    muster agent rollback gpu007

    Exit: 0 done, 1 some nodes have no usable previous version, 2 usage.
    """
    from provisioning.agent.install import AgentAction, AgentRequest

    return _act(AgentRequest(AgentAction.ROLLBACK, dry_run), nodes, **options)


@agent.command(short_help="Remove the agent and everything it made.")
@click.argument("nodes", shell_complete=completing.node_set)
@click.option("--keep-state", is_flag=True, help="Keep /var/lib/muster/agent: its results.")
@click.option("--dry-run", is_flag=True, help="Show what would be done and change nothing.")
@YES_MANY
@_common
def uninstall(nodes: str, keep_state: bool, dry_run: bool, **options: Any) -> int:
    """Remove everything from NODES: units, versions, the root-owned helper in /opt/muster, metrics, and state
    unless it is kept.

    \b
    muster agent uninstall gpu007

    Exit: 0 nothing is left, 1 something may be left on some nodes, 2 usage.
    """
    from provisioning.agent.install import AgentAction, AgentRequest

    return _act(AgentRequest(AgentAction.UNINSTALL, dry_run, keep_state=keep_state), nodes, **options)


@agent.command(short_help="Show which version is in use, and how old its newest result is.")
@click.argument("nodes", required=False, shell_complete=completing.node_set)
@_common
def status(nodes: str | None, **options: Any) -> int:
    """Ask NODES, or all of the inventory, for their agent: version, digest, timer, Python, and how old the
    newest result is.

    \b
    muster agent status @train
    muster agent status --format json | jq '.nodes[] | select(.installed | not)'

    Exit: 0 all are installed and complete, with results at most two periods old; 1 some are not; 2 usage; 3
    some did not answer.
    """
    from provisioning.agent.install import AgentAction, AgentRequest

    return _act(AgentRequest(AgentAction.STATUS), nodes, **options)


def _send(
    do: str, nodes: str, period: float | None, profile: str | None, textfile: str | None,
    exporter: str | None, rules: str | None, sku: str | None, dry_run: bool, **options: Any,
) -> int:
    from provisioning.agent import units
    from provisioning.agent.install import AgentAction, AgentRequest

    message = {
        "period": period, "occasion": profile, "textfile": textfile, "exporter": exporter, "default_sku": sku}
    given: dict[str, Any] = {name: value for name, value in message.items() if value is not None}
    if textfile == "none":
        given["textfile"] = ""
    if exporter == "none":
        given["exporter"] = None
    elif exporter is not None:
        units.exporter(exporter)
    return _act(
        AgentRequest(AgentAction[do], dry_run, **given), nodes, rules=rules, given=tuple(given), **options)


def _act(
    desired: AgentRequest, nodes: str | None, inventory: str | None, become: bool, as_json: bool,
    timeout: float | None, fanout: int, yes: bool = False, rules: str | None = None,
    given: tuple[str, ...] = (), sizes: Sequence[RingSize] = (), wait: float | None = None,
) -> int:
    """Runs the request and prints each node's result as it is known, or one document at the end."""
    from dataclasses import replace

    from healthcheck.cli.check import choose
    from healthcheck.ruleset.ruleset import ruleset_of
    from inventory.model import Privilege
    from inventory.release import VERSION
    from inventory.transport.remote import RemoteTransport
    from provisioning.agent import bundle, install
    from provisioning.agent.reinstall import act_keeping

    ruleset = ruleset_of(rules)
    check_sku(desired.default_sku, ruleset)
    ruleset.named(desired.occasion)
    chosen: list[Node] = list(choose(nodes, inventory, False, False, ruleset, desired.default_sku))
    helped = [node for node in chosen if node.privilege is Privilege.HELPER]
    if become:
        chosen = [node if node.become else replace(node, privilege=Privilege.BECOME) for node in chosen]
    if desired.do is not install.AgentAction.STATUS:
        confirm(f"agent {desired.do.value} on", [node.name for node in chosen], stops=False,
                yes=yes or desired.dry)
    made = bundle.build(
        ruleset) if desired.do in (install.AgentAction.INSTALL, install.AgentAction.UPGRADE) else None
    done = []
    limits = install.bounds(chosen, timeout, fanout)
    if not as_json:
        announce(chosen, limits, timeout)
    if desired.do is install.AgentAction.UPGRADE:
        from provisioning.cli.agentupgrade import RingReport

        def some(ring: Sequence[Node], asked: AgentRequest) -> Iterable[AgentResult]:
            within = install.bounds(ring, timeout, fanout)
            if asked.do is install.AgentAction.STATUS:
                return install.act(ring, RemoteTransport(), asked, within)
            return act_keeping(ring, RemoteTransport(), asked, given, within, ruleset, made, helped)

        printed = RingReport(chosen, some, as_json=as_json)
        code = printed.run(desired, sizes, wait)
        _sudoers({node.user for node in helped if node.name in printed.upgraded})
        return code
    if desired.do is install.AgentAction.ROLLBACK:
        results = act_keeping(chosen, RemoteTransport(), desired, given, limits, ruleset, made, helped)
    else:
        results = install.act(chosen, RemoteTransport(), desired, limits, made, helped)
    for one in results:
        done.append(one)
        if one.ok and not as_json and desired.do is not install.AgentAction.STATUS:
            click.echo(f"{one.node}: {one.message}")
    order = {node.name: number for number, node in enumerate(chosen)}
    done.sort(key=lambda one: order[one.node])
    if desired.do is install.AgentAction.STATUS:
        from provisioning.agent import status as report

        return report.show(
            [report.status(one) for one in done], VERSION, as_json=as_json)
    if not as_json:
        echo_folded((one.node, f"NOT done: {one.message}") for one in done if not one.ok)
    if as_json:
        click.echo(json.dumps({
            "schema": "muster.agent-done/1", "do": desired.do.value,
            "nodes": [{
                "node": one.node, "ok": one.ok, "said": one.message,
                "changed": one.changed} for one in done]}, indent=2))
    if made is not None and not desired.dry:
        well = {one.node for one in done if one.ok}
        _sudoers({node.user for node in helped if node.name in well})
    return int(any(not one.ok for one in done))


def _sudoers(users: set[str | None]) -> None:
    """Prints the sudoers line for checks by the installed helper; the node's administrator decides."""
    from healthcheck.collector import helper

    for user in sorted(user or "muster" for user in users):
        click.echo(f"muster: the helper is installed; for checks by {user}, put this into "
                   "/etc/sudoers.d/muster on these nodes:", err=True)
        sys.stderr.write(helper.sudoers(user, helper.path()))
