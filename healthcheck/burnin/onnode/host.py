"""Bandwidth of the host's memory: all ranks of a node copy at once, near their GPUs. Python 3.8.

As STREAM's copy it counts bytes read and written, without what the processor reads before it writes (STREAM's
documentation, www.cs.virginia.edu/stream/ref.html). Buffers are several times as large as the last-level
cache. It was not run on a machine with several NUMA nodes.
"""

from __future__ import annotations

import concurrent.futures
import glob
import os
import time
from typing import Any

from healthcheck.burnin.onnode.memory import AddressPattern
from healthcheck.burnin.onnode.numa import cpus_of, first_line
from healthcheck.burnin.onnode.times import Spent

MOST_THREADS = 32
SLICE_WORDS = 1 << 19       # of 8 bytes, copied at once, between two looks at the clock
SETTLE_S = 0.5              # of untimed copies first, while the last ranks begin
SIZE_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def host_memory(rank: Any, device: Any, root: str = "/") -> None:
    """Copies back and forth in several threads for a time, then checks every word."""
    torch, params = device.torch, rank.params
    begun = time.monotonic()
    rank.pause(params["ramp_s"] * rank.number / rank.world)
    size, why = host_bytes(rank, root)
    if why:
        rank.facts["not_measured"] = why
        return
    threads = host_threads(rank, root)
    rank.facts["cpu"] = cpu_name(root)
    rank.facts["host_memory"] = "%d threads, %d bytes" % (threads, size)
    share = max(1, size // 16 // threads)       # words of one of a thread's two buffers
    # PyTorch would add threads of its own to each of ours.
    with concurrent.futures.ThreadPoolExecutor(threads, initializer=torch.set_num_threads,
                                               initargs=(1,)) as pool:
        # The thread that touches memory first has it in its own NUMA node.
        copiers = list(pool.map(lambda number: Copier(rank, torch, number * share, share), range(threads)))
        begin = max(time.monotonic(), begun + params["ramp_s"]) + SETTLE_S
        spent = Spent()
        spent.begin()
        moved = list(pool.map(lambda copier: copier.run(begin, begin + params["run_s"]), copiers))
        spent.worked()
        rank.figures["host_gb_s"] = sum(words * 16.0 / seconds for words, seconds in moved) / 1e9
        rank.at("verify")
        wrongs = list(pool.map(lambda copier: copier.wrong(), copiers))
        spent.checked()
    for copier, wrong in zip(copiers, wrongs):  # noqa: B905  (Python 3.8)
        if wrong:
            rank.found_wrong(rank.iteration, wrong, [rank.number], False)
            rank.facts.setdefault("wrong_in", copier.first)
    rank.figures.update({"verified": float(sum(copier.copies for copier in copiers)),
                         "check_share": spent.share})


class Copier:
    """Two buffers of one thread: each word holds its own number, and goes from one to the other and back."""

    def __init__(self, rank: Any, torch: Any, first: int, words: int) -> None:
        self.rank, self.at, self.words = rank, first, words
        self.pattern = AddressPattern(torch, False)
        self.source, self.target = (torch.empty(words, dtype=torch.int64) for _ in range(2))
        self.pattern.write(self.source, first)
        self.target.zero_()
        self.copies = 0
        self.first = ""

    def run(self, begin: float, end: float) -> tuple[int, float]:
        """Copies from now on; words moved between `begin` and `end`, and seconds, of whole slices only."""
        moved, since, now = 0, 0.0, time.monotonic()
        # a thread without a core is slow, but still has a figure
        while now < end or not moved:
            for at in range(0, self.words, SLICE_WORDS):
                self.target[at:at + SLICE_WORDS].copy_(self.source[at:at + SLICE_WORDS])
                now = time.monotonic()
                if since:
                    moved += min(SLICE_WORDS, self.words - at)
                elif now >= begin:
                    since = now
            self.source, self.target = self.target, self.source
            self.copies += 1
            self.rank.at("compute", self.copies)
        return moved, max(now - since, 1e-9)

    def wrong(self) -> int:
        """How many words are not what was written first, however often they were copied."""
        count = 0
        for at in range(0, self.words, SLICE_WORDS):    # expected words take memory too
            piece = self.source[at:at + SLICE_WORDS]
            differs = self.pattern.differs(piece, self.at + at)
            wrong = int(differs.sum())
            if wrong and not count:
                first = int(differs.nonzero()[0])
                number = self.at + at + first
                self.first = "word %d, bits %#x" % (number, (int(piece[first]) ^ number) & ((1 << 64) - 1))
            count += wrong
        return count


def host_bytes(rank: Any, root: str = "/") -> tuple[int, str]:
    """How many bytes this rank tests: what was asked for or several last-level caches, and at most its share
    of free memory. Or 0, and why it cannot measure."""
    params = rank.params
    least = int(params["caches"] * cache_bytes(root)) // rank.world
    free = free_bytes(root, rank.facts.get("numa", ""))
    most = int(params["share"] * free) // rank.world
    size = min(max(params["bytes"], least), most)
    if size < max(least, 1 << 16):
        return 0, ("%d bytes of memory are free, and a rank may take %d: %g caches of the processor are "
                   "wanted, %d" % (free, most, params["caches"], least))
    return size, ""


def host_threads(rank: Any, root: str = "/") -> int:
    """This rank's share of the processor's cores: of all that it may use, or of its NUMA node's."""
    asked: int = rank.params["threads"]
    nodes = len([path for path in glob.glob(root + "sys/devices/system/node/node[0-9]*")
                 if cpus_of(first_line(path + "/cpulist"))])
    beside = (-(-rank.world // nodes) if nodes > 1
              and rank.facts.get("numa", "").startswith("node ") else rank.world)
    return max(1, min(MOST_THREADS, asked or len(os.sched_getaffinity(0)) // beside))


def cpu_name(root: str = "/") -> str:
    """The processor's model; "" where the kernel does not report it."""
    try:
        with open(root + "proc/cpuinfo") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else ""


def cache_bytes(root: str = "/") -> int:
    """All last-level caches together (Documentation/ABI/testing/sysfs-devices-system-cpu: cache/index*)."""
    levels: dict[int, dict[str, int]] = {}
    for path in glob.glob(root + "sys/devices/system/cpu/cpu[0-9]*/cache/index[0-9]*"):
        level, size = first_line(path + "/level"), first_line(path + "/size")
        if level.isdecimal() and size[:-1].isdecimal() and size[-1:] in SIZE_UNITS:
            levels.setdefault(int(level), {})[
                first_line(path + "/shared_cpu_list")] = int(size[:-1]) * SIZE_UNITS[size[-1]]
    return sum(levels[max(levels)].values()) if levels else 0


def free_bytes(root: str, bound: str) -> int:
    """Memory that is available without displacing anything, in the rank's NUMA node or in all."""
    found = meminfo(root + "proc/meminfo").get("MemAvailable", 0)
    if bound.startswith("node "):
        own = meminfo("%ssys/devices/system/node/node%d/meminfo" % (root, int(bound[5:].partition(",")[0])))
        # Ranks take shares of the whole machine, so a node's memory counts once for each node.
        nodes = max(1, len(glob.glob(root + "sys/devices/system/node/node[0-9]*")))
        found = min(found, nodes * (own.get("MemFree", 0) + own.get("Inactive(file)", 0)))
    return found


def meminfo(path: str) -> dict[str, int]:
    """The rows of a meminfo in kB, as bytes; those of a NUMA node begin with its name."""
    found = {}
    try:
        with open(path) as file:
            for line in file:
                name, _, rest = line.partition(":")
                words = rest.split()
                if name.split() and words and words[0].isdecimal():
                    found[name.split()[-1]] = int(words[0]) * 1024
    except OSError:
        pass    # unknown
    return found
