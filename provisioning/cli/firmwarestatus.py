"""`muster firmware status`: the drift report over the fleet."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from inventory.cli.formatted import as_json as format_option
from inventory.cli.span import span
from provisioning.cli.bmccommon import BmcOptions
from provisioning.cli.bmccommon import options as bmc_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from healthcheck.store.file import Store
    from inventory.model import Node
    from provisioning.cli.bringupsite import Surroundings
    from provisioning.firmware.drift import FleetMachine


@click.command()
@click.argument("nodes", required=False, shell_complete=completing.node_set)
@click.option("--read", "read", is_flag=True,
              help="Ask the controllers now, over Redfish or IPMI, and keep their answers in the store.")
@click.option("--tools", "tools", is_flag=True,
              help="Ask fwupd and mlxfwmanager on the nodes now, over SSH as root, and keep their answers.")
@click.option("--max-age", metavar="SPAN", callback=span(1, 3660 * 86400),
              help="Take what was read longer ago for unknown. Default: any age counts, and is shown.")
@click.option("--all", "every", is_flag=True, help="List every version that is known, wanted or not.")
@click.option("--rules", metavar="DIR", help="A folder of site rules whose bringup.yaml says what is wanted.")
@click.option("--sku", metavar="NAME", help="Take nodes for this SKU where the inventory does not say.")
@format_option("json: muster.firmware/1.")
@bmc_options
def status(
    nodes: str | None, read: bool, tools: bool, max_age: float | None, every: bool, rules: str | None,
    sku: str | None, as_json: bool, bmc: BmcOptions,
) -> int:
    """Compare the firmware of NODES (default: all but retired ones) with what bringup.yaml wants of it.

    Versions come from the store: from sweeps (BIOS, GPUs, adapters, NVMe drives), from controllers that
    --read has asked (all else), and from the machines' own tools (--tools). Their age is shown. What was
    never read is unknown, not as wanted.

    \b
    muster firmware status
    muster firmware status @rack7 --read
    muster firmware status --max-age 7d
    muster firmware status --format json | jq '.groups[] | select(.state == "drift")'

    Exit: 0 as wanted, 1 some differs, 2 usage, 3 something is unknown, or nothing is wanted.
    """
    from healthcheck.store.file import NAME, opened
    from inventory.model import LifecycleState
    from inventory.select import select
    from inventory.transport.remote import RemoteTransport
    from provisioning.bmc.ask import connector
    from provisioning.cli.bringupsite import surroundings
    from provisioning.firmware.drift import Drift, groups, judged, wanted
    from provisioning.firmware.inband.read import read_tools
    from provisioning.firmware.page import FirmwareReport, document, lines, reported
    from provisioning.firmware.read import read_now

    site = surroundings(bmc.file, rules, bmc.state, sku)
    named = (select(site.inventory, nodes) if nodes is not None else [
        one for one in site.inventory.nodes.values() if one.lifecycle.state is not LifecycleState.RETIRED])
    unanswered: dict[str, str] = {}
    asks = read or tools
    there = asks or (site.folder / NAME).exists()
    with opened(site.folder, make=asks) if there else nullcontext() as store:
        if read and store is not None:
            unanswered = read_now(store, named, connector(site.folder, bmc.seconds), bmc.fanout)
        if tools and store is not None:
            for name, why in read_tools(store, named, RemoteTransport(), bmc.fanout).items():
                unanswered[name] = f"{unanswered[name]}; {why}" if name in unanswered else why
        machines = fleet(site, named, store)
    now = time.time()
    fresh = 0.0 if max_age is None else now - max_age
    found = tuple(judged(replace(one, fresh=fresh), site.policy) for one in machines)
    report = FirmwareReport(wanted(site.policy.firmware), found, groups(found), unanswered, now)
    if as_json:
        click.echo(json.dumps(document(report)))
    else:
        for line in (*(reported(found) if every else ()), *lines(report)):
            click.echo(line)
    if not site.policy.firmware:
        click.echo(f"muster: no version is wanted: {site.policy.files[-1]} has no entry under firmware:; see "
                   "muster help firmware", err=True)
    states = {one.state for one in found}
    if Drift.DRIFT in states:
        return 1
    return 3 if unanswered or Drift.UNKNOWN in states or not states & {Drift.AS_WANTED} else 0


def fleet(site: Surroundings, named: Sequence[Node], store: Store | None) -> list[FleetMachine]:
    """These machines as the store knows them: by the inventory's SKU, else that of their newest sweep."""
    from healthcheck.model.firmware import MachineFirmware
    from healthcheck.store.firmware import known_firmware, recognised_skus
    from healthcheck.store.hardware import new_since
    from provisioning.firmware.drift import FleetMachine

    skus = {node.name: node.sku or site.default_sku for node in named}
    if store is None:
        return [FleetMachine(node.name, skus[node.name], MachineFirmware()) for node in named]
    known, since = known_firmware(store), new_since(store)
    if any(entry.of.skus for entry in site.policy.firmware):
        unsaid = {name for name, sku in skus.items() if sku is None}
        skus.update(recognised_skus(store, unsaid) if unsaid else {})
    return [FleetMachine(node.name, skus[node.name], known.get(node.name, MachineFirmware()),
                         since.get(node.name, 0.0)) for node in named]
