"""What the readers share: a reading of one tool's output, and how it is put together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from healthcheck.subnet.model import (
    CableModule,
    DeviceKind,
    FabricDevice,
    FabricEnd,
    FabricPort,
    PortCounters,
    SubnetManager,
    SubnetSensor,
)
from inventory.text import clean, many, short

# Past these an output is cut: the largest fabrics print about 60 MB of counters.
MOST_TEXT = 256 * 1024 * 1024
MOST_LINE = 4096
_MOST_UNREAD = 20
# NodeDescription has 64 bytes (InfiniBand Architecture Specification, volume 1, NodeDescription); node name
# maps may be longer.
_MOST_NAME = 128
# A lane's signalling rate in gigabits a second, as infiniband-diags prints it (libibmad/dump.c and
# libibnetdisc of rdma-core), and the name of the rate.
LANE_SPEEDS = {"2.5": "SDR", "5.0": "DDR", "10.0": "QDR", "14.0625": "FDR", "25.78125": "EDR",
               "53.125": "HDR", "106.25": "NDR", "212.5": "XDR"}
SPEED_NAMES = frozenset({*LANE_SPEEDS.values(), "FDR10"})
WIDTHS = frozenset({1, 2, 4, 8, 12})
_GUID = re.compile(r"(?:0x)?([0-9a-fA-F]{1,16})")
# Lines of the form "Name:....value" and "Name....value", which smpquery, saquery and perfquery share.
_COLON = re.compile(r"\s*([A-Za-z][\w ]{0,63}?):\.*(.*)")
_DOTS = re.compile(r"\s*([A-Za-z]\w{0,63})\.{2,}(.*)")


@dataclass(frozen=True)
class SubnetReading:
    """What one tool's output showed. Adapters stand under the GUID that the tool prints, the port's or the
    node's: `healthcheck.subnet.merge` brings them together. `managers` are those that the tool shows, with
    `all_managers` all. `manager_lids` are LIDs of ports marked as a subnet manager's (IsSM), None where not
    shown."""

    tool: str
    devices: Mapping[str, FabricDevice] = field(default_factory=lambda: MappingProxyType({}))
    # Counters of ports that the tool names by LID and port number
    by_lid: Mapping[tuple[int, int], Mapping[str, int]] = field(default_factory=lambda: MappingProxyType({}))
    managers: tuple[SubnetManager, ...] | None = None
    all_managers: bool = True
    manager_lids: frozenset[int] | None = None
    counters: PortCounters | None = None
    sensors: tuple[SubnetSensor, ...] = ()
    modules: Mapping[FabricEnd, CableModule] = field(default_factory=lambda: MappingProxyType({}))
    routes: Mapping[str, Mapping[int, int]] = field(default_factory=lambda: MappingProxyType({}))
    routes_by_lid: Mapping[int, Mapping[int, int]] = field(default_factory=lambda: MappingProxyType({}))
    unread: tuple[str, ...] = ()
    partial: bool = False
    unhealthy: Mapping[FabricEnd, frozenset[str]] | None = None
    ethernet: bool = False      # of an Ethernet fabric: it shows those ends that were asked, and no others


def guid_of(text: str) -> str | None:
    """16 hexadecimal digits in lower case of "0xa00" or "0000000000000a00"; None for no GUID, and for 0."""
    found = _GUID.fullmatch(text)
    return found[1].lower().zfill(16) if found and int(found[1], 16) else None


def name_of(text: str) -> str:
    """A description as it may be shown: one clean line."""
    return clean(text.strip(), _MOST_NAME)


def lanes(text: str) -> int | None:
    """The 4 of "4x" or "4X"; None for a width that no link has."""
    digits = text.strip().rstrip("xX")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 3 and \
        int(digits) in WIDTHS else None


def rate(text: str) -> str | None:
    """The name of a lane's rate from "53.125 Gbps", "10.0 Gbps (FDR10)" or "HDR"; None for another."""
    words = text.split()
    if not words:
        return None
    if words[-1] == "(FDR10)":
        return "FDR10"
    if len(words) == 1:
        return words[0] if words[0] in SPEED_NAMES else None
    return LANE_SPEEDS.get(words[0]) if words[1] == "Gbps" else None


class UnreadLines:
    """Lines that were not understood: the first few by number and text, the others counted."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._first: list[str] = []
        self._more = 0

    def add(self, number: int, line: str) -> None:
        """Notes a line, numbered from 1."""
        self.note(f"line {number} is not understood: {short(line[:200])}")

    def note(self, what: str) -> None:
        """Notes anything else that could not be read."""
        if len(self._first) < _MOST_UNREAD:
            self._first.append(f"{self._tool}: {what}")
        else:
            self._more += 1

    def lines(self) -> tuple[str, ...]:
        """What was noted."""
        more = (f"{self._tool}: {many(self._more, 'more line')} not understood",) if self._more else ()
        return (*self._first, *more)


def numbered(text: str) -> Iterator[tuple[int, str]]:
    """The lines that hold anything, with their numbers from 1, each at most `MOST_LINE` characters."""
    for number, line in enumerate(text[:MOST_TEXT].split("\n"), 1):
        if line and not line.isspace():
            yield number, line[:MOST_LINE].rstrip("\r")


def cut_short(text: str) -> bool:
    """Whether a tool that ends its output with a new line was cut off, by its last character."""
    return len(text) > MOST_TEXT or (text != "" and not text.endswith("\n"))


class Building:
    """Devices and ports as an output names them, bit by bit; what is given later adds to what is there."""

    def __init__(self) -> None:
        self._devices: dict[str, FabricDevice] = {}
        self._ports: dict[str, dict[int, FabricPort]] = {}

    def device(self, guid: str, kind: DeviceKind, description: str = "", system: str | None = None,
               port_count: int | None = None) -> None:
        """A device is there; what is not given stays as it was."""
        known = self._devices.get(guid)
        if known is None:
            self._devices[guid] = FabricDevice(guid, kind, description, system, port_count)
            self._ports.setdefault(guid, {})
        elif (description and description != known.description) or system or port_count is not None:
            self._devices[guid] = replace(
                known, description=description or known.description, system=system or known.system,
                port_count=port_count if port_count is not None else known.port_count)

    def port(self, port: FabricPort) -> None:
        """A port as a line shows it."""
        self._ports.setdefault(port.end.guid, {})[port.end.number] = port

    def known(self, end: FabricEnd) -> FabricPort | None:
        """A port that was shown already."""
        return self._ports.get(end.guid, {}).get(end.number)

    def finish_switches(self) -> None:
        """Takes from switches' ports the GUID that a tool repeats for each: they have none of their own."""
        for guid, device in self._devices.items():
            if device.kind is DeviceKind.SWITCH:
                self._ports[guid] = {number: replace(port, port_guid=None)
                                     for number, port in self._ports[guid].items()}

    def devices(self) -> Mapping[str, FabricDevice]:
        """Every device that was named, by GUID, with its ports."""
        return {guid: replace(device, ports=dict(sorted(self._ports[guid].items())))
                for guid, device in self._devices.items()}


def pair(line: str) -> tuple[str, str] | None:
    """The name and the value of a line with dots between them; None for another line."""
    found = _COLON.fullmatch(line) or _DOTS.fullmatch(line)
    return (found[1], found[2].strip()) if found is not None else None


def number(text: str) -> int | None:
    """A whole number, decimal or "0x1f", of at most 64 bits; None for anything else."""
    if not text.isascii() or not 0 < len(text) <= 20:
        return None
    try:
        value = int(text, 16 if text.startswith("0x") else 10)
    except ValueError:
        return None
    return value if 0 <= value < 1 << 64 else None
