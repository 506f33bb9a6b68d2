"""Where a gate finds its snapshot, signature, trusted keys and what was seen here before; and which node this machine is.

    gate.json, gate.json.sig     the snapshot and its detached signature, in /var/lib/muster/gate (`muster gate fetch` keeps them there)
    seen.json                    the highest serial ever accepted here, and when: an older snapshot is an old one put back
    /etc/muster/gate.pub         the keys that are trusted, lines as OpenSSH's allowed_signers
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Collection
from pathlib import Path

from healthcheck.gate.decide import Seen
from healthcheck.gate.reading import MAX_BYTES, Snapshot, SnapshotError, snapshot_of

SNAPSHOT = Path("/var/lib/muster/gate/gate.json")
KEYS = Path("/etc/muster/gate.pub")
SEEN = "seen.json"
NAMESPACE = "muster-gate"


class Missing(Exception):
    """A file that the gate needs is not there or cannot be read: nothing can be told. The text says which, and what to type."""


class Forged(Exception):
    """The snapshot is not what the head signed: altered, cut off, by a foreign key, or with no signature at all."""


def snapshot_path(option: str | None) -> Path:
    """The snapshot: the option, MUSTER_GATE, else where the agent keeps it."""
    return Path(option or os.environ.get("MUSTER_GATE") or SNAPSHOT)


def keys_path(option: str | None) -> Path:
    """The trusted keys: the option, MUSTER_GATE_KEYS, else where the agent keeps them."""
    return Path(option or os.environ.get("MUSTER_GATE_KEYS") or KEYS)


def load(snapshot: Path, keys: Path) -> Snapshot:
    """The snapshot, its signature verified anew, over all of its bytes. Raises Missing or Forged."""
    from healthcheck.certify.sshsig import BadSignature, trusted_keys, verified

    data = _read(snapshot, "the snapshot", "muster gate fetch")
    trusted = _read(keys, "the trusted keys", "muster certificate key show, on the head, prints them")
    try:
        signature = _read(snapshot.with_name(f"{snapshot.name}.sig"), "the signature", "muster gate fetch")
    except Missing as trouble:
        raise Forged(str(trouble)) from None
    try:
        verified(data, signature, NAMESPACE, trusted_keys(trusted, NAMESPACE))
        return snapshot_of(data)
    except (BadSignature, SnapshotError) as trouble:
        raise Forged(f"{snapshot}: {trouble}") from None


def seen(snapshot: Path) -> Seen:
    """What was accepted beside this snapshot before; nothing, where no such file is. One that cannot be understood raises Forged."""
    path = snapshot.with_name(SEEN)
    try:
        held = json.loads(path.read_bytes())
    except FileNotFoundError:
        return Seen()
    except OSError as trouble:
        raise Missing(f"{path}: {trouble.strerror}") from None
    except (ValueError, RecursionError):
        raise Forged(f"{path}: no JSON; `muster gate fetch` writes it anew") from None
    found = Seen(held.get("serial", 0), held.get("at", 0)) if isinstance(held, dict) else Seen(-1, -1)
    if not all(type(number) is int and 0 <= number < 1 << 53 for number in found):
        raise Forged(f"{path}: expected serial and at, whole numbers; `muster gate fetch` writes it anew")
    return found


def own_name(known: Collection[str]) -> str:
    """This machine's name in the snapshot: SLURMD_NODENAME, else its host name, whole or up to the first dot, as the snapshot knows it."""
    given = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    short = given.partition(".")[0]
    if given in known:
        return given
    if short in known:
        return short
    longer = [name for name in known if name.partition(".")[0] == given]
    return longer[0] if len(longer) == 1 else given


def _read(path: Path, what: str, do: str) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as trouble:
        raise Missing(f"{what} cannot be read: {path}: {trouble.strerror}; {do}") from None
    if len(data) > MAX_BYTES:
        raise Forged(f"{path}: over {MAX_BYTES >> 20} MiB")
    return data
