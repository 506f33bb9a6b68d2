"""A real IPMI 2.0 controller: OpenIPMI's ipmi_sim with a chassis program, an event log, sensors and FRU
records.

Its limits, which are its own: boot flags keep the device and neither their valid bit nor how long they last;
there is no cipher suite but 3, and no list of them; an account may do what it asks to do, whatever it was
given; events have no date. A mistake in its command file leaves the port closed without a word, so whoever
starts one waits for an answer.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.planted import executable
from tests.testbed.ports import free_port
from tests.testbed.require import require
from tests.testbed.sshd import wait_until

USER, PASSWORD = "admin", "planted-Ipmi#7"
SERIAL, MODEL, VENDOR, PSU_SERIAL = "SIM0042", "HGX test bed", "Muster Works", "PSU-77-1"
_PING = bytes((6, 0, 0xFF, 6, 0, 0, 0x11, 0xBE, 0x80, 0, 0, 0))

_CHASSIS = """#!/bin/sh
# Keeps power and boot in files; what is asked goes to `asked`.
cd "$(dirname "$0")" || exit 1
echo "$*" >> asked
op=$1; shift
while [ $# -gt 0 ]; do
    case $op:$1 in
        get:power|get:boot) echo "$1:$(cat $1)"; shift ;;
        set:power|set:boot) echo "$2" > $1; shift 2 ;;
        set:shutdown) echo 0 > power; shift 2 ;;
        *) exit 1 ;;
    esac
done
"""


def require_ipmi() -> None:
    """What `ipmi_sim` below and those who ask it need."""
    require(all(map(shutil.which, ("ipmi_sim", "ipmitool"))),
            "no ipmi_sim or no ipmitool on this machine: apt-get install -y openipmi "
                                                             "ipmitool")


@dataclass
class IpmiSim:
    """One controller. Its machine's power is the file `power` (0 or 1), its boot device `boot`; `asked` is
    what the chassis was told."""

    folder: Path
    address: str
    port: int
    process: subprocess.Popen[bytes]

    def has_power(self) -> bool:
        """Whether the machine has power."""
        return (self.folder / "power").read_text().strip() == "1"

    @property
    def changes(self) -> list[str]:
        """What the chassis was told to do, oldest first."""
        lines = (self.folder / "asked").read_text().splitlines() if (self.folder / "asked").exists() else []
        return [line for line in lines if line.startswith("set ")]

    def answers(self) -> bool:
        """Whether it answers a presence ping."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
            link.settimeout(0.2)
            link.connect((self.address, self.port))
            with contextlib.suppress(OSError):
                link.send(_PING)
                return bool(link.recv(64))
        return False

    def kill(self) -> None:
        """Ends it at once: the port refuses from now on."""
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def ipmi_sim(folder: Path, address: str = "127.0.0.1", port: int | None = None, *, serial: str = SERIAL,
             records: bool = True,
             console: str = "") -> Iterator[IpmiSim]:
    """A controller at the address, with a machine that has no power; without `records` its repository of
    sensors is empty. `console` is where the machine's serial port is, as tcp:ADDRESS:PORT. Stopped whatever
    happens."""
    folder.mkdir(exist_ok=True)
    (folder / "state").mkdir(exist_ok=True)
    (folder / "power").write_text("0\n")
    (folder / "boot").write_text("none\n")
    chassis = executable(folder / "chassis", _CHASSIS)
    taken = port if port is not None else free_port(address, socket.SOCK_DGRAM)
    (folder / "lan.conf").write_text(_configuration(chassis, address, taken, console))
    (folder / "emu.cmd").write_text(_commands(serial, records))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(["ipmi_sim", "-c", str(folder / "lan.conf"), "-f", str(folder / "emu.cmd"),
                                    "-s", str(folder / "state"),
                                    "-n"], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    sim = IpmiSim(folder, address, taken, process)
    try:
        wait_until(lambda: process.poll() is None and sim.answers(), 20,
                   f"an answer of ipmi_sim; its log: {(folder / 'log').read_text()}")
        yield sim
    finally:
        process.kill()
        process.wait()


def _configuration(chassis: Path, address: str, port: int, console: str) -> str:
    levels = "\n".join(f"    allowed_auths_{level} none md2 md5 straight"
                       for level in ("callback", "user", "operator", "admin"))
    return f"""name "muster"
set_working_mc 0x20
  startlan 1
    addr {address} {port}
    priv_limit admin
{levels}
    guid a123456789abcdefa123456789abcdef
  endlan
{f'  sol "{console}" 115200' if console else ''}
  chassis_control "{chassis}"
  user 1 false "" "" user 10 none
  user 2 true "{USER}" "{PASSWORD}" admin 10 none md2 md5 straight
"""


def _commands(serial: str, records: bool) -> str:
    """A temperature at 35 C whose critical limit is 90, a fan at 4700 RPM, two power supplies of which the
    second has no input, a FRU record of the machine and one of the first supply, and three events."""
    temperature = _sdr_full(1, 1, 7, 1, "CPU Temp")
    fan = _sdr_full(2, 4, 29, 1, "FAN1", unit=18, m=50)
    supplies = [_sdr_compact(number, 8, 10, number - 2, f"PSU{number - 2} Status") for number in (3, 4)]
    located = _sdr_located(1, 10, 1, "PSU1 FRU")
    lines = [
        "mc_setbmc 0x20",
        "mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02",
        "sel_enable 0x20 1000 0x0a",
        f"mc_add_fru_data 0x20 0 256 data {_bytes(_fru(256, VENDOR, MODEL, serial))}",
        f"mc_add_fru_data 0x20 1 256 data {_bytes(_fru(256, 'Delta', 'DPS-3000', PSU_SERIAL))}",
        *(f"main_sdr_add 0x20 {_bytes(record)}"
          for record in (temperature, fan, *supplies, located) if records),
        "sensor_add 0x20 0 1 0x01 0x01", "sensor_set_threshold 0x20 0 1 settable 111000 100 90 80 0 0 0",
        "sensor_set_value 0x20 0 1 35 0",
        "sensor_add 0x20 0 2 0x04 0x01", "sensor_set_threshold 0x20 0 2 settable 111000 255 254 253 0 0 0",
        "sensor_set_value 0x20 0 2 94 0",
        "sensor_add 0x20 0 3 0x08 0x6f", "sensor_set_bit 0x20 0 3 0 1 0",
        "sensor_add 0x20 0 4 0x08 0x6f", "sensor_set_bit 0x20 0 4 0 1 0", "sensor_set_bit 0x20 0 4 3 1 0",
        # Power supply 2 lost its input; a correctable error that was taken back: asserted, and then not (bit
        # 7 of the event's direction).
        f"sel_add 0x20 2 {_bytes(_event(8, 4, 0x6F, 3))}",
        f"sel_add 0x20 2 {_bytes(_event(12, 9, 0x6F, 0))}",
        f"sel_add 0x20 2 {_bytes(_event(12, 9, 0xEF, 0))}",
        "mc_enable 0x20",
    ]
    return "\n".join(lines) + "\n"


def _bytes(data: bytes) -> str:
    return " ".join(f"0x{byte:02x}" for byte in data)


def _name(text: str) -> bytes:
    return bytes((0xC0 | len(text),)) + text.encode("ascii")


def _sdr_full(number: int, kind: int, entity: int, instance: int, name: str, *, unit: int = 1,
              m: int = 1) -> bytes:
    """A full sensor record (IPMI 2.0, 43.1) of a linear, unsigned sensor with thresholds."""
    body = bytes((0x20, 0, number, entity, instance, 0x7F, 0x68, kind, 1, 0x00, 0x70, 0x00, 0x70, 0x38, 0x38,
                  0x00, unit, 0, 0, m, 0, 0, 0, 0,
                  0, 0, 0, 0, 0, 255, 0, 100, 90, 80, 0, 0, 0, 1, 1, 0, 0, 0)) + _name(name)
    return bytes((number, 0, 0x51, 1, len(body))) + body


def _sdr_compact(number: int, kind: int, entity: int, instance: int, name: str) -> bytes:
    """A compact sensor record (43.2) of a discrete sensor."""
    body = bytes((0x20, 0, number, entity, instance, 0x67, 0x40, kind, 0x6F, 0x0F, 0, 0x0F, 0, 0x0F, 0, 0xC0,
                  0, 0, 1, 0, 0, 0, 0, 0, 0,
                  0)) + _name(name)
    return bytes((number, 0, 0x51, 2, len(body))) + body


def _sdr_located(device: int, entity: int, instance: int, name: str) -> bytes:
    """Where a logical FRU record is (43.8)."""
    body = bytes((0x20, device, 0x80, 0, 0, 0x10, 0, entity, instance, 0)) + _name(name)
    return bytes((0x10, 0, 0x51, 0x11, len(body))) + body


def _event(kind: int, sensor: int, direction: int, state: int) -> bytes:
    """The 13 bytes of a system event after its record type: timestamp (of 2026), who, sensor, what."""
    return (1_790_000_000).to_bytes(4, "little") + bytes((0x20, 0, 4, kind, sensor, direction,
                                                          state, 0xFF, 0xFF))


def _fru(size: int, vendor: str, model: str, serial: str) -> bytes:
    """A FRU record with a product area (Platform Management FRU Information Storage Definition 1.0, 8 and
    12)."""
    fields = b"".join(map(_name, (vendor, model, "PN-1", "1", serial, "tag-1", ""))) + b"\xc1"
    area = bytes((1, 0, 0)) + fields
    area += bytes(-(len(area) + 1) % 8)
    area = bytes((area[0], (len(area) + 1) // 8)) + area[2:]
    head = bytes((1, 0, 0, 0, 1, 0, 0))
    return (_summed(head) + _summed(area)).ljust(size, b"\0")


def _summed(data: bytes) -> bytes:
    return data + bytes((-sum(data) & 0xFF,))
