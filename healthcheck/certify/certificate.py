"""Certificates as values: what a node passed, when, with which versions and hardware; JSON in and out."""

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
STAGES = ("quick", "standard", "soak")      # lengths of burn-in; each includes those before it
NONE = "none"       # a policy's word for no stage
_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Passed:
    """A node's pass of a burn-in that ended `at`; its document's digest, and the node's boot."""

    node: str
    stage: str
    at: int
    what: tuple[Mapping[str, Any], ...] = ()
    figures: Mapping[str, float] = field(default_factory=lambda: _EMPTY)
    versions: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    boot: str | None = None
    result: str = ""


@dataclass(frozen=True)
class Certificate:
    """A node's certificate. It passed `stage` at `at`, in unix seconds; `renewed` is when a shorter one last
    confirmed it, `boot` the boot of that. Equal certificates have equal ids."""

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
        """When the node last passed."""
        return max(self.at, self.renewed or 0)


@dataclass(frozen=True)
class Revoked:
    """A certificate revoked by a person."""

    id: str
    node: str
    at: int
    why: str
    who: str


@dataclass(frozen=True)
class CertificateManifest:
    """All certificates of the cluster, as one signed document."""

    cluster: str
    serial: int = 0
    made: int = 0
    nodes: Mapping[str, Certificate] = field(default_factory=lambda: _EMPTY)
    revoked: tuple[Revoked, ...] = ()

    def revocation(self, node: str) -> Revoked | None:
        """The revocation of the node's certificate, if any."""
        held = self.nodes.get(node)
        return next((one for one in self.revoked if held is not None and one.id == held.id), None)


@dataclass(frozen=True)
class CertificatePolicy:
    """Required stages: after `days` (minus a per-node part of `jitter_days`), after a reboot, for a new
    component, and for new firmware on the same one; `none` requires nothing. At most `at_once` nodes are due
    by age at a time."""

    days: float
    jitter_days: float
    at_once: int
    age: str
    rebooted: str
    component: str
    firmware: str


def canonical(document: Any) -> bytes:
    """Canonical text: sorted keys, no spaces, UTF-8, final line feed. ValueError for non-JSON data."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False,
                      allow_nan=False).encode() + b"\n"


def digest(document: Any) -> str:
    """SHA-256 of a document's canonical text, in hexadecimal."""
    return hashlib.sha256(canonical(document)).hexdigest()


def to_document(manifest: CertificateManifest) -> dict[str, Any]:
    """The manifest as JSON has it."""
    return {
        "schema": SCHEMA, "cluster": manifest.cluster, "serial": manifest.serial, "made": manifest.made,
        "nodes": {name: {"id": held.id, **body(held)} for name, held in manifest.nodes.items()},
        "revoked": [vars(one) for one in manifest.revoked],
    }


def numbered(node: str, held: Certificate) -> Certificate:
    """The certificate with its id, a digest of its content."""
    return Certificate(**{**vars(held), "id": digest({"node": node, **body(held)})[:16]})


def from_document(document: Any) -> CertificateManifest:
    """The manifest of a document; ValueError for a bad one, or a certificate that does not fit its id."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError(f"it is not {SCHEMA}")
    try:
        nodes = {_text(name): _certificate(entry) for name, entry in document["nodes"].items()}
        revoked = tuple(Revoked(_text(one["id"]), _text(one["node"]), _whole(one["at"]), _text(one["why"]),
                                _text(one["who"])) for one in document["revoked"])
        manifest = CertificateManifest(_text(document["cluster"]), _whole(document["serial"]),
                                       _whole(document["made"]), nodes, revoked)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"a key is missing or wrong: {ascii(str(error))[:60]}") from None
    for name, held in nodes.items():
        if numbered(name, held).id != held.id:
            raise ValueError(f"the certificate of {ascii(name)[:60]} does not fit its id")
    return manifest


def body(held: Certificate) -> dict[str, Any]:
    """All that a certificate says, as JSON has it."""
    return {
        "stage": held.stage, "at": held.at, "what": [dict(one) for one in held.what],
        "figures": dict(held.figures), "versions": dict(held.versions),
        "hardware": {name: dict(part) for name, part in held.hardware.items()}, "boot": held.boot,
        "burnin": held.burnin, "renewed": held.renewed,
    }


def _certificate(entry: Mapping[str, Any]) -> Certificate:
    if entry["stage"] not in STAGES:
        raise ValueError("stage")
    hardware = {_text(name): {_text(key): _text(value) for key, value in part.items()}
                for name, part in entry["hardware"].items()}
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
