"""`muster inventory discover`: finds controllers, compares them with the delivery, and reports duplicates."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inventory.cli.formatted import as_json as format_option
from inventory.cli.propose import dry_run_option, propose, yes_option
from inventory.cli.show import _file, _known_skus
from inventory.errors import UsageError
from inventory.times import day

if TYPE_CHECKING:
    from inventory.importers.base import Imported
    from inventory.model import Bmc, Inventory
    from provisioning.discover.duplicates import Duplicate
    from provisioning.discover.model import Delivered, DhcpLease, FoundController


@click.command(short_help="Find management controllers, and what is missing, extra, swapped or duplicated.")
@click.option("--range", "ranges", multiple=True, metavar="ADDRESSES",
              help="The addresses to ask: 10.1.0.0/24, 10.1.0.10-10.1.0.99. Repeatable.")
@click.option("--leases", multiple=True, metavar="FILE",
              help="Lease file of ISC dhcpd, dnsmasq or Kea; nothing is sent. Repeatable.")
@click.option("--delivery", metavar="FILE.csv",
              help="What was delivered: serial, and optionally name, rack, slot, mac, model, address.")
@click.option("--map", "pairs", multiple=True, metavar="HEADER=KEY",
              help="The key of a column in the list, - for none. Repeatable.")
@click.option("--login", is_flag=True,
              help="Read serial numbers with the inventory's accounts; a refused account is tried once.")
@click.option(
    "--trust-certificates", "trust", is_flag=True,
    help="With --login, trust certificates that are not pinned: any host that shows one gets the password.")
@click.option("--rate", type=click.FloatRange(0.1, 1000), default=50, show_default=True,
              help="Addresses started per second.")
@click.option("--port", type=click.IntRange(1, 65535), default=443, show_default=True, help="Redfish, TCP.")
@click.option("--ipmi-port", type=click.IntRange(1, 65535), default=623, show_default=True, help="IPMI, UDP.")
@click.option("--write", "target", metavar="FILE",
              help="Propose entries for this inventory: planned, with controller and serial number.")
@click.option("--names", metavar="SET",
              help="With --write, names for new controllers, in order of address: 'gpu[001-064]'.")
@format_option("json: muster.discovered/1.")
@click.option(
    "--state", metavar="DIR",
    help="Folder of the store and pinned certificates. Default: MUSTER_STATE, XDG, /var/lib/muster.")
@yes_option
@dry_run_option
@_file
@click.pass_context
def discover(
    ctx: click.Context, ranges: tuple[str, ...], leases: tuple[str, ...], delivery: str | None,
    pairs: tuple[str, ...], login: bool, trust: bool, rate: float, port: int, ipmi_port: int,
    target: str | None, names: str | None, as_json: bool, state: str | None, yes: bool, dry_run: bool,
    file: str | None,
) -> None:
    """Find the management controllers in a range of addresses, and report what does not match.

    Muster asks each address for its Redfish service root and sends an IPMI ping. Neither needs a login, and
    it logs in only with --login. It compares the answers with the delivery list, the inventory, and the
    newest snapshots in the store.

    \b
    muster inventory discover --range 10.1.0.0/24
    muster inventory discover --range 10.1.0.10-10.1.0.99 --login --delivery rack7.csv
    muster inventory discover --leases /var/lib/dhcp/dhcpd.leases
    muster inventory discover --range 10.1.0.0/24 --login --delivery rack7.csv --write muster.yaml

    Exit: 0 all is as listed, 1 something is missing, extra, swapped or duplicated, 2 the command or a file is
    wrong, 3 something could not be read.
    """
    from provisioning.discover.ask import ScanSettings, sweep
    from provisioning.discover.ranges import addresses

    if not ranges and not leases:
        raise UsageError("give --range 10.1.0.0/24 to ask controllers there, or --leases FILE to read a DHCP "
                         "server's file")
    for option, given, needs in (("--login", login, bool(ranges)), ("--trust-certificates", trust, login),
                                 ("--names", names, target), ("--map", pairs, delivery),
                                 ("--write", target, bool(ranges)), ("--delivery", delivery, bool(ranges))):
        if given and not needs:
            raise UsageError(f"{option} needs {_NEEDS[option]}")
    if as_json and target is not None:
        raise UsageError("--format json and --write exclude each other: --write shows what would change")
    asked = addresses(ranges)
    leased = tuple(lease for path in leases for lease in _leases(path))
    rows = _rows(delivery, pairs) if delivery is not None else ()
    inventory, account, folder = _inventory(ctx, file, state, login)
    found = tuple(sweep(asked, rate, ScanSettings(port, ipmi_port), _progress(len(asked))))
    from provisioning.discover import compare, page

    found = _with_leases(found, leased)
    if login:
        from provisioning.discover.login import read

        found = read(found, compare.places(found, inventory), account, folder, 30.0, ports=(port, ipmi_port),
                     trust=trust, nics=any(row.mac for row in rows))
    at = compare.places(found, inventory)
    duplicated = _doubled(
        found, {address: node.name for address, node in at.items()}, leased, inventory, folder)
    known = page.Discovered(len(asked), found, at, leased, compare.compare(rows, found, at) if rows else None,
                            delivery or "", duplicated, compare.differing(found, at), login)
    if as_json:
        click.echo(json.dumps(page.document(known), indent=2))
    else:
        for line in page.text(known):
            click.echo(line)
    if target is not None:
        from inventory.nodeset import expand
        from provisioning.discover.entries import entries

        _write(ctx, target,
               entries(found, at, rows, leased, expand(names) if names else (),
                       ports=(port if port != 443 else None, ipmi_port if ipmi_port != 623 else None)),
               yes=yes, dry_run=dry_run)
    ctx.exit(known.exit_code)


_NEEDS = {
    "--login": "--range", "--trust-certificates": "--login", "--names": "--write", "--map": "--delivery",
    "--write": "--range", "--delivery": "--range"}


def _leases(path: str) -> tuple[DhcpLease, ...]:
    from inventory.importers.base import decode, read
    from provisioning.discover import leases

    return leases.read(decode(read(path), path), path, time.time())


def _rows(path: str, pairs: tuple[str, ...]) -> tuple[Delivered, ...]:
    from inventory.importers.base import columns, decode, read
    from provisioning.discover.deliverylist import parse

    mapping = columns(pairs)
    return parse(decode(read(path), path), path, mapping)


def _inventory(
    ctx: click.Context, file: str | None, state: str | None, login: bool,
) -> tuple[Inventory | None, Bmc | None, Path]:
    """The inventory if there is one, its default account for controllers, and the state folder."""
    from inventory.inventoryfile import InventoryFile
    from inventory.load import parse_with_origins
    from inventory.locate import find_inventory, state_dir
    from provisioning.discover.login import default_account

    folder = state_dir(state)
    place = find_inventory(file)
    if place is None:
        if login:
            raise UsageError(
                "--login takes accounts from an inventory, and none was found: give --inventory FILE")
        return None, None, folder
    given = InventoryFile.read(place)
    inventory = parse_with_origins(given.text, str(place), _known_skus(ctx)).inventory
    return inventory, default_account(given.text, str(place)) if login else None, folder


def _with_leases(
    found: tuple[FoundController, ...], leases: tuple[DhcpLease, ...],
) -> tuple[FoundController, ...]:
    """Each with the MAC address under which a lease is held for its address."""
    from dataclasses import replace

    from provisioning.discover.model import macs

    held = {lease.address: lease.mac for lease in leases if lease.held and lease.mac}
    return tuple(replace(one, macs=macs((*one.macs, held[one.address]))) if one.address in held else one
                 for one in found)


def _doubled(
    found: tuple[FoundController, ...], names: dict[str, str], leases: tuple[DhcpLease, ...],
    inventory: Inventory | None, folder: Path,
) -> tuple[Duplicate, ...]:
    from healthcheck.store.file import NAME, opened
    from healthcheck.store.hardware import newest_hardware
    from inventory.model import LifecycleState
    from provisioning.discover import duplicates

    hardware = {}
    if (folder / NAME).exists():
        with opened(folder) as store:
            hardware = newest_hardware(store)
    if inventory is not None:
        hardware = {
            name: seen for name, seen in hardware.items()
            if name in inventory.nodes
            and inventory.nodes[name].lifecycle.state is not LifecycleState.RETIRED}
    when = {name: day(at) for name, (at, _) in hardware.items()}
    claims = [*duplicates.of_found(found, names),
              *(duplicates.of_inventory(inventory) if inventory is not None else ()),
              *duplicates.of_hardware(hardware, when)]
    return (*duplicates.duplicated(claims), *duplicates.duplicated(duplicates.of_leases(leases)))


def _progress(many: int) -> Callable[[int], None]:
    if not sys.stderr.isatty() or many < 64:
        return lambda begun: None
    return lambda begun: click.echo(
        f"\r{begun} of {many} asked" + ("\r\x1b[K" if begun == many else ""), err=True, nl=False)


def _write(ctx: click.Context, target: str, found: Imported, *, yes: bool, dry_run: bool) -> None:
    """Shows what would change in the inventory, asks, and writes."""
    from inventory.inventoryfile import InventoryFile, write_new
    from inventory.merge import merge, new_file

    path = Path(target)
    skus = _known_skus(ctx)
    if not path.exists():
        made = new_file(found, target, skus)
        if propose(target, "", made.text, lambda: write_new(path, made.text), yes=yes, dry_run=dry_run,
                   remarks=made.remarks):
            click.echo(f"{target}: written")
        return
    given = InventoryFile.read(path)
    merged = merge(given.text, target, found, skus=skus)
    # a range is never all of an inventory
    remarks = [line for line in merged.remarks if not line.startswith("not in ")]
    if propose(target, given.text, merged.text, lambda: given.write(merged.text), yes=yes, dry_run=dry_run,
               remarks=remarks):
        click.echo(f"{target}: written")
