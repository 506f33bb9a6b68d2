"""Memory in use, from /proc/meminfo (proc(5)), which counts in KiB and calls them kB."""

from __future__ import annotations

import re
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.host import HUGE_PAGES, MEMINFO, MEMORY
from healthcheck.facts.hugepages import page_sizes
from healthcheck.facts.parsing import whole
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, first_unread

_LINE = re.compile(r"^(MemTotal|MemAvailable|HardwareCorrupted|HugePages_Total|HugePages_Free|Hugepagesize)"
                   r":\s+([0-9]{1,15})(?: kB)?$", re.MULTILINE)

_SIZES = HUGE_PAGES.rpartition("/")[0]
_OF_HUGE_PAGES = frozenset(("HugePages_Total", "HugePages_Free", "Hugepagesize"))


class MemoryUse(Fact):
    """Main memory in bytes: the total, what a new program could use without swapping, and what lies idle in
    reserved huge pages.

    `poisoned_bytes` is what the kernel took out of use after a hardware error; UNSUPPORTED without
    CONFIG_MEMORY_FAILURE.
    """

    name: str
    total_bytes: int
    available_bytes: int
    idle_hugepage_bytes: int
    poisoned_bytes: int


@fact("memory_use", MEMORY)
def memory_use(captures: Captures) -> MemoryUse:
    """MemAvailable is the kernel's own estimate. Huge pages of all sizes where sysfs has them, else of the
    default size; without CONFIG_HUGETLBFS there are none. Not known where their sizes cannot be listed."""
    files = captures.files(MEMORY)
    found = {match[1]: int(match[2]) for match in _LINE.finditer(files.text(MEMINFO))}
    idle: list[Any] = [
        count if isinstance(count, Unmeasured) else count * kib * 1024 for kib in page_sizes(files)
        for count in (files.read(f"{HUGE_PAGES}-{kib}kB/free_hugepages", whole),)]

    def figure(key: str, unit: int = 1024) -> Any:
        return found[key] * unit if key in found else Unmeasured(f"{MEMINFO} has no {key}")

    def both(left: Any, right: Any) -> Any:
        return first_unread((left, right)) or left * right

    # A kernel without huge pages has none of these lines.
    pages: Any = (0 if _OF_HUGE_PAGES.isdisjoint(found)
                  else both(figure("HugePages_Free", 1), figure("Hugepagesize")))
    if _SIZES in files:         # so only where it could not be listed
        pages = files.read(_SIZES, whole)
    elif not isinstance(pages, Unmeasured):
        pages = first_unread(idle) or max(pages, sum(idle))
    poisoned: Any = figure("HardwareCorrupted") if "HardwareCorrupted" in found else UNSUPPORTED
    return MemoryUse("memory", figure("MemTotal"), figure("MemAvailable"), pages, poisoned)
