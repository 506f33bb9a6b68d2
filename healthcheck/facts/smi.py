"""nvidia-smi as the second source of GPU facts: its XML log, converted to the NVML reader's lines.

The document is that of `nvidia-smi -q -x` (DTDs nvsmi_device_v11 to v13), the exit statuses those of
nvidia-smi's manual page. `smi_values` converts the elements of one GPU.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from xml.parsers import expat

from healthcheck.facts.base import Captures, why
from healthcheck.facts.limits import SMI_DEPTH, SMI_ELEMENTS, SMI_GPUS, SMI_TEXT
from healthcheck.facts.smi_values import INSTANCE, gpu_line, release_of, summary
from healthcheck.facts.smi_words import NVML_WORDS, RELEASE, TWICE
from healthcheck.facts.values import Unread
from healthcheck.model.probes import MIB, Needs, Probe, ProbeKind
from healthcheck.model.recording import Outcome
from inventory.text import clean

SMI = Probe("gpu.smi", ProbeKind.COMMAND, argv=("nvidia-smi", "-q", "-x"), seconds=20.0, limit=2 * MIB,
            needs=Needs.NVIDIA_UNANSWERED)


# Exit statuses as nvidia-smi's manual page gives them ("RETURN VALUE"); 18 is the NVML status that it passes
# on.
STATUSES: Mapping[int, str] = {
    2: "an argument is invalid", 3: "the operation is not available on the device", 4: "no permission",
    6: "No devices were found",
    8: "a GPU's external power cables are not attached", 9: "Driver Not Loaded",
    10: "the kernel has an interrupt issue with a GPU",
    12: "NVML Shared Library Not Found", 13: "NVML does not have the function", 14: "an infoROM is corrupted",
    15: "GPU is lost", 18: "Driver/library version mismatch",
}
NO_DEVICES = 6
# With 14 the log is complete: a corrupted infoROM is a warning at its end.
_WHOLE_WITH = (0, 14)


@dataclass(frozen=True)
class SmiLog:
    """The log as lines in the NVML reader's format: `head`, then one for each complete GPU. `cut` says why it
    ends early."""

    head: dict[str, Any]
    gpus: tuple[dict[str, Any], ...]
    cut: str = ""


class _Refused(Exception):
    """The document is not one that nvidia-smi prints; the text is the reason."""


class _Reader:
    """Receives expat's events; collects the elements of one GPU at a time."""

    def __init__(self) -> None:
        self.path: list[str] = []
        self.head: dict[str, str] = {}
        self.gpus: list[dict[str, str]] = []
        self.gpu: dict[str, str] = {}
        self.texts: list[str] = []
        self.elements = 0
        self.instance = ""
        self.ended = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.elements += 1
        if len(self.path) >= SMI_DEPTH or self.elements > SMI_ELEMENTS:
            raise _Refused("it is deeper or longer than nvidia-smi's log")
        if not self.path and name != "nvidia_smi_log":
            raise _Refused("it is not nvidia-smi's log")
        self.path.append(name)
        self.texts = []
        if self.path == ["nvidia_smi_log", "gpu"]:
            if len(self.gpus) == SMI_GPUS:
                raise _Refused(f"it lists more than {SMI_GPUS} GPUs")
            self.gpu = {"@id": attributes.get("id", "")[:SMI_TEXT]}
        if self.path[2:] == INSTANCE.split("/"):
            self.instance = f"{INSTANCE}[{self.elements}]"

    def data(self, text: str) -> None:
        self.texts.append(text)

    def end(self, name: str) -> None:
        depth, at = len(self.path), "/".join(self.path[2:])
        # A divided GPU (MIG) has many of them.
        if at.startswith(INSTANCE):
            at = f"{self.instance}{at[len(INSTANCE):]}"
        text = "".join(self.texts).strip()[:SMI_TEXT]
        if depth == 2 and name == "gpu":
            self.gpus.append(_once(self.gpu) | {RELEASE: release_of(self.head.get("driver_version", ""))})
        elif depth == 2:
            self.head[name] = TWICE if name in self.head else text
        elif self.path[1:2] == ["gpu"]:
            self.gpu[at] = TWICE if at in self.gpu else text
        self.path.pop()
        self.texts = []
        self.ended = not self.path

    def entity(self, *_: object) -> None:
        raise _Refused("it declares an entity")

    def doctype(self, name: str, system: str | None, public: str | None, internal: int) -> None:
        if internal:
            raise _Refused("it brings a document type of its own")


def _once(texts: dict[str, str]) -> dict[str, str]:
    """The texts; each element of a block that the log holds twice counts as held twice."""
    blocks = tuple(f"{path}/" for path, text in texts.items() if text == TWICE)
    return {path: TWICE if path.startswith(blocks) else text for path, text in texts.items()}


def parse(text: str) -> SmiLog:
    """The log in this text, as far as it goes; raises Unread where not even its beginning is there."""
    start = text.find("<?xml")
    start = text.find("<nvidia_smi_log") if start < 0 else start
    if start < 0:
        raise Unread(f"nvidia-smi printed no XML: {_first_line(text)}")
    body, end, _ = text[start:].partition("</nvidia_smi_log>")
    reader = _Reader()
    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.data
    parser.EntityDeclHandler = reader.entity
    parser.StartDoctypeDeclHandler = reader.doctype
    cut = ""
    try:
        parser.Parse(f"{body}{end}".encode("utf-8", "replace"), True)
    except _Refused as error:
        cut = str(error)
    except expat.ExpatError as error:
        cut = f"it ends in the middle or is broken (line {error.lineno})"
    if not reader.ended and not reader.head and not reader.gpus:
        raise Unread(f"nvidia-smi's log cannot be read: {cut}")
    # The text around the document is the tool's messages, and often the reason why it breaks off.
    gpus = _in_order(reader.gpus, unreachable(text))
    return SmiLog(summary(reader.head), tuple(gpus),
                  f"nvidia-smi's log cannot be read to its end: {cut}" if cut else "")


@dataclass(frozen=True)
class Unreachable:
    """A GPU that nvidia-smi could not open: its address as printed and its number, where given, and why."""

    pci: str
    index: int | None
    words: str

    @property
    def error(self) -> list[Any]:
        """NVML's number and words, as in the NVML reader's lines."""
        return [NVML_WORDS.get(self.words.lower(), 999), self.words]


# "GPU 0000:0B:00.0: Unknown Error" (2015), "gpu 0000:01:00.0: Not Found" (515), "GPU0000:65:00.0: ..." (525),
# "GPU1: 0000:34:00.0: ..." (610, which goes on with the other GPUs), and without an address: "GPU1: ...".
_UNREACHABLE = re.compile(
    r"Unable to determine the device handle for GPU ?"
    r"(?:(?P<index>[0-9]{1,3}): ?)?(?P<pci>[0-9A-F]{3,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-9A-F])?(?:: ?)?"
    r"(?<=: )(?P<words>[^\n.<:]{3,60})", re.IGNORECASE)


def unreachable(text: str) -> list[Unreachable]:
    """The GPUs that nvidia-smi's messages say it could not open, each once, at most SMI_GPUS."""
    found = [Unreachable((match["pci"] or "").lower(), int(match["index"]) if match["index"] else None,
                         clean(match["words"].strip())) for match in _UNREACHABLE.finditer(text)]
    return list({(one.pci, one.index): one for one in found}.values())[:SMI_GPUS]


def _in_order(listed: list[dict[str, str]], lost: list[Unreachable]) -> list[dict[str, Any]]:
    """The lines of all GPUs by their numbers. nvidia-smi numbers GPUs by PCI address, those that it could not
    open included; where it broke off at one, that is the last."""
    places = sorted(lost, key=lambda one: (SMI_GPUS if one.index is None else one.index, one.pci))
    read: list[dict[str, str] | Unreachable] = list(listed)
    for one in places:
        at = one.index
        if at is None and one.pci:
            at = sum(_address(other["@id"] if isinstance(other, dict) else other.pci) < _address(one.pci)
                     for other in read)
        read.insert(len(read) if at is None else min(at, len(read)), one)
    return [gpu_line(index, gpu) if isinstance(gpu, dict) else {"index": index, "error": gpu.error}
            for index, gpu in enumerate(read)]


def _address(text: str) -> str:
    """A PCI address with eight digits of domain, so that addresses sort."""
    return text.lower().rjust(len("00000000:00:00.0"), "0")


def _first_line(text: str) -> str:
    return clean(text.strip().partition("\n")[0], 200) or "no output"


def trouble(captures: Captures) -> tuple[int, str] | None:
    """nvidia-smi's refusal as NVML's number and words; None where it did not run, did not refuse, or gave no
    known reason."""
    capture = captures.capture(SMI)
    if capture is None or capture.outcome is not Outcome.DONE or not capture.exit:
        return None
    # A log, which has names of users' processes, begins with "<".
    message = " ".join(f"{capture.text.partition('<')[0]}\n{capture.stderr}".split())
    if "Driver/library version mismatch" in message:
        return 18, clean(message[message.index("Driver/library version mismatch"):], 200)
    if capture.exit == NO_DEVICES or "No devices were found" in message:
        return NO_DEVICES, "No devices were found"
    if capture.exit in (4, 9, 12):
        return capture.exit, STATUSES[capture.exit]
    return None


def log(captures: Captures) -> SmiLog:
    """nvidia-smi's readings of the GPUs; raises Unread where it did not run or gave none."""
    capture = captures.capture(SMI)
    ran = (Outcome.DONE, Outcome.CRASHED, Outcome.TIMEOUT, Outcome.TRUNCATED)
    if capture is None or capture.outcome not in ran:
        raise Unread(why(SMI, capture))
    try:
        found = parse(capture.text)
    except Unread:
        if capture.outcome is not Outcome.DONE:
            raise Unread(why(SMI, capture)) from None
        if capture.exit:
            message = STATUSES.get(capture.exit) or _first_line(capture.text + "\n" + capture.stderr)
            raise Unread(f"nvidia-smi: {message} (exit status {capture.exit})") from None
        raise
    if capture.outcome is not Outcome.DONE:
        return SmiLog(found.head, found.gpus, why(SMI, capture))
    if capture.exit not in _WHOLE_WITH:
        return SmiLog(found.head, found.gpus,
                      f"nvidia-smi: {STATUSES.get(capture.exit or 0, 'ended')} (exit status {capture.exit})")
    return found
