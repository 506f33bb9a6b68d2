"""The steps up to the system with ipmi_sim; test_sixtyfour.py has them with controllers of Redfish."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from healthcheck.store import bringups
from healthcheck.store.file import opened
from inventory.model import Bmc, Lifecycle, LifecycleState, Node, Secret, SecretFrom, Speaks
from provisioning.bmc.base import Controller
from provisioning.bmc.connect import controller
from provisioning.bringup.engine.model import Executor
from provisioning.bringup.engine.run import run
from provisioning.bringup.engine.site import BringupOutcome, RunContext
from provisioning.bringup.steps.bios import BiosAsDesired
from provisioning.bringup.steps.bmc import BmcReachable
from provisioning.bringup.steps.credentials import Credentials
from provisioning.bringup.steps.duplicates import Duplicates, Other
from provisioning.bringup.steps.hardware import HardwareAsOrdered
from provisioning.bringup.steps.os import OsInstalled
from provisioning.osinstall.base import OsReport
from tests.provisioning.bringup.controllers import POLICY, SKU
from tests.provisioning.bringup.proofs import ALIVE, DEAD, others
from tests.provisioning.bringup.scripted import Plan
from tests.testbed import ipmisim
from tests.testbed.planted import private

_NUMBERS = {
    "gpu_count": 8, "dimm_count": 4, "nvme_count": 2, "port_count": 2, "memory_gib": 256, "cpu_count": 224}


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
