"""Signs the head's data as one snapshot and writes it where nodes find it; serial numbers only rise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from healthcheck.certify.keys import load_keys, signer_of
from healthcheck.certify.pair import lock_folder, write_pair
from healthcheck.certify.serial import newest_written, next_serial, written_serial
from healthcheck.config.files import make_folder
from healthcheck.gate.nodestatus import gate_node
from healthcheck.gate.policy import read
from healthcheck.gate.reading import SCHEMA, bytes_of, snapshot_of
from healthcheck.gate.snapshot import NAME, NAMESPACE
from inventory.errors import CertificateError

OURS = "gate"       # in the state folder


@dataclass(frozen=True)
class SignedSnapshot:
    """A signed snapshot; `key` is the fingerprint of the signing key."""

    serial: int
    data: bytes
    signature: bytes
    key: str


def publish(
    state: Path, nodes: Mapping[str, Mapping[str, Any]], policy: Mapping[str, Any], now: float,
    shared: Iterable[Path] = (),
) -> SignedSnapshot:
    """Writes a snapshot with these entries and this policy to the state folder and the shared folders; if
    killed, the old or the new one stays. Raises CertificateError."""
    folder = state / OURS
    make_folder(folder, "the state folder (--state, MUSTER_STATE)")
    at = folder
    try:
        with lock_folder(str(folder)):
            keys = load_keys(state)
            signer = signer_of(state, keys)
            serial = next_serial(folder, now, newest_written(folder))
            data = bytes_of({
                "schema": SCHEMA, "cluster": keys.cluster, "serial": serial, "made": int(now),
                "policy": dict(policy), "nodes": nodes,
                "keys": [f"{key.public.text} {key.public.comment}" for key in keys.trusted],
            })
            _readable(data)
            made = SignedSnapshot(serial, data, signer.signed(data, NAMESPACE), signer.public.fingerprint)
            write_pair(str(folder), NAME, serial, data, made.signature)
            written_serial(folder, serial)
        for at in shared:
            with lock_folder(str(at)):
                write_pair(str(at), NAME, serial, data, made.signature)
    except OSError as error:
        raise CertificateError(f"{at}: {error.strerror}") from None
    except ValueError as error:
        raise CertificateError(f"the snapshot cannot be written: {error}") from None
    return made


def _readable(data: bytes) -> None:
    """Raises ValueError for a snapshot that no gate could read, so that it is not written."""
    found = snapshot_of(data)
    read(found.policy)
    for name in found.names():
        gate_node(name, found.entry(name))
