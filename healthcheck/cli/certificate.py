"""`muster certificate`: signed results of burn-in; which nodes must repeat it; and the signing keys."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from healthcheck.certify.certificate import body
from healthcheck.certify.keys import load_keys
from healthcheck.certify.manifest import checked_manifest, load_manifest
from healthcheck.certify.manifest import issue as issued
from healthcheck.certify.pair import NoPair, read_pair
from healthcheck.certify.requalify import queue
from healthcheck.cli import completing
from healthcheck.cli.certificatekey import key
from healthcheck.cli.options import GROUPS
from healthcheck.config.rulesfolder import folders
from inventory.cli.chosen import chosen, who
from inventory.cli.confirm import YES_MANY, confirm
from inventory.cli.formatted import as_json as format_option
from inventory.errors import CertificateError, UsageError
from inventory.locate import state_dir
from inventory.nodeset import fold
from inventory.text import clean
from inventory.times import day

if TYPE_CHECKING:
    from healthcheck.certify.certificate import Certificate, CertificateManifest
    from healthcheck.certify.requalify import CertificateStatus

_STATE = click.option("--state", metavar="DIR",
                      help="Where keys and certificates are. Default: MUSTER_STATE, XDG, /var/lib/muster.")
_RULES = click.option("--rules", metavar="DIR", help="Site rules, among them certificate.yaml.")
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Show what would be done and change nothing.")
_JSON = format_option("json: one JSON document.")


@click.group()
def certificate() -> None:
    """Burn-in results of nodes and their hardware, signed by a key that stays on the head.

    \b
    muster certificate key new                    once: the key for certificates and the gate's snapshot
    muster certificate issue RESULT.burnin.json   for the nodes that passed
    muster certificate show gpu007
    muster certificate due                        which nodes must repeat it, and why
    muster certificate revoke gpu007 --reason 'coolant leak found'
    """


def _common(*options: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in options:
            command = option(command)
        return command

    return add


@certificate.command(short_help="Certify the nodes that passed a burn-in.")
@click.argument("result", type=click.Path(path_type=Path))
@click.option("--nodes", metavar="NODES", shell_complete=completing.node_set,
              help="Only these of the nodes that passed.")
@_common(GROUPS, _STATE)
def issue(result: Path, nodes: str | None, inventory: str | None, state: str | None) -> int:
    """Certify the nodes that passed in RESULT (muster.burnin/1), for the hardware in their newest snapshot.

    A shorter burn-in of the same hardware renews a longer one's certificate:
    after a reboot the quick one is enough.

    \b
    muster certificate issue /var/lib/muster/burnin/20261122-0300.burnin.json
    muster certificate issue result.burnin.json --nodes 'gpu[001-064]'

    Exit: 0 all are certified, 1 some did not pass, 2 usage, 3 the hardware of some is unknown.
    """
    from healthcheck.certify.results import load_passed, seen_of
    from healthcheck.store.file import opened
    from healthcheck.store.renaming import name_now

    folder = state_dir(state)
    only = frozenset(chosen(nodes, inventory)[0]) if nodes is not None else None
    passed, others = load_passed(result)
    with opened(folder) as store:
        # a burn-in keeps the names that its nodes had then
        ended = max((one.at for one in passed), default=0)
        passed = [replace(one, node=name_now(store, one.node, one.at)) for one in passed]
        others = {name_now(store, name, ended): why for name, why in others.items()}
        if only is not None:
            passed = [one for one in passed if one.node in only]
            others = {name: why for name, why in others.items() if name in only}
            for name in sorted(only - {one.node for one in passed} - set(others)):
                others[name] = "it did not take part"
        ready, hardware, missing = seen_of(store, passed)
    made = issued(folder, ready, hardware, time.time()) if ready else {}
    for name, held in sorted(made.items()):
        renewed = f", renewed {day(held.renewed)}" if held.renewed is not None else ""
        click.echo(f"{name}: certified, {held.stage} of {day(held.at)}{renewed}, {held.id}")
    for name, why in sorted({**others, **missing}.items()):
        click.echo(f"{name}: NOT certified: {clean(why, 200)}", err=True)
    if not (made or others or missing):
        raise UsageError(f"{result}: names no node")
    return 1 if others else 3 if missing else 0


@certificate.command(short_help="Show the certificates of nodes.")
@click.argument("nodes", required=False, shell_complete=completing.node_set)
@_common(_JSON, _RULES, GROUPS, _STATE)
def show(
    nodes: str | None, inventory: str | None, rules: str | None, state: str | None, as_json: bool,
) -> int:
    """Show the certificates of NODES, or all: what each node passed, when, and what it must repeat.

    \b
    muster certificate show
    muster certificate show gpu007 --format json

    Exit: 0 all valid, 1 some nodes have none or must repeat a burn-in, 2 usage.
    """
    manifest, stands = _statuses(rules, state)
    names = chosen(nodes, inventory)[0] if nodes is not None else sorted(manifest.nodes)
    if as_json:
        click.echo(json.dumps({"schema": "muster.certificates/1", "cluster": manifest.cluster,
                               "serial": manifest.serial,
                               "nodes": [_document(name, manifest.nodes.get(name), stands.get(name))
                                         for name in names]}, indent=1))
    else:
        for name in names:
            click.echo(_line(name, manifest.nodes.get(name), stands.get(name)))
        if not names:
            click.echo("nothing is certified yet: muster certificate issue RESULT.burnin.json")
    return int(any(name not in stands or stands[name].kind.value != "ok" for name in names))


@certificate.command(short_help="Verify the manifest, or a copy of it.")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@_common(_JSON, _STATE)
def verify(file: Path | None, state: str | None, as_json: bool) -> int:
    """Verify the manifest of certificates in the state folder, or FILE with FILE.sig: signature, cluster,
    and every certificate's id.

    Without muster: ssh-keygen -Y verify -f gate.pub -I muster -n muster-certificate
    -s certificates.json.sig < certificates.json

    \b
    muster certificate verify
    muster certificate verify /mnt/copy/certificates.json

    Exit: 0 valid, 2 not valid.
    """
    folder = state_dir(state)
    keys = load_keys(folder)
    if file is None:
        manifest = load_manifest(folder, keys)
    else:
        try:
            manifest = checked_manifest(*read_pair(str(file.parent), file.name), keys, str(file))
        except NoPair as error:
            raise CertificateError(str(error)) from None
    if as_json:
        click.echo(json.dumps({"schema": "muster.manifest-check/1", "valid": True, "serial": manifest.serial,
                               "cluster": clean(manifest.cluster, 60), "certificates": len(manifest.nodes),
                               "revoked": len(manifest.revoked)}))
        return 0
    many = (f"{len(manifest.nodes)} certificate{'s' * (len(manifest.nodes) != 1)}, {len(manifest.revoked)} "
            "revoked")
    click.echo(f"valid: number {manifest.serial} of {clean(manifest.cluster, 60)}, {many}" if manifest.serial
               else "nothing is certified yet: muster certificate issue RESULT.burnin.json")
    return 0


@certificate.command(short_help="Revoke the certificates of nodes.")
@click.argument("nodes", shell_complete=completing.node_set)
@click.option("--reason", metavar="TEXT", required=True, help="The reason; it is signed, too.")
@_common(_DRY_RUN, YES_MANY, GROUPS, _STATE)
def revoke(
    nodes: str, reason: str, dry_run: bool, yes: bool, inventory: str | None, state: str | None,
) -> None:
    """Revoke the certificates of NODES; gates close on them with the next snapshot (muster gate publish).

    Only a new burn-in certifies such a node again.

    \b
    muster certificate revoke gpu007 --reason 'coolant leak found' && muster gate publish
    """
    from healthcheck.certify import manifest

    if not reason.strip():
        raise UsageError("--reason is empty: give a reason, which is signed")
    names = chosen(nodes, inventory)[0]
    if dry_run:
        there = manifest.load_manifest(state_dir(state))
        for name in sorted(names):
            click.echo(f"{name}: would be revoked ({there.nodes[name].id})" if name in there.nodes
                       else f"{name}: has no certificate")
        return
    confirm("revoke the certificates of", names, stops=False, yes=yes)
    made = manifest.revoke(state_dir(state), names, clean(reason.strip(), 200), who(), time.time())
    for one in made:
        click.echo(f"{one.node}: revoked ({one.id})")
    for name in sorted(set(names) - {one.node for one in made}):
        click.echo(f"{name}: already revoked")


@certificate.command(short_help="List nodes that must repeat a burn-in.")
@click.argument("nodes", required=False, shell_complete=completing.node_set)
@click.option("--idle", metavar="NODES", help="Only these, which run no job: sinfo -h -t idle -o %N")
@click.option("--stage", type=click.Choice(("quick", "standard", "soak")),
              help="Only those, folded into one node set, for muster burnin.")
@_common(_JSON, _RULES, GROUPS, _STATE)
def due(
    nodes: str | None, idle: str | None, stage: str | None, inventory: str | None, rules: str | None,
    state: str | None, as_json: bool,
) -> int:
    """List the nodes that must repeat a burn-in, and why: a new component, a reboot, or age.

    Old certificates come due a few at a time (certificate.yaml, age: at_once), each on its own day.

    \b
    muster certificate due --idle "$(sinfo -h -t idle -o %N)"
    muster burnin "$(muster certificate due --stage quick)" --length quick

    Exit: 0 something is due, 1 nothing is due, 2 usage.
    """
    from healthcheck.certify.policyload import load_certificate_policy

    manifest, stands = _statuses(rules, state)
    of = frozenset(chosen(nodes, inventory)[0]) if nodes is not None else None
    free = frozenset(chosen(idle, inventory)[0]) if idle is not None else None
    asked = {name: (manifest.nodes[name], stand) for name, stand in stands.items() if of is None
             or name in of}
    found = [one for one in queue(asked, free, load_certificate_policy(folders(rules)))
             if stage in (None, one.stage)]
    if as_json:
        click.echo(json.dumps({"schema": "muster.due/1",
                               "nodes": [{**vars(one), "cause": one.cause.value} for one in found]},
                              indent=1))
    elif stage is not None:
        if found:
            click.echo(fold([one.node for one in found]))
    else:
        for one in found:
            click.echo(f"{one.node}: {one.stage}: {one.why}")
        if not found:
            click.echo("nothing is due")
    return int(not found)


certificate.add_command(key)


def _statuses(
    rules: str | None, state: str | None,
) -> tuple[CertificateManifest, dict[str, CertificateStatus]]:
    from healthcheck.certify.policyload import load_certificate_policy
    from healthcheck.gate.entries import stands
    from healthcheck.store.reading import reading

    folder = state_dir(state)
    policy = load_certificate_policy(folders(rules))
    manifest = load_manifest(folder)
    with reading(folder) as store:
        return manifest, stands(store, manifest, policy, time.time())


def _line(name: str, held: Certificate | None, stands: CertificateStatus | None) -> str:
    if held is None or stands is None:
        return f"{name}: none"
    renewed = f", renewed {day(held.renewed)}" if held.renewed is not None else ""
    status = {"ok": "valid", "requalify": f"{stands.asks} is due", "revoked": "REVOKED"}[stands.kind.value]
    return (f"{name}: {status}: {held.stage} of "
            f"{day(held.at)}{renewed}{f': {stands.why}' if stands.why else ''}")


def _document(name: str, held: Certificate | None, stands: CertificateStatus | None) -> dict[str, Any]:
    if held is None or stands is None:
        return {"node": name, "kind": "none"}
    return {"node": name, "kind": stands.kind.value, "cause": stands.cause.value if stands.cause is not None
            else None, "asks": stands.asks, "why": stands.why, "id": held.id, **body(held)}
