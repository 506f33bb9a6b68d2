"""The snapshot as a node keeps it: read, its signature verified anew, and never an older one than was seen there before. Python 3.8.

    /etc/muster/gate.pub            trusted keys, as lines of allowed_signers (ssh-keygen(1)); two while one takes over from another
    /var/lib/muster/gate/           gate.json and gate.json.sig (see healthcheck.certify.pair)
    /var/lib/muster/gate/seen.json  of which cluster, and the highest serial number that this node has seen
"""

from __future__ import annotations

import json
import os

from healthcheck.certify.pair import NoPair, read_pair
from healthcheck.certify.sshsig import MOST_KEYS, BadSignature, PublicKey, trusted_keys, verified
from healthcheck.gate.reading import GateSnapshot, SnapshotError, snapshot_of

FOLDER, TRUSTED = "/var/lib/muster/gate", "/etc/muster/gate.pub"
NAME, SEEN = "gate.json", "seen.json"
NAMESPACE = "muster-gate"


class SnapshotRefused(Exception):
    """There is no snapshot that may be relied on; one line that says why."""


class NoSnapshot(SnapshotRefused):
    """There is none at all: nothing was fetched yet."""


def current(folder: str = FOLDER, trusted: str = TRUSTED) -> GateSnapshot:
    """The snapshot that is kept in the folder; raises Refused."""
    try:
        data, signature = read_pair(folder, NAME)
    except NoPair as error:
        raise NoSnapshot(f"no snapshot: {error}") from None
    snapshot, _ = checked(data, signature, keys_in(trusted))
    not_older(snapshot, seen(folder))
    return snapshot


def keys_in(trusted: str) -> list[PublicKey]:
    """The keys that are trusted for snapshots; raises Refused where there are none, or where others could have put them there."""
    try:
        with open(trusted, "rb") as file:
            found = os.fstat(file.fileno())
            data = file.read(MOST_KEYS)
    except OSError as error:
        raise SnapshotRefused(f"no trusted key: {trusted}: {error.strerror}; on the head: muster gate push NODE") from None
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
        raise SnapshotRefused(f"{trusted} can be written by others: its keys are not trusted; chown root and chmod 644 it")
    keys = trusted_keys(data, NAMESPACE)
    if not keys:
        raise SnapshotRefused(f"{trusted} holds no ed25519 key for {NAMESPACE}; on the head: muster gate push NODE")
    return keys


def checked(data: bytes, signature: bytes, keys: list[PublicKey]) -> tuple[GateSnapshot, PublicKey]:
    """The snapshot, and the key that signed it; raises Refused."""
    try:
        key = verified(data, signature, NAMESPACE, keys)
        return snapshot_of(data), key
    except (BadSignature, SnapshotError) as error:
        raise SnapshotRefused(f"the snapshot does not hold: {error}") from None


def seen(folder: str) -> tuple[str, int] | None:
    """The cluster and the highest serial number that were seen here; None where none was. Raises Refused."""
    path = os.path.join(folder, SEEN)
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read(4096))
        cluster, serial = found["cluster"], found["serial"]
        if not isinstance(cluster, str) or type(serial) is not int:
            raise ValueError
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SnapshotRefused(f"{path}: {error.strerror}: which snapshots were seen here is not known") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SnapshotRefused(f"{path} is damaged: which snapshots were seen here is not known; "
                              "`muster gate fetch` writes it anew") from None
    return cluster, serial


def not_older(snapshot: GateSnapshot, known: tuple[str, int] | None) -> None:
    """Raises Refused for a snapshot of another cluster than was seen here, or an older one."""
    if known is None:
        return
    if snapshot.cluster != known[0]:
        raise SnapshotRefused(f"the snapshot is of another cluster, {ascii(snapshot.cluster)[:60]}; this node is of {ascii(known[0])[:60]}")
    if snapshot.serial < known[1]:
        raise SnapshotRefused(f"an older snapshot was put back: number {snapshot.serial}, and this node has seen {known[1]}")
