"""Huge pages of every size that the kernel has, and how many were asked for at boot
(Documentation/admin-guide/mm/hugetlbpage.rst; the same for /sys/kernel/mm/hugepages)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.host import BUDDYINFO, HUGE_PAGES, MEMINFO, MEMORY
from healthcheck.facts.parsing import whole
from healthcheck.facts.system import CMDLINE, SYSTEM
from healthcheck.facts.values import Fact, Unmeasured, first_unread

_FOLDER = re.compile(re.escape(HUGE_PAGES) + r"-([0-9]{1,10})kB/(?:nr|free|resv)_hugepages")
_DEFAULT = re.compile(r"^Hugepagesize:\s+([0-9]{1,10}) kB$", re.MULTILINE)
_SIZE = re.compile(r"([0-9]{1,7})([KMGkmg])")
_COUNT = re.compile(r"[0-9]{1,10}|[0-9]{1,4}:[0-9]{1,10}(?:,[0-9]{1,4}:[0-9]{1,10})*")
_KIB = {"k": 1, "m": 1024, "g": 1024 * 1024}


class HugePages(Fact):
    """How many pages there are of each size (KiB), and over all sizes the bytes of those in use, and of those
    that are not used yet but promised to someone (reserved). None of any on a kernel without huge pages."""

    name: str
    totals: Mapping[int, int]
    used_bytes: int
    reserved_bytes: int


class BootHugePages(Fact):
    """How many pages of each size (KiB) the kernel's parameters ask for; with no size given it is the
    default."""

    name: str
    asked: Mapping[int, int]


def page_sizes(files: Iterable[str]) -> list[int]:
    """The sizes in KiB that these files are of, each of which the kernel has a folder for, ascending."""
    return sorted({int(found[1]) for found in map(_FOLDER.fullmatch, files) if found})


def page_name(kib: int) -> str:
    """Huge pages of this size, for people."""
    for unit, of in (("GiB", 1024 * 1024), ("MiB", 1024)):
        if kib % of == 0:
            return f"{kib // of} {unit} huge pages"
    return f"{kib} KiB huge pages"


@fact("huge_pages", MEMORY)
def huge_pages(captures: Captures) -> HugePages:
    """Each of the three by the files that it needs."""
    files = captures.files(MEMORY)
    files.require(MEMINFO)
    sizes = page_sizes(files)
    total, free, reserved = (
        {kib: files.read(f"{HUGE_PAGES}-{kib}kB/{name}_hugepages", whole) for kib in sizes}
        for name in ("nr", "free", "resv"))
    files.ignore((BUDDYINFO,))
    unlisted = files.unreadable()

    def known(value: Callable[[], Any], *of: Mapping[int, Any]) -> Any:
        """The value, or why one of the readings that it is made of is not known."""
        unread = first_unread(each for readings in of for each in readings.values())
        return Unmeasured(unlisted) if unlisted else unread or value()

    return HugePages(
        "huge pages", totals=known(lambda: MappingProxyType(total), total),
        used_bytes=known(lambda: sum(1024 * kib * (total[kib] - free[kib]) for kib in sizes), total, free),
        reserved_bytes=known(lambda: sum(1024 * kib * reserved[kib] for kib in sizes), reserved))


@fact("boot_huge_pages", SYSTEM, MEMORY)
def boot_huge_pages(captures: Captures) -> BootHugePages:
    """From /proc/cmdline; the default size from /proc/meminfo, where a kernel without huge pages has none."""
    default = _DEFAULT.search(captures.files(MEMORY).text(MEMINFO))
    asked = captures.files(SYSTEM).read(CMDLINE, lambda text: requested(
        text, int(default[1]) if default is not None else 0))
    return BootHugePages("huge pages", asked)


def requested(cmdline: str, default_kib: int) -> Mapping[int, int]:
    """Pages by size in KiB. `hugepages=` counts for the `hugepagesz=` or `default_hugepagesz=` before it, and
    of two for one size the first does. Words in another form are left out, as the kernel does."""
    asked: dict[int, int] = {}
    size = default_kib
    for word in cmdline.split():
        key, _, value = word.partition("=")
        if key in ("hugepagesz", "default_hugepagesz"):
            found = _SIZE.fullmatch(value)
            size = int(found[1]) * _KIB[found[2].lower()] if found else 0
        elif key == "hugepages" and size and _COUNT.fullmatch(value):
            asked.setdefault(size, sum(int(part.rpartition(":")[2]) for part in value.split(",")))
    return MappingProxyType(asked)
