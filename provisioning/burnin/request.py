"""Builds the request for a burn-in of some nodes from the inventory, the rules and the command's options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from healthcheck.burnin.fabricwork import FabricWork
from healthcheck.burnin.floors import load_floors
from healthcheck.burnin.model import BurnInStage
from healthcheck.burnin.published import BurninRules
from healthcheck.burnin.speeds import Speeds
from healthcheck.burnin.stages import BY_THEMSELVES, BurnInWork, check
from healthcheck.burnin.watch import Patience
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.ruleset.sku import Sku
from inventory.errors import UsageError
from inventory.model import Inventory, Node, SiteBurnIn
from provisioning.burnin import ramp
from provisioning.burnin.places import hardware
from provisioning.burnin.ramp import PowerLimits
from provisioning.burnin.run import BurnInRequest, places_of

SCREEN = "screen"
# What a screening has where no one names stages: each node alone, and pairs of neighbours, which use all NICs
# of both. Rails alone, paths across leaves and all nodes at once take as long as all of that again, and nodes
# that are idle by chance seldom fill leaves evenly.
SCREENED = (BurnInStage.NODE, BurnInStage.LEAF_PAIRS)
STAGES = tuple(stage.value for stage in BurnInStage if stage not in BY_THEMSELVES)


def request(
    nodes: Sequence[Node], found: Inventory | None, ruleset: Ruleset, folders: Sequence[Path], length: str,
    stages: str | None, sku: str | None = None, max_kw: float | None = None, domain_kw: float | None = None,
    fabric: FabricWork | None = None,
) -> BurnInRequest:
    """The whole of it; `found` is the inventory that the nodes are of, `fabric` what a link burn is planned
    from. Raises UsageError for what cannot be burnt in so."""
    work, power = BurnInWork(length), PowerLimits(max_kw, domain_kw)
    if found is not None:
        site = found.burnin
        work = BurnInWork(
            length, site.params, storage=site.storage,
            patience=Patience(setup=site.setup_s if site.setup_s is not None else Patience.setup))
        power = PowerLimits(max_kw if max_kw is not None else site.max_kw,
                            domain_kw if domain_kw is not None else site.domain_kw)
    check(work)
    one = BurnInRequest(
        tuple(nodes), ruleset.skus, sku, work, wanted(stages, length), power, load_floors(folders))
    places = places_of(one)
    ramp.check(places, power)
    env = {
        node.name: settings(one.sku(node), found.burnin if found is not None else SiteBurnIn(),
                            one.floors.rules) for node in nodes}
    return replace(
        one,
        work=replace(
            work, fabric=fabric, speeds=Speeds(one.floors, hardware(ruleset.skus, places)),
            env=MappingProxyType(env),
            nvls=frozenset(
                node.name for node in nodes if (of := one.sku(node)) is not None and of.burnin.nvls)))


def settings(sku: Sku | None, site: SiteBurnIn, rules: BurninRules) -> Mapping[str, str]:
    """What is set for NCCL on such a node: the inventory's word goes before the SKU's, and either's own
    before its profile's. UsageError for an unknown profile."""
    found: dict[str, str] = {}
    for profile, env in ((sku.burnin.profile, dict(sku.burnin.env)) if sku is not None else (None, {}),
                         (site.profile, dict(site.env))):
        if profile is not None and profile not in rules.profiles:
            raise UsageError(
                f"burnin: profile {profile}: no such profile; there are {', '.join(sorted(rules.profiles))}")
        found.update({**(rules.profiles[profile] if profile is not None else {}), **env})
    return MappingProxyType(found)


def wanted(stages: str | None, length: str) -> frozenset[BurnInStage]:
    """The stages of a list by commas, or all that a burn-in of this length has; raises UsageError."""
    every = [stage.value for stage in SCREENED] if length == SCREEN else [
        name for name in STAGES if name not in ("fabric", "soak") or name == length]
    names = [name.strip() for name in stages.split(",")] if stages is not None else every
    if unknown := [name for name in names if name not in STAGES]:
        raise UsageError(f"--stages {unknown[0]!r}: expected some of {', '.join(STAGES)}")
    return frozenset(BurnInStage(name) for name in names)
