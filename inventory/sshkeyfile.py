"""What of an IdentityFile only the system's ssh can use; and the public key that the file holds."""

from __future__ import annotations

import base64
import binascii
import functools
import re
from pathlib import Path

from inventory.errors import LACKING

_MOST_BYTES = 65_536
_PEM = re.compile(rb"-----BEGIN ((?:[A-Z0-9]+ )*PRIVATE KEY)-----(.*?)-----END ", re.DOTALL)
_MAGIC = b"openssh-key-v1\0"    # PROTOCOL.key of OpenSSH
_OPENSSH, _PKCS8, _PKCS8_ENCRYPTED = b"OPENSSH PRIVATE KEY", b"PRIVATE KEY", b"ENCRYPTED PRIVATE KEY"
_TYPE = re.compile(rb"(?:ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]{1,50}")


@functools.lru_cache(maxsize=1024)
def only_ssh_uses(path: str) -> str:
    """Why only the system's ssh can log in with this IdentityFile; empty where we can, or it is absent."""
    data = _start(path)
    types = (public_type(data), public_type(_start(f"{path}.pub")))
    form, clear, inner = _private(data)
    if any(each.startswith("sk-") for each in (*types, inner)):
        return "a FIDO key"
    if form == _PKCS8:
        return "a key in PKCS #8, which only ssh reads"
    # Whose key this process reads is used with its certificate.
    if not (form and clear) and Path(f"{path}-cert.pub").exists() and (form or any(types)):
        return "a certificate, whose key only an agent has"
    return ""


def public_type(data: bytes) -> str:
    """The type of the public key of a line KIND BASE64; empty where it is no such line."""
    match = _TYPE.match(data.lstrip()[:60])
    return match[0].decode() if match is not None else ""


def is_public(path: str) -> bool:
    """Whether the file holds a public key, as IdentityFile may name one whose private key an agent has."""
    return bool(public_type(_start(path)))


def public_key(path: str) -> bytes | None:
    """The public key in wire form: of the file itself if it `is_public`, else of PATH.pub."""
    for data in (_start(path), _start(f"{path}.pub")):
        words = data.split(None, 2)
        if public_type(data) and len(words) >= 2:
            try:
                return base64.b64decode(words[1], validate=True)
            except binascii.Error:
                return None
    return None


def _private(data: bytes) -> tuple[bytes, bool, str]:
    """The form of a private key (empty for none), whether it is plain, and the type in OpenSSH's form."""
    match = _PEM.search(data)
    if match is None:
        return b"", False, ""
    form, body = match[1], match[2]
    if form != _OPENSSH:
        return form, form != _PKCS8_ENCRYPTED and b"ENCRYPTED" not in body, ""
    try:
        rest = base64.b64decode(b"".join(body.split()), validate=True)
    except binascii.Error:
        return form, False, ""
    rest = rest.removeprefix(_MAGIC)
    cipher, rest = _string(rest)
    _, rest = _string(rest)     # the key's derivation, and its options
    _, rest = _string(rest)
    public, _ = _string(rest[4:])
    return form, cipher == b"none", _string(public)[0][:60].decode("ascii", "replace")


def _string(data: bytes) -> tuple[bytes, bytes]:
    size = int.from_bytes(data[:4], "big")
    return data[4:4 + size], data[4 + size:]


def _start(path: str) -> bytes:
    try:
        if Path(path).is_fifo():
            return b""      # it may never be written to
        with Path(path).open("rb") as file:
            return file.read(_MOST_BYTES)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in LACKING:
            raise       # an answer would be kept
        return b""
