"""The snapshot on a node: read, verified each time, and never older than one seen there before. Python 3.8.

    /etc/muster/gate.pub            trusted keys, as lines of allowed_signers (ssh-keygen(1))
    /var/lib/muster/gate/           gate.json and gate.json.sig (see healthcheck.certify.pair)
    /var/lib/muster/gate/seen.json  the cluster, and the highest serial number seen by this node
"""

from __future__ import annotations

import json
import os

from healthcheck.certify.sshsig import MOST_KEYS, BadSignature, PublicKey, trusted_keys, verified
from healthcheck.gate.reading import GateSnapshot, SnapshotError, snapshot_of

FOLDER, TRUSTED = "/var/lib/muster/gate", "/etc/muster/gate.pub"
NAME, SEEN = "gate.json", "seen.json"
NAMESPACE = "muster-gate"


class SnapshotRefused(Exception):
    """There is no trustworthy snapshot; one line with the reason."""


class NoSnapshot(SnapshotRefused):
    """There is no snapshot: nothing was fetched yet."""


def keys_in(trusted: str) -> list[PublicKey]:
    """The keys trusted for snapshots; raises SnapshotRefused without any, or if others can write them."""
    try:
        with open(trusted, "rb") as file:
            found = os.fstat(file.fileno())
            data = file.read(MOST_KEYS)
    except OSError as error:
        raise SnapshotRefused(
            f"no trusted key: {trusted}: {error.strerror}; on the head: muster gate push NODE") from None
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
        raise SnapshotRefused(
            f"{trusted} is writable by others, so its keys are not trusted; chown root and chmod 644 it")
    keys = trusted_keys(data, NAMESPACE)
    if not keys:
        raise SnapshotRefused(
            f"{trusted} contains no ed25519 key for {NAMESPACE}; on the head: muster gate push NODE")
    return keys


def checked(data: bytes, signature: bytes, keys: list[PublicKey]) -> tuple[GateSnapshot, PublicKey]:
    """The snapshot and its signing key; raises SnapshotRefused."""
    try:
        key = verified(data, signature, NAMESPACE, keys)
        return snapshot_of(data), key
    except (BadSignature, SnapshotError) as error:
        raise SnapshotRefused(f"the snapshot is not valid: {error}") from None


def seen(folder: str) -> tuple[str, int] | None:
    """The cluster and the highest serial seen here; None if none. Raises SnapshotRefused."""
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
        raise SnapshotRefused(f"{path}: {error.strerror}: the snapshots seen here are unknown") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SnapshotRefused(f"{path} is damaged: the snapshots seen here are unknown; "
                              "`muster gate fetch` writes it again") from None
    return cluster, serial


def not_older(snapshot: GateSnapshot, known: tuple[str, int] | None) -> None:
    """Raises SnapshotRefused for a snapshot of another cluster, or an older one."""
    if known is None:
        return
    if snapshot.cluster != known[0]:
        raise SnapshotRefused(f"the snapshot is of another cluster, {ascii(snapshot.cluster)[:60]}; this "
                              f"node is of {ascii(known[0])[:60]}")
    if snapshot.serial < known[1]:
        raise SnapshotRefused(
            f"an older snapshot was restored: number {snapshot.serial}, but this node has seen {known[1]}")
