"""The process that sweeps for an exporter (`--every`): a `muster check --every --store` of its own,
so that a sweep delays no scrape."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

# The child ends when the exporter does, however that ends: Linux' prctl(2), PR_SET_PDEATHSIG = 1. Files in
# the working folder are not imported.
_CHILD = """\
import sys
sys.path[:] = [entry for entry in sys.path if entry]
import ctypes, os, signal
ctypes.CDLL(None).prctl(1, int(signal.SIGTERM))
if os.getppid() != int(sys.argv.pop(1)):
    sys.exit(0)
from healthcheck.cli.main import main
main()
"""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 2.0, 300.0
_WELL_S = 60.0          # a child that ran this long is restarted at once
_END_S = 15.0


class Sweeper:
    """Starts `muster check` with these arguments, and restarts it when it ends, with growing delays."""

    def __init__(self, words: Sequence[str]) -> None:
        self._argv = [sys.executable, "-c", _CHILD, str(os.getpid()), "check", *words]
        self._child: subprocess.Popen[bytes] | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweeper", daemon=True)
        self.starts = 0

    @property
    def runs(self) -> bool:
        """Whether it runs now."""
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int:
        """Its process, 0 where there is none."""
        return self._child.pid if self._child is not None else 0

    def start(self) -> None:
        """Starts the thread that keeps it running."""
        self._thread.start()

    def stop(self) -> None:
        """Stops it and waits for its end."""
        self._ending.set()
        self._thread.join(_END_S + 5)

    def _run(self) -> None:
        wait = _FIRST_WAIT_S
        while not self._ending.is_set():
            began = time.monotonic()
            self.starts += 1
            self._child = subprocess.Popen(self._argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            self._followed(self._child)
            if self._ending.is_set():
                return
            wait = _FIRST_WAIT_S if time.monotonic() - began > _WELL_S else min(wait * 2, _LONGEST_WAIT_S)
            print(f"muster: exporter: the sweeps ended with {self._child.returncode}; again in {wait:g} s",  # noqa: T201
                  file=sys.stderr)
            self._ending.wait(wait)

    def _followed(self, child: subprocess.Popen[bytes]) -> None:
        while not self._ending.is_set():
            try:
                child.wait(0.5)
                return
            except subprocess.TimeoutExpired:
                continue
        child.terminate()
        try:
            child.wait(_END_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
