"""Checks of main memory: its errors, its use, and the kernel log's reports on it.

The kernel's lines: drivers/edac/edac_mc.c, arch/x86/kernel/cpu/mce, drivers/firmware/efi/cper.c.
"""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import GIB, LONGEST_QUOTE, check
from healthcheck.checks.growth import DAY, Growth
from healthcheck.facts.edac import MemoryPart
from healthcheck.facts.freeblocks import FreeBlocks
from healthcheck.facts.gpu_process import GpuLoad
from healthcheck.facts.hugepages import BootHugePages, HugePages, page_name
from healthcheck.facts.kernel import KernelLine, KernelLog, MessagePattern, as_dmesg
from healthcheck.facts.memory import MemoryUse
from healthcheck.facts.owners import ProcessOwners
from healthcheck.kernellog.carried import representative
from healthcheck.kernellog.model import MOST_DISTINCT
from healthcheck.model.outcome import Finding, LogEvidence

# Reports of corrected errors, one line of each.
CORRECTED_LINES = MessagePattern(
    r"EDAC [^\n]{0,60}: \d+ CE "
    r"|(?:mce: |BERT: )?(?:\{\d{1,10}\})?\[Hardware Error\]: (?:event severity: corrected|Corrected error)",
    " CE ", "event severity: corrected", "Corrected error",
)


@check("memory.ecc_uncorrected")
def memory_ecc_uncorrected(memory_part: MemoryPart, *, allow: int) -> Iterator[Finding]:
    """No more uncorrected memory errors than allowed were counted since the EDAC driver was loaded; findings
    name the DIMM if known, and its slot where dmidecode and EDAC agree on it."""
    if memory_part.uncorrected > allow:
        of = "" if memory_part.known else ", of no known DIMM"
        yield Finding(f"{memory_part.uncorrected} uncorrected{of}", f"at most {allow}",
                      remedy=_of_slot(memory_part, "Drain the node, power it off and replace"))


@check("memory.ecc_corrected")
def memory_ecc_corrected(
    memory_part: MemoryPart, growth: Growth[MemoryPart], *, at_least: int, per_day: float,
) -> Iterator[Finding]:
    """No DIMM corrected at least so many errors between two snapshots, at a rate of more than so many a
    day."""
    grown, seconds = growth.of("corrected"), growth.seconds
    if grown >= at_least and grown * DAY > per_day * seconds:
        yield Finding(f"{grown} corrected in {seconds / 60:.0f} min",
                      f"fewer than {at_least}, or at most {per_day:g} a day",
                      remedy=_of_slot(memory_part, "At the next maintenance reseat, then replace,"))


def _of_slot(part: MemoryPart, what: str) -> str:
    """The remedy for the module in its slot; "" where the slot is not known."""
    if not part.slot:
        return ""
    how = "" if part.exact else " (found by its place in dmidecode's list)"
    return f"{what} the module in slot {part.slot}{how}."


@check("memory.poisoned")
def memory_poisoned(memory_use: MemoryUse, *, allow_kib: int) -> Iterator[Finding]:
    """The kernel took no more memory than allowed out of use after hardware errors."""
    if memory_use.poisoned_bytes > allow_kib * 1024:
        yield Finding(f"{memory_use.poisoned_bytes // 1024} KiB out of use", f"at most {allow_kib} KiB")


@check("memory.available")
def memory_available(memory_use: MemoryUse, *, least_percent: float) -> Iterator[Finding]:
    """A share of memory is available: below it the kernel soon has to kill processes."""
    share = 100 * memory_use.available_bytes / memory_use.total_bytes
    if share < least_percent:
        yield Finding(f"{memory_use.available_bytes / GIB:.1f} GiB available ({share:.1f} %)",
                      f"at least {least_percent:g} %")


@check("memory.left_over", counts=True)
def memory_left_over(
    memory_use: MemoryUse, gpu_loads: tuple[GpuLoad, ...], *, least_percent: float,
) -> Iterator[Finding]:
    """While nothing runs on any GPU, most memory is available: an earlier job left the rest behind."""
    if any(load.processes for load in gpu_loads):
        return
    # Another rule judges idle huge pages.
    share = 100 * (memory_use.available_bytes + memory_use.idle_hugepage_bytes) / memory_use.total_bytes
    if share < least_percent:
        yield Finding(f"{share:.0f} % available, and nothing runs on any GPU",
                      f"at least {least_percent:g} %")


@check("memory.hugepages")
def memory_hugepages(memory_use: MemoryUse, *, most_percent: float) -> Iterator[Finding]:
    """No more than a share of memory lies idle in reserved huge pages, which no one else can use."""
    share = 100 * memory_use.idle_hugepage_bytes / memory_use.total_bytes
    if share > most_percent:
        yield Finding(f"{memory_use.idle_hugepage_bytes / GIB:.1f} GiB reserved and idle ({share:.0f} %)",
                      f"at most {most_percent:g} % of memory", "huge pages")


@check("memory.hugepages_leaked")
def memory_hugepages_leaked(
    huge_pages: HugePages, process_owners: ProcessOwners, *, allow_mib: int,
) -> Iterator[Finding]:
    """Every huge page in use is mapped by a process, and none is reserved where no process has used any: what
    is left in a file of hugetlbfs, or in a segment of shared memory, stays until someone removes it."""
    used, reserved, mapped = huge_pages.used_bytes, huge_pages.reserved_bytes, process_owners.huge_page_bytes
    if used - mapped > allow_mib * 2**20:
        yield Finding(f"{(used - mapped) / GIB:.1f} GiB in use and mapped by no process",
                      f"at most {allow_mib} MiB", "huge pages")
    # A process that has used some may have more reserved than it has used so far.
    if not mapped and reserved > allow_mib * 2**20:
        yield Finding(f"{reserved / GIB:.1f} GiB reserved, and no process has used any",
                      f"at most {allow_mib} MiB", "huge pages")


@check("memory.hugepages_asked")
def memory_hugepages_asked(huge_pages: HugePages, boot_huge_pages: BootHugePages) -> Iterator[Finding]:
    """There are as many huge pages of each size as the kernel's parameters ask for: it silently makes fewer
    where memory is short or in pieces, and none of a size that the CPU has not."""
    for kib, asked in sorted(boot_huge_pages.asked.items()):
        held = huge_pages.totals.get(kib, 0)
        if held < asked:
            yield Finding(f"{held} of {asked}", "all that the kernel's parameters ask for", page_name(kib))


@check("memory.fragmented")
def memory_fragmented(
    free_block: FreeBlocks, *, least_percent: float, judged_gib: float,
) -> Iterator[Finding]:
    """Of a NUMA node's free memory, a share lies in blocks of 2 MiB or more; with less free than
    `judged_gib`, which is what a full cache of files leaves, that says nothing."""
    if free_block.free_bytes < judged_gib * GIB:
        return
    share = 100 * free_block.large_bytes / free_block.free_bytes
    if share < least_percent:
        yield Finding(f"{share:.1f} % of {free_block.free_bytes / GIB:.1f} GiB free lies in blocks of 2 MiB "
                      "or more", f"at least {least_percent:g} %")


@check("kernel.hardware_corrected")
def kernel_hardware_corrected(kernel_log: KernelLog, *, most: int, hours: float) -> Iterator[Finding]:
    """The log holds no more than so many reports of corrected hardware errors within the hours before its
    newest record."""
    lines = _recent(kernel_log, CORRECTED_LINES, hours)
    if len(lines) > most:
        quoted = tuple(dict.fromkeys(as_dmesg(line.seconds, line.text) for line in lines))[:MOST_DISTINCT]
        # The rule needs at least so many to fail again.
        newest = representative([line.sequence for line in lines[-(most + 1):]], most + 1)
        evidence = LogEvidence("hardware-error", f"quiet {hours:g}h", len(lines), lines[0].seconds,
                               lines[-1].seconds, newest)
        yield Finding(f"{len(lines)} in {hours:g} h, the last: {lines[-1].text[:LONGEST_QUOTE]}",
                      f"at most {most}", "kernel log", lines=quoted, log=evidence)


def _recent(log: KernelLog, pattern: MessagePattern, hours: float) -> list[KernelLine]:
    return [line for line, _ in log.matching(pattern) if log.age_hours(line.seconds) <= hours]
