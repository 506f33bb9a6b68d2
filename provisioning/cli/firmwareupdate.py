"""`muster firmware update`: the plan, and with --apply the updates themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.options import STATE
from inventory.cli.chosen import who
from inventory.cli.folded import echo_folded
from inventory.cli.span import span
from inventory.nodeset import fold
from inventory.text import clean

if TYPE_CHECKING:
    from inventory.model import Inventory, Node
    from inventory.transport.base import Transport
    from provisioning.bmc.base import FirmwareImage
    from provisioning.cli.bringupsite import Surroundings
    from provisioning.firmware.inband.update import BandTools
    from provisioning.firmware.plan import UpdatePlan

_SECONDS = 1800.0       # to send a package of some 100 MB over a controller's slow network, and for its task
_LOCK = "firmware.lock"
_AWAY_S = 1200.0        # a controller takes minutes to write its own flash and to start
_AGAIN_S = 10.0


@click.command()
@click.argument("nodes", shell_complete=completing.node_set)
@click.option("--component", metavar="GLOB", default="*", show_default=True,
              help="Only entries of these components, such as bios or 'HGX_*'.")
@click.option("--apply", "apply", is_flag=True, help="Make the updates. Without this, nothing is sent.")
@click.option("--again", is_flag=True,
              help="With --apply, begin anew where an update failed or its end is not known.")
@click.option("--rules", metavar="DIR", help="A folder of site rules whose bringup.yaml says what is wanted.")
@click.option("--sku", metavar="NAME", help="Take nodes for this SKU where the inventory does not say.")
@click.option("--timeout", metavar="SPAN", callback=span(1, 86400),
              help="Time limit to send an image and for its task. [30m]")
@STATE
@click.option("--inventory", "-i", "file", metavar="FILE", help="Default: as for muster check.")
def update(
    nodes: str, component: str, apply: bool, again: bool, rules: str | None, sku: str | None,
    timeout: float | None, state: str | None, file: str | None,
) -> int:
    """Bring NODES to the firmware that bringup.yaml wants and says a `payload:` for. Without --apply: show
    the plan.

    The plan is by the store: read it anew with `muster firmware status NODES --read`. Payloads are compared
    with their digests first. One machine goes first, then as many at once, and of one power domain or rack,
    as step bios of bring-up. A machine in service must be cordoned by muster, and none that may have a job is
    touched. Versions come over Redfish, or by fwupd or mlxfwmanager there (`by:`). Interrupted, type the same
    again: nothing is sent twice.

    \b
    muster firmware update @rack7
    muster firmware update @rack7 --component bios --apply

    Exit: 0 all as wanted (or a plan), 1 some is not, 2 usage.
    """
    from healthcheck.store.file import NAME, opened
    from healthcheck.store.firmwaresteps import left_off
    from inventory.select import select
    from provisioning.cli.bringupsite import surroundings
    from provisioning.cli.firmwarestatus import fleet
    from provisioning.firmware.drift import judged
    from provisioning.firmware.plan import planned

    site = surroundings(file, rules, state, sku)
    named = select(site.inventory, nodes)
    with opened(site.folder) if (site.folder / NAME).exists() else nullcontext() as store:
        found = [judged(one, site.policy) for one in fleet(site, named, store)]
        plan = planned(found, {node.name: node for node in named}, site.policy, component,
                       left_off(store) if store is not None else ())
    images = _images(plan)
    echo_folded((node, f"{entry}: not updated: {why}") for node, entry, why in plan.left)
    if not apply:
        _show(site, plan)
        return 0
    failed = _made(site, plan, images, timeout or _SECONDS, again=again)
    return int(failed or bool(plan.left))


def _images(plan: UpdatePlan) -> dict[str, FirmwareImage]:
    """By entry what is sent; raises UsageError before anything is."""
    from provisioning.firmware.payload import image_of

    found: dict[str, FirmwareImage] = {}
    for entry in (entry for wave in plan.waves for one in wave for entry in one.entries):
        if entry.id not in found and entry.payload is not None:
            found[entry.id] = image_of(entry.id, entry.payload, staged=entry.component != "bmc")
    return found


def _show(site: Surroundings, plan: UpdatePlan) -> None:
    from provisioning.bmc.permission import why_not
    from provisioning.bringup.steps.versions import wanted_version

    updates = [one for wave in plan.waves for one in wave]
    refused = why_not(site.inventory, [one.node for one in updates], off=True)
    echo_folded((name, f"would be refused now: {why}") for name, why in refused.items())
    for at, wave in enumerate(plan.waves, 1):
        click.echo(f"wave {at}: {fold(one.node.name for one in wave)}")
        echo_folded((one.node.name, f"{entry.id}: {one.now[entry.id]} -> {clean(wanted_version(entry), 60)}")
                    for one in wave for entry in one.entries)
    count = len(updates)
    click.echo(f"machines: {count}, waves: {len(plan.waves)}. Nothing was sent; --apply makes the updates."
               if count else "nothing to update")


def _made(
    site: Surroundings, plan: UpdatePlan, images: dict[str, FirmwareImage], seconds: float, *, again: bool,
) -> bool:
    """Whether some machine is not as wanted afterwards."""
    import time

    from healthcheck.store.file import opened
    from healthcheck.store.firmwaresteps import begin_anew
    from provisioning.bmc.connect import controller
    from provisioning.bringup.engine.site import LOCK as BRINGUP
    from provisioning.firmware.decide import UpdateTimes
    from provisioning.firmware.update import UpdateTools, run
    from provisioning.lease.runlock import alone

    if not plan.waves:
        click.echo("nothing to update")
        return False
    tools = UpdateTools(
        site.folder, who(), lambda node: controller(node, folder=site.folder, seconds=seconds),
        _forbidden(site), images, UpdateTimes(2 * seconds, _AWAY_S, site.policy.power), again_s=_AGAIN_S,
        band=_band(site, seconds))
    failed = False
    # A bring-up would reset the same machines.
    with alone(site.folder, _LOCK, "firmware update"), alone(
            site.folder, BRINGUP, "bringup run", "firmware update --apply"):
        if again:       # under the lock: a run that is under way would send again what it has sent
            with opened(site.folder, make=True) as store:
                begin_anew(store, [(one.node.name, entry.id) for wave in plan.waves for one in wave
                                   for entry in one.entries], who(), time.time())
        for one in run(plan, site.policy, tools):
            failed |= not one.done
            click.echo(f"{one.node}  {one.entry}: {one.message}"
                       f"{f'; next: {one.hand}' if one.hand else ''}")
    return failed


def _forbidden(site: Surroundings) -> Callable[[Node], str]:
    """Why a machine may not be disturbed now; "" where it may. Asked before each step, of the inventory as it
    is then: a run takes hours, and people put machines into service meanwhile."""
    from provisioning.bmc.permission import why_not

    def why(node: Node) -> str:
        now = _now(site)
        there = now.nodes.get(node.name)
        if there is None:
            return f"{site.path} does not name it any more"
        return why_not(now, [there], off=True).get(node.name, "")

    return why


def _now(site: Surroundings) -> Inventory:
    """The inventory as its file stands now. Raises ConfigError."""
    from inventory.load import load_inventory

    return load_inventory(site.path, site.ruleset.skus, site.ruleset.profiles)


def _band(site: Surroundings, seconds: float) -> BandTools:
    """What updates by the machines' own tools need."""
    import time
    from contextlib import contextmanager

    from healthcheck.triage.remediation import RemediationStep
    from inventory.transport.remote import RemoteTransport
    from provisioning.firmware.inband.decide import BandTimes
    from provisioning.firmware.inband.hold import MachineHold
    from provisioning.firmware.inband.update import BandTools
    from provisioning.remediate.send import StepReport, send

    hold = MachineHold(site.folder, who(), RemoteTransport, site.ruleset.skus, site.default_sku)

    @contextmanager
    def held(node: Node, term: float) -> Iterator[Transport]:
        now = _now(site)
        with hold.held(now, now.nodes.get(node.name, node), term) as transport:
            yield transport

    def restart(node: Node, key: str, transport: Transport) -> StepReport:
        (done,) = send({key: node}, RemediationStep.REBOOT, transport, 1)
        return done

    def restarted(node: Node, key: str, transport: Transport) -> StepReport:
        (done,) = send({key: node}, None, transport, 1)
        return done

    return BandTools(site.folder, who(), RemoteTransport, held, restart, restarted,
                     BandTimes(seconds, site.policy.power.bios_s), _AGAIN_S, time.time, time.sleep)
