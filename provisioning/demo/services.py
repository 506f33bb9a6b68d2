"""What a simulated node says of modules and services: /sys/module, systemctl, journalctl."""

from __future__ import annotations

from pathlib import Path

from provisioning.demo.machine import DemoMachine

UNITS = ("nvidia-fabricmanager", "nvidia-persistenced", "nvidia-imex", "nvidia-dcgm")
JOURNAL = "/.muster/fabricmanager.journal"

# What a fault changes is a file of the node: that of a service, or the journal.
_SYSTEMCTL = Path(__file__).with_name("systemctl.sh").read_text()
_JOURNALCTL = f"""\
exec cat "$MUSTER_ROOT{JOURNAL}"
"""


def install(machine: DemoMachine, kernel_modules: tuple[str, ...] = ("nvidia_peermem", "nvidia_uvm")) -> None:
    """Gives the node a driver with these modules beside it, and an HGX board's services, running."""
    for name in kernel_modules:
        machine.files[f"/sys/module/{name}/initstate"] = "live\n"
    machine.files["/proc/driver/nvidia/params"] = ("EnableMSI: 1\nEnableGpuFirmware: 18\n"
                                                   "EnableGpuFirmwareLogs: 2\n")
    for unit in UNITS:
        service(machine, unit,
                *(("inactive", "dead", False) if unit == "nvidia-imex" else ("active", "running", True)))
    lines = ("systemd[1]: Starting NVIDIA fabric manager service...",
             "nv-fabricmanager[2211]: Connected to 1 node.",
             "nv-fabricmanager[2211]: Successfully configured all the available NVSwitches to route GPU "
             "NVLink traffic.", "systemd[1]: Started NVIDIA fabric manager service.")
    machine.files[JOURNAL] = "".join(f"2026-10-12T05:41:{second:02d}+0000 {machine.name} {line}\n"
                                     for second, line in enumerate(lines, 11))
    machine.tools["systemctl"] = _SYSTEMCTL
    machine.tools["journalctl"] = _JOURNALCTL
    machine.programs.add("cat")


def service(machine: DemoMachine, unit: str, active: str, sub: str, installed: bool = True) -> None:
    """Puts one service into this state, in systemd's words."""
    machine.files[f"/.muster/{unit}.unit"] = (
        "NRestarts=0\n"
        f"Id={unit}.service\n"
        f"LoadState={'loaded' if installed else 'not-found'}\n"
        f"ActiveState={active}\n"
        f"SubState={sub}\n"
        f"ActiveEnterTimestampMonotonic={21_480_112 if active == 'active' else 0}\n")
