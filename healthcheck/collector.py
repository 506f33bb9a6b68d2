"""The program that runs on a node: captures what the probe set asks for and prints one bounded, checksummed answer.

It is not imported there: the loader (`healthcheck.program`) executes its text and calls `main`. Python 3.8, standard library
only, and few imports, because it runs beside a training job and its start is most of what it costs.

One process that never blocks looks after children that may: one reader for files, mounts and the clock, at most two commands,
one NVML reader, and where the inventory says so, one root-owned helper (`healthcheck.collector_helper`) for all that needs root.
A child writes to a memory file, so that nobody has to drain it and what it wrote outlives it. The end of standard input, a
signal or the end of our time kills them all. No f-strings: this text is rewritten by `ast.unparse`, whose quotes in them are
not always those that 3.8 can read.
"""

from __future__ import annotations

import errno
import hashlib
import json
import marshal
import os
import re
import resource
import select
import signal
import stat
import sys
import time
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Callable, Dict, Iterator, List, NoReturn, Optional, Sequence, Set, Tuple

GRACE = 0.5             # seconds that a killed child is given to die
SUDO_S = 10.0           # until the helper says that it runs
LAST = 5.0              # seconds beyond the set's own for building and delivering the answer
MOST_WRITTEN = 1 << 30  # by the helper
COMMANDS = 2            # at a time
RESPAWNS = 8            # readers that may hang before we stop trying
ENTRIES = 16384         # files of one probe, names of one directory
MOST_MOUNTS = 4096
STDERR = 4096
BLOCK = 16384           # above the kernel's longest log record (8192)
SOURCE_LIMIT = 8 << 20  # bytes of what is sent to us on request
SOURCE_S = 10.0
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
DISPLAY = ("30000", "30200")
KMSG = os.makedev(1, 11)

ROOT = os.environ.get("MUSTER_ROOT", "/").rstrip("/")
clock = time.monotonic


def process(pid: int) -> Tuple[str, int, int]:
    """State, session and start time (clock ticks since boot) of a process; an empty state if there is none."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            words = file.read().rpartition(b")")[2].split()
        return words[0].decode(), int(words[3]), int(words[19])
    except (OSError, IndexError, ValueError):
        return "", 0, 0


def slay(leaders: Sequence[int]) -> None:
    """Kills the sessions of these leaders: a child's child may lead a process group of its own, as under timeout(1)."""
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


def memory() -> int:
    """A file without a name."""
    try:
        return os.memfd_create("muster")
    except (AttributeError, OSError):
        import tempfile
        fd, path = tempfile.mkstemp()
        os.unlink(path)
        return fd


def held(fd: int, limit: int, tail: bool) -> Tuple[bytes, int]:
    """What a memory file holds, the beginning or the end of it up to the limit, and its whole size."""
    size = os.fstat(fd).st_size
    return os.pread(fd, limit, max(0, size - limit) if tail else 0), size


def text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def failure(error: OSError) -> Tuple[str, str]:
    """The outcome for an error of the system, and its name where the outcome does not say it all."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENODEV):
        return "missing", ""
    if error.errno in (errno.EACCES, errno.EPERM):
        return "denied", ""
    return "crashed", errno.errorcode.get(error.errno or 0, "error %s" % error.errno)


def capture(outcome: str, seconds: float = 0.0, size: int = 0, **rest: Any) -> Dict[str, Any]:
    """A capture in the form of the answer; empty members are left out."""
    made: Dict[str, Any] = {"outcome": outcome, "seconds": round(seconds, 4), "bytes": size}
    made.update((key, value) for key, value in rest.items() if value not in (None, ""))
    return made


class Folder:
    """Small files that name our children, in a folder that only we may write to; so that the next run knows which are stuck."""

    def __init__(self) -> None:
        self.fd = -1
        self.stuck: Dict[str, str] = {}
        uid = os.geteuid()
        for path in ("/run/muster", os.environ.get("XDG_RUNTIME_DIR", "") + "/muster", "/tmp/muster-%d" % uid):  # noqa: S108
            if path == "/muster":
                continue
            try:
                os.mkdir(ROOT + path, 0o700)
            except OSError:
                pass
            try:
                self.fd = os.open(ROOT + path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except OSError:
                continue
            found = os.fstat(self.fd)
            if found.st_uid == uid and not found.st_mode & 0o022 and os.access(ROOT + path, os.W_OK):
                self.look()
                return
            os.close(self.fd)
            self.fd = -1

    def look(self) -> None:
        """Learns what must not be touched again: a child of an earlier run is past its limit on it.

        A process is the one that was recorded only if its start time is, too. Another run's child within its limit is no
        obstacle.
        """
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        for name in os.listdir(self.fd)[:ENTRIES]:
            try:
                pid = int(name.rpartition("child-")[2])
                with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self.fd), "rb") as file:
                    key, start, began, seconds = json.loads(file.read(BLOCK).decode("ascii"))
                since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began))
                age = now - start / os.sysconf("SC_CLK_TCK")
                late = bool(age > seconds + GRACE)
            except (OSError, ValueError, TypeError, OverflowError, RecursionError):
                continue
            state, _, ticks = process(pid)
            if state in ("", "Z", "X") or ticks != start:
                self.drop(pid)
            elif late:
                # Whatever started it may have been killed before it could do this.
                slay([pid])
                self.stuck[key] = "since %s (pid %d)" % (since, pid)

    def put(self, pid: int, key: str, seconds: float) -> None:
        if self.fd < 0:
            return
        start = process(pid)[2]
        record = json.dumps([key, start, time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - start / os.sysconf("SC_CLK_TCK")),
                             seconds])
        try:
            fd = os.open("child-%d" % pid, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600, dir_fd=self.fd)
            os.write(fd, record.encode())
            os.close(fd)
        except OSError:
            pass

    def drop(self, pid: int) -> None:
        try:
            os.unlink("child-%d" % pid, dir_fd=self.fd)
        except OSError:
            pass


class Child:
    """A process of ours, leader of its own session, and the memory files that it writes to."""

    def __init__(self, run: Run, key: str, seconds: float) -> None:
        self.run = run
        self.key = key
        self.out, self.err = memory(), memory()
        self.began = clock()
        self.seconds = seconds
        self.due = min(self.began + seconds, run.end)
        self.killed = False
        self.status = 0
        self.pid = os.fork()
        if not self.pid:
            code = 70
            try:
                os.setsid()
                signal.set_wakeup_fd(-1)
                # Python ignores the last two, and what is ignored stays so across exec.
                for number in (*SIGNALS, signal.SIGCHLD, signal.SIGALRM, signal.SIGPIPE, signal.SIGXFSZ):
                    signal.signal(number, signal.SIG_DFL)
                # The channel's ends must not stay open in a child that outlives us, nor the helper's lifeline.
                if run.lifeline >= 0:
                    os.close(run.lifeline)
                null = os.open(os.devnull, os.O_RDWR)
                os.dup2(null, 0)
                os.dup2(self.err, 1)
                os.dup2(self.err, 2)
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                code = self.work()
            except BaseException as error:
                os.write(2, ("%s: %s" % (type(error).__name__, error)).encode("utf-8", "replace"))
            finally:
                os._exit(code)
        run.live.append(self)
        if key:
            run.folder.put(self.pid, key, seconds)

    def work(self) -> int:
        """In the child: does what it is for; returns the exit status."""
        raise NotImplementedError

    def ended(self, trouble: str) -> None:
        """In the parent: it has ended, or, if there is trouble to tell, cannot be ended."""
        raise NotImplementedError

    def overdue(self) -> bool:
        """Whether its time is over."""
        return clock() >= self.due

    def check(self) -> None:
        """Sees whether it has ended, and ends it when its time is over."""
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            try:
                # While its number cannot be anybody else's yet.
                os.killpg(self.pid, signal.SIGKILL)
            except OSError:
                pass
            _, status, usage = os.wait4(self.pid, 0)
            self.status = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            self.cpu = usage.ru_utime + usage.ru_stime
            self.run.live.remove(self)
            self.run.folder.drop(self.pid)
            self.ended("")
        elif not self.overdue():
            return
        elif not self.killed:
            self.killed = True
            slay([self.pid])
            self.due = clock() + GRACE
            return
        else:
            self.run.live.remove(self)
            self.ended("cannot be killed (pid %d, state %s)" % (self.pid, process(self.pid)[0] or "?"))
        os.close(self.out)
        os.close(self.err)

    def note(self, trouble: str) -> str:
        unsafe = "" if self.run.folder.fd >= 0 else "no safe run folder: the next look cannot tell whether it is stuck"
        return "; ".join(part for part in (trouble, unsafe) if part)


class Command(Child):
    """An argv list that runs with no shell, no input and the C locale."""

    def __init__(self, run: Run, probe: Dict[str, Any]) -> None:
        self.probe = probe
        self.failed, self.fail = os.pipe()
        try:
            Child.__init__(self, run, "probe " + probe["id"], probe["seconds"])
        finally:
            os.close(self.fail)

    def work(self) -> int:
        try:
            os.dup2(self.out, 1)
            # The kernel bounds what it prints; no need to watch it grow.
            most, hard = max(4 * self.probe["limit"], 1 << 20), resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
            path = os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"
            os.execvpe(  # noqa: S606  (an argv list, and never a shell)
                self.probe["argv"][0], self.probe["argv"], dict(os.environ, LC_ALL="C", LANG="C", PATH=path))
        except Exception as error:
            os.write(self.fail, b"%d" % (getattr(error, "errno", 0) or 0))
        return 127

    def ended(self, trouble: str) -> None:
        os.set_blocking(self.failed, False)
        try:
            unstarted = os.read(self.failed, 16)
        except OSError:
            unstarted = b""
        os.close(self.failed)
        data, size = held(self.out, self.probe["limit"], self.probe["tail"])
        noise, _ = held(self.err, STDERR, True)
        exit_status: Optional[int] = self.status
        if trouble:
            outcome, exit_status = "wedged", None
        elif unstarted:
            outcome, trouble = failure(OSError(int(unstarted), ""))
            exit_status = None
        elif self.killed:
            outcome, exit_status = "timeout", None
        elif size > self.probe["limit"] or self.status == -signal.SIGXFSZ:
            outcome = "truncated"
        else:
            outcome = "crashed" if self.status < 0 else "done"
        self.run.captures[self.probe["id"]] = capture(
            outcome, clock() - self.began, size, exit=exit_status, text=text(data), stderr=text(noise), note=self.note(trouble))


class Helper(Child):
    """The root-owned helper, through sudo: all probes that need root, by their ids alone, in one run.

    Root's processes are not ours to kill: what ends them is the end of their input, a pipe that is closed with us. Stuck children
    of the helper's are for its next run to find; we remember sudo.
    """

    def __init__(self, run: Run, path: str, probes: List[Dict[str, Any]]) -> None:
        self.path = path
        self.probes = probes
        self.most = sum(6 * probe["limit"] for probe in probes) + (1 << 20)
        self.input, run.lifeline = os.pipe()
        seconds = SUDO_S + sum(probe["seconds"] for probe in probes)
        try:
            Child.__init__(self, run, "the helper", seconds)
        except OSError:
            self.let_go()
            raise
        finally:
            os.close(self.input)
        self.late = False
        self.last = self.due
        self.due = min(self.last, self.began + 1.0)

    def work(self) -> int:
        try:
            found = os.stat(self.path)
            if found.st_uid or found.st_mode & 0o022:
                raise ValueError("%s is not root's alone to write to: it was not run" % self.path)
            os.dup2(self.input, 0)
            os.dup2(self.out, 1)
            # Far above what it may say, because old versions of sudo write their log under the same limit.
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_WRITTEN if hard == resource.RLIM_INFINITY else min(MOST_WRITTEN, hard), hard))
            path = os.environ.get("PATH", os.defpath) + ":/usr/local/bin:/usr/bin:/bin"
            words = ["sudo", "-n", "--", self.path, *(probe["id"] for probe in self.probes)]
            os.execvpe("sudo", words, dict(os.environ, LC_ALL="C", LANG="C", PATH=path))  # noqa: S606
        except FileNotFoundError as error:
            os.write(2, ("there is no sudo on the node" if error.filename != self.path else
                         "it is not installed at %s" % self.path).encode())
        except (OSError, ValueError) as error:
            os.write(2, str(error).encode("utf-8", "replace"))
        return 2

    def overdue(self) -> bool:
        now = clock()
        if now < self.due or self.killed:
            return now >= self.due
        if self.late:
            return True
        started = os.pread(self.out, len(HELPER_RUNS), 0) == HELPER_RUNS
        if now < self.last and os.fstat(self.out).st_size <= self.most and (started or now < self.began + SUDO_S):
            self.due = min(self.last, now + 1.0)
            return False
        # sudo may go by itself now, and close what it opened.
        self.late = True
        self.let_go()
        self.due = now + GRACE
        return False

    def let_go(self) -> None:
        """Ends the helper's input, and with it the helper."""
        if self.run.lifeline >= 0:
            os.close(self.run.lifeline)
            self.run.lifeline = -1

    def ended(self, trouble: str) -> None:
        self.let_go()
        data, size = held(self.out, self.most, False)
        noise, _ = held(self.err, STDERR, True)
        said = " ".join((text(noise).strip().splitlines() or ["it said nothing (exit %d)" % self.status])[-1][:300].split())
        found: Dict[str, Any] = {}
        if size > self.most:
            outcome, note = "crashed", "the helper said more than it may"
        elif self.late or trouble:
            what = "the helper did not answer" if data.startswith(HELPER_RUNS) else "sudo did not start the helper"
            outcome, note = "timeout", "%s within %g s" % (what, clock() - self.began)
            note = self.note("; ".join(part for part in (note, trouble) if part))
        elif not data:
            outcome, note = "denied", "the helper did not run: " + said
        else:
            outcome, note = "crashed", "the helper's answer is none: " + said
            try:
                found = helped(data)
                outcome, note = "denied", "the helper on the node is of another version: reinstall it"
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError, zlib.error):
                pass
        for probe in self.probes:
            made = found.get(probe["id"] + " " + digest(probe))
            self.run.captures[probe["id"]] = made if isinstance(made, dict) else capture(outcome, clock() - self.began, note=note)


HELPER_RUNS = b"muster:helper:runs\n"


def digest(probe: Dict[str, Any]) -> str:
    """By which two versions of a probe are told apart."""
    return hashlib.sha256(json.dumps(probe, sort_keys=True).encode()).hexdigest()[:16]


def helped(data: bytes) -> Dict[str, Any]:
    """What the helper captured, each under its probe's id and digest; raises ValueError and more for what is no answer of it."""
    head, _, body = data[len(HELPER_RUNS):].partition(b"\n")
    word, size, checksum = head.split(b" ")
    if word != b"muster:helper:frame" or len(body) != int(size) or hashlib.sha256(body).hexdigest().encode() != checksum:
        raise ValueError
    document = json.loads(zlib.decompressobj().decompress(body, 64 << 20).decode())
    return {name + " " + document["digests"][name]: made for name, made in document["captures"].items()}


class Detect(Child):
    """Looks for an NVIDIA display controller on the PCI bus: in a child, because reading uevent may wait for a driver."""

    def __init__(self, run: Run, probe: Dict[str, Any]) -> None:
        self.probe = probe
        Child.__init__(self, run, "", min(2.0, probe["seconds"]))

    def work(self) -> int:
        bus = ROOT + "/sys/bus/pci/devices/"
        for name in os.listdir(bus) if os.path.exists(bus) else ():
            with open(bus + name + "/uevent", encoding="ascii", errors="replace") as file:
                fields = dict(line.strip().partition("=")[::2] for line in file)
            if fields.get("PCI_ID", "").upper().startswith("10DE:") and fields.get("PCI_CLASS", "").lstrip("0") in DISPLAY:
                return 0
        return 3

    def ended(self, trouble: str) -> None:
        outcome, note = "missing", "no NVIDIA device"
        if trouble or self.killed:
            outcome, note = "timeout", "the PCI bus did not answer"
        elif self.status == 0:
            self.run.want(self.probe)
            return
        elif self.status != 3:
            outcome, note = "crashed", "the PCI bus cannot be read: " + text(held(self.err, 300, True)[0])
        self.run.captures[self.probe["id"]] = capture(outcome, clock() - self.began, note=note)


class Nvml(Child):
    """The NVML reader (`healthcheck.collector_nvml`) on the pynvml that was sent along; one line of JSON for each GPU."""

    def __init__(self, run: Run, probe: Dict[str, Any], source: bytes) -> None:
        self.probe = probe
        self.source = source
        Child.__init__(self, run, "probe " + probe["id"], probe["seconds"])

    def work(self) -> int:
        reader, _, library = zlib.decompress(self.source).partition(b"\0")
        module = type(sys)("pynvml")
        sys.modules["pynvml"] = module
        exec(compile(library, "pynvml", "exec", dont_inherit=True), module.__dict__)
        scope: Dict[str, Any] = {"__name__": "collector_nvml"}
        exec(compile(reader, "collector_nvml", "exec", dont_inherit=True), scope)
        for line in scope["lines"](module):
            os.write(self.out, json.dumps(line).encode() + b"\n")
        return 0

    def ended(self, trouble: str) -> None:
        data, size = held(self.out, self.probe["limit"], False)
        whole = data[:data.rfind(b"\n") + 1]
        exit_status = None
        if trouble:
            outcome = "wedged"
        elif self.killed:
            outcome = "timeout"
        elif self.status:
            outcome = "crashed"
            trouble = text(held(self.err, 300, True)[0])
            exit_status = self.status if self.status < 0 else None
        else:
            outcome = "done" if len(whole) == size else "truncated"
        self.run.captures[self.probe["id"]] = capture(
            outcome, clock() - self.began, size, exit=exit_status, text=text(whole), note=self.note(trouble))


class Enough(Exception):
    """The probe ends here, with this outcome."""


class Reader(Child):
    """Reads files, mounts and the clock, in the order of the probes; what hangs costs one entry and one child.

    The child appends messages to its memory file: `begin` before it touches something, then what came of it. The parent looks
    when the child has ended, or when the last `begin` that it saw may be overdue. So a healthy node costs it no wake-ups.
    """

    def __init__(self, run: Run, state: Reading) -> None:
        self.state = state
        self.offset = 0
        self.step = ""
        self.step_due = 0.0
        state.readers += 1
        Child.__init__(self, run, "", state.tick)

    # In the parent.
    def overdue(self) -> bool:
        if self.killed:
            return clock() >= self.due
        if clock() < self.due:
            return False
        self.drain()
        self.due = min(self.step_due if self.step else clock() + self.state.tick, clock() + self.state.tick, self.run.end)
        return clock() >= self.due

    def drain(self) -> None:
        """Takes in the messages that are complete."""
        data = os.pread(self.out, os.fstat(self.out).st_size - self.offset, self.offset)
        at = 0
        while len(data) - at >= 4:
            size = int.from_bytes(data[at:at + 4], "little")
            if len(data) - at - 4 < size:
                break
            self.take(*marshal.loads(data[at + 4:at + 4 + size]))  # noqa: S302  (our own child's)
            at += 4 + size
        self.offset += at

    def take(self, what: str, *rest: Any) -> None:
        state = self.state
        if what == "probe":
            state.at, state.started = rest
            state.room = state.probe["limit"]
            self.run.captures[state.probe["id"]] = capture("timeout", files={})
        made = self.run.captures[state.probe["id"]]
        if what == "begin":
            self.step, began = rest
            self.step_due = min(began + state.probe["each_s"], state.started + state.probe["seconds"])
        elif what == "entry":
            path, outcome, data = rest
            made["files"][path] = [outcome, text(data)] if data else [outcome]
            made["bytes"] += len(data)
            state.room -= len(data) + len(path)
        elif what == "note":
            earlier = made.get("note", "")
            if rest[0] not in earlier and len(earlier) < 400:
                made["note"] = "; ".join(part for part in (earlier, rest[0]) if part)
        elif what == "text":
            made["text"] = rest[0]
        elif what == "done":
            made["outcome"], ended = rest
            made["seconds"] = round(ended - state.started, 4)
            state.at += 1
            state.started = 0.0
        if what != "begin":
            self.step = ""

    def remember(self) -> None:
        """Leaves word of what this child is on, for the next run to find if it does not die."""
        self.drain()
        if self.step:
            self.run.folder.put(self.pid, self.step, 0.0)

    def ended(self, trouble: str) -> None:
        state, captures = self.state, self.run.captures
        self.drain()
        if not trouble:
            state.cpu += self.cpu
        if state.at >= len(state.probes):
            return
        made = captures.get(state.probe["id"])
        why = "%s: %s" % (self.step, trouble or ("reading it took over %g s" % state.probe["each_s"]))
        if self.step and made is not None:
            outcome = "wedged" if trouble else "timeout" if self.killed else "crashed"
            state.hung[self.step] = outcome, why
            if trouble:
                self.remember()
        if clock() < self.run.end and state.readers <= RESPAWNS and self.run.read(state):
            return
        if self.step.startswith("/") and made is not None:
            made["files"][self.step] = [state.hung[self.step][0]]
        for probe in state.probes[state.at:]:
            if probe["id"] in captures:
                captures[probe["id"]].update(note=why, seconds=round(clock() - state.started, 4))
            else:
                captures[probe["id"]] = capture("timeout", note="its turn never came" + (": " + why if self.step else ""))

    # In the child.
    def work(self) -> int:
        state = self.state
        self.parent, self.pending = os.getppid(), b""
        for at in range(state.at, len(state.probes)):
            if at != state.at or not state.started:
                state.at, state.started = at, clock()
                state.room = state.probe["limit"]
                self.seen: Set[str] = set()
                self.send("probe", at, state.started)
            else:
                self.seen = set(self.run.captures[state.probe["id"]]["files"])
            self.cut = any(entry[0] == "truncated" for entry in self.run.captures.get(state.probe["id"], {}).get("files", {}).values())
            self.end = min(state.started + state.probe["seconds"], self.run.end)
            try:
                {"files": self.files, "mounts": self.mounts, "clock": self.clock}[state.probe["kind"]](state.probe)
                outcome = "truncated" if self.cut else "done"
            except Enough as enough:
                outcome = str(enough)
            self.send("done", outcome, clock())
        self.flush()
        return 0

    def send(self, *message: Any) -> None:
        data = marshal.dumps(message)
        self.pending += len(data).to_bytes(4, "little") + data

    def flush(self) -> None:
        while self.pending:
            self.pending = self.pending[os.write(self.out, self.pending):]

    def begin(self, key: str) -> bool:
        """Announces a step that may hang; false if it is known to."""
        if key in self.state.hung:
            return False
        if clock() > self.end:
            raise Enough("timeout")
        if os.getppid() != self.parent:
            os._exit(1)
        self.send("begin", key, clock())
        self.flush()
        return True

    def put(self, path: str, outcome: str, data: bytes = b"") -> None:
        if path in self.seen:
            return
        self.seen.add(path)
        self.send("entry", path, outcome, data)
        self.state.room -= len(data) + len(path)
        self.cut = self.cut or outcome == "truncated"

    def entry(self, path: str, read: Callable[[str], Tuple[str, bytes]], literal: bool = True) -> None:
        if path in self.seen:
            return
        if self.state.room <= len(path) or len(self.seen) >= ENTRIES:
            raise Enough("truncated")
        if not self.begin(path):
            self.give_up(path)
            return
        try:
            outcome, data = read(path)
        except OSError as error:
            outcome, name = failure(error)
            data = name.encode()
        if literal or outcome != "missing":
            self.put(path, outcome, data)

    def give_up(self, path: str) -> None:
        outcome, why = self.state.hung[path]
        self.put(path, outcome)
        self.send("note", why)

    def files(self, probe: Dict[str, Any]) -> None:
        for pattern in probe["paths"]:
            for path, literal in self.expand("", pattern.strip("/").split("/"), True):
                self.entry(path, self.read, literal)

    def expand(self, base: str, parts: List[str], literal: bool) -> Iterator[Tuple[str, bool]]:
        """The paths that a pattern stands for, in order. A directory that cannot be listed becomes an entry of its own."""
        for at, part in enumerate(parts):
            if "*" in part or "?" in part or "[" in part:
                for name in self.names(base or "/", part):
                    yield from self.expand(base + "/" + name, parts[at + 1:], False)
                return
            base += "/" + part
        yield base, literal

    def names(self, directory: str, pattern: str) -> List[str]:
        if not self.begin(directory):
            self.give_up(directory)
            return []
        found: List[str] = []
        try:
            with os.scandir(ROOT + directory) as listing:
                for item in listing:
                    if len(found) >= ENTRIES:
                        self.cut = True
                        break
                    found.append(item.name)
        except OSError as error:
            outcome, name = failure(error)
            if outcome != "missing":
                self.put(directory, outcome, name.encode())
        if pattern != "*":
            import fnmatch
            found = [name for name in found if fnmatch.fnmatchcase(name, pattern)]
        return sorted(name for name in found if name[0] != "." or pattern[0] == ".")

    def read(self, path: str) -> Tuple[str, bytes]:
        """A regular file or the kernel log, up to what the probe has left. Looked at before it is opened, because opening
        some devices is an action."""
        room, tail = self.state.room - len(path), self.state.probe["tail"]
        data, cut = bytearray(), False
        if not self.readable(os.stat(ROOT + path)):
            return "crashed", b"not a regular file"
        fd = os.open(ROOT + path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            found = os.fstat(fd)
            if not self.readable(found):
                return "crashed", b"not a regular file"
            if tail and found.st_size > room:
                os.lseek(fd, found.st_size - room, os.SEEK_SET)
                cut = True
            while True:
                try:
                    block = os.read(fd, BLOCK)
                except BlockingIOError:
                    break
                except BrokenPipeError:
                    # The kernel overwrote records that we had not read yet; the next read goes on with the oldest left.
                    self.send("note", "%s: records were overwritten while it was read" % path)
                    continue
                if not block:
                    break
                data += block
                if len(data) > room and not tail:
                    del data[room:]
                    return "truncated", bytes(data)
                if len(data) > 2 * room + (1 << 20):
                    del data[:-room]
                    cut = True
        finally:
            os.close(fd)
        if len(data) > room:
            del data[:-room]
            cut = True
        if cut:
            # The first line is a part of one, and a part of a line may say what the whole did not.
            end = data.find(b"\n")
            del data[:end + 1 if end >= 0 else len(data)]
        return "truncated" if cut else "done", bytes(data)

    def readable(self, found: os.stat_result) -> bool:
        return stat.S_ISREG(found.st_mode) or (stat.S_ISCHR(found.st_mode) and found.st_rdev == KMSG)

    def mounts(self, probe: Dict[str, Any]) -> None:
        info = "/proc/self/mountinfo"
        points: Dict[str, str] = {}
        self.entry(info, self.read)
        if not self.begin(info):
            return
        try:
            with open(ROOT + info, "rb") as file:
                lines = file.read(probe["limit"]).decode("utf-8", "surrogateescape").split("\n")
        except OSError:
            return
        for line in lines:
            before, _, after = line.partition(" - ")
            words = before.split(" ")
            if len(words) > 4 and after:
                # What was mounted last at a point hides what was there.
                points[unescape(words[4])] = after.split(" ")[0]
        chosen = [point for point, kind in points.items() if kind not in probe["skip"]]
        for point in chosen[:MOST_MOUNTS]:
            self.entry(point, self.space)
        if len(chosen) > MOST_MOUNTS:
            raise Enough("truncated")

    def space(self, point: str) -> Tuple[str, bytes]:
        found = os.statvfs(ROOT + point)
        return "done", ("%d %d %d %d %d %d %d %d %d %d" % tuple(found[:10])).encode()

    def clock(self, probe: Dict[str, Any]) -> None:
        if not self.begin("adjtimex"):
            outcome, why = self.state.hung["adjtimex"]
            self.send("note", why)
            raise Enough(outcome)
        import ctypes

        class Timex(ctypes.Structure):
            # adjtimex(2), with the members that nobody asks for under names of no meaning.
            _fields_ = [
                ("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long), ("maxerror", ctypes.c_long),
                ("esterror", ctypes.c_long), ("status", ctypes.c_int), ("to_tick", ctypes.c_long * 6), ("to_jitter", ctypes.c_long * 2),
                ("shift", ctypes.c_int), ("to_stbcnt", ctypes.c_long * 5), ("tai", ctypes.c_int), ("reserved", ctypes.c_int * 11),
            ]

        timex = Timex()
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
        if state < 0:
            outcome, name = failure(OSError(ctypes.get_errno(), ""))
            self.send("note", "adjtimex: " + (name or outcome))
            raise Enough(outcome)
        found = {name: getattr(timex, name) for name in ("status", "offset", "maxerror", "esterror", "tai")}
        self.send("text", json.dumps(dict(found, state=state)))


def unescape(word: str) -> str:
    """Undoes the octal escapes of mountinfo, which stand for a space, a tab, a newline or a backslash."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), word)


class Reading:
    """How far the readers have come; a new one is forked with it and goes on from there."""

    def __init__(self, probes: List[Dict[str, Any]], stuck: Dict[str, str]) -> None:
        self.probes = probes
        self.at = 0
        self.started = 0.0
        self.room = 0
        self.readers = 0
        self.cpu = 0.0
        self.tick = min(probe["each_s"] for probe in probes)
        self.hung = {key: ("wedged", "%s: wedged %s" % (key, since)) for key, since in stuck.items()}

    @property
    def probe(self) -> Dict[str, Any]:
        return self.probes[self.at]


class Run:
    """The process that looks after the others, and the channel."""

    def __init__(self, nonce: str, probes: Dict[str, Any], channel: int) -> None:
        self.nonce = nonce
        self.probes = probes
        self.input = channel
        self.end: float = clock() + probes["seconds"]
        self.live: List[Child] = []
        self.captures: Dict[str, Dict[str, Any]] = {}
        self.lifeline = -1      # the helper's
        self.incoming, self.outgoing = bytearray(), bytearray()
        self.wanted: List[Dict[str, Any]] = []
        self.wanted_until = 0.0
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
        self.folder = Folder()
        self.reading: Optional[Reading] = None

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
                    # As much as a pipe that is ready takes without making us wait (PIPE_BUF).
                    del self.outgoing[:os.write(1, self.outgoing[:4096])]
                except BlockingIOError:
                    pass
                except BrokenPipeError:
                    self.leave()

    def collect(self, helper: bool = False) -> None:
        """Afterwards every probe has its capture; with `helper`, those that need root have it from the helper."""
        queue = []
        readers = []
        rooted = []
        for probe in self.probes["probes"]:
            rooting = helper and probe["root"]
            stuck = self.folder.stuck.get("the helper" if rooting else "probe " + probe["id"])
            if stuck:
                self.captures[probe["id"]] = capture("wedged", note=("the helper is " if rooting else "") + "wedged " + stuck)
            elif rooting:
                rooted.append(probe)
            elif probe["kind"] == "command":
                queue.append(probe)
            elif probe["kind"] == "nvml":
                self.look_for_nvidia(probe)
            else:
                readers.append(probe)
        if rooted:
            try:
                Helper(self, self.probes["helper"], rooted)
            except OSError as error:
                for probe in rooted:
                    self.captures[probe["id"]] = capture("crashed", note="no child could be started: %s" % failure(error)[1])
        if readers:
            self.reading = Reading(readers, self.folder.stuck)
            self.read(self.reading)
        while True:
            while queue and clock() < self.end and sum(isinstance(child, Command) for child in self.live) < COMMANDS:
                self.start(Command, queue.pop(0))
            if not self.live and not self.wanted and not (queue and clock() < self.end):
                break
            self.wait(min([child.due for child in self.live] + ([self.wanted_until] if self.wanted else [])))
            for child in list(self.live):
                child.check()
            if self.wanted:
                self.take_source()
        for probe in queue:
            self.captures[probe["id"]] = capture("timeout", note="its turn never came")

    def start(self, kind: Callable[..., Child], probe: Dict[str, Any], *rest: Any) -> None:
        try:
            kind(self, probe, *rest)
        except OSError as error:
            self.captures[probe["id"]] = capture("crashed", note="no child could be started: %s" % failure(error)[1])

    def read(self, state: Reading) -> bool:
        try:
            Reader(self, state)
        except OSError as error:
            for probe in state.probes[state.at:]:
                self.captures[probe["id"]] = capture("crashed", note="no child could be started: %s" % failure(error)[1])
            return False
        return True

    def look_for_nvidia(self, probe: Dict[str, Any]) -> None:
        if os.path.exists(ROOT + "/proc/driver/nvidia/version") or os.path.exists(ROOT + "/sys/module/nvidia"):
            self.want(probe)
        else:
            self.start(Detect, probe)

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
        return {"schema": "muster.reply/1", "host": host, "captures": captures}

    def answer(self) -> None:
        """Delivers everything in one frame."""
        body = zlib.compress(json.dumps(self.document()).encode(), 3)
        self.outgoing += ("muster:%s:frame %d %s\n" % (self.nonce, len(body), hashlib.sha256(body).hexdigest())).encode() + body
        while self.outgoing:
            self.wait(clock() + LAST)


def first_line(path: str) -> str:
    try:
        with open(ROOT + path, "rb") as file:
            return text(file.readline(256)).strip()
    except OSError:
        return ""


def fit(captures: Dict[str, Dict[str, Any]], limit: int, tails: Set[str]) -> Dict[str, Dict[str, Any]]:
    """The same captures in at most so many bytes of JSON; the largest give way, and say so."""
    sizes = {name: len(json.dumps({name: made})) for name, made in captures.items()}
    while sizes and sum(sizes.values()) > limit:
        name = max(sizes, key=lambda key: sizes[key])
        made = captures[name] = shrink(captures[name], sizes[name] // 2 - 200, name in tails)
        sizes[name] = len(json.dumps({name: made}))
        if not (made.get("files") or made.get("text") or made.get("stderr") or made.get("note")):
            del sizes[name]
            limit -= 200
    return captures


def clip(text: str, room: int, tail: bool) -> str:
    """The beginning of a text, or its last whole lines, in at most so many bytes of JSON."""
    whole = text
    while text and len(json.dumps(text)) > room:
        half = len(text) // 2
        text = text[len(text) - half:] if tail else text[:half]
    return text[text.find("\n") + 1:] if tail and len(text) < len(whole) else text


def shrink(made: Dict[str, Any], room: int, tail: bool) -> Dict[str, Any]:
    """A capture with less in it: what does not fit is cut, or dropped from the end."""
    less = dict(made, outcome="truncated" if made["outcome"] == "done" else made["outcome"])
    for key in ("text", "stderr", "note"):
        if key in made:
            less[key] = clip(made[key], room, tail)
    files: Dict[str, Any] = {}
    for path, entry in made.get("files", {}).items():
        size = len(json.dumps([path, entry]))
        if size > room:
            outcome = "truncated" if entry[0] == "done" else entry[0]
            entry = [outcome, *(clip(found, room - len(json.dumps(path)), tail) for found in entry[1:])]
            size = len(json.dumps([path, entry]))
        if size > room:
            break
        room -= size
        files[path] = entry
    less["files"] = files
    return less


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
    run = Run(nonce, json.loads(probes.decode()), stdin.fileno())
    try:
        # The probe set is the same for all nodes; by which privilege this one looks is the last word on the command line.
        run.collect(helper=sys.argv[2:] == ["helper"] and os.geteuid() != 0)
        run.answer()
    finally:
        slay([child.pid for child in run.live])
    os._exit(0)
