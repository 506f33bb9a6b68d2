"""What a divided GPU (MIG) shows although nothing is wrong: Unmeasured here, never a fault.

With MIG on, NVML shows a GPU's links as down (DCGM's health watch ignores them, too), and what rests on the
links follows. Whatever it shows as healthy is read as without MIG.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from healthcheck.facts.nvml_output import Line
from healthcheck.facts.values import Unmeasured

LINKS = Unmeasured("MIG is on, and NVML then shows links as down (a SKU of divided GPUs gives "
                   "nvlink_count: null)")
FABRIC = Unmeasured("MIG is on, and the GPU then has no working NVLinks to be in a fabric by")
PAIRS = Unmeasured("MIG is on, and divided GPUs do not reach each other's memory")

# Readings of the fabric, with what each says of a GPU that is well in one. Each part of a mask is 2 where
# nothing is wrong, and 0 where it is not supported; the configuration's is 1 (NVML_GPU_FABRIC_HEALTH_MASK_*).
_WELL: Mapping[str, Any] = {"fabric_state": "completed", "fabric_status": 0, "fabric_summary": "healthy"}
_PARTS = ((0, 0x3, 2), (2, 0x3, 2), (4, 0x3, 2), (6, 0x3, 2), (8, 0xF, 1))


def is_divided(line: Line) -> bool:
    """Whether MIG is on."""
    return bool(line.get("mig") == {"ok": 1})


def undivided(values: dict[str, Any]) -> dict[str, Any]:
    """A GPU's readings by field, where MIG is on without those of a fabric that look like faults."""
    if values.get("mig") is not True:
        return values
    found = dict(values)
    for field, well in _WELL.items():
        if type(found[field]) is type(well) and found[field] != well:
            found[field] = FABRIC
    mask = found["fabric_health"]
    if type(mask) is int and any(mask >> shift & width not in (0, well) for shift, width, well in _PARTS):
        found["fabric_health"] = FABRIC
    return found
