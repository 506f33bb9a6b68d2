"""What a port can carry: the data rate of its link, from lanes and their speed.

Rates of a lane are those of the InfiniBand Architecture Specification (volume 2, link speeds) after the line
code: 8b/10b up to QDR, 64b/66b from FDR10 on; from HDR on the names say the data rate of a lane.
"""

from __future__ import annotations

from types import MappingProxyType

from healthcheck.subnet.model import FabricPort

# Gb/s of data of one lane, each way
LANE_GBPS = MappingProxyType({
    "SDR": 2.0, "DDR": 4.0, "QDR": 8.0, "FDR10": 10.0, "FDR": 13.64, "EDR": 25.0, "HDR": 50.0, "NDR": 100.0,
    "XDR": 200.0})


def gbps(port: FabricPort | None) -> float | None:
    """Gb/s of data that this port sends at most; None where no tool showed it."""
    if port is None:
        return None
    if port.gigabits is not None:
        return port.gigabits
    lane = LANE_GBPS.get(port.speed or "")
    return None if lane is None or port.width is None else lane * port.width
