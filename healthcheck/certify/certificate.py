"""Certificates as values: what a node has shown, with which versions, when, and for which hardware that holds; JSON in and out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from healthcheck.model.hardware import Hardware

SCHEMA = "muster.certificate/1"
NAMESPACE = "muster-certificate"
STAGES = ("quick", "standard", "soak")      # lengths of burn-in; each holds those before it
_NONE: Mapping[str, Any] = MappingProxyType({})

# By component ("gpu 0000:18:00.0"), what tells it from every other (serial, uuid) and what runs on it (firmware).


@dataclass(frozen=True)
class Passed:
    """What a burn-in says of a node that passed it. `at` is when it ended; `result` the digest of its document; `boot` that of the node."""

    node: str
    stage: str
    at: int
    what: tuple[Mapping[str, Any], ...] = ()
    figures: Mapping[str, float] = field(default_factory=lambda: _NONE)
    versions: Mapping[str, str] = field(default_factory=lambda: _NONE)
    boot: str | None = None
    result: str = ""


@dataclass(frozen=True)
class Certificate:
    """Of one node. `stage` was passed at `at`, in unix seconds; `renewed` is when a shorter one confirmed it after that, None if none has.

    `boot` is the one in which it was last confirmed. Equal certificates have equal ids.
    """

    stage: str
    at: int
    what: tuple[Mapping[str, Any], ...]
    figures: Mapping[str, float]
    versions: Mapping[str, str]
    hardware: Hardware
    boot: str | None
    burnin: str
    renewed: int | None = None
    id: str = field(default="")

    @property
    def confirmed(self) -> int:
        """When the node last showed it."""
        return max(self.at, self.renewed or 0)


@dataclass(frozen=True)
class Revoked:
    """A certificate that holds no more, by a person's word."""

    id: str
    node: str
    at: int
    why: str
    who: str


@dataclass(frozen=True)
class CertificateManifest:
    """All of the cluster, as one signed document."""

    cluster: str
    serial: int = 0
    made: int = 0
    nodes: Mapping[str, Certificate] = field(default_factory=lambda: _NONE)
    revoked: tuple[Revoked, ...] = ()

    def revocation(self, node: str) -> Revoked | None:
        """That of the node's certificate, if it was revoked."""
        held = self.nodes.get(node)
        return next((one for one in self.revoked if held is not None and one.id == held.id), None)


def canonical(document: Any) -> bytes:
    """The one text of a document: keys in order, no spaces, UTF-8, a line feed at its end. Raises ValueError for what JSON cannot say."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode() + b"\n"


def digest(document: Any) -> str:
    """SHA-256 over the one text of a document, in hexadecimal."""
    return hashlib.sha256(canonical(document)).hexdigest()


def to_document(manifest: CertificateManifest) -> dict[str, Any]:
    """The manifest as JSON has it."""
    return {
        "schema": SCHEMA, "cluster": manifest.cluster, "serial": manifest.serial, "made": manifest.made,
        "nodes": {name: {"id": held.id, **body(held)} for name, held in manifest.nodes.items()},
        "revoked": [vars(one) for one in manifest.revoked],
    }


def numbered(node: str, held: Certificate) -> Certificate:
    """The certificate with its id, which is that of all it says."""
    return Certificate(**{**vars(held), "id": digest({"node": node, **body(held)})[:16]})


def from_document(document: Any) -> CertificateManifest:
    """The manifest of a document; raises ValueError for what is none, and for a certificate that does not say what its id says."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError(f"it is no {SCHEMA}")
    try:
        nodes = {_text(name): _certificate(entry) for name, entry in document["nodes"].items()}
        revoked = tuple(Revoked(_text(one["id"]), _text(one["node"]), _whole(one["at"]), _text(one["why"]), _text(one["who"]))
                        for one in document["revoked"])
        manifest = CertificateManifest(_text(document["cluster"]), _whole(document["serial"]), _whole(document["made"]), nodes, revoked)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"a key is missing, or is not what it should be: {ascii(str(error))[:60]}") from None
    for name, held in nodes.items():
        if numbered(name, held).id != held.id:
            raise ValueError(f"the certificate of {ascii(name)[:60]} is not the one that its id names")
    return manifest


def body(held: Certificate) -> dict[str, Any]:
    """All that a certificate says, as JSON has it."""
    return {
        "stage": held.stage, "at": held.at, "what": [dict(one) for one in held.what], "figures": dict(held.figures),
        "versions": dict(held.versions), "hardware": {name: dict(part) for name, part in held.hardware.items()}, "boot": held.boot,
        "burnin": held.burnin, "renewed": held.renewed,
    }


def _certificate(entry: Mapping[str, Any]) -> Certificate:
    if entry["stage"] not in STAGES:
        raise ValueError("stage")
    hardware = {_text(name): {_text(key): _text(value) for key, value in part.items()} for name, part in entry["hardware"].items()}
    return Certificate(
        entry["stage"], _whole(entry["at"]), tuple(dict(one) for one in entry["what"]),
        {_text(name): _number(value) for name, value in entry["figures"].items()},
        {_text(name): _text(value) for name, value in entry["versions"].items()}, hardware,
        None if entry["boot"] is None else _text(entry["boot"]), _text(entry["burnin"]),
        None if entry["renewed"] is None else _whole(entry["renewed"]), _text(entry["id"]))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("expected text")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueError("expected a whole number")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError("expected a number")
    number: float = value
    return number
