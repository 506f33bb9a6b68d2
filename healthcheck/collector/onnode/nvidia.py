"""The children for NVIDIA GPUs: detection and the NVML reader."""

from __future__ import annotations

import json
import os
import re
import sys
import zlib
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

from healthcheck.collector.onnode.child import Child
from healthcheck.collector.onnode.shortage import RAISE, own_failure, words_of
from healthcheck.collector.onnode.system import ROOT, capture, clock, contents, memory, text

if TYPE_CHECKING:
    from healthcheck.collector.onnode.run import CollectorRun

DISPLAY = ("30000", "30200")

# Seconds for each stage of NVML, and what it does. Setting up a GPU that nothing keeps initialised takes 1 to
# 3 s (NVIDIA, Driver Persistence) and was seen to take 4.3 s (B200: tinfoilsh/cvmimage pull request 363); 200
# clients that start at once wait up to 12 s for one another (NVIDIA/libcudacxx issue 222).
STAGES = {"init": (10.0, "starting NVML"), "attach": (10.0, "attaching it"), "read": (5.0, "reading it")}
LEAST_S = 2.0           # a stage that may take less than this has no time left: its GPU is not accused
AFTER = "not asked: NVML did not start again after another GPU had hung: %s"
# GPU_IS_LOST and RESET_REQUIRED: another source cannot know better.
DEFINITE = re.compile(r'"error": \[1[56],')


class Detector(Child):
    """Looks for an NVIDIA display controller on the PCI bus; reading uevent may wait for a driver.

    `probes` are those that need one.
    """

    def __init__(self, run: CollectorRun, probes: List[Dict[str, Any]]) -> None:
        self.probes = probes
        Child.__init__(self, run, "", 2.0)

    def work(self) -> int:
        bus = ROOT + "/sys/bus/pci/devices/"
        for name in os.listdir(bus) if os.path.exists(bus) else ():
            with open(bus + name + "/uevent", encoding="ascii", errors="replace") as file:
                fields = dict(line.strip().partition("=")[::2] for line in file)
            nvidia = fields.get("PCI_ID", "").upper().startswith("10DE:")
            if nvidia and fields.get("PCI_CLASS", "").lstrip("0") in DISPLAY:
                return 0
        return 3

    def ended(self, trouble: str) -> None:
        outcome, note = "missing", "no NVIDIA device"
        if trouble or self.killed:
            outcome, note = "timeout", "the PCI bus did not answer"
        elif self.status == 0:
            self.run.start_nvidia(self.probes)
            return
        elif self.status != 3:
            noise = text(contents(self.err, 300, True)[0])
            outcome, note = "unable", "the PCI bus cannot be read: " + (self.lacked(noise) or noise)
        self.run.fail(self.probes, outcome, note, clock() - self.began)


def not_needed(found: Dict[str, Any]) -> str:
    """Why no second source is needed after the NVML reader's capture; empty if one is."""
    if found["outcome"] == "wedged" or HELD.search(found.get("note", "")):
        # It would wait for the same driver; one process that cannot be killed is enough.
        return "not run: a process that asked the driver cannot be killed"
    head, *gpus = found.get("text", "").splitlines() or [""]
    if found["outcome"] not in ("done", "truncated") or not head or "error" in json.loads(head):
        return ""
    return "" if any(unread(line) for line in gpus) else "not needed: NVML answered"


HELD = re.compile(r"cannot be killed|wedged since")


def unread(line: str) -> bool:
    """Whether NVML gave no reading of a GPU, and no definite reason: only its pairs have a value."""
    return line.count('"ok"') <= 1 and DEFINITE.search(line) is None


def own_error(data: bytes) -> str:
    """The reader's error in starting NVML that is none of NVML's; empty without one."""
    first = json.loads(text(data).partition("\n")[0] or "{}")
    error = first.get("error") if isinstance(first, dict) else None
    return str(error[1]) if isinstance(error, list) and error[0] == -1 else ""


class NvmlProgress:
    """What the NVML readers of a probe have brought so far; a new one goes on after a GPU that hung.

    `lines` are the GPUs' lines by index, `hung` says why there is none.
    """

    def __init__(self, run: CollectorRun, probe: Dict[str, Any], source: bytes) -> None:
        self.run = run
        self.probe = probe
        self.source = source
        self.began = clock()
        self.end = min(self.began + probe["seconds"], run.end)
        self.head: Dict[str, Any] = {}
        self.lines: Dict[int, Dict[str, Any]] = {}
        self.hung: Dict[int, str] = {}
        prefix = self.key(-1)
        for key, since in run.folder.stuck.items():
            if key.startswith(prefix) and key[len(prefix):].isdigit():
                self.hung[int(key[len(prefix):])] = "wedged " + since

    def key(self, index: int) -> str:
        """What stands in the run folder for a child that hangs on this GPU; -1: how such a key begins."""
        return "GPU of %s: %s" % (self.probe["id"], "" if index < 0 else index)

    def take(self, data: bytes) -> None:
        """Adds a reader's lines to those of its predecessors."""
        for row in data.splitlines():
            line = json.loads(row)
            if "index" in line:
                self.lines.setdefault(line["index"], {}).update(line)
            elif not self.head:
                self.head = line
            elif "error" in line:
                self.give_up(AFTER % line["error"][1])

    def left(self) -> List[int]:
        """The GPUs that still have neither a line nor a reason."""
        count = self.head.get("count", {}).get("ok", 0)
        return [index for index in range(count) if index not in self.lines and index not in self.hung]

    def give_up(self, why: str) -> None:
        """No reader is started for the GPUs that are left."""
        self.hung.update(dict.fromkeys(self.left(), why))

    def text(self) -> str:
        """All lines in the reader's format; -1 marks an error that is not NVML's."""
        gpus = dict(self.lines)
        gpus.update((index, {"index": index, "error": [-1, why]}) for index, why in self.hung.items())
        lines = [self.head] + [gpus[index] for index in sorted(gpus)] if self.head else []
        return "".join(json.dumps(line) + "\n" for line in lines)

    def note(self) -> str:
        """Which GPUs did not answer, and why, and which were not asked."""
        found = ["GPU %d: %s" % one for one in sorted(self.hung.items())[:4]]
        left = ", ".join(map(str, self.left()[:16]))
        return "; ".join(found + (["not asked in NVML's time: GPU %s" % left] if left else []))


class NvmlReader(Child):
    """The NVML reader (`onnode.nvml`) with its subset of pynvml: prints one line of JSON for each GPU.

    Each stage has its own limit, and at most half of what is left: a GPU that hangs costs itself. The child
    appends to `steps` what it begins, and when; the parent reads that only when the stage may be overdue.
    """

    def __init__(self, state: NvmlProgress) -> None:
        self.state = state
        self.steps = memory()
        try:
            Child.__init__(self, state.run, "probe " + state.probe["id"], max(0.0, state.end - clock()))
        except OSError:
            os.close(self.steps)
            raise
        self.deadline = self.stage_end()

    def work(self) -> int:
        state = self.state
        reader, _, library = zlib.decompress(state.source).partition(b"\0")
        module = type(sys)("pynvml")
        sys.modules["pynvml"] = module
        exec(compile(library, "pynvml", "exec", dont_inherit=True), module.__dict__)
        scope: Dict[str, Any] = {"__name__": "collector_nvml"}
        exec(compile(reader, "collector_nvml", "exec", dont_inherit=True), scope)
        for line in scope["lines"](module, self.begin, tuple(state.hung), tuple(state.lines)):
            os.write(self.out, json.dumps(line).encode() + b"\n")
        return 0

    def begin(self, stage: str, index: int) -> None:
        """In the child: records the stage that begins."""
        os.write(self.steps, b"%s %d %f\n" % (stage.encode(), index, clock()))

    def step(self) -> Tuple[str, int, float]:
        """In the parent: the stage that began last, its GPU (-1 for none), and when."""
        data, _ = contents(self.steps, 100, True)
        words = (data[:data.rfind(b"\n") + 1].splitlines() or [b""])[-1].split()
        return (text(words[0]), int(words[1]), float(words[2])) if words else ("init", -1, self.began)

    def stage_s(self) -> float:
        """Seconds that the present stage may take."""
        stage, _, began = self.step()
        left: float = max(0.0, self.state.end - began)
        return min(STAGES[stage][0], left / 2)

    def stage_end(self) -> float:
        return min(self.step()[2] + self.stage_s(), self.run.end)

    def overdue(self) -> bool:
        if not self.killed and clock() >= self.deadline:
            self.deadline = self.stage_end()
        return clock() >= self.deadline

    def note_step(self) -> None:
        """Records the GPU on which this child hangs, for the next run in case it does not die."""
        index = self.step()[1]
        if index >= 0:
            self.run.folder.put(self.pid, self.state.key(index), 0.0)

    def ended(self, trouble: str) -> None:
        state = self.state
        data, size = contents(self.out, state.probe["limit"], False)
        whole = data[:data.rfind(b"\n") + 1]
        (stage, index, _), allowed = self.step(), self.stage_s()
        if trouble:
            self.note_step()
        os.close(self.steps)
        first, late, exit_status = not (state.head or state.hung), bool(trouble) or self.killed, None
        outcome = "done" if len(whole) == size else "truncated"
        if late or not first:
            state.take(whole)
        if late:
            outcome = "timeout" if state.head or not trouble else "wedged"
            hung = self.run.late is None and allowed >= LEAST_S
            why = ("no answer within %.2g s" % allowed if hung else "its time was over") + " while "
            trouble = "; ".join(part for part in (why + STAGES[stage][1], trouble) if part)
            if hung and (index >= 0 or state.lines) and self.goes_on(index, trouble):
                return
        elif self.status:
            noise = text(contents(self.err, 300, True)[0])
            trouble = self.lacked(noise) or noise
            # A signal may be the library's fault; an error in Python is ours.
            crashed = self.status < 0 and not self.lacked(noise)
            outcome, exit_status = ("crashed", self.status) if crashed else ("unable", None)
            if state.lines:
                state.give_up("not asked: the reader that went on after another GPU had hung ended: %s" % (
                    trouble or "signal %d" % -self.status))
        elif own_error(whole):
            outcome, trouble = "unable", words_of(own_error(whole)) or own_error(whole)
        elif self.run.short and (b'"error"' in whole or whole.count(b"\n") < 2):
            # NVML has one number for a file that it may not open and for one that it finds no descriptor for.
            outcome, trouble = "unable", "NVML had errors, and %s; %s" % (self.run.short, RAISE)
        if state.head:
            whole = state.text().encode("utf-8", "surrogateescape")
            if state.hung and "error" not in state.head:
                outcome, trouble, exit_status = "timeout" if state.left() else "done", state.note(), None
        self.run.captures[state.probe["id"]] = capture(
            outcome, clock() - state.began, max(size, len(whole)), exit=exit_status, text=text(whole),
            note=self.note(trouble))

    def goes_on(self, index: int, why: str) -> bool:
        """Whether another reader was started for the GPUs after the one that hung."""
        state = self.state
        if index < 0:
            state.give_up(AFTER % why)
        elif index not in state.lines:
            state.hung[index] = why
        if not state.left() or state.end - clock() < LEAST_S:
            return False
        try:
            NvmlReader(state)
        except OSError as error:
            state.give_up("not asked: no child could be started: %s" % (own_failure(error) or error))
            return False
        return True
