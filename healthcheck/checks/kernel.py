"""Kernel-log checks: NVIDIA's Xid reports, and the kernel's own reports of failing hardware.

Line formats: `NVRM: Xid (PCI:0000:3b:00): 79, pid=..., GPU has fallen off the bus.` (NVIDIA Xid documentation), the forms
without a number for a GPU off the bus, and the kernel's mce, EDAC, AER and GHES reports (drivers/edac, drivers/pci/pcie/aer.c,
drivers/firmware/efi/cper.c). Whether a line is a fault is decided here by fixed forms; the learned baseline is another check.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from healthcheck.checks.base import check
from healthcheck.facts.kernel import KernelLine, KernelLog
from healthcheck.outcome import Finding

# Under MIG the driver names the instances after the address: (PCI:0000:31:00 GPU-I:05 GPU-CI:00).
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{4,16})[^)\n]{0,40}\)[^\n]{0,80}?: (\d{1,4})\b|NVRM:[^\n]{0,80}fallen off the bus")
# Only what itself says that it is not corrected: reports are blocks of lines, and corrected errors have blocks, too. Of a machine
# check it is bit 61 (UC) of the bank's status, the second of its first hexadecimal digit.
_HARDWARE = re.compile(
    r"Machine Check Exception|Machine Check: \d+ Bank \d+: [2367abef][0-9a-f]{15}|STATUS\[[^]\n]{0,60}\|UE\|"
    r"|\[Hardware Error\]: (?:event severity: (?:recoverable|fatal)|Uncorrected|System Fatal)"
    r"|EDAC [^\n]{0,60}: \d+ UE |PCIe Bus Error: severity=(?:Uncorrect\w+|Fatal)|Memory failure: 0x"
)
_LONGEST = 200
_OFF_THE_BUS = 79


@check("kernel.xid")
def kernel_xid(kernel_log: KernelLog, *, ignore: tuple[int, ...]) -> Iterator[Finding]:
    """The kernel's buffer holds no GPU driver report (Xid), other than those that point at the job and not the node.

    One finding for each GPU and Xid: the first line, and how often. A GPU off the bus is Xid 79, also where no number is said.
    """
    seen: dict[tuple[str, int], list[KernelLine]] = {}
    for line in kernel_log.matching(_XID):
        match = _XID.search(line.text)
        number = int(match[2]) if match and match[2] else _OFF_THE_BUS
        gpu = (match[1] if match and match[1] else _address(line.text)).lower().partition(".")[0]
        if number not in ignore:
            seen.setdefault((gpu, number), []).append(line)
    for (gpu, number), lines in sorted(seen.items()):
        yield Finding(f"GPU at PCI {gpu}, Xid {number}", _said(lines), "no such Xid")


_BDF = re.compile(r"\b(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\b")


def _address(text: str) -> str:
    match = _BDF.search(text)
    return match[0] if match else "unknown"


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
