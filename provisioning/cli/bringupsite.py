"""What bring-up commands need: inventory, rules, policy, store; and who may be brought up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.cli.options import check_sku
from inventory.cli.limits import given
from inventory.errors import RulesError, UsageError
from inventory.text import clean, short

if TYPE_CHECKING:
    from healthcheck.ruleset.ruleset import Ruleset
    from healthcheck.store.file import Store
    from inventory.model import Inventory
    from provisioning.bringup.engine.choose import MachineSelection
    from provisioning.bringup.policy.model import BringupPolicy, DesiredBios, DesiredFirmware


@dataclass(frozen=True)
class Surroundings:
    """`path` is the inventory file, `rules` the rules folders in order, `folder` where state is kept."""

    path: Path
    inventory: Inventory
    rules: tuple[Path, ...]
    ruleset: Ruleset
    policy: BringupPolicy
    folder: Path
    default_sku: str | None


def surroundings(
    inventory: str | None, rules: str | None, state: str | None, sku: str | None,
) -> Surroundings:
    """All of it as the options say; raises ConfigError, UsageError."""
    from healthcheck.config import rulesfolder
    from healthcheck.ruleset.ruleset import load_ruleset
    from healthcheck.ruleset.skulimits import limited_inventory
    from inventory.load import load_inventory
    from inventory.locate import needed_inventory, state_dir
    from provisioning.bringup.policy.load import load

    folders = tuple(rulesfolder.folders(rules))
    ruleset = load_ruleset(folders)
    check_sku(sku, ruleset)
    path = needed_inventory(inventory, "no inventory was found, and only it says which machines are in "
                            "bring-up: see muster inventory --help")
    there = limited_inventory(load_inventory(path, ruleset.skus, ruleset.profiles), ruleset.skus, sku,
                              given())
    policy = load(folders)
    if lost := unknown(policy, ruleset):
        raise RulesError(f"{policy.files[-1]}: {lost}")
    return Surroundings(path, there, folders, ruleset, policy, state_dir(state), sku)


def unknown(policy: BringupPolicy, ruleset: Ruleset) -> str:
    """What the policy names that the rules do not have, or "": a setting for no machine does nothing."""
    desired: list[DesiredBios | DesiredFirmware] = [*policy.bios, *policy.firmware]
    for entry in desired:
        if gone := [sku for sku in entry.of.skus if sku not in ruleset.skus]:
            return (f"{entry.id}: skus: no such SKU {short(gone[0])}; there are "
                    f"{', '.join(sorted(ruleset.skus))}")
    if policy.checks.profile not in ruleset.profiles:
        return (f"checks: profile: no such profile {short(policy.checks.profile)}; there are "
                f"{', '.join(sorted(ruleset.profiles))}")
    return ""


@contextmanager
def begun(folder: Path) -> Iterator[Store]:
    """The store, for commands that need a started bring-up; raises UsageError where there is none."""
    from healthcheck.store.file import NAME, opened

    if not (folder / NAME).exists():
        raise UsageError(
            f"{folder} has no store: no machine was ever started; to start: muster bringup run NODES --apply")
    with opened(folder) as store:
        yield store


def on_their_way(site: Surroundings) -> tuple[list[str], bool]:
    """The machines that the store has in bring-up, and whether there are others that the inventory does not
    name any more: those are listed and left alone. Raises UsageError where there is none."""
    from healthcheck.store import bringups
    from inventory.nodeset import fold

    with begun(site.folder) as store:
        names = [one.node for one in bringups.progress(store) if one.on_its_way]
    if not names:
        raise UsageError("no machine is in bring-up; to start: muster bringup run NODES --apply")
    there = [name for name in names if name in site.inventory.nodes]
    if strange := [name for name in names if name not in site.inventory.nodes]:
        message = (f"{site.path} does not name {clean(fold(strange), 200)}, which the store has in bring-up: "
                   "name the inventory that does (--inventory FILE); to take a machine out of bring-up, "
                   "name it there with lifecycle retired")
        if not there:
            raise UsageError(message)
        click.echo(f"muster: left as it is: {message}", err=True)
    return there, bool(strange)


def sorted_out(
    site: Surroundings, nodes: str | Iterable[str],
) -> tuple[MachineSelection, Mapping[tuple[str, str], str]]:
    """Which of these may be brought up, and by machine and step why it is skipped; raises InventoryError."""
    from healthcheck.store import bringups
    from healthcheck.store.file import NAME, opened
    from inventory.select import select
    from provisioning.bringup.engine.choose import chosen

    asked = select(
        site.inventory, nodes) if isinstance(nodes, str) else [site.inventory.nodes[name] for name in nodes]
    with opened(site.folder) if (site.folder / NAME).exists() else nullcontext() as store:
        progress = {one.node: one for one in bringups.progress(store)} if store is not None else {}
        skips = bringups.skips(store, coming=True) if store is not None else []
    over: dict[str, set[str]] = {}
    for one in skips:
        over.setdefault(one.node, set()).add(one.step)
    why = {(one.node, one.step): f"{one.who}: {one.why}" for one in skips}
    return chosen(asked, progress, over, site.policy.without), why
