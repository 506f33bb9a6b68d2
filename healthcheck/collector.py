"""The program that runs on a node: captures what the probe set asks for and prints one bounded, checksummed answer.

It is not imported there: the loader (`healthcheck.program`) compiles its text with three names set: NONCE, PROBES (the probe set
as JSON) and STDIN (standard input, open for as long as somebody waits for us). Python 3.8, standard library only, few imports: it
runs beside a training job, and its start is most of what it costs.

One process that never blocks looks after children that may: one reader for files, mounts and the clock; at most two commands; the
NVML reader. The end of standard input, a signal, or the end of our time kills them all. A child that does not die is abandoned,
named, and written down under /run/muster, so that the next run does not start another.
"""

from __future__ import annotations

import errno
import fnmatch
import hashlib
import json
import mmap
import os
import select
import signal
import stat
import sys
import time
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, NoReturn, Optional, Tuple

    NONCE: str
    PROBES: bytes
    STDIN: Any

GRACE_S = 0.5               # how long a killed child is given to die
LAST_S = 10.0               # beyond the set's own time, for building and delivering the answer
COMMANDS = 2                # at a time
RESPAWNS = 16               # readers that may hang before the rest is given up
MOST_ENTRIES = 16384        # files of a probe, or names in a folder
MOST_MOUNTS = 4096
STDERR_BYTES = 4096
EXTRA_BYTES = 8 << 20       # of what is sent to us on request
CHUNK = 65536
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGALRM, signal.SIGPIPE)

ROOT = os.environ.get("MUSTER_ROOT", "/").rstrip("/")
clock = time.monotonic


def text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def reason(error: OSError) -> str:
    """The outcome that an error means."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO):
        return "missing"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "denied"
    return "crashed"


# Processes

def process(pid: int) -> "Tuple[str, int]":
    """State and start time (clock ticks since boot); an empty state where there is no such process."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            words = file.read().rpartition(b")")[2].split()
        return words[0].decode(), int(words[19])
    except (OSError, IndexError, ValueError):
        return "", 0


class Child:
    """A process of ours, leader of its own session, and the pipes on which it talks."""

    def __init__(self, key: str, seconds: float) -> None:
        self.key = key
        self.seconds = seconds
        self.began = clock()
        self.due = self.began + seconds
        self.killed = 0.0
        self.pid = 0
        self.status: "Optional[int]" = None
        self.pipes: "Dict[int, str]" = {}
        self.recorded = ""

    def kill(self) -> None:
        if not self.killed:
            self.killed = clock()
            slay(self.pid)

    def reap(self) -> bool:
        """Whether it has ended. What is left of its group goes with it, while its number cannot be anybody else's."""
        if self.status is None:
            try:
                if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                    return False
            except ChildProcessError:
                self.status = 0
                return True
            slay(self.pid)
            self.status = os.waitpid(self.pid, 0)[1]
            self.forget()
        return True

    def remember(self) -> None:
        """Writes down that this process works on its key, for a run that comes after us."""
        if folder is None:
            return
        state, start = process(self.pid)
        note = {"key": self.key, "pid": self.pid, "start": start, "began": time.time() - (clock() - self.began), "limit": self.seconds}
        name = "child-%d" % self.pid
        try:
            fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
            os.write(fd, json.dumps(note).encode())
            os.close(fd)
            self.recorded = name
        except OSError:
            pass

    def forget(self) -> None:
        if self.recorded and folder is not None:
            try:
                os.unlink(self.recorded, dir_fd=folder)
            except OSError:
                pass

    def abandoned(self) -> str:
        """Writes it down and says so; it is never waited for."""
        self.remember()
        return "cannot be killed (pid %d, state %s)" % (self.pid, process(self.pid)[0] or "?")


live: "List[Child]" = []
folder: "Optional[int]" = None


def slay(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except OSError:
            pass


def leave(number: int = 0, frame: object = None) -> "NoReturn":
    """Nobody waits for us any more: ends everything that we started, and us."""
    try:
        for child in live:
            slay(child.pid)
        end = clock() + GRACE_S
        while live and clock() < end:
            live[:] = [child for child in live if not child.reap()]
            time.sleep(0.005)
        for child in live:
            child.remember()
    finally:
        os._exit(1)


def spawned(child: Child) -> None:
    """What a forked child does first: its own session, default signals, no end of our channel."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.alarm(0)
    for number in (*SIGNALS, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    live.clear()


# Children of an earlier run that are still there

def run_folder() -> "Optional[int]":
    """A folder that only we may write to, as a descriptor; None if there is none to be had (then wedges are not remembered)."""
    uid = os.geteuid()
    own = os.environ.get("XDG_RUNTIME_DIR", "")
    for path in ("/run/muster", own + "/muster" if own.startswith("/") else "", "/tmp/muster-%d" % uid):
        if not path:
            continue
        try:
            os.mkdir(ROOT + path, 0o700)
        except OSError:
            pass
        try:
            fd = os.open(ROOT + path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        found = os.fstat(fd)
        if found.st_uid == uid and not found.st_mode & 0o022:
            return fd
        os.close(fd)
    return None


def predecessors() -> "Dict[str, str]":
    """What must not be started or touched again, by probe id or path, and since when: an earlier run's child is past its limit.

    A process is the one that was written down only if its start time is, too. Another sweep's child within its limit is no wedge.
    """
    found: "Dict[str, str]" = {}
    if folder is None:
        return found
    for name in os.listdir(folder)[:MOST_ENTRIES]:
        if not name.startswith("child-"):
            continue
        try:
            with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder), "rb") as file:
                note = json.loads(file.read(CHUNK))
            pid, key = int(note["pid"]), str(note["key"])
            state, start = process(pid)
            if state in ("", "Z", "X") or start != note["start"]:
                os.unlink(name, dir_fd=folder)
            elif time.time() - note["began"] > note["limit"] + GRACE_S:
                slay(pid)  # its own collector may have been killed before it could
                since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(note["began"]))
                found[key] = "wedged since %s (pid %d, state %s)" % (since, pid, state)
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            continue
    return found


# The reader: files, mounts and the clock. In its child.

class Reader:
    """Reads the entries of its probes one after another. A shared page says where it is; a memory file holds what it has read."""

    def __init__(self, probes: "List[Dict[str, Any]]", skip: "Dict[str, str]") -> None:
        self.probes = probes
        self.skip = skip                # entry -> outcome: not to be touched
        self.page = mmap.mmap(-1, 8192)
        self.out = memory_file()
        self.offset = 0
        self.at = 0                     # the probe at work
        self.done: "Dict[str, Any]" = {}
        self.spawns = 0
        self.child: "Optional[Child]" = None
        self.results: "Dict[str, Dict[str, Any]]" = {}

    def start(self) -> None:
        self.spawns += 1
        child = self.child = Child("reader", 0.0)
        self.mark("")
        child.pid = os.fork()
        if not child.pid:
            try:
                spawned(child)
                self.work()
            finally:
                os._exit(0)
        live.append(child)

    def mark(self, key: str) -> None:
        """Says on the shared page what is being touched, and since when."""
        data = key.encode("utf-8", "surrogateescape")[:4096]
        self.page[:16 + len(data)] = int(clock() * 1e6).to_bytes(8, "little") + len(data).to_bytes(8, "little") + data

    def where(self) -> "Tuple[str, float]":
        began, size = (int.from_bytes(self.page[i:i + 8], "little") for i in (0, 8))
        return text(self.page[16:16 + size]), began / 1e6

    def say(self, *message: object) -> None:
        data = json.dumps(message).encode()
        os.write(self.out, len(data).to_bytes(4, "little") + data)

    def work(self) -> None:
        for number in range(self.at, len(self.probes)):
            probe = self.probes[number]
            self.say("probe", number, clock())
            self.used, self.end = 0, clock() + probe["seconds"]
            self.part = False
            try:
                {"files": self.files, "mounts": self.mounts, "clock": self.clock}[probe["kind"]](probe)
                outcome = "truncated" if self.part else "done"
            except TimeoutError:
                outcome = "timeout"
            except OSError as error:
                outcome = reason(error)
            self.say("end", number, outcome, clock())

    def entry(self, key: str) -> bool:
        """Whether this entry is to be touched now; and says so."""
        if key in self.skip or key in self.done:
            return False
        if clock() > self.end:
            raise TimeoutError
        self.mark(key)
        return True

    def put(self, key: str, outcome: str, data: bytes = b"") -> None:
        self.part = self.part or outcome == "truncated"
        self.say("entry", key, outcome, text(data))

    def files(self, probe: "Dict[str, Any]") -> None:
        count = 0
        for pattern in probe["paths"]:
            for key in self.expand(pattern):
                count += 1
                if count > MOST_ENTRIES:
                    self.part = True
                    return
                if self.entry(key):
                    try:
                        self.put(key, *self.read(key, probe))
                    except OSError as error:
                        self.put(key, reason(error), (errno.errorcode.get(error.errno or 0, "") if reason(error) == "crashed" else "").encode())

    def expand(self, pattern: str) -> "Iterator[str]":
        """The paths that match, in order. A folder that may not be listed becomes an entry of its own."""
        found = [""]
        for word in pattern.strip("/").split("/"):
            if not any(mark in word for mark in "*?["):
                found = [base + "/" + word for base in found]
                continue
            matched = []
            for base in found:
                if base in self.skip:
                    continue
                self.mark(base)
                try:
                    names = sorted(os.listdir(ROOT + base or "/"))
                except OSError as error:
                    if reason(error) != "missing":
                        self.put(base, reason(error))
                    continue
                if len(names) > MOST_ENTRIES:
                    self.part = True
                matched += [base + "/" + name for name in fnmatch.filter(names[:MOST_ENTRIES], word)]
            found = matched
        wild = any(mark in pattern for mark in "*?[")
        for path in found:
            # What stands behind a wildcard need not be there in every folder.
            if not wild or os.path.lexists(ROOT + path):
                yield path

    def read(self, key: str, probe: "Dict[str, Any]") -> "Tuple[str, bytes]":
        fd = os.open(ROOT + key, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            mode = os.fstat(fd)
            kmsg = stat.S_ISCHR(mode.st_mode) and mode.st_rdev == os.makedev(1, 11)
            if not stat.S_ISREG(mode.st_mode) and not kmsg:
                return "crashed", b"no regular file"
            room = probe["limit"] - self.used
            held, size, cut = [], 0, False
            while True:
                try:
                    data = os.read(fd, CHUNK)
                except BlockingIOError:
                    break               # the end of /dev/kmsg
                except BrokenPipeError:
                    continue            # a record was overwritten while we read; the next one is there
                if not data:
                    break
                held.append(data)
                size += len(data)
                while size > room and held and probe["tail"] and size - len(held[0]) >= room:
                    size -= len(held.pop(0))
                    cut = True
                if size > room and not probe["tail"]:
                    break
            whole = b"".join(held)
            if size > room:
                whole, cut = (whole[len(whole) - room:] if probe["tail"] else whole[:room]), True
            self.used += len(whole)
            return ("truncated" if cut else "done"), whole
        finally:
            os.close(fd)

    def mounts(self, probe: "Dict[str, Any]") -> None:
        table = "/proc/self/mountinfo"
        self.mark(table)
        outcome, data = self.read(table, probe)
        if table not in self.done:
            self.put(table, outcome, data)
        points: "Dict[bytes, bytes]" = {}
        for line in data.splitlines():
            before, dash, after = line.partition(b" - ")
            words = before.split(b" ")
            if dash and len(words) > 5:
                points[words[4]] = after.split(b" ")[0]
        if len(points) > MOST_MOUNTS:
            self.part = True
        for point, fstype in list(points.items())[:MOST_MOUNTS]:
            if text(fstype) in probe["skip"]:
                continue
            parts = point.split(b"\\")
            raw = parts[0] + b"".join(bytes([int(part[:3], 8) & 255]) + part[3:] if part[:3].isdigit() else b"\\" + part for part in parts[1:])
            key = text(raw)
            if self.entry(key):
                try:
                    v = os.statvfs(os.fsencode(ROOT) + raw)
                    figures = (v.f_bsize, v.f_frsize, v.f_blocks, v.f_bfree, v.f_bavail, v.f_files, v.f_ffree, v.f_favail, v.f_flag, v.f_namemax)
                    self.put(key, "done", " ".join(map(str, figures)).encode())
                except OSError as error:
                    self.put(key, reason(error))

    def clock(self, probe: "Dict[str, Any]") -> None:
        """adjtimex(2) with modes 0: reads only. struct timex as on 64-bit Linux."""
        import ctypes

        self.mark("adjtimex")
        names = ("modes", "offset", "freq", "maxerror", "esterror", "status", "constant", "precision", "tolerance")
        whole = ("modes", "status")

        class Timex(ctypes.Structure):
            _fields_ = [(name, ctypes.c_int if name in whole else ctypes.c_long) for name in names] + [("rest", ctypes.c_long * 32)]

        timex = Timex()
        library = ctypes.CDLL(None, use_errno=True)
        state = library.adjtimex(ctypes.byref(timex))
        if state < 0:
            raise OSError(ctypes.get_errno(), "adjtimex")
        answer = {"state": state}
        answer.update((name, getattr(timex, name)) for name in ("status", "offset", "maxerror", "esterror"))
        self.say("text", json.dumps(answer))

    # In the parent.

    def collect(self) -> None:
        """Takes over what the child has written so far."""
        size = os.fstat(self.out).st_size
        data = os.pread(self.out, size - self.offset, self.offset)
        at = 0
        while at + 4 <= len(data):
            end = at + 4 + int.from_bytes(data[at:at + 4], "little")
            if end > len(data):
                break
            self.take(json.loads(data[at + 4:end]))
            at = end
        self.offset += at

    def take(self, message: "List[Any]") -> None:
        kind = message[0]
        if kind == "probe":
            if message[1] != self.at or self.probes[self.at]["id"] not in self.results:
                self.at, self.done = message[1], {}
                self.results[self.probes[self.at]["id"]] = {
                    "outcome": "timeout", "seconds": 0.0, "bytes": 0, "files": self.done, "began": message[2],
                }
            return
        result = self.results[self.probes[self.at]["id"]]
        if kind == "entry":
            self.done[message[1]] = [message[2], message[3]] if message[3] else [message[2]]
            result["bytes"] += len(message[3])
        elif kind == "text":
            result["text"] = message[1]
            result["bytes"] = len(message[1])
        else:
            outcome = message[2]
            if outcome == "done" and any(entry[0] == "truncated" for entry in self.done.values()):
                outcome = "truncated"
            result["outcome"] = outcome
            result["seconds"] = round(message[3] - result.pop("began"), 4)
            self.at += 1

    def watch(self, now: float) -> float:
        """Looks after the child; returns when to look again."""
        child = self.child
        if child is None:
            return now + 3600
        self_ended = child.reap()
        self.collect()
        key, began = self.where()
        if self_ended:
            live.remove(child)
            self.child = None
            if self.at < len(self.probes):
                self.next("crashed" if not child.killed else "timeout", key, "")
            return now
        if child.killed:
            if now >= child.killed + GRACE_S:
                live.remove(child)
                self.child = None
                child.key, child.seconds = key, 0.0
                self.next("wedged", key, "%s: %s" % (key, child.abandoned()))
                return now
            return child.killed + GRACE_S
        probe = self.probes[min(self.at, len(self.probes) - 1)]
        if now >= began + probe["each_s"]:
            child.kill()
            return now + 0.01
        return began + probe["each_s"]

    def next(self, outcome: str, key: str, note: str) -> None:
        """After a reader was lost at an entry: says so there, and goes on with the rest."""
        probe = self.probes[self.at]
        result = self.results.setdefault(
            probe["id"], {"outcome": outcome, "seconds": 0.0, "bytes": 0, "files": self.done, "began": clock()},
        )
        if note:
            result["note"] = note
        if probe["kind"] == "clock" or not key or key in self.done or self.spawns >= RESPAWNS:
            result["outcome"] = outcome
            result["seconds"] = round(clock() - result.pop("began"), 4)
            self.done = {}
            self.at += 1
        else:
            self.done[key] = [outcome]
            self.skip[key] = outcome
        if self.at < len(self.probes) and self.spawns < 2 * RESPAWNS:
            self.os_out()
            self.start()

    def os_out(self) -> None:
        """A new memory file: an abandoned reader may still write to the old one."""
        self.out, self.offset = memory_file(), 0
        self.page = mmap.mmap(-1, 8192)


def memory_file() -> int:
    try:
        return os.memfd_create("muster")
    except (AttributeError, OSError):
        import tempfile

        fd, path = tempfile.mkstemp()
        os.unlink(path)
        return fd


# Commands and the NVML reader

class Task:
    """A probe with a child that talks on pipes: a command, or the NVML reader."""

    def __init__(self, probe: "Dict[str, Any]") -> None:
        self.probe = probe
        self.result: "Dict[str, Any]" = {}
        self.out: "List[bytes]" = []
        self.size = self.total = 0
        self.err = b""
        self.cut = False
        self.outcome = "done"
        self.child: "Optional[Child]" = None

    def finish(self, outcome: str, note: str = "") -> None:
        child = self.child
        if child is not None:
            for fd in child.pipes:
                os.close(fd)
            if child in live:
                live.remove(child)
        self.result = {
            "outcome": outcome, "seconds": round(clock() - child.began, 4) if child else 0.0, "bytes": self.total,
            "text": text(b"".join(self.out)), "stderr": text(self.err), "note": note,
        }
        if child is not None and child.status is not None:
            code = child.status
            self.result["exit"] = -os.WTERMSIG(code) if os.WIFSIGNALED(code) else os.WEXITSTATUS(code)

    def pipe(self, child: Child, name: str) -> int:
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        child.pipes[ours] = name
        return theirs

    def command(self) -> None:
        child = self.child = Child(self.probe["id"], self.probe["seconds"])
        out, err = self.pipe(child, "out"), self.pipe(child, "err")
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, err, 2),
        ]
        default = [*SIGNALS, signal.SIGCHLD]
        try:
            try:
                child.pid = os.posix_spawnp(
                    self.probe["argv"][0], self.probe["argv"], os.environ, file_actions=actions, setsigdef=default, setsid=True)
            except NotImplementedError:
                child.pid = os.posix_spawnp(
                    self.probe["argv"][0], self.probe["argv"], os.environ, file_actions=actions, setsigdef=default, setpgroup=0)
        except OSError as error:
            self.finish(reason(error), "" if reason(error) != "crashed" else errno.errorcode.get(error.errno or 0, "?"))
            return
        finally:
            os.close(out)
            os.close(err)
        live.append(child)
        child.remember()

    def nvml(self, source: bytes) -> None:
        child = self.child = Child(self.probe["id"], self.probe["seconds"])
        out, err = self.pipe(child, "out"), self.pipe(child, "err")
        child.pid = os.fork()
        if not child.pid:
            code = 1
            try:
                spawned(child)
                os.dup2(out, 1)
                os.dup2(err, 2)
                binding, _, reader = zlib.decompress(source).partition(b"\0")
                module = type(os)("pynvml")
                sys.modules["pynvml"] = module
                exec(compile(binding, "pynvml", "exec"), module.__dict__)
                exec(compile(reader, "muster-nvml", "exec"), {"__name__": "muster_nvml"})
                code = 0
            except BaseException as error:
                os.write(2, ("%s: %s" % (type(error).__name__, error)).encode("utf-8", "replace")[:1000])
            finally:
                os._exit(code)
        os.close(out)
        os.close(err)
        live.append(child)
        child.remember()

    def read(self, fd: int) -> None:
        """Takes what is there. Past the limit the rest is dropped: at the end where the tail matters, and the child with it elsewhere."""
        child = self.child
        assert child is not None
        limit = self.probe["limit"]
        while fd in child.pipes:
            try:
                data = os.read(fd, CHUNK)
            except BlockingIOError:
                return
            if not data:
                del child.pipes[fd]
                os.close(fd)
            elif child.pipes[fd] == "err":
                self.err = (self.err + data)[-STDERR_BYTES:]
            else:
                self.total += len(data)
                self.out.append(data)
                self.size += len(data)
                if self.size > limit:
                    self.cut = True
                    whole = b"".join(self.out)
                    self.out = [whole[-limit:] if self.probe["tail"] else whole[:limit]]
                    self.size = limit
                    if not self.probe["tail"]:
                        self.outcome = "truncated"
                        child.kill()
                        return

    def watch(self, now: float) -> float:
        child = self.child
        assert child is not None
        if child.reap():
            for fd in list(child.pipes):
                self.read(fd)
            crashed = os.WIFSIGNALED(child.status or 0) and not child.killed
            self.finish("crashed" if crashed else "truncated" if self.cut else self.outcome)
            return now
        if child.killed:
            if now >= child.killed + GRACE_S:
                note = child.abandoned()
                self.finish("wedged", note)
            return child.killed + GRACE_S
        if now >= child.due:
            self.outcome = "timeout"
            child.kill()
            return now + 0.01
        return child.due


# The whole

def nvidia_device() -> bool:
    return any(os.path.exists(ROOT + path) for path in ("/proc/driver/nvidia/version", "/sys/module/nvidia", "/dev/nvidiactl"))


class Run:
    """One run: the loop that looks after everything, and the answer."""

    def __init__(self, probes: "Dict[str, Any]") -> None:
        self.probes = probes
        self.began = clock()
        self.due = self.began + probes["seconds"]
        self.results: "Dict[str, Dict[str, Any]]" = {}
        self.tasks: "List[Task]" = []
        self.running: "List[Task]" = []
        self.reader: "Optional[Reader]" = None
        self.wanting: "Optional[Task]" = None
        self.inbox = b""
        self.wake, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(self.wake, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def go(self) -> None:
        hung = predecessors()
        entries = []
        for probe in self.probes["probes"]:
            if probe["id"] in hung:
                self.results[probe["id"]] = {"outcome": "wedged", "seconds": 0.0, "bytes": 0, "note": hung[probe["id"]]}
            elif probe["kind"] in ("files", "mounts", "clock"):
                entries.append(probe)
            elif probe["kind"] == "command":
                self.tasks.append(Task(probe))
            elif not nvidia_device():
                self.results[probe["id"]] = {"outcome": "missing", "seconds": 0.0, "bytes": 0, "note": "no NVIDIA driver is loaded"}
            else:
                self.wanting = Task(probe)
                self.wanting_since = clock()
                self.print(b"want nvml\n")
        if entries:
            self.reader = Reader(entries, {key: "wedged" for key in hung if key.startswith("/")})
            self.reader.start()
        while self.busy():
            self.turn()
        for task in self.tasks:
            self.results[task.probe["id"]] = task.result
        if self.reader is not None:
            for name, result in self.reader.results.items():
                result.pop("began", None)
                said = [key + ": " + hung[key] for key in hung if key in result["files"] or key in self.reader.skip]
                for key in self.reader.skip:
                    if key in hung and self.reader_has(name, key):
                        result["files"][key] = ["wedged"]
                        result["note"] = "; ".join(said)
                self.results[name] = result
        for probe in self.probes["probes"]:
            unstarted = {"outcome": "timeout", "seconds": 0.0, "bytes": 0, "note": "its turn did not come in %g s" % self.probes["seconds"]}
            self.results.setdefault(probe["id"], unstarted)

    def reader_has(self, name: str, key: str) -> bool:
        """Whether a wedged path belongs to this probe."""
        probe = next(p for p in self.probes["probes"] if p["id"] == name)
        if probe["kind"] == "files":
            return any(fnmatch.fnmatch(key, pattern) or pattern.startswith(key + "/") for pattern in probe["paths"])
        return probe["kind"] == "mounts" and not key.startswith(("/sys/", "/proc/"))

    def busy(self) -> bool:
        reading = self.reader is not None and self.reader.child is not None
        waiting = any(not task.result for task in self.tasks) or self.wanting is not None
        if clock() >= self.due:
            self.cut_short()
            reading = self.reader is not None and self.reader.child is not None
            waiting = bool(self.running)
        return reading or waiting

    def cut_short(self) -> None:
        """The set's time is up: whatever still runs is killed, whatever has not begun never does."""
        self.wanting = None
        for task in self.tasks:
            if task.child is None and not task.result:
                task.finish("timeout", "its turn did not come in %g s" % self.probes["seconds"])
            elif not task.result:
                assert task.child is not None
                if not task.child.killed:
                    task.outcome = "timeout"
                    task.child.kill()
        if self.reader is not None and self.reader.child is not None:
            self.reader.spawns = 2 * RESPAWNS
            self.reader.child.kill()

    def turn(self) -> None:
        now = clock()
        idle = [task for task in self.tasks if task.child is None and not task.result]
        while idle and sum(task.probe["kind"] == "command" for task in self.running) < COMMANDS:
            task = idle.pop(0)
            task.command()
            if not task.result:
                self.running.append(task)
        again = [self.due if now < self.due else now + 0.05]
        if self.reader is not None:
            again.append(self.reader.watch(now))
        for task in list(self.running):
            again.append(task.watch(now))
            if task.result:
                self.running.remove(task)
                again.append(now)
        if self.wanting is not None:
            end = self.wanting_since + self.wanting.probe["seconds"]
            again.append(end)
            if now >= end:
                self.give_up("the reader was asked for and did not come")
        poll = select.poll()
        poll.register(0, select.POLLIN | select.POLLHUP)
        poll.register(self.wake, select.POLLIN)
        owners = {fd: task for task in self.running if task.child is not None for fd in task.child.pipes}
        for fd in owners:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(max(0.0, min(again) - clock()) * 1000 + 0.5):
            if fd == 0:
                self.lifeline()
            elif fd == self.wake:
                os.read(self.wake, CHUNK)
            else:
                owners[fd].read(fd)

    def lifeline(self) -> None:
        """Standard input: the extra that we asked for, or the end of everything."""
        data = os.read(0, CHUNK)
        if not data:
            leave()
        if self.wanting is None:
            return
        self.inbox += data
        size, newline, rest = self.inbox.partition(b"\n")
        if not newline:
            if len(size) > 12:
                self.give_up("what came for the NVML reader is not of our form")
            return
        if not size.isdigit() or not 0 < int(size) <= EXTRA_BYTES:
            self.give_up("the head has no NVML reader for us")
        elif len(rest) >= int(size):
            task, self.wanting = self.wanting, None
            task.nvml(rest[:int(size)])
            self.tasks.append(task)
            self.running.append(task)

    def give_up(self, note: str) -> None:
        assert self.wanting is not None
        self.results[self.wanting.probe["id"]] = {"outcome": "timeout", "seconds": 0.0, "bytes": 0, "note": note}
        self.wanting = None

    def answer(self) -> bytes:
        captures = self.results
        self.shorten(captures)
        times = os.times()
        host = {
            "hostname": first_line("/proc/sys/kernel/hostname") or os.uname().nodename,
            "boot_id": first_line("/proc/sys/kernel/random/boot_id"), "time": time.time(), "uid": os.geteuid(),
            "python": "%d.%d.%d" % sys.version_info[:3], "machine": os.uname().machine, "cpu_s": round(sum(times[:4]), 4),
        }
        body = json.dumps({"schema": "muster.reply/1", "host": host, "captures": captures}, separators=(",", ":"))
        return zlib.compress(body.encode(), 6)

    def shorten(self, captures: "Dict[str, Dict[str, Any]]") -> None:
        """Cuts the largest texts, marked so, until the answer is within its bound: JSON may need six bytes for one of ours."""
        room = self.probes["reply_bytes"] // 8
        places = [(len(c.get("text", "")), c, c, "text") for c in captures.values()]
        places += [(len(e[1]), c, e, 1) for c in captures.values() for e in c.get("files", {}).values() if len(e) > 1]
        total = sum(size for size, _, _, _ in places)
        for size, capture, owner, key in sorted(places, key=lambda place: -place[0]):
            if total <= room:
                return
            keep = max(0, size - (total - room))
            owner[key] = owner[key][:keep]
            total -= size - keep
            capture["outcome"] = "truncated"
            if owner is not capture:
                owner[0] = "truncated"

    def print(self, line: bytes, body: bytes = b"") -> None:
        """Writes on standard output; while nobody reads, the lifeline is still watched."""
        data = b"muster:" + NONCE.encode() + b":" + line + body
        os.set_blocking(1, False)
        poll = select.poll()
        poll.register(1, select.POLLOUT)
        poll.register(0, select.POLLIN | select.POLLHUP)
        while data:
            for fd, _ in poll.poll():
                if fd == 0:
                    self.lifeline()
                    continue
                try:
                    data = data[os.write(1, data[:CHUNK]):]
                except BlockingIOError:
                    pass
                except OSError:
                    leave()


def first_line(path: str) -> str:
    try:
        fd = os.open(ROOT + path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return text(os.read(fd, 256)).partition("\n")[0]
        finally:
            os.close(fd)
    except OSError:
        return ""


def main() -> None:
    global folder
    probes = json.loads(PROBES)
    for number in SIGNALS:
        signal.signal(number, leave)
    signal.setitimer(signal.ITIMER_REAL, probes["seconds"] + LAST_S)
    try:
        os.nice(10)
    except OSError:
        pass
    os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
    os.environ["LC_ALL"] = os.environ["LANG"] = "C"
    os.chdir("/")
    folder = run_folder()
    run = Run(probes)
    run.go()
    body = run.answer()
    run.print(b"frame %d %s\n" % (len(body), hashlib.sha256(body).hexdigest().encode()), body)


if __name__ == "muster_collector":
    main()
