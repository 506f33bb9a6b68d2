"""A machine that is a folder: its power, its boot and how often it was restarted; and a run of step soak over
it.

The run's process dies at a point of an operation, where one is given. What a boot shows stands in
`shows.json`, by the number of the boot.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from inventory.model import Bmc, Lifecycle, LifecycleState, Node
from provisioning.bmc.base import PowerAction, PowerState
from provisioning.bringup.engine.model import BringupStep, Machine
from provisioning.bringup.engine.run import run
from provisioning.bringup.engine.site import BringupOutcome, RunContext
from provisioning.bringup.policy.model import DesiredSoak, PowerTimes
from provisioning.bringup.steps.soak import Soak
from provisioning.bringup.steps.soakboots import BootTimes, Judged
from provisioning.soak.record import BootRecord
from provisioning.soak.send import BootReading
from tests.provisioning.bringup.controllers import Scripted
from tests.provisioning.bringup.scripted import Acts, Died, Plan, step

NAME = "n1"
BOOT_S = 0.15           # how long it takes to come up
DESIRED = DesiredSoak(cold=2, warm=2, off_s=0.05, boot_s=20.0, settle_s=0.0, slow=1.5, slow_s=60.0)
POWER = PowerTimes(off_s=1.0, on_s=1.0, bios_s=1.0)
WELL: dict[str, Any] = {
    "parts": {"gpu 0000:18:00.0": "G1", "gpu 0000:2a:00.0": "G2", "nvme nvme0": "N1"},
    "whole": ["gpu", "nvme"],
    "pci": {"0000:18:00.0": ["0x030200", "0x10de", "0x2330", "16", "2.5 GT/s PCIe"],
            "0000:3b:00.0": ["0x020700", "0x15b3", "0x1021", "16", "32.0 GT/s PCIe"]},
    "memory": 1_000_000, "cpus": 8,
    "rules": {"gpu-count": ["pass", "vendor", ""], "mounts": ["pass", "operator", ""]},
    "forms": {}, "log": True}
NODE = Node(NAME, "192.0.2.1", lifecycle=Lifecycle(LifecycleState.BRINGUP), power="pdu-a", rack="r7",
            bmc=Bmc("192.0.2.9", user="admin"))


@dataclass
class World:
    """`folder` has `power`, `boot` (its number), `up` (when that began) and `restarts`, a line for each."""

    folder: Path
    died: Died

    def _text(self, name: str, otherwise: str) -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else otherwise

    @property
    def boot(self) -> int:
        return int(self._text("boot", "0"))

    @property
    def restarts(self) -> list[str]:
        return self._text("restarts", "").split()

    @property
    def on(self) -> bool:
        return self._text("power", "on") == "on"

    def _starts(self, how: str) -> None:
        if (self.folder / "never").exists():
            (self.folder / "dead").touch()
        (self.folder / "up").write_text(str(time.time() + BOOT_S))
        (self.folder / "boot").write_text(str(self.boot + 1))
        with (self.folder / "restarts").open("a") as file:
            file.write(f"{how}\n")

    def turn(self, action: PowerAction) -> None:
        self.died.point()
        if action is PowerAction.ON and not self.on:
            self._starts("cold")
        (self.folder / "power").write_text("on" if action is PowerAction.ON else "off")
        self.died.point()

    # As `Boots`.

    def look(self, node: Node) -> BootReading:
        up = float(self._text("up", "0"))
        if not self.on or time.time() < up or (self.folder / "dead").exists():
            return BootReading(message="connect: no route to host")
        shows = self._shows(self.boot)
        return BootReading(f"boot-{self.boot}", max(0.01, time.time() - up), shows["memory"], shows["cpus"],
                        {at: tuple(values) for at, values in shows["pci"].items()})

    def restart(self, node: Node, boot: str) -> tuple[bool | None, str]:
        self.died.point()
        if boot != f"boot-{self.boot}":
            return False, "it is another boot by now"
        self._starts("warm")
        self.died.point()
        return True, "it restarts"

    def judged(self, machine: Machine, look: BootReading, boot: BootTimes) -> Judged:
        shows = self._shows(int(look.boot.removeprefix("boot-")))
        self.died.point()
        return Judged(BootRecord(
            boot.kind, look.boot, boot.restarted, boot.up, boot.answered, shows["parts"],
            tuple(shows["whole"]), look.pci,
            look.memory, look.cpus, {rule: (one[0], one[1], one[2]) for rule, one in shows["rules"].items()},
            shows["forms"],
            shows["log"]), "")

    def _shows(self, number: int) -> dict[str, Any]:
        return {**WELL, **json.loads(self._text("shows.json", "{}")).get(str(number), {})}


class PowerOfWorld(Scripted):
    world: World

    def power(self) -> PowerState:
        return PowerState.ON if self.world.on else PowerState.OFF

    def set_power(self, set_power: PowerAction) -> str:
        self.world.turn(set_power)
        return ""


def soak(folder: Path, at: int = 0, desired: DesiredSoak = DESIRED, idle: str = "") -> BringupOutcome:
    """A run, or what is left of it."""
    (folder / "world").mkdir(parents=True, exist_ok=True)
    world = World(folder / "world", Died(at))
    controller = PowerOfWorld(NAME)
    controller.world = world
    soaking = Soak(replace(step("soak"), seconds=60.0 if not idle else 0.3), folder / "state", world,
                   controller, desired, POWER, lambda node: "gx8")
    steps: dict[str, BringupStep] = {"soak": soaking.step, "service": step("service")}
    return run(RunContext(folder / "state", "ada", idle=lambda machine: idle), [NODE],
               {"soak": soaking, "service": Acts(steps["service"])},
               Plan(steps, grace_s=0.02), lambda event: None)
