"""Plants logs as people find them: of restarted jobs, rotated, copied, of ranks without names, with epochs
and evaluation."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

BEGAN = 1_800_000_000.0


def stamp(time: float) -> str:
    return dt.datetime.fromtimestamp(time,
                                     dt.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00",
                                                                                                 "Z")


def stepping(first: int, last: int, began: float, seconds: float = 0.25) -> Iterator[tuple[float, str]]:
    """Steps `first` to `last`, each with the time at its end."""
    for number, step in enumerate(range(first, last + 1), 1):
        yield began + number * seconds, f"step {step} loss 3.1 time {1000 * seconds:.1f} ms"


def timed(lines: Iterable[tuple[float, str]]) -> str:
    return "".join(f"{stamp(time)} INFO {text}\n" for time, text in lines)


def bare(lines: Iterable[tuple[float, str]], before: str = "") -> str:
    return "".join(f"{before}{text}\n" for _, text in lines)


def twice(folder: Path) -> None:
    (folder / "job.log").write_text(timed((time + late, text) for time, text in stepping(1, 200, BEGAN)
                                          for late in (0, 0.004)))


def twice_bare(folder: Path) -> None:
    (folder / "job.log").write_text("".join(2 * f"{text}\n" for _, text in stepping(1, 200, BEGAN)))


def ranks_without_names(folder: Path) -> None:
    """Four ranks in one stream; each is up to 1.3 steps late."""
    lines = [(time + 0.08 * rank, text) for time, text in stepping(1, 200, BEGAN) for rank in range(4)]
    (folder / "job.log").write_text(bare(sorted(lines)))


def a_copy(folder: Path) -> None:
    lines = list(stepping(1, 200, BEGAN))
    (folder / "slurm-4711.out").write_text(timed(lines))
    (folder / "train.log").write_text(timed((time + 0.02, text) for time, text in lines))


def a_file_a_node(folder: Path) -> None:
    for node in range(2):
        (folder / f"node{node}.log").write_text(bare(stepping(1, 200, BEGAN, 0.25 + 0.006 * node)))


def torchruns_tee(folder: Path) -> None:
    (folder / "job.log").write_text("".join(f"[default{rank}]:{text}\n" for _, text in stepping(1, 200, BEGAN)
                                            for rank in range(4)))


def epochs(folder: Path) -> None:
    (folder / "job.log").write_text(
        timed((time, f"Epoch [{epoch}/4], {text.replace('step ', 'Step [').replace(' loss', '/50], loss')}")
              for epoch in range(1, 5) for time, text in stepping(1, 50, BEGAN + 12.5 * epoch)))


def checkpoints_and_evaluation(folder: Path) -> None:
    lines: list[tuple[float, str]] = []
    now = BEGAN
    for first in (1, 51, 101, 151):
        lines += stepping(first, first + 49, now)
        now = lines[-1][0] + 31.2
        lines.append((now, f"saved checkpoint at step {first + 49} in 31.2 s"))
        lines += [(now := now + 0.9, f"validation step {step} loss 2 time 900.0 ms") for step in range(1, 6)]
        now += 45.1
        lines.append((now, f"eval at step {first + 49}: 45.1 s"))
    (folder / "job.log").write_text(timed(lines))


def a_bar(folder: Path) -> None:
    (folder / "job.log").write_text("".join(f"\r\x1b[1mstep\x1b[0m {text.removeprefix('step ')}"
                                            for _, text in stepping(1, 200, BEGAN)))


def rotated(folder: Path) -> None:
    for at, name in enumerate(("log.2", "log.1", "log")):
        (folder / name).write_text(bare(stepping(1 + 66 * at, 66 * (at + 1) + 2 * (name == "log"), 0)))
        os.utime(folder / name, (BEGAN + 20 * at, BEGAN + 20 * at))


ONE_START = (twice, twice_bare, ranks_without_names, a_copy, a_file_a_node, torchruns_tee, epochs,
             checkpoints_and_evaluation, a_bar, rotated)


def one_file(folder: Path) -> None:
    (folder / "job.log").write_text(timed([*stepping(1, 120, BEGAN),
                                           (BEGAN + 150, "resuming from checkpoint at step 100"),
                                           *stepping(101, 200, BEGAN + 150)]))


def one_bare_file(folder: Path) -> None:
    (folder / "job.log").write_text(bare([*stepping(1, 120, 0), *stepping(101, 200, 0)]))


def a_bare_file_each(folder: Path) -> None:
    for at, (first, last) in enumerate(((1, 120), (101, 200))):
        path = folder / f"slurm-{4711 + at}.out"
        path.write_text(bare(stepping(first, last, 0)))
        os.utime(path, (BEGAN + 600 * at, BEGAN + 600 * at))


def torchruns_folders(folder: Path) -> None:
    for attempt, (first, last) in enumerate(((1, 120), (101, 200))):
        for rank in range(4):
            path = folder / f"none_ab12/attempt_{attempt}/{rank}/stdout.log"
            path.parent.mkdir(parents=True)
            path.write_text(timed(stepping(first, last, BEGAN + 150 * attempt)))


TWO_STARTS = (one_file, one_bare_file, a_bare_file_each, torchruns_folders)


def labelled(folder: Path, ranks: int = 8) -> None:
    """All ranks in one file without times; the last one joins at step 100."""
    (folder / "slurm.out").write_text("".join(f"{rank}: {text}\n"
                                              for step, (_, text) in enumerate(stepping(1, 200, 0))
                                              for rank in range(ranks) if rank < ranks - 1 or step >= 100))
