"""Kernel-log checks: the kernel's own reports of failing hardware.

Line formats are those of the kernel's mce, EDAC, AER and GHES reports (drivers/edac, drivers/pci/pcie/aer.c,
drivers/firmware/efi/cper.c). Whether a line is a fault is decided here by fixed forms; the learned baseline is another check, and
NVIDIA's Xids are those of `healthcheck.checks.xid`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from healthcheck.checks.base import check
from healthcheck.facts.kernel import KernelLine, KernelLog
from healthcheck.outcome import Finding

# Only what itself says that it is not corrected: reports are blocks of lines, and corrected errors have blocks, too. Of a machine
# check it is bit 61 (UC) of the bank's status, the second of its first hexadecimal digit.
_HARDWARE = re.compile(
    r"Machine Check Exception|Machine Check: \d+ Bank \d+: [2367abef][0-9a-f]{15}|STATUS\[[^]\n]{0,60}\|UE\|"
    r"|\[Hardware Error\]: (?:event severity: (?:recoverable|fatal)|Uncorrected|System Fatal)"
    r"|EDAC [^\n]{0,60}: \d+ UE |PCIe Bus Error: severity=(?:Uncorrect\w+|Fatal)|Memory failure: 0x"
)
_LONGEST = 200


@check("kernel.hardware_error")
def kernel_hardware_error(kernel_log: KernelLog) -> Iterator[Finding]:
    """The kernel's buffer holds no report of an uncorrected hardware error: machine checks, memory, PCI Express."""
    lines = list(kernel_log.matching(_HARDWARE))
    if lines:
        yield Finding("kernel log", _said(lines), "no uncorrected hardware error")


def _said(lines: list[KernelLine]) -> str:
    """The first line, which is nearest to the cause, and how many there are."""
    count = "" if len(lines) == 1 else f"{len(lines)} lines, the first "
    return f"{count}{lines[0].seconds:.0f} s after boot: {lines[0].text[:_LONGEST]}"
