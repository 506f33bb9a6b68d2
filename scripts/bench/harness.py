"""What the benches have in common. Importing it goes on in the checkout's .venv and makes its packages
importable."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
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
    """With `text` as its help, and an option for each default: a number, a text, or False for a switch."""
    made = ArgumentParser(description=text, formatter_class=RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        kind: dict[str, Any] = {"type": type(default), "default": default}
        if default is False:
            kind = {"action": "store_true"}
        made.add_argument(f"--{name.replace('_', '-')}", **kind)
    return made


def busy() -> str:
    """The interpreter and how busy the machine is, in words."""
    return f"{PYTHON}, load average {os.getloadavg()[0]:.1f}"


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


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


def again(*words: str) -> str:
    """What this bench prints when it is started with these words, in a process of its own."""
    return subprocess.run([sys.executable, sys.argv[0], *words], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
