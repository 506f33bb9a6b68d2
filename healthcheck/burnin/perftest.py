"""ib_write_bw of perftest: the words for a pair of ports, and what it prints.

With -b both sides send, and what is shown is the sum of both ways (perftest, README, "Notes on Testing
Methodology": each side measures what it initiates, and both are combined). Words as in NVIDIA's
ngc_multinode_perf (ngc_rdma_test.sh): two queue pairs, messages of 64 KiB.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from healthcheck.burnin.params import PARAMS
from inventory.text import clean

PROGRAM = "ib_write_bw"
FIRST_PORT = 18515      # TCP, by which the two sides of the first pair find each other: perftest's own
LEAST_S = 5             # -D measures without its first and last two seconds (-f)
_QUEUE_PAIRS = "2"
_KILL_S = "5"
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:%-]{0,252}")
_HEADING = re.compile(
    r"\s*#bytes\s+#iterations\s+BW peak\[(\S+)\]\s+BW average\[(\S+)\]\s+MsgRate\[Mpps\]\s*")
_ROW = re.compile(r"\s*(\d{1,19})\s+(\d{1,19})\s+(\S{1,40})\s+(\S{1,40})\s+(\S{1,40})\s*")
_MOST_LINES = 2000


@dataclass(frozen=True)
class WriteRate:
    """What ib_write_bw measured: Gb/s of both ways together, with messages of so many bytes."""

    gbps: float
    bytes: int
    iterations: int


def words(params: Mapping[str, int | float | str], side: str, number: int, address: str = "",
          limit_s: float = 60.0) -> tuple[str, ...]:
    """The command of a side, "a" or "b"; that with an `address` connects to it. `number` is the pair's in its
    round. Raises ValueError for a bad device or address. `timeout` ends it where no one else can."""
    full = {name: row[0] for name, row in PARAMS["write"].items()} | dict(params)
    device, port, gid = (full[f"{name}_{side}"] for name in ("device", "port", "gid"))
    if not isinstance(device, str) or not _DEVICE.fullmatch(device):
        raise ValueError(f"{clean(device, 80)!r} is no name of an RDMA device")
    if address and not _ADDRESS.fullmatch(address):
        raise ValueError(f"{clean(address, 80)!r} is no address")
    return ("timeout", "--foreground", "-k", _KILL_S, str(math.ceil(limit_s)), PROGRAM,
            "-d", device, "-i", str(port), "-s", str(full["bytes"]), "-q", _QUEUE_PAIRS, "-b",
            "-D", str(duration(full)), "-u", str(full["qp_timeout"]), "-F", "--report_gbits",
            "-p", str(FIRST_PORT + number),
            *(("-x", str(gid)) if isinstance(gid, int) and gid >= 0 else ()),
            *((address,) if address else ()))


def duration(params: Mapping[str, int | float | str]) -> int:
    """For how many seconds both send."""
    return max(LEAST_S, math.ceil(float(params["run_s"])))


def read(text: str) -> WriteRate:
    """The rate in what it printed. Raises ValueError where there is none, or not one."""
    lines = text.split("\n", _MOST_LINES)[:_MOST_LINES]
    found: list[WriteRate] = []
    heading = None
    for line in lines:
        if (seen := _HEADING.fullmatch(line)) is not None:
            heading = seen
        elif heading is not None and (row := _ROW.fullmatch(line)) is not None:
            if heading[2] != "Gb/sec":
                raise ValueError(f"its rate is in {clean(heading[2], 40)}, expected Gb/sec")
            found.append(WriteRate(_rate(row[4]), int(row[1]), int(row[2])))
    if len(found) != 1:
        raise ValueError(_complaint(lines) or "it printed no rate" if not found else
                         f"it printed {len(found)} rates, expected one")
    return found[0]


def _rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"its rate is {clean(text, 40)!r}")
    return value


def _complaint(lines: list[str]) -> str:
    """The last line that says anything, for a person."""
    said = [line for line in lines if re.search("[A-Za-z]", line)]
    return f"it printed no rate: {clean(said[-1].strip(), 200)}" if said else ""
