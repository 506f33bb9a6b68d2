"""All steps of a run, each with what it needs, by name in the order in which a machine goes through them."""

from __future__ import annotations

from collections.abc import Mapping

from healthcheck.ruleset.sku import Sku
from healthcheck.store import bringups
from healthcheck.store.file import NAME, opened
from inventory.model import Node
from provisioning.base.desired import desired
from provisioning.bmc.base import Controller
from provisioning.bmc.connect import accounts_of, controller
from provisioning.bmc.redfish.crawl import KeptTries
from provisioning.bringup.engine.model import ORDER, Executor
from provisioning.bringup.policy.model import BringupPolicy
from provisioning.bringup.steps.agent import AgentStep
from provisioning.bringup.steps.base import Base
from provisioning.bringup.steps.bios import BiosAsDesired
from provisioning.bringup.steps.bmc import BmcReachable
from provisioning.bringup.steps.boot import BootFrom
from provisioning.bringup.steps.burnin import BurnInStep
from provisioning.bringup.steps.certificate import Certify
from provisioning.bringup.steps.checks import Checks
from provisioning.bringup.steps.context import StepContext
from provisioning.bringup.steps.credentials import Credentials
from provisioning.bringup.steps.duplicates import Duplicates, Other, delivered_by
from provisioning.bringup.steps.hardware import HardwareAsOrdered
from provisioning.bringup.steps.kernel import Kernel
from provisioning.bringup.steps.leased import Leased
from provisioning.bringup.steps.os import OsInstalled
from provisioning.bringup.steps.osproof import OsProof
from provisioning.bringup.steps.service import ServiceStep
from provisioning.bringup.steps.soak import Soak
from provisioning.bringup.steps.soakboots import NodeBoots
from provisioning.bringup.steps.ssh import Ssh
from provisioning.osinstall.registry import OsTools
from provisioning.osinstall.sshsigns import SshSigns

_BEFORE = ORDER[:ORDER.index("bios")]       # until then a machine is about to tell who it is


def executors(context: StepContext, policy: BringupPolicy) -> dict[str, Executor]:
    """Raises RulesError for a bad base configuration, ConfigError for a bad delivery list."""
    step = policy.steps
    tries = KeptTries(step["hardware"].seconds)

    def controllers(node: Node) -> Controller:
        return controller(node, folder=context.folder)

    def patient(node: Node) -> Controller:
        """For a whole inventory half of the step's time, so that a slow one is read to the end."""
        return controller(node, folder=context.folder, seconds=step["hardware"].seconds / 2, answer_s=30.0,
                          kept=tries.of(node.name))

    def sku_of(node: Node) -> Sku | None:
        return context.ruleset.skus.get(context.sku(node) or "")

    accounts = accounts_of(policy.accounts, context.folder) if policy.accounts.wanted else None
    agent = AgentStep(step["agent"], context.transport, context.ruleset, default_sku=context.default_sku,
                      fanout=context.fanout)
    look = SshSigns(context.transport, policy.os.wanted).state
    installer = policy.os.make(OsTools(look, controllers, context.folder, context.rules))
    proof = OsProof(installer, look)
    listed = delivered_by(policy.delivery, context.inventory.nodes)
    found: tuple[Executor, ...] = (
        BmcReachable(step["bmc"], controllers),
        Credentials(step["credentials"], controllers, policy, sku_of, accounts),
        HardwareAsOrdered(step["hardware"], patient, policy, sku_of,
                          Duplicates(lambda: _others(context), listed, context.inventory.nodes), tries),
        BiosAsDesired(step["bios"], controllers, policy, sku_of), BootFrom(
            step["boot"], controllers, policy, installer, proof),
        OsInstalled(step["os"], controllers, policy, installer, proof),
        Ssh(step["ssh"], context.transport, policy.host_keys, proof=proof,
            names=tuple(context.inventory.nodes), others=lambda: _kept(context), fanout=context.fanout),
        Base(step["base"], context.transport, desired(policy.base), fanout=context.fanout), agent,
        Checks(step["checks"], context, policy.checks.profile, policy.checks.snapshots,
               policy.checks.between_s),
        Kernel(step["kernel"], context, policy.checks.profile),
        Soak(step["soak"], context.folder, NodeBoots(context, policy.checks.profile), controllers,
             policy.soak, policy.power, context.sku),
        Leased(step["leased"], context, policy.checks.profile, policy.leased.rules),
        BurnInStep(step["burnin"], context, policy.burnin.length, policy.burnin.stages),
        Certify(step["certificate"], context), ServiceStep(step["service"], context, agent))
    return {executor.step.name: executor for executor in found}


def _rows(context: StepContext) -> list[bringups.MachineProgress]:
    """All machines of the inventory that were ever begun; none before there is a store."""
    if not (context.folder / NAME).exists():
        return []
    with opened(context.folder) as store:
        return bringups.progress(store, context.inventory.nodes)


def _kept(context: StepContext) -> Mapping[str, Mapping[str, str]]:
    return {row.node: row.kept for row in _rows(context)}


def _others(context: StepContext) -> Mapping[str, Other]:
    """A machine whose controller did not answer its first look is not waited for."""
    return {
        row.node: Other(row.kept,
                        row.on_its_way and row.step in _BEFORE and "serial" not in row.kept
                        and (row.stand == "queued" or (row.stand == "waiting" and row.step != ORDER[0])))
        for row in _rows(context)}
