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

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{4,16})\)[^\n]{0,80}?: (\d{1,4})\b|NVRM:[^\n]{0,80}fallen off the bus")
_HARDWARE = re.compile(
    r"\[Hardware Error\]: (?!event severity: corrected|.*?[Cc]orrected error)"
    r"|EDAC [^\n]{0,60}: \d+ UE "
    r"|PCIe Bus Error: severity=(?:Uncorrect\w+|Fatal)"
    r"|mce: CPU\d+: Machine [Cc]heck|Memory failure: 0x"
)
_KIND = re.compile(r"Machine [Cc]heck|severity|error_type|section_type| UE |Memory failure")
_LONGEST = 200
_OFF_THE_BUS = 79


@check("kernel.xid")
def kernel_xid(kernel_log: KernelLog, *, ignore: tuple[int, ...]) -> Iterator[Finding]:
    """No GPU driver report (Xid) of this boot is in the kernel log, other than those that point at the job and not the node.

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
    """The kernel reported no uncorrected hardware error in this boot: machine checks, memory, PCI Express."""
    lines = list(kernel_log.matching(_HARDWARE))
    if lines:
        # A report is a block of lines; the one that names the kind of error is seldom the first.
        telling = [line for line in lines if _KIND.search(line.text)]
        yield Finding("kernel log", _said(telling or lines), "no uncorrected hardware error")


def _said(lines: list[KernelLine]) -> str:
    """The first line, which is nearest to the cause, and how many there are."""
    count = "" if len(lines) == 1 else f"{len(lines)} lines, the first "
    return f"{count}{lines[0].seconds:.0f} s after boot: {lines[0].text[:_LONGEST]}"
