"""The process that looks after the others: starts them, waits for them, and answers."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import select
import signal
import stat
import sys
import time
import zlib
from typing import Any, BinaryIO, Callable, Dict, List, NoReturn, Optional

from healthcheck.collector.onnode.answer import fit
from healthcheck.collector.onnode.child import Child, Command
from healthcheck.collector.onnode.devices import DeviceCommand, DeviceQueue, Devices
from healthcheck.collector.onnode.folder import RunFolder
from healthcheck.collector.onnode.nvidia import Detect, Nvml, unneeded
from healthcheck.collector.onnode.reader import Reader, ReaderProgress
from healthcheck.collector.onnode.rooted import Helper
from healthcheck.collector.onnode.system import BLOCK, NETWORK, ROOT, SIGNALS, capture, clock, failure, first_line, slay

LAST = 5.0              # seconds beyond the set's own for building and delivering the answer
COMMANDS = 2            # at a time
SOURCE_LIMIT = 8 << 20  # bytes of what is sent to us on request
SOURCE_S = 10.0
BLOCK_FROM = 1024       # bytes; fewer compress better among the rest


class CollectorRun:
    """The process that looks after the others, and the channel."""

    def __init__(self, nonce: str, probes: Dict[str, Any], channel: int) -> None:
        self.nonce = nonce
        self.probes = probes
        self.input = channel
        self.end: float = clock() + probes["seconds"]
        self.budget: Optional[float] = probes.get("cpu_seconds")
        self.exhausted = False  # a child was ended for what was left of it
        self.late: Optional[List[str]] = None   # once the budget is spent: the probes that were late before that
        self.live: List[Child] = []
        self.without: List[str] = []    # patterns of network devices of which nothing is read
        self.captures: Dict[str, Dict[str, Any]] = {}
        self.lifeline = -1      # the helper's
        self.incoming, self.outgoing = bytearray(), bytearray()
        self.output, self.piece = 1, 4096   # as much as a pipe that is ready takes without making us wait (PIPE_BUF)
        self.wanted: List[Dict[str, Any]] = []
        self.wanted_until = 0.0
        self.queue: List[Dict[str, Any]] = []       # commands, in their order
        self.second: List[Dict[str, Any]] = []      # commands for where the NVML reader has no answer
        self.devices: List[DeviceQueue] = []              # commands that are run once for each device
        self.wake, wake = os.pipe()
        os.set_blocking(wake, False)
        self.poll = select.poll()
        self.poll.register(self.input, select.POLLIN)
        self.poll.register(self.wake, select.POLLIN)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        # Their numbers arrive on the pipe: a handler that left at once could do so between a fork and our knowing of the child.
        for number in (*SIGNALS, signal.SIGCHLD):
            signal.signal(number, lambda number, frame: None)
        # Should we ourselves hang, this still gets through.
        signal.signal(signal.SIGALRM, lambda number, frame: self.leave())
        # Whoever started us may have blocked some of them.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        signal.setitimer(signal.ITIMER_REAL, probes["seconds"] + LAST)
        self.folder = RunFolder()
        self.reading: Optional[ReaderProgress] = None

    def leave(self) -> NoReturn:
        """Nobody waits for us any more: ends everything that we started, and us."""
        try:
            slay([child.pid for child in self.live])
            for child in self.live:
                if isinstance(child, Reader):
                    child.remember()
        finally:
            os._exit(1)

    def wait(self, until: float) -> None:
        """Waits for a child's end, the channel or this moment."""
        self.poll.register(1, select.POLLOUT if self.outgoing else 0)
        for fd, event in self.poll.poll(max(0.0, until - clock()) * 1000):
            if fd == self.wake:
                if set(os.read(fd, BLOCK)) & set(SIGNALS):
                    self.leave()
            elif fd == self.input:
                data = os.read(fd, BLOCK) if event & select.POLLIN else b""
                if not data:
                    self.leave()
                if self.wanted:
                    self.incoming += data
            elif not event & select.POLLOUT:
                # The other end of our output was closed.
                self.leave()
            else:
                try:
                    del self.outgoing[:os.write(self.output, self.outgoing[:self.piece])]
                except BlockingIOError:
                    pass
                except BrokenPipeError:
                    self.leave()

    def collect(self, helper: bool = False) -> None:
        """Afterwards every probe has its capture; with `helper`, those that need root have it from the helper."""
        readers = []
        nvidia = []
        rooted = []
        for probe in self.probes["probes"]:
            rooting = helper and probe["root"]
            stuck = self.folder.stuck.get("the helper" if rooting else "probe " + probe["id"])
            if stuck:
                self.captures[probe["id"]] = capture("wedged", note=("the helper is " if rooting else "") + "wedged " + stuck)
            elif rooting and self.without and any(path.startswith(NETWORK) for path in probe["each"] + probe["paths"]):
                note = "the root-owned helper cannot be told what to leave out"
                self.captures[probe["id"]] = capture("denied", note=note)
            elif rooting:
                rooted.append(probe)
            elif probe["kind"] == "nvml" or probe["needs"]:
                nvidia.append(probe)
            elif probe["kind"] == "command":
                self.queue.append(probe)
            else:
                readers.append(probe)
        if rooted:
            try:
                Helper(self, self.probes["helper"], rooted)
            except OSError as error:
                for probe in rooted:
                    self.captures[probe["id"]] = capture("crashed", note="no child could be started: %s" % failure(error)[1])
        if readers:
            self.reading = ReaderProgress(readers, self.folder.stuck)
            self.read(self.reading)
        if nvidia:
            self.look_for_nvidia(nvidia)
        queue = self.queue
        while True:
            self.resolve_second()
            # What must run alone runs last.
            queue.sort(key=lambda probe: bool(probe.get("alone")))
            while queue and clock() < self.end and self.room(queue[0]):
                probe = queue.pop(0)
                self.start(Devices if probe["each"] else Command, probe)
            for turns in list(self.devices):
                if turns.over():
                    self.devices.remove(turns)
                    turns.done()
            if not self.live and not self.wanted:
                if not (queue and clock() < self.end):
                    break
                continue    # the last devices have had their turn just now, and commands wait for their place
            self.wait(min([child.due for child in self.live] + ([self.wanted_until] if self.wanted else [])))
            for child in list(self.live):
                child.check()
            self.mind_the_budget()
            if self.wanted:
                self.take_source()
        for probe in queue + self.second:
            self.captures[probe["id"]] = capture("timeout", note="its turn never came")
        for turns in self.devices:
            turns.done()
        if self.late is not None:
            for name, made in self.captures.items():
                if name not in self.late and (made["outcome"] == "timeout" or made.get("exit") == -signal.SIGXCPU):
                    made.pop("exit", None)
                    made.update(outcome="timeout", note="the CPU budget of %g s was spent" % (self.budget or 0.0))

    def room(self, probe: Dict[str, Any]) -> bool:
        """Whether this command may start now."""
        return not (self.live or self.devices or self.wanted) if probe.get("alone") else self.commands() < COMMANDS

    def commands(self) -> int:
        """How many run now."""
        return sum(isinstance(child, (Command, Devices)) and not isinstance(child, DeviceCommand)
                   for child in self.live) + len(self.devices)

    def spent(self) -> float:
        """CPU seconds of this process and of every child that has ended, with theirs."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + ended.ru_utime + ended.ru_stime

    def mind_the_budget(self) -> None:
        """Once the CPU budget is spent nothing more is started, and what runs is ended; what was captured by then is kept."""
        if self.budget is None or self.late is not None or not (self.exhausted or self.spent() >= self.budget):
            return
        # A reader's probe that goes on counts no seconds yet.
        self.late = [name for name, made in self.captures.items() if made["outcome"] == "timeout" and made["seconds"]]
        self.end = clock()
        for child in self.live:
            child.due = min(child.due, self.end)
        self.unwanted("timeout", "")

    def start(self, kind: Callable[..., Child], probe: Dict[str, Any], *rest: Any) -> None:
        try:
            kind(self, probe, *rest)
        except OSError as error:
            self.captures[probe["id"]] = capture("crashed", note="no child could be started: %s" % failure(error)[1])

    def read(self, state: ReaderProgress) -> bool:
        try:
            Reader(self, state)
        except OSError as error:
            for probe in state.probes[state.at:]:
                self.captures[probe["id"]] = capture("crashed", note="no child could be started: %s" % failure(error)[1])
            return False
        return True

    def look_for_nvidia(self, probes: List[Dict[str, Any]]) -> None:
        if os.path.exists(ROOT + "/proc/driver/nvidia/version") or os.path.exists(ROOT + "/sys/module/nvidia"):
            self.found_nvidia(probes)
            return
        try:
            Detect(self, probes)
        except OSError as error:
            for probe in probes:
                self.captures[probe["id"]] = capture("crashed", note="no child could be started: %s" % failure(error)[1])

    def found_nvidia(self, probes: List[Dict[str, Any]]) -> None:
        for probe in probes:
            if probe["kind"] == "nvml":
                self.want(probe)
            elif probe["needs"] == "nvidia-unanswered":
                self.second.append(probe)
            else:
                self.queue.append(probe)

    def resolve_second(self) -> None:
        """Once the NVML reader has ended, the second sources take their turn, or are told why not."""
        first = [probe["id"] for probe in self.probes["probes"] if probe["kind"] == "nvml"]
        if not self.second or any(name not in self.captures for name in first):
            return
        why = [unneeded(self.captures[name]) for name in first]
        for probe in self.second:
            if all(why) and why:
                self.captures[probe["id"]] = capture("missing", note=why[0])
            else:
                self.queue.append(probe)
        self.second = []

    def want(self, probe: Dict[str, Any]) -> None:
        if not self.wanted:
            self.outgoing += ("muster:%s:want nvml\n" % self.nonce).encode()
            self.wanted_until = min(clock() + SOURCE_S, self.end)
        self.wanted.append(probe)

    def take_source(self) -> None:
        head, newline, source = bytes(self.incoming).partition(b"\n")
        size = int(head) if head.isdigit() and newline else -1
        if newline and 0 < size <= SOURCE_LIMIT:
            if len(source) >= size:
                for probe in self.wanted:
                    self.start(Nvml, probe, source[:size])
                self.wanted = []
                return
        elif newline or len(head) > 20:
            self.unwanted("missing", "the NVML reader was not sent")
        if clock() >= self.wanted_until:
            self.unwanted("timeout", "the NVML reader was asked for and never came")

    def unwanted(self, outcome: str, note: str) -> None:
        for probe in self.wanted:
            self.captures[probe["id"]] = capture(outcome, note=note)
        self.wanted = []

    def document(self) -> Dict[str, Any]:
        """The answer, within its limit."""
        uname = os.uname()
        host = {
            "hostname": first_line("/proc/sys/kernel/hostname") or uname.nodename, "boot_id": first_line("/proc/sys/kernel/random/boot_id"),
            "time": time.time(), "uid": os.geteuid(), "python": "%d.%d.%d" % sys.version_info[:3], "machine": uname.machine,
            "cpu_s": round(time.process_time() + (self.reading.cpu if self.reading else 0.0), 4),
        }
        tails = {probe["id"] for probe in self.probes["probes"] if probe["tail"]}
        captures = fit(self.captures, self.probes["reply_bytes"] - 4096, tails)
        return {"schema": "muster.reply/2", "host": host, "captures": captures}

    def packed(self) -> bytes:
        """The answer, compressed: a JSON object, and after it the files of each capture that has many, the size of which is in their place.

        What a fleet's nodes have in common is then the same block in all their answers, and is read once (`healthcheck.collector.reply`).
        """
        document = self.document()
        blocks = []
        captures = {}
        for name, made in document["captures"].items():
            files = json.dumps(made.get("files"), separators=(",", ":"))
            if len(files) >= BLOCK_FROM:
                blocks.append(zlib.compress(files.encode(), 3))
                made = dict(made, files=len(blocks[-1]))
            captures[name] = made
        text = json.dumps(dict(document, captures=captures), separators=(",", ":"))
        return zlib.compress(text.encode(), 3) + b"".join(blocks)

    def answer(self) -> None:
        """Delivers everything in one frame."""
        body = self.packed()
        self.outgoing += ("muster:%s:frame %d %s\n" % (self.nonce, len(body), hashlib.sha256(body).hexdigest())).encode() + body
        try:
            if stat.S_ISFIFO(os.fstat(1).st_mode):
                # The same pipe, opened as ours alone: it takes at once what it has room for, and never makes us wait. Each piece less is
                # a packet less on the way, and a turn less for all who wait at the other end.
                self.output, self.piece = os.open("/proc/self/fd/1", os.O_WRONLY | os.O_NONBLOCK), 1 << 20
        except OSError:
            pass
        while self.outgoing:
            self.wait(clock() + LAST)


def step_aside() -> None:
    """A training job comes first, and no file system is held in use."""
    try:
        os.chdir("/")
        os.nice(10)
    except OSError:
        pass


def main(nonce: str, probes: bytes, stdin: BinaryIO) -> None:
    """Captures this probe set (JSON) and answers under the nonce; `stdin` is open for as long as somebody waits for us."""
    step_aside()
    run = CollectorRun(nonce, json.loads(probes.decode()), stdin.fileno())
    try:
        # The probe set is the same for all nodes; what holds for this one alone are the last words on the command line.
        words = sys.argv[2:]
        run.without = [word[8:] for word in words if word.startswith("without=")]
        run.collect(helper="helper" in words and os.geteuid() != 0)
        run.answer()
    finally:
        slay([child.pid for child in run.live])
    os._exit(0)
