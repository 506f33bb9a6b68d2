"""Where each planted trouble is to end, whose hand it needs, and how often power is touched."""

from __future__ import annotations

from dataclasses import dataclass

from tests.testbed.bmcs import Wrong


@dataclass(frozen=True)
class End:
    """A machine that is through has no owner; `part` is what a punch list names."""

    step: str
    owner: str | None
    part: str = ""


THROUGH = End("service", None)
ENDS = {
    Wrong.NO_ONE: End("bmc", "datacentre", "cable"),
    Wrong.CERTIFICATE: End("bmc", "operator"),
    Wrong.SICK: End("bmc", "operator", "node"),
    Wrong.PASSWORD: End("credentials", "operator"),
    Wrong.GPU_MISSING: End("hardware", "datacentre", "gpu"),
    Wrong.PSU_FAILED: End("hardware", "datacentre", "psu"),
    Wrong.DRIVE_CRITICAL: End("hardware", "vendor", "drive"),
    Wrong.TWIN: End("hardware", "operator", "node"),
    Wrong.BIOS_REFUSED: End("bios", "operator", "node"),
    Wrong.BIOS_IGNORED: End("bios", "vendor", "node"),
    Wrong.NO_POWER: End("os", "datacentre", "psu"),
    Wrong.NO_OS: End("os", "operator", "node"),
    Wrong.SICK_AT_FIRST: THROUGH,
    Wrong.LOSES_ANSWERS: THROUGH,
    Wrong.SLOW: THROUGH,
    None: THROUGH,
}


@dataclass(frozen=True)
class Touched:
    """How often its controller took a change."""

    bios: int = 0
    off: int = 0
    on: int = 0


def touched(wrong: Wrong | None, differs: bool) -> Touched:
    """Of a machine whose BIOS differs and that is on, or that is off and as wanted."""
    end = ENDS[wrong]
    if end.step in ("bmc", "credentials", "hardware") or wrong is Wrong.BIOS_REFUSED:
        return Touched()
    return Touched(1, 1, 1) if differs else Touched(0, 0, 1)
