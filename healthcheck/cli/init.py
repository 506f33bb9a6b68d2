"""`muster init`: from nothing to a first sweep: inventory, host keys, SKUs, and what to type next."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.check import choose, ended, show, stored
from healthcheck.cli.initnext import NOT_REACHED, next_steps
from healthcheck.cli.options import RULES, STATE, TIMEOUT
from healthcheck.config.files import write_named
from healthcheck.report.progress import progress
from healthcheck.store.file import NAME, opened
from healthcheck.store.history import newest_spells
from inventory.cli.confirm import on_terminal
from inventory.cli.limits import FANOUT, LIMIT, announce, given
from inventory.errors import InventoryError, UsageError
from inventory.limits import limited
from inventory.load import load_inventory, parse_with_origins
from inventory.locate import find_inventory, state_dir
from inventory.model import LifecycleState
from inventory.nodeset import fold
from inventory.text import many

if TYPE_CHECKING:
    from healthcheck.cli.initsources import InitSources
    from healthcheck.model.recording import Recording
    from healthcheck.ruleset.ruleset import Ruleset
    from healthcheck.store.readings import NodeReadings
    from healthcheck.sweep.sweep import SweepPlan, SweepResult
    from inventory.importers.base import Imported
    from inventory.model import Inventory, Node

_HEAD = "# Made by muster init; yours to edit. See: muster help inventory\n"


@dataclass(frozen=True)
class _Setup:
    """What the options say; `place` is the inventory file."""

    place: Path
    rules: str | None
    state: Path
    timeout: float | None
    fanout: int
    accept_keys: bool
    expect: str | None
    accept_skus: bool
    interactive: bool


@click.command()
@click.argument("nodes", required=False, shell_complete=completing.node_set)
@click.option("--from-slurm", is_flag=True, help="Take the nodes from Slurm (scontrol show node).")
@click.option("--from-ansible", metavar="PATH", help="Take them from an Ansible inventory.")
@click.option("--from-ssh-config", is_flag=True, help="Take the hosts of ~/.ssh/config.")
@click.option("--from-file", metavar="FILE", help="Take them from a list of names; - is standard input.")
@click.option("--output", "-o", metavar="FILE",
              help="The inventory to write. [MUSTER_INVENTORY, else ./muster.yaml]")
@click.option("--anew", is_flag=True, help="Write it anew where it exists; the old one stays as FILE.old.")
@click.option("--accept-keys", is_flag=True,
              help="Pin host keys without asking: trust the network this once.")
@click.option("--expect", metavar="PATH",
              help="Pin only keys that are in this file or folder; see muster inventory enroll.")
@click.option("--accept-skus", is_flag=True, help="Give nodes the proposed SKUs without asking.")
@RULES
@STATE
@TIMEOUT
@LIMIT
@FANOUT
def init(
    nodes: str | None, from_slurm: bool, from_ansible: str | None, from_ssh_config: bool,
    from_file: str | None, output: str | None, anew: bool, accept_keys: bool, expect: str | None,
    accept_skus: bool, rules: str | None, state: str | None, timeout: float | None, fanout: int,
) -> int:
    """Set muster up for your machines: write muster.yaml, pin host keys, propose SKUs, sweep once, and say
    what to type next.

    On a terminal it asks; without one, options decide and it asks nothing. NODES are names or node sets; with
    one of the --from options they choose among what that names. It changes nothing on the machines. Type the
    same again after Ctrl-C or a power cut: what is done stays, and the rest follows. Machines that could not
    be reached are tried again then.

    \b
    muster init                                            asks
    muster init 'gpu[001-016]'
    muster init --from-slurm '@train' --expect consoles/
    muster init --from-ssh-config 'gpu*' --accept-keys --accept-skus

    Exit: as muster check; 2 also where host keys wait for an answer and there is no terminal.
    """
    from healthcheck.cli.initsources import InitSources

    if accept_keys and expect is not None:
        raise UsageError("--accept-keys and --expect exclude each other: --expect checks the keys, "
                         "--accept-keys trusts them unchecked")
    sources = InitSources(nodes, from_slurm, from_ansible, from_ssh_config, from_file)
    setup = _Setup(_place(output), rules, state_dir(state), timeout, fanout, accept_keys, expect, accept_skus,
                   on_terminal() and from_file != "-")
    named = "".join(f" {option} {shlex.quote(given)}" for option, given in (("--state", state),) if given)
    try:
        return _run(setup, anew, sources, named)
    except (click.Abort, KeyboardInterrupt):
        click.echo("\nmuster: what is done stays done; type the same again to go on", err=True)
        raise


def _place(output: str | None) -> Path:
    named = output or os.environ.get("MUSTER_INVENTORY") or "muster.yaml"
    place = Path(named).expanduser()
    if not place.parent.is_dir():
        raise UsageError(f"--output {named}: no folder {place.parent}")
    return place


def _run(setup: _Setup, anew: bool, sources: InitSources, state: str) -> int:
    from healthcheck.ruleset.ruleset import ruleset_of

    place = setup.place
    ruleset = ruleset_of(setup.rules)
    _write_inventory(setup, anew, sources, ruleset)
    found = _load(place, ruleset)
    serving = [node for node in found if node.lifecycle.state is LifecycleState.SERVICE]
    waiting = _pin(setup, found, serving or list(found))
    known, code = _known_states(setup.state), 0
    due = (waiting.pinned or any(node.name not in known for node in serving)
           or (setup.accept_skus and any(node.sku is None for node in serving)))
    if not waiting.reachable:
        code = 3
        click.echo("\nSweep: not yet, as no machine's host key is known")
    elif due:
        code = _sweep(setup, serving, ruleset)
        found, known = _load(place, ruleset_of(setup.rules)), _known_states(setup.state)
    else:
        click.echo("\nSweep: done before. Each node's state then:")
        for was in dict.fromkeys(known[node.name] for node in serving):
            names = [node.name for node in serving if known[node.name] == was]
            click.echo(f"  {was:<11}  {len(names):>5}  {_short(fold(names))}")
    click.echo("\nNext")
    hidden = shlex.quote(str(place)) if _hidden(place) else ""
    for command, why in next_steps(found, ruleset_of(setup.rules), known, hidden, state):
        click.echo(f"  {command:<44}  {why}")
    if waiting.unasked:
        raise UsageError(f"host keys of {waiting.unasked} are not pinned, as there is no terminal to ask on. "
                         "Type the same again with --expect PATH to check them, or --accept-keys to trust "
                         "on first use")
    return code


def _hidden(place: Path) -> bool:
    """Whether other commands find this file only when it is named."""
    try:
        return (there := find_inventory()) is None or not place.samefile(there)
    except (OSError, InventoryError):
        return True


def _load(place: Path, ruleset: Ruleset) -> Inventory:
    return load_inventory(place, ruleset.skus, ruleset.profiles)


def _write_inventory(
    setup: _Setup, anew: bool, sources: InitSources, ruleset: Ruleset,
) -> None:
    """Afterwards the inventory is there: written now, whole, or found with the nodes that are named."""
    from healthcheck.cli import initsources
    from inventory.importers.slurm import LIVE

    place = setup.place
    there = os.path.lexists(place)
    named = sources.take()
    if there and not anew:
        found = _load(place, ruleset)
        click.echo(f"Inventory: {place} is there, with {many(len(found.nodes), 'node')}, "
                   f"{_short(fold(found.nodes))}")
        others = sorted(set(named.nodes) - set(found.nodes)) if named is not None else []
        if others:
            raise UsageError(f"{place} does not have {_short(fold(others))}. To add nodes, write them under "
                             f"nodes: in it, or see muster inventory import; to write it anew: --anew")
        return
    if named is None:
        if not setup.interactive:
            raise UsageError("no terminal to ask on, and no node is named: muster init 'gpu[001-016]', or "
                             "--from-slurm, --from-ansible PATH, --from-ssh-config, --from-file FILE")
        named = initsources.asked()
    text = _text(named, place, ruleset)
    if not there and (other := _elsewhere()) is not None:
        click.echo(f"note: {other} is there as well; it counts where {place} is not found")
    if there:
        _replace(place, text)
    else:
        from inventory.inventoryfile import write_new

        write_new(place, text)
    click.echo(f"Inventory: {place} written, with {many(len(named.nodes), 'node')}, "
               f"{_short(fold(named.nodes))}")
    for note in named.notes:
        click.echo(f"  note: {note}")
    if named.source == LIVE:
        click.echo("  cordon: slurm: what muster triage --apply isolates, it drains in Slurm")


def _elsewhere() -> Path | None:
    """Another inventory that commands would find here."""
    try:
        return find_inventory()
    except InventoryError:      # MUSTER_INVENTORY names the file that is to be written
        return None


def _text(source: Imported, place: Path, ruleset: Ruleset) -> str:
    from inventory.importers.slurm import LIVE
    from inventory.merge import new_file

    text = new_file(source, str(place), ruleset.skus).text
    if source.source == LIVE:
        text = text.replace("version: 1\n", "version: 1\ncordon: slurm\n", 1)
    parse_with_origins(_HEAD + text, str(place), ruleset.skus)
    return _HEAD + text


def _replace(place: Path, text: str) -> None:
    """Writes the file anew, whole; the old one stays beside it."""
    from inventory.inventoryfile import InventoryFile

    given = InventoryFile.read(place)
    old = place.with_name(f"{place.name}.old")
    write_named(old, given.data, f"{old}", 0o644)
    given.write(text)
    click.echo(f"{old}: holds the file as it was")


@dataclass(frozen=True)
class _Pinned:
    """Whether keys were pinned now, whether any node has a known key, and the nodes whose keys wait for an
    answer."""

    pinned: bool
    reachable: bool
    unasked: str = ""


def _pin(setup: _Setup, found: Inventory, nodes: list[Node]) -> _Pinned:
    """Pins the keys of jump hosts, then those of nodes that have none yet."""
    from inventory.cli.enroll import jump_hosts, show_enrolment, show_notes, try_to_pin
    from inventory.enrolment import without_key
    from inventory.expect import read_expected
    from inventory.sshconfig import default_config

    config = default_config()
    lacking = without_key(nodes, config)
    if not lacking:
        click.echo(f"\nHost keys: known of all {len(nodes)} nodes" if len(nodes) > 1
                   else "\nHost keys: known")
        return _Pinned(pinned=False, reachable=True)
    click.echo("\nHost keys: by them muster knows that it talks to your machines. To check them, compare "
               "the fingerprints with the machines' consoles.")
    rounds = [without_key(jump_hosts(found).values(), config), lacking]
    pinned, unasked = 0, ""
    for those in (each for each in rounds if each):
        expected = (read_expected(Path(setup.expect).expanduser(), [node.name for node in those])
                    if setup.expect is not None else None)
        sys.stdout.flush()
        tried = try_to_pin(limited(those, given()), config, expected, timeout=setup.timeout,
                           fanout=setup.fanout, yes=setup.accept_keys)
        show_enrolment(tried.subjects, yes=setup.accept_keys)
        show_notes(tried.subjects)
        pinned += sum(each.done for each in tried.subjects)
        unasked = fold(each.node.name for each in tried.unasked) or unasked
    still = {node.name for node in without_key(nodes, config)}
    return _Pinned(pinned=pinned > 0, reachable=len(still) < len(nodes), unasked=unasked)


def _known_states(folder: Path) -> Mapping[str, str]:
    """By node the newest state that the store has; empty where there is no store yet."""
    if not (folder / NAME).exists():
        return {}
    with opened(folder) as store:
        return {name: NOT_REACHED if spell.stage else spell.state
                for name, spell in newest_spells(store).items()}


def _sweep(setup: _Setup, serving: list[Node], ruleset: Ruleset) -> int:
    """Sweeps once, offers SKUs to nodes without one, judges by them, stores and shows the result."""
    from healthcheck.cli.initskus import asker, give_skus
    from healthcheck.ruleset.ruleset import ruleset_of
    from healthcheck.store.readings import readings
    from healthcheck.store.repairs import words_in
    from healthcheck.sweep import sweep
    from healthcheck.sweep.gpuhistory import known_of_gpus
    from healthcheck.sweep.saved import MemorySaver
    from healthcheck.sweep.snapshots import KeptSnapshots
    from inventory.transport.remote import RemoteTransport

    def planned(ruleset: Ruleset) -> SweepPlan:
        nodes = choose(None, str(setup.place), False, False, ruleset)
        return sweep.SweepPlan(nodes, ruleset, None, nodes.source,
                               gpu_history=known_of_gpus(nodes.inventory, ruleset.skus, setup.state))

    click.echo("\nSweep: it only reads")
    sys.stdout.flush()
    plan = planned(ruleset)
    limits = sweep.limits(setup.timeout, setup.fanout, plan.nodes)
    announce(plan.nodes, limits, setup.timeout)
    kept = MemorySaver()
    seen: dict[str, NodeReadings] = {}

    def read(recording: Recording) -> None:
        seen[recording.node] = readings(recording)

    outcome: SweepResult = sweep.live(
        plan, RemoteTransport(), limits, progress(len(plan.nodes), "init"),
        snapshots=KeptSnapshots(setup.state), saver=kept, on_recording=read,
        repairs=words_in(setup.state, {node.name for node in plan.nodes}))
    if outcome.partial:
        raise KeyboardInterrupt
    lacking = {node.name for node in serving if node.sku is None}
    if lacking:
        click.echo("\nSKUs: a SKU says what a kind of machine should show, such as eight GPUs")
        basis = {report.node: report.sku_basis for report in outcome.assessed.reports}
        if give_skus(setup.place, [one for one, _ in kept.snapshots], basis, lacking, ruleset, setup.rules,
                     dt.date.today().isoformat(), asker(setup.accept_skus, setup.interactive)):
            plan = planned(ruleset_of(setup.rules))
            outcome = sweep.judged_again(plan, outcome, kept)
        elif not setup.interactive and not setup.accept_skus:
            click.echo("  none given: --accept-skus gives those that are proposed; until then nodes are "
                       "expected to be like most of them")
    outcome = stored(setup.state, plan, outcome, seen)
    click.echo("")
    with contextlib.suppress(BrokenPipeError, SystemExit):
        show(plan, outcome, "table")
    for line in (*outcome.remarks, *outcome.troubles):
        click.echo(f"muster: {line}", err=True)
    return 2 if outcome.troubles else ended(plan, outcome)


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:199]}…"
