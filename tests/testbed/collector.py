"""The real program on this machine, over pipes: started as a login shell would start it, under a tree of its
own."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from healthcheck.collector import program, reply
from healthcheck.model.probes import MIB, Probe, ProbeSet
from healthcheck.model.recording import Recording
from inventory.transport.base import Failure, Program, Reply, Stage
from inventory.transport.frame import Body, Broken, ExtraRequested, Framer, LoaderStarted

# Not the interpreter of the tests where there is another: what runs on nodes is the system's.
PYTHON = next((path for path in ("/usr/bin/python3",) if Path(path).exists()),
              shutil.which("python3") or "python3")


MARK = "MUSTER_TEST_RUN"


@dataclass
class Running:
    """A program that has been started. `lifeline` is its standard input; closing it must end everything."""

    program: Program
    process: subprocess.Popen[bytes]
    began: float = field(default_factory=time.monotonic)
    answer_to_wants: bool = True

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def hang_up(self) -> None:
        """Closes standard input: the end of the lifeline."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def reply(self, timeout: float = 30.0) -> Reply:
        """Reads until the frame is whole; a failed stage when there is none in time."""
        assert self.process.stdout is not None
        framer = Framer(self.program.nonce, 64 * MIB)
        fd = self.process.stdout.fileno()
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            if not select.select([fd], [], [], left)[0]:
                break
            data = os.read(fd, 65536)
            if not data:
                return self._failed(framer.cut())
            for event in framer.feed(data):
                if isinstance(event, Body):
                    return Reply("node", event.data, None, 0.0, 1.0)
                if isinstance(event, Broken):
                    return self._failed(event.reason)
                if isinstance(event, LoaderStarted) and not event.supported:
                    return self._failed(f"Python {event.version}", Stage.PYTHON)
                if isinstance(event, ExtraRequested) and self.answer_to_wants:
                    extra = self.program.extras.get(event.name, b"")
                    self.send(b"%d\n" % len(extra) + extra)
        return self._failed("no answer in time")

    def recording(self, timeout: float = 30.0) -> Recording:
        """What was recorded; fails the test when there was no answer."""
        recording = reply.decode(self.reply(timeout))
        assert recording.failure is None, recording.failure
        return recording

    @staticmethod
    def _failed(reason: str, stage: Stage = Stage.REPLY) -> Reply:
        return Reply("node", None, Failure(stage, reason), 0.0, 1.0)


@contextmanager
def running(
    probes: Sequence[Probe], root: Path | None = None, *, seconds: float = 20.0, reply_bytes: int = 32 * MIB,
    python: str = PYTHON,
    before: Sequence[str] = (), after: Sequence[str] = (), nvml: bool = True, mark: str = "",
    env: Mapping[str, str] | None = None,
    cpu_seconds: float | None = None,
) -> Iterator[Running]:
    """Starts the program with these probes; in the end it is killed, whatever became of it. `before` are
    words to start it through, `after` those that follow the nonce.

    `root` is the tree that it takes for the machine's; the tools in its /usr/bin come first. By `mark` its
    processes are found again.
    """
    built = program.build(ProbeSet(tuple(probes), seconds, reply_bytes, cpu_seconds=cpu_seconds), nvml=nvml)
    environment = {**os.environ, MARK: mark, **(env or {})}
    if root is not None:
        environment.update(MUSTER_ROOT=str(root), PATH=f"{root}/usr/bin:{environment['PATH']}")
    command = [*before, python, "-I", "-S", "-c", built.loader, built.nonce, *after]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=environment)
    started = Running(built, process)
    try:
        with contextlib.suppress(BrokenPipeError):      # it has ended, and its reply says so
            started.send(built.payload)
        yield started
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()


def collect(probes: Sequence[Probe], root: Path | None = None, *, timeout: float = 30.0,
            **how: object) -> Recording:
    """One whole run: start, answer, end."""
    with running(probes, root, **how) as started:  # type: ignore[arg-type]
        recording = started.recording(timeout)
        started.hang_up()
        started.process.wait(10)
        return recording


def processes_with(mark: str) -> list[int]:
    """Every living process that a run with this mark has started, and the program itself."""
    assert mark
    variable = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                alive = b") Z " not in (entry / "stat").read_bytes()
                if alive and variable in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def await_none_with(mark: str, timeout: float = 5.0) -> None:
    """Waits until nothing with this mark is left; fails the test when something stays."""
    end = time.monotonic() + timeout
    while left := processes_with(mark):
        assert time.monotonic() < end, f"still running: {left}"
        select.select([], [], [], 0.1)
