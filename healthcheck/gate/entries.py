"""The snapshot's entries: each node's data from the store, the inventory and its certificate."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from healthcheck.certify.certificate import CertificateManifest, CertificatePolicy, digest
from healthcheck.certify.requalify import CertificateStatus, stand
from healthcheck.model.faultkind import Isolation
from healthcheck.model.outcome import NodeState, Origin, Severity, Status, not_its_fault
from healthcheck.store.accused import accused_nodes
from healthcheck.store.file import Store
from healthcheck.store.hardware import newest_hardware
from healthcheck.store.marks import CordonMark
from inventory.model import Inventory, LifecycleState, Node
from inventory.text import clean

_SKEW_S = 60.0
_MOST_RULES = 50


class SnapshotEntries:
    """The store's data of all nodes at `now`, read once; raises StoreError."""

    def __init__(self, store: Store, now: float) -> None:
        self._now = now
        self._spells = {row[0]: tuple(row)[1:]
                        for row in store.rows("SELECT name, state, reason, stage, seen FROM spell "
                                              "JOIN node ON node.id = spell.node WHERE ended IS NULL")}
        self._reached = {row[0]: row[1] for row in store.rows(
            "SELECT name, max(seen) FROM boot JOIN node ON node.id = boot.node GROUP BY boot.node")}
        self._unknown: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for name, rule, origin in store.rows(
                "SELECT name, rule, origin FROM problem JOIN node ON node.id = problem.node "
                "WHERE ended IS NULL AND status = ? AND severity != ? ORDER BY problem.id",
                Status.UNKNOWN.value, Severity.INFO.value):
            self._unknown[name].append((rule, origin))
        # The same UNKNOWN on many nodes is an incident on muster,
        # and accuses none of them (healthcheck/help/triage.md, Unmeasured and unreachable nodes).
        self._ours = [(kind, frozenset(json.loads(nodes))) for kind, nodes in store.rows(
            "SELECT kind, nodes FROM incident WHERE ended IS NULL AND kind IN ('unreached', 'unmeasured')")]
        self._verdicts = {row[0]: (row[1], row[2])
                          for row in store.rows("SELECT name, isolation, why FROM verdict "
                                                "JOIN node ON node.id = verdict.node WHERE ended IS NULL")}
        # A cordon by triage is covered by its verdict.
        self._cordons = {row[0]: f"{row[2]}: {row[1]} ({CordonMark(row[4], row[3])})"
                         for row in store.rows("SELECT cordon.node, why, who, coalesce(number, cordon.id), "
                                               "store FROM cordon WHERE ended IS NULL "
                                               "AND verdict IS NULL ORDER BY cordon.id")}
        self._away = {row[0]: row[1] for row in store.rows("SELECT node, id FROM rma WHERE returned IS NULL")}
        self._versions = {row[0]: {"driver": row[1], "kernel": row[2], "firmware": row[3]}
                          for row in store.rows("SELECT name, driver, kernel, firmware FROM newest "
                                                "JOIN node ON node.id = newest.node")}

    def entry(self, node: Node, groups: list[str], certificate: Mapping[str, Any] | None) -> dict[str, Any]:
        """The node's entry."""
        name = node.name
        state, reason, stage, seen = self._spells.get(name,
                                                      (NodeState.UNKNOWN.value, "never looked at", "", 0.0))
        looked = seen if not stage else self._reached.get(name, 0.0)
        if name not in self._spells or not 0 < looked <= self._now + _SKEW_S:
            looked = None
        isolation, why = self._verdicts.get(name, (Isolation.NONE.value, ""))
        origin, rules = self._origin(name, stage) if state == NodeState.UNKNOWN.value else (None, [])
        return {
            "lifecycle": LifecycleState.RMA.value if name in self._away else node.lifecycle.state.value,
            "state": state, "origin": origin, "unknown": rules, "isolation": isolation,
            "why": clean(why if isolation != Isolation.NONE.value else reason, 200),
            "cordoned": clean(self._cordons[name], 200) if name in self._cordons else None, "groups": groups,
            "leaf": list(node.leaf) or sorted({plan.leaf for plan in node.ports.values() if plan.leaf}),
            "domain": node.nvlink_domain, "looked": int(looked) if looked is not None else None,
            "certificate": certificate,
            "versions": {key: value for key, value in self._versions.get(name, {}).items() if value},
        }

    def _origin(self, name: str, stage: str | None) -> tuple[str, list[str]]:
        """The origin of an unknown state, and the rules that could not be judged."""
        if name not in self._spells or not_its_fault(stage):
            return Origin.MUSTER.value, []
        ours = {kind for kind, nodes in self._ours if name in nodes}
        if stage:
            return (Origin.MUSTER if "unreached" in ours else Origin.NODE).value, []
        found = self._unknown.get(name, ())
        mine = ("unmeasured" in ours
                or (bool(found) and all(origin == Origin.MUSTER.value for _, origin in found)))
        return ((Origin.MUSTER if mine else Origin.NODE).value,
                sorted({rule for rule, _ in found if rule})[:_MOST_RULES])


def stands(
    store: Store | None, manifest: CertificateManifest, policy: CertificatePolicy, now: float,
) -> dict[str, CertificateStatus]:
    """The status of each certificate, by the store's data of its node, if any; raises StoreError."""
    known = {name: seen for name, (_, seen) in newest_hardware(store).items()} if store is not None else {}
    accused = accused_nodes(store) if store is not None else {}
    return {name: stand(name, held, manifest, known.get(name), policy, now, accused.get(name, ""))
            for name, held in manifest.nodes.items()}


def entries(store: Store, inventory: Inventory, manifest: CertificateManifest, policy: CertificatePolicy,
            now: float) -> dict[str, dict[str, Any]]:
    """The entries of all nodes of the inventory; raises StoreError."""
    known = SnapshotEntries(store, now)
    statuses = stands(store, manifest, policy, now)
    groups: dict[str, list[str]] = defaultdict(list)
    for group, names in sorted(inventory.groups.items()):
        for name in names:
            groups[name].append(group)
    return {node.name: known.entry(node, groups.get(node.name, []),
                                   _certificate(manifest, node.name, statuses.get(node.name)))
            for node in inventory}


def _certificate(
    manifest: CertificateManifest, name: str, stands: CertificateStatus | None,
) -> dict[str, Any] | None:
    if stands is None:
        return None
    held = manifest.nodes[name]
    return {
        "id": held.id, "stage": held.stage, "at": held.confirmed, "hardware": digest(held.hardware),
        "boot": held.boot, "kind": stands.kind.value, "cause": stands.cause.value if stands.cause is not None
        else None, "asks": stands.asks,
        "why": stands.why,
    }
