"""`muster gate`: whether these nodes may start a job."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import click

from healthcheck.gate import locate
from healthcheck.gate.decide import Gate, GateDecision, Why, answer, worst
from inventory.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from healthcheck.gate.reading import GateSnapshot
    from healthcheck.gate.spares import Filled

PLACES = {
    "publish": ("healthcheck.cli.gatepublish:publish", "Make and sign the snapshot, on the head."),
    "push": ("provisioning.cli.gatepush:push", "Bring nodes the snapshot, and what lets them trust it."),
    "fetch": ("healthcheck.cli.gatepublish:fetch", "Get the newest snapshot and keep it, on a node."),
}


class _Gate(click.Command):
    """A command whose first word may be a command of its own; a node that is called so is named with --nodelist."""

    def make_context(self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object) -> click.Context:
        if args and args[0] in PLACES:
            from importlib import import_module

            module, _, name = PLACES[args[0]][0].partition(":")
            command: click.Command = getattr(import_module(module), name)
            return command.make_context(f"{info_name} {args[0]}", args[1:], parent)
        return super().make_context(info_name, args, parent, **extra)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in PLACES.items()])


@click.command(cls=_Gate)
@click.argument("nodes", required=False)
@click.option("--nodelist", metavar="NODES", help="The same, for a variable that may be empty: an empty one closes.")
@click.option("--hostfile", metavar="FILE", help="The nodes of a launcher's file, a host a line.")
@click.option("--group", metavar="NAME", help="The nodes of a group of the inventory.")
@click.option("--slurm-prolog", is_flag=True, help="This node alone, by its own name.")
@click.option("--quick", is_flag=True, help="If it opens, look at the nodes, too, by the gate profile; takes seconds.")
@click.option("--write-hostfile", metavar="FILE", help="Write --need open nodes there, closed ones replaced by --spares.")
@click.option("--need", metavar="N", type=click.IntRange(1, 100_000), help="With --write-hostfile: how many. [as many as NODES]")
@click.option("--spares", metavar="NODES", help="With --write-hostfile: who may step in, such as @spares.")
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON, muster.gate-answer/1.")
@click.option("--folder", metavar="DIR", help="Where the snapshot is. Default: MUSTER_GATE, /var/lib/muster/gate.")
@click.option("--keys", metavar="FILE", help="Trusted keys, as OpenSSH's allowed_signers. Default: MUSTER_GATE_KEYS, /etc/muster/gate.pub.")
@click.option("--inventory", "-i", metavar="FILE", help="With --quick: as for muster check.")
@click.option("--rules", metavar="DIR", help="With --quick: as for muster check.")
@click.option("--sku", metavar="NAME", help="With --quick: as for muster check; this machine has no inventory to say it.")
@click.option("--print", "hook", type=click.Choice(("slurm", "kubernetes")), help="Print what puts the gate in front of jobs, and end.")
def gate(
    nodes: str | None, nodelist: str | None, hostfile: str | None, group: str | None, slurm_prolog: bool, quick: bool,
    write_hostfile: str | None, need: int | None, spares: str | None, as_json: bool, folder: str | None, keys: str | None,
    inventory: str | None, rules: str | None, sku: str | None, hook: str | None,
) -> int:
    """Say whether NODES may start a job, by the signed snapshot that is kept on this machine; the head may be away.

    It opens if every node is certified, in service, not isolated, of a state that policy allows and fresh, and all are equal in the
    versions that policy names. What muster itself cannot say is not held against certified nodes, within the policy's grace; it is told.

    \b
    muster gate 'gpu[001-064]' && srun train.sh
    muster gate --nodelist "$SLURM_JOB_NODELIST" --quick
    muster gate --hostfile hosts --write-hostfile hosts.open --need 512 --spares @spares
    muster gate --print slurm

    Exit: 0 open, 1 closed (which node, why, and what to do), 2 usage, 3 it could not tell, which is no yes.
    """
    if hook is not None:
        return _print(hook)
    ways = [name for name, used in (("NODES", nodes), ("--nodelist", nodelist), ("--hostfile", hostfile), ("--group", group),
                                    ("--slurm-prolog", slurm_prolog or None)) if used is not None]
    if len(ways) != 1:
        raise UsageError(f"{' and '.join(ways)} exclude each other" if ways
                         else "no node is named: muster gate 'gpu[001-064]', or --nodelist, --hostfile, --group, --slurm-prolog")
    if write_hostfile is None and (need is not None or spares is not None):
        raise UsageError("--need and --spares go with --write-hostfile")
    if not quick and any((inventory, rules, sku)):
        raise UsageError("--inventory, --rules and --sku go with --quick; the snapshot brings its own policy")
    if write_hostfile is not None and slurm_prolog:
        raise UsageError("--slurm-prolog is of one node; there is no file of hosts to write")
    rests: dict[str, str] = {}
    if hostfile is not None:
        from pathlib import Path

        from healthcheck.gate.hostfile import read_hosts

        rests = read_hosts(Path(hostfile))
    held: GateSnapshot | None = None
    filled: Filled | None = None
    names: Sequence[str] = tuple(rests)
    now = time.time()
    try:
        held = locate.load(locate.folder(folder), locate.trusted(keys))
        if hostfile is None:
            text = f"@{group.removeprefix('@')}" if group is not None else nodelist if nodelist is not None else nodes or ""
            names = (locate.own_name(held.names()),) if slurm_prolog else _expanded(text, held)
        said = answer(held, names, now)
    except locate.Missing as trouble:
        said = _barred(Gate.UNSURE, trouble)
    except locate.Forged as trouble:
        said = _barred(Gate.CLOSED, trouble)
    look: Callable[[Sequence[str]], GateDecision] | None = None
    if quick:
        from healthcheck.cli.gatequick import Quick

        look = Quick(slurm_prolog, inventory, rules, sku)
        # Where spares step in for the closed, all that stay are looked at no less.
        rest = [name for name in names if name not in said.closed()]
        if said.gate is Gate.OPEN or (write_hostfile is not None and rest and all(why.node for why in said.whys)):
            shown = look(rest)
            whys = (*said.whys, *shown.whys)
            said = GateDecision(worst(whys) if said.whys else shown.gate, whys, (*said.notices, *shown.notices))
    if write_hostfile is not None and held is not None and all(why.node for why in said.whys):
        from healthcheck.gate.filling import filling

        said, filled = filling(held, said, names, _expanded(spares or "", held), need or len(names), now, look)
        if said.gate is Gate.OPEN:
            from pathlib import Path

            from healthcheck.gate.hostfile import write_hosts

            write_hosts(Path(write_hostfile), filled.nodes, rests, {move.instead: move.away for move in filled.moves})
    _show(said, len(names) if filled is None else len(filled.nodes), held, now, filled, as_json)
    return said.gate.value


def _expanded(text: str, held: GateSnapshot) -> tuple[str, ...]:
    """The nodes of a node set, with the groups of the snapshot; none of an empty text."""
    if not text.strip():
        return ()
    if text in held.names():        # by far the commonest case, which needs no reader of node sets
        return (text,)
    from inventory.nodeset import expand

    if not set(text) & set("@*?"):
        return expand(text)
    return expand(text, held.groups(), held.names())


def _barred(gate: Gate, trouble: Exception) -> GateDecision:
    return GateDecision(gate, (Why("", gate, str(trouble), ""),))


def _show(said: GateDecision, number: int, held: GateSnapshot | None, now: float, filled: Filled | None, as_json: bool) -> None:
    from healthcheck.gate import wording

    if as_json:
        import json

        click.echo(json.dumps(wording.document(said, number, held, filled), indent=1))
        return
    for line in wording.notices(said.notices):
        click.echo(f"muster gate: note: {line}", err=True)
    click.echo(f"muster gate: {wording.text(said, number, held, now)}")
    for line in wording.moved(filled) if filled is not None else ():
        click.echo(f"  {line}")


def _print(kind: str) -> int:
    from pathlib import Path

    from healthcheck.gate.hooks import hook

    click.echo(hook(kind, str(Path(sys.argv[0]).absolute()), os.environ.get("SLURM_CONF", "")), nl=False)
    return 0
