"""The kernel log of a healthy HGX H100 node, as records of /dev/kmsg (Documentation/ABI/testing/dev-kmsg).
Formats are those of kernels and drivers, wording and figures made up; 'error' occurs on healthy machines."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

Line = tuple[int, str]      # priority (facility * 8 + level), text

_WARNING, _INFO = 4, 6
_LAST_SECONDS = 3600.0


def records(
    boot: Iterator[Line], service: Iterator[Line], up_seconds: float, rng: random.Random,
) -> list[bytes]:
    """Numbered records, with times (microseconds since boot) of a boot and then of the last hour."""
    found: list[bytes] = []
    now = 0
    for late, lines in ((False, boot), (True, service)):
        if late:
            now = max(now, int((up_seconds - _LAST_SECONDS) * 1e6))
        for priority, text in lines:
            if len(found) > 12:
                now += rng.randrange(200, 90_000)
            found.append(f"{priority},{len(found)},{now},-;{text}\n".encode())
    return found


def healthy(
    *, kernel: str, driver: str, memory_kb: int, gpus: Sequence[str], hcas: Sequence[str],
    nvmes: Sequence[str], nvswitches: Sequence[str],
) -> Iterator[Line]:
    """Some 300 lines from the first of the kernel to a node that is up."""
    devices = {"gpus": _devices(gpus, 0x1000000), "hcas": _devices(hcas, 0x2000000),
               "nvmes": _devices(nvmes, 0x8000), "nvswitches": _devices(nvswitches, 0x2000000)}
    host = {"kernel": kernel, "driver": driver, "available_kb": memory_kb - 21_000_000,
            "physical_kb": memory_kb + 34_000_000}
    for each, lines in groupby(_template(), lambda line: line[1]):
        block = [(priority, text) for priority, _, text in lines]
        for values in devices[each] if each else [host]:
            yield from ((priority, text.format(**values)) for priority, text in block)


def _template() -> Iterator[tuple[int, str, str]]:
    """Of each line of boot.txt the priority, the kind of device (`@gpus`) if it is written once for each, and
    the text; lines of one kind that follow each other are written together for each device."""
    for line in Path(__file__).with_name("boot.txt").read_text().splitlines():
        priority, text = line.split(" ", 1)
        each, _, rest = text.partition(" ") if text.startswith("@") else ("", "", text)
        yield int(priority), each[1:], rest


def _devices(addresses: Sequence[str], size: int) -> list[dict[str, object]]:
    """What the lines of each device name, with a region of so many bytes."""
    found: list[dict[str, object]] = []
    for number, address in enumerate(addresses):
        start, bus = 0x210000000000 + number * 0x2000000000, int(address[5:7], 16)
        found.append({"number": number, "address": address, "root": address[:7], "bus": bus, "irq": 40 + bus,
                      "start": start, "end": start + size - 1})
    return found


def service(gpus: Sequence[str], rng: random.Random) -> Iterator[Line]:
    """What a node says that has run jobs for a while."""
    yield _INFO, "docker0: port 1(veth3a1c) entered forwarding state"
    yield _INFO, ("perf: interrupt took too long (2514 > 2500), lowering kernel.perf_event_max_sample_rate "
                  "to 79500")
    if rng.random() < 0.3:
        gpu = rng.choice(gpus)[:-2]
        yield _WARNING, f"NVRM: Xid (PCI:{gpu}): 43, pid=81234, name=python, Ch 00000008"
        yield _WARNING, (f"NVRM: Xid (PCI:{gpu}): 13, pid=81234, name=python, Graphics SM Warp Exception on "
                         "(GPC 2, TPC 0, SM 1)")
    if rng.random() < 0.3:
        yield _INFO, ("EDAC MC3: 1 CE memory read error on CPU_SrcID#0_MC#3_Chan#0_DIMM#0 (channel:0 slot:0 "
                      "page:0x1a3f22 offset:0x9c0 grain:32 syndrome:0x0 - err_code:0x0101:0x0090 "
                      "SystemAddress:0x1a3f229c0 ProcessorSocketId:0x0)")
    if rng.random() < 0.3:
        yield _INFO, ("python[90112]: segfault at 0 ip 00007f2d1c9e0b42 sp 00007ffd2d0a1d80 error 4 in "
                      "libtorch_cpu.so[7f2d1a000000+4e00000]")
    yield _INFO, "systemd-journald[1422]: Received client request to flush runtime journal."
