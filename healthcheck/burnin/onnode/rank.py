"""One rank of one task: it joins, waits for the others, does its part and reports. Python 3.8.

A helper thread shows that the process is alive, ends it when the nursery is gone or the time is over, and
reports for it when it is called off.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import threading
import time
from typing import Any, Callable

from healthcheck.burnin.onnode.device import ComputeDevice
from healthcheck.burnin.onnode.environment import conf_files, interface_of, set_for
from healthcheck.burnin.onnode.flight import flight
from healthcheck.burnin.onnode.ncclog import NcclLog
from healthcheck.burnin.onnode.numa import numa_bound
from healthcheck.burnin.onnode.ras import ras
from healthcheck.burnin.onnode.sample import Sampler
from healthcheck.burnin.onnode.slots import Slot
from healthcheck.burnin.onnode.work import WORK
from healthcheck.burnin.params import completed
from healthcheck.burnin.wire import PHASES, Frames, connected, greeted, packed

TICK_S = 0.25
MOST_WRONG = 64         # iterations reported one by one
MOST_TEXT = 400
MOST_FACT_TEXT = 2000
PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """From now on the kernel kills this process when its parent ends, which may already have happened."""
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    except (OSError, AttributeError):
        pass    # the helper thread checks it too
    if os.getppid() != parent:
        os._exit(1)


def one_line(text: Any, most: int = MOST_TEXT) -> str:
    """The text's first line that is not empty, bounded and printable: exceptions often have many."""
    lines = [line.strip() for line in str(text).split("\n") if line.strip()]
    line = lines[0] if lines else ""
    return "".join(char if char.isprintable() else "\\x%02x" % ord(char) for char in line[:most])


class Rank:
    """The state of a rank's work, and what it will report."""

    def __init__(self, task: dict[str, Any], number: int, gpu: int, slot: Slot, channel: socket.socket,
                 settings: dict[str, Any]) -> None:
        self.task, self.number, self.gpu, self.slot, self.channel, self.settings = (
            task, number, gpu, slot, channel, settings)
        self.world: int = task["world"]
        self.seconds = float(task["seconds"])
        # beyond those seconds; the head normally ends it long before
        self.overtime = float(task["overtime"])
        self.params: dict[str, Any] = {}
        self.iteration = -1
        self.phase = 0
        self.figures: dict[str, float] = {}
        self.checksums: dict[str, str] = {}
        self.wrong: list[dict[str, Any]] = []
        self.wrong_total = 0
        self.facts: dict[str, str] = {}
        self.helper_s = 0.0     # CPU of the helper thread
        self.log: Any = None    # NCCL's, once the environment is set
        self.store: Any = None  # of its process group
        self.after_report: Callable[[], None] = lambda: None     # called after the report
        self._send_lock = threading.Lock()
        self._reported = False

    def at(self, phase: str, iteration: int | None = None) -> None:
        """The rank is now in this phase, of this iteration or the same as before."""
        if iteration is not None:
            self.iteration = iteration
        self.phase = PHASES.index(phase)
        self.slot.at(self.iteration, self.phase)

    def pause(self, seconds: float) -> None:
        """Sleeps, and shows that it does so on purpose."""
        end = time.monotonic() + seconds
        while seconds > 0:
            time.sleep(min(seconds, 0.5))
            self.slot.at(self.iteration, self.phase)
            seconds = end - time.monotonic()

    def found_wrong(self, iteration: int, count: int, owners: list[int], own_input: bool, check: str = "",
                    places: list[list[int]] | None = None, inputs: list[int] | None = None) -> None:
        """Records wrong elements: how many, in which check, where, whose, and where in its own input."""
        self.wrong_total += count
        if len(self.wrong) < MOST_WRONG:
            self.wrong.append({"iteration": iteration, "count": count, "owners": owners,
                               "own_input": own_input, "check": check, "places": places or [],
                               "inputs": inputs or []})

    def send(self, message: dict[str, Any]) -> None:
        """Sends a message to the nursery, which forwards it."""
        with self._send_lock:
            self.channel.sendall(packed(message))

    def report(self, end: str, error: str = "") -> None:
        """Sends the report, once."""
        with self._send_lock:
            if self._reported:
                return
            self._reported = True
        facts = {name: one_line(value, MOST_FACT_TEXT) for name, value in self.facts.items() if value}
        self.send({"report": {"task": self.task["id"], "rank": self.number,
                             "report": {"end": end, "figures": self.figures, "checksums": self.checksums,
                                        "wrong": self.wrong, "wrong_total": self.wrong_total, "facts": facts,
                                        "code": None, "error": error,
                                        "last": {"iteration": self.iteration, "phase": PHASES[self.phase]}}}})

    def run_helper(self, parent: int) -> None:
        """The helper thread: ticks, and watches for what ends the rank."""
        end = time.monotonic() + self.seconds + self.overtime
        while True:
            time.sleep(TICK_S)
            # Not sigtimedwait: after SIGSTOP and SIGCONT CPython's answers with a signal that never came.
            called = signal.SIGTERM in signal.sigpending()
            self.slot.tick()
            self.helper_s = time.thread_time()
            if os.getppid() != parent:
                os._exit(1)
            if called or time.monotonic() > end:
                self.facts["flight"] = flight()
                if self.facts.get("backend") == "nccl" and self.task["seats"][0][0] == self.number:
                    self.facts["ras"] = ras()
                self.report("called off",
                            "" if called else "not done after %g s" % (self.seconds + self.overtime))
                os._exit(128 + signal.SIGTERM)

    def wait_for_go(self) -> None:
        """Returns when all ranks of the task have joined."""
        frames = Frames()
        while True:
            data = self.channel.recv(65536)
            if not data:
                os._exit(1)
            if any("go" in message for message in frames.feed(data)):
                return

    def link(self) -> Any:
        """A connection of its own to the head's key server."""
        settings = self.settings
        sock = connected(settings["hosts"], settings["port"])
        return greeted(sock, "rank", settings["node"], settings["run"], settings["token"])

    def work(self) -> None:
        """Everything from the start to the report."""
        self.at("start")
        settings = self.settings
        made = set_for(os.environ, self.task["environment"], settings["gpus"] > 0,
                       interface_of(settings["address"]))
        os.environ.update({"RANK": str(self.number), "WORLD_SIZE": str(self.world),
                           "LOCAL_RANK": str(self.gpu), "MUSTER_NODE": settings["node"]})
        self.facts["environment"] = " ".join("%s=%s" % pair for pair in sorted(made.items()))
        self.facts["scrubbed"] = " ".join(settings["scrubbed"])
        self.facts["nccl_conf"] = "; ".join(conf_files())
        self.log = NcclLog(os.environ)
        device = ComputeDevice(self.gpu)
        if device.cuda:
            self.facts["numa"] = numa_bound(device.address())
        self.params = completed(self.task["kind"], self.task["params"], device.cuda)
        self.facts.update(device.facts())
        sampler = Sampler(self.facts.get("uuid", "")) if device.cuda else None
        self.at("join")
        self.send({"joined": {"task": self.task["id"], "rank": self.number}})
        self.at("wait")
        self.wait_for_go()
        self.at("setup")
        if sampler is not None:
            sampler.start()
        try:
            WORK[self.task["kind"]](self, device)
        finally:
            self.facts.update(self.log.facts())
        if sampler is not None:
            self.figures.update(sampler.figures())
            self.facts.update(sampler.facts)
        self.at("report")


def rank_process(rank: Rank, parent: int) -> int:
    """The main function of a rank's process; returns its exit code."""
    die_with_parent(parent)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    # The helper thread handles it, so that a rank that waits in a collective can report.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    threading.Thread(target=rank.run_helper, args=(parent,), daemon=True).start()
    try:
        rank.work()
    except Exception as error:
        rank.facts["flight"] = flight()
        rank.report("raised", one_line("%s: %s" % (type(error).__name__, error)))
        return 1
    rank.report("done")
    rank.after_report()
    return 0
