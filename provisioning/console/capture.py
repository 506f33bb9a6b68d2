"""Captures the consoles of machines, each in a thread of its own, for as long as someone wants it. A lost
session is begun again, with growing pauses and a note; why not is said once a reason. A controller that
refused the login is not asked again: accounts lock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from inventory.errors import MusterError
from inventory.model import Node
from inventory.text import clean
from provisioning.console.choose import opened
from provisioning.console.lines import ConsoleLines
from provisioning.console.log import CaptureMark, ConsoleLog
from provisioning.console.source import ConsoleSource, ConsoleUnavailable

_READ_S = 1.0
_FIRST_S, _MOST_S = 2.0, 60.0
_QUIET_S = 2.0              # a line that did not end for so long is shown as it is: a prompt
_END_S = 15.0               # for how long a run waits at its end for sessions to be ended
MOST_A_MINUTE = 128 << 10   # bytes of one machine; what is above is left out, and said
Open: TypeAlias = Callable[[Node, Path], ConsoleSource]


class ConsoleCapture:
    """One machine's."""

    def __init__(self, node: Node, folder: Path, *, open_source: Open = opened,
                 on_lines: Callable[[list[str]], None] | None = None) -> None:
        self.node = node
        self._folder, self._open, self._on_lines = folder, open_source, on_lines or (lambda lines: None)
        self._stop = threading.Event()
        self._why = ""
        self._minute, self._bytes = 0.0, 0
        self._thread = threading.Thread(target=self._run, name=f"console {node.name}", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def end(self) -> None:
        """Asks for the end; `join` waits for it."""
        self._stop.set()

    def join(self, seconds: float) -> None:
        """Waits until its session is ended."""
        self._thread.join(seconds)

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            log = self._log()
        except (OSError, MusterError):
            return          # nothing can be written here
        if log is None:
            return
        try:
            self._capture(log)
        except OSError:
            return          # such as a full disk: no reason to disturb what is done to the machine
        except Exception as error:  # noqa: BLE001  (ours; its words may hold anything)
            self._unavailable(log, f"a defect of muster: {type(error).__name__}", begun=False)
        finally:
            log.close()

    def _log(self) -> ConsoleLog | None:
        """The log, once no other process has it: one that captures this machine, or looks whether one does.
        None where the end came first. Raises UsageError, OSError."""
        while not self._stop.is_set():
            try:
                return ConsoleLog(self._folder, self.node.name)
            except BlockingIOError:
                self._stop.wait(_FIRST_S)
        return None

    def _capture(self, log: ConsoleLog) -> None:
        pause, begun = _FIRST_S, False
        while not self._stop.is_set():
            try:
                source = self._open(self.node, self._folder)
            except ConsoleUnavailable as error:
                self._unavailable(log, error.message, begun=begun)
                if not error.passing or self._stop.wait(pause):
                    break
                pause = min(_MOST_S, pause * 2)
                continue
            log.mark(CaptureMark.AGAIN if begun else CaptureMark.BEGUN, source.way, time.time())
            begun, self._why = True, ""
            started = time.monotonic()
            try:
                self._follow(log, source)
            except ConsoleUnavailable as error:
                self._unavailable(log, error.message, begun=True)
            finally:
                source.close()
            pause = _FIRST_S if time.monotonic() - started > _MOST_S else min(_MOST_S, pause * 2)
            self._stop.wait(pause)
        if begun:
            log.mark(CaptureMark.ENDED, "the capture", time.time())

    def _follow(self, log: ConsoleLog, source: ConsoleSource) -> None:
        lines, heard = ConsoleLines(), time.monotonic()
        try:
            while not self._stop.is_set():
                data = source.read(_READ_S)
                if data:
                    heard = time.monotonic()
                    self._keep(log, lines.feed(data), len(data))
                elif time.monotonic() - heard > _QUIET_S:
                    self._keep(log, lines.rest(), 0)
        finally:
            self._keep(log, lines.rest(), 0)

    def _keep(self, log: ConsoleLog, lines: list[str], size: int) -> None:
        now = time.monotonic()
        if now - self._minute >= 60:
            self._minute, self._bytes = now, 0
        before, self._bytes = self._bytes, self._bytes + size
        if before > MOST_A_MINUTE:
            return
        if lines:
            log.write(lines, time.time())
            self._on_lines(lines)
        if self._bytes > MOST_A_MINUTE:
            log.mark(CaptureMark.CUT, f"over {MOST_A_MINUTE >> 10} KiB in a minute; the rest is not kept",
                     time.time())

    def _unavailable(self, log: ConsoleLog, why: str, *, begun: bool) -> None:
        if why != self._why:
            log.mark(CaptureMark.GAP if begun else CaptureMark.MISSING, clean(why, 200), time.time())
            self._why = why


class ConsoleCaptures:
    """Those of a run, at most so many at a time; whoever finds no place is said to be missing."""

    def __init__(self, folder: Path, at_once: int, *, open_source: Open = opened) -> None:
        self._folder, self._at_once, self._open = folder, at_once, open_source
        self._lock = threading.Lock()
        self._captures: dict[str, ConsoleCapture] = {}
        self._ending: list[ConsoleCapture] = []
        self._without: set[str] = set()

    def begin(self, node: Node) -> None:
        """Has this machine's console captured, unless it is; returns at once."""
        with self._lock:
            if node.name in self._captures:
                return
            self._ending = [one for one in self._ending if one.running]
            if len(self._captures) >= self._at_once:
                if node.name not in self._without:
                    self._without.add(node.name)
                    self._no_place(node)
                return
            self._without.discard(node.name)
            capture = self._captures[node.name] = ConsoleCapture(node, self._folder, open_source=self._open)
        capture.start()

    def end(self, name: str) -> None:
        """Ends this machine's; returns at once."""
        with self._lock:
            capture = self._captures.pop(name, None)
            if capture is not None:
                capture.end()
                self._ending.append(capture)

    def close(self) -> None:
        """Ends all, and waits until their sessions are ended."""
        for name in list(self._captures):
            self.end(name)
        end = time.monotonic() + _END_S
        for capture in self._ending:
            capture.join(max(0.0, end - time.monotonic()))

    def _no_place(self, node: Node) -> None:
        try:
            log = ConsoleLog(self._folder, node.name)
        except (OSError, MusterError):
            return
        try:
            log.mark(CaptureMark.MISSING, f"{self._at_once} consoles are captured already, as many as "
                     "`console: {at_once}` of bringup.yaml has at a time", time.time())
        finally:
            log.close()
