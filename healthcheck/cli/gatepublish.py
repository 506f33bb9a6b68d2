"""`muster gate publish` on the head, and `muster gate fetch` on a node: make and sign the snapshot,
and keep it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.certify.keys import load_keys
from healthcheck.certify.manifest import load_manifest
from healthcheck.certify.pair import NoPair, read_pair
from healthcheck.config.rulesfolder import folders
from healthcheck.gate.publish import OURS
from healthcheck.gate.publish import publish as signed
from healthcheck.gate.snapshot import NAME, SnapshotRefused, checked
from inventory.cli.span import span
from inventory.errors import CertificateError, MusterError, StoreError, StoreMoved, UsageError
from inventory.locate import needed_inventory, state_dir

if TYPE_CHECKING:
    from healthcheck.gate.reading import GateSnapshot


@click.command(short_help="Make and sign the snapshot, on the head.")
@click.option("--to", "shared", metavar="DIR", multiple=True, type=click.Path(path_type=Path),
              help="A folder that nodes can read; repeatable.")
@click.option("--every", metavar="SPAN", callback=span(1, 86400),
              help="Publish at this interval, until interrupted.")
@click.option("--rules", metavar="DIR", help="Site rules, among them gate.yaml and certificate.yaml.")
@click.option("--inventory", "-i", metavar="FILE", help="Default: as for muster check.")
@click.option("--state", metavar="DIR",
              help="Where store, keys and certificates are. Default: MUSTER_STATE, XDG, /var/lib/muster.")
def publish(
    shared: tuple[Path, ...], every: float | None, rules: str | None, inventory: str | None,
    state: str | None,
) -> int:
    """Sign a snapshot of each node's state, lifecycle, cordons, certificate, groups,
    leaf and NVLink domain, and the gate's policy.

    Nodes get it from the exporter (/gate), from a shared folder (--to), or by muster gate push.
    On an error the previous snapshot stays. While the store cannot be opened, states are those of the
    previous snapshot and age; lifecycles are the inventory's, and new cordons count.

    \b
    muster gate publish
    muster gate publish --every 1m --to /shared/muster/gate
    ssh-keygen -Y verify -f gate.pub -I muster -n muster-gate -s gate.json.sig < gate.json

    Exit: 0 done, 2 not made.
    """
    while True:
        try:
            click.echo(_published(shared, rules, inventory, state))
        except MusterError as error:
            if every is None:
                raise
            click.echo(f"muster: {error}; trying again in {every:g} s", err=True)
        if every is None:
            return 0
        time.sleep(every)


def _published(shared: tuple[Path, ...], rules: str | None, inventory: str | None, state: str | None) -> str:
    from healthcheck.certify.policyload import load_certificate_policy
    from healthcheck.gate.entries import entries
    from healthcheck.gate.policyload import load_gate_policy, with_todays_names
    from healthcheck.gate.unstored import entries_without_store
    from healthcheck.ruleset.ruleset import ruleset_of
    from healthcheck.store.file import opened
    from healthcheck.store.waiting import waiting_cordons
    from inventory.load import load_inventory

    path = needed_inventory(inventory, "the snapshot needs an inventory, but none was found: --inventory "
                            "FILE")
    folder = state_dir(state)
    found, now = load_inventory(path), time.time()
    policy, asked = load_gate_policy(folders(rules)), load_certificate_policy(folders(rules))
    if policy.rules:
        policy = with_todays_names(policy, ruleset_of(rules).former)
    manifest = load_manifest(folder, load_keys(folder))
    before = _before(folder)
    try:
        with opened(folder, make=before is None) as store:
            nodes = entries(store, found, manifest, asked, now)
    except StoreMoved:
        raise
    except StoreError as error:
        if before is None:
            raise
        nodes = entries_without_store(before, found, waiting_cordons(folder))
        click.echo(f"muster: {error}; published without the store: states as in snapshot {before.serial}",
                   err=True)
    made = signed(folder, nodes, policy.document(), now, shared)
    well = sum(entry["certificate"] is not None and entry["certificate"]["kind"] == "ok"
               for entry in nodes.values())
    return (f"snapshot {made.serial} of {manifest.cluster}: {len(nodes)} nodes, {well} certified, "
            f"{len(made.data)} bytes, {made.key}")


def _before(folder: Path) -> GateSnapshot | None:
    """The newest snapshot that was published from here; None where there is none that we signed."""
    try:
        data, signature = read_pair(str(folder / OURS), NAME)
        return checked(data, signature, [key.public for key in load_keys(folder).trusted])[0]
    except (NoPair, SnapshotRefused, OSError):
        return None


@click.command(short_help="Fetch the newest snapshot, on a node.")
@click.argument("source", required=False)
@click.option("--folder", metavar="DIR", help="Where it is kept. Default: MUSTER_GATE, /var/lib/muster/gate.")
@click.option("--keys", metavar="FILE", help="Trusted keys. Default: MUSTER_GATE_KEYS, /etc/muster/gate.pub.")
def fetch(source: str | None, folder: str | None, keys: str | None) -> int:
    """Fetch the snapshot from SOURCE, a folder or the URL of the head's exporter; keep it if it is signed,
    of this cluster and newer.

    An installed agent does so after each run, from the source in
    /etc/muster/gate.from (muster gate push NODES --from SOURCE).

    \b
    muster gate fetch
    muster gate fetch http://head:9847/gate
    muster gate fetch /shared/muster/gate

    Exit: 0 the newest is kept, 2 failed, and the previous one stays.
    """
    from healthcheck.gate import locate
    from healthcheck.gate.fetch import SOURCE, source_in
    from healthcheck.gate.fetch import fetch as fetched

    found = source or source_in()
    if found is None:
        raise UsageError(f"no source: muster gate fetch SOURCE, or a line in {SOURCE}")
    at = locate.folder(folder)
    try:
        click.echo(fetched(found, at, locate.trusted(keys)))
    except SnapshotRefused as error:
        raise CertificateError(str(error)) from None
    except OSError as error:
        raise CertificateError(f"{error.filename or at}: {error.strerror or error}") from None
    return 0
