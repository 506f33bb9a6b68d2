"""Reads how the nodes stand: rows, triage's plan, the gate's answer and whose turn it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from healthcheck.certify.certificate import CertificateManifest, CertificatePolicy
from healthcheck.certify.keys import load_keys
from healthcheck.certify.manifest import load_manifest
from healthcheck.certify.policyload import load_certificate_policy
from healthcheck.config.rulesfolder import folders
from healthcheck.gate.decide import Gate, Why
from healthcheck.gate.entries import SnapshotEntries, entries
from healthcheck.gate.policyload import load_gate_policy, with_todays_names
from healthcheck.model.faultkind import Isolation
from healthcheck.model.problem import Problem
from healthcheck.model.verdict import Verdict
from healthcheck.report.fleetrows import fleet_rows
from healthcheck.report.nodes import NodeRow
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.statuspage import ready
from healthcheck.statuspage.nextstep import Turn, turn
from healthcheck.statuspage.ready import Standing
from healthcheck.store import newest
from healthcheck.store.file import Store
from healthcheck.store.history import newest_spells
from healthcheck.store.leases import leased_nodes
from healthcheck.triage.plan import TriagePlan
from healthcheck.triage.policyload import load_policy
from inventory.errors import CertificateError
from inventory.model import Inventory, Node


@dataclass(frozen=True)
class FleetRead:
    """What was read of the nodes, all of one moment."""

    rows: Sequence[NodeRow]
    plan: TriagePlan
    nodes: Mapping[str, Node]
    skus: Mapping[str, str]
    standings: Mapping[str, Standing]
    turns: Mapping[str, Turn]
    certificates: Mapping[str, Mapping[str, Any]]
    certifies: bool
    trouble: str
    incident_owners: Mapping[int, str]


def read_fleet(
    store: Store, inventory: Inventory | None, state: Path, now: float, rules: str | None,
    held: Iterable[Problem],
) -> FleetRead:
    """All nodes of the inventory, or of the store; `held` are their open problems. Raises StoreError and
    RulesError."""
    found = folders(rules)
    ruleset = load_ruleset(found)
    policy = load_policy(found, ruleset)
    gate_policy, certificate_policy = load_gate_policy(found), load_certificate_policy(found)
    if gate_policy.rules:
        gate_policy = with_todays_names(gate_policy, ruleset.former)
    nodes = dict(inventory.nodes) if inventory is not None else {
        name: Node(name) for name in newest_spells(store)}
    rows, plan = fleet_rows(store, list(nodes.values()), policy, now, policy.fresh_hours * 3600)
    verdicts = {verdict.node: verdict for verdict in plan.verdicts}
    manifest, trouble = _manifest(state)
    certifies = bool(manifest.nodes) or bool(trouble)
    judged = _judged_skus(store)
    skus = {name: node.sku or judged.get(name) or ready.NO_SKU for name, node in nodes.items()}
    there = Inventory(nodes, inventory.groups if inventory is not None else {}, "")
    at_gate = _entries(store, there, manifest, certificate_policy, now)
    closed = ready.at_gate(at_gate, gate_policy.document(), skus, now)
    by_node: dict[str, list[Problem]] = defaultdict(list)
    for problem in held:
        by_node[problem.node].append(problem)
    leased = leased_nodes(store)
    standings = {one.node: _standing(one, at_gate[one.node], closed.get(one.node), skus[one.node],
                                     "lent for tests" if one.node in leased else "") for one in rows}
    turns = {one.node: turn(one, by_node.get(one.node, ()), _first_rule(verdicts.get(one.node)),
                            at_gate[one.node]["certificate"], closed.get(one.node), certifies)
             for one in rows}
    return FleetRead(rows, plan, nodes, skus, standings, turns, at_gate, certifies, trouble,
                 {one.id: one.owner.value for one in plan.incidents})


def _first_rule(verdict: Verdict | None) -> str:
    """The rule that a verdict rests on most."""
    return verdict.faults[0].problems[0].rule if verdict is not None and verdict.faults else ""


def _manifest(state: Path) -> tuple[CertificateManifest, str]:
    """The certificates, and why they cannot be read. Then no node counts as certified."""
    try:
        return load_manifest(state, load_keys(state)), ""
    except CertificateError as error:
        # Without a key none was ever signed.
        return CertificateManifest(""), str(error) if (state / "keys").exists() else ""


def _entries(
    store: Store, inventory: Inventory, manifest: CertificateManifest, policy: CertificatePolicy, now: float,
) -> dict[str, dict[str, Any]]:
    """What the gate would know of each node, if a snapshot were published now."""
    if manifest.nodes:
        return entries(store, inventory, manifest, policy, now)
    known = SnapshotEntries(store, now)
    return {node.name: known.entry(node, [], None) for node in inventory}


def _judged_skus(store: Store) -> dict[str, str]:
    """Of nodes whose SKU the inventory leaves open, the one that the newest result was judged by is in it;
    one that no one named is shown as such."""
    found = (newest.decoded(*each) for each in newest.rows(store))
    return {one.node: f"{one.sku} (by what it shows)" if one.sku_basis else one.sku
            for one in found if one.sku}


def _standing(one: NodeRow, entry: Mapping[str, Any], closed: Why | None, sku: str, lent: str) -> Standing:
    certificate = entry["certificate"]
    held = lent or (f"isolated ({one.isolation.value})" if one.isolation is not Isolation.NONE else "")
    held = held or ("cordoned" if one.cordon else "")
    return Standing(one.node, sku, one.in_service, certificate is not None and certificate["kind"] == "ok",
                    (closed.gate if closed is not None else Gate.OPEN).name.lower(), closed, held)
