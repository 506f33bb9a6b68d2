"""Fetches the newest snapshot for a node, and keeps it if it is signed, of this cluster and not older.
Python 3.8.

The source is a line in /etc/muster/gate.from: a folder shared with the head, or the URL of the head's
exporter. The data is trusted only by its signature. A snapshot with keys tells which are trusted from then
on: the old key signs the snapshot that announces a new one, and ends when a snapshot no longer names it.
"""

from __future__ import annotations

import json
import os

from healthcheck.certify.pair import NoPair, lock_folder, read_pair, replace_synced, write_pair
from healthcheck.certify.sshsig import MOST_SIGNATURE, PublicKey, public_key
from healthcheck.gate.reading import GateSnapshot, SnapshotError
from healthcheck.gate.snapshot import (
    FOLDER,
    NAME,
    NAMESPACE,
    SEEN,
    TRUSTED,
    NoSnapshot,
    SnapshotRefused,
    checked,
    keys_in,
    not_older,
    seen,
)

SOURCE = "/etc/muster/gate.from"
# The end of a signature file; the document follows when both travel as one.
_SIGNED = b"-----END SSH SIGNATURE-----\n"
_MOST_KEYS = 16


def fetch(source: str, folder: str = FOLDER, trusted: str = TRUSTED) -> str:
    """Keeps the source's snapshot and returns a message. SnapshotRefused, or OSError for the folder."""
    if not source.startswith(("http://", "https://")):
        try:
            return keep(*read_pair(source, NAME), folder, trusted)
        except NoPair as error:
            raise NoSnapshot(str(error)) from None
    try:
        known = seen(folder)
    except SnapshotRefused:
        known = None
    after = known[1] if known is not None and _kept(folder, trusted) == known[1] else 0
    from healthcheck.gate.asked import asked  # an agent that has no source needs nothing of HTTP

    body = asked(f"{source}{'&' if '?' in source else '?'}after={after}")
    return "nothing newer" if body is None else keep(*parted(body), folder, trusted)


def source_in(path: str = SOURCE) -> str | None:
    """The configured source; None if there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file.read(4096).splitlines()]
    except (OSError, ValueError):
        return None
    return next((line for line in lines if line and not line.startswith("#")), None)


def parted(body: bytes) -> tuple[bytes, bytes]:
    """Document and signature of what travels as one."""
    at = body.find(_SIGNED, 0, MOST_SIGNATURE)
    if at < 0:
        raise SnapshotRefused("what came is no signed snapshot")
    return body[at + len(_SIGNED):], body[:at + len(_SIGNED)]


def keep(data: bytes, signature: bytes, folder: str = FOLDER, trusted: str = TRUSTED) -> str:
    """Keeps this snapshot if it is newer and returns a message; raises SnapshotRefused, and OSError for the
    folder. If killed, the old or the new one stays, with keys that trust it."""
    make_gate_folder(folder)
    with lock_folder(folder):
        snapshot, signer = checked(data, signature, keys_in(trusted))
        try:
            for name in snapshot.names():
                if not isinstance(snapshot.entry(name), dict):
                    raise SnapshotRefused(
                        f"the snapshot is not valid: the entry of {ascii(name)[:60]} is none")
            announced = _announced(snapshot, signer)
        except (SnapshotError, ValueError) as error:
            raise SnapshotRefused(f"the snapshot is not valid: {error}") from None
        known = _known(folder, trusted)
        not_older(snapshot, known)
        message = f"snapshot {snapshot.serial} of {ascii(snapshot.cluster)[1:-1][:60]}"
        if known is not None and snapshot.serial == known[1] and _kept(folder, trusted) == snapshot.serial:
            # A killed run may have left these two undone.
            _remember(folder, snapshot)
            _trust(trusted, announced)
            return f"nothing newer: {message}"
        # Its own key is already trusted; its other keys count once it is stored.
        write_pair(folder, NAME, snapshot.serial, data, signature)
        _remember(folder, snapshot)
        _trust(trusted, announced)
        return message


def make_gate_folder(folder: str) -> None:
    """Makes it readable for all, as every job start needs it."""
    made = [folder] if os.path.isdir(folder) else [os.path.dirname(folder), folder]
    for each in made:
        if not os.path.isdir(each):
            os.makedirs(each, 0o755, exist_ok=True)
    for each, mode in ((os.path.dirname(folder), 0o111), (folder, 0o755)):
        found = os.stat(each)
        if found.st_mode & mode != mode and found.st_uid == os.geteuid():
            os.chmod(each, found.st_mode & 0o7777 | mode)


def _known(folder: str, trusted: str) -> tuple[str, int] | None:
    """The newest serial seen here; if that is damaged, the kept one."""
    try:
        found = seen(folder)
    except SnapshotRefused:
        found = None
    try:
        kept, _ = checked(*read_pair(folder, NAME), keys_in(trusted))
    except (SnapshotRefused, NoPair):
        return found
    # After a kill in between, the snapshot is newer than the record.
    return (kept.cluster, max(kept.serial, found[1] if found is not None else 0))


def _kept(folder: str, trusted: str) -> int | None:
    """The serial of the kept snapshot, if valid."""
    try:
        return checked(*read_pair(folder, NAME), keys_in(trusted))[0].serial
    except (SnapshotRefused, NoPair):
        return None


def _remember(folder: str, snapshot: GateSnapshot) -> None:
    try:
        if seen(folder) == (snapshot.cluster, snapshot.serial):
            return
    except SnapshotRefused:
        pass
    found = {"cluster": snapshot.cluster, "serial": snapshot.serial}
    replace_synced(os.path.join(folder, SEEN), json.dumps(found, sort_keys=True).encode() + b"\n", 0o644)


def _announced(snapshot: GateSnapshot, signer: PublicKey) -> list[PublicKey]:
    """The keys trusted from this snapshot on; empty if it names none. Raises ValueError."""
    if not snapshot.keys:
        return []
    if (not isinstance(snapshot.keys, list) or len(snapshot.keys) > _MOST_KEYS
        or not all(isinstance(key, str) for key in snapshot.keys)):
        raise ValueError("keys: expected a list of keys")
    found = [public_key(key) for key in snapshot.keys]
    if signer.raw not in {key.raw for key in found}:
        raise ValueError("keys: the one that signed it is not among them")
    return found


def _trust(trusted: str, keys: list[PublicKey]) -> None:
    """Trusts these keys, if any; leaves a file that already names them unchanged."""
    if not keys or {key.raw for key in keys} == {key.raw for key in keys_in(trusted)}:
        return
    text = "# Trusted for snapshots of the gate; kept by muster as signed snapshots say.\n"
    replace_synced(trusted, (text + "".join(key.line((NAMESPACE,)) for key in keys)).encode(), 0o644)
