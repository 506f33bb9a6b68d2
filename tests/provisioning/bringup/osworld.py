"""Eight machines that are files, through the real steps boot and os, with an installer that is files too:
what was done to a machine is a line of its file, with the time.

As a program (`python -m tests.provisioning.bringup.osworld FOLDER`) it brings them up once for each point of
each operation, killed there, and then to the end; each time in a folder of its own, below that one.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from healthcheck.config.rulesfolder import packaged
from inventory.model import Bmc, Lifecycle, LifecycleState, Node
from provisioning.bmc.base import BootOverride, BootTarget, EarlierChange, PowerAction, PowerState
from provisioning.bringup.engine.run import run
from provisioning.bringup.engine.site import BringupOutcome, RunContext
from provisioning.bringup.policy.load import load
from provisioning.bringup.steps.boot import BootFrom
from provisioning.bringup.steps.os import OsInstalled
from provisioning.osinstall.base import OsReport, OsState
from tests.provisioning.bringup.scripted import Died, Plan

NUMBER = 8
NAMES = [f"n{number:02}" for number in range(NUMBER)]
# As a run finds them: on with nothing on their disks, installed already, and off.
ON, HAS_A_SYSTEM = NAMES[::4], NAMES[1::8]
_INSTALL_S, _SHOWS_S, _RUN_S = 200.0, 30.0, 100_000.0
_HUNG_S = 60.0
POLICY = load([packaged()])


@dataclass
class Clock:
    """Time goes on when a run has nothing to do, and for as long as a person would not wait."""

    now: float
    end: float
    began: float = 0.0

    def __post_init__(self) -> None:
        self.began = self.now

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.5)
        assert self.now < self.end, "the run does not end"


@dataclass
class World:
    """All of it; `died` ends the process at a point."""

    folder: Path
    clock: Clock
    died: Died

    def lines(self, name: str) -> list[tuple[str, float]]:
        path = self.folder / name
        return [(key, float(when)) for key, when in (
            line.split() for line in path.read_text().splitlines())] if path.exists() else []

    def make(self, name: str, key: str) -> None:
        """Before the effect, after it, and when the answer is there: it may be killed at each."""
        self.died.point()
        with (self.folder / name).open("a") as file:
            file.write(f"{key} {self.clock.now}\n")
            file.flush()
            self.died.point()
        self.died.point()

    def last(self, name: str, *keys: str) -> tuple[str, float]:
        return next(((key, when) for key, when in reversed(self.lines(name)) if key in keys), ("", 0.0))


@dataclass
class FileController:
    """A machine's controller; of it only what the two steps need."""

    world: World
    name: str

    def power(self) -> PowerState:
        key, _ = self.world.last(self.name, "on", "off")
        return PowerState.ON if key == "on" or (not key
                                                and self.name in (*ON, *HAS_A_SYSTEM)) else PowerState.OFF

    def earlier(self) -> tuple[EarlierChange, ...]:
        return ()

    def set_power(self, action: PowerAction) -> str:
        self.world.make(self.name, action.value)
        return ""

    def boot(self) -> BootOverride:
        keys = [key for key, _ in self.world.lines(self.name)]
        sent = "pxe" in keys and "on" not in keys[keys.index("pxe"):]
        return BootOverride(BootTarget.PXE if sent else BootTarget.NONE, sent)

    def set_boot(self, target: BootTarget, once: bool) -> str:
        self.world.make(self.name, target.value)
        return ""

    def close(self) -> None:
        pass


@dataclass
class FileInstaller:
    """Installs a machine that it was asked to and that booted over the network afterwards."""

    world: World
    name: str = "files"
    target: BootTarget = BootTarget.PXE
    drives_power: bool = False

    def state(self, node: Node) -> OsReport:
        if node.name in HAS_A_SYSTEM:
            return OsReport(OsState.INSTALLED, "is deployed", "jammy", ("ssh-ed25519 AAAA",))
        keys = [key for key, _ in self.world.lines(node.name)]
        # What it was asked shows a while later, also to a run that comes after one that was killed.
        if "install" not in keys or self._lately(node):
            return OsReport(OsState.PLANNED, "is ready")
        if "on" not in keys[keys.index("install"):] or (
            self.world.clock.now < self.world.last(node.name, "on")[1] + _INSTALL_S):
            return OsReport(OsState.INSTALLING, "is deploying")
        return OsReport(OsState.INSTALLED, "is deployed", "jammy", ("ssh-ed25519 AAAA",))

    def _lately(self, node: Node) -> bool:
        _, asked = self.world.last(node.name, "install")
        own = self.world.clock.now < asked + _SHOWS_S
        return (own or (asked < self.world.clock.began <= self.world.clock.now
                        < self.world.clock.began + _SHOWS_S))

    def changes(self, node: Node) -> tuple[str, ...]:
        return (f"deploy {node.name}",)

    def install(self, node: Node) -> None:
        self.world.make(node.name, "install")


def bring_up(folder: Path, turn: int, at: int = 0) -> BringupOutcome:
    """The `turn`-th run in this folder, long after the last; killed at that point, of all it passes."""
    (folder / "world").mkdir(parents=True, exist_ok=True)
    clock = Clock(1000.0 + turn * _RUN_S, 1000.0 + (turn + 1) * _RUN_S)
    world = World(folder / "world", clock, Died(at))
    installer = FileInstaller(world)
    policy = replace(POLICY, power=replace(POLICY.power, answer_s=_HUNG_S))

    def controllers(node: Node) -> FileController:
        return FileController(world, node.name)

    executors = {
        "boot": BootFrom(POLICY.steps["boot"], controllers, policy, installer,
                         installer.state),  # type: ignore[arg-type]
        "os": OsInstalled(POLICY.steps["os"], controllers, policy, installer,
                          installer.state)}  # type: ignore[arg-type]
    nodes = [Node(name, rack="r1", power=f"pdu{at // 4}", lifecycle=Lifecycle(LifecycleState.BRINGUP),
                  bmc=Bmc("192.0.2.1"))
             for at, name in enumerate(NAMES)]
    return run(RunContext(folder / "state", "somebody", clock.time, clock.sleep), nodes, executors,
               Plan({name: one.step for name, one in executors.items()}, width=16), lambda event: None)


def forked(folder: Path, turn: int, at: int = 0) -> int:
    """The same in a process of its own: its exit code, or less the signal that ended it."""
    pid = os.fork()
    if not pid:
        os._exit(bring_up(folder, turn, at).exit_code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed_at_each(folder: Path, step: int) -> Iterator[tuple[int, int]]:
    """Each `step`-th point with the exit code of the run that ended what one had begun that was killed there;
    ends with the first point that no run comes to."""
    for at in count(1, step):
        own = folder / str(at)
        if forked(own, 0, at) != -signal.SIGKILL:
            return
        yield at, forked(own, 1)


if __name__ == "__main__":
    for at, code in killed_at_each(Path(sys.argv[1]), int(sys.argv[2])):
        print(at, code, flush=True)
