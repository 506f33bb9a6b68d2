"""`muster record`: a snapshot of one node as one file, for a public report."""

from __future__ import annotations

import contextlib
import getpass
import os
import pwd
import secrets
import socket
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.check import choose
from healthcheck.cli.options import INVENTORY, RULES, check_sku
from healthcheck.config.files import write_named
from healthcheck.report.progress import progress
from inventory.cli.limits import LIMIT
from inventory.cli.number import FiniteNumber
from inventory.errors import ConfigError, UsageError
from inventory.load import load_inventory
from inventory.locate import find_inventory, state_dir
from inventory.model import LifecycleState
from inventory.text import clean
from inventory.transport.choose import transport_of

if TYPE_CHECKING:
    from healthcheck.model.recording import Recording
    from healthcheck.ruleset.ruleset import Ruleset
    from healthcheck.scrub import Scrubbed
    from healthcheck.sweep.saved import SweepManifest
    from healthcheck.sweep.sweep import SweepPlan
    from inventory.model import Node

_NO_RESTS: Mapping[str, None] = MappingProxyType({})
_FIRST_PERSON = 1000    # the first user id that distributions give to people


@click.command()
@click.argument("node", required=False, shell_complete=completing.node)
@click.option("--output", "-o", metavar="FILE", required=True, help="The file to write.")
@INVENTORY
@click.option("--local", is_flag=True, help="Record this machine, without SSH.")
@click.option("--sku", metavar="NAME", shell_complete=completing.sku,
              help="The node's SKU, if the inventory names none.")
@RULES
@click.option("--raw", is_flag=True, help="Replace nothing. Do not share such a file.")
@click.option("--kept", metavar="FILE",
              help="Also write each value that stayed verbatim: kind, how often, value, separated by tabs.")
@click.option("--state", metavar="DIR",
              help="Where earlier snapshots are read from. Default: MUSTER_STATE, XDG, /var/lib/muster.")
@click.option("--timeout", metavar="S", type=FiniteNumber(min=1, max=86400),
              help="Deadline in seconds. [by the limits]")
@LIMIT
def record(
    node: str | None, output: str, inventory: str | None, local: bool, sku: str | None, rules: str | None,
    raw: bool, kept: str | None, state: str | None, timeout: float | None,
) -> int:
    """Run all probes on one NODE and write FILE, with names, addresses, serial numbers and secrets replaced.

    Each value has one stand-in of the same format throughout, so the file is judged like the node. The key is
    random and not kept, so it cannot be reversed. Only words of muster's own vocabulary stay, and shapes that
    facts need. A secret made of such words can remain: check with --kept what stayed before you publish.

    \b
    muster record gpu017 -o gpu017.json
    muster record --local -o here.json --sku hgx-h100
    muster record gpu017 -o gpu017.json --kept kept.txt
    muster check --replay gpu017.json

    Exit: 0 written, 2 usage, 3 written, but the node was not reached.
    """
    from healthcheck.ruleset.ruleset import ruleset_of
    from healthcheck.scrub import listed, replaced, scrub, stayed
    from healthcheck.sweep.saved import encode_one
    from inventory.release import VERSION

    target = _target("--output", output)
    kept_in = _target("--kept", kept) if kept is not None else None
    if raw and kept_in is not None:
        raise UsageError("--kept: with --raw everything stays")
    if not local and node is None:
        raise UsageError("no node named: muster record gpu017 -o FILE, or --local")
    ruleset = ruleset_of(rules)
    check_sku(sku, ruleset)
    plan, siblings = _plan(node, inventory, local, sku, ruleset)
    recording, previous, manifest = _sweep(plan, local, timeout, state)
    chosen = replace(plan.nodes[0], sku=None)
    # The SKU is kept apart from the node, so that --sku of a replay applies.
    manifest = replace(manifest, nodes=(chosen,), default_sku=plan.nodes[0].sku or sku,
                       source=_source(manifest.source))
    # Print real names; the file has the stand-ins.
    failure, made = recording.failure, None
    if not raw:
        made = scrub(recording, replace(chosen, sku=manifest.default_sku), previous=previous,
                     key=secrets.token_bytes(32), hosts=[*siblings, *_hosts_here(), *_jump_hosts(chosen)],
                     users=_users_here(local))
        for rule, before, after in _differences(plan, recording, previous, made):
            click.echo(f"muster: replacing names changed the result of {rule} from {before} to {after}: "
                       "please report it", err=True)
        recording, previous = made.recording, made.previous
        manifest = replace(manifest, nodes=(replace(made.node, sku=None),), default_sku=made.node.sku)
    write_named(target, encode_one(recording, previous, manifest, muster=VERSION,
                                   scrubbed=not raw), f"--output {output}")
    if made is not None and kept_in is not None:
        write_named(kept_in, listed(made.kept).encode("utf-8", "replace"), f"--kept {kept}")
    size = target.stat().st_size / 1024
    if failure is not None:
        reason = clean(f"{failure.stage.value}: {failure.reason}", 400)
        click.echo(f"not reached ({reason}); {output} holds that, {size:.0f} KiB")
    else:
        click.echo(f"written: {output}, {len(recording.captures)} captures, {size:.0f} KiB")
    if made is None:
        click.echo("muster: --raw: nothing was replaced; the file names hosts, users, addresses and serial "
                   "numbers: keep it private", err=True)
    else:
        click.echo(f"replaced: {replaced(made.counts)}")
        click.echo(f"kept verbatim: {stayed(made.kept)}")
        click.echo("Check what was kept before you publish the file"
                   + (f": {kept}" if kept_in is not None else "; --kept FILE lists it."))
    return 3 if failure is not None else 0


def _target(option: str, name: str) -> Path:
    """The file to write; UsageError unless its folder is there."""
    target = Path(name)
    if target.is_dir() or not target.parent.is_dir():
        raise UsageError(f"{option} {name}: " + ("is a folder" if target.is_dir()
                                                 else f"no folder {target.parent}"))
    return target


def _plan(
    node: str | None, inventory: str | None, local: bool, sku: str | None, ruleset: Ruleset,
) -> tuple[SweepPlan, list[str]]:
    """The plan for the one node, and the names of the inventory's other nodes."""
    from healthcheck.sweep.sweep import SweepPlan

    chosen = choose(node, inventory, local, False, ruleset, sku)
    if len(chosen) != 1:
        raise UsageError(f"{node} names {len(chosen)} nodes, expected one")
    path = find_inventory(inventory)
    siblings = list(load_inventory(path, ruleset.skus).nodes) if path is not None else []
    return SweepPlan(tuple(chosen), ruleset, sku, chosen.source), siblings


def _sweep(
    plan: SweepPlan, local: bool, timeout: float | None, state: str | None,
) -> tuple[Recording, Recording | None, SweepManifest]:
    """One sweep of one node, kept only in memory."""
    from healthcheck.store.repairs import words_in
    from healthcheck.sweep import sweep
    from healthcheck.sweep.saved import MemorySaver
    from healthcheck.sweep.snapshots import KeptSnapshots

    class Earlier(KeptSnapshots):
        """Reads the newest snapshot and does not replace it:
        a recording is not one of the sweeps that trends compare."""

        def prepare(self) -> None:
            pass

        def write(
            self, recording: Recording, previous: Recording | None,
            state: LifecycleState = LifecycleState.SERVICE, unusual: Iterable[str] = (),
            rests: Mapping[str, Collection[int] | None] = _NO_RESTS,
        ) -> None:
            pass

    transport = transport_of("local" if local else "ssh")
    kept = MemorySaver()
    sweep.live(plan, transport, sweep.limits(timeout, 1, plan.nodes), progress(1, "record", quiet=True),
               snapshots=Earlier(state_dir(state)), saver=kept, repairs=words_in(state_dir(state)))
    if kept.manifest is None or not kept.snapshots or kept.manifest.partial:
        raise KeyboardInterrupt
    return *kept.snapshots[0], kept.manifest


def _differences(
    plan: SweepPlan, recording: Recording, previous: Recording | None, made: Scrubbed,
) -> Iterable[tuple[str, str, str]]:
    """Rules with another result on the scrubbed recording: (rule, before, after).
    Scrubbing must not change a fact."""
    from healthcheck.sweep.assess import Assessment

    before, after = (Assessment(plan.nodes, plan.ruleset, plan.default_sku),
                     Assessment((made.node,), plan.ruleset, plan.default_sku))
    before.add(recording, previous)
    after.add(made.recording, made.previous)
    raw, scrubbed = before.finish().reports[0], after.finish().reports[0]
    for old, new in zip(raw.results, scrubbed.results, strict=False):
        if (old.status, len(old.findings)) != (new.status, len(new.findings)):
            yield (old.rule, f"{old.status.value} ({len(old.findings)})",
                   f"{new.status.value} ({len(new.findings)})")


def _source(source: str) -> str:
    """The node's source, without folder or file names that may name a person."""
    return source if "/" not in source and not source.endswith((".yaml", ".yml")) else "muster.yaml"


def _jump_hosts(node: Node) -> list[str]:
    """The machines on the way to the node, which the reason of a failure names."""
    from inventory.sshconfig import default_config
    from inventory.sshroute import route_for

    try:
        hops = route_for(node, default_config()).hops
    except ConfigError:
        return []
    return [name for hop in hops for name in (hop.name, hop.hostname)]


def _hosts_here() -> list[str]:
    """The names of this machine, and its resolver's default domains."""
    names = [socket.gethostname()]
    with contextlib.suppress(OSError):
        for line in Path("/etc/resolv.conf").read_text(errors="replace").splitlines():
            if line.startswith(("search ", "domain ")):
                names += [f"host.{domain}" for domain in line.split()[1:] if "." in domain.strip(".")]
    return names


def _users_here(local: bool) -> list[str]:
    """The current user; for a local recording, all personal accounts."""
    names = [os.environ.get(key, "") for key in ("USER", "LOGNAME", "SUDO_USER")]
    with contextlib.suppress(OSError, KeyError):
        names.append(getpass.getuser())
    if local:
        names += [entry.pw_name for entry in pwd.getpwall() if entry.pw_uid >= _FIRST_PERSON][:10_000]
    return names
