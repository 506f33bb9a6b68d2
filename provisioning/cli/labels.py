"""`muster inventory labels`: proposes racks, leaves and ports' leaves from LLDP and MAAS."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from inventory.cli.formatted import as_json as format_option
from inventory.cli.limits import FANOUT, LIMIT
from inventory.cli.span import span
from inventory.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inventory.inventoryfile import InventoryFile
    from inventory.model import Node
    from provisioning.discover.labels import LabelEvidence
    from provisioning.discover.labelspage import FoundLabels
    from provisioning.osinstall.maas.commissioning import Commissioned

_WIDTH = 8      # questions to MAAS at a time


@click.command(short_help="Propose racks, leaves and leaves of ports, from LLDP or MAAS.")
@click.argument("nodes", required=False, shell_complete=completing.node_set)
@click.option("--from-maas", "maas", metavar="URL",
              help="Take what MAAS commissioned instead of asking nodes: https://HOST:PORT/MAAS.")
@click.option("--key", metavar="FILE", help="With --from-maas, the file with its API key.")
@click.option("--ca", metavar="FILE", help="With --from-maas, the authorities of its certificate.")
@click.option("--cleartext", is_flag=True, help="With --from-maas, allow http://, which shows the key.")
@click.option("--saved", metavar="FOLDER",
              help="Take outputs of lldpctl instead: NODE.json, NODE.json0 or NODE.xml. Nothing is sent.")
@click.option("--leaf", "leaves", metavar="PATTERN", multiple=True,
              help="Switches of this name are leaves, wherever they are seen: 'leaf*'. Repeatable.")
@click.option("--rack", metavar="PATTERN",
              help="A switch of this name names the rack in place of the *: 'tor-*'.")
@click.option("--apply", "apply", is_flag=True, help="Write the new values. Without this, nothing changes.")
@format_option("json: muster.labels/1.")
@click.option("--become", is_flag=True, help="Go through sudo, whatever the inventory says.")
@click.option("--rules", metavar="DIR", help="Site rules, as for muster check; SKUs say what ports are for.")
@LIMIT
@FANOUT
@click.option("--timeout", metavar="SPAN", callback=span(1, 86400),
              help="Time limit for all nodes. [2m a node]")
@click.option("--inventory", "-i", "file", metavar="FILE", help="Default: as for muster check.")
def labels(
    nodes: str | None, maas: str | None, key: str | None, ca: str | None, cleartext: bool, saved: str | None,
    leaves: tuple[str, ...], rack: str | None, apply: bool, as_json: bool, become: bool, rules: str | None,
    fanout: int, timeout: float | None, file: str | None,
) -> int:
    """Propose rack, leaf and the leaf of each port for NODES, with the evidence for each value.

    Muster asks lldpd on each node (lldpctl, which needs root) which switch is at which interface. A value
    that the inventory has is never changed: what differs is shown. A port gets its leaf where the inventory
    or the SKU says what the port is for. With --from-maas, tags such as rack-r07 give the rack, zones and
    pools the labels zone and pool, and the switches are those that MAAS saw when it commissioned the machine.

    \b
    muster inventory labels @new
    muster inventory labels @new --leaf 'leaf*' --rack 'tor-*'
    muster inventory labels @new --saved outputs --leaf 'leaf*' --apply
    muster inventory labels @new --from-maas https://maas:5443/MAAS --key /etc/muster/maas.key

    Exit: 0 nothing is new, 1 something is new or differs, 2 usage, 3 something was not read or is unclear.
    """
    from healthcheck.ruleset.ruleset import ruleset_of
    from inventory.inventoryfile import InventoryFile
    from inventory.load import parse_with_origins
    from inventory.locate import needed_inventory
    from inventory.select import select
    from provisioning.discover.labels import LabelPatterns, check_patterns, propose
    from provisioning.discover.labelspage import FoundLabels, document, text

    if maas is not None and saved is not None:
        raise UsageError("--from-maas and --saved exclude each other")
    if (maas is None) != (key is None):
        raise UsageError("--from-maas needs --key FILE, the file with the API key, and --key needs "
                         "--from-maas")
    if maas is None and (ca is not None or cleartext):
        raise UsageError(f"{'--ca' if ca is not None else '--cleartext'} needs --from-maas")
    patterns = LabelPatterns(leaves, rack or "")
    check_patterns(patterns)
    place = needed_inventory(file, "found no inventory to propose values for: give --inventory FILE")
    skus = ruleset_of(rules).skus
    given = InventoryFile.read(place)
    inventory = parse_with_origins(given.text, str(place), skus).inventory
    chosen = list(select(inventory, nodes))
    if maas is not None and key is not None:
        evidence = _from_maas(chosen, maas, key, ca, cleartext)
    else:
        evidence = _from_lldp(chosen, saved, become, fanout, timeout)
    usual = {node.name: skus[node.sku].ports for node in chosen if node.sku is not None and node.sku in skus}
    found = FoundLabels(str(place), evidence, propose(evidence, inventory, usual, patterns))
    if not as_json:
        for line in text(found):
            click.echo(line)
    if apply:
        found = applied(found, given, quiet=as_json)
    elif not as_json and found.exit_code == 1 and any(one.state.value == "new" for one in found.proposals):
        click.echo("Nothing changed. Run again with --apply to write what is new (+).")
    if as_json:
        click.echo(json.dumps(document(found), indent=2))
    return found.exit_code


def _from_lldp(
    nodes: Sequence[Node], folder: str | None, become: bool, fanout: int, timeout: float | None,
) -> tuple[LabelEvidence, ...]:
    from dataclasses import replace

    from inventory.model import Privilege
    from inventory.transport.remote import RemoteTransport
    from provisioning.discover import neighbours

    if folder is not None:
        return tuple(neighbours.saved(nodes, Path(folder)))
    if become:
        nodes = [node if node.become else replace(node, privilege=Privilege.BECOME) for node in nodes]
    order = {node.name: at for at, node in enumerate(nodes)}
    asked = neighbours.ask(nodes, RemoteTransport(), fanout=fanout, seconds=timeout)
    return tuple(sorted(asked, key=lambda one: order[one.node]))


def _from_maas(
    nodes: Sequence[Node], url: str, key: str, ca: str | None, cleartext: bool,
) -> tuple[LabelEvidence, ...]:
    from concurrent.futures import ThreadPoolExecutor

    from inventory.model import Secret, SecretFrom
    from provisioning.osinstall.maas.backend import maas_backend
    from provisioning.osinstall.maas.commissioning import commissioned
    from provisioning.osinstall.maas.options import MaasOptions

    options = MaasOptions(url, Secret(SecretFrom.FILE, (key,)), tls=ca or "verify", cleartext=cleartext)
    backend = maas_backend(options)
    with ThreadPoolExecutor(_WIDTH, thread_name_prefix="maas") as pool:
        return tuple(map(_evidence, pool.map(lambda node: commissioned(backend, node), nodes)))


def _evidence(one: Commissioned) -> LabelEvidence:
    from healthcheck.facts.lldpneighbours import LldpNeighbour, neighbours
    from provisioning.discover.labels import LabelEvidence

    found: tuple[LldpNeighbour, ...] = ()
    unread = one.unread
    if one.lldp:
        try:
            found = neighbours(one.lldp)
        except ValueError as problem:
            unread = (*unread, f"the output of lldpctl in MAAS: {problem}")
    places = {"zone": one.zone, "pool": one.pool}
    said = {name: (value, f"{name} of {one.machine}") for name, value in places.items() if value}
    return LabelEvidence(one.node, "MAAS", found, one.pci, one.racks, said, unread)


def applied(found: FoundLabels, given: InventoryFile, *, quiet: bool) -> FoundLabels:
    """Writes the new values into the inventory, and shows the difference unless `quiet`."""
    from dataclasses import replace

    from inventory.cli.propose import propose
    from inventory.load import parse_with_origins
    from inventory.merge import merge
    from provisioning.discover.labels import entries

    path = str(given.path)
    imported = entries(found.proposals, parse_with_origins(given.text, path).inventory, "what was found")
    if imported is None:
        return found
    # A port's entry is written whole, with what the inventory said of it.
    merged = merge(given.text, path, imported, overwrite=("ports",))
    if quiet:
        given.write(merged.text)
    elif propose(path, given.text, merged.text, lambda: given.write(merged.text), yes=True, dry_run=False):
        click.echo(f"{path}: written")
    return replace(found, applied=True)
