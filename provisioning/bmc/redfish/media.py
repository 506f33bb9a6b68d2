"""The virtual drive for an image to boot as a CD. Source: DMTF DSP0268, VirtualMedia: MediaTypes has CD, DVD,
Floppy and USBStick. One for USB sticks alone is not taken: Cd does not find it."""

from __future__ import annotations

from collections.abc import Sequence

from inventory.text import clean
from provisioning.bmc.base import BmcError, BmcErrorReason, Media


def cd_drive(found: Sequence[Media], named: str | None = None) -> Media:
    """The drive of this name, or the first that takes a CD. Raises BmcError(UNSUPPORTED)."""
    drive = next((one for one in found if (one.name == named if named is not None else _takes_cd(one))), None)
    if drive is None:
        known = clean(", ".join(one.name for one in found), 120) or "it has none"
        wanted = "takes a CD" if named is None else f"is called {clean(named, 40)}"
        raise BmcError(BmcErrorReason.UNSUPPORTED, f"none of its virtual drives {wanted}: {known}")
    return drive


def _takes_cd(drive: Media) -> bool:
    return bool({"CD", "DVD"} & set(drive.kinds))
