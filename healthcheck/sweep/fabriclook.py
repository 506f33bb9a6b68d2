"""A look at a fabric: what its tools print, from a node that sees it or from a folder of saved outputs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from healthcheck.collector import program, reply
from healthcheck.config.files import make_folder, write_whole
from healthcheck.facts.base import why
from healthcheck.model.probes import MIB, Probe, ProbeKind, ProbeSet
from healthcheck.model.recording import Outcome, Recording
from healthcheck.subnet.merge import merge
from healthcheck.subnet.model import Subnet
from healthcheck.subnet.readers.building import MOST_TEXT, SubnetReading
from healthcheck.subnet.readers.every import SOURCES, source_of
from inventory.errors import UsageError
from inventory.model import Node
from inventory.text import clean
from inventory.transport.base import RETURN_S, Limits, Transport

LOOK = "look.json"
SCHEMA = "muster.fabric.look/1"
_PROGRAM_S, _TOOL_S = 300.0, 120.0
# By the name of its file, what a look runs. ibqueryerrors is given an empty file of thresholds: with the
# site's own, counters that it does not show would not be known.
COMMANDS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "iblinkinfo": ("iblinkinfo", "--line"),
    "ibnetdiscover-p": ("ibnetdiscover", "-p"),
    "ibnetdiscover": ("ibnetdiscover",),
    "ibqueryerrors": ("ibqueryerrors", "--threshold-file", "/dev/null"),
    "saquery-smir": ("saquery", "SMIR"),
    "saquery-issm": ("saquery", "-s"),
    "sminfo": ("sminfo",),
})
# What shows the state of every link and what is at its ends, by directed routes alone.
LINKS = ("iblinkinfo", "ibnetdiscover")
# The status is the number of ports with errors (infiniband-diags/ibqueryerrors.c).
_COUNTS_IN_STATUS = frozenset({"ibqueryerrors"})


class ToolOutput(NamedTuple):
    """What a tool printed; `cut`: whether its end was dropped."""

    text: str
    cut: bool = False


@dataclass(frozen=True)
class FabricLook:
    """The outputs of one subnet by the name of their file, when they were taken (epoch seconds; None where
    that is not known), and what could not be had, a line each."""

    name: str
    outputs: Mapping[str, ToolOutput]
    time: float | None = None
    missing: tuple[str, ...] = field(default=())

    def subnet(self) -> Subnet:
        """The outputs as one picture; an output that could not be had is noted in it."""
        order = {source.name: at for at, source in enumerate(SOURCES)}
        readings: list[tuple[int, SubnetReading]] = []
        for name, output in sorted(self.outputs.items()):
            source = source_of(name)
            if source is not None:
                readings.append((order[source.name], source.read(output.text, output.cut)))
        readings.sort(key=lambda one: one[0])
        made = merge(self.name, [reading for _, reading in readings])
        return replace(made, unread=(*made.unread, *self.missing))


def probes(device: str = "", tools: Collection[str] = tuple(COMMANDS)) -> Mapping[str, Probe]:
    """The probes of a look by the name of their file; through this device of the node, or the tools'
    choice."""
    return {name: Probe(f"fabric.{name}{'.' + device if device else ''}", ProbeKind.COMMAND,
                        argv=(*argv, *(("-C", device) if device else ())), seconds=_TOOL_S, limit=12 * MIB,
                        root=True)
            for name, argv in COMMANDS.items() if name in tools}


def ask(node: Node, transport: Transport, devices: Sequence[str] = ("",),
        tools: Collection[str] = tuple(COMMANDS)) -> Iterator[FabricLook]:
    """What the tools on this node print, all or these, for the subnet behind each device; changes nothing
    there. Raises UsageError where the node is not reached."""
    by_device = {device: probes(device, tools) for device in devices}
    wanted = ProbeSet.of([probe for those in by_device.values() for probe in those.values()], _PROGRAM_S)
    limits = Limits(fanout=1, program_s=_PROGRAM_S + RETURN_S, node_s=_PROGRAM_S + 60)
    for answer in transport.run((node,), program.build(wanted, nvml=False), limits):
        recording = reply.within(reply.decode(answer), wanted)
        if recording.failure is not None:
            failure = recording.failure
            raise UsageError(f"{node.name}: {failure.stage.value}: {clean(failure.reason)}")
        for device, those in by_device.items():
            yield of_recording(recording, device, those)


def of_recording(recording: Recording, device: str, those: Mapping[str, Probe]) -> FabricLook:
    """The look in the captures of these probes; what could not be captured is missing."""
    outputs: dict[str, ToolOutput] = {}
    missing: list[str] = []
    for name, probe in those.items():
        capture = recording.captures.get(probe.id)
        if capture is None or capture.outcome not in (Outcome.DONE, Outcome.TRUNCATED) or (
                capture.exit not in (0, None) and not (name in _COUNTS_IN_STATUS and capture.text.strip())):
            missing.append(clean(why(probe, capture)))
            continue
        outputs[name] = ToolOutput(capture.text, capture.outcome is Outcome.TRUNCATED)
    return FabricLook(device, outputs, recording.received, tuple(missing))


def saved(folder: Path) -> tuple[FabricLook, ...]:
    """The looks in a folder: its own files, or those of each folder in it, which is then a plane of that
    name. Raises UsageError where there is none."""
    if not folder.is_dir():
        raise UsageError(f"{clean(folder)}: is no folder of saved outputs")
    places = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
    found = [look for place in places if (look := _from_folder(place, "" if place == folder else place.name))]
    if not found:
        names = ", ".join(source.name for source in SOURCES)
        raise UsageError(f"{clean(folder)}: no file in it is called as an output of a fabric tool: {names}")
    return tuple(found)


def _from_folder(folder: Path, name: str) -> FabricLook | None:
    outputs: dict[str, ToolOutput] = {}
    missing: list[str] = []
    times: list[float] = []
    for path in sorted(folder.iterdir()):
        source = source_of(path.name)
        if source is None or not path.is_file():
            continue
        try:
            data = path.read_bytes()[:MOST_TEXT + 1]
            times.append(path.stat().st_mtime)
        except OSError as error:
            missing.append(f"{clean(path.name, 100)}: {error.strerror}")
            continue
        outputs[path.name] = ToolOutput(data.decode(errors="surrogateescape"))
    if not outputs and not missing:
        return None
    return FabricLook(name, outputs, _time(folder) or max(times, default=None), tuple(missing))


def _time(folder: Path) -> float | None:
    """When a look that was saved by us was taken; otherwise the newest file's time counts."""
    try:
        document = json.loads((folder / LOOK).read_bytes())
        return float(document["time"]) if document.get("schema") == SCHEMA else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def save(looks: Sequence[FabricLook], folder: Path) -> None:
    """Writes looks as `saved` reads them. Raises UsageError where the folder holds anything, OSError."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"--save {clean(folder)}: exists and is not an empty folder")
    for look in looks:
        place = folder / look.name if look.name else folder
        make_folder(place, "--save")
        for name, output in look.outputs.items():
            write_whole(place / f"{name}.txt", output.text.encode(errors="surrogateescape"))
        write_whole(place / LOOK, json.dumps({"schema": SCHEMA, "time": look.time}).encode() + b"\n")
