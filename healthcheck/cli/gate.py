"""`muster gate`: whether these nodes may start a job."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.gate import locate
from healthcheck.gate.decide import Gate, GateDecision, Why, answer, worst
from inventory.cli.formatted import as_json as format_option
from inventory.cli.lazy import LazyCommand
from inventory.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from healthcheck.gate.reading import GateSnapshot
    from healthcheck.gate.spares import Filled

PLACES = {
    "publish": ("healthcheck.cli.gatepublish:publish", "Make and sign the snapshot, on the head."),
    "push": ("provisioning.cli.gatepush:push", "Copy the snapshot and the trusted keys to nodes."),
    "fetch": ("healthcheck.cli.gatepublish:fetch", "Fetch the newest snapshot, on a node."),
}


# Name a node of that name with --nodelist.
@click.command(cls=LazyCommand, places=PLACES)
@click.argument("nodes", required=False, shell_complete=completing.node_set)
@click.option("--nodelist", metavar="NODES", help="The same, for a variable; an empty one closes the gate.")
@click.option("--hostfile", metavar="FILE", help="The nodes in a launcher's file, one host per line.")
@click.option("--group", metavar="NAME", help="The nodes of an inventory group.")
@click.option("--slurm-prolog", is_flag=True, help="This node only, by its own name.")
@click.option("--quick", is_flag=True,
              help="If it opens, also check the nodes by the gate profile; takes seconds.")
@click.option("--write-hostfile", metavar="FILE",
              help="Write --need open nodes to FILE; --spares replace closed ones.")
@click.option("--need", metavar="N", type=click.IntRange(1, 100_000),
              help="With --write-hostfile: number of nodes. [as many as NODES]")
@click.option("--spares", metavar="NODES",
              help="With --write-hostfile: nodes that may replace closed ones, such as @spares.")
@format_option("json: the answer as muster.gate-answer/1.")
@click.option("--folder", metavar="DIR",
              help="Where the snapshot is. Default: MUSTER_GATE, /var/lib/muster/gate.")
@click.option("--keys", metavar="FILE", help="Trusted keys, as OpenSSH's allowed_signers. Default: "
                                             "MUSTER_GATE_KEYS, /etc/muster/gate.pub.")
@click.option("--inventory", "-i", metavar="FILE", help="With --quick: as for muster check.")
@click.option("--rules", metavar="DIR", help="With --quick: as for muster check.")
@click.option("--sku", metavar="NAME", shell_complete=completing.sku,
              help="With --quick: as for muster check; needed without an inventory.")
@click.option("--print", "hook", type=click.Choice(("slurm", "kubernetes")),
              help="Print the hook that puts the gate in front of jobs, and exit.")
def gate(
    nodes: str | None, nodelist: str | None, hostfile: str | None, group: str | None, slurm_prolog: bool,
    quick: bool, write_hostfile: str | None, need: int | None, spares: str | None, as_json: bool,
    folder: str | None, keys: str | None, inventory: str | None, rules: str | None, sku: str | None,
    hook: str | None,
) -> int:
    """Decide whether NODES may start a job, by the signed snapshot on this machine; works without the head.

    It opens if every node is certified, in service, not isolated, fresh and in a state that policy allows,
    and all have equal versions where policy says so. If muster itself lacks data, certified nodes may start
    within the policy's grace, with a note.

    \b
    muster gate 'gpu[001-064]' && srun train.sh
    muster gate --nodelist "$SLURM_JOB_NODELIST" --quick
    muster gate --hostfile hosts --write-hostfile hosts.open --need 512 --spares @spares
    muster gate --print slurm

    Exit: 0 open, 1 closed (with node, reason and what to do), 2 usage, 3 unknown, which also stops the job.
    """
    if hook is not None:
        return _print(hook)
    sources = [name for name, used in (("NODES", nodes), ("--nodelist", nodelist), ("--hostfile", hostfile),
                                       ("--group", group), ("--slurm-prolog", slurm_prolog or None))
               if used is not None]
    if len(sources) != 1:
        raise UsageError(f"{' and '.join(sources)} exclude each other" if sources
                         else "no node named: muster gate 'gpu[001-064]', or --nodelist, --hostfile, "
                              "--group, --slurm-prolog")
    if write_hostfile is None and (need is not None or spares is not None):
        raise UsageError("--need and --spares go with --write-hostfile")
    if not quick and any((inventory, rules, sku)):
        raise UsageError("--inventory, --rules and --sku go with --quick; the snapshot has its own policy")
    if write_hostfile is not None and slurm_prolog:
        raise UsageError("--slurm-prolog checks one node; it cannot write a hostfile")
    rests: dict[str, str] = {}
    if hostfile is not None:
        from pathlib import Path

        from healthcheck.gate.hostfile import read_hosts

        rests = read_hosts(Path(hostfile))
    held: GateSnapshot | None = None
    hosts: Filled | None = None
    names: Sequence[str] = tuple(rests)
    now = time.time()
    try:
        held = locate.load(locate.folder(folder), locate.trusted(keys))
        if hostfile is None:
            text = (f"@{group.removeprefix('@')}" if group is not None else nodelist if nodelist is not None
                    else nodes or "")
            names = (locate.own_name(held.names()),) if slurm_prolog else _expanded(text, held)
        decision = answer(held, names, now)
    except locate.Missing as trouble:
        decision = _barred(Gate.UNSURE, trouble)
    except locate.Forged as trouble:
        decision = _barred(Gate.CLOSED, trouble)
    look: Callable[[Sequence[str]], GateDecision] | None = None
    if quick:
        from healthcheck.cli.gatequick import Quick

        look = Quick(slurm_prolog, inventory, rules, sku)
        # Check all chosen nodes, spares too.
        rest = [name for name in names if name not in decision.closed()]
        if (decision.gate is Gate.OPEN
            or (write_hostfile is not None and rest and all(why.node for why in decision.whys))):
            shown = look(rest)
            whys = (*decision.whys, *shown.whys)
            decision = GateDecision(worst(whys) if decision.whys else shown.gate, whys,
                                    (*decision.notices, *shown.notices))
    if write_hostfile is not None and held is not None and all(why.node for why in decision.whys):
        from healthcheck.gate.allocation import allocate

        decision, hosts = allocate(held, decision, names, _expanded(spares or "", held), need or len(names),
                                  now, look)
        if decision.gate is Gate.OPEN:
            from pathlib import Path

            from healthcheck.gate.hostfile import write_hosts

            write_hosts(Path(write_hostfile), hosts.nodes, rests,
                        {move.instead: move.away for move in hosts.moves})
    _show(decision, len(names) if hosts is None else len(hosts.nodes), held, now, hosts, as_json)
    return decision.gate.value


def _expanded(text: str, held: GateSnapshot) -> tuple[str, ...]:
    """The nodes of a node set, with the snapshot's groups; none for an empty text."""
    if not text.strip():
        return ()
    if text in held.names():        # by far the most common case, which needs no node set parser
        return (text,)
    from inventory.nodeset import expand

    if not set(text) & set("@*?"):
        return expand(text)
    return expand(text, held.groups(), held.names())


def _barred(gate: Gate, trouble: Exception) -> GateDecision:
    return GateDecision(gate, (Why("", gate, str(trouble), ""),))


def _show(
    decision: GateDecision, number: int, held: GateSnapshot | None, now: float, hosts: Filled | None,
    as_json: bool,
) -> None:
    from healthcheck.gate import messages

    if as_json:
        import json

        click.echo(json.dumps(messages.document(decision, number, held, hosts), indent=1))
        return
    for line in (*messages.notices(decision.notices), *locate.unfetched()):
        click.echo(f"muster gate: note: {line}", err=True)
    click.echo(f"muster gate: {messages.text(decision, number, held, now)}")
    for line in messages.moved(hosts) if hosts is not None else ():
        click.echo(f"  {line}")


def _print(kind: str) -> int:
    from pathlib import Path

    from healthcheck.gate.hooks import hook

    click.echo(hook(kind, str(Path(sys.argv[0]).absolute()), os.environ.get("SLURM_CONF", "")), nl=False)
    return 0
