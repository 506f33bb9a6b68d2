"""Prints a run as nccl-tests does (src/common.cu of 2.0 and 2.13, src/util.cu of 2.19), from known values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

RECORDINGS = Path(__file__).resolve().parents[3] / "recordings" / "nccltests"
NCCL = "node-0:21:75 [3] NCCL INFO Connected all rings\n"
WARN = ("[2026-11-20 10:00:00] node-1:6733:6801 [0] transport/net_ib.cc:2208 NCCL WARN NET/IB : Got async "
        "event : port error\n")


@dataclass(frozen=True)
class Shape:
    """A version and its options. `each` is -I, `dated` -S; `old` counts no wrong values, and has no root."""

    old: bool = False
    each: bool = False
    dated: bool = False
    checked: bool = True


def fitted(value: float, width: int) -> str:
    """getFloatStr: as many digits as fit."""
    for digits in (2, 1, 0):
        if len(text := f"{value:.{digits}f}") <= width:
            return text
    return f"{value:.{1 if width >= 7 else 0}e}"


def heading(shape: Shape) -> str:
    half = ["time", "algbw", "busbw", "error" if shape.old else "#wrong",
            *(["i_min", "i_max", "i_p99", "i_cv%"] if shape.each else [])]
    names = ["size", "count", "type", "redop", *([] if shape.old else ["root"]), *half, *half,
             *(["timestamp"] if shape.dated else [])]
    return "# " + "  ".join(f"{name:>10}" for name in names) + " \n"


def row(shape: Shape, size: int, busbw: float, ranks: int, wrong: int = 0, parts: str = "") -> str:
    """One row; `parts` is put between the four pieces in which the program writes it."""
    algbw = busbw / (2 * (ranks - 1) / ranks) if ranks > 1 else busbw
    time = size / algbw / 1e3
    if shape.old:
        middle = f"{time:.{0 if time >= 10000 else 1 if time >= 100 else 2}f}"
        half = (f"  {middle:>7}  {algbw:6.2f}  {busbw if ranks > 1 else 0:6.2f}  "
                f"{'2e-07' if shape.checked else 'N/A':>5}")
    else:
        count = f"{float(wrong):g}" if shape.checked else "N/A"
        half = (f"  {fitted(time, 7):>7}  {fitted(algbw, 6):>6}  {fitted(busbw if ranks > 1 else 0.0, 6):>6} "
                f" {count:>6}")
    if shape.each:
        half += "".join(f"  {fitted(value, 7):>7}" for value in (time * 0.98, time * 1.3, time * 1.2, 4.25))
    begins = f"{size:12d}  {size // 4:12d}  {'float':>8}  {'sum':>6}" + ("" if shape.old else f"  {'-1':>6}")
    return parts.join([begins, half, half, f"{'2026-11-20 10:00:00':>21}" if shape.dated else ""]) + "\n"


def devices(ranks: int, old: bool = False, each: int = 8) -> str:
    return "".join(f"#  Rank {rank:2d} {'' if old else 'Group  0 '}Pid {6899 + rank:6d} on "
                   f"{f'node-{rank // each}':>10} device {rank % each:2d} "
                   f"[{'0x07' if old else '0000:07:00'}] NVIDIA H100 80GB HBM3\n" for rank in range(ranks))


def output(shape: Shape, rows: Sequence[str], ranks: int, wrong: int = 0) -> str:
    """The whole, from its first line to its footer."""
    config = "# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20 "
    starts = ("" if shape.old else "# nccl-tests version 2.19.6 nccl-headers=23203 nccl-library=23203\n"
              "# Collective test starting: all_reduce_perf\n")
    return "".join([
        starts, config, "" if shape.old else "agg iters: 1 ",
        f"validation: {int(shape.checked)} \n#\n# Using devices\n",
        devices(ranks, shape.old), "#\n", heading(shape), *rows,
        f"# {'Out of bounds values':<20} : {wrong} {'FAILED' if wrong else 'OK'}\n"
        f"# {'Avg bus bandwidth':<20} : 368.652 \n#\n",
    ])
