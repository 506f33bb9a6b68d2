"""Runs the tests in forks of the process that has read them: `--workers=N`.

They are read once instead of once a worker, and no result is written out and read again as text. A file's
tests stay together, since they share what their fixtures start; a free worker takes the next file. What ends
a worker fails the test it was at, and another goes on.
"""

from __future__ import annotations

import os
import random
import sys
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=0, metavar="N",
                     help="run the tests of N files at a time, in forks of this process")


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    if not session.config.option.workers or session.config.option.collectonly or session.testsfailed:
        return None
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    reporter.showfspath = False     # of several files at a time
    _Loop(session).run()
    return True


@dataclass
class _Worker:
    """One fork, as the process that reads the tests sees it."""

    pid: int
    line: Connection
    items: deque[int] = field(default_factory=deque)    # what is left to it of its file


class _Loop:
    def __init__(self, session: pytest.Session) -> None:
        self.session, self.hook = session, session.config.hook
        session.config._tmp_path_factory.getbasetemp(
        )  # type: ignore[attr-defined]  # whoever asks first empties it
        numbers = range(len(session.items))
        files = groupby(numbers, key=lambda number: session.items[number].nodeid.partition("::")[0])
        self.files = deque(deque(file) for _, file in files)
        self.workers: list[_Worker] = []

    def run(self) -> None:
        try:
            for _ in range(min(self.session.config.option.workers, len(self.files))):
                self.start()
            while self.workers:
                lines = {worker.line: worker for worker in self.workers}
                for line in wait(list(lines)):
                    self.hear(lines[line])      # type: ignore[index]
        finally:
            for worker in self.workers:
                worker.line.close()
                os.waitpid(worker.pid, 0)
        for stop, kind in ((self.session.shouldfail, self.session.Failed),
                           (self.session.shouldstop, self.session.Interrupted)):
            if stop:
                raise kind(stop)

    def start(self) -> None:
        ours, theirs = Pipe()
        pid = os.fork()
        if pid == 0:
            for each in (ours, *(worker.line for worker in self.workers)):
                each.close()
            _work(self.session, theirs)
        theirs.close()
        self.workers.append(_Worker(pid, ours))

    def hear(self, worker: _Worker) -> None:
        """Takes what a worker says: that it is free, the reports of a test, or nothing any more."""
        ended = False
        try:
            said = worker.line.recv()
            if said is None:
                stopped = self.session.shouldfail or self.session.shouldstop
                worker.items = self.files.popleft() if self.files and not stopped else deque()
                worker.line.send(list(worker.items))
                return
        except (EOFError, OSError):
            ended = True
        if ended:       # not in there: what fails in the next worker has nothing to do with it
            self.ended(worker)
            return
        for one in said:
            report = one if isinstance(one,
                                       pytest.TestReport) else self.hook.pytest_report_from_serializable(
                                           config=self.session.config, data=one)
            self.hook.pytest_runtest_logreport(report=report)
        worker.items.popleft()
        self.hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)

    def ended(self, worker: _Worker) -> None:
        self.workers.remove(worker)
        worker.line.close()
        _, status = os.waitpid(worker.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if worker.items:
            self.fail(worker.items.popleft(), f"the worker ended with {code} in this test")
            if worker.items:
                self.files.appendleft(worker.items)
            if self.files:
                self.start()
        elif code:
            self.fail(len(self.session.items) - 1,
                      f"what belongs to a whole run was not cleared up: a worker ended with {code}")

    def fail(self, number: int, reason: str) -> None:
        item = self.session.items[number]
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", reason, "call")
        self.hook.pytest_runtest_logreport(report=report)


def _work(session: pytest.Session, line: Connection) -> None:
    """This process is a worker, and does not return."""
    code = 1
    try:
        _become_worker(session, line.send)
        while True:
            line.send(None)
            numbers = line.recv()
            if not numbers:
                break
            items = [session.items[number] for number in numbers]
            # A file's last test is followed by none, but what belongs to the whole run stays.
            for item, following in zip(items, (*items[1:], session), strict=True):
                item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.shouldfail or session.shouldstop:
                    break
        code = 0
    except (KeyboardInterrupt, EOFError, BrokenPipeError):      # as the others, too
        code = 0
    except BaseException:  # noqa: BLE001  (printed, as Python would)
        traceback.print_exc(file=sys.__stderr__)
    try:
        session._setupstate.teardown_exact(None)
    except BaseException:  # noqa: BLE001
        traceback.print_exc(file=sys.__stderr__)
        code = 1
    finally:
        with suppress(BaseException):
            session.config.pluginmanager.getplugin("capturemanager").stop_global_capturing()
            sys.__stderr__.flush()      # type: ignore[union-attr]
        os._exit(code)


def _become_worker(session: pytest.Session, send: Callable[[Any], None]) -> None:
    """Output, folders and chance are this process's own, and its reports are sent."""
    config = session.config
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()     # else all workers would share its file
    capture.start_global_capturing()
    random.seed()
    factory = config._tmp_path_factory      # type: ignore[attr-defined]
    factory._basetemp = factory.mktemp("worker")
    reporter = config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(_Sender(config, send, reporter._tw), "terminalreporter")


@dataclass(eq=False)
class _Sender:
    """Stands in for the terminal: nothing is printed by a worker, except where a test is over its time."""

    config: pytest.Config
    send: Callable[[Any], None]
    _tw: Any
    reports: list[Any] = field(default_factory=list)    # of a test that is not over

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        whole = report.longrepr is None     # else it holds what cannot be sent as it is
        self.reports.append(report if whole
                            else self.config.hook.pytest_report_to_serializable(config=self.config,
                                                                                report=report))
        if report.when == "teardown":
            self.send(self.reports)
            self.reports = []
