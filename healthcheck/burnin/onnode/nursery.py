"""The process that has imported PyTorch once and forks a rank for each GPU of a task; it tells what becomes
of them. Python 3.8.

It never calls CUDA itself, because a process that has cannot fork ranks that do. Frames come in on standard
input and go out on what was standard output. When its input ends it ends its ranks and leaves.
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

from healthcheck.burnin.onnode.look import look
from healthcheck.burnin.onnode.rank import Rank, die_with_parent, one_line, rank_process
from healthcheck.burnin.onnode.slots import MOST_SLOTS, Slot, shared_words
from healthcheck.burnin.wire import Frames, packed

NEWS_S = 0.5
KILL_S = 2.0        # from TERM to KILL
MOST_SAID = 1 << 20     # bytes of a rank's standard error that are kept


class RankProcess:
    """One rank, as its parent sees it."""

    def __init__(self, pid: int, task: str, rank: int, index: int, slot: Slot, channel: socket.socket,
                 said: int) -> None:
        self.pid, self.task, self.rank, self.index, self.slot, self.channel, self.said = (
            pid, task, rank, index, slot, channel, said)
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
    """Starts ranks, watches them and passes on what they say."""

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

    def tell(self, message: dict[str, Any]) -> None:
        """To the agent. Leaves where nobody reads it any more."""
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
        """Until the input ends."""
        news_at = time.monotonic()
        while True:
            due = min([news_at] + [child.kill_at for child in self.live if child.kill_at is not None])
            for key, _ in self.selector.select(max(0.0, due - time.monotonic())):
                if key.fd == self.incoming:
                    data = os.read(self.incoming, 1 << 16)
                    if not data:
                        self.leave()
                    for message in self.frames.feed(data):
                        self.obey(message)
                elif key.fd == self.wake:
                    os.read(self.wake, 4096)
                elif key.data in self.live:
                    self.hear(key.data)
            self.reap()
            now = time.monotonic()
            for child in self.live:
                if child.kill_at is not None and now >= child.kill_at:
                    os.kill(child.pid, signal.SIGKILL)
                    child.kill_at = now + KILL_S
            if now >= news_at:
                self.news()
                news_at = now + NEWS_S

    def obey(self, message: dict[str, Any]) -> None:
        """Does what the head says."""
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
        ours, its = socket.socketpair()
        said = os.memfd_create("rank")
        fcntl.fcntl(said, fcntl.F_SETFL, os.O_APPEND)
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            for thing in (ours, its):
                thing.close()
            os.close(said)
            self.free.append(index)
            self.ended(task["id"], number, 1, None, "no process could be started: %s" % error.strerror)
            return
        if pid == 0:
            code = 70
            try:
                self.let_go(ours, said)
                code = rank_process(Rank(task, number, gpu, slot, its, self.settings), parent)
            except BaseException as error:
                os.write(2, one_line(repr(error)).encode("utf-8", "replace") + b"\n")
            finally:
                os._exit(code)
        its.close()
        child = RankProcess(pid, task["id"], number, index, slot, ours, said)
        self.live.append(child)
        self.selector.register(ours, selectors.EVENT_READ, child)

    def let_go(self, ours: socket.socket, said: int) -> None:
        """In a new rank: nothing of the nursery's stays open, and what it prints goes where its end is looked
        for.
        """
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.selector.close()
        for fd in (self.wake, self.wake_writing, self.incoming, self.outgoing):
            os.close(fd)
        for child in self.live:
            child.channel.close()
            os.close(child.said)
        ours.close()
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.close(said)

    def hear(self, child: RankProcess) -> None:
        """Passes on what a rank says; what is no frame ends the conversation with it, and its process will be
        reaped.
        """
        try:
            data = child.channel.recv(1 << 16)
            messages = child.frames.feed(data)
        except Exception:
            data, messages = b"", []
        for message in messages:
            self.tell(message)
        if not data:
            self.selector.unregister(child.channel)
            child.channel.close()

    def reap(self) -> None:
        """Tells of every rank that has ended, after everything that it said."""
        for child in list(self.live):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if not pid:
                continue
            while child.channel.fileno() >= 0:
                self.hear(child)
            self.news()     # where all were when this one ended
            self.live.remove(child)
            self.free.append(child.index)
            size = os.fstat(child.said).st_size
            said = one_line(b"\n".join(reversed(os.pread(child.said, 4096, max(0, size - 4096)).split(
                                                    b"\n"))).decode("utf-8", "replace"))
            os.close(child.said)
            signalled = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
            # Where it was when it ended tells its own error from one that it shares with all others.
            self.tell(
                {"ranks": [{"task": child.task, "rank": child.rank, **child.slot.told(), "state": "X"}]})
            self.ended(child.task, child.rank, 0 if signalled else os.WEXITSTATUS(status), signalled, said)

    def ended(self, task: str, rank: int, code: int, signalled: int | None, said: str) -> None:
        """waitpid's word, and the last line of what the rank printed."""
        self.tell({"ended": {"task": task, "rank": rank, "code": code, "signal": signalled, "said": said}})

    def news(self) -> None:
        """Where the ranks are."""
        rows = []
        for child in self.live:
            rows.append({"task": child.task, "rank": child.rank, **child.slot.told(),
                         "state": process_state(child.pid)})
            if os.fstat(child.said).st_size > MOST_SAID:
                os.ftruncate(child.said, 0)
        self.tell({"ranks": rows})


def nursery(source: BinaryIO) -> NoReturn:
    """The whole life of the nursery's process.

    `source` is where its text came from, and what it is told next.
    """
    die_with_parent(os.getppid())
    incoming, outgoing = os.dup(source.fileno()), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    found = look()
    told = packed({"up": found})
    while told:
        told = told[os.write(outgoing, told):]
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
    # A task may have come close behind.
    ready.frames = frames
    for message in messages[1:]:
        ready.obey(message)
    ready.run()
