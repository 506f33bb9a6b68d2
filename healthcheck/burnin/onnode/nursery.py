"""The process that imports PyTorch once, forks a rank for each GPU and reports on them. Python 3.8.

It never calls CUDA itself, as no rank could then be forked. Frames arrive on standard input and leave on the
former standard output. When its input ends, it ends its ranks and itself.
"""

from __future__ import annotations

import fcntl
import gc
import os
import selectors
import signal
import socket
import time
from typing import Any, BinaryIO, NoReturn

from healthcheck.burnin.onnode.rank import Rank, die_with_parent, one_line, rank_process
from healthcheck.burnin.onnode.slots import MOST_SLOTS, Slot, shared_words
from healthcheck.burnin.onnode.snapshot import snapshot
from healthcheck.burnin.wire import Frames, packed

POSITIONS_S = 0.5
KILL_S = 2.0        # from TERM to KILL
MOST_OUTPUT = 1 << 20     # bytes of a rank's standard error that are kept


class RankProcess:
    """One rank, as its parent sees it."""

    def __init__(self, pid: int, task: str, rank: int, index: int, slot: Slot, channel: socket.socket,
                 output: int) -> None:
        self.pid, self.task, self.rank, self.index, self.slot, self.channel, self.output = (
            pid, task, rank, index, slot, channel, output)
        self.frames = Frames()
        self.kill_at: float | None = None


def process_state(pid: int) -> str:
    """The letter of /proc/PID/stat, "" where there is none."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            return file.read(512).rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return ""


class Nursery:
    """Starts ranks, watches them and forwards their messages."""

    def __init__(self, incoming: int, outgoing: int, settings: dict[str, Any]) -> None:
        self.incoming, self.outgoing, self.settings = incoming, outgoing, settings
        self.words = shared_words()
        self.free = list(range(MOST_SLOTS))
        self.live: list[RankProcess] = []
        self.frames = Frames()
        self.wake, wake = os.pipe()
        for fd in (self.wake, wake):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self.wake_writing = wake
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self.selector = selectors.DefaultSelector()
        for fd in (self.wake, incoming):
            self.selector.register(fd, selectors.EVENT_READ)

    def send(self, message: dict[str, Any]) -> None:
        """Sends a message to the agent; ends this process where it is gone."""
        data = packed(message)
        try:
            while data:
                data = data[os.write(self.outgoing, data):]
        except OSError:
            self.leave()

    def leave(self) -> NoReturn:
        """Ends all ranks, and then this process."""
        for child in self.live:
            try:
                os.kill(child.pid, signal.SIGKILL)
            except OSError:
                pass
        os._exit(0)

    def run(self) -> NoReturn:
        """Runs until the input ends."""
        news_at = time.monotonic()
        while True:
            due = min([news_at] + [child.kill_at for child in self.live if child.kill_at is not None])
            for key, _ in self.selector.select(max(0.0, due - time.monotonic())):
                if key.fd == self.incoming:
                    data = os.read(self.incoming, 1 << 16)
                    if not data:
                        self.leave()
                    for message in self.frames.feed(data):
                        self.handle(message)
                elif key.fd == self.wake:
                    os.read(self.wake, 4096)
                elif key.data in self.live:
                    self.forward(key.data)
            self.reap()
            now = time.monotonic()
            for child in self.live:
                if child.kill_at is not None and now >= child.kill_at:
                    os.kill(child.pid, signal.SIGKILL)
                    child.kill_at = now + KILL_S
            if now >= news_at:
                self.report_positions()
                news_at = now + POSITIONS_S

    def handle(self, message: dict[str, Any]) -> None:
        """Handles a message of the head."""
        if "task" in message:
            for rank, gpu in message["task"]["seats"]:
                self.start(message["task"], rank, gpu)
        elif "go" in message:
            for child in self.live:
                if child.task == message["go"]:
                    try:
                        child.channel.sendall(packed({"go": True}))
                    except OSError:
                        pass    # it has ended, and will be reaped
        elif "stop" in message:
            for child in self.live:
                if child.task == message["stop"] and child.kill_at is None:
                    os.kill(child.pid, signal.SIGTERM)
                    child.kill_at = time.monotonic() + KILL_S
        elif "leave" in message:
            self.leave()

    def start(self, task: dict[str, Any], number: int, gpu: int) -> None:
        """Forks one rank."""
        if not self.free:
            self.ended(task["id"], number, 1, None, "over %d ranks on one node" % MOST_SLOTS)
            return
        index = self.free.pop(0)
        slot = Slot(self.words, index)
        slot.clear()
        parent_end, child_end = socket.socketpair()
        output = os.memfd_create("rank")
        fcntl.fcntl(output, fcntl.F_SETFL, os.O_APPEND)
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            for thing in (parent_end, child_end):
                thing.close()
            os.close(output)
            self.free.append(index)
            self.ended(task["id"], number, 1, None, "no process could be started: %s" % error.strerror)
            return
        if pid == 0:
            code = 70
            try:
                self.close_inherited(parent_end, output)
                code = rank_process(Rank(task, number, gpu, slot, child_end, self.settings), parent)
            except BaseException as error:
                os.write(2, one_line(repr(error)).encode("utf-8", "replace") + b"\n")
            finally:
                os._exit(code)
        child_end.close()
        child = RankProcess(pid, task["id"], number, index, slot, parent_end, output)
        self.live.append(child)
        self.selector.register(parent_end, selectors.EVENT_READ, child)

    def close_inherited(self, parent_end: socket.socket, output: int) -> None:
        """In a new rank: closes what is the nursery's, and redirects its output to its own file."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.selector.close()
        for fd in (self.wake, self.wake_writing, self.incoming, self.outgoing):
            os.close(fd)
        for child in self.live:
            child.channel.close()
            os.close(child.output)
        parent_end.close()
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)

    def forward(self, child: RankProcess) -> None:
        """Forwards a rank's messages; closes the connection at its end or at a broken frame."""
        try:
            data = child.channel.recv(1 << 16)
            messages = child.frames.feed(data)
        except Exception:
            data, messages = b"", []
        for message in messages:
            self.send(message)
        if not data:
            self.selector.unregister(child.channel)
            child.channel.close()

    def reap(self) -> None:
        """Reports every rank that has ended, after all of its messages."""
        for child in list(self.live):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if not pid:
                continue
            while child.channel.fileno() >= 0:
                self.forward(child)
            self.report_positions()     # positions of all when this one ended
            self.live.remove(child)
            self.free.append(child.index)
            size = os.fstat(child.output).st_size
            output = one_line(b"\n".join(reversed(os.pread(child.output, 4096, max(0, size - 4096)).split(
                                                    b"\n"))).decode("utf-8", "replace"))
            os.close(child.output)
            signalled = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
            # Its last position tells its own error from one shared with all others.
            self.send(
                {"ranks": [{"task": child.task, "rank": child.rank, **child.slot.position(), "state": "X"}]})
            self.ended(child.task, child.rank, 0 if signalled else os.WEXITSTATUS(status), signalled, output)

    def ended(self, task: str, rank: int, code: int, signalled: int | None, output: str) -> None:
        """Reports waitpid's result and the last printed line."""
        self.send({"ended": {
            "task": task, "rank": rank, "code": code, "signal": signalled, "output": output}})

    def report_positions(self) -> None:
        """Reports where the ranks are."""
        rows = []
        for child in self.live:
            rows.append({"task": child.task, "rank": child.rank, **child.slot.position(),
                         "state": process_state(child.pid)})
            if os.fstat(child.output).st_size > MOST_OUTPUT:
                os.ftruncate(child.output, 0)
        self.send({"ranks": rows})


def nursery(source: BinaryIO) -> NoReturn:
    """The process's main function; `source` is its input: its program, then messages."""
    die_with_parent(os.getppid())
    incoming, outgoing = os.dup(source.fileno()), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    found = snapshot()
    data = packed({"up": found})
    while data:
        data = data[os.write(outgoing, data):]
    frames = Frames()
    messages: list[dict[str, Any]] = []
    while not messages:
        data = os.read(incoming, 1 << 16)
        if not data:
            os._exit(0)
        messages = frames.feed(data)
    gc.collect()
    gc.freeze()     # a fork that touches no object copies no page
    ready = Nursery(incoming, outgoing,
                    {**messages[0]["settings"], "gpus": found["gpus"], "scrubbed": found["scrubbed"]})
    # A task may have arrived together with the settings.
    ready.frames = frames
    for message in messages[1:]:
        ready.handle(message)
    ready.run()
