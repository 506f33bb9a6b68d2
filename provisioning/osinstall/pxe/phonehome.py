"""The signed message by which an installed system proves that and who it is. Body: a JSON object
muster.phonehome/1 with node, number, image, macs, host_keys. Header Muster-Signature: the HMAC-SHA-256, in
hex, of the body under the token that was in the seed of this installation."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from dataclasses import dataclass
from typing import Any

from inventory.entry import mac_address
from inventory.hostkeys import key_type
from provisioning.osinstall.pxe.record import Installation

SCHEMA = "muster.phonehome/1"
HEADER = "Muster-Signature"
MOST_BYTES = 32 * 1024
_KEYS = frozenset({"schema", "node", "number", "image", "macs", "host_keys"})
_MOST_KEYS, _MOST_MACS, _MOST_KEY = 8, 256, 4096
_KEY_TYPE = re.compile(r"[a-z0-9][a-z0-9@.-]{2,63}")
_SIGNATURE = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class PhoneHome:
    """What it says. `host_keys` are lines of `type base64`, sorted."""

    node: str
    number: int
    image: str
    macs: tuple[str, ...]
    host_keys: tuple[str, ...]


def signed(token: str, body: bytes) -> str:
    """The signature of a body."""
    return hmac.new(bytes.fromhex(token), body, hashlib.sha256).hexdigest()


def is_signed(token: str, body: bytes, signature: str) -> bool:
    """Whether this is the body's signature under the token; never for an empty token."""
    return bool(token) and _SIGNATURE.fullmatch(signature) is not None and hmac.compare_digest(
        signed(token, body), signature)


def digest(body: bytes, signature: str) -> str:
    """By which the same message is known again, when its answer was lost."""
    return hashlib.sha256(body + signature.encode("ascii", "replace")).hexdigest()


def parse(body: bytes) -> PhoneHome:
    """What a body says. Raises ValueError with what is wrong, which quotes nothing of it."""
    if len(body) > MOST_BYTES:
        raise ValueError(f"over {MOST_BYTES} bytes")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("no JSON") from None
    if not isinstance(found, dict) or set(found) != _KEYS or found["schema"] != SCHEMA:
        raise ValueError(f"no {SCHEMA} with {', '.join(sorted(_KEYS))}")
    if not isinstance(found["node"], str) or not isinstance(found["image"], str):
        raise ValueError("node and image have to be text")
    if type(found["number"]) is not int:
        raise ValueError("number has to be a whole number")
    return PhoneHome(found["node"], found["number"], found["image"], _macs(found["macs"]),
                     _host_keys(found["host_keys"]))


def objection(said: PhoneHome, record: Installation) -> str:
    """Why a message is not of this installation; empty where it is."""
    if (said.node, said.number, said.image) != (record.node, record.number, record.image):
        return "it is of another machine, installation or image"
    if not set(said.macs) & set(record.macs):
        return "it comes from a machine with none of the hardware addresses that the inventory has"
    return ""


def _macs(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not 1 <= len(given) <= _MOST_MACS:
        raise ValueError(f"macs has to be a list of 1 to {_MOST_MACS} hardware addresses")
    # Tunnels and InfiniBand have addresses of other forms, which stand for nothing here.
    found = [mac_address(one) for one in given if isinstance(one, str) and len(one) == 17]
    return tuple(one for one in found if one is not None)


def _host_keys(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not 1 <= len(given) <= _MOST_KEYS:
        raise ValueError(f"host_keys has to be a list of 1 to {_MOST_KEYS} lines")
    return tuple(sorted({_host_key(one) for one in given}))


def _host_key(line: Any) -> str:
    """The first two words of a public key's line; the key begins with its type (RFC 4253, 6.6)."""
    words = line.split() if isinstance(line, str) and len(line) <= _MOST_KEY and line.isascii() else []
    if len(words) < 2 or _KEY_TYPE.fullmatch(words[0]) is None:
        raise ValueError("a host key is no line of `type base64`")
    try:
        blob = base64.b64decode(words[1], validate=True)
        named = key_type(blob)
    except (binascii.Error, ValueError):
        raise ValueError("a host key is not base64") from None
    if named != words[0] or not _is_whole(blob):
        raise ValueError("a host key is of another type than it says, or is cut")
    return f"{words[0]} {words[1]}"


def _is_whole(blob: bytes) -> bool:
    """Whether the key's parts, each with its length before it, end where it ends."""
    at = parts = 0
    while at + 4 <= len(blob):
        at += 4 + int.from_bytes(blob[at:at + 4], "big")
        parts += 1
    return at == len(blob) and parts >= 2
