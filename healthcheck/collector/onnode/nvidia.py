"""The children for NVIDIA GPUs: detection and the NVML reader."""

from __future__ import annotations

import json
import os
import sys
import zlib
from typing import TYPE_CHECKING, Any, Dict, List

from healthcheck.collector.onnode.child import Child
from healthcheck.collector.onnode.shortage import RAISE, words_of
from healthcheck.collector.onnode.system import ROOT, capture, clock, contents, text

if TYPE_CHECKING:
    from healthcheck.collector.onnode.run import CollectorRun

DISPLAY = ("30000", "30200")


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
    if found["outcome"] == "wedged" or (found["outcome"] == "timeout" and found["seconds"]):
        # It would wait for the same driver; one process that cannot be killed is enough.
        return "not run: the driver did not answer the NVML reader"
    first = found.get("text", "").partition("\n")[0]
    if found["outcome"] in ("done", "truncated") and first and "error" not in json.loads(first):
        return "not needed: NVML answered"
    return ""


def own_error(data: bytes) -> str:
    """The reader's error in starting NVML that is none of NVML's; empty without one."""
    first = json.loads(text(data).partition("\n")[0] or "{}")
    error = first.get("error") if isinstance(first, dict) else None
    return str(error[1]) if isinstance(error, list) and error[0] == -1 else ""


class NvmlReader(Child):
    """The NVML reader (`onnode.nvml`) with its subset of pynvml: prints one line of JSON for each GPU."""

    def __init__(self, run: CollectorRun, probe: Dict[str, Any], source: bytes) -> None:
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
        data, size = contents(self.out, self.probe["limit"], False)
        whole = data[:data.rfind(b"\n") + 1]
        exit_status = None
        if trouble:
            outcome = "wedged"
        elif self.killed:
            outcome = "timeout"
        elif self.status:
            noise = text(contents(self.err, 300, True)[0])
            trouble = self.lacked(noise) or noise
            # A signal may be the library's fault; an error in Python is ours.
            crashed = self.status < 0 and not self.lacked(noise)
            outcome, exit_status = ("crashed", self.status) if crashed else ("unable", None)
        elif own_error(whole):
            outcome, trouble = "unable", words_of(own_error(whole)) or own_error(whole)
        elif self.run.short and (b'"error"' in whole or whole.count(b"\n") < 2):
            # NVML has one number for a file that it may not open and for one that it finds no descriptor for.
            outcome, trouble = "unable", "NVML had errors, and %s; %s" % (self.run.short, RAISE)
        else:
            outcome = "done" if len(whole) == size else "truncated"
        self.run.captures[self.probe["id"]] = capture(
            outcome, clock() - self.began, size, exit=exit_status, text=text(whole), note=self.note(trouble))
