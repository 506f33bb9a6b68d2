"""The steps up to the system with real controllers: an emulator over TLS, and ipmi_sim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.store import bringups
from healthcheck.store.file import opened
from inventory.model import Bmc, Lifecycle, LifecycleState, Node, Secret, SecretFrom, Speaks
from provisioning.bmc import pins
from provisioning.bmc.base import Controller
from provisioning.bmc.connect import controller
from provisioning.bringup.engine.model import Executor
from provisioning.bringup.engine.run import run
from provisioning.bringup.engine.site import BringupOutcome, RunContext
from provisioning.bringup.policy.model import DesiredBios, Machines, MissingAttribute, Parts, PowerTimes
from provisioning.bringup.steps.bios import BiosAsDesired
from provisioning.bringup.steps.bmc import BmcReachable
from provisioning.bringup.steps.credentials import Credentials
from provisioning.bringup.steps.duplicates import Duplicates, Other
from provisioning.bringup.steps.hardware import HardwareAsOrdered
from provisioning.bringup.steps.os import OsInstalled
from provisioning.osinstall.base import OsReport
from tests.provisioning.bringup.controllers import POLICY, SKU
from tests.provisioning.bringup.proofs import ALIVE, DEAD, others
from tests.provisioning.bringup.scripted import Plan, Stop
from tests.testbed import ipmisim
from tests.testbed.bmcs import Bed, Machine, Wrong, rack, require_rack
from tests.testbed.planted import private

_NUMBERS = {
    "gpu_count": 8, "dimm_count": 4, "nvme_count": 2, "port_count": 2, "memory_gib": 256, "cpu_count": 224}
_TROUBLES = {
    "well": None, "off": None, "lossy": Wrong.LOSES_ANSWERS, "nobody": Wrong.NO_ONE,
    "other": Wrong.CERTIFICATE, "locked": Wrong.PASSWORD, "gpu": Wrong.GPU_MISSING, "psu": Wrong.PSU_FAILED,
    "drive": Wrong.DRIVE_CRITICAL, "refuses": Wrong.BIOS_REFUSED, "ignores": Wrong.BIOS_IGNORED,
    "dark": Wrong.NO_POWER}
_ENDS = {
    "nobody": ("bmc", "datacentre", "cable"), "other": ("bmc", "operator", ""),
    "locked": ("credentials", "operator", ""), "gpu": ("hardware", "datacentre", "gpu"),
    "psu": ("hardware", "datacentre", "psu"), "drive": ("hardware", "vendor", "drive"),
    "refuses": ("bios", "operator", "node"), "ignores": ("bios", "vendor", "node"),
    "dark": ("os", "datacentre", "psu")}


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    require_rack()
    as_wished = {"ProcTurboMode": "Enabled"}
    machines = [
        Machine(name, wrong, on=name not in ("off", "dark"),
                bios=as_wished if name in ("off", "dark") else {}) for name, wrong in _TROUBLES.items()]
    with rack(tmp_path / "rack", machines) as started:
        yield started


def brought(folder: Path, bed: Bed) -> BringupOutcome:
    secret = private(folder / "password", bed.password)
    nodes = [Node(name, rack="r1", lifecycle=Lifecycle(LifecycleState.BRINGUP),
                  bmc=Bmc(bed.address(name), bed.user, bed.port,
                          secret=Secret(SecretFrom.FILE, (str(secret),)))) for name in _TROUBLES]
    policy = replace(POLICY, power=PowerTimes(8, 5, 5), parts=Parts(POLICY.parts.may_be_empty, 7, 2),
                     bios=(DesiredBios("turbo", Machines("Contoso"), {"ProcTurboMode": "Enabled"},
                                       MissingAttribute.TROUBLE, "a test's"),))
    step = {name: replace(one, seconds=5 if name == "bmc" else 60) for name, one in POLICY.steps.items()}
    sku = replace(SKU, numbers=_NUMBERS)

    def controllers(node: Node) -> Controller:
        return controller(node, folder=folder, seconds=5)

    def proof(node: Node) -> OsReport:
        """As the machine's system would give it: when it has power."""
        return ALIVE if bed.counts(node.name)["on"] and node.name != "dark" else DEAD

    executors: tuple[Executor, ...] = (
        BmcReachable(step["bmc"], controllers),
        Credentials(step["credentials"], controllers, policy, lambda node: sku),
        HardwareAsOrdered(
            step["hardware"], controllers, policy, lambda node: sku, Duplicates(dict[str, Other])),
        BiosAsDesired(step["bios"], controllers, policy, lambda node: sku),
        OsInstalled(step["os"], controllers, policy, others(), proof))
    return run(RunContext(folder, "somebody"), nodes, {one.step.name: one for one in executors},
               Plan({one.step.name: one.step for one in executors}, grace_s=1, stop=Stop(1, 1000, 1000)),
               lambda event: None)


def test_each_machine_of_a_rack_ends_in_its_step_with_its_owner_and_is_changed_once(
    tmp_path: Path, bed: Bed,
) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    pins.write(folder, bed.fingerprints, {})
    outcome = brought(folder, bed)
    with opened(folder) as store:
        ends = {line.node: (line.step, line.owner, line.part) for line in bringups.troubles(store)}
        kept = {row.node: row.kept for row in bringups.progress(store)}
    assert ends == _ENDS and sorted(outcome.done) == ["lossy", "off", "well"]
    assert kept["well"]["serial"] == bed.machines["well"].number
    counts = {name: bed.counts(name) for name in _TROUBLES}
    for name in ("well", "lossy", "ignores"):
        assert (counts[name]["bios"], counts[name]["off"], counts[name]["on"]) == (1, 1, 1), name
    for name in ("off", "dark"):
        assert (counts[name]["bios"], counts[name]["off"], counts[name]["on"]) == (0, 0, 1), name
    for name in ("gpu", "psu", "drive", "locked", "other", "refuses"):
        assert (counts[name]["bios"], counts[name]["off"], counts[name]["on"]) == (0, 0, 0), name
    assert counts["locked"]["401"] == 1
    assert not any(
        bed.password.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file()
        and path.name != "password")


def test_a_machine_whose_controller_speaks_ipmi_goes_the_same_way_and_says_what_it_cannot_tell(
    tmp_path: Path,
) -> None:
    ipmisim.require_ipmi()
    secret = private(tmp_path / "password", ipmisim.PASSWORD)
    folder = tmp_path / "state"
    folder.mkdir()
    with ipmisim.ipmi_sim(tmp_path / "sim") as sim:
        (sim.folder / "power").write_text("0\n")
        node = Node("old1", rack="r1", lifecycle=Lifecycle(LifecycleState.BRINGUP), bmc=Bmc(
            sim.address, ipmisim.USER, sim.port, Speaks.IPMI, Secret(SecretFrom.FILE, (str(secret),))))

        def controllers(node: Node) -> Controller:
            return controller(node, folder=folder, seconds=20)

        def proof(node: Node) -> OsReport:
            return ALIVE if sim.has_power() else DEAD

        step, sku = POLICY.steps, replace(SKU, numbers=_NUMBERS)
        executors: tuple[Executor, ...] = (
            BmcReachable(step["bmc"], controllers),
            Credentials(step["credentials"], controllers, POLICY, lambda node: sku),
            HardwareAsOrdered(
                step["hardware"], controllers, POLICY, lambda node: sku, Duplicates(dict[str, Other])),
            BiosAsDesired(step["bios"], controllers, POLICY, lambda node: sku),
            OsInstalled(step["os"], controllers, POLICY, others(), proof))
        message: dict[str, str] = {}

        def brought_up() -> BringupOutcome:
            return run(
                RunContext(folder, "somebody"), [node], {one.step.name: one for one in executors},
                Plan({one.step.name: one.step for one in executors}),
                lambda event: message.update({event.step: event.message}) if event.stand == "so" else None)

        # Its second supply has no input: the sensor says so, and the log.
        assert brought_up().trouble == ("old1",) and not sim.changes
        with opened(folder) as store:
            assert [(line.step, line.owner, line.part, line.slot) for line in bringups.troubles(store)] == [
                ("hardware", "datacentre", "psu", "PSU2"), ("hardware", "datacentre", "psu", "")]
            assert "numbers of parts" in bringups.progress(store)[0].kept["hardware"]
            bringups.skip(store, ["old1"], "hardware", "somebody", "its supply comes on Monday", 0.0,
                          order=[one.step.name for one in executors])
        assert brought_up().done == ("old1",) and sim.changes == ["set power 1"]
        assert (message["bios"] == "no setting is wanted for" and ipmisim.SERIAL in message["credentials"]
                and message["os"] == f"installed: {ALIVE.message}")
