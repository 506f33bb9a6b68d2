"""The host keys that a server proves in one connection, beside the key exchange's. OpenSSH's sshd announces
them all after the login (hostkeys-00@openssh.com) and signs, on request, this connection's session identifier
with each (hostkeys-prove-00@openssh.com): OpenSSH, PROTOCOL, 2.5, and draft-miller-sshm-hostkey-update. What
a server merely announces proves nothing."""

from __future__ import annotations

from typing import Any

from inventory.hostkeys import key_type
from inventory.transport.quiet import paramiko

ANNOUNCED, PROVE = b"hostkeys-00@openssh.com", "hostkeys-prove-00@openssh.com"
TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")
MOST_KEYS = 16
_MOST_BYTES = 8 * 1024      # of a key, or a signature


def strings(data: bytes, most: int = MOST_KEYS) -> tuple[bytes, ...]:
    """The strings of SSH's wire form (RFC 4251, 5), at most so many; a cut or huge one ends them."""
    found: list[bytes] = []
    while len(data) >= 4 and len(found) < most:
        size = int.from_bytes(data[:4], "big")
        if size > _MOST_BYTES or len(data) < 4 + size:
            break
        found.append(data[4:4 + size])
        data = data[4 + size:]
    return tuple(found)


def announced(data: bytes) -> tuple[bytes, ...]:
    """The keys, in wire form, of a server's announcement that could be proven and pinned; each once."""
    return tuple(dict.fromkeys(blob for blob in strings(data) if key_type(blob) in TYPES))


def proven(blobs: tuple[bytes, ...], reply: bytes, session: bytes) -> tuple[bytes, ...]:
    """Those of the keys whose signature in the reply is over this session's identifier."""
    return tuple(blob for blob, signature in zip(blobs, strings(reply), strict=False)
                 if _signed(blob, signature, session))


def _signed(blob: bytes, signature: bytes, session: bytes) -> bool:
    try:
        key: Any = paramiko.PKey.from_type_string(key_type(blob), blob)
        text = b"".join(len(one).to_bytes(4, "big") + one for one in (PROVE.encode(), session, blob))
        return bool(key.verify_ssh_sig(text, paramiko.Message(signature)))
    except Exception:  # noqa: BLE001  (cryptography and paramiko raise many kinds for hostile keys and signatures)
        return False
