"""In how large blocks the free memory of each NUMA node lies, from /proc/buddyinfo (proc(5)): the number of
free blocks of 1, 2, 4 ... pages in each zone."""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.host import BUDDYINFO, MEMINFO, MEMORY
from healthcheck.facts.limits import BLOCK_ORDERS
from healthcheck.facts.parsing import matched, searched
from healthcheck.facts.values import UNSUPPORTED, Fact, first_unread
from healthcheck.model.probes import KIB, MIB

LARGE = 2 * MIB     # a huge page of x86 and of Arm with pages of 4 KiB, and what RDMA likes to pin as one
_ZONE = re.compile(r"Node ([0-9]{1,4}), zone +(\w{1,16})((?: +[0-9]{1,12})+)")
_FREE = re.compile(r"^MemFree:\s+([0-9]{1,15}) kB$", re.MULTILINE)
_PAGES = (4 * KIB, 16 * KIB, 64 * KIB)


class FreeBlocks(Fact):
    """The free memory of one NUMA node ("NUMA node 0") in bytes, and how much of it lies in blocks of 2 MiB
    or more. UNSUPPORTED where the kernel has no such file."""

    name: str
    free_bytes: int
    large_bytes: int


@fact("free_blocks", MEMORY, each="free_block")
def free_blocks(captures: Captures) -> Any:
    """Every node, by number. The size of a page is the one with which the blocks come closest to MemFree, as
    the file does not say it."""
    files = captures.files(MEMORY)
    files.require(MEMINFO)
    if not files.has(BUDDYINFO):
        return (FreeBlocks.absent("NUMA node 0", UNSUPPORTED),)
    blocks: Any = files.read(BUDDYINFO, _blocks)
    free: Any = files.read(MEMINFO, lambda text: int(searched(_FREE, text)[1]) * KIB)
    if unread := first_unread((blocks, free)):
        return unread
    pages = {node: [count << order for order, count in enumerate(counts)]
             for node, counts in sorted(blocks.items())}
    in_all = sum(map(sum, pages.values()))
    page = min(_PAGES, key=lambda size: abs(in_all * size - free))
    # A block of this order, and any above it, is a large one.
    large = (LARGE // page).bit_length() - 1
    return tuple([FreeBlocks(f"NUMA node {node}", page * sum(of_order), page * sum(of_order[large:]))
                  for node, of_order in pages.items()])


def _blocks(text: str) -> dict[int, list[int]]:
    """Blocks by order, of all zones of each node; raises ValueError for a line in another form."""
    found: dict[int, list[int]] = {}
    for line in text.splitlines():
        match = matched(_ZONE, line.strip())
        counts = list(map(int, match[3].split()))
        if len(counts) > BLOCK_ORDERS:
            raise ValueError(line)
        node = int(match[1])
        found[node] = [one + more for one, more in zip_longest(found.get(node, ()), counts, fillvalue=0)]
    if not found:
        raise ValueError(text)
    return found
