"""What the benches have in common. Importing it goes on in the checkout's .venv and makes its packages
importable. `--help` says what a bench measures, and its options; none fails by time unless it says so."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

TREE = Path(__file__).resolve().parents[2]
VENV = TREE / ".venv/bin/python"
MUSTER = str(VENV.with_name("muster"))
_STARTED = Path(sys.argv[0]).resolve().parent == Path(__file__).resolve().parent
if _STARTED and Path(sys.prefix) != VENV.parent.parent and VENV.exists():
    os.execv(VENV, [str(VENV), *sys.argv])  # noqa: S606
sys.path.insert(0, str(TREE))

PYTHON = f"Python {sys.version.split()[0]}"


def parser(text: str | None, **defaults: Any) -> ArgumentParser:
    """With `text` as its help, and an option for each default: a number, a text, False for a switch, or a
    type where there is none; a list is the numbers N that follow the options."""
    made = ArgumentParser(description=text, formatter_class=RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        option = f"--{name.replace('_', '-')}"
        kind: dict[str, Any] = {"type": type(default), "default": default, "help": "default: %(default)s"}
        if default is False:
            kind = {"action": "store_true"}
        elif isinstance(default, type):
            kind = {"type": default}
        elif isinstance(default, list):
            option, kind = name, {**kind, "type": int, "nargs": "*", "metavar": "N"}
        made.add_argument(option, **kind)
    return made


def busy() -> str:
    """The interpreter and how busy the machine is, in words."""
    return f"{PYTHON}, load average {os.getloadavg()[0]:.1f}"


def _memory(what: str, pid: int | str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))


def peak(pid: int | str = "self") -> int:
    """The most memory that a program has had, in bytes. (getrusage(2) counts its parent's, before exec.)"""
    return _memory("VmHWM:", pid)


def resident() -> int:
    """Memory in use by this process, in bytes."""
    return _memory("VmRSS:", "self")


def cpu(who: int = resource.RUSAGE_SELF) -> float:
    """CPU seconds of this process, or of its children that were waited for."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def cpu_of(pid: int) -> float:
    """CPU seconds of another process."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class Clock:
    """Seconds since it was made or, of a `with` block, that it took: `wall` by the clock, `cpu` of this
    process."""

    def __init__(self) -> None:
        self._began, self._before = time.perf_counter(), time.process_time()
        self._ended: tuple[float, float] | None = None

    def __enter__(self) -> Clock:
        self.__init__()     # type: ignore[misc]
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = time.perf_counter(), time.process_time()

    @property
    def wall(self) -> float:
        return (self._ended[0] if self._ended else time.perf_counter()) - self._began

    @property
    def cpu(self) -> float:
        return (self._ended[1] if self._ended else time.process_time()) - self._before


@dataclass(frozen=True)
class Ran:
    """A process that has ended: its exit status, both outputs in one, seconds, and peak memory in bytes."""

    exit: int
    output: bytes
    wall: float
    cpu: float
    peak: int


def run(argv: list[str], stdin: IO[bytes] | int = subprocess.DEVNULL, **options: Any) -> Ran:
    """Runs a command to its end."""
    began = time.perf_counter()
    with subprocess.Popen(argv, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          **options) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        used = waited(process)
    return Ran(process.returncode, output, time.perf_counter() - began, used.ru_utime + used.ru_stime,
               used.ru_maxrss * 1024)


def waited(process: subprocess.Popen[bytes]) -> resource.struct_rusage:
    """What a process and its children used, once it has ended."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used


def least(argv: list[str], **options: Any) -> Ran:
    """Of three runs the one with the least CPU: what it takes when no one interferes."""
    return min((run(argv, **options) for _ in range(3)), key=lambda one: one.cpu)


def part_of(part: Callable[..., None], *words: object) -> list[str]:
    """The command that runs a part of this bench, with these words, in a process of its own."""
    return [sys.executable, sys.argv[0], "--part", part.__name__, *map(str, words)]


def again(part: Callable[..., None], *words: object) -> str:
    """What that command prints."""
    return subprocess.run(part_of(part, *words), stdout=subprocess.PIPE, text=True, check=True).stdout


def is_part(*parts: Callable[..., None]) -> bool:
    """Runs the part that this process was started for; False where it is the whole bench."""
    if sys.argv[1:2] != ["--part"]:
        return False
    {part.__name__: part for part in parts}[sys.argv[2]](*sys.argv[3:])
    return True
