"""What a fabric's tools print, from a node that sees it or from a folder of saved outputs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from healthcheck.collector import program, reply
from healthcheck.config.files import make_folder, write_whole
from healthcheck.facts.base import BY_BUILDER, Captures, build_fact, why
from healthcheck.facts.lldp import LLDP
from healthcheck.facts.netdev import NETDEV, netdevs
from healthcheck.facts.values import Partial, Unread, reading
from healthcheck.model.probes import MIB, Probe, ProbeKind, ProbeSet
from healthcheck.model.recording import Outcome, Recording
from healthcheck.subnet.merge import merge
from healthcheck.subnet.model import PortCounters, Subnet
from healthcheck.subnet.readers import lldp
from healthcheck.subnet.readers.building import SubnetReading
from healthcheck.subnet.readers.every import SOURCES, source_of
from healthcheck.subnet.readers.toolwords import MOST_TEXT
from inventory.errors import UsageError
from inventory.model import Node
from inventory.text import clean
from inventory.transport.base import RETURN_S, Limits, Transport

_TAKEN = "snapshot.json"
ETHERNET = "ethernet"       # a fabric of this name, where another lies in the same folder
SCHEMA = "muster.fabric.snapshot/1"
_FORMER = ("look.json", "muster.fabric.look/1")     # what earlier versions saved in place of these two
_MOST_MISSING = 1000
_PROGRAM_S, _TOOL_S, _LLDP_S = 300.0, 120.0, 30.0
# By the name of its file, what is run. ibqueryerrors is given an empty file of thresholds: with the
# site's own, counters that it does not show would not be known.
COMMANDS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "iblinkinfo": ("iblinkinfo", "--line"),
    "ibnetdiscover-p": ("ibnetdiscover", "-p"),
    "ibnetdiscover": ("ibnetdiscover",),
    "ibqueryerrors": ("ibqueryerrors", "--threshold-file", "/dev/null"),
    "ibqueryerrors-data": ("ibqueryerrors", "--counters"),
    "saquery-smir": ("saquery", "SMIR"),
    "saquery-issm": ("saquery", "-s"),
    "sminfo": ("sminfo",),
})
# The forwarding tables of all switches, which are asked for alone: a management packet for 64 LIDs of a
# switch, and 14 bytes for each LID (20 MB of 320 switches and 4,096 hosts, as much again as all the others).
TABLES: Mapping[str, tuple[str, ...]] = MappingProxyType({"dump_fts": ("dump_fts", "--no_dests")})
_ALL = MappingProxyType({**COMMANDS, **TABLES})
_LIMITS: Mapping[str, int] = MappingProxyType({"dump_fts": 30 * MIB})
# What shows the state of every link and what is at its ends, by directed routes alone.
LINKS = ("iblinkinfo", "ibnetdiscover")
# The status is the number of ports with errors (infiniband-diags/ibqueryerrors.c).
_COUNTS_IN_STATUS = frozenset({"ibqueryerrors", "ibqueryerrors-data"})
# What ports sent and were sent, of all of them.
_DATA = ("ibqueryerrors-data",)


class ToolOutput(NamedTuple):
    """What a tool printed; `cut`: whether its end was dropped."""

    text: str
    cut: bool = False


@dataclass(frozen=True)
class FabricOutput:
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
        if beside := {name: printed.text for name, printed in self.outputs.items() if lldp.file_of(name)}:
            readings.append((len(order), lldp.read(beside)))
        for name, printed in sorted(self.outputs.items()):
            source = source_of(name)
            if source is not None:
                cut = printed.cut or not printed.text.strip()     # every tool prints something
                readings.append((order[source.name], source.read(printed.text, cut)))
        readings.sort(key=lambda one: one[0])
        made = merge(self.name, [reading for _, reading in readings])
        # Where no tool shows what is there, nothing is known to be absent.
        return replace(made, unread=(*made.unread, *self.missing), partial=made.partial or not made.devices)


def probes(device: str = "", tools: Collection[str] = tuple(COMMANDS)) -> Mapping[str, Probe]:
    """The probes by the name of their file; through this device of the node, or the tools' choice."""
    return {name: Probe(f"fabric.{name}{'.' + device if device else ''}", ProbeKind.COMMAND,
                        argv=(*argv, *(("-C", device) if device else ())), seconds=_TOOL_S,
                        limit=_LIMITS.get(name, 12 * MIB), root=True)
            for name, argv in _ALL.items() if name in tools}


def counters(node: Node, transport: Transport,
             devices: Sequence[str] = ("",)) -> Mapping[str, PortCounters | None]:
    """What all ports counted, by the name of the subnet as `ask` has it. Raises UsageError where they could
    not be read."""
    found: dict[str, PortCounters | None] = {}
    for output in ask(node, transport, devices, _DATA):
        if output.missing:
            raise UsageError(f"{node.name}: {'; '.join(output.missing)}")
        found[output.name] = output.subnet().counters
    return found


def ask(node: Node, transport: Transport, devices: Sequence[str] = ("",),
        tools: Collection[str] = tuple(COMMANDS)) -> Iterator[FabricOutput]:
    """What the tools on this node print, all but those of TABLES or these, for the subnet behind each device;
    changes nothing there. Raises UsageError where the node is not reached."""
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


def ask_tables(outputs: Sequence[FabricOutput], node: Node, transport: Transport,
               devices: Sequence[str] = ("",)) -> tuple[FabricOutput, ...]:
    """What `ask` gave, with the forwarding tables of their subnets' switches. Raises UsageError where
    the node is not reached."""
    tables = {one.name: one for one in ask(node, transport, devices, TABLES)}
    return tuple(replace(one, outputs={**one.outputs, **tables[one.name].outputs},
                         missing=(*one.missing, *tables[one.name].missing)) for one in outputs)


def ask_neighbours(nodes: Sequence[Node], transport: Transport) -> FabricOutput:
    """What lldpd on each of these nodes says of its neighbours; changes nothing there. A node that is not
    reached, or has no lldpd, is missing."""
    wanted = ProbeSet.of((LLDP, NETDEV), _LLDP_S)
    limits = Limits(fanout=64, program_s=_LLDP_S + RETURN_S, node_s=_LLDP_S + 60)
    outputs: dict[str, ToolOutput] = {}
    missing: list[str] = []
    time: float | None = None
    for answer in transport.run(nodes, program.build(wanted, nvml=False), limits):
        recording = reply.within(reply.decode(answer), wanted)
        time = max(time or 0.0, recording.received)
        if recording.failure is not None:
            failure = recording.failure
            missing.append(f"{recording.node}: {failure.stage.value}: {clean(failure.reason)}")
            continue
        captures = Captures(recording)
        try:
            outputs[f"lldp-{recording.node}.json0"] = ToolOutput(captures.text(LLDP))
        except Unread as error:
            missing.append(f"{recording.node}: {clean(error)}")
            continue
        outputs[f"interfaces-{recording.node}.json"] = ToolOutput(json.dumps(_interfaces(captures)))
    return FabricOutput("", outputs, time, tuple(missing))


def _interfaces(captures: Captures) -> Mapping[str, Mapping[str, object]]:
    found = build_fact(BY_BUILDER[netdevs], captures)
    those = found.value if isinstance(found, Partial) else found
    return {one.interface: {key: value for key in ("pci", "link", "mbps")
                            if isinstance(value := reading(one, key), str | int)}
            for one in (those if isinstance(those, tuple) else ())
            if isinstance(reading(one, "interface"), str)}


def of_recording(recording: Recording, device: str, those: Mapping[str, Probe]) -> FabricOutput:
    """What is in the captures of these probes; what could not be captured is missing."""
    outputs: dict[str, ToolOutput] = {}
    missing: list[str] = []
    for name, probe in those.items():
        capture = recording.captures.get(probe.id)
        if capture is None or capture.outcome not in (Outcome.DONE, Outcome.TRUNCATED) or (
                capture.exit not in (0, None) and not (name in _COUNTS_IN_STATUS and capture.text.strip())):
            missing.append(clean(why(probe, capture)))
            continue
        outputs[name] = ToolOutput(capture.text, capture.outcome is Outcome.TRUNCATED)
    return FabricOutput(device, outputs, recording.received, tuple(missing))


def saved(folder: Path) -> tuple[FabricOutput, ...]:
    """The outputs in a folder: its own files, or those of each folder in it, which is then a plane of that
    name. Raises UsageError where there is none."""
    if not folder.is_dir():
        raise UsageError(f"{clean(folder)}: is no folder of saved outputs")
    places = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
    found = [part for place in places
             if (output := _from_folder(place, "" if place == folder else place.name)) is not None
             for part in _apart(output)]
    if not found:
        names = ", ".join([*(source.name for source in SOURCES), "lldp-NODE"])
        raise UsageError(f"{clean(folder)}: no file in it is called as an output of a fabric tool: {names}")
    return tuple(found)


def _from_folder(folder: Path, name: str) -> FabricOutput | None:
    outputs: dict[str, ToolOutput] = {}
    missing: list[str] = []
    times: list[float] = []
    for path in sorted(folder.iterdir()):
        if not path.is_file() or (source_of(path.name) is None and lldp.file_of(path.name) is None):
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
    at, lacked = _kept(folder)
    return FabricOutput(name, outputs, at or max(times, default=None), (*missing, *lacked))


def _apart(output: FabricOutput) -> Iterator[FabricOutput]:
    """InfiniBand and Ethernet that lie in one folder are two fabrics."""
    ethernet = {name: text for name, text in output.outputs.items() if lldp.file_of(name) is not None}
    others = {name: text for name, text in output.outputs.items() if name not in ethernet}
    if ethernet and others:
        yield replace(output, outputs=others)
        yield replace(output, name=f"{output.name} {ETHERNET}".strip(), outputs=ethernet, missing=())
    else:
        yield output


def _kept(folder: Path) -> tuple[float | None, tuple[str, ...]]:
    """When what `save` wrote was taken, and what could not be had; otherwise the newest file's time
    counts."""
    name, schema = (_TAKEN, SCHEMA) if (folder / _TAKEN).exists() else _FORMER
    try:
        document = json.loads((folder / name).read_bytes())
        if document.get("schema") != schema:
            return None, ()
        lacked = document.get("missing", [])
        return float(document["time"]), tuple(clean(one) for one in lacked[:_MOST_MISSING])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None, ()


def save(outputs: Sequence[FabricOutput], folder: Path) -> None:
    """Writes them as `saved` reads them. Raises UsageError where the folder holds anything, OSError."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"--save {clean(folder)}: exists and is not an empty folder")
    for output in outputs:
        place = folder / output.name if output.name else folder
        make_folder(place, "--save")
        for name, printed in output.outputs.items():
            file = name if "." in name else f"{name}.txt"
            write_whole(place / file, printed.text.encode(errors="surrogateescape"))
        document = {"schema": SCHEMA, "time": output.time, "missing": output.missing}
        write_whole(place / _TAKEN, json.dumps(document).encode() + b"\n")
