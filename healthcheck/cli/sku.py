"""`muster sku`: lists and shows SKUs, and proposes one from nodes."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.check import choose
from healthcheck.cli.options import INVENTORY, RULES, TIMEOUT
from healthcheck.config import rulesfolder
from healthcheck.config.files import write_named
from healthcheck.report.progress import progress
from inventory.cli.formatted import formats
from inventory.cli.limits import FANOUT, LIMIT, announce
from inventory.discover import from_names
from inventory.errors import UsageError
from inventory.nodeset import NAME, did_you_mean, fold
from inventory.reasons import fold_reasons
from inventory.transport.choose import transport_of

if TYPE_CHECKING:
    from healthcheck.model.recording import Recording
    from healthcheck.ruleset.ruleset import Ruleset
    from healthcheck.ruleset.sku import Sku
    from healthcheck.sweep.saved import SweepManifest

_FORMAT = formats()


@click.group()
def sku() -> None:
    """List and show SKUs, the numbers that machines of one kind should show, and propose one of your own.

    \b
    muster sku list
    muster sku show dgx-h100
    muster sku learn 'gpu[001-008]' --name ours -o /etc/muster/rules/sku/ours.yaml
    """


@sku.command("list")
@RULES
@_FORMAT
def list_(rules: str | None, fmt: str) -> None:
    """List all SKUs.

    \b
    muster sku list
    muster sku list --rules /etc/muster/rules
    """
    from healthcheck.ruleset.ruleset import ruleset_of

    found = sorted(ruleset_of(rules).skus.values(), key=lambda known: known.name)
    if fmt == "json":
        click.echo(json.dumps([{"sku": known.name, "title": known.title, "file": known.file}
                               for known in found], indent=1))
        return
    width = max(len(known.name) for known in found)
    for known in found:
        click.echo(f"{known.name:<{width}}  {known.title}")


@sku.command()
@click.argument("name", shell_complete=completing.sku)
@RULES
@_FORMAT
def show(name: str, rules: str | None, fmt: str) -> None:
    """Show what SKU NAME expects, with inherited values.

    \b
    muster sku show dgx-h100
    muster sku show ours --rules /etc/muster/rules --format json
    """
    from healthcheck.ruleset.ruleset import ruleset_of

    known = ruleset_of(rules).skus
    if name not in known:
        raise UsageError(
            f"no such SKU: {name!r}{did_you_mean(name, known)}; there are {', '.join(sorted(known))}")
    chosen = known[name]
    if fmt == "json":
        ports = {pci: {"role": plan.role, "rail": plan.rail} for pci, plan in chosen.ports.items()}
        click.echo(json.dumps({
            "sku": chosen.name, "title": chosen.title, "numbers": dict(chosen.numbers),
            "empty": sorted(chosen.empty), "ports": ports,
            "limits": _limits(chosen), "source": chosen.source, "file": chosen.file,
        }, indent=1))
        return
    click.echo(_text(chosen))


def _limits(known: Sku) -> dict[str, float]:
    return {stage: limit for stage, limit in vars(known.limits).items() if limit is not None}


def _text(known: Sku) -> str:
    rows = {key: "not judged" if value is None else str(value).lower() if isinstance(value, bool)
            else str(value) for key, value in known.numbers.items()}
    if known.empty:
        rows["may be none"] = ", ".join(sorted(known.empty))
    for pci, plan in known.ports.items():
        rows[f"port {pci}"] = f"{plan.role}, rail {plan.rail}" if plan.rail is not None else str(plan.role)
    rows |= {f"limit {stage}": f"{limit:g} s" for stage, limit in _limits(known).items()}
    rows |= {"source": known.source, "file": known.file}
    width = max(len(key) for key in rows)
    return "\n".join(
        [f"{known.name}: {known.title}", "", *(f"  {key:<{width}}  {value}" for key, value in rows.items())])


@sku.command()
@click.argument("nodes", required=False, shell_complete=completing.node_set)
@INVENTORY
@click.option("--local", is_flag=True, help="Learn from this machine, without SSH.")
@click.option("--from-save", metavar="DIR",
              help="Learn from a sweep saved with `muster check --save`; touches no node.")
@click.option("--name", metavar="X", help="The SKU's name. Default: the nearest known one's with -site.")
@click.option("--output", "-o", metavar="FILE",
              help="Write the proposal to a new file instead of printing it.")
@RULES
@TIMEOUT
@LIMIT
@FANOUT
def learn(
    nodes: str | None, inventory: str | None, local: bool, from_save: str | None, name: str | None,
    output: str | None, rules: str | None, timeout: float | None, fanout: int,
) -> int:
    """Propose a SKU from healthy NODES of one kind; read it, then put it into a rules folder's sku/.

    It inherits from the nearest known SKU and holds what differs. Each number names its count of nodes; what
    was not measured is inherited and reported; without such a SKU it is null, which is not judged. Nodes with
    a critical finding, or unlike most, are left out and reported.

    \b
    muster sku learn 'gpu[001-008]' --name ours -o /etc/muster/rules/sku/ours.yaml
    muster check --save monday; muster sku learn --from-save monday

    Exit: 0 proposed, 2 usage, or no node is fit to learn from.
    """
    from healthcheck.ruleset.ruleset import ruleset_of
    from healthcheck.sweep.skulearn import as_yaml, differences, propose

    if name is not None and NAME.fullmatch(name) is None:
        raise UsageError(f"--name {ascii(name)[:60]}: expected letters, digits, dots and dashes")
    target = Path(output) if output is not None else None
    if target is not None and (target.exists() or not target.parent.is_dir()):
        raise UsageError(f"--output {output}: " + ("exists already" if target.exists()
                                                   else f"no folder {target.parent}"))
    ruleset = ruleset_of(rules)
    if from_save is not None:
        if local or inventory is not None or timeout is not None:
            raise UsageError(
                "--from-save touches no node: --local, --inventory and --timeout do not go with it")
        snapshots, manifest = _saved(from_save, nodes)
    else:
        snapshots, manifest = _swept(nodes, inventory, local, timeout, fanout, ruleset)
    proposal = propose(snapshots, ruleset)
    for each in fold_reasons(proposal.left_out.items()):
        click.echo(f"muster: not learned from {each.names}: {each.text}", err=True)
    chosen = name or (f"{proposal.parent.name}-site" if proposal.parent is not None else "site")
    text = as_yaml(proposal, chosen,
                   f"muster sku learn, {manifest.started[:10]}, from {fold(proposal.nodes)}")
    validate(text, rules)
    if proposal.parent is not None:
        lines = differences(proposal)
        click.echo(f"muster: nearest is {proposal.parent.name}" + (
            ", with no difference" if not lines else "; differences:"), err=True)
        for line in lines:
            click.echo(f"  {line}", err=True)
        if proposal.inherited:
            click.echo(f"muster: not measured, so inherited from {proposal.parent.name}: "
                       f"{', '.join(proposal.inherited)}", err=True)
    if target is None:
        click.echo(text, nl=False)
        return 0
    write_named(target, text.encode(), f"--output {output}", 0o644)
    click.echo(f"written: {output}; read it, then name it: sku: {chosen}")
    return 0


def validate(text: str, rules: str | None) -> None:
    """Checks that the proposal loads with the rules; raises RulesError if not, which is a bug in muster."""
    from healthcheck.ruleset.ruleset import load_ruleset

    with tempfile.TemporaryDirectory(prefix="muster-") as folder:
        (Path(folder) / "sku").mkdir()
        (Path(folder) / "sku" / "proposal.yaml").write_text(text, encoding="utf-8")
        load_ruleset([*rulesfolder.folders(rules), Path(folder)])


def _saved(folder: str, nodes: str | None) -> tuple[list[Recording], SweepManifest]:
    from healthcheck.sweep.saved import load_manifest, recordings

    manifest = load_manifest(Path(folder))
    snapshots = [snapshot for snapshot, _ in recordings(Path(folder), manifest)]
    if nodes is not None:
        wanted = {node.name for node in from_names(nodes)}
        missing = wanted - {snapshot.node for snapshot in snapshots}
        if missing:
            raise UsageError(f"--from-save {folder}: contains no recording of {min(missing)}")
        snapshots = [snapshot for snapshot in snapshots if snapshot.node in wanted]
    return snapshots, manifest


def _swept(
    nodes: str | None, inventory: str | None, local: bool, timeout: float | None, fanout: int,
    ruleset: Ruleset,
) -> tuple[list[Recording], SweepManifest]:
    """One sweep, kept in memory; the state folder's newest snapshots stay."""
    from healthcheck.sweep import sweep
    from healthcheck.sweep.saved import MemorySaver

    plan_nodes = choose(nodes, inventory, local, False, ruleset)
    transport = transport_of("local" if local else "ssh")
    kept = MemorySaver()
    plan = sweep.SweepPlan(plan_nodes, ruleset, None, plan_nodes.source)
    limits = sweep.limits(timeout, fanout, plan_nodes)
    if not local:
        announce(plan_nodes, limits, timeout)
    sweep.live(plan, transport, limits, progress(len(plan_nodes), "sku learn"), saver=kept)
    if kept.manifest is None or kept.manifest.partial:
        raise KeyboardInterrupt
    order = {node.name: at for at, node in enumerate(plan_nodes)}
    return sorted((one for one, _ in kept.snapshots), key=lambda one: order[one.node]), kept.manifest
