"""The child that reads files, mounts and the clock, and the progress that the next such child continues."""

from __future__ import annotations

import fnmatch
import json
import marshal
import os
import re
import signal
import stat
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Set, Tuple

from healthcheck.collector.onnode.child import Child
from healthcheck.collector.onnode.config import registers
from healthcheck.collector.onnode.containers import described, toolkit
from healthcheck.collector.onnode.shortage import OwnFailure, own_failure
from healthcheck.collector.onnode.system import (
    BLOCK,
    ENTRIES,
    FUNCTION,
    LEFT_OUT,
    NETWORK,
    ROOT,
    capture,
    clock,
    contents,
    excluded_device,
    failure,
    text,
)

if TYPE_CHECKING:
    from healthcheck.collector.onnode.run import CollectorRun

RESPAWNS = 8            # readers that may hang before no more are started
MOST_MOUNTS = 4096
MOST_TASKS = 200        # tasks of each state that are recorded
MOST_OWNED = 20000      # processes of which the owner is recorded
KERNEL_THREAD = 0x00200000      # PF_KTHREAD of include/linux/sched.h, in the flags of /proc/PID/stat
KMSG = os.makedev(1, 11)


class EndProbe(Exception):
    """Ends the probe with this outcome."""


class Reader(Child):
    """Reads files, mounts and the clock in the order of the probes; a hang costs one entry and one child.

    The child appends messages to its memory file: `begin` before it touches something, then the result. The
    parent reads them when the child has ended, or when the last `begin` may be overdue: a healthy node causes
    no wake-ups.
    """

    def __init__(self, run: CollectorRun, state: ReaderProgress) -> None:
        self.state = state
        self.offset = 0
        self.step = ""
        self.step_end = 0.0
        state.readers += 1
        Child.__init__(self, run, "", state.tick)

    # In the parent.
    def overdue(self) -> bool:
        if self.killed:
            return clock() >= self.deadline
        if clock() < self.deadline:
            return False
        self.drain()
        tick = clock() + self.state.tick
        self.deadline = min(self.step_end if self.step else tick, tick, self.run.end)
        return clock() >= self.deadline

    def drain(self) -> None:
        """Handles the messages that are complete."""
        data = os.pread(self.out, os.fstat(self.out).st_size - self.offset, self.offset)
        at = 0
        while len(data) - at >= 4:
            size = int.from_bytes(data[at:at + 4], "little")
            if len(data) - at - 4 < size:
                break
            self.handle(*marshal.loads(data[at + 4:at + 4 + size]))  # noqa: S302  (our own child's)
            at += 4 + size
        self.offset += at

    def handle(self, what: str, *rest: Any) -> None:
        state = self.state
        if what == "probe":
            state.at, state.started = rest
            state.room = state.probe["limit"]
            self.run.captures[state.probe["id"]] = capture("timeout", files={})
        made = self.run.captures[state.probe["id"]]
        if what == "begin":
            self.step, began = rest
            self.step_end = min(began + state.probe["each_s"], state.started + state.probe["seconds"])
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

    def note_step(self) -> None:
        """Records what this child is reading, for the next run in case it does not die."""
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
        budget = self.run.budget is not None and self.status == -signal.SIGXCPU
        own = "" if trouble or self.killed or budget else self.ended_itself()
        why = "%s: %s" % (self.step, trouble or own or (
            "reading it took over %g s" % state.probe["each_s"]))
        if self.step and made is not None:
            outcome = "wedged" if trouble else "unable" if own else "timeout"
            state.hung[self.step] = outcome, why
            if trouble:
                self.note_step()
        if clock() < self.run.end and state.readers <= RESPAWNS and self.run.read(state):
            return
        if self.step.startswith("/") and made is not None:
            made["files"][self.step] = [state.hung[self.step][0]]
        for probe in state.probes[state.at:]:
            if own:
                captures[probe["id"]] = capture("unable", note=why if self.step else own)
            elif probe["id"] in captures:
                captures[probe["id"]].update(note=why, seconds=round(clock() - state.started, 4))
            else:
                captures[probe["id"]] = capture(
                    "timeout", note="its turn never came" + (": " + why if self.step else ""))

    def ended_itself(self) -> str:
        """Why this child has ended, which no file can make it do: an error of ours, or something lacked."""
        noise = text(contents(self.err, 300, True)[0]).strip()
        return self.lacked(noise) or "our reader of files ended by itself (%s)" % (
            noise or ("signal %d" % -self.status if self.status < 0 else "exit %d" % self.status))

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
            earlier = self.run.captures.get(state.probe["id"], {}).get("files", {})
            self.cut = any(entry[0] == "truncated" for entry in earlier.values())
            self.end = min(state.started + state.probe["seconds"], self.run.end)
            try:
                kinds = {"files": self.files, "mounts": self.mounts, "clock": self.clock,
                         "processes": self.processes, "owners": self.owners,
                         "config": self.config, "containers": self.containers}
                kinds[state.probe["kind"]](state.probe)
                outcome = "truncated" if self.cut else "done"
            except EndProbe as enough:
                outcome = str(enough)
            except Exception as error:
                # What was read may lack more than is known: nothing of it counts.
                outcome = "unable"
                self.send("note", own_failure(error) or "%s: %s" % (type(error).__name__, error))
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
        """Announces a step that may hang; false if it has hung before."""
        if key in self.state.hung:
            return False
        if clock() > self.end:
            raise EndProbe("timeout")
        if os.getppid() != self.parent:
            os._exit(1)
        self.send("begin", key, clock())
        self.flush()
        return True

    def begin_probe(self, key: str) -> None:
        """Announces the only step of a probe that may hang; ends the probe if it has hung before."""
        if not self.begin(key):
            outcome, why = self.state.hung[key]
            self.send("note", why)
            raise EndProbe(outcome)

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
            raise EndProbe("truncated")
        if not self.begin(path):
            self.note_hung(path)
            return
        try:
            outcome, data = read(path)
        except OSError as error:
            outcome, name = failure(error)
            data = name.encode()
        if literal or outcome != "missing":
            self.put(path, outcome, data)

    def note_hung(self, path: str) -> None:
        outcome, why = self.state.hung[path]
        if outcome == "unable":
            raise OwnFailure(why)
        self.put(path, outcome)
        self.send("note", why)

    def files(self, probe: Dict[str, Any]) -> None:
        for pattern in probe["paths"]:
            for path, literal in self.expand("", pattern.strip("/").split("/"), True):
                self.entry(path, self.read, literal)

    def expand(self, base: str, parts: List[str], literal: bool) -> Iterator[Tuple[str, bool]]:
        """The paths of a pattern, in order. A directory that cannot be listed becomes an entry of its own."""
        for at, part in enumerate(parts):
            if "*" in part or "?" in part or "[" in part:
                for name in self.names(base or "/", part):
                    yield from self.expand(base + "/" + name, parts[at + 1:], False)
                return
            base += "/" + part
        yield base, literal

    def names(self, directory: str, pattern: str) -> List[str]:
        if not self.begin(directory):
            self.note_hung(directory)
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
        if directory in NETWORK and self.run.excluded:
            for name in sorted(found):
                device = excluded_device(directory + "/" + name, self.run.excluded)
                if device:
                    found.remove(name)
                    self.send("note", LEFT_OUT + device)
        if pattern != "*":
            found = [name for name in found if fnmatch.fnmatchcase(name, pattern)]
        return sorted(name for name in found if name[0] != "." or pattern[0] == ".")

    def read(self, path: str) -> Tuple[str, bytes]:
        """A regular file or the kernel log, up to what the probe has left. It is checked before it is opened,
        because opening some devices has side effects."""
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
                    # The kernel overwrote unread records; the next read continues with the oldest left.
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
            # The first line is incomplete, and may mean something else than the whole.
            end = data.find(b"\n")
            del data[:end + 1 if end >= 0 else len(data)]
        return "truncated" if cut else "done", bytes(data)

    def readable(self, found: os.stat_result) -> bool:
        return stat.S_ISREG(found.st_mode) or (stat.S_ISCHR(found.st_mode) and found.st_rdev == KMSG)

    def config(self, probe: Dict[str, Any]) -> None:
        for pattern in probe["paths"]:
            for path, _ in self.expand("", pattern.strip("/").split("/"), True):
                if self.begin(path):
                    self.function(path)
                else:
                    self.note_hung(path)

    def containers(self, probe: Dict[str, Any]) -> None:
        for pattern in probe["paths"]:
            for path, _ in self.expand("", pattern.strip("/").split("/"), True):
                self.entry(path, self.names_of, False)
        self.entry("toolkit", lambda _: ("done", toolkit()))

    def names_of(self, path: str) -> Tuple[str, bytes]:
        outcome, data = self.read(path)
        return outcome, described(path, data) if outcome == "done" else b""

    def function(self, path: str) -> None:
        """Registers of the device that this link in its driver's folder leads to, and of every port above it.

        Each is an entry under its own folder. A virtual function has no settings and all ones as ids.
        """
        try:
            folder = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(ROOT + path)))
            if os.path.lexists(ROOT + folder + "/physfn"):
                return
        except OSError as error:
            outcome, name = failure(error)
            self.put(path, outcome, name.encode())
            return
        parts = folder.split("/")
        for end in range(1, len(parts)):
            if FUNCTION.fullmatch(parts[end - 1]):
                self.entry("/".join(parts[:end]) + "/config", self.space_of)
        driver = ("driver %s\n" % path.split("/")[-2]).encode()
        self.entry(folder + "/config", lambda at: self.space_of(at, driver))

    def space_of(self, path: str, before: bytes = b"") -> Tuple[str, bytes]:
        fd = os.open(ROOT + path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            outcome, data = registers(fd)
            return outcome, before + data if outcome == "done" else data
        finally:
            os.close(fd)

    def mounts(self, probe: Dict[str, Any]) -> None:
        info = "/proc/self/mountinfo"
        points: Dict[str, str] = {}
        self.entry(info, self.read)
        if not self.begin(info):
            return
        try:
            with open(ROOT + info, "rb") as file:
                lines = file.read(probe["limit"]).decode("utf-8", "surrogateescape").split("\n")
        except OSError as error:
            failure(error)
            return
        for line in lines:
            before, _, after = line.partition(" - ")
            words = before.split(" ")
            if len(words) > 4 and after:
                # The last mount at a point hides the others.
                points[unescape(words[4])] = after.split(" ")[0]
        chosen = [point for point, kind in points.items() if kind not in probe["skip"]]
        for point in chosen[:MOST_MOUNTS]:
            self.entry(point, self.space)
        if len(chosen) > MOST_MOUNTS:
            raise EndProbe("truncated")

    def space(self, point: str) -> Tuple[str, bytes]:
        found = os.statvfs(ROOT + point)
        return "done", ("%d %d %d %d %d %d %d %d %d %d" % tuple(found[:10])).encode()

    def clock(self, probe: Dict[str, Any]) -> None:
        self.begin_probe("adjtimex")
        import ctypes

        class Timex(ctypes.Structure):
            # adjtimex(2); unused members have placeholder names.
            _fields_ = [
                ("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long),
                ("maxerror", ctypes.c_long), ("esterror", ctypes.c_long), ("status", ctypes.c_int),
                ("to_tick", ctypes.c_long * 6), ("to_jitter", ctypes.c_long * 2),
                ("shift", ctypes.c_int), ("to_stbcnt", ctypes.c_long * 5), ("tai", ctypes.c_int),
                ("reserved", ctypes.c_int * 11),
            ]

        timex = Timex()
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
        if state < 0:
            outcome, name = failure(OSError(ctypes.get_errno(), ""))
            self.send("note", "adjtimex: " + (name or outcome))
            raise EndProbe(outcome)
        found = {name: getattr(timex, name) for name in ("status", "offset", "maxerror", "esterror", "tai")}
        self.send("text", json.dumps(dict(found, state=state)))

    def processes(self, probe: Dict[str, Any]) -> None:
        """Counts tasks by state; records sleepers (D), zombies (Z), and the limits of wanted tasks.

        It reads nothing that a stuck task could block: neither its command line nor its memory map.
        """
        self.begin_probe("/proc")
        states: Dict[str, int] = {}
        kept: List[List[Any]] = []
        waits: Dict[str, str] = {}
        limits: List[List[Any]] = []
        wanted = {name.encode()[:15]: name for name in probe["argv"]}
        for pid in os.listdir(ROOT + "/proc"):
            if not pid.isdigit():
                continue
            # proc(5): "pid (name) state parent ...", and the name may hold anything.
            before, _, after = proc(pid, "stat").rpartition(b") ")
            words = after.split()
            if len(words) < 20:
                continue
            state, name = words[0].decode("ascii", "replace"), before.partition(b" (")[2]
            states[state] = states.get(state, 0) + 1
            if name in wanted and len(limits) < MOST_TASKS:
                limits.append([int(pid), wanted[name], text(proc(pid, "limits"))])
            if state in "DZ" and states[state] <= MOST_TASKS:
                status = proc(pid, "status") if state == "D" else b""
                if state == "D" and not status:
                    # It has ended, so it was not stuck.
                    states[state] -= 1
                    continue
                switches = re.findall(br"voluntary_ctxt_switches:\s+(\d{1,18})", status)
                count = sum(map(int, switches)) if len(switches) == 2 else -1
                kept.append([int(pid), state, int(words[19]), count, text(name[:64])])
                if state == "D":
                    waits[pid] = text(proc(pid, "wchan")[:64])
        self.send("text", json.dumps({
            "states": states, "processes": kept, "waits": waits, "limits": limits,
            "hidden": not proc("1", "stat"),
        }))

    def owners(self, probe: Dict[str, Any]) -> None:
        """Who has which process: its parent, user and huge pages, and of users other than root the control
        group; kernel threads and zombies are left out. `own` are this program and those that started it.

        It reads nothing that a stuck task could block. Names and groups are listed once.
        """
        self.begin_probe("/proc")
        rows: List[List[int]] = []
        names: Dict[str, int] = {}
        groups: Dict[str, int] = {"": 0}
        parents: Dict[int, int] = {}
        more = 0
        for pid in map(str, sorted(int(name) for name in os.listdir(ROOT + "/proc") if name.isdigit())):
            before, _, after = proc(pid, "stat").rpartition(b") ")
            words = after.split()
            if len(words) < 20 or words[0] in (b"Z", b"X") or int(words[6]) & KERNEL_THREAD:
                continue
            parents[int(pid)] = int(words[1])
            status = proc(pid, "status")
            user = re.search(br"^Uid:\s+(\d{1,10})", status, re.MULTILINE)
            pages = re.search(br"^HugetlbPages:\s+(\d{1,15}) kB", status, re.MULTILINE)
            if not user:
                continue
            if len(rows) == MOST_OWNED:
                more += 1
                continue
            uid = int(user.group(1))
            group = text(proc(pid, "cgroup")) if uid else ""
            name = text(before.partition(b" (")[2][:64])
            rows.append([int(pid), int(words[1]), uid, int(words[19]), int(pages.group(1)) if pages else 0,
                         names.setdefault(name, len(names)), groups.setdefault(group, len(groups))])
        self.send("text", json.dumps({
            "processes": rows, "names": list(names), "cgroups": list(groups), "more": more,
            "own": [] if ROOT else sorted(own_family(parents)), "uptime": text(proc("", "uptime")),
            "hidden": not proc("1", "stat"), "strange": own_namespace(),
        }))


def own_namespace() -> bool:
    """Whether we run in another PID namespace than the machine's, and see only the processes of that."""
    try:
        # PROC_PID_INIT_INO of linux/proc_ns.h
        return not ROOT and os.readlink("/proc/self/ns/pid") != "pid:[4026531836]"
    except OSError as error:
        failure(error)
        return False


def own_family(parents: Dict[int, int]) -> Set[int]:
    """This program's processes and those that they come from: a login with its shell, or a daemon."""
    found, pid = {os.getpid()}, os.getppid()
    while pid > 1 and pid not in found:
        found.add(pid)
        pid = parents.get(pid, 0)
    return found | {child for child, parent in parents.items() if parent == os.getppid()}


def proc(pid: str, name: str) -> bytes:
    """A file of one process; empty if the process has ended or the file is not readable.

    Raises OwnFailure.
    """
    try:
        fd = os.open("%s/proc/%s/%s" % (ROOT, pid, name), os.O_RDONLY)
        try:
            return os.read(fd, 8192)
        finally:
            os.close(fd)
    except OSError as error:
        failure(error)
        return b""


def unescape(word: str) -> str:
    """Reverses the octal escapes of mountinfo for a space, a tab, a newline or a backslash."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), word)


class ReaderProgress:
    """The progress of the readers; a new one is forked with it and continues from there."""

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
