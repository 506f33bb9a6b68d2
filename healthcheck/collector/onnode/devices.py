"""A command that runs once for each device: lists the devices, queues the commands, joins their output."""

from __future__ import annotations

import fnmatch
import os
import re
from typing import TYPE_CHECKING, Any, Dict, List, Sequence, Set

from healthcheck.collector.onnode.child import Child, Command, environment, installed
from healthcheck.collector.onnode.shortage import own_failure
from healthcheck.collector.onnode.system import (
    LEFT_OUT,
    ROOT,
    capture,
    clock,
    contents,
    excluded_device,
    text,
)

if TYPE_CHECKING:
    from healthcheck.collector.onnode.run import CollectorRun

# Neither an option of the command nor a path.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:,+-]{0,63}")
# A line of `smartctl --scan` for a drive that is known by its controller: "/dev/bus/0 -d megaraid,8 # ...".
SCANNED = re.compile(r"(/dev/bus/[0-9]{1,4}) -d ((?:[a-z]{1,8}\+)?megaraid,[0-9]{1,4}) #")
MOST_SCANNED = 1024
DRIVERS = "/sys/bus/pci/drivers/"
NO_TOOL = 3


class DeviceLister(Child):
    """Lists the devices in a child, because reading a directory may hang."""

    def __init__(self, run: CollectorRun, probe: Dict[str, Any]) -> None:
        self.probe = probe
        Child.__init__(self, run, "probe " + probe["id"], probe["seconds"])

    def work(self) -> int:
        found = {path for pattern in self.probe["each"] for path in matching("", pattern.split("/")[1:])}
        names = {path: excluded_device(path, self.run.excluded) for path in found}
        found = {path for path in found if not names[path]}
        notes = sorted(LEFT_OUT + name for name in set(names.values()) if name)
        if found and not installed([self.probe["argv"][0], *self.probe.get("tools", ())]):
            return NO_TOOL
        if found and self.probe.get("scan"):
            found = scanned(self.probe["scan"])
        os.write(self.out, "\0".join(sorted(found) + notes).encode("utf-8", "surrogateescape"))
        return 0

    def ended(self, trouble: str) -> None:
        probe, run, seconds = self.probe, self.run, clock() - self.began
        if trouble or self.killed:
            run.fail([probe], "timeout", self.note("the devices could not be listed"), seconds)
        elif self.status == NO_TOOL:
            run.fail([probe], "missing", "", seconds)
        elif self.status:
            noise = text(contents(self.err, 300, True)[0]).strip()
            run.fail([probe], "denied" if noise.startswith("PermissionError") else "unable",
                     "the devices cannot be listed: " + (self.lacked(noise) or noise), seconds)
        else:
            words = [word for word in text(contents(self.out, 1 << 20, False)[0]).split("\0") if word]
            paths = [word for word in words if word[0] == "/"]
            note = "; ".join(word for word in words if word[0] != "/")
            run.devices.append(DeviceQueue(run, probe, self.began, paths, note))


def no_such_driver(patterns: Sequence[str]) -> bool:
    """Whether these are drivers of PCI devices that the kernel has not loaded: looking there cannot hang, and
    a child for it would cost milliseconds."""
    return all(path.startswith(DRIVERS) and "*" not in path and not os.path.lexists(ROOT + path)
               for path in patterns)


def matching(base: str, parts: List[str]) -> List[str]:
    """The paths that match a pattern. Raises OSError for a folder that is there and cannot be listed, which
    glob(3) and Python's take for empty."""
    for at, part in enumerate(parts):
        if "*" in part or "?" in part or "[" in part:
            try:
                names = os.listdir(ROOT + (base or "/"))
            except (FileNotFoundError, NotADirectoryError):
                return []
            return [path for name in sorted(fnmatch.filter(names, part))
                    if name[0] != "." for path in matching(base + "/" + name, parts[at + 1:])]
        base += "/" + part
    return [base] if os.path.lexists(ROOT + base) else []


def scanned(argv: Sequence[str]) -> Set[str]:
    """The drives that this command lists, as DEVICE/TYPE. Raises OSError where it fails."""
    out, nothing = os.memfd_create("scan"), os.open(os.devnull, os.O_RDWR)
    started = os.posix_spawnp(argv[0], list(argv), environment(), file_actions=[
        (os.POSIX_SPAWN_DUP2, nothing, 0), (os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, nothing, 2)])
    status = os.waitpid(started, 0)[1]
    if status:
        raise OSError("%s: status %d" % (" ".join(argv), status))
    listed = contents(out, MOST_SCANNED * 200, False)[0]
    lines = listed.decode("ascii", "replace").splitlines()[:MOST_SCANNED]
    return {"/".join(found.groups()) for found in map(SCANNED.match, lines) if found}


class DeviceQueue:
    """The devices of one probe: their commands run one after another until the probe's time is over."""

    def __init__(
        self, run: CollectorRun, probe: Dict[str, Any], began: float, paths: List[str], note: str,
    ) -> None:
        self.run = run
        self.probe = probe
        self.began = began
        self.end = min(began + probe["seconds"], run.end)
        self.note = note
        self.cut = len(paths) > probe["most"]
        self.left = paths[:probe["most"]]
        self.limit = probe["limit"] // max(1, len(self.left))
        self.files: Dict[str, List[str]] = {}
        self.late = False
        self.busy = False

    def advance(self) -> bool:
        """Starts the next device's command if none runs; returns whether all are done."""
        while self.left and not self.busy:
            path = self.left.pop(0)
            folder, _, name = path.rpartition("/")
            key = self.probe["id"] + " " + path
            stuck = self.run.folder.stuck.get("probe " + key)
            if stuck:
                self.files[path] = ["wedged", "wedged " + stuck]
            elif NAME.fullmatch(name) is None:
                self.files[path] = ["crashed", "no name of a device"]
            elif clock() >= min(self.end, self.run.end):
                self.late = True
                self.files[path] = ["timeout", "its turn never came"]
            else:
                stem = name.rpartition(".")[0] or name
                argv = [word.replace("{name}", name).replace("{stem}", stem).replace("{folder}", folder)
                        for word in self.probe["argv"]]
                seconds = min(self.probe["each_s"], self.end - clock())
                self.busy = True
                probe = dict(self.probe, id=key, argv=argv, seconds=seconds, limit=self.limit)
                DeviceCommand(self.run, probe, self, path)
        return not self.busy

    def add_result(self, path: str, made: Dict[str, Any]) -> None:
        """One device's command has ended."""
        self.busy = False
        noise = made.get("stderr", "").strip().splitlines()
        message = made.get("note", "")
        if "exit" in made and made["outcome"] != "unable":
            message = "exit %d" % made["exit"] + (": " + noise[-1][:200] if noise else "")
        self.files[path] = [made["outcome"], message + "\n" + made.get("text", "")]
        if made["outcome"] == "timeout" and clock() >= self.end:
            self.late = True

    def done(self) -> None:
        """Makes the probe's capture when all are done or time is over."""
        for path in self.left:
            self.late = True
            self.files[path] = ["timeout", "its turn never came"]
        outcome = "timeout" if self.late else "truncated" if self.cut else "done"
        size = sum(len(entry[1]) for entry in self.files.values())
        self.run.captures[self.probe["id"]] = capture(outcome, clock() - self.began, size, files=self.files,
                                                      note=self.note)


class DeviceCommand(Command):
    """The command of one device."""

    def __init__(
        self, run: CollectorRun, probe: Dict[str, Any], devices: DeviceQueue, path: str,
    ) -> None:
        self.devices = devices
        self.path = path
        try:
            Command.__init__(self, run, probe)
        except OSError as error:
            devices.add_result(
                path, capture("unable", note="no child could be started: %s" % (own_failure(error) or error)))

    def store(self, made: Dict[str, Any]) -> None:
        self.devices.add_result(self.path, made)
