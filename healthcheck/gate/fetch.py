"""Brings a node the newest snapshot, from whatever holds it, and keeps it if it is signed, of this cluster and no older. Python 3.8.

Where from says /etc/muster/gate.from, a line: a folder that the head writes and the node sees, or the URL of the head's exporter. What
comes from there is trusted for its signature alone. A snapshot that holds keys says which are trusted from then on: so a new key is told
of by one that the old key has signed, and the old one goes when the new one no longer names it.
"""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
import zlib

from healthcheck.certify.pair import MOST_PAIR, NoPair, lock_folder, read_pair, replace_synced, write_pair
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
TIMEOUT_S = 10.0
# A signature file ends so, and what it signs follows, where both travel as one.
_SIGNED = b"-----END SSH SIGNATURE-----\n"
_MOST_KEYS = 16


def fetch(source: str, folder: str = FOLDER, trusted: str = TRUSTED) -> str:
    """Keeps what the source holds, and says in words what became of it; raises Refused, and OSError of the folder."""
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
    body = _asked(f"{source}{'&' if '?' in source else '?'}after={after}")
    return "nothing newer" if body is None else keep(*parted(body), folder, trusted)


def source_in(path: str = SOURCE) -> str | None:
    """Where from; None where nothing is said."""
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
    """Keeps this snapshot if it is newer, and says in words what became of it; raises Refused, and OSError of the folder.

    Killed at any time it leaves the old one or the new one, and keys that trust it.
    """
    make_gate_folder(folder)
    with lock_folder(folder):
        snapshot, signer = checked(data, signature, keys_in(trusted))
        try:
            for name in snapshot.names():
                if not isinstance(snapshot.entry(name), dict):
                    raise SnapshotRefused(f"the snapshot does not hold: the entry of {ascii(name)[:60]} is none")
            announced = _announced(snapshot, signer)
        except (SnapshotError, ValueError) as error:
            raise SnapshotRefused(f"the snapshot does not hold: {error}") from None
        known = _known(folder, trusted)
        not_older(snapshot, known)
        said = f"snapshot {snapshot.serial} of {ascii(snapshot.cluster)[1:-1][:60]}"
        if known is not None and snapshot.serial == known[1] and _kept(folder, trusted) == snapshot.serial:
            # One that was killed in between may have left these two undone.
            _remember(folder, snapshot)
            _trust(trusted, announced)
            return f"nothing newer: {said}"
        # Its own key is trusted already; what it says of keys holds once it stands.
        write_pair(folder, NAME, snapshot.serial, data, signature)
        _remember(folder, snapshot)
        _trust(trusted, announced)
        return said


def make_gate_folder(folder: str) -> None:
    """Makes it, for all to read; whoever starts a job has to come through to it."""
    made = [folder] if os.path.isdir(folder) else [os.path.dirname(folder), folder]
    for each in made:
        if not os.path.isdir(each):
            os.makedirs(each, 0o755, exist_ok=True)
    for each, mode in ((os.path.dirname(folder), 0o111), (folder, 0o755)):
        found = os.stat(each)
        if found.st_mode & mode != mode and found.st_uid == os.geteuid():
            os.chmod(each, found.st_mode & 0o7777 | mode)


def _known(folder: str, trusted: str) -> tuple[str, int] | None:
    """What was seen here; where that is damaged, what is kept here."""
    try:
        found = seen(folder)
    except SnapshotRefused:
        found = None
    try:
        kept, _ = checked(*read_pair(folder, NAME), keys_in(trusted))
    except (SnapshotRefused, NoPair):
        return found
    # Killed between the two, the snapshot is newer than the memory.
    return (kept.cluster, max(kept.serial, found[1] if found is not None else 0))


def _kept(folder: str, trusted: str) -> int | None:
    """The number of what is kept here, if that holds."""
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
    """The keys that are trusted from this snapshot on; none where it says nothing of them. Raises ValueError."""
    if not snapshot.keys:
        return []
    if not isinstance(snapshot.keys, list) or len(snapshot.keys) > _MOST_KEYS or not all(isinstance(key, str) for key in snapshot.keys):
        raise ValueError("keys: expected a list of keys")
    found = [public_key(key) for key in snapshot.keys]
    if signer.raw not in {key.raw for key in found}:
        raise ValueError("keys: the one that signed it is not among them")
    return found


def _trust(trusted: str, keys: list[PublicKey]) -> None:
    """Afterwards these are trusted, if there are any; a file that says so already stays as it is, with whatever else it says."""
    if not keys or {key.raw for key in keys} == {key.raw for key in keys_in(trusted)}:
        return
    text = "# Trusted for snapshots of the gate; kept by muster as signed snapshots say.\n"
    replace_synced(trusted, (text + "".join(key.line((NAMESPACE,)) for key in keys)).encode(), 0o644)


def _asked(url: str) -> bytes | None:
    """What a GET of this brings; None where there is nothing newer. Raises Refused."""
    # No proxy: what the environment of a timer names is not for a head inside the site.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})  # noqa: S310  (fetch looks at its scheme)
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            body: bytes = answer.read(MOST_PAIR + 1)
            packed = answer.headers.get("Content-Encoding") == "gzip"
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 304:
            return None
        raise SnapshotRefused(f"{url}: it answered {error.code}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise SnapshotRefused(f"{url}: {ascii(str(getattr(error, 'reason', error)))[1:-1][:200]}") from None
    if packed:
        machine = zlib.decompressobj(31)
        try:
            body = machine.decompress(body, MOST_PAIR + 1)
        except zlib.error:
            raise SnapshotRefused(f"{url}: what came is damaged") from None
        if not machine.eof:
            raise SnapshotRefused(f"{url}: what came is cut, or too large")
    if len(body) > MOST_PAIR:
        raise SnapshotRefused(f"{url}: over {MOST_PAIR >> 20} MiB")
    return body


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Nobody leads a node elsewhere."""

    def redirect_request(self, *args: object) -> None:
        return None
