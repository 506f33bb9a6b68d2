"""`muster burnin`: the last gate before training; it names faulty GPUs, nodes and paths."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from healthcheck.cli import completing
from healthcheck.cli.options import check_sku
from inventory.cli.chosen import who
from inventory.cli.formatted import as_json as format_option
from inventory.cli.limits import FANOUT, LIMIT, given
from inventory.cli.renamed import RenamedOption
from inventory.cli.span import span
from inventory.cli.stacked import stacked
from inventory.errors import UsageError
from inventory.text import many
from inventory.times import millisecond
from provisioning.cli import burninfabric
from provisioning.cli.burnincompare import compare
from provisioning.cli.burninrun import carried_out, options
from provisioning.cli.burninscreen import screen
from provisioning.cli.burninshow import code as code_of
from provisioning.cli.burninshow import show as show_page

if TYPE_CHECKING:
    from healthcheck.burnin.document import Burnin
    from healthcheck.ruleset.ruleset import Ruleset
    from inventory.model import Inventory
    from provisioning.burnin.run import BurnInRequest

_LENGTHS = ("quick", "standard", "soak")
_STAGES = ("node", "rail", "leaf-pairs", "cross-pairs", "fabric", "all", "train", "soak")
_STATE = click.option("--state", metavar="DIR",
                      help="Folder of the documents. Default: MUSTER_STATE, XDG, /var/lib/muster.")
_WORK = stacked(        # what is run with which nodes
    click.argument("nodes", shell_complete=completing.node_set),
    click.option("--length", type=click.Choice(_LENGTHS), default="quick", show_default=True,
                 help="quick: minutes; standard: 45 minutes a node; soak: hours, on all nodes at the end."),
    click.option("--stages", metavar="LIST",
                 help=f"Only these, separated by commas: {', '.join(_STAGES)}.  [all of the length, but for "
                      "fabric]"),
    click.option("--max-kw", type=click.FloatRange(0, min_open=True), metavar="KW",
                 help="Power limit of all active nodes together.  [burnin: {max_kw: ...} of the inventory]"),
    click.option("--domain-kw", type=click.FloatRange(0, min_open=True), metavar="KW",
                 help="Power limit of one power domain.  [burnin: {domain_kw: ...}]"),
    click.option("--inventory", "-i", metavar="FILE", help="Default: as for muster check."),
    click.option("--sku", metavar="NAME", shell_complete=completing.sku,
                 help="SKU of nodes that name none, such as hgx-h100."),
    click.option("--rules", metavar="DIR",
                 help="A folder of site rules, SKUs and floors that override the packaged ones."))
_PAGES = stacked(       # what is printed
    format_option("json: the document (muster.burnin/1) instead of the page.", json_flag=False),
    click.option("--output", "-o", metavar="FILE", cls=RenamedOption, old="--json",
                 help="Also write the JSON document to FILE."),
    click.option("--svg", metavar="FILE", help="Draw the matrix of pairs."))


@click.group()
def burnin() -> None:
    """Burn nodes in: the last gate before training, which names faulty GPUs, nodes and links.

    GPUs compute products known to the last bit. Memory is written and read back. NCCL's all-reduce runs in
    each node, along each rail, between pairs of nodes and among all nodes, with data that names the owner of
    every wrong element. A short training ends it. Muster leases the nodes for that time.

    \b
    muster burnin plan @train                    what would run, for how long, at how many kW; touches nothing
    muster burnin run @train --length standard
    muster burnin show                           the newest one again
    muster burnin screen                         which idle nodes would be tested for some minutes
    muster burnin compare 20261122T031500Z-3fa9 20261123T021000Z-77b0    before and after a new driver
    muster burnin learn -o floors.yaml; muster burnin approve floors.yaml --by "$USER"
    """


burnin.add_command(compare)
burnin.add_command(screen)


@burnin.command(short_help="Show what would run, for how long, at how many kW.")
@_WORK
@burninfabric.planning
@click.option("--state", metavar="DIR",
              help="For the stage fabric: the folder of what sweeps stored of adapters. Default: "
                   "MUSTER_STATE, XDG, /var/lib/muster.")
@format_option("json: the document (muster.burnin-plan/1).")
def plan(
    nodes: str, length: str, stages: str | None, max_kw: float | None, domain_kw: float | None,
    inventory: str | None, sku: str | None, rules: str | None, fabric: str | None, share: int,
    adaptive: bool, state: str | None, as_json: bool,
) -> None:
    """Print the stages and rounds of a burn-in of NODES, how long they take and what they draw; touches
    nothing.

    Confirming suspects, and searching a failure of all nodes, takes extra time. Minutes are the maximum for
    sound machines.

    \b
    muster burnin plan 'gpu[001-064]'
    muster burnin plan @rack4 --length soak --max-kw 120
    muster burnin plan @train --stages fabric --fabric outputs
    """
    from provisioning.burnin.planpage import document, lines
    from provisioning.burnin.run import places_of

    request, _ = _request(nodes, length, stages, max_kw, domain_kw, inventory, sku, rules,
                          _Fabric(fabric, share, adaptive, state))
    asked = (places_of(request), request.work, request.stages, request.power)
    if as_json:
        click.echo(json.dumps(document(*asked), indent=1))
        return
    for line in lines(*asked):
        click.echo(line)


@burnin.command(short_help="Lease nodes, measure them, and name the faulty ones.")
@_WORK
@burninfabric.planning
@burninfabric.reading
@_PAGES
@click.option("--launcher", type=click.Choice(("ssh", "slurm", "local")), default="ssh", show_default=True,
              help="How the program gets to nodes: over SSH, by srun within the lease's reservation, or all "
                   "on this machine, as a trial that still has its consequences.")
@click.option("--engine", type=click.Choice(("torch", "nccl-tests", "perftest")), default="torch",
              show_default=True,
              help="What runs all-reduces: PyTorch ranks, which find whose data is wrong, or "
                   "all_reduce_perf, where nodes have it. perftest: the stage fabric by ib_write_bw.")
@click.option("--head", metavar="ADDRESS", multiple=True,
              help="The address at which nodes reach this machine. Repeatable.  [as sshd there sees it]")
@click.option("--port", type=click.IntRange(0, 65535), default=0,
              help="The port on which it listens for nodes.  [a free port]")
@click.option("--lease", type=click.Choice(("reservation", "cordon")),
              help="How nodes are held.  [reservation in Slurm, else cordon]")
@click.option("--hostfile", metavar="FILE",
              help="A file of hosts that launch scripts leave out, instead of what `cordon:` says.")
@click.option("--golden", metavar="FILE", help="A file of the nodes that launch scripts may use, instead.")
@LIMIT
@FANOUT
@click.option("--wait", metavar="SPAN", callback=span(5, 3600),
              help="How long to wait for PyTorch on all nodes.  [240s]")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@_STATE
def run(
    nodes: str, length: str, stages: str | None, max_kw: float | None, domain_kw: float | None,
    inventory: str | None, sku: str | None, rules: str | None, fabric: str | None, share: int,
    adaptive: bool, fabric_node: str | None, devices: tuple[str, ...], as_json: bool, output: str | None,
    svg: str | None, launcher: str, engine: str, head: tuple[str, ...], port: int, lease: str | None,
    hostfile: str | None, golden: str | None, fanout: int, wait: float | None, quiet: bool, state: str | None,
) -> int:
    """Lease NODES, measure them, name the faulty ones, and give the nodes back. It prints the possible cost
    first.

    It needs PyTorch on the nodes. `burnin: {python: [/opt/torch/bin/python3]}` in the inventory names the
    Python that has it, also in a container (`[docker, exec, -i, torch, python3]`). Nodes with a job, and
    those that others hold, are refused and do not pass. Accused nodes leave the later stages. Measurements
    are stored as they come: `muster burnin show`.

    A finished burn-in has consequences. The next `muster triage --apply` isolates nodes in service that are
    accused for certain; likely accusations are warnings; older certificates of accused nodes are revoked.
    Until then jobs may start on accused nodes, because all nodes are given back at the end; one that `muster
    cordon` held before stays cordoned. A finding ends when a burn-in of this length or longer passes the same
    stages there, when the part is replaced, or when a person says so (muster repaired).

    With --engine nccl-tests, all_reduce_perf runs the all-reduces: within nodes, and with --launcher slurm
    between them (srun --mpi=pmix). `burnin: {nccl_tests: /opt/nccl-tests/build}` says where it is, else PATH
    does. PyTorch does everything else.

    The stage fabric runs only where --stages names it. It loads every link between switches and every host
    link of --fabric DIR by pairs of NODES' adapters, as `muster fabric burn` plans them, and names slow links
    and those that nothing proves to have been loaded; then no verdict is a pass.

    \b
    muster burnin run 'gpu[001-064]'
    muster burnin run @train --length soak --max-kw 400 --svg pairs.svg
    muster burnin run gpu007 --stages node,rail
    muster burnin run @train --launcher slurm
    muster burnin run @train --launcher slurm --engine nccl-tests
    muster burnin run @train --stages fabric --fabric outputs --fabric-node gpu001
    muster burnin run @train --stages fabric --fabric outputs --engine perftest

    Exit: 0 every node passes, 1 a node or link is accused, 2 usage, 3 nothing is accused but not all was
    measured, 130 interrupted. Nodes of every lifecycle count.
    """
    from healthcheck.burnin.document import as_bytes
    from healthcheck.burnin.documentread import read
    from healthcheck.burnin.ports import presumed
    from healthcheck.burnin.stages import planned
    from inventory.locate import state_dir
    from inventory.transport.base import Limits
    from provisioning.actions.choose import Options
    from provisioning.actions.choose import backend as backend_of
    from provisioning.burnin import run as running
    from provisioning.burnin.consequences import carry_out
    from provisioning.burnin.engines import NCCL_TESTS, left_to_torch
    from provisioning.burnin.record import BurnInRecord
    from provisioning.lease.check import leased, manager

    request, found = _request(nodes, length, stages, max_kw, domain_kw, inventory, sku, rules,
                              _Fabric(fabric, share, adaptive, state, engine))
    site = found.burnin if found is not None else None
    hosts = head or ((site.head,) if site is not None and site.head is not None else ())
    request = replace(request, hosts=tuple(hosts), port=port, fanout=fanout,
                      ready_s=wait if wait is not None else request.ready_s, engine=engine,
                      nccl_tests=site.nccl_tests if site is not None else None, slurm=launcher == "slurm",
                      see_fabric=burninfabric.counters(fabric_node, devices, found, launcher))
    base = backend_of(found, Options(hostfile, golden))
    if launcher == "slurm" and (base.name != "slurm" or lease == "cordon"):
        raise UsageError("--launcher slurm starts programs within the lease's reservation: it needs `cordon: "
                         "slurm` in the inventory, and no --lease cordon")
    made = manager(lease, base, who())
    places = running.places_of(request)
    steps = planned(places, replace(request.work, ports=presumed(places)), request.stages)
    folder = state_dir(state)
    record = BurnInRecord(folder, length, {**options(request, launcher), "stages": stages, "engine": engine,
                                           **({"fabric": fabric, "share": share, "adaptive": adaptive}
                                              if fabric is not None else {})})
    click.echo(f"muster: burn-in {record.run}: {many(len(places), 'node')}, {many(len(steps), 'step')}, "
               f"about {sum(step.seconds for step in steps) / 60:.0f} min if no one is suspected", err=True)
    for line in left_to_torch(steps, request.slurm) if engine == NCCL_TESTS else ():
        click.echo(f"muster: {line}", err=True)
    # Nodes are held no longer than the longest task could last without us: a living process renews.
    longest = max((task.seconds for step in steps for task in step.tasks), default=0.0) + 600.0
    bounds = Limits(sweep_s=longest, node_s=longest, fanout=fanout)

    def act(burnin: Burnin, withheld: Mapping[str, str]) -> None:
        for line in carry_out(folder, burnin, withheld, f"burn-in ({who()})", time.time(), given_back=True):
            click.echo(f"muster: {line}", err=True)

    burnt, exit_code = carried_out(
        request, record, launcher, lambda transport,
        under: leased(running.as_plan(request), transport, bounds, folder, made,
                      why=f"muster burnin run --length {length}", under=under), act, quiet=quiet)
    # Read back from the stored form, so that `muster burnin show` prints the same page.
    data = as_bytes(burnt)
    show_page(read(data, f"burn-in {record.run}"), data, as_json, output, svg)
    return exit_code


@burnin.command(short_help="Show a stored burn-in.")
@click.argument("which", metavar="[RUN]", required=False)
@_PAGES
@click.option("--list", "list_", is_flag=True, help="List the stored burn-ins, newest first, a line each.")
@_STATE
def show(
    which: str | None, as_json: bool, output: str | None, svg: str | None, list_: bool, state: str | None,
) -> int:
    """Show a stored burn-in: the newest, the one that RUN names, or a file. An interrupted one says so.

    \b
    muster burnin show
    muster burnin show --list
    muster burnin show 20261122T031500Z-3fa9 --svg pairs.svg
    muster burnin show pilot.burnin.json --format json | jq .accusations

    Exit: as for `muster burnin run`.
    """
    from healthcheck.burnin.document import chosen, kept
    from healthcheck.burnin.documentread import load
    from healthcheck.burnin.page import verdict_line
    from inventory.locate import state_dir

    folder = state_dir(state)
    if list_ and (as_json or output is not None or svg is not None):
        raise UsageError("--list prints a line for each burn-in: leave --format, --output and --svg out, or "
                         "name one: muster burnin show RUN --format json")
    if list_:
        paths = kept(folder)
        for path in paths:
            one = load(path)
            click.echo(f"{one.run}  {one.judgement.verdict.value}  {verdict_line(one)}")
        if not paths:
            click.echo("no burn-in is stored")
        return 0
    path = chosen(which, folder)
    burnt = load(path)
    show_page(burnt, path.read_bytes(), as_json, output, svg)
    return code_of(burnt)


@burnin.command(short_help="Propose floors from what sound nodes reached.")
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option("--output", "-o", metavar="FILE", default="-", show_default=True,
              help="The file for the proposed floors.")
@click.option("--rules", metavar="DIR", help="A folder of site rules that override the packaged ones.")
@_STATE
def learn(runs: tuple[str, ...], output: str, rules: str | None, state: str | None) -> None:
    """Propose floors from what sound nodes reached in stored burn-ins (all, or RUNs). A person reads and
    approves them.

    \b
    muster burnin learn -o floors.yaml
    less floors.yaml
    muster burnin approve floors.yaml --by "$USER"
    """
    from healthcheck.burnin.document import chosen, kept
    from healthcheck.burnin.documentread import load
    from healthcheck.burnin.floors import as_yaml, write
    from healthcheck.burnin.learn import learn as learned
    from healthcheck.burnin.publishedload import load_burnin
    from healthcheck.config.rulesfolder import folders
    from inventory.locate import state_dir

    folder = state_dir(state)
    paths = [chosen(one, folder) for one in runs] if runs else kept(folder, screenings=False)
    found = learned([one for one in map(load, paths) if one.options.get("finished") is not False],
                    load_burnin(folders(rules)), time.time())
    if output == "-":
        click.echo(as_yaml(found.proposal), nl=False)
    else:
        write(Path(output), found.proposal)
        click.echo(f"{output}: {many(len(found.proposal.floors), 'floor')} proposed; after reading them: "
                   f"muster burnin approve {output} --by NAME", err=True)
    for line in (*found.warnings, *found.left_out):
        click.echo(f"note: {line}", err=True)


@burnin.command(short_help="Put proposed floors into effect.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--by", required=True, metavar="NAME", help="Who has read them.")
@click.option(
    "--into", metavar="DIR", help="The rules folder for them.  [/etc/muster/rules for root, else ~/.config]")
def approve(file: str, by: str, into: str | None) -> None:
    """Put proposed floors into effect, over those in the folder.

    \b
    muster burnin approve floors.yaml --by "$USER"
    muster burnin approve floors.yaml --by "$USER" --into site-rules
    """
    from healthcheck.burnin.floors import approve as approved
    from healthcheck.burnin.publishedload import load_burnin
    from healthcheck.config.rulesfolder import folders
    from provisioning.burnin.record import rules_folder

    folder = Path(into) if into is not None else rules_folder()
    rules = load_burnin(folders(into if into is not None and folder.is_dir() else None))
    click.echo(f"{approved(Path(file), folder, by, millisecond(time.time()), rules)}: approved by {by}")


@dataclass(frozen=True)
class _Fabric:
    """What the options say of a link burn."""

    source: str | None
    share: int
    adaptive: bool
    state: str | None
    engine: str = ""


def _request(
    nodes: str, length: str, stages: str | None, max_kw: float | None, domain_kw: float | None,
    inventory: str | None, sku: str | None, rules: str | None, fabric: _Fabric,
) -> tuple[BurnInRequest, Inventory | None]:
    from healthcheck.burnin.fabricwork import FabricMeans
    from healthcheck.config import rulesfolder
    from healthcheck.ruleset.ruleset import load_ruleset
    from inventory.locate import state_dir
    from provisioning.burnin.engines import PERFTEST
    from provisioning.burnin.request import request

    folders = rulesfolder.folders(rules)
    ruleset = load_ruleset(folders)
    check_sku(sku, ruleset)
    chosen, found = _chosen(nodes, inventory, ruleset, sku)
    if fabric.engine == PERFTEST and fabric.source is None:
        raise UsageError("--engine perftest runs the stage fabric: give --stages fabric and --fabric DIR")
    means = FabricMeans.WRITE if fabric.engine == PERFTEST else FabricMeans.ALLREDUCE
    links = burninfabric.work(fabric.source, fabric.share, fabric.adaptive, means, stages, found,
                              state_dir(fabric.state), rules)
    return request(chosen, found, ruleset, folders, length, stages, sku, max_kw, domain_kw, links), found


def _chosen(
    nodes: str, option: str | None, ruleset: Ruleset, sku: str | None,
) -> tuple[Sequence[Any], Inventory | None]:
    from healthcheck.ruleset.skulimits import limited, limited_inventory
    from inventory.discover import from_names
    from inventory.load import load_inventory
    from inventory.locate import find_inventory
    from inventory.select import select

    path = find_inventory(option)
    if path is None:
        return limited(from_names(nodes), ruleset.skus, sku, given()), None
    found = limited_inventory(load_inventory(path, ruleset.skus, ruleset.profiles), ruleset.skus, sku,
                              given())
    chosen = select(found, nodes)
    if not chosen:
        raise UsageError(f"{nodes} names no node of {found.source}")
    return chosen, found
