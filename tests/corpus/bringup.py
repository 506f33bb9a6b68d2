"""Racks of machines that are objects, each with one thing planted, brought up by the real steps as far as
these need no machine.

Controllers are scripted, the clock is the run's own, and what a sweep sees of a machine is a recorded node of
the scenarios. Steps that need a login to a real system (ssh, base, agent), real ranks (burnin, certificate)
or a scheduler (service) find everything well, or what is planted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from healthcheck.config.rulesfolder import packaged
from healthcheck.facts.bmc import BmcEvent, BmcSensor
from healthcheck.model.outcome import Owner
from healthcheck.model.recording import Recording
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.ruleset.sku import Sku
from inventory.load import load_inventory
from inventory.model import Node
from inventory.transport.base import Failure, Limits, Program, Reply, Stage
from provisioning.bmc.base import BmcError, BmcErrorReason, BootOverride, BootTarget, HardwarePart, PowerState
from provisioning.bringup.engine.model import ORDER, Executor, Machine, Observation, StepState
from provisioning.bringup.engine.run import run
from provisioning.bringup.engine.site import BringupOutcome, RunContext
from provisioning.bringup.policy.load import load
from provisioning.bringup.policy.model import BringupPolicy
from provisioning.bringup.steps.bios import BiosAsDesired
from provisioning.bringup.steps.bmc import BmcReachable
from provisioning.bringup.steps.boot import BootFrom
from provisioning.bringup.steps.checks import Checks
from provisioning.bringup.steps.context import StepContext
from provisioning.bringup.steps.credentials import Credentials
from provisioning.bringup.steps.duplicates import Duplicates
from provisioning.bringup.steps.executors import Other
from provisioning.bringup.steps.hardware import HardwareAsOrdered
from provisioning.bringup.steps.kernel import Kernel
from provisioning.bringup.steps.os import OsInstalled
from provisioning.osinstall.base import OsReport
from tests.provisioning.bringup.controllers import IDENTITY, SKU, UNSUPPORTED, Scripted, parts, unmeasured
from tests.provisioning.bringup.proofs import ALIVE, DEAD, others
from tests.provisioning.bringup.scripted import Acts, trouble
from tests.scenarios.node import BETWEEN_S, at

WISHED = {"ProcTurboMode": "Enabled"}
_NOW = 1e9          # the controllers' clock
BIOS = ("bios: [{id: turbo, vendor: 'Dell*', settings: {ProcTurboMode: Enabled}, absent: trouble, source: a "
        "test}]\n")
# No recorded node was asked for its optics and its bit errors, which the packaged profile wants.
PROFILE = ("profile: ours\ntitle: bring-up without optics\nenable: [gpu-idle, container-left-over]\nunknown: "
           "{node: block, muster: block}\n")
NEVER = "stop: {share: 1, least: 1000, refused_logins: 1000}\n"


@dataclass
class Planted:
    """A machine: its controller, how its system answers, which recorded node a sweep sees there (None: it is
    not reached), what later steps find, and why it must not be disturbed."""

    controller: Scripted = field(default_factory=lambda: Scripted(settings=dict(WISHED)))
    answers: Callable[[Scripted], bool] = lambda controller: controller.on is PowerState.ON
    shows: str | None = "gpu001"
    later: Mapping[str, Observation] = field(default_factory=dict)
    busy: str = ""


@dataclass(frozen=True)
class Rack:
    """Machines by name, and what the site says of bring-up; whether their controllers have one user; the
    profile that has to pass."""

    machines: Mapping[str, Planted]
    policy: str
    one_user: bool = False
    profile: str = "ours"


def _planted(**changes: Any) -> Planted:
    return Planted(Scripted(**{"settings": dict(WISHED), **changes}))


def _fails(**fails: BmcError | list[BmcError | None]) -> Planted:
    return _planted(fails=fails)


def _gpus(number: int) -> tuple[HardwarePart, ...]:
    found = parts().parts["gpu"]
    assert isinstance(found, tuple)
    return found[:number]


def rack() -> Rack:
    """One machine for each thing that a controller, a system or a sweep can show; kernel is left out, for no
    one has learned a baseline.

    Of those that come as far as a sweep each shows another recorded node: two with one identity are not
    measured.
    """
    broken, other = BmcError(BmcErrorReason.BROKEN, "500"), {"ProcTurboMode": "Disabled"}
    machines = {
        "sound": Planted(), "off": _planted(on=PowerState.OFF),
        "controller-unreachable": _fails(reachable=BmcError(BmcErrorReason.UNREACHABLE, "no route to host")),
        "controller-of-another-certificate": _fails(reachable=BmcError(BmcErrorReason.TLS,
                                                                       "not the one that is pinned")),
        "controller-slow": _fails(reachable=BmcError(BmcErrorReason.TIMEOUT, "30 s")),
        "controller-sick": _fails(identity=broken),
        "controller-sick-at-first": _fails(identity=[broken, broken, broken]),
        "login-refused": _fails(identity=BmcError(BmcErrorReason.CREDENTIALS, "401")),
        "login-denied": _fails(hardware=BmcError(BmcErrorReason.DENIED, "403")),
        "password-missing": _fails(identity=BmcError(BmcErrorReason.NO_SECRET, "no such file")),
        "gpu-missing": _planted(hard=parts(gpu=_gpus(7))),
        "gpus-not-shown": _planted(hard=parts(gpu=UNSUPPORTED)),
        "supply-failed": _planted(hard=parts(psu=(HardwarePart("psu", "PSU 1", health="Critical"),
                                                  HardwarePart("psu", "PSU 2", health="OK")))),
        "drives-unread": _planted(hard=parts(drive=unmeasured())),
        "bus-error-logged": _planted(events=(BmcEvent("PCI Bus", "Bus Fatal Error", _NOW - 3600, "today"),)),
        "input-lost": _planted(events=(BmcEvent("Power Supply PSU2", "Power Supply AC lost",
                                                _NOW - 5, "now"),)),
        "inlet-hot": _planted(readings=(BmcSensor("Inlet Temp", "ucr", "61 degrees C"),)),
        "twin-1": _planted(who=replace(IDENTITY, serial="TWIN", uuid="one")),
        "twin-2": _planted(who=replace(IDENTITY, serial="TWIN", uuid="two")),
        "bios-differs": _planted(settings=dict(other)),
        "bios-differs-off": _planted(settings=dict(other), on=PowerState.OFF),
        "bios-ignored": _planted(settings=dict(other), applies=False),
        "bios-refused": _planted(settings=dict(other),
                                 fails={"set_bios": BmcError(BmcErrorReason.REFUSED, "400")}),
        "bios-without-it": _planted(settings={"Other": 1}), "bios-unread": _planted(settings=unmeasured()),
        "bios-answer-lost": _planted(settings=dict(other),
                                     fails={"written": [BmcError(BmcErrorReason.TIMEOUT,
                                                                 "no answer", None)]}),
        "busy": replace(_planted(settings=dict(other)), busy="a job is on it"),
        "power-stays-off": _planted(on=PowerState.OFF, stays=True),
        "no-system": replace(_planted(), answers=lambda controller: False),
        "not-reached": replace(_planted(), shows=None),
        "worn-in": replace(_planted(), later={"burnin": trouble("GPU 3 is slow", Owner.VENDOR)}),
        **{f"shows-{fault}": replace(_planted(), shows=fault) for fault in (
            "cable-out", "dimm-lost", "gpu-lost", "ecc-off", "row-remap-failed", "nvlink-down",
            "nvme-given-up", "acs-on-everywhere",
            "docker-gone", "driver-wedged", "users-fault", "pcie-narrow")},
    }
    sound = ("sound", "off", "controller-sick-at-first", "gpus-not-shown", "bios-differs", "bios-differs-off",
             "bios-answer-lost", "worn-in")
    machines |= {name: replace(machines[name], shows=f"gpu{number:03d}")
                 for number, name in enumerate(sound, 1)}
    return Rack(machines, f"{BIOS}{NEVER}steps: {{checks: {{minutes: 5}}}}\nwithout: [kernel]\n")


def kernel() -> Rack:
    """The step kernel, of machines whose log holds nothing, a job's own fault, and the hardware's; no one has
    learned a baseline."""
    return Rack({"sound": Planted(), **{f"shows-{fault}": replace(Planted(), shows=fault) for fault in (
        "users-fault", "off-the-bus", "kernel-crashed-before", "dimm-uncorrected")}},
                f"{NEVER}without: [bmc, credentials, hardware, bios, boot, os, checks]\n")


def unmeasured_rack() -> Rack:
    """A site that wants the packaged profile, of which the optics are not measured: no one passes."""
    return Rack({"sound": Planted()}, f"{NEVER}steps: {{checks: {{minutes: 2}}}}\nwithout: [kernel]\n",
                profile="bringup")


def installed() -> Rack:
    """A site that installs over the network: empty machines, on and off, one with a system, one that no
    installer answers."""
    def by_installer(controller: Scripted) -> bool:
        return "boot pxe" in controller.operations and controller.operations[-1] == "on"

    return Rack({
        "empty": replace(_planted(), answers=by_installer),
        "empty-off": replace(_planted(on=PowerState.OFF), answers=by_installer),
        "has-a-system": Planted(), "no-installer": replace(_planted(), answers=lambda controller: False),
        "boots-from-disk-only": replace(_planted(override=BootOverride(BootTarget.NONE, False,
                                                                       (BootTarget.NONE, BootTarget.DISK))),
                                        answers=by_installer),
    }, f"{NEVER}boot: {{target: pxe}}\nwithout: [checks, kernel]\n")


def refusing() -> Rack:
    """So many controllers refuse the login that the run stops at that step, by the bounds of the packaged
    policy."""
    return Rack({f"refusing-{number}": _fails(identity=BmcError(BmcErrorReason.CREDENTIALS, "401"))
                 for number in range(1, 7)}
                | {f"sound-{number}": Planted() for number in range(1, 5)}, "without: [checks, kernel]\n",
                one_user=True)


RACKS: Mapping[str, Callable[[], Rack]] = {"rack": rack, "kernel": kernel, "unmeasured": unmeasured_rack,
                                           "installed": installed, "refusing": refusing}


class Clock:
    """Goes on when a run has nothing to do."""

    def __init__(self) -> None:
        self.now = 1000.0

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Recorded:
    """A transport by which each machine shows its recorded node, ten minutes later each time."""

    def __init__(self, machines: Mapping[str, Planted], nodes: Mapping[str, Recording]) -> None:
        self._machines, self._nodes = machines, nodes
        self._times = dict.fromkeys(machines, 0)

    def run(self, nodes: Sequence[Node], program: Program, limits: Limits) -> Iterator[Reply]:
        for node in nodes:
            yield Reply(node.name, b"", None, 0.0, 0.0)

    def decode(self, reply: Reply, limit: int = 0) -> Recording:
        name = reply.node
        shows = self._machines[name].shows
        if shows is None:
            return Recording(name, _NOW, None, Failure(Stage.CONNECT, "connection refused"))
        self._times[name] += 1
        seen = self._nodes[shows]
        return replace(at(seen, seen.received + self._times[name] * BETWEEN_S), node=name)


def brought_up(of: Rack, home: Path, transport: Recorded) -> BringupOutcome:
    """A run over the machines; its store and inventory are in `home`."""
    (home / "rules/profile").mkdir(parents=True)
    (home / "rules/bringup.yaml").write_text(f"{of.policy}checks: {{profile: {of.profile}}}\n")
    (home / "rules/profile/ours.yaml").write_text(PROFILE)
    (home / "muster.yaml").write_text(
        "version: 1\ndefaults: {sku: dgx-h100, lifecycle: bringup, rack: r12}\nnodes:\n" + "".join(
            f"  {name}: {{address: 192.0.2.{number + 1}, bmc: {{address: 198.51.100.{number + 1}, user: "
            f"u{number * (not of.one_user)}}}, power: pdu{number // 8}}}\n"
            for number, name in enumerate(of.machines)))
    for name, planted in of.machines.items():
        planted.controller.node = name
        if planted.controller.who == IDENTITY:
            planted.controller.who = replace(IDENTITY, serial=f"SN-{name}", uuid=f"uuid-{name}")
    policy = load([packaged(), home / "rules"])
    rules = load_ruleset([packaged(), home / "rules"])
    inventory = load_inventory(home / "muster.yaml", rules.skus, rules.profiles)
    context = StepContext(home / "state", home / "muster.yaml", inventory, rules,
                          (packaged(), home / "rules"), lambda: transport, "somebody")
    clock = Clock()
    site = RunContext(home / "state", "somebody", clock.time, clock.sleep,
                      lambda machine: of.machines[machine.name].busy)
    return run(site, [inventory.nodes[name] for name in of.machines], _steps_of(of.machines, context, policy),
               policy, lambda event: None)


def _steps_of(machines: Mapping[str, Planted], context: StepContext,
              policy: BringupPolicy) -> dict[str, Executor]:
    step = policy.steps

    def controllers(node: Node) -> Scripted:
        return machines[node.name].controller(node)

    def proof(node: Node) -> OsReport:
        planted = machines[node.name]
        return ALIVE if planted.answers(planted.controller) else DEAD

    def sku_of(node: Node) -> Sku | None:
        return SKU

    def planted_at(name: str) -> Callable[[Machine], Observation]:
        return lambda machine: machines[machine.name].later.get(name, Observation(StepState.SO, "so"))

    twins = {name: Other({"serial": planted.controller.who.serial})
             for name, planted in machines.items() if name.startswith("twin")}
    found: tuple[Executor, ...] = (
        BmcReachable(step["bmc"], controllers), Credentials(step["credentials"], controllers, policy, sku_of),
        HardwareAsOrdered(step["hardware"], controllers, policy, sku_of,
                          Duplicates(lambda: twins, None, context.inventory.nodes)),
        BiosAsDesired(step["bios"], controllers, policy, sku_of),
        BootFrom(step["boot"], controllers, policy, others(), proof),
        OsInstalled(step["os"], controllers, policy, others(), proof),
        Checks(step["checks"], context, policy.checks.profile, policy.checks.snapshots,
               policy.checks.between_s),
        Kernel(step["kernel"], context, policy.checks.profile),
    )
    real = {executor.step.name: executor for executor in found}
    return {name: real.get(name) or Acts(replace(step[name], together=False), planted_at(name))
            for name in ORDER}
