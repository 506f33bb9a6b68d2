"""Reads of each node whether it could be screened now, and when it was last proven."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from healthcheck.burnin.model import Participant
from healthcheck.certify import manifest
from healthcheck.ruleset.sku import Sku
from healthcheck.store import screened
from healthcheck.store.cordons import open_cordons
from healthcheck.store.leases import leased_nodes
from inventory.errors import UsageError
from inventory.model import Node
from provisioning.burnin.places import place
from provisioning.burnin.screening import Candidate
from provisioning.lease.jobs import jobs
from provisioning.lease.take import LeaseManager, unfit


def candidates(
    nodes: Sequence[Node], skus: Mapping[str, Sku], default_sku: str | None, manager: LeaseManager,
    state: Path, seconds: float,
) -> list[Candidate]:
    """One for each node, to be held so long. Raises ActionError, StoreError, CertificateError."""
    refused: dict[str, str] = {}
    places: dict[str, Participant] = {}
    for node in nodes:
        if not node.in_service:
            refused[node.name] = f"it is in {node.lifecycle.state.value}, not in service"
            continue
        try:
            places[node.name] = place(node, skus.get(node.sku or default_sku or ""))
        except UsageError as error:
            refused[node.name] = str(error)
    refused.update(_held([node.name for node in nodes if node.name not in refused], manager, seconds))
    certified = _certified(state)
    known = screened.newest(manager.store)
    found = []
    for node in nodes:
        last = known.get(node.name)
        report = last.at if last is not None and last.conclusive else None
        proven = max((at for at in (certified.get(node.name), report) if at is not None), default=None)
        tried = last.at if last is not None else None
        found.append(Candidate(node.name, places.get(node.name), proven, tried, refused.get(node.name, "")))
    return found


def _held(names: Sequence[str], manager: LeaseManager, seconds: float) -> dict[str, str]:
    """By node who has it, or that no one can say; nodes that are idle and have no holder are not in it."""
    base = manager.method.base
    found = {one.node: "muster has cordoned it" for one in open_cordons(manager.store, names, base.name)}
    leased = leased_nodes(manager.store)
    found.update({name: f"it is leased ({leased[name].name})" for name in names if name in leased})
    found = {**unfit(manager, names, manager.clock() + seconds), **found}
    looked = jobs(base, [name for name in names if name not in found], manager.run)
    return {**found, **looked.busy, **dict.fromkeys(looked.unknown, "whether a job is on it is not known")}


def _certified(state: Path) -> dict[str, int]:
    """By node when it last showed what its certificate says; a certificate that was revoked says nothing."""
    if not (state / manifest.FOLDER).is_dir():
        return {}
    held = manifest.load_manifest(state)
    return {node: one.confirmed for node, one in held.nodes.items() if held.revocation(node) is None}
