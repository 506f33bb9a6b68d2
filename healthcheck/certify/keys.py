"""The keys of the head, in the state folder: one signs, and all but retired ones are trusted; private keys
are made here and never shown.

    keys/keys.json      the keys, the signing one, and the cluster's name
    keys/ID.key         the private key, mode 0600, in OpenSSH's format: `ssh-keygen -Y sign -f` takes it, too
    keys/ID.pub         the public one

Snapshots signed by the old key announce a new one; `use` makes it sign once nodes have them;
`retire` ends trust in the old one.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from healthcheck.certify.pair import lock_folder, replace_synced
from healthcheck.certify.sshsig import BadSignature, PublicKey, armored, public_key, to_sign, verified
from healthcheck.config.files import make_folder
from inventory.errors import CertificateError
from inventory.text import clean, short

NAMESPACES = ("muster-gate", "muster-certificate")
_SCHEMA = "muster.keys/1"
_NEW = "muster certificate key new"


@dataclass(frozen=True)
class Key:
    """One key. `retired` is when trust in it ended, in epoch seconds; None while it is trusted."""

    id: str
    public: PublicKey
    made: float
    who: str
    retired: float | None = None


@dataclass(frozen=True)
class KeyRing:
    """All keys, in order of creation."""

    cluster: str
    signing: str
    keys: tuple[Key, ...]

    @property
    def trusted(self) -> tuple[Key, ...]:
        """The trusted keys."""
        return tuple(key for key in self.keys if key.retired is None)

    def named(self, name: str) -> Key:
        """The key of this id; raises CertificateError."""
        found = next((key for key in self.keys if key.id == name), None)
        if found is None:
            raise CertificateError(
                f"{short(name)}: no such key; there are {', '.join(key.id for key in self.keys)}")
        return found


@dataclass(frozen=True)
class Signer:
    """Signs by the private key."""

    public: PublicKey
    raw: Callable[[bytes], bytes]

    def signed(self, data: bytes, namespace: str) -> bytes:
        """The verified signature file: a bad one would close every gate."""
        made = armored(self.public, namespace, self.raw(to_sign(data, namespace)))
        verified(data, made, namespace, [self.public])
        return made


def load_keys(state: Path) -> KeyRing:
    """All keys; raises CertificateError, also if there are none yet."""
    path = state / "keys" / "keys.json"
    try:
        return _read(json.loads(path.read_bytes()))
    except FileNotFoundError:
        raise CertificateError(f"{path}: there is no key yet; {_NEW}") from None
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CertificateError(
            f"{path}: cannot be read ({clean(error, 80)}); restore it from a copy") from None


def new_key(state: Path, cluster: str | None, who: str, now: float) -> Key:
    """Makes a key; the first one signs at once, and names the `cluster`. Raises CertificateError."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    with _changing(state) as folder:
        held = load_keys(state) if (folder / "keys.json").exists() else None
        if held is not None and cluster not in (None, held.cluster):
            raise CertificateError(f"these keys sign for the cluster {held.cluster}; another cluster needs "
                                   "another state folder (--state)")
        made = Ed25519PrivateKey.generate()
        raw = made.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        cluster = held.cluster if held is not None else cluster or f"muster-{secrets.token_hex(4)}"
        number = len(held.keys) + 1 if held is not None else 1
        key = Key(f"key{number}", PublicKey(raw, f"{cluster}-key{number}"), now, who)
        private = made.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        replace_synced(str(folder / f"{key.id}.key"), private, 0o600)
        replace_synced(str(folder / f"{key.id}.pub"),
                       f"{key.public.text} {key.public.comment}\n".encode(), 0o644)
        _write(folder,
               KeyRing(cluster, key.id, (key,)) if held is None else replace(held, keys=(*held.keys, key)))
    return key


def use_key(state: Path, name: str) -> Key:
    """Makes this key sign from now on; raises CertificateError."""
    with _changing(state) as folder:
        held = load_keys(state)
        key = held.named(name)
        if key.retired is not None:
            raise CertificateError(f"{key.id} is retired; make a new one: {_NEW}")
        signer_of(state, replace(held, signing=key.id))
        _write(folder, replace(held, signing=key.id))
    return key


def retire_key(state: Path, name: str, now: float) -> Key:
    """Ends trust in this key and deletes its private part; raises CertificateError for the signing key."""
    with _changing(state) as folder:
        held = load_keys(state)
        key = held.named(name)
        if key.id == held.signing:
            raise CertificateError(
                f"{key.id} is the signing key; first: {_NEW}, then muster certificate key use ID")
        _write(folder,
               replace(held, keys=tuple(replace(one, retired=one.retired or now) if one is key else one
                                        for one in held.keys)))
        (folder / f"{key.id}.key").unlink(missing_ok=True)
    return key


def signer_of(state: Path, keys: KeyRing) -> Signer:
    """The current signer; CertificateError for a private key that others can read or that does not fit."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

    key = keys.named(keys.signing)
    path = state / "keys" / f"{key.id}.key"
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_mode & 0o077:
                raise CertificateError(f"{path} is readable by others (mode {found.st_mode & 0o777:04o}), "
                                       f"who may have signed with it: make a new one ({_NEW}), or chmod 600 "
                                       f"{path} if no one has")
            private = load_ssh_private_key(file.read(16384), None)
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise CertificateError(f"{path}: not a private key in OpenSSH's format without passphrase") from None
    if not isinstance(private, Ed25519PrivateKey):
        raise CertificateError(f"{path}: not an ed25519 key")
    if private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw) != key.public.raw:
        raise CertificateError(f"{path}: not the private key of {key.id}")
    return Signer(key.public, private.sign)


def allowed_signers(keys: KeyRing) -> str:
    """The lines that trust these keys, for /etc/muster/gate.pub and for `ssh-keygen -Y verify -f`."""
    return "".join(key.public.line(NAMESPACES) for key in keys.trusted)


def holds(keys: KeyRing, data: bytes, signature: bytes, namespace: str) -> Key:
    """The key that signed; raises CertificateError."""
    try:
        found = verified(data, signature, namespace, [key.public for key in keys.trusted])
    except BadSignature as error:
        raise CertificateError(str(error)) from None
    return next(key for key in keys.trusted if key.public.raw == found.raw)


@contextmanager
def _changing(state: Path) -> Iterator[Path]:
    folder = state / "keys"
    make_folder(folder, "the state folder (--state, MUSTER_STATE)")
    try:
        with lock_folder(str(folder)):
            yield folder
    except OSError as error:
        raise CertificateError(f"{folder}: {error.strerror}") from None


def _write(folder: Path, keys: KeyRing) -> None:
    document = {"schema": _SCHEMA, "cluster": keys.cluster, "signing": keys.signing,
                "keys": [{"id": key.id, "public": f"{key.public.text} {key.public.comment}", "made": key.made,
                          "who": key.who, "retired": key.retired} for key in keys.keys]}
    replace_synced(str(folder / "keys.json"), json.dumps(document, indent=1).encode() + b"\n", 0o600)


def _read(document: Mapping[str, Any]) -> KeyRing:
    if document["schema"] != _SCHEMA:
        raise ValueError(f"its schema is not {_SCHEMA}")
    return KeyRing(str(document["cluster"]), str(document["signing"]), tuple(
        Key(str(one["id"]), public_key(one["public"]), float(one["made"]), str(one["who"]),
            None if one["retired"] is None else float(one["retired"])) for one in document["keys"]))
