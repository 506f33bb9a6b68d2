"""The systems of the rack for sushy-tools' emulator: its fake driver, to which power that changes at once and
BIOS settings are added.

From the emulator's fake driver come names, UUIDs, boot device and mode, secure boot and virtual media. Ours
is: each request sees only the machine at whose door it came in; a power change takes a fraction of a second
and shows as PoweringOn or PoweringOff meanwhile (Redfish DSP0268, ComputerSystem.PowerState); BIOS settings,
which wait beside the current ones (DSP0266 section 9.10, Settings resource) until the machine was powered on
and has passed its POST; a boot override that is spent by one boot.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import flask
from sushy_tools import error  # type: ignore[import-untyped]
from sushy_tools.emulator.resources.systems.fakedriver import FakeDriver  # type: ignore[import-untyped]

from tests.testbed.bmc.machine import BIOS, Machine, Wrong

HERE = "rack.machine"       # in a request's environment: at whose door it came in
_OFF = ("ForceOff", "GracefulShutdown")
_AGAIN = ("ForceRestart", "GracefulRestart", "PowerCycle")


class Rack(FakeDriver):  # type: ignore[misc]
    """All machines, each seen from its own door only. `told(name, on, boots)` is called when a machine's
    power has come or gone; `boots` is from what it boots now, such as Pxe, by the override that counted."""

    def __init__(self, machines: Mapping[str, Machine], power_s: float, post_s: float,
                 told: Callable[[str, bool, str], None]) -> None:
        self._machines = machines
        self._times = (power_s, post_s)
        self._told = told
        self._lock = threading.RLock()
        self._config: dict[str, Any] = {}
        self._by_name = {machine.name: machine.uuid for machine in machines.values()}
        self._systems = {
            machine.uuid: {
                "uuid": machine.uuid, "name": machine.name, "power_state": "On" if machine.on else "Off",
                "boot_device": "None", "once": False,
                "bios": {**BIOS, **machine.bios}, "pending": {}, "reset": time.time() - 86400, "post": False,
                "nics": [{"mac": mac(machine, at)} for at in range(machine.nics)],
            } for machine in machines.values()}

    @property
    def machine(self) -> Machine:
        """The machine that is asked now."""
        return self._machines[flask.request.environ[HERE]]

    @property
    def state(self) -> dict[str, Any]:
        """How that machine is."""
        state: dict[str, Any] = self._systems[self.machine.uuid]
        return state

    @property
    def systems(self) -> list[str]:
        return [self.machine.uuid]

    def _get(self, identity: str) -> dict[str, Any]:
        if identity == self.machine.name:
            raise error.AliasAccessError(self.machine.uuid)
        if identity != self.machine.uuid:
            raise error.NotFound(f"Fake system {identity} was not found")
        return self.state

    def set_power_state(self, identity: str, state: str) -> None:
        system, machine = self._get(identity), self.machine
        with self._lock:
            if state in ("On", "ForceOn"):
                self._turn(machine, system, on=True)
            elif state in _OFF:
                self._turn(machine, system, on=False)
            elif state in _AGAIN:
                self._turn(machine, system, on=False, again=True)
            else:
                raise error.BadRequest(
                    f"The value {state} for the parameter ResetType is not in the list of acceptable values.")

    def _turn(self, machine: Machine, system: dict[str, Any], *, on: bool, again: bool = False) -> None:
        if system["power_state"] == ("On" if on else "Off") and not again:
            return
        if on and machine.wrong is Wrong.NO_POWER:
            return
        system["power_state"] = "PoweringOn" if on else "PoweringOff"
        if not on:
            self._told(machine.name, False, "")
        _later(self._times[0], self._turned, machine, system, on, again)

    def _turned(self, machine: Machine, system: dict[str, Any], on: bool, again: bool) -> None:
        with self._lock:
            if system["power_state"] != ("PoweringOn" if on else "PoweringOff"):
                return      # told otherwise meanwhile
            system["power_state"] = "On" if on else "Off"
            if on:
                system.update(reset=time.time(), post=True)
                _later(self._times[1], self._posted, machine, system, system["reset"])
            elif again:
                self._turn(machine, system, on=True)

    def _posted(self, machine: Machine, system: dict[str, Any], reset: float) -> None:
        with self._lock:
            if system["power_state"] != "On" or system["reset"] != reset:
                return
            system["post"] = False
            boots = system["boot_device"]
            if machine.wrong is not Wrong.BIOS_IGNORED:
                system["bios"].update(system["pending"])
            system["pending"] = {}
            if system["once"]:
                system.update(boot_device="None", once=False)
        if machine.wrong is not Wrong.NO_OS:
            self._told(machine.name, True, boots)

    def set_boot_device(self, identity: str, boot_source: str) -> None:
        if boot_source not in ("None", "Pxe", "Cd", "Hdd", "BiosSetup"):
            raise error.BadRequest(
                f"The value {boot_source} for BootSourceOverrideTarget is not in the list of "
                f"acceptable values.")
        once = flask.request.json["Boot"].get("BootSourceOverrideEnabled", "Once") == "Once"
        self._get(identity).update(boot_device=boot_source, once=once)

    def get_bios(self, identity: str) -> dict[str, Any]:
        bios: dict[str, Any] = self._get(identity)["bios"]
        return bios

    def pending(self, identity: str) -> dict[str, Any]:
        """The settings as they will be after the next power on."""
        with self._lock:
            return {**self.get_bios(identity), **self._get(identity)["pending"]}

    def set_bios(self, identity: str, attributes: Mapping[str, Any]) -> None:
        system = self._get(identity)
        if self.machine.wrong is Wrong.BIOS_REFUSED:
            raise error.BadRequest("The BIOS configuration is locked by the system's administrator.")
        for name, value in attributes.items():
            if name not in system["bios"]:
                raise error.BadRequest(
                    f"The property {name} is not in the list of valid properties for the resource.")
            if type(value) is not type(system["bios"][name]):
                raise error.BadRequest(
                    f"The value for the property {name} is of a different type than the property can accept.")
        with self._lock:
            system["pending"].update(attributes)

    def get_versions(self, identity: str) -> dict[str, str]:
        self._get(identity)
        return {"BiosVersion": self.machine.bios_version}

    def get_processors(self, identity: str) -> list[dict[str, str]]:
        self._get(identity)
        return [{"id": f"CPU{at}"} for at in range(self.machine.cpus)] + [{"id": f"GPU{at}"}
                                                                          for at in gpus(self.machine)]

    def get_total_memory(self, identity: str) -> int:
        self._get(identity)
        return 64 * self.machine.dimms

    def get_total_cpus(self, identity: str) -> int:
        self._get(identity)
        return self.machine.cpus


def gpus(machine: Machine) -> list[int]:
    """The numbers of the GPUs that show."""
    return [at for at in range(machine.gpus) if machine.wrong is not Wrong.GPU_MISSING
            or at != machine.gpus // 2]


def mac(machine: Machine, at: int) -> str:
    """The hardware address of a network interface."""
    digits = f"02{machine.uuid[:8]}{at:02x}"
    return ":".join(digits[pair:pair + 2] for pair in range(0, 12, 2))


def _later(seconds: float, call: Callable[..., None], *words: object) -> None:
    timer = threading.Timer(seconds, call, words)
    timer.daemon = True
    timer.start()
