"""The supervising process: starts the children, waits for them, and sends the reply."""

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
from healthcheck.collector.onnode.devices import DeviceCommand, DeviceLister, DeviceQueue, no_such_driver
from healthcheck.collector.onnode.folder import RunFolder
from healthcheck.collector.onnode.helperchild import HelperChild
from healthcheck.collector.onnode.nvidia import Detector, NvmlProgress, NvmlReader, not_needed
from healthcheck.collector.onnode.reader import Reader, ReaderProgress
from healthcheck.collector.onnode.shortage import (
    FEWEST_FILES,
    RAISE,
    limit,
    own_failure,
    raise_limits,
    short_of,
)
from healthcheck.collector.onnode.system import (
    BLOCK,
    NETWORK,
    ROOT,
    SIGNALS,
    capture,
    clock,
    first_line,
    kill_all,
)

LAST = 5.0              # seconds beyond the probe set's own for building and sending the reply
COMMANDS = 2            # at a time
SOURCE_LIMIT = 8 << 20  # bytes of the NVML reader that is sent on request
SOURCE_S = 10.0
BLOCK_FROM = 1024       # bytes; fewer compress better with the rest


class CollectorRun:
    """The supervising process and its channel to the head."""

    def __init__(self, nonce: str, probes: Dict[str, Any], channel: int) -> None:
        self.nonce = nonce
        self.probes = probes
        raise_limits()
        self.short = short_of()     # what this login may use less of than our programs need
        files = limit("RLIMIT_NOFILE")
        self.tight = "" if files < 0 or files >= FEWEST_FILES else (
            "not started: %s, and %d are needed; %s" % (short_of(("RLIMIT_NOFILE",)), FEWEST_FILES, RAISE))
        self.input = channel
        self.end: float = clock() + probes["seconds"]
        self.budget: Optional[float] = probes.get("cpu_seconds")
        self.exhausted = False  # the kernel ended a child at the budget's end
        self.late: Optional[List[str]] = None   # late probes when the budget was spent
        self.live: List[Child] = []
        self.excluded: List[str] = []    # patterns of network devices of which nothing is read
        self.captures: Dict[str, Dict[str, Any]] = {}
        self.lifeline = -1      # the helper's
        self.incoming, self.outgoing = bytearray(), bytearray()
        self.output, self.piece = 1, 4096   # PIPE_BUF: a ready pipe takes so much without blocking
        self.requested: List[Dict[str, Any]] = []
        self.request_end = 0.0
        self.queue: List[Dict[str, Any]] = []       # commands, in their order
        self.fallbacks: List[Dict[str, Any]] = []      # commands for where the NVML reader has no answer
        self.devices: List[DeviceQueue] = []              # commands that are run once for each device
        self.wake, wake = os.pipe()
        os.set_blocking(wake, False)
        self.poll = select.poll()
        self.poll.register(self.input, select.POLLIN)
        self.poll.register(self.wake, select.POLLIN)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        # Their numbers arrive on the pipe: a handler that exits could lose a child that was just forked.
        for number in (*SIGNALS, signal.SIGCHLD):
            signal.signal(number, lambda number, frame: None)
        # Ends this process if it hangs itself.
        signal.signal(signal.SIGALRM, lambda number, frame: self.abort())
        # The parent process may have blocked some of them.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        signal.setitimer(signal.ITIMER_REAL, probes["seconds"] + LAST)
        self.folder = RunFolder()
        self.reading: Optional[ReaderProgress] = None

    def abort(self) -> NoReturn:
        """Ends all children and this process: no one waits for the reply any more."""
        try:
            kill_all([child.pid for child in self.live])
            for child in self.live:
                if isinstance(child, (Reader, NvmlReader)):
                    child.note_step()
        finally:
            os._exit(1)

    def wait(self, until: float) -> None:
        """Waits for a child's end, the channel or this time."""
        self.poll.register(1, select.POLLOUT if self.outgoing else 0)
        for fd, event in self.poll.poll(max(0.0, until - clock()) * 1000):
            if fd == self.wake:
                if set(os.read(fd, BLOCK)) & set(SIGNALS):
                    self.abort()
            elif fd == self.input:
                data = os.read(fd, BLOCK) if event & select.POLLIN else b""
                if not data:
                    self.abort()
                if self.requested:
                    self.incoming += data
            elif not event & select.POLLOUT:
                # The output's other end was closed.
                self.abort()
            else:
                try:
                    del self.outgoing[:os.write(self.output, self.outgoing[:self.piece])]
                except BlockingIOError:
                    pass
                except BrokenPipeError:
                    self.abort()

    def collect(self, helper: bool = False) -> None:
        """Makes a capture for every probe; with `helper`, the helper makes those that need root."""
        readers = []
        nvidia = []
        rooted = []
        for probe in self.probes["probes"]:
            rooting = helper and probe["root"]
            stuck = self.folder.stuck.get("the helper" if rooting else "probe " + probe["id"])
            if stuck:
                self.fail([probe], "wedged", ("the helper is " if rooting else "") + "wedged " + stuck)
            elif (rooting and self.excluded
                  and any(path.startswith(NETWORK) for path in probe["each"] + probe["paths"])):
                self.fail([probe], "denied", "the root-owned helper cannot leave out devices")
            elif rooting:
                rooted.append(probe)
            elif self.tight and probe["kind"] in ("nvml", "command"):
                self.fail([probe], "unable", self.tight)
            elif probe["kind"] == "nvml" or probe["needs"]:
                nvidia.append(probe)
            elif probe["each"] and no_such_driver(probe["each"]):
                self.captures[probe["id"]] = capture("done", 0.0)
            elif probe["kind"] == "command":
                self.queue.append(probe)
            else:
                readers.append(probe)
        if rooted:
            try:
                HelperChild(self, self.probes["helper"], rooted)
            except OSError as error:
                self.not_started(rooted, error)
        if readers:
            self.reading = ReaderProgress(readers, self.folder.stuck)
            self.read(self.reading)
        if nvidia:
            self.detect_nvidia(nvidia)
        queue = self.queue
        while True:
            self.add_fallbacks()
            # What must run alone runs last.
            queue.sort(key=lambda probe: bool(probe.get("alone")))
            while queue and clock() < self.end and self.may_start(queue[0]):
                probe = queue.pop(0)
                self.start(DeviceLister if probe["each"] else Command, probe)
            for devices in list(self.devices):
                if devices.advance():
                    self.devices.remove(devices)
                    devices.done()
            if not self.live and not self.requested:
                if not (queue and clock() < self.end):
                    break
                continue    # the last devices are done just now, and commands wait for their place
            until = [self.request_end] if self.requested else []
            self.wait(min(until + [child.deadline for child in self.live]))
            for child in list(self.live):
                child.check()
            self.check_budget()
            if self.requested:
                self.take_source()
        self.fail(queue + self.fallbacks, "timeout", "its turn never came")
        for devices in self.devices:
            devices.done()
        if self.late is not None:
            for name, made in self.captures.items():
                stopped = made["outcome"] == "timeout" or made.get("exit") == -signal.SIGXCPU
                if stopped and name not in self.late:
                    made.pop("exit", None)
                    note = "the CPU budget of %g s was spent" % (self.budget or 0.0)
                    made.update(outcome="timeout", note=note)

    def may_start(self, probe: Dict[str, Any]) -> bool:
        """Whether this command may start now."""
        if probe.get("alone"):
            return not (self.live or self.devices or self.requested)
        return self.running() < COMMANDS

    def running(self) -> int:
        """How many commands run now."""
        return sum(isinstance(child, (Command, DeviceLister)) and not isinstance(child, DeviceCommand)
                   for child in self.live) + len(self.devices)

    def spent(self) -> float:
        """CPU seconds of this process and of all children that have ended, with their children."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + ended.ru_utime + ended.ru_stime

    def check_budget(self) -> None:
        """Once the CPU budget is spent, starts nothing more and ends what runs; captures are kept."""
        if (self.budget is None or self.late is not None
            or not (self.exhausted or self.spent() >= self.budget)):
            return
        # An unfinished probe of a reader counts no seconds yet.
        self.late = [name for name, made in self.captures.items() if made["outcome"] == "timeout"
                     and made["seconds"]]
        self.end = clock()
        for child in self.live:
            child.deadline = min(child.deadline, self.end)
        self.fail_request("timeout", "")

    def not_started(self, probes: List[Dict[str, Any]], error: OSError) -> None:
        self.fail(probes, "unable", "no child could be started: %s" % (own_failure(error) or error))

    def fail(self, probes: List[Dict[str, Any]], outcome: str, note: str, seconds: float = 0.0) -> None:
        for probe in probes:
            self.captures[probe["id"]] = capture(outcome, seconds, note=note)

    def start(self, kind: Callable[..., Child], probe: Dict[str, Any], *rest: Any) -> None:
        try:
            kind(self, probe, *rest)
        except OSError as error:
            self.not_started([probe], error)

    def read(self, state: ReaderProgress) -> bool:
        try:
            Reader(self, state)
        except OSError as error:
            self.not_started(state.probes[state.at:], error)
            return False
        return True

    def detect_nvidia(self, probes: List[Dict[str, Any]]) -> None:
        if (os.path.exists(ROOT + "/proc/driver/nvidia/version")
            or os.path.exists(ROOT + "/sys/module/nvidia")):
            self.start_nvidia(probes)
            return
        try:
            Detector(self, probes)
        except OSError as error:
            self.not_started(probes, error)

    def start_nvidia(self, probes: List[Dict[str, Any]]) -> None:
        for probe in probes:
            if probe["kind"] == "nvml":
                self.request(probe)
            elif probe["needs"] == "nvidia-unanswered":
                self.fallbacks.append(probe)
            else:
                self.queue.append(probe)

    def add_fallbacks(self) -> None:
        """Once the NVML reader has ended, queues the second sources, or notes why they are not needed."""
        first = [probe["id"] for probe in self.probes["probes"] if probe["kind"] == "nvml"]
        if not self.fallbacks or any(name not in self.captures for name in first):
            return
        why = [not_needed(self.captures[name]) for name in first]
        if all(why) and why:
            self.fail(self.fallbacks, "missing", why[0])
        else:
            self.queue += self.fallbacks
        self.fallbacks = []

    def request(self, probe: Dict[str, Any]) -> None:
        if not self.requested:
            self.outgoing += ("muster:%s:want nvml\n" % self.nonce).encode()
            self.request_end = min(clock() + SOURCE_S, self.end)
        self.requested.append(probe)

    def take_source(self) -> None:
        head, newline, source = bytes(self.incoming).partition(b"\n")
        size = int(head) if head.isdigit() and newline else -1
        if newline and 0 < size <= SOURCE_LIMIT:
            if len(source) >= size:
                for probe in self.requested:
                    try:
                        NvmlReader(NvmlProgress(self, probe, source[:size]))
                    except OSError as error:
                        self.not_started([probe], error)
                self.requested = []
                return
        elif newline or len(head) > 20:
            self.fail_request("missing", "the NVML reader was not sent")
        if clock() >= self.request_end:
            self.fail_request("timeout", "the NVML reader was requested and never came")

    def fail_request(self, outcome: str, note: str) -> None:
        self.fail(self.requested, outcome, note)
        self.requested = []

    def document(self) -> Dict[str, Any]:
        """The reply, within its limit."""
        uname = os.uname()
        host = {
            "hostname": first_line("/proc/sys/kernel/hostname") or uname.nodename,
            "boot_id": first_line("/proc/sys/kernel/random/boot_id"), "time": time.time(),
            "uid": os.geteuid(), "python": "%d.%d.%d" % sys.version_info[:3], "machine": uname.machine,
            "cpu_s": round(time.process_time() + (self.reading.cpu if self.reading else 0.0), 4),
        }
        tails = {probe["id"] for probe in self.probes["probes"] if probe["tail"]}
        captures = fit(self.captures, self.probes["reply_bytes"] - 4096, tails)
        if self.folder.unsafe:
            host["run_folder"] = self.folder.unsafe
        return {"schema": "muster.reply/2", "host": host, "captures": captures}

    def packed(self) -> bytes:
        """The reply, compressed: a JSON object, then a block for the files of each large capture.

        The block's size stands in place of the files. What a fleet's nodes have in common is the same block
        in all their replies and is parsed once (`healthcheck.collector.reply`).
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
        """Sends everything in one frame."""
        body = self.packed()
        self.outgoing += ("muster:%s:frame %d %s\n"
                          % (self.nonce, len(body), hashlib.sha256(body).hexdigest())).encode() + body
        try:
            if stat.S_ISFIFO(os.fstat(1).st_mode):
                # The same pipe, opened without blocking: it takes at once what it has room for. Fewer pieces
                # mean fewer packets and fewer wake-ups at the other end.
                self.output, self.piece = os.open("/proc/self/fd/1", os.O_WRONLY | os.O_NONBLOCK), 1 << 20
        except OSError:
            pass
        while self.outgoing:
            self.wait(clock() + LAST)


def lower_priority() -> None:
    """Gives way to a training job, and keeps no file system in use."""
    try:
        os.chdir("/")
        os.nice(10)
    except OSError:
        pass


def main(nonce: str, probes: bytes, stdin: BinaryIO) -> None:
    """Captures this probe set (JSON) and replies under the nonce, as long as `stdin` stays open."""
    lower_priority()
    live: List[Child] = []
    status = 1
    try:
        # The probe set is the same for all nodes; the last arguments are this node's own.
        words = sys.argv[2:]
        document = json.loads(probes.decode())
        for word in words:
            if word.startswith("seconds="):
                document["seconds"] = float(word[8:])
        run = CollectorRun(nonce, document, stdin.fileno())
        live = run.live
        run.excluded = [word[8:] for word in words if word.startswith("without=")]
        run.collect(helper="helper" in words and os.geteuid() != 0)
        run.answer()
        status = 0
    except (OSError, MemoryError, ImportError) as error:
        why = own_failure(error)
        if not why:
            raise
        # The head shows the last line.
        os.write(2, ("\nthe collector could not do its work: %s\n" % why).encode("utf-8", "replace"))
    finally:
        kill_all([child.pid for child in live])
    os._exit(status)
