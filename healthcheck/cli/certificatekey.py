"""`muster certificate key`: the signing keys of certificates and snapshots;
private keys stay on the head and are never shown."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

from healthcheck.certify.keys import allowed_signers, load_keys, new_key, retire_key, use_key
from healthcheck.certify.manifest import sign_again
from healthcheck.certify.pair import NoPair, read_pair
from healthcheck.gate.publish import OURS
from healthcheck.gate.reading import SnapshotError, snapshot_of
from healthcheck.gate.snapshot import NAME
from inventory.cli.chosen import who
from inventory.cli.formatted import as_json as format_option
from inventory.errors import CertificateError, UsageError
from inventory.locate import state_dir
from inventory.text import clean
from inventory.times import day

if TYPE_CHECKING:
    from pathlib import Path

    from healthcheck.certify.keys import Key

_STATE = click.option("--state", metavar="DIR",
                      help="Where the keys are. Default: MUSTER_STATE, XDG, /var/lib/muster.")


@click.group(short_help="Make, use, retire and show signing keys.")
def key() -> None:
    """The keys for certificates and the gate's snapshot: one signs, and all but retired ones are trusted.

    To change keys, take these steps, each once nodes have the snapshot of the step before:

    \b
    muster certificate key new          and muster gate publish: the old key vouches for the new one
    muster certificate key use key2     and muster gate publish: the new one signs
    muster certificate key retire key1  and muster gate publish: the old one is no longer trusted

    Retire a stolen key at once, and bring the new one to nodes over SSH: muster gate push NODES --trust.
    """


@key.command(short_help="Make a key.")
@click.option("--cluster", metavar="NAME",
              help="The cluster's name in signed documents; with the first key. [made up]")
@_STATE
def new(cluster: str | None, state: str | None) -> None:
    """Make an ed25519 key in the state folder, mode 0600. The first one signs at once;
    a later one signs after `key use`.

    \b
    muster certificate key new --cluster alpha
    """
    if (cluster is not None
        and (not 1 <= len(cluster) <= 60
             or not all(part.isalnum() for part in cluster.replace("-", "").split("."))
             or not cluster.isascii())):
        raise UsageError("--cluster: expected a name of letters, digits, - and ., at most 60")
    folder = state_dir(state)
    made = new_key(folder, cluster, who(), time.time())
    keys = load_keys(folder)
    click.echo(f"{made.id} of {keys.cluster}: {made.public.fingerprint}")
    click.echo("it signs from now on; next: muster gate publish; muster gate push NODES --trust"
               if keys.signing == made.id else f"{keys.signing} still signs; next: muster gate publish, and "
                                               "once nodes have fetched it: muster certificate key use "
                                               f"{made.id}")


@key.command(short_help="Sign with a key from now on.")
@click.argument("name")
@click.option("--unannounced", is_flag=True,
              help="Even if no snapshot names it; nodes then need muster gate push NODES --trust.")
@_STATE
def use(name: str, unannounced: bool, state: str | None) -> None:
    """Sign with this key from now on. Nodes must have a snapshot that announces it;
    the previous key stays trusted until retired.

    \b
    muster certificate key use key2 && muster gate publish
    """
    folder = state_dir(state)
    if not unannounced and not _announced(folder, load_keys(folder).named(name)):
        raise CertificateError(f"the newest snapshot does not name {name}, so nodes would refuse its "
                               "signatures: muster gate publish, wait until nodes have fetched that, and try "
                               "again; or --unannounced")
    made = use_key(folder, name)
    sign_again(folder, time.time())
    click.echo(f"{made.id} signs from now on: {made.public.fingerprint}; next: muster gate publish")


@key.command(short_help="Stop trusting a key.")
@click.argument("name")
@_STATE
def retire(name: str, state: str | None) -> None:
    """Stop trusting this key and delete its private part;
    nodes follow with the next snapshot that they fetch.

    \b
    muster certificate key retire key1 && muster gate publish
    """
    folder = state_dir(state)
    sign_again(folder, time.time())
    made = retire_key(folder, name, time.time())
    click.echo(f"{made.id} is no longer trusted: {made.public.fingerprint}; next: muster gate publish")


@key.command(short_help="List the keys, or print the trusted ones.")
@click.option("--trusted", is_flag=True,
              help="Print the lines for /etc/muster/gate.pub, and for ssh-keygen -Y verify -f.")
@_STATE
@format_option("json: muster.keys/1, public parts only.")
def show(trusted: bool, state: str | None, as_json: bool) -> None:
    """List the keys: which one signs, and which are trusted. Prints public parts only.

    \b
    muster certificate key show --trusted > gate.pub
    """
    if trusted and as_json:
        raise UsageError("--trusted prints lines for ssh-keygen, and --format json a document: leave one out")
    keys = load_keys(state_dir(state))
    if as_json:
        click.echo(json.dumps({"schema": "muster.keys/1", "cluster": keys.cluster, "keys": [
            {"key": one.id, "signs": one.id == keys.signing, "trusted": one.retired is None,
             "fingerprint": one.public.fingerprint, "made": day(one.made), "by": one.who,
             "retired": None if one.retired is None else day(one.retired)} for one in keys.keys]}, indent=1))
        return
    if trusted:
        click.echo(allowed_signers(keys), nl=False)
        return
    for one in keys.keys:
        how = ("signs" if one.id == keys.signing else "trusted" if one.retired is None
               else f"retired {day(one.retired)}")
        click.echo(f"{one.id}  {how}  {one.public.fingerprint}  made {day(one.made)} by {clean(one.who, 60)}")


def _announced(folder: Path, key: Key) -> bool:
    """Whether the newest snapshot names the key; true without a snapshot."""
    try:
        named = snapshot_of(read_pair(str(folder / OURS), NAME)[0]).keys
    except NoPair:
        return True
    except SnapshotError:
        return False
    return (isinstance(named, list) and any(isinstance(line, str) and line.startswith(key.public.text)
                                            for line in named))
