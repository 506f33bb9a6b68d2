"""Whether the driver keeps each GPU initialised, from whichever source has it: NVML, nvidia-smi, or, where no
GPU could be read in time, the unit of nvidia-persistenced.

Without persistence a GPU is set up anew for each first client, which takes seconds (NVIDIA, Driver
Persistence): often why NVML gives no answer in time. /proc/driver/nvidia does not show the mode
(nv-procfs.c of the open kernel modules).
"""

from __future__ import annotations

from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.gpu import NVML, PCI, gpus
from healthcheck.facts.service import SHOW, Service, services
from healthcheck.facts.smi import SMI
from healthcheck.facts.values import Fact, Unmeasured, Unread, parted, partial_if, reading
from healthcheck.model.recording import Outcome


class PersistenceMode(Fact):
    """The mode of one GPU ("GPU 3"), or of all ("GPUs") where only the unit is known. `observed` is what was
    seen where it is off."""

    name: str
    on: bool
    observed: str
    caveat: str


@fact("persistence_modes", NVML, SMI, PCI, besides=(SHOW,), each="persistence_mode")
def persistence_modes(captures: Captures) -> Any:
    """The mode of each GPU that the driver lists, as `gpus` has them."""
    capture = captures.capture(NVML)
    hung = capture is not None and (capture.outcome in (Outcome.TIMEOUT, Outcome.WEDGED)
                                    or '"error": [-1,' in capture.text)
    try:
        found = captures.once(gpus)
    except Unread as error:
        if hung:
            return (_by_unit(captures, str(error)),)
        raise
    listed, lacking = parted(found)
    modes = [reading(gpu, "persistence") for gpu in listed]
    unread = [mode.reason for mode in modes if isinstance(mode, Unmeasured)]
    if hung and len(unread) == len(modes):
        return (_by_unit(captures, (unread or [lacking])[0]),)
    return partial_if(tuple([PersistenceMode(gpu.name, mode, "persistence mode is off", gpu.caveat)
                             for gpu, mode in zip(listed, modes, strict=True)]), lacking)


def _by_unit(captures: Captures, reason: str) -> PersistenceMode:
    """A unit that does not run keeps no GPU initialised; one that runs may do so without the mode."""
    unit = reading(captures.once(services), "persistenced")
    if (not isinstance(unit, Service)
            or any(isinstance(reading(unit, word), Unmeasured) for word in ("load", "active", "sub"))
            or unit.active in ("active", "activating", "reloading")):
        unknown: Any = Unmeasured(reason)
        return PersistenceMode("GPUs", unknown, "", "")
    observed = f"nvidia-persistenced is {unit.description}, and no GPU says its mode ({reason})"
    return PersistenceMode("GPUs", on=False, observed=observed, caveat="")
