"""All steps of a run, each with what it needs, by name in the order in which a machine goes through them."""

from __future__ import annotations

from collections.abc import Mapping

from healthcheck.ruleset.sku import Sku
from healthcheck.store import bringups
from healthcheck.store.file import NAME, opened
from inventory.model import Node
from provisioning.base.wish import wish
from provisioning.bmc.base import Controller
from provisioning.bmc.connect import controller
from provisioning.bringup.means import Means
from provisioning.bringup.model import ORDER, Doer
from provisioning.bringup.policy import Policy
from provisioning.bringup.steps.agent import Agent
from provisioning.bringup.steps.base import Base
from provisioning.bringup.steps.bios import BiosAsWished
from provisioning.bringup.steps.bmc import BmcReachable
from provisioning.bringup.steps.boot import BootFrom
from provisioning.bringup.steps.burnin import BurnIn
from provisioning.bringup.steps.certificate import Certify
from provisioning.bringup.steps.checks import Checks
from provisioning.bringup.steps.credentials import Credentials
from provisioning.bringup.steps.doubles import Doubles, Other, delivered_by
from provisioning.bringup.steps.hardware import HardwareAsOrdered
from provisioning.bringup.steps.kernel import Kernel
from provisioning.bringup.steps.os import OsAnswers
from provisioning.bringup.steps.service import Service
from provisioning.bringup.steps.ssh import Ssh

_BEFORE = ORDER[:ORDER.index("bios")]       # until then a machine is about to tell who it is


def doers(means: Means, policy: Policy) -> dict[str, Doer]:
    """Raises RulesError for a base configuration that cannot be, ConfigError for a delivery list that cannot be read."""
    step = policy.steps

    def controllers(node: Node) -> Controller:
        return controller(node, folder=means.folder)

    def sku_of(node: Node) -> Sku | None:
        return means.ruleset.skus.get(means.sku(node) or "")

    agent = Agent(step["agent"], means.transport, means.ruleset, default_sku=means.default_sku, fanout=means.fanout)
    listed = delivered_by(policy.delivery, means.inventory.nodes)
    found: tuple[Doer, ...] = (
        BmcReachable(step["bmc"], controllers),
        Credentials(step["credentials"], controllers, policy, sku_of),
        HardwareAsOrdered(step["hardware"], controllers, policy, sku_of, Doubles(lambda: _others(means), listed, means.inventory.nodes)),
        BiosAsWished(step["bios"], controllers, policy, sku_of),
        BootFrom(step["boot"], controllers, policy),
        OsAnswers(step["os"], controllers, policy),
        Ssh(step["ssh"], means.transport, policy.host_keys, names=tuple(means.inventory.nodes), others=lambda: _kept(means),
            fanout=means.fanout),
        Base(step["base"], means.transport, wish(policy.base), fanout=means.fanout),
        agent,
        Checks(step["checks"], means, policy.checks.profile, policy.checks.looks, policy.checks.between_s),
        Kernel(step["kernel"], means, policy.checks.profile),
        BurnIn(step["burnin"], means, policy.burnin.length, policy.burnin.stages),
        Certify(step["certificate"], means),
        Service(step["service"], means, agent),
    )
    return {doer.step.name: doer for doer in found}


def _rows(means: Means) -> list[bringups.Progress]:
    """All machines of the inventory that were ever begun; none before there is a store."""
    if not (means.folder / NAME).exists():
        return []
    with opened(means.folder) as store:
        return bringups.progress(store, means.inventory.nodes)


def _kept(means: Means) -> Mapping[str, Mapping[str, str]]:
    return {row.node: row.kept for row in _rows(means)}


def _others(means: Means) -> Mapping[str, Other]:
    """A machine whose controller did not answer its first look is not waited for: that may take as long as it likes."""
    return {row.node: Other(row.kept, row.on_its_way and row.step in _BEFORE and "serial" not in row.kept and (
        row.stand == "queued" or (row.stand == "waiting" and row.step != ORDER[0]))) for row in _rows(means)}
