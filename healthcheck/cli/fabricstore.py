"""Keeps what `muster fabric check --store` finds, for triage, blame and the exporter."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

import click

from healthcheck.store.fabricfindings import WHOLE, SubnetChecked, write
from healthcheck.store.file import opened
from healthcheck.subnet.check.findings import FabricReport, FabricRule
from healthcheck.subnet.check.seen import SeenSubnet
from healthcheck.subnet.kept import KeptFinding, kept
from healthcheck.subnet.measured import lot_not_measured, not_measured
from healthcheck.subnet.model import DeviceKind, Subnet
from inventory.text import clean, many

# What only all subnets of a check together show.
_OF_ALL = frozenset({FabricRule.ADAPTER, FabricRule.LOT})


def keep(folder: Path, report: FabricReport, seen: Sequence[SeenSubnet], racks: Mapping[str, str],
         now: float, lots: Collection[str] = ()) -> None:
    """Writes a check down, which knew parts of these `lots`. Raises StoreError."""
    found = kept(report.findings, seen, racks)
    checked = [SubnetChecked(one.subnet.name, _guids(one.subnet), one.at,
                             [each for each in found if each.plane == one.subnet.name
                              and each.rule not in _OF_ALL], partial(not_measured, seen=one))
               for one in seen if one.at is not None and one.subnet.devices]
    if checked:
        checked.append(SubnetChecked(WHOLE, frozenset(), min(one.at for one in checked), [
            each for each in found if each.rule in _OF_ALL], partial(_of_all, seen=seen, lots=lots)))
    with opened(folder, make=True) as store:
        done = write(store, checked, now)
    words = [f"{many(done.began, 'finding')} new", f"{done.lasting} again", f"{done.ended} over",
             *([f"{done.missed} not measured this time, which stay open"] if done.missed else [])]
    click.echo(f"stored: {', '.join(words)}", err=True)
    names = [clean(name, 60) or "the subnet" for name in done.older if name != WHOLE]
    if names:
        click.echo(f"muster: {', '.join(names)}: a newer check is stored, and this one was not", err=True)
    lost = [clean(one.subnet.name, 60) or "the subnet" for one in seen
            if one.at is None or not one.subnet.devices]
    if lost:
        click.echo(f"muster: {', '.join(lost)}: nothing was read, and nothing of it stored", err=True)


def _of_all(one: KeptFinding, seen: Sequence[SeenSubnet], lots: Collection[str]) -> str:
    """Why the check cannot say that what all subnets together showed is over; empty where it can."""
    if one.rule is FabricRule.LOT:
        return lot_not_measured(one, seen, lots)
    return not_measured(one, next((each for each in seen if each.subnet.partial), seen[0]))


def _guids(subnet: Subnet) -> frozenset[str]:
    """Its switches, by which it is known again; of adapters that are joined without one, these."""
    switches = frozenset(guid for guid, device in subnet.devices.items() if device.kind is DeviceKind.SWITCH)
    return switches or frozenset(subnet.devices)
