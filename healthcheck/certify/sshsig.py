"""Detached signatures in OpenSSH's own format, as `ssh-keygen -Y sign` makes and
`ssh-keygen -Y verify` checks them. Python 3.8.

The format is that of PROTOCOL.sshsig in OpenSSH's sources; the lines of trusted keys are those of ALLOWED
SIGNERS in ssh-keygen(1). Only ed25519 keys and SHA-512 are known here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
import typing

from healthcheck.certify.ed25519 import ed25519_holds

WHO = "muster"                      # the principal of our keys: ssh-keygen -I
_MAGIC, _VERSION = b"SSHSIG", 1
_KEY_TYPE, _HASH = b"ssh-ed25519", b"sha512"
_BEGIN, _END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
_OPTION = 'namespaces="'
_COLUMNS = 70
MOST_SIGNATURE, MOST_KEYS = 4096, 64 * 1024


class BadSignature(Exception):
    """The signature is invalid, or by no trusted key; one line."""


class PublicKey(typing.NamedTuple):
    """An ed25519 key: its 32 bytes and its forms in SSH."""

    raw: bytes
    comment: str = ""

    @property
    def blob(self) -> bytes:
        """As SSH writes it."""
        return _string(_KEY_TYPE) + _string(self.raw)

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -l` prints it."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")

    @property
    def text(self) -> str:
        """As in a .pub file, without the comment."""
        return f"{_KEY_TYPE.decode()} {base64.b64encode(self.blob).decode()}"

    def line(self, namespaces: typing.Iterable[str]) -> str:
        """A line of an allowed_signers file."""
        return f'{WHO} namespaces="{",".join(namespaces)}" {self.text} {self.comment}'.rstrip() + "\n"


def public_key(text: str) -> PublicKey:
    """The key of a line such as "ssh-ed25519 AAAA... comment"; raises ValueError."""
    words = text.split(None, 2)
    if len(words) < 2 or words[0] != _KEY_TYPE.decode():
        raise ValueError("expected an ssh-ed25519 key")
    blob = base64.b64decode(words[1], validate=True)
    kind, raw, rest = *_take(blob, 2)[0], _take(blob, 2)[1]
    if kind != _KEY_TYPE or len(raw) != 32 or rest:
        raise ValueError("expected an ssh-ed25519 key")
    return PublicKey(raw, words[2].strip() if len(words) > 2 else "")


def trusted_keys(data: bytes, namespace: str) -> list[PublicKey]:
    """The keys that allowed_signers lines trust for us in a namespace; none of lines with unknown options."""
    found = []
    for line in data[:MOST_KEYS].decode("utf-8", "replace").split("\n"):
        try:
            key = _trusted(line.strip(), namespace)
        except ValueError:
            continue
        if key is not None:
            found.append(key)
    return found


def _trusted(line: str, namespace: str) -> PublicKey | None:
    if not line or line.startswith("#"):
        return None
    principals, rest = line.split(None, 1)
    if WHO not in principals.split(","):
        return None
    if rest.startswith(_OPTION):
        spaces, quote, rest = rest[len(_OPTION):].partition('"')
        if not quote or not rest[:1].isspace() or namespace not in spaces.split(","):
            return None
    return public_key(rest)


def to_sign(data: bytes, namespace: str) -> bytes:
    """What the key signs."""
    return _MAGIC + b"".join(map(_string, (namespace.encode(), b"", _HASH, hashlib.sha512(data).digest())))


def armored(key: PublicKey, namespace: str, signature: bytes) -> bytes:
    """The signature file: `signature` are the 64 bytes that the key made of `to_sign`."""
    parts = (key.blob, namespace.encode(), b"", _HASH, _string(_KEY_TYPE) + _string(signature))
    text = base64.b64encode(_MAGIC + struct.pack(">I", _VERSION) + b"".join(map(_string, parts))).decode()
    return "\n".join((_BEGIN, *(text[at:at + _COLUMNS] for at in range(0, len(text), _COLUMNS)), _END,
                      "")).encode()


def verified(data: bytes, signature: bytes, namespace: str, keys: typing.Iterable[PublicKey]) -> PublicKey:
    """The trusted key whose signature this is; raises BadSignature for every other."""
    blob = _unarmored(signature)
    if blob[:len(_MAGIC)] != _MAGIC or blob[6:10] != struct.pack(">I", _VERSION):
        raise BadSignature("it is not an SSH signature of version 1")
    try:
        (key, space, reserved, hashed, made), rest = _take(blob[10:], 5)
        (kind, raw), more = _take(key, 2)
        (how, numbers), left = _take(made, 2)
    except ValueError:
        raise BadSignature("the signature is cut") from None
    if rest or more or left or reserved or kind != _KEY_TYPE or how != _KEY_TYPE or hashed != _HASH:
        raise BadSignature("it is not an ed25519 signature over SHA-512")
    if space != namespace.encode():
        raise BadSignature(f"it was signed for another purpose, not for {namespace}")
    for trusted in keys:
        if trusted.raw == raw:
            if ed25519_holds(raw, to_sign(data, namespace), numbers):
                return trusted
            raise BadSignature("the signature does not fit the document: it was altered or forged")
    raise BadSignature("it was not signed by a key trusted here")


def _unarmored(signature: bytes) -> bytes:
    try:
        lines = signature[:MOST_SIGNATURE + 1].decode("ascii").split("\n")
        if len(signature) > MOST_SIGNATURE or lines[0] != _BEGIN or lines[-2:] != [_END, ""]:
            raise BadSignature("the signature is incomplete")
        return base64.b64decode("".join(lines[1:-2]), validate=True)
    except (UnicodeDecodeError, binascii.Error):
        raise BadSignature("the signature is incomplete") from None


def _string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _take(data: bytes, count: int) -> tuple[list[bytes], bytes]:
    """So many strings, and what is left; raises ValueError."""
    found = []
    for _ in range(count):
        if len(data) < 4 or len(data) - 4 < (length := int.from_bytes(data[:4], "big")):
            raise ValueError("cut")
        found.append(data[4:4 + length])
        data = data[4 + length:]
    return found, data
