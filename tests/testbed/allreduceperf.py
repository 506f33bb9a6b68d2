"""A stand-in for all_reduce_perf, for there is no GPU here: it prints what a recorded run of nccl-tests
printed, scaled to its arguments.

It is a program of its own in a folder; `fault` beside it says what is wrong with it. What it was started with
is written beside it, too.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

RECORDING = Path(__file__).resolve().parents[1] / "recordings/nccltests/2.19-wrong-8.txt"
BUSBW = 478.0
USAGE = "USAGE: all_reduce_perf \n" + "".join(f"\t[-{letter},--{name} <n>] \n" for letter, name in {
    "b": "minbytes", "e": "maxbytes", "g": "ngpus", "n": "iters", "w": "warmup_iters", "c": "check",
    "T": "timeout", "h": "help"}.items())


def install(folder: Path, fault: str = "") -> Path:
    """Puts it there, with a fault: wrong, fewer (ranks), hang, garbage, cut, crash or flood; gives the
    folder."""
    folder.mkdir(exist_ok=True)
    program = folder / "all_reduce_perf"
    root = Path(__file__).resolve().parents[2]
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(root)!r})\n"
                       f"from tests.testbed import allreduceperf\n"
                       f"sys.exit(allreduceperf.main({str(folder)!r}))\n")
    program.chmod(0o755)
    (folder / "fault").write_text(fault)
    return folder


def started(folder: Path) -> list[dict[str, Any]]:
    """What each start of a test was given: its words and its environment, in the order in which they came."""
    return [json.loads(path.read_text())
            for path in sorted(folder.glob("start-*.json"), key=lambda path: path.stat().st_mtime_ns)]


def main(folder: str) -> int:
    if "--help" in sys.argv:
        sys.stdout.write(USAGE)
        return 0
    fault = Path(folder, "fault").read_text()
    (Path(folder) / f"start-{os.getpid()}.json").write_text(json.dumps({"argv": sys.argv[1:],
                                                                        "environment": dict(os.environ)}))
    # One that MPI started is a rank of several, of which the first prints.
    if int(os.environ.get("SLURM_PROCID", "0")):
        return 0
    given = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=False))
    ranks = int(given["-g"]) * int(os.environ.get("SLURM_NTASKS", "1"))
    if fault == "hang":
        time.sleep(600)
    if fault == "crash":
        os.abort()
    if fault == "flood":
        while True:
            sys.stdout.write("x" * 65536)
    if fault == "garbage":
        sys.stdout.write("\x1b[2J[red]nothing of the kind\x00\n" * 50)
        return 0
    text = printed(int(given["-b"]), ranks - (fault == "fewer"), int(given["-n"]),
                   16 if fault == "wrong" else 0)
    sys.stdout.write(text[:text.index("# Out of bounds")] if fault == "cut" else text)
    return int(fault == "wrong")


def printed(size: int, ranks: int, iterations: int, wrong: int) -> str:
    """The recording for so many ranks, one size, and this count of wrong elements."""
    factor = 2 * (ranks - 1) / ranks
    algbw = BUSBW / factor if ranks > 1 else BUSBW
    rate = f"{algbw:7.2f} {BUSBW if ranks > 1 else 0:7.2f} {wrong:7}"
    row = (f"{size:12}  {size // 4:12}     float     sum      -1"
           + 2 * f"  {size / algbw / 1e3:.6g} {rate}" + "\n")
    device, lines = "", []
    for line in RECORDING.read_text().splitlines(keepends=True):
        if "Rank" in line:
            device = device or line
            if "Rank  0" in line:
                lines += [device.replace("Rank  0", f"Rank {rank:2}") for rank in range(ranks)]
        elif re.match(r" +\d", line):
            lines += [row] if f" {1 << 33} " in line else []
        elif "Out of bounds" in line:
            lines.append(f"# Out of bounds values : {int(bool(wrong)) * 2} {'FAILED' if wrong else 'OK'}\n")
        else:
            lines.append(re.sub(r"iters: 50 agg", f"iters: {iterations} agg", line))
    return "".join(lines)
