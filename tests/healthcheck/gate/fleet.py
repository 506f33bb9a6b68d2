"""Snapshots of a small fleet, signed as a head signs them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from healthcheck.certify.sshsig import PublicKey, armored, to_sign
from healthcheck.config.rulesfolder import packaged
from healthcheck.gate.policyload import load_gate_policy
from healthcheck.gate.reading import GateSnapshot, bytes_of, snapshot_of

NOW = 1_795_000_000
POLICY = load_gate_policy([packaged()]).document()
OWN = Ed25519PrivateKey.from_private_bytes(b"o" * 32)
FOREIGN = Ed25519PrivateKey.from_private_bytes(b"f" * 32)
NAMESPACE = "muster-gate"


def certificate(now: int = NOW, **changed: Any) -> dict[str, Any]:
    return {"id": "c1", "stage": "standard", "at": now - 86400, "hardware": "d" * 16, "boot": "b1",
            "kind": "ok", "why": "", **changed}


def entry(now: int = NOW, **changed: Any) -> dict[str, Any]:
    return {
        "lifecycle": "service", "state": "healthy", "origin": None, "isolation": "none", "why": "",
        "cordoned": None, "groups": [], "leaf": ["leaf01"], "domain": None, "looked": now - 60,
        "certificate": certificate(now), "versions": {"driver": "550.54.15"},
        **changed,
    }


def document(nodes: dict[str, Any], now: int = NOW, **changed: Any) -> dict[str, Any]:
    return {"schema": "muster.gate/1", "cluster": "alpha", "serial": 7, "made": now - 30, "keys": [],
            "policy": POLICY, "nodes": nodes, **changed}


def names(number: int) -> list[str]:
    return [f"gpu{at:03d}" for at in range(1, number + 1)]


def fleet(number: int = 4, now: int = NOW, **odd: dict[str, Any]) -> dict[str, Any]:
    """So many nodes with nothing wrong, but for what is said of single ones."""
    return {name: entry(now, **odd.get(name, {})) for name in names(number)}


def snapshot(nodes: dict[str, Any], **changed: Any) -> GateSnapshot:
    return snapshot_of(bytes_of(document(nodes, **changed)))


def signature(data: bytes, key: Ed25519PrivateKey = OWN, namespace: str = NAMESPACE) -> bytes:
    return armored(public(key), namespace, key.sign(to_sign(data, namespace)))


def public(key: Ed25519PrivateKey) -> PublicKey:
    return PublicKey(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))


class Place:
    """A folder as the agent keeps it, with the words that point `muster gate` at it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.snapshot, self.keys = folder / "gate.json", folder / "gate.pub"
        self.keys.write_text(public(OWN).line([NAMESPACE]))
        self.words = ("--folder", str(folder), "--keys", str(self.keys))

    def put(
        self, nodes: dict[str, Any] | None = None, *, key: Ed25519PrivateKey = OWN, now: int | None = None,
        **changed: Any,
    ) -> None:
        """Publishes a snapshot made now, or at another time."""
        at = int(time.time()) if now is None else now
        data = bytes_of(document(fleet(4, at) if nodes is None else nodes, at, **changed))
        self.snapshot.write_bytes(data)
        self.snapshot.with_name("gate.json.sig").write_bytes(signature(data, key))

    def saw(self, serial: int, cluster: str = "alpha") -> None:
        """What was accepted here before."""
        self.snapshot.with_name("seen.json").write_text(
            json.dumps({"cluster": cluster, "serial": serial, "at": 0}))
