"""`muster remediate`: plans remediation steps, and with --apply takes them."""

from __future__ import annotations

import json
import re
import time
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from healthcheck.cli import completing
from healthcheck.cli.options import STATE
from inventory.cli.chosen import who
from inventory.cli.formatted import as_json as format_option
from inventory.cli.limits import LIMIT, given
from provisioning.cli.typed import again

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from healthcheck.ruleset.ruleset import Ruleset
    from healthcheck.store.file import Store
    from healthcheck.triage.policy import TriagePolicy
    from healthcheck.triage.remediation import RemediationStep
    from inventory.model import Inventory
    from provisioning.actions.base import Backend
    from provisioning.remediate.choose import ExcludedNode, PlannedStep

_LOCK = "remediate.lock"
_STEPS = ("restart-fabric-manager", "restart-persistenced", "restart-docker", "restart-containerd",
          "load-nvidia", "load-nvidia-uvm", "load-nvidia-peermem", "load-mlx5-ib", "reset-gpu", "reboot")


@click.command()
@click.argument("nodes", required=False, shell_complete=completing.node_set)
@click.option("--step", metavar="NAME", type=click.Choice(_STEPS),
              help=f"Only this step, enabled or not: {', '.join(_STEPS)}.")
@click.option("--apply", "act", is_flag=True, help="Take the steps. Without this, show the plan.")
@click.option(
    "--become", is_flag=True, help="Go through sudo, whatever the inventory says: a step needs root.")
@click.option("--lease", type=click.Choice(("reservation", "cordon")),
              help="How nodes are held. [reservation in Slurm, else cordon]")
@click.option("--hostfile", metavar="FILE",
              help="A file of hosts that launch scripts leave out, instead of what `cordon:` says.")
@click.option("--golden", metavar="FILE", help="A file of the nodes that launch scripts may use, instead.")
@click.option(
    "--rules", metavar="DIR", help="A folder of site rules and policy that override the packaged ones.")
@LIMIT
@format_option("json: the plan (muster.remediation/1), or with --apply its outcomes (muster.outcomes/1).")
@click.option("--inventory", "-i", metavar="FILE", help="Default: as for muster check.")
@STATE
def remediate(
    nodes: str | None, step: str | None, act: bool, become: bool, lease: str | None, hostfile: str | None,
    golden: str | None, rules: str | None, as_json: bool, inventory: str | None, state: str | None,
) -> int:
    """Take the step that the policy names for what is wrong with NODES (default: all); without --apply only
    show it.

    Faults come from `muster check --store`. A step runs on nodes that are held for us and idle, one rack (or
    leaf) at a time, and has worked when the failed rule passes. After some attempts on a node a person has to
    act. If a step makes a node worse, or the node does not answer afterwards, the run stops and that node
    stays cordoned. The next --apply checks interrupted steps first.

    \b
    muster check --store; muster remediate
    muster remediate gpu007 --apply
    muster remediate @rack4 --step reset-gpu --apply

    Exit: 0 nothing to do, a plan, or all done; 1 some node was not repaired; 2 usage.
    """
    from dataclasses import replace

    from healthcheck.config.rulesfolder import folders
    from healthcheck.ruleset.ruleset import load_ruleset
    from healthcheck.ruleset.skulimits import limited_inventory
    from healthcheck.store.file import opened
    from healthcheck.triage.policyload import load_policy
    from healthcheck.triage.remediation import RemediationStep
    from inventory.load import load_inventory
    from inventory.locate import needed_inventory, state_dir
    from inventory.model import Privilege
    from inventory.select import select
    from inventory.transport.remote import RemoteTransport
    from provisioning.actions.choose import Options, backend
    from provisioning.actions.cordon import CordonResult, document
    from provisioning.lease.check import manager
    from provisioning.lease.runlock import alone
    from provisioning.remediate.execute import RemediationContext, execute
    from provisioning.remediate.resume import resume
    from provisioning.remediate.verify import VerifyContext

    found = folders(rules)
    ruleset = load_ruleset(found)
    policy = load_policy(found, ruleset)
    path = needed_inventory(inventory, "no inventory was found, and only it says which nodes are in "
                            "service: see muster inventory --help")
    there = limited_inventory(load_inventory(path, ruleset.skus, ruleset.profiles), ruleset.skus, None,
                              given())
    names = {node.name for node in select(there, nodes)}
    only = RemediationStep(step) if step is not None else None
    through = backend(there, Options(hostfile, golden))
    folder = state_dir(state)
    if not act:
        with opened(folder) as store:
            works, lefts = _chosen(store, there, through, policy, ruleset, names, only)
            if as_json:
                click.echo(json.dumps(_document(works, lefts, store, policy), indent=1))
            else:
                _plan(works, lefts, store, policy)
        return 0
    whole = {node.name: replace(node, privilege=Privilege.BECOME) if become else node for node in there}
    name = f"remediate ({who()})"

    def on_result(one: CordonResult) -> None:
        click.echo(f"{one.node}: {one.message}", err=as_json)

    with opened(folder) as store, alone(folder, _LOCK, "remediate"):
        site = VerifyContext(ruleset, RemoteTransport(), folder, policy.remediation.at_once)
        context = RemediationContext(store, through, manager(lease, through, name), site, policy.remediation,
                                     name, time.time, whole, on_result)
        done = resume(context)
        works, lefts = _chosen(store, there, through, policy, ruleset, names, only)
        if any(one.held for one in done):
            works = []
            click.echo("muster: no new step is started, because of how an interrupted one ended", err=True)
        for names_left, why in _folded(lefts):
            on_result(CordonResult(names_left, f"left: {why}", held=False))
        done += execute(context, works)
    if as_json:
        left = [CordonResult(one.node, f"left: {one.why}", held=False) for one in lefts]
        click.echo(json.dumps(document([*left, *done]), indent=1))
    elif not done and not lefts:
        click.echo("nothing to do")
    return int(any(one.failed for one in done))


def _chosen(
    store: Store, there: Inventory, through: Backend, policy: TriagePolicy, ruleset: Ruleset,
    names: Collection[str], only: RemediationStep | None,
) -> tuple[list[PlannedStep], list[ExcludedNode]]:
    """The steps to take, from what the store and the back end know now."""
    from healthcheck.store.silences import active
    from healthcheck.store.silences import silenced as whose
    from healthcheck.triage.gather import gather
    from healthcheck.triage.plan import make
    from provisioning.remediate.choose import NAMING, choose
    from provisioning.remediate.record import tries
    from provisioning.triage import apply as applying

    now = time.time()
    silences = active(store, now)
    seen = applying.view(store, through, applying.shown(store, through, there.nodes))
    fleet = gather(
        store, there, policy, now, silenced=lambda problem: whose(problem, silences, now) is not None,
        lost=seen.lost, others=seen.others)
    naming = {rule.id for rule in ruleset.rules if rule.check in NAMING}
    return choose(fleet, make(fleet, policy).verdicts, policy, names, tries(store, policy.remediation, now),
                  naming, only)


def _plan(works: list[PlannedStep], lefts: list[ExcludedNode], store: Store, policy: TriagePolicy) -> None:
    from provisioning.remediate.record import unended
    from provisioning.remediate.steps import SPECS

    if cut := unended(store):
        click.echo(f"{len(cut)} interrupted: --apply first checks the outcome on "
                   f"{', '.join(one.node for one in cut[:5])}")
    for domain, group in groupby(works, key=lambda work: work.domain):
        click.echo(f"{domain}, at most {policy.remediation.at_once} nodes at a time:")
        for work in group:
            spec = SPECS[work.step]
            click.echo(f"  {work.node}  {work.step.value}  {work.fault}: {work.why}")
            click.echo(f"    would run, within {spec.seconds:g} s: {'; '.join(spec.runs)}")
            click.echo(f"    then must pass: {', '.join(work.rules)}")
    for nodes, why in _folded(lefts):
        click.echo(f"{nodes}: left: {why}")
    if works:
        click.echo(f"This is a plan. To do it: {again('--apply')}")
    elif not lefts and not cut:
        click.echo("nothing to do")


def _document(
    works: list[PlannedStep], lefts: list[ExcludedNode], store: Store, policy: TriagePolicy,
) -> dict[str, Any]:
    """The plan as muster.remediation/1."""
    from provisioning.remediate.record import unended
    from provisioning.remediate.steps import SPECS

    return {
        "schema": "muster.remediation/1", "at_once": policy.remediation.at_once,
        "interrupted": [one.node for one in unended(store)],
        "steps": [{"node": work.node, "domain": work.domain, "step": work.step.value, "fault": work.fault,
                   "why": work.why, "seconds": SPECS[work.step].seconds, "runs": list(SPECS[work.step].runs),
                   "must_pass": list(work.rules)} for work in works],
        "left": [{"node": one.node, "why": one.why} for one in lefts]}


def _folded(lefts: list[ExcludedNode]) -> Iterator[tuple[str, str]]:
    """The nodes that are left for one reason, and that reason, in which NODE stands for several."""
    from inventory.nodeset import fold

    groups: dict[str, list[ExcludedNode]] = {}
    for left in lefts:
        alone = rf"(?<![\w.-]){re.escape(left.node)}(?![\w.-])"
        groups.setdefault(re.sub(alone, "NODE", left.why), []).append(left)
    for why, group in groups.items():
        yield (fold(left.node for left in group), why) if len(group) > 1 else (group[0].node, group[0].why)
