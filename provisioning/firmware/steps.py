"""Which steps of an update still count: those made to parts that are no longer there do not."""

from __future__ import annotations

from healthcheck.store.file import Store
from healthcheck.store.firmwaresteps import FirmwareStep, firmware_steps
from healthcheck.store.machines import exchanged
from provisioning.bringup.policy.model import DesiredFirmware

# By component the kinds of parts whose serial numbers tell that another one is there: firmware of no kind is
# that of the board. A baseboard of GPUs says no number of its own, and comes with its GPUs.
_BOARD = ("board", "chassis")
_PARTS = {"bios": _BOARD, "bmc": _BOARD, "hgx": ("gpu", "switch"), "vbios": ("gpu",), "hca": ("hca",),
          "nvme": ("nvme",), "nvswitch": ("switch",), "psu": ("psu",)}


def counting(store: Store, node: str, entry: DesiredFirmware, target: str) -> tuple[FirmwareStep, ...]:
    """The steps that count, oldest first. What was done while a part was last seen that has left for another
    one is over, but for a step whose end is not known: of that a person has to say so. Raises StoreError."""
    steps = firmware_steps(store, node, entry.id, target)
    if not steps:
        return ()
    since = max((exchanged(store, node).get(kind, 0.0) for kind in _PARTS.get(entry.component, _BOARD)),
                default=0.0)
    return tuple(one for one in steps if one.done is None or one.began > since)
