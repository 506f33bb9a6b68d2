"""The part of `muster init` that gives nodes a SKU: shows what they are like, asks, and writes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from healthcheck.cli.sku import validate
from healthcheck.config.files import write_whole
from healthcheck.model.recording import Recording
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.sweep.kinds import MachineKind, kinds
from healthcheck.sweep.skulearn import as_yaml, differences
from inventory.errors import UsageError
from inventory.importers.base import Imported
from inventory.inventoryfile import InventoryFile
from inventory.merge import merge
from inventory.nodeset import fold
from inventory.text import clean


def give_skus(
    place: Path, recordings: Sequence[Recording], basis: Mapping[str, str], lacking: Collection[str],
    ruleset: Ruleset, rules: str | None, day: str, accept: Callable[[str], bool],
) -> bool:
    """Shows the kinds of the nodes that have no SKU, and gives a SKU to those for which `accept` says yes.

    A kind that no known SKU fits gets one of its own in the folder of site rules. Each file is written whole.
    Returns whether anything was written.
    """
    taken = False
    for every in kinds(recordings, ruleset, basis):
        kind = replace(every, nodes=tuple(node for node in every.nodes if node in lacking))
        if not kind.nodes:
            continue
        who = fold(kind.nodes)
        if kind.why:
            click.echo(f"  {who}: {kind.title}; no SKU proposed: {clean(kind.why, 600)}")
            continue
        if kind.sku is not None:
            click.echo(f"  {who}: {kind.title}: like SKU {kind.sku}")
            if accept(f"Expect of {who} what {kind.sku} says (muster sku show {kind.sku})?"):
                _assign(place, kind.nodes, kind.sku, ruleset)
                taken = True
        else:
            taken |= _own(place, kind, ruleset, rules, day, accept)
    return taken


def _own(
    place: Path, kind: MachineKind, ruleset: Ruleset, rules: str | None, day: str,
    accept: Callable[[str], bool],
) -> bool:
    proposal = kind.proposal
    if proposal is None:
        return False
    who, parent = fold(kind.nodes), proposal.parent
    folder = site_rules(rules) / "sku"
    base = f"{parent.name}-site" if parent is not None else "site"
    name = next(each for each in (base, *(f"{base}{number}" for number in range(2, 1000)))
                if each not in ruleset.skus and not (folder / f"{each}.yaml").exists())
    near = f"nearest is {parent.name}, with these differences" if parent is not None else "like no known SKU"
    click.echo(f"  {who}: {kind.title}: {near}" + (":" if parent is not None else ""))
    for line in differences(proposal):
        click.echo(f"    {clean(line, 200)}")
    click.echo("    Read them: what these nodes share may be a fault.")
    file = folder / f"{name}.yaml"
    if not accept(f"Make these the SKU {name} ({file}), and expect them of {who}?"):
        return False
    text = as_yaml(proposal, name, f"muster init, {day}, from {fold(proposal.nodes)}")
    validate(text, rules)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(file, text.encode(), 0o644)
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}") from None
    click.echo(f"  {file}: written")
    _assign(place, kind.nodes, name, None)
    return True


def site_rules(rules: str | None) -> Path:
    """The folder of site rules that every command reads by itself, unless --rules names another."""
    if rules is not None:
        return Path(rules)
    if os.geteuid() == 0:
        return Path("/etc/muster/rules")
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "muster" / "rules"


def _assign(place: Path, nodes: Sequence[str], sku: str, ruleset: Ruleset | None) -> None:
    """Afterwards the inventory file names the SKU of these nodes; a `sku` that it has wins."""
    given = InventoryFile.read(place)
    wanted = Imported("muster init", {name: {"sku": sku} for name in nodes}, {})
    known = None if ruleset is None else ruleset.skus
    merged = merge(given.text, str(place), wanted, skus=known)
    if merged.text != given.text:
        given.write(merged.text)
        click.echo(f"  {place}: SKU {sku} written for {fold(nodes)}")


def asker(accept: bool, interactive: bool) -> Callable[[str], bool]:
    """Answers a question for a SKU: yes where the option said so, a person's answer on a terminal, else
    no."""
    def answer(question: str) -> bool:
        if accept:
            return True
        sys.stdout.flush()
        return interactive and click.confirm(question, default=True, err=True)
    return answer
