"""A command that is run once for each device: which devices there are, their turns, and how the answers become one capture."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Dict, List

from healthcheck.collector.onnode.child import Child, Command, search_path
from healthcheck.collector.onnode.system import LEFT_OUT, ROOT, capture, clock, held, text, unread

if TYPE_CHECKING:
    from healthcheck.collector.onnode.run import CollectorRun

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")  # of a device: no option of the command, and no path
NO_TOOL = 3


class Devices(Child):
    """Lists the devices: in a child, because a directory may hang, and so that their commands have turns of their own."""

    def __init__(self, run: CollectorRun, probe: Dict[str, Any]) -> None:
        self.probe = probe
        Child.__init__(self, run, "probe " + probe["id"], probe["seconds"])

    def work(self) -> int:
        import glob
        root = glob.escape(ROOT)
        found = {path[len(ROOT):] for pattern in self.probe["each"] for path in glob.glob(root + pattern)}
        said = {path: unread(path, self.run.without) for path in found}
        found = {path for path in found if not said[path]}
        notes = sorted(LEFT_OUT + name for name in set(said.values()) if name)
        folders = search_path().split(":")
        if found and not any(os.access(os.path.join(folder, self.probe["argv"][0]), os.X_OK) for folder in folders):
            return NO_TOOL
        os.write(self.out, "\0".join(sorted(found) + notes).encode("utf-8", "surrogateescape"))
        return 0

    def ended(self, trouble: str) -> None:
        probe, run = self.probe, self.run
        if trouble or self.killed:
            run.captures[probe["id"]] = capture("timeout", clock() - self.began, note=self.note("the devices could not be listed"))
        elif self.status == NO_TOOL:
            run.captures[probe["id"]] = capture("missing", clock() - self.began)
        elif self.status:
            noise = text(held(self.err, 300, True)[0]).strip()
            run.captures[probe["id"]] = capture("crashed", clock() - self.began, note="the devices cannot be listed: " + noise)
        else:
            data, _ = held(self.out, 1 << 20, False)
            words = [word for word in text(data).split("\0") if word]
            paths = [word for word in words if word[0] == "/"]
            run.devices.append(DeviceQueue(run, probe, self.began, paths, "; ".join(word for word in words if word[0] != "/")))


class DeviceQueue:
    """The devices of one probe. Each has a command of its own, one after another, until the probe's time is over."""

    def __init__(self, run: CollectorRun, probe: Dict[str, Any], began: float, paths: List[str], note: str) -> None:
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

    def over(self) -> bool:
        """Starts the next device's command, if none runs; whether all have had their turn."""
        while self.left and not self.busy:
            path = self.left.pop(0)
            name = path.rpartition("/")[2]
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
                argv = [word.replace("{name}", name) for word in self.probe["argv"]]
                seconds = min(self.probe["each_s"], self.end - clock())
                self.busy = True
                DeviceCommand(self.run, dict(self.probe, id=key, argv=argv, seconds=seconds, limit=self.limit), self, path)
        return not self.busy

    def take(self, path: str, made: Dict[str, Any]) -> None:
        """One device's command has ended."""
        self.busy = False
        noise = made.get("stderr", "").strip().splitlines()
        said = "exit %d" % made["exit"] + (": " + noise[-1][:200] if noise else "") if "exit" in made else made.get("note", "")
        self.files[path] = [made["outcome"], said + "\n" + made.get("text", "")]
        if made["outcome"] == "timeout" and clock() >= self.end:
            self.late = True

    def done(self) -> None:
        """All have had their turn, or time is over: the probe's capture."""
        for path in self.left:
            self.late = True
            self.files[path] = ["timeout", "its turn never came"]
        outcome = "timeout" if self.late else "truncated" if self.cut else "done"
        size = sum(len(entry[1]) for entry in self.files.values())
        self.run.captures[self.probe["id"]] = capture(outcome, clock() - self.began, size, files=self.files, note=self.note)


class DeviceCommand(Command):
    """The command of one device."""

    def __init__(self, run: CollectorRun, probe: Dict[str, Any], turns: DeviceQueue, path: str) -> None:
        self.turns = turns
        self.path = path
        try:
            Command.__init__(self, run, probe)
        except OSError as error:
            turns.take(path, capture("crashed", note="no child could be started: %s" % (error.strerror or error)))

    def tell(self, made: Dict[str, Any]) -> None:
        self.turns.take(self.path, made)
