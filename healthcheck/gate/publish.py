"""Signs what the head knows as one snapshot, and puts it where nodes find it: each has a higher number than all before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from healthcheck.certify.keys import load_keys, signer_of
from healthcheck.certify.pair import lock_folder, write_pair
from healthcheck.certify.serial import newest_written, next_serial, written_serial
from healthcheck.config.files import make_folder
from healthcheck.gate.policy import read
from healthcheck.gate.reading import SCHEMA, bytes_of, snapshot_of
from healthcheck.gate.snapshot import NAME, NAMESPACE
from healthcheck.gate.standing import standing_of
from inventory.errors import CertificateError

OURS = "gate"       # in the state folder


@dataclass(frozen=True)
class SignedSnapshot:
    """One snapshot as it was signed; `key` is the fingerprint of the key that did."""

    serial: int
    data: bytes
    signature: bytes
    key: str


def publish(
    state: Path, nodes: Mapping[str, Mapping[str, Any]], policy: Mapping[str, Any], now: float, shared: Iterable[Path] = (),
) -> SignedSnapshot:
    """Afterwards the newest snapshot in the state folder, and in each of the shared folders, holds these entries and this policy.

    Killed at any time it leaves the old one or the new one. Raises CertificateError.
    """
    folder = state / OURS
    make_folder(folder, "the state folder (--state, MUSTER_STATE)")
    at = folder
    try:
        with lock_folder(str(folder)):
            keys = load_keys(state)
            signer = signer_of(state, keys)
            serial = next_serial(folder, now, newest_written(folder))
            data = bytes_of({
                "schema": SCHEMA, "cluster": keys.cluster, "serial": serial, "made": int(now), "policy": dict(policy), "nodes": nodes,
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
    """Raises ValueError for what no gate could understand: it is not written."""
    found = snapshot_of(data)
    read(found.policy)
    for name in found.names():
        standing_of(name, found.entry(name))
