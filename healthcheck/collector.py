"""The program that runs on a node: captures what the probe set asks for and prints one bounded, checksummed answer.

It is not imported there: the loader (`healthcheck.program`) compiles its text with three names set, NONCE, PROBES (the probe
set as JSON) and STDIN (the standard input, open for as long as somebody waits for us). Python 3.8, standard library only, and
few imports, because it runs beside a training job and its start is most of what it costs.

One process that never blocks looks after children that may: one reader for files, mounts and the clock, at most two commands,
one NVML reader. A child writes to a memory file, so that nobody has to drain it, and what it wrote outlives it. The end of
standard input, a signal or the end of our time kills them all.
"""

from __future__ import annotations

import errno
import fnmatch
import hashlib
import itertools
import json
import os
import resource
import select
import signal
import stat
import sys
import time
import zlib

TYPE_CHECKING = False   # the typing module costs more to load than most of this program
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

GRACE = 0.5             # seconds that a killed child is given to die
LAST = 10.0             # seconds beyond the set's own for building and delivering the answer
COMMANDS = 2            # commands at a time
RESPAWNS = 8            # readers that may hang before we stop trying
ENTRIES = 16384         # entries of a probe, or names in a directory
MOST_MOUNTS = 4096
STDERR = 4096
LATE = 0.1              # seconds in which the reader itself may say that a probe's time is over
KMSG_RECORD = 16384     # above the kernel's longest record (8192)
EXTRA_LIMIT = 8 << 20   # of what is sent to us on request
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
NVIDIA = "10DE"
DISPLAY = ("30000", "30200")

NONCE: str = globals()["NONCE"]
PROBES: bytes = globals()["PROBES"]
ROOT = os.environ.get("MUSTER_ROOT", "/").rstrip("/")
clock = time.monotonic
live: list[Child] = []
captures: dict[str, dict[str, Any]] = {}


class Child:
    """A process of ours, leader of its own session, with the memory files that it writes to, and when it is overdue.

    `run` happens in the child, whose standard output and error are `err`. `failed` ends when the child executes a program
    or ends; before that it may say the number of the error that kept it from executing.
    """

    def __init__(self, key: str, due: float, run: Callable[[Child], None]) -> None:
        self.key = key
        self.began = clock()
        self.due = due
        self.killed = 0.0
        self.status = 0
        self.cpu = 0.0
        self.out = memory()
        self.err = memory()
        self.failed, self.fail = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                os.setsid()
                signal.set_wakeup_fd(-1)
                # Python ignores two of these, and what is ignored stays ignored in the program that a child becomes.
                for number in (*SIGNALS, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
                    signal.signal(number, signal.SIG_DFL)
                # Our ends of the channel must not live on in a child that outlives us: sshd would wait for it.
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(self.err, 1)
                os.dup2(self.err, 2)
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                run(self)
                os._exit(0)
            except BaseException as error:
                os.write(2, ("%s: %s" % (type(error).__name__, error)).encode("utf-8", "replace"))
            finally:
                os._exit(70)
        os.close(self.fail)
        live.append(self)

    def kill(self) -> None:
        self.killed = self.killed or clock()
        slay([self.pid])

    def reap(self) -> bool:
        """Whether it has ended. Its whole process group goes with it, before its number is free for others."""
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return False
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except OSError:
            pass
        _, status, usage = os.wait4(self.pid, 0)
        self.status = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        self.cpu = usage.ru_utime + usage.ru_stime
        live.remove(self)
        drop_record(self.pid)
        return True

    def abandon(self) -> str:
        live.remove(self)
        kept = put_record(self, 0)
        return "cannot be killed (pid %d, state %s)%s" % (
            self.pid, process(self.pid)[0] or "?", "" if kept else ", and no folder of ours to remember it in",
        )

    def close(self) -> None:
        for fd in (self.out, self.err, self.failed):
            os.close(fd)


def memory() -> int:
    try:
        return os.memfd_create("muster")
    except (AttributeError, OSError):
        import tempfile
        fd, path = tempfile.mkstemp()
        os.unlink(path)
        return fd


def process(pid: int) -> tuple[str, int, int]:
    """State, session and start time (clock ticks since boot) of a process; an empty state if there is none."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            words = file.read().rpartition(b")")[2].split()
        return words[0].decode(), int(words[3]), int(words[19])
    except (OSError, IndexError, ValueError):
        return "", 0, 0


def slay(leaders: list[int]) -> None:
    """Kills the sessions of these leaders: a child's child may have made itself a process group, as timeout(1) does."""
    for pid in leaders:
        for kill in (os.kill, os.killpg):
            try:
                kill(pid, signal.SIGKILL)
            except OSError:
                pass
    for name in os.listdir("/proc") if leaders else ():
        if name.isdigit() and process(int(name))[1] in leaders:
            try:
                os.kill(int(name), signal.SIGKILL)
            except OSError:
                pass


def leave() -> NoReturn:
    """Nobody waits for us any more: ends everything that we started, and us."""
    try:
        slay([child.pid for child in live])
        for child in live:
            put_record(child, 0)
    finally:
        os._exit(1)


# Children of an earlier run that are still there, by one small file for each.
def run_folder() -> int | None:
    """A folder that only we may write to, as a descriptor; None if there is none to be had."""
    uid = os.geteuid()
    for path in ("/run/muster", os.environ.get("XDG_RUNTIME_DIR", "") + "/muster", "/tmp/muster-%d" % uid):  # noqa: S108
        if path == "/muster":
            continue
        try:
            os.mkdir(ROOT + path, 0o700)
        except OSError:
            pass
        try:
            fd = os.open(ROOT + path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        found = os.fstat(fd)
        if found.st_uid == uid and not found.st_mode & 0o022 and os.access(ROOT + path, os.W_OK):
            return fd
        os.close(fd)
    return None


def put_record(child: Child, seconds: float) -> bool:
    """Notes what a child is at, and for how long it may be; 0 once it has been killed."""
    record = {"key": child.key, "start": process(child.pid)[2], "began": time.time() - (clock() - child.began), "seconds": seconds}
    try:
        if folder is None:
            return False
        fd = os.open("child-%d" % child.pid, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600, dir_fd=folder)
        os.write(fd, json.dumps(record).encode())
        os.close(fd)
        return True
    except OSError:
        return False


def drop_record(pid: int) -> None:
    if folder is not None:
        try:
            os.unlink("child-%d" % pid, dir_fd=folder)
        except OSError:
            pass


def predecessors() -> dict[str, str]:
    """What must not be started or touched again, by probe id or path: a child of an earlier run is past its limit on it.

    A process is the one that was recorded if its start time is, too. Another sweep's child within its limit is none of these.
    """
    found: dict[str, str] = {}
    if folder is None:
        return found
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    for name in os.listdir(folder)[:ENTRIES]:
        if not name.startswith("child-"):
            continue
        try:
            pid = int(name[6:])
            with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder), "rb") as file:
                record = json.loads(file.read(65536))
            key, start, seconds = str(record["key"]), record["start"], float(record["seconds"])
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record["began"]))
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            continue
        state, _, ticks = process(pid)
        if state in ("", "Z", "X") or ticks != start:
            drop_record(pid)
        elif now - ticks / os.sysconf("SC_CLK_TCK") > seconds + GRACE:
            # Its own collector may have been killed before it could do this.
            slay([pid])
            found[key] = "since %s (pid %d)" % (since, pid)
    return found


class Job:
    """Something that needs a child: at most one at a time, looked at when it ends and when it is overdue."""

    child: Child | None = None
    over = False

    def step(self, now: float) -> None:
        child = self.child
        if child is None:
            return
        note = ""
        if not child.reap():
            if not child.killed:
                if now >= child.due and self.overdue(child, now):
                    child.kill()
                return
            if now < child.killed + GRACE:
                return
            note = child.abandon()
        self.child = None
        self.ended(child, note)
        child.close()

    def wake(self) -> float:
        """When to look next, if nothing happens before."""
        child = self.child
        return end if child is None else child.killed + GRACE if child.killed else child.due

    def overdue(self, child: Child, now: float) -> bool:
        return True

    def ended(self, child: Child, note: str) -> None:
        """`note` says that it did not end, but cannot be killed."""


# What a child of its own does: a program, or the NVML reader.
class Single(Job):
    """A probe whose capture is what one child wrote."""

    def __init__(self, probe: dict[str, Any]) -> None:
        self.probe = probe
        self.began = clock()

    def start(self) -> None:
        self.began = clock()
        if self.probe["id"] in wedged:
            self.finish("wedged", wedged[self.probe["id"]])
        else:
            self.launch()

    def launch(self) -> None:
        self.spawn(self.execute)

    def spawn(self, run: Callable[[Child], None]) -> None:
        self.child = Child(self.probe["id"], min(self.began + self.probe["seconds"], end), run)
        put_record(self.child, self.probe["seconds"])

    def finish(self, outcome: str, note: str = "", **more: Any) -> None:
        capture(self.probe, outcome, self.began, note, **more)
        self.over = True

    def bound(self) -> None:
        """The kernel ends whoever writes more than one byte past the limit to a file, ours included."""
        size = max(self.probe["limit"], 4 * STDERR) + 1
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (size if hard < 0 else min(size, hard), hard))

    def execute(self, child: Child) -> None:
        argv = self.probe["argv"]
        self.bound()
        os.dup2(child.out, 1)
        folders = [ROOT + path for path in ("/usr/sbin", "/sbin", "/usr/local/sbin")]
        environment = dict(os.environ, LC_ALL="C", LANG="C", PATH=":".join([os.environ.get("PATH", os.defpath), *folders]))
        try:
            os.execvpe(argv[0], argv, environment)  # noqa: S606
        except OSError as error:
            os.write(child.fail, b"%d" % (error.errno or errno.EIO))

    def ended(self, child: Child, note: str) -> None:
        limit = self.probe["limit"]
        size = os.fstat(child.out).st_size
        errors = os.fstat(child.err).st_size
        more: dict[str, Any] = {
            "bytes": size, "text": text(os.pread(child.out, limit, max(0, size - limit) if self.probe["tail"] else 0)),
            "stderr": text(os.pread(child.err, STDERR, max(0, errors - STDERR))),
        }
        failed = b"" if note else os.read(child.failed, 16)
        if note:
            self.finish("wedged", note, **more)
        elif failed:
            self.finish(*failure(int(failed)))
        elif size > limit or child.status == -signal.SIGXFSZ:
            self.finish("truncated", **more)
        elif child.killed:
            self.finish("timeout", **more)
        elif child.status < 0 or (child.status and self.probe["kind"] != "command"):
            self.finish("crashed", exit=child.status, **more)
        elif self.probe["kind"] == "command":
            self.finish("done", exit=child.status, **more)
        else:
            self.finish("done", **more)


class Nvml(Single):
    """Asks for the NVML reader's source where there is an NVIDIA device, and runs it in a child."""

    looked = False
    extra: bytearray | None = None      # what has arrived of the source, while it is awaited

    def launch(self) -> None:
        if os.path.exists(ROOT + "/proc/driver/nvidia/version") or os.path.exists(ROOT + "/sys/module/nvidia"):
            self.ask()
        else:
            self.spawn(self.look)

    def look(self, child: Child) -> None:
        """In a child: whether a GPU of NVIDIA's is on the PCI bus, though no driver is loaded."""
        devices = ROOT + "/sys/bus/pci/devices"
        for name in os.listdir(devices) if os.path.isdir(devices) else ():
            try:
                with open("%s/%s/uevent" % (devices, name), encoding="latin-1") as file:
                    fields = dict(line.rstrip("\n").partition("=")[::2] for line in file)
            except OSError:
                continue
            if fields.get("PCI_ID", "").upper().startswith(NVIDIA + ":") and fields.get("PCI_CLASS", "").lstrip("0") in DISPLAY:
                os.write(child.out, b"+")
                return

    def ask(self) -> None:
        self.extra = bytearray()
        say("want nvml")

    def receive(self, data: bytes) -> None:
        if self.extra is None:
            return
        self.extra += data
        head, newline, body = bytes(self.extra).partition(b"\n")
        if not newline and len(head) < 9:
            return
        size = int(head) if head.isdigit() and len(head) < 9 else 0
        if not 0 < size <= EXTRA_LIMIT:
            self.extra = None
            self.finish("missing", "no NVML reader was sent")
        elif len(body) >= size:
            self.extra = None
            self.sent = body[:size]
            self.spawn(self.read)

    def read(self, child: Child) -> None:
        self.bound()
        source, _, binding = zlib.decompressobj().decompress(self.sent, EXTRA_LIMIT).partition(b"\0")
        exec(compile(source, "muster-nvml", "exec"), {"__name__": "muster-nvml", "PYNVML": binding, "OUT": child.out})

    def step(self, now: float) -> None:
        if self.extra is not None and now >= self.wake():
            self.extra = None
            self.finish("timeout", "the NVML reader was asked for, but did not arrive")
        Single.step(self, now)

    def wake(self) -> float:
        return min(self.began + self.probe["seconds"], end) if self.extra is not None else Single.wake(self)

    def ended(self, child: Child, note: str) -> None:
        if self.looked or note or child.killed or child.status:
            Single.ended(self, child, note)
        elif os.fstat(child.out).st_size:
            self.looked = True
            self.ask()
        else:
            self.finish("missing", "no NVIDIA device")


# The reader child: everything that may hang on one file or one mount.
class Reader(Job):
    """Reads what FILES, MOUNTS and CLOCK probes ask for, in order; what hangs costs one entry and one child.

    The child appends messages to its memory file: `begin` before it touches something, then what it found. The parent looks
    only when the child has ended or when the last `begin` it saw may be overdue, so a healthy node costs no wake-ups.
    """

    def __init__(self, probes: list[dict[str, Any]]) -> None:
        self.probes = probes
        self.at = 0             # the probe it is at, when that began, the bytes it has taken for it
        self.started = 0.0
        self.size = 0
        self.current = ""       # what it touches, and since when
        self.begun = 0.0
        self.hung = dict.fromkeys(wedged, "wedged")
        self.readers = 0
        self.cpu = 0.0
        self.notes: list[str] = []
        self.files: dict[str, list[str]] = {}
        self.listed: dict[str, tuple[str, list[str]]] = {}
        self.over = not probes

    def start(self) -> None:
        self.readers += 1
        self.offset = 0
        self.current = ""
        self.begun = clock()
        self.child = Child("", self.due(), self.work)

    def due(self) -> float:
        """When what it is at will have taken too long."""
        probe = self.probes[min(self.at, len(self.probes) - 1)]
        overdue: float = min(self.begun + probe["each_s"], (self.started or self.begun) + probe["seconds"] + LATE, end)
        return overdue

    def overdue(self, child: Child, now: float) -> bool:
        self.listen(child)
        child.due = self.due()
        child.key = self.current
        child.began = self.begun
        return now >= child.due

    def listen(self, child: Child) -> None:
        """Takes what the child has said so far; what it was saying when it was killed is dropped."""
        data = os.pread(child.out, os.fstat(child.out).st_size - self.offset, self.offset)
        at = 0
        while True:
            end_of_line = data.find(b"\n", at)
            if end_of_line < 0:
                break
            kind, key, outcome, when, size = json.loads(data[at:end_of_line])
            stop = end_of_line + 1 + size
            if stop > len(data):
                break
            found = data[end_of_line + 1:stop]
            at = stop
            self.begun = when
            self.current = ""
            if kind == "begin":
                self.current = key
            elif kind == "probe":
                self.started = when
            elif kind == "entry":
                self.files[key] = [outcome, text(found)] if found else [outcome]
                self.size += size
            elif kind == "note":
                self.note(key)
            elif outcome == "done" or not found:
                self.finish(outcome, text(found))
            else:
                self.finish(outcome, note=text(found))
        self.offset += at

    def note(self, words: str) -> None:
        if words and words not in self.notes:
            self.notes.append(words)

    def finish(self, outcome: str, found: str = "", note: str = "") -> None:
        """Ends the probe that it is at."""
        self.note(note)
        now = clock() if outcome == "timeout" else self.begun
        capture(
            self.probes[self.at], outcome, self.started or now, "; ".join(self.notes), now, bytes=self.size or len(found), text=found,
            files=self.files,
        )
        self.at += 1
        self.started = 0.0
        self.size = 0
        self.notes, self.files = [], {}
        self.over = self.at == len(self.probes)

    def ended(self, child: Child, note: str) -> None:
        self.listen(child)
        self.cpu += child.cpu
        if self.over:
            return
        key, probe = self.current, self.probes[self.at]
        outcome = "timeout" if child.killed else "crashed"
        if note:
            self.note("%s: the reader %s" % (key, note))
        self.note(text(os.pread(child.err, STDERR, 0)))
        if key:
            self.hung[key] = outcome
        if key and probe["kind"] != "clock":
            self.files[key] = [outcome]
        else:
            self.finish(outcome)
        while not self.over and (self.readers > RESPAWNS or clock() >= end):
            self.finish("timeout", note="too many reads hung" if self.readers > RESPAWNS else "not finished in the time for all probes")
        if not self.over:
            self.start()

    # All that follows happens in the child.
    def work(self, child: Child) -> None:
        self.sink = child.out
        self.parent = os.getppid()
        self.pending: list[bytes] = []
        kinds = {"files": self.read_files, "mounts": self.read_mounts, "clock": self.read_clock}
        while self.at < len(self.probes):
            probe = self.probes[self.at]
            if not self.started:
                self.started = clock()
                self.say("probe")
            found = b""
            try:
                outcome, found = kinds[probe["kind"]](probe)
            except OSError as error:
                outcome, found = failure(error.errno)[0], str(error).encode("utf-8", "replace")
            self.say("done", outcome=outcome, found=found)
            self.at += 1
            self.started, self.size, self.files = 0.0, 0, {}
        self.flush()

    def say(self, kind: str, key: str = "", outcome: str = "", found: bytes = b"") -> None:
        self.pending.append(json.dumps((kind, key, outcome, clock(), len(found))).encode() + b"\n" + found)

    def flush(self) -> None:
        data = b"".join(self.pending)
        self.pending = []
        while data:
            data = data[os.write(self.sink, data):]

    def begin(self, key: str) -> str:
        """Says what is touched next. Returns why it must not be, if so."""
        if os.getppid() != self.parent:
            os._exit(1)
        if key in self.hung:
            if key in wedged:
                self.say("note", "%s: wedged %s" % (key, wedged[key]))
            return self.hung[key]
        self.say("begin", key)
        self.flush()
        return ""

    def entry(self, key: str, outcome: str, found: bytes = b"") -> None:
        self.files[key] = [outcome]
        self.size += len(found)
        self.say("entry", key, outcome, found)

    def late(self, probe: dict[str, Any]) -> bool:
        return clock() > self.started + float(probe["seconds"])

    def read_files(self, probe: dict[str, Any]) -> tuple[str, bytes]:
        for pattern in probe["paths"]:
            for path in self.expand("", pattern.strip("/").split("/")):
                if path in self.files:
                    continue
                if self.late(probe):
                    return "timeout", b""
                if len(self.files) >= ENTRIES:
                    return "truncated", b""
                got = self.begin(path)
                found = b""
                if not got:
                    try:
                        got, found = self.read_file(path, max(0, probe["limit"] - self.size), probe["tail"])
                    except NotADirectoryError:
                        if path.strip("/") != pattern.strip("/"):
                            continue        # the wildcard met something that is not a directory: not what was asked for
                        got = "missing"
                    except OSError as error:
                        got, name = failure(error.errno)
                        found = name.encode() if got == "crashed" else b""
                self.entry(path, got, found)
        return self.whole(), b""

    def whole(self) -> str:
        return "truncated" if any(entry[0] == "truncated" for entry in self.files.values()) else "done"

    def expand(self, base: str, parts: list[str]) -> Iterator[str]:
        """The paths that a pattern names. A directory that cannot be listed is an entry of its own."""
        while parts and not any(mark in parts[0] for mark in "*?["):
            base += "/" + parts[0]
            parts = parts[1:]
        if not parts:
            yield base
            return
        for name in self.names(base or "/"):
            if parts[0] == "*" or fnmatch.fnmatchcase(name, parts[0]):
                yield from self.expand(base + "/" + name, parts[1:])

    def names(self, path: str) -> list[str]:
        if path not in self.listed:
            outcome, names = self.begin(path), []
            if not outcome:
                try:
                    with os.scandir(ROOT + path) as found:
                        names = sorted(item.name for item in itertools.islice(found, ENTRIES) if item.name[0] != ".")
                except OSError as error:
                    outcome = failure(error.errno)[0]
            self.listed[path] = outcome or ("truncated" if len(names) == ENTRIES else ""), names
        outcome, names = self.listed[path]
        if outcome not in ("", "missing") and path not in self.files:
            self.entry(path, outcome)
        return names

    def read_file(self, path: str, room: int, tail: bool) -> tuple[str, bytes]:
        """Its bytes, as far as there is room. Opening a device or a pipe can have an effect, so neither is opened."""
        name = ROOT + path
        if not readable(os.stat(name)):
            return "crashed", b"not a regular file"
        fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            found = os.fstat(fd)
            if not readable(found):
                return "crashed", b"not a regular file"
            log = stat.S_ISCHR(found.st_mode)
            if tail and found.st_size > room:
                os.lseek(fd, found.st_size - room - 1, os.SEEK_SET)
            parts: list[bytes] = []
            have, overwritten, cut = 0, 0, False
            while tail or have <= room:
                try:
                    part = os.read(fd, KMSG_RECORD if log else 65536)
                except BlockingIOError:
                    break
                except BrokenPipeError:
                    overwritten += 1
                    if overwritten > 1000:
                        break
                    continue
                if not part:
                    break
                parts.append(part)
                have += len(part)
                if tail and have > 2 * room + 65536:
                    parts = [b"".join(parts)[-room - 1:]]
                    have, cut = len(parts[0]), True
            if overwritten:
                self.say("note", "%s: the kernel overwrote records while they were read (%d times)" % (path, overwritten))
            data = b"".join(parts)
            if cut or len(data) > room:
                return "truncated", (data[-room:] if room else b"") if tail else data[:room]
            return "done", data
        finally:
            os.close(fd)

    def read_mounts(self, probe: dict[str, Any]) -> tuple[str, bytes]:
        table = "/proc/self/mountinfo"
        if table not in self.files:
            got = self.begin(table)
            found = b""
            if not got:
                try:
                    got, found = self.read_file(table, probe["limit"], False)
                except OSError as error:
                    got = failure(error.errno)[0]
            self.mountinfo = found
            self.entry(table, got, found)
        else:
            self.mountinfo = self.files[table][1].encode("utf-8", "surrogateescape") if len(self.files[table]) > 1 else b""
        top: dict[str, str] = {}
        for line in self.mountinfo.decode("utf-8", "surrogateescape").splitlines():
            left, _, right = line.partition(" - ")
            words = left.split(" ")
            if len(words) > 4 and right:
                top[unescape(words[4])] = right.split(" ")[0]
        points = [point for point in top if top[point] not in probe["skip"]]
        for point in points[:MOST_MOUNTS]:
            if point in self.files:
                continue
            if self.late(probe):
                return "timeout", b""
            got = self.begin(point)
            found = b""
            if not got:
                try:
                    figures = os.statvfs(ROOT + point)
                    got, found = "done", " ".join(str(figure) for figure in figures[:10]).encode()
                except OSError as error:
                    got, name = failure(error.errno)
                    found = name.encode() if got == "crashed" else b""
            self.entry(point, got, found)
        return "truncated" if len(points) > MOST_MOUNTS else self.whole(), b""

    def read_clock(self, probe: dict[str, Any]) -> tuple[str, bytes]:
        got = self.begin(probe["id"])
        if got:
            return got, b""
        import ctypes
        if ctypes.sizeof(ctypes.c_long) != 8:
            return "crashed", b"only 64-bit kernels are understood"
        library = ctypes.CDLL(None, use_errno=True)
        timex = ctypes.create_string_buffer(256)    # struct timex of 64-bit Linux is 208 bytes; modes = 0 changes nothing
        state = library.adjtimex(timex)
        if state < 0:
            raise OSError(ctypes.get_errno(), "adjtimex")
        # Offsets of the members, by linux/timex.h.
        members = {"offset": (8, 8), "maxerror": (24, 8), "esterror": (32, 8), "status": (40, 4), "tai": (160, 4)}
        figures = {key: int.from_bytes(timex.raw[at:at + size], sys.byteorder, signed=True) for key, (at, size) in members.items()}
        return "done", json.dumps(dict(figures, state=state)).encode()


def readable(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) or (stat.S_ISCHR(found.st_mode) and found.st_rdev == os.makedev(1, 11))


def unescape(word: str) -> str:
    """Undoes mountinfo's three-digit octal escapes of blanks, tabs, newlines and backslashes."""
    head, *rest = word.split("\\")
    return head + "".join(chr(int(part[:3], 8)) + part[3:] if part[:3].isdigit() else "\\" + part for part in rest)


def text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def failure(number: int | None) -> tuple[str, str]:
    """The outcome for an error of the operating system, and the error's name."""
    if number in (errno.ENOENT, errno.ENOTDIR, errno.ENODEV):
        return "missing", ""
    if number in (errno.EACCES, errno.EPERM):
        return "denied", ""
    return "crashed", errno.errorcode.get(number or 0, "error %s" % number)


def capture(probe: dict[str, Any], outcome: str, began: float, note: str = "", ended: float = 0.0, **more: Any) -> None:
    """Notes a probe's capture, in the form of healthcheck.recording."""
    found: dict[str, Any] = {"outcome": outcome, "seconds": round((ended or clock()) - began, 4), "bytes": 0}
    found.update((key, value) for key, value in more.items() if value not in ("", None, {}))
    if note:
        found["note"] = note
    captures[probe["id"]] = found


# The answer.
outgoing = bytearray()


def say(line: str, body: bytes = b"") -> None:
    outgoing.extend(("muster:%s:%s\n" % (NONCE, line)).encode() + body)
    flush()


def flush() -> None:
    """Writes what standard output takes now. A reader that has gone is the end."""
    try:
        while outgoing:
            del outgoing[:os.write(1, outgoing[:1 << 20])]
    except BlockingIOError:
        pass
    except OSError:
        leave()


def first_line(path: str) -> str:
    try:
        with open(ROOT + path, encoding="utf-8", errors="surrogateescape") as file:
            return file.readline(256).strip()
    except OSError:
        return ""


def answer(limit: int, tails: set[str], reader: Reader) -> bytes:
    """The reply as JSON of at most `limit` bytes; past it, the longest texts are cut, and their captures say so."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    name = os.uname()
    document = {
        "schema": "muster.reply/1", "captures": captures,
        "host": {
            "hostname": first_line("/proc/sys/kernel/hostname") or name.nodename,
            "boot_id": first_line("/proc/sys/kernel/random/boot_id"), "time": time.time(), "uid": os.geteuid(),
            "python": "%d.%d.%d" % sys.version_info[:3], "machine": name.machine,
            "cpu_s": round(usage.ru_utime + usage.ru_stime + reader.cpu, 4),
        },
    }
    body = json.dumps(document, separators=(",", ":")).encode()
    while len(body) > limit:
        holders = [(len(found.get("text", "")), key, "") for key, found in captures.items()]
        holders += [
            (len(entry[-1]), key, path) for key, found in captures.items()
            for path, entry in found.get("files", {}).items() if len(entry) > 1
        ]
        holders.sort(reverse=True)
        if not holders or holders[0][0] < 64:
            cut_entries(limit)
            return json.dumps(document, separators=(",", ":")).encode()
        # All that are within half of the longest, so that the number of rounds does not depend on how many there are.
        for size, key, path in holders:
            if size > holders[0][0] // 2:
                shorten(captures[key], path, size // 2, key in tails)
        body = json.dumps(document, separators=(",", ":")).encode()
    return body


def shorten(found: dict[str, Any], path: str, size: int, tail: bool) -> None:
    if path:
        found["files"][path] = ["truncated", cut(found["files"][path][1], size, tail)]
    else:
        found["text"] = cut(found["text"], size, tail)
    mark_cut(found)


def cut(found: str, size: int, tail: bool) -> str:
    return found[-size:] if tail else found[:size]


def mark_cut(found: dict[str, Any]) -> None:
    if found["outcome"] == "done":
        found["outcome"] = "truncated"
    found["note"] = "cut to keep the answer within its limit"


def cut_entries(limit: int) -> None:
    """Drops what is left of the longest captures until their sum is well within the limit."""
    sizes = sorted((len(json.dumps(found)), key) for key, found in captures.items())
    total = sum(size for size, _ in sizes)
    while sizes and total > limit // 2:
        size, key = sizes.pop()
        for part in ("text", "stderr", "files"):
            captures[key].pop(part, None)
        mark_cut(captures[key])
        total -= size


# The one loop.
def watch(poll: select.poll, wake: float, nvml: list[Nvml]) -> None:
    """Waits until something happens or the time has come; looks after the lifeline, the signals and what we have to say."""
    poll.modify(1, select.POLLOUT if outgoing else 0)
    for fd, event in poll.poll(max(0, int((wake - clock()) * 1000) + 1)):
        if fd == 0:
            data = os.read(0, 65536) if event & select.POLLIN else b""
            if not data:
                leave()
            for job in nvml:
                job.receive(data)
        elif fd == 1:
            if not event & select.POLLOUT:
                leave()
            flush()
        elif set(os.read(fd, 4096)) - {signal.SIGCHLD}:
            leave()


def main(spec: dict[str, Any]) -> None:
    woken, waker = os.pipe()
    for fd in (1, woken, waker):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    for number in (*SIGNALS, signal.SIGCHLD):
        signal.signal(number, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(1, 0)
    poll.register(woken, select.POLLIN)
    probes = spec["probes"]
    reader = Reader([probe for probe in probes if probe["kind"] in ("files", "mounts", "clock")])
    nvml = [Nvml(probe) for probe in probes if probe["kind"] == "nvml"]
    waiting = [Single(probe) for probe in probes if probe["kind"] == "command"]
    running: list[Single] = []
    if not reader.over:
        reader.start()
    for job in nvml:
        job.start()
    while waiting or running or not reader.over or not all(job.over for job in nvml):
        while waiting and len(running) < COMMANDS and clock() < end:
            running.append(waiting.pop(0))
            running[-1].start()
        if clock() >= end:
            for late in waiting:
                late.finish("timeout", "not started in the time for all probes")
            waiting = []
        jobs: list[Job] = [job for job in [reader, *nvml, *running] if not job.over]
        if jobs:
            watch(poll, min(job.wake() for job in jobs), nvml)
        for each in jobs:
            each.step(clock())
        running = [job for job in running if not job.over]
    tails = {probe["id"] for probe in probes if probe["tail"]}
    body = zlib.compress(answer(spec["reply_bytes"], tails, reader), 6)
    say("frame %d %s" % (len(body), hashlib.sha256(body).hexdigest()), body)
    while outgoing:
        watch(poll, end + LAST, [])
        if clock() > end + LAST:
            leave()
    os._exit(0)


spec = json.loads(PROBES)
end = clock() + spec["seconds"]
# Should we ourselves hang, for example where the kernel does not let go of us, this ends us without our help.
signal.signal(signal.SIGALRM, signal.SIG_DFL)
signal.setitimer(signal.ITIMER_REAL, spec["seconds"] + LAST + 1)
try:
    # Also lowers our input and output, where the block layer honours it: its priority follows this one.
    os.nice(10)
    os.umask(0o077)
    os.chdir("/")
except OSError:
    pass
folder = run_folder()
wedged = predecessors()
try:
    main(spec)
except BaseException as error:
    os.write(2, ("muster: %s: %s\n" % (type(error).__name__, error)).encode("utf-8", "replace"))
finally:
    leave()
