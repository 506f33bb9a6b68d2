"""The forwarding tables of a fabric of which outputs lie in a folder, as dump_fts prints them: shortest ways,
by destination."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from healthcheck.subnet.model import DeviceKind, Subnet
from healthcheck.sweep.fabricoutput import saved


def write(folder: Path) -> Path:
    """Adds the file to the folder."""
    (subnet,) = (output.subnet() for output in saved(folder))
    rows: dict[str, list[str]] = {guid: []
                                  for guid, device in subnet.devices.items()
                                  if device.kind is DeviceKind.SWITCH}
    for turn, device in enumerate(one for one in subnet.devices.values() if one.kind is DeviceKind.ADAPTER):
        for port in device.ports.values():
            assert port.peer is not None and port.lid is not None
            steps = _steps(subnet, port.peer.guid)
            for switch in rows:
                nearer = [own.end.number
                          for own in subnet.devices[switch].ports.values() if own.peer is not None and (
                              own.peer == port.end if switch == port.peer.guid
                              else steps.get(own.peer.guid, len(rows)) < steps[switch])]
                rows[switch].append(
                    f"0x{port.lid:04x} {nearer[turn % len(nearer)]:03d} : (Channel Adapter portguid "
                    f"0x{port.port_guid}: 'x')")
    text = "".join(
        f"Unicast lids [0x0-0xff] of switch DR path slid 0; dlid 0; 0 guid 0x{guid} (x):\n  Lid  Out   "
        f"Destination\n"
        "       Port     Info \n" + "".join(f"{row}\n" for row in table)
        + f"{len(table)} valid lids dumped \n" for guid, table in rows.items())
    (folder / "dump_fts.txt").write_text(text)
    return folder


def _steps(subnet: Subnet, goal: str) -> dict[str, int]:
    steps, waiting = {goal: 0}, deque([goal])
    while waiting:
        at = waiting.popleft()
        for port in subnet.devices[at].ports.values():
            if (port.peer is not None and port.peer.guid not in steps
                and subnet.devices[port.peer.guid].kind is DeviceKind.SWITCH):
                steps[port.peer.guid] = steps[at] + 1
                waiting.append(port.peer.guid)
    return steps
