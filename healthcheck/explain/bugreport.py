"""Explains what nvidia-bug-report.sh wrote: its kernel log, nvidia-smi's log, lspci,
Fabric Manager's log and the state of services.

Sections begin with a line of underscores and the command or file (nvidia-bug-report.sh of drivers 390 to
590). It ignores graphics, and the blobs that only NVIDIA can read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from healthcheck.baseline.formats import read
from healthcheck.explain import kernel, smi, smitext
from healthcheck.explain.model import MOST_QUOTES, Cause, RawExplanation
from healthcheck.explain.recognise import Opened
from healthcheck.joblog.meaning import Sure
from healthcheck.joblog.messages import KnownMessage, find
from healthcheck.model.outcome import Owner, Severity
from healthcheck.ruleset.ruleset import Ruleset

LOOKED_FOR = (
    *kernel.LOOKED_FOR, *smi.LOOKED_FOR,
    "PCIe links below their width, and errors that devices have latched (lspci)",
    "errors in Fabric Manager's log", "services of the driver that failed",
    "versions of the driver that differ",
)
CANNOT_SHOW = (
    "what happened before its kernel log begins", "how many GPUs the node should have",
    "the blobs that only NVIDIA can read", "adapters and the fabric beyond what lspci says",
)

_END = "End of NVIDIA bug report log file"
_SCAN = "Scanning kernel log files for NVIDIA kernel messages"
_RULER = "\n____________________"
_DEVICE = re.compile(r"^(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ([^\n]{0,300})$", re.MULTILINE)
# GPUs, adapters, NVSwitches, NVMe drives
_CLASSES = ("[0302]", "[0300]", "[0207]", "[0680]", "[0108]", "[0200]")
_WIDTH = re.compile(r"LnkSta:[^\n]{0,80}Width x(\d{1,2}) \(downgraded\)")
_MOST = re.compile(r"LnkCap:[^\n]{0,120}Width x(\d{1,2})\b")
_FATAL = re.compile(r"UESta:[^\n]{0,40}?(?:DLP|SDES|FCP|RxOF|MalfTLP|ECRC|TLP|CmpltTO)\+[^\n]{0,200}")
_FABRIC_ERROR = re.compile(r"\[ERROR\] [^\n]{1,300}")
_FAILED_UNIT = re.compile(r"(?:×|●|x|\*) "
                          r"(nvidia-(?:fabricmanager|persistenced|imex|powerd)\.service)\b[^\n]{0,200}(?:\n[^\n]{0,300}){0,5}?"
                          r"\n +Active: failed[^\n]{0,200}")
_MODULE = re.compile(
    r"NVRM version: NVIDIA UNIX [^\n]{0,60}Kernel Module[^\n]{0,20}? (\d{3,4}\.\d{1,4}(?:\.\d{1,4})?) ")


def explain(opened: Opened, ruleset: Ruleset, messages: Sequence[KnownMessage], now: float) -> RawExplanation:
    """What is wrong according to the report."""
    lines, text = opened.lines, opened.text
    causes = kernel.explain(opened.logs, lines, ruleset, now, max(0, text.find("\ndmesg")))
    unread = kernel.unread(opened.logs) if opened.logs else ["it holds no kernel log (dmesg)"]
    known = {(cause.subject, cause.by) for cause in causes}
    causes += [replace(cause, sure=Sure.LIKELY,
                       meaning=f"{cause.meaning} (in the log files, mostly of an earlier boot)")
               for cause in _before(opened, ruleset, now) if (cause.subject, cause.by) not in known]
    gpus = RawExplanation([], [], "no log of nvidia-smi")
    if log := smitext.log(text):
        gpus = smi.explain(log, lines, ruleset, now, text.find(smitext.BANNER))
        unread += gpus.unread
    else:
        unread.append("it holds no log of nvidia-smi; the script was run with --safe-mode, or nvidia-smi "
                      "hung or is missing")
    if _END not in text:
        unread.append("it does not end as such a report does; the script was stopped, or hung")
    versions = list(_versions(opened, messages, log))
    # A wrong version explains a service's failure and its log.
    refused = any(cause.by.endswith("fabric-manager-version") for cause in versions)
    services = [replace(cause, symptom=refused and "abric" in cause.subject)
                for cause in (*_fabric(opened), *_services(opened))]
    return RawExplanation([*causes, *gpus.causes, *versions, *services, *_buses(opened)], unread, gpus.about,
                          gpus.cannot_show)


def _section(text: str, start: int) -> str:
    end = text.find(_RULER, start)
    return text[start:end + 1 if end >= 0 else len(text)]


def _before(opened: Opened, ruleset: Ruleset, now: float) -> list[Cause]:
    """The driver's lines in log files, of this boot and earlier ones."""
    at = opened.text.find(_SCAN)
    if at < 0:
        return []
    rows = [row.strip() for row in _section(opened.text, at).split("\n")]
    logs = tuple(log for log in read("\n".join(row for row in rows if row).encode(), opened.name)
                 if log.format != "text")
    return kernel.explain(logs[-1:], opened.lines, ruleset, now, at)


def _buses(opened: Opened) -> Iterator[Cause]:
    text = opened.text
    start = text.find("lspci -nnDvvvxxxx")
    start = text.find("lspci -d \"10de:*\" -v -xxx") if start < 0 else start
    if start < 0:
        return
    section = _section(text, start)
    devices = list(_DEVICE.finditer(section))
    for number, device in enumerate(devices):
        said = section[device.end():devices[number + 1].start() if number + 1 < len(devices)
                       else len(section)]
        if not any(kind in device[3] for kind in _CLASSES):
            continue
        subject = f"{device[1] or '0000'}:{device[2]} {device[3].partition(': ')[2][:80]}".strip()
        width, most = _WIDTH.search(said), _MOST.search(said)
        if width is not None:
            of = f" of {most[1]}" if most is not None else ""
            yield Cause(
                subject, f"Its PCIe link has {width[1]} lanes{of}", Sure.LIKELY, Severity.WARNING,
                Owner.OPERATOR, "See whether the slot is wired for more; if so, reseat card and riser, and "
                "look for PCIe errors in the kernel log.",
                "lspci LnkSta", (opened.lines.quote(start + device.start()),
                                 opened.lines.quote(start + device.end() + width.start())))
        latched = _FATAL.search(said)
        if latched is not None:
            yield Cause(
                subject, "It has latched an uncorrectable error of PCIe since it was last reset", Sure.LIKELY,
                Severity.WARNING, Owner.OPERATOR, "Look for AER lines of that address in the kernel log; "
                "inspect card, riser and slot if it comes back.",
                "lspci UESta", (opened.lines.quote(start + device.start()),
                                opened.lines.quote(start + device.end() + latched.start())))


def _fabric(opened: Opened) -> Iterator[Cause]:
    at = opened.text.find("fabricmanager.log\n")
    if at < 0:
        return
    section = _section(opened.text, at)
    errors = list(_FABRIC_ERROR.finditer(section))
    if errors:
        newest = errors[-MOST_QUOTES:]
        yield Cause(
            "Fabric Manager", "Its log holds errors; the newest are quoted", Sure.LIKELY, Severity.WARNING,
            Owner.OPERATOR, "Read them with journalctl -u nvidia-fabricmanager at the time of the failure; "
            "look for SXids in the kernel log.",
            "fabricmanager.log", tuple(opened.lines.quote(at + error.start()) for error in newest),
            len(errors))


def _services(opened: Opened) -> Iterator[Cause]:
    for unit in _FAILED_UNIT.finditer(opened.text):
        yield Cause(
            unit[1], "The service has failed", Sure.CERTAIN,
            Severity.CRITICAL if "fabricmanager" in unit[1] else Severity.WARNING,
            Owner.OPERATOR, f"Read journalctl -u {unit[1]}; its version must be the driver's.",
            "systemctl status", (opened.lines.quote(unit.start()), opened.lines.quote(unit.end())))


def _versions(opened: Opened, messages: Sequence[KnownMessage], log: str) -> Iterator[Cause]:
    """Messages of the driver's tools about the driver, and whether module and nvidia-smi have one version."""
    known = [message for message in messages
             if message.id in ("fabric-manager-version", "driver-library-mismatch", "driver-not-there",
                              "cuda-gpu-lost")]
    seen: set[str] = set()
    for found in find(opened.text, known):
        # An Xid already reports the kernel's line about a lost GPU.
        if found.message.id not in seen and "NVRM:" not in found.text:
            seen.add(found.message.id)
            yield Cause("", found.message.meaning, found.message.sure, found.message.severity,
                        found.message.owner, found.message.remedy, f"joblog {found.message.id}",
                        (opened.lines.quote(found.place),))
    module = _MODULE.search(opened.text)
    tool = re.search(r"Driver Version +: (\S{1,20})", log)
    if module is not None and tool is not None and module[1] != tool[1]:
        yield Cause("", f"The kernel module is {module[1]}, and nvidia-smi is of {tool[1]}", Sure.CERTAIN,
                    Severity.CRITICAL, Owner.OPERATOR, "Drain and reboot the node.", "versions",
                    (opened.lines.quote(module.start()),))
