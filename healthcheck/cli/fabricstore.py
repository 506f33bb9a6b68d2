"""Keeps what `muster fabric check --store` finds, for triage, blame and the exporter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import click

from healthcheck.store.fabricfindings import WHOLE, SubnetChecked, write
from healthcheck.store.file import opened
from healthcheck.subnet.check.findings import FabricReport, FabricRule
from healthcheck.subnet.check.seen import SeenSubnet
from healthcheck.subnet.kept import kept
from healthcheck.subnet.measured import not_measured
from healthcheck.subnet.model import DeviceKind, Subnet
from inventory.text import clean, many


def keep(folder: Path, report: FabricReport, seen: Sequence[SeenSubnet], racks: Mapping[str, str],
         now: float) -> None:
    """Writes a check down. What it concludes of lots is left out: triage looks for lots itself. Raises
    StoreError."""
    found = kept([one for one in report.findings if one.rule is not FabricRule.LOT], seen, racks)
    checked = [SubnetChecked(one.subnet.name, _guids(one.subnet), one.at,
                             [each for each in found if each.plane == one.subnet.name
                              and each.rule is not FabricRule.ADAPTER], partial(not_measured, seen=one))
               for one in seen if one.at is not None and one.subnet.devices]
    if checked:     # what only all of them together show
        partly = next((one for one in seen if one.subnet.partial), seen[0])
        checked.append(SubnetChecked(WHOLE, frozenset(), min(one.at for one in checked), [
            each for each in found if each.rule is FabricRule.ADAPTER], partial(not_measured, seen=partly)))
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


def _guids(subnet: Subnet) -> frozenset[str]:
    """Its switches, by which it is known again; of adapters that are joined without one, these."""
    switches = frozenset(guid for guid, device in subnet.devices.items() if device.kind is DeviceKind.SWITCH)
    return switches or frozenset(subnet.devices)
