"""Runs tests that were collected once in forks of this process, each of which may first take something
apart."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import packagedrules

AT_ONCE = 2


class Forks:
    """A base for plug-ins that replace pytest's own loop over the tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.why = ""

    def pytest_configure(self) -> None:
        # Imported no earlier: pytest rewrites the asserts of plug-ins as it finds them. Nobody reads the
        # smallest example here.
        from hypothesis import HealthCheck, Phase, settings

        settings.register_profile("mutation", phases=(Phase.explicit, Phase.generate), database=None,
                                  max_examples=30, deadline=None,
                                  suppress_health_check=list(HealthCheck))
        settings.load_profile("mutation")

    def pytest_collection_finish(self) -> None:
        packagedrules.read_anew()       # also by what was taken apart

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.why = str(report.longrepr)[-800:]

    def run(self, items: Sequence[pytest.Item], stop: bool) -> Iterator[str]:
        """Runs the tests, in order, and yields the ids of those that fail."""
        for item, following in zip(items, [*items[1:], None][:len(items)], strict=True):
            self.why = ""
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.why:
                yield item.nodeid
                if stop:
                    return

    def forked(self, jobs: dict[str, Callable[[], dict[str, Any]]],
               limit: float) -> dict[str, dict[str, Any] | None]:
        """Each job in a fork of its own, few at once; None for one that did not end in time."""
        waiting, running, done = list(jobs), {}, {}
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                name = waiting.pop(0)
                pid = self._fork(name or "all", jobs[name])
                running[os.pidfd_open(pid)] = (name, pid, time.monotonic() + limit)
            soonest = min(end for _, _, end in running.values())
            ended, _, _ = select.select(list(running), (), (), max(0.0, soonest - time.monotonic()))
            for descriptor, (name, pid, end) in list(running.items()):
                over = descriptor in ended
                if not over and time.monotonic() < end:
                    continue
                if not over:
                    os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                os.close(descriptor)
                del running[descriptor]
                answer = self.folder / f"{name or 'all'}.json"
                died = {"noticed": "its process died"}
                done[name] = None if not over else json.loads(answer.read_text()) if answer.exists() else died
        return done

    def _fork(self, name: str, job: Callable[[], dict[str, Any]]) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            return pid
        try:
            os.setpgid(0, 0)
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in (1, 2):
                os.dup2(null, descriptor)
            root = self.folder / "tmp" / name
            root.mkdir(parents=True)
            os.environ["PYTEST_DEBUG_TEMPROOT"] = str(root)
            try:
                answer = job()
            except BaseException:  # noqa: BLE001  (the parent must hear of it, whatever it is)
                answer = {"error": traceback.format_exc()[-2000:]}
            (self.folder / f"{name}.json").write_text(json.dumps(answer))
        finally:
            os._exit(0)
