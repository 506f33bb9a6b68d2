"""Fingerprints of controllers' certificates that a person or a delivery list vouched for, in one file. A
fingerprint is SHA-256 of the certificate as it is sent (DER), in hexadecimal. It is replaced whole."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from healthcheck.config.files import make_folder, write_whole
from inventory.errors import MusterError, UsageError
from inventory.lock import locked
from inventory.text import clean, short

NAME = "bmc-pins.json"
SCHEMA = "muster.bmc-pins/1"
_MOST = 16 * 1024 * 1024
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_LINE = re.compile(r"(?P<node>[A-Z0-9_][A-Z0-9_.-]*)[\s,;=]+(?:sha256)?(?:[ "
                   r"_-]?fingerprint)?[:=\s]*(?P<print>[0-9A-F:]{64,95})\s*", re.IGNORECASE | re.ASCII)


def read(folder: Path) -> dict[str, str]:
    """The fingerprint of each node that has one. Raises MusterError for a file that is none of ours."""
    path = folder / NAME
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST + 1)
    except FileNotFoundError:
        return {}
    except OSError as problem:
        raise MusterError(f"{path} cannot be read: {problem.strerror}") from None
    if not data:        # made for its lock, and its writer was killed
        return {}
    return _parsed(data, path)


def _parsed(data: bytes, path: Path) -> dict[str, str]:
    try:
        document = json.loads(data)
        if document["schema"] != SCHEMA or len(data) > _MOST:
            raise ValueError
        pins = dict(document["pins"])
        if not all(isinstance(text, str) and _FINGERPRINT.fullmatch(text) for text in pins.values()):
            raise ValueError
    except (ValueError, TypeError, KeyError, RecursionError):
        raise MusterError(f"{path} is not a file of pinned certificates; move it away and enroll again: "
                          "muster bmc enroll NODES") from None
    return pins


def write(folder: Path, changes: Mapping[str, str], replacing: Mapping[str, str]) -> None:
    """Pins these fingerprints; `replacing` names the old one of each node that may change: another pin that
    came meanwhile is not overwritten. Raises MusterError and changes nothing."""
    make_folder(folder, "pinned certificates")
    path = folder / NAME
    try:
        with locked(path, make=True):
            pins = read(folder)
            for node, fingerprint in changes.items():
                held = pins.get(node, fingerprint)
                if held not in (fingerprint, replacing.get(node)):
                    raise MusterError(f"the certificate of {node} in {path} changed while this command ran; "
                                      "nothing was written; run it again")
            _write(path, {**pins, **changes})
    except OSError as problem:
        raise MusterError(f"{path} cannot be written: {problem.strerror}") from None


def rename(folder: Path, old: str, new: str) -> bool:
    """Gives the old name's pin to the new one; whether there was any. MusterError where that has another."""
    path = folder / NAME
    if old not in read(folder):
        return False
    try:
        with locked(path):
            pins = read(folder)
            fingerprint = pins.pop(old, None)
            if fingerprint is None:
                return False
            if pins.setdefault(new, fingerprint) != fingerprint:
                raise MusterError(f"{path}: {old} and {new} have different certificates pinned: one of them "
                                  "is another machine; see: muster bmc enroll")
            _write(path, pins)
    except OSError as problem:
        raise MusterError(f"{path} cannot be written: {problem.strerror}") from None
    return True


def _write(path: Path, pins: Mapping[str, str]) -> None:
    text = json.dumps({"schema": SCHEMA, "pins": pins}, indent=1, sort_keys=True)
    write_whole(path, f"{text}\n".encode())


def shown(fingerprint: str) -> str:
    """As openssl x509 -fingerprint -sha256 prints it."""
    return ":".join(fingerprint[at:at + 2] for at in range(0, len(fingerprint), 2)).upper()


def expected(path: Path) -> dict[str, str]:
    """Lines `NODE FINGERPRINT` of a list, with or without colons; # begins a comment. Raises UsageError."""
    try:
        with open(path, "rb") as file:
            text = file.read(_MOST).decode("utf-8-sig", "replace")
    except OSError as problem:
        raise UsageError(f"{clean(path)} cannot be read: {problem.strerror}") from None
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.partition("#")[0].strip()
        if not bare:
            continue
        match = _LINE.fullmatch(bare)
        fingerprint = match["print"].replace(":", "").lower() if match is not None else ""
        if match is None or not _FINGERPRINT.fullmatch(fingerprint):
            raise UsageError(f"{clean(path)}:{number}: {short(bare)} is not a node and the SHA-256 "
                             "fingerprint of its certificate")
        if found.setdefault(match["node"], fingerprint) != fingerprint:
            raise UsageError(f"{clean(path)}:{number}: {match['node']} has another fingerprint further up")
    return found
