"""A saved sweep: a folder of recordings with a manifest, from which replay gives the same results byte for
byte.

    DIR/manifest.json      muster.sweep/1: times, selection, probe set, rules digest, inventory facts; last
    DIR/nodes/NODE.json    muster.recording/1, one for each node that answered or failed
    DIR/previous/NODE.json the earlier snapshot that was compared with, where there was one

For bug reports one node's sweep is also one file: a muster.recording/1 whose member `sweep` holds the
manifest and the earlier snapshot. Readers that do not know that member ignore it; a recording without it is
judged alone. In files of earlier versions the member is named `look`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from healthcheck.config.files import make_folder, write_whole
from healthcheck.judge.gpuless import GpuHistory
from healthcheck.model.recording import Recording, RecordingError, from_json, read, to_json
from healthcheck.sweep.snapshots import encode, trimmed
from inventory.errors import UsageError
from inventory.model import Lifecycle, LifecycleState, Node, PortPlan
from inventory.nodeset import NAME
from inventory.text import clean, short
from inventory.times import millisecond

SCHEMA = "muster.sweep/1"
_SWEEP_KEYS = ("sweep", "look")     # the second in files of earlier versions
_LARGEST = 512 * 1024 * 1024
T = TypeVar("T")


@dataclass(frozen=True)
class SweepManifest:
    """What replay needs besides the recordings. Times are UTC, as text (ISO 8601 with Z).

    `withheld` says by node why nothing disruptive was measured there, or why the lease did not last to the
    end. `gpu_history` is what was known of GPUs where nodes without SKU could be taken for machines without.
    """

    started: str
    finished: str
    partial: bool
    source: str
    nodes: tuple[Node, ...]
    default_sku: str | None
    only: tuple[str, ...]
    skip: tuple[str, ...]
    rules_digest: str
    probes: Mapping[str, Any]
    profiles: tuple[str, ...] = ()
    withheld: Mapping[str, str] = field(default_factory=dict)
    gpu_history: GpuHistory | None = None


class Saver:
    """Writes a sweep into a folder as recordings arrive; `finish` completes it."""

    def __init__(self, folder: Path) -> None:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"--save {folder}: exists and is not an empty folder")
        self._folder = folder
        for part in ("nodes", "previous"):
            make_folder(folder / part, "--save")

    def add(self, recording: Recording, previous: Recording | None) -> None:
        """Saves one snapshot, and the captures of the earlier one that were compared."""
        write_whole(self._folder / "nodes" / f"{recording.node}.json", encode(recording))
        if previous is not None:
            write_whole(self._folder / "previous" / f"{recording.node}.json", encode(trimmed(previous)))

    def finish(self, manifest: SweepManifest) -> None:
        """Writes the manifest, which makes the folder a saved sweep."""
        text = json.dumps(_manifest_to_json(manifest), indent=1)
        write_whole(self._folder / "manifest.json", text.encode() + b"\n")


class MemorySaver(Saver):
    """Keeps a sweep in memory: each recording with its earlier snapshot, in the order of the replies."""

    def __init__(self) -> None:
        self.snapshots: list[tuple[Recording, Recording | None]] = []
        self.manifest: SweepManifest | None = None

    def add(self, recording: Recording, previous: Recording | None) -> None:
        self.snapshots.append((recording, previous))

    def finish(self, manifest: SweepManifest) -> None:
        self.manifest = manifest


def load_manifest(folder: Path) -> SweepManifest:
    """The manifest of a folder of --save, or of a file of one recording; raises UsageError otherwise."""
    if folder.is_file():
        return _manifest_of_one(folder)
    path = folder / "manifest.json"
    if not path.is_file():
        hint = ("the sweep that wrote it did not end" if (folder / "nodes").is_dir()
                else "expected a folder written by --save")
        raise UsageError(f"--replay {folder}: no manifest.json: {hint}")
    try:
        return _manifest_from_json(_read(path))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{path}: not a manifest of {SCHEMA} ({type(error).__name__}: {error})") from None


def sent_probes(manifest: SweepManifest) -> frozenset[str]:
    """The ids of the probes that the sweep sent, as far as its manifest lists them."""
    probes = manifest.probes.get("probes") if isinstance(manifest.probes, Mapping) else None
    ids = [probe.get("id") for probe in probes if isinstance(probe, dict)] if isinstance(probes, list) else []
    return frozenset(name for name in ids if isinstance(name, str))


def recorded_nodes(folder: Path, manifest: SweepManifest) -> Iterator[str]:
    """The nodes with a snapshot, in the manifest's order; raises UsageError if a finished sweep lacks one."""
    for node in manifest.nodes:
        if folder.is_file() or (folder / "nodes" / f"{node.name}.json").is_file():
            yield node.name
        elif not manifest.partial:
            raise UsageError(
                f"--replay {folder}: nodes/{node.name}.json is missing, though the manifest lists the node")


def snapshots(folder: Path, node: str) -> tuple[Recording, Recording | None]:
    """One node's snapshot and the earlier one; raises UsageError where one cannot be read."""
    if folder.is_file():
        return _recording(folder, node), _previous_of_one(folder)
    previous = folder / "previous" / f"{node}.json"
    return (_recording(folder / "nodes" / f"{node}.json", node),
            _recording(previous, node) if previous.is_file() else None)


def recordings(folder: Path, manifest: SweepManifest) -> Iterator[tuple[Recording, Recording | None]]:
    """Each finished node's snapshot with the earlier one, in the manifest's order."""
    return (snapshots(folder, node) for node in recorded_nodes(folder, manifest))


def encode_one(recording: Recording, previous: Recording | None, manifest: SweepManifest, *, muster: str,
               scrubbed: bool) -> bytes:
    """The one-file sweep of one node; `muster` is the writing version, `scrubbed`: names were replaced."""
    document = to_json(recording)
    document["sweep"] = {
        "muster": muster, "scrubbed": scrubbed, "manifest": _manifest_to_json(manifest),
        **({"previous": to_json(trimmed(previous))} if previous is not None else {}),
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def has_sweep(document: Mapping[str, Any]) -> bool:
    """Whether this recording is the one-file sweep of its node."""
    return any(key in document for key in _SWEEP_KEYS)


def _sweep_of_one(document: Mapping[str, Any]) -> Any:
    return next((document[key] for key in _SWEEP_KEYS if key in document), None)


def _manifest_of_one(path: Path) -> SweepManifest:
    document = _read(path)
    recording = _as_recording(path, document)
    try:
        if NAME.fullmatch(recording.node) is None:
            raise ValueError("not a valid node name")
        if has_sweep(document):
            manifest = _manifest_from_json(_sweep_of_one(document)["manifest"])
            if [node.name for node in manifest.nodes] != [recording.node]:
                raise ValueError("the snapshot is of another node")
            return manifest
        time = millisecond(recording.received)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, OSError) as error:
        raise UsageError(f"{path}: not a snapshot of one node ({type(error).__name__}: "
                         f"{short(error)})") from None
    return SweepManifest(time, time, False, "one recording", (Node(name=recording.node),), None, (), (), "",
                         {})


def _previous_of_one(path: Path) -> Recording | None:
    sweep = _sweep_of_one(_read(path))
    previous = sweep.get("previous") if isinstance(sweep, dict) else None
    return None if previous is None else _as_recording(path, previous)


def _recording(path: Path, node: str) -> Recording:
    recording = _decoded(path, read)
    if recording.node != node:
        raise UsageError(f"{path}: holds a recording of another node")
    return recording


def _as_recording(path: Path, document: Any) -> Recording:
    try:
        return from_json(document)
    except RecordingError as error:
        raise UsageError(f"{path}: not a recording: {error}") from None


def _read(path: Path) -> Any:
    return _decoded(path, json.loads)


def _decoded(path: Path, decode: Callable[[bytes], T]) -> T:
    try:
        if path.stat().st_size > _LARGEST:
            raise UsageError(f"{path}: larger than {_LARGEST // 2**20} MiB")
        return decode(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except RecordingError as error:
        raise UsageError(f"{path}: not a recording: {error}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON: {str(error)[:100]}") from None


def _manifest_to_json(manifest: SweepManifest) -> dict[str, Any]:
    return {"schema": SCHEMA, "started": manifest.started, "finished": manifest.finished,
            "partial": manifest.partial, "only": list(manifest.only), "skip": list(manifest.skip),
            "sku": manifest.default_sku, "profiles": list(manifest.profiles),
            **({"withheld": dict(manifest.withheld)} if manifest.withheld else {}),
            **({} if (known := manifest.gpu_history) is None else
               {"gpu_history": {"names": dict(known.names), "machines": dict(known.machines),
                                "undeclared": sorted(known.undeclared), "unread": known.unread}}),
            "rules_digest": manifest.rules_digest, "probes": dict(manifest.probes), "inventory": {
                "source": manifest.source, "nodes": [_node_to_json(node) for node in manifest.nodes]}}


def _manifest_from_json(document: Any) -> SweepManifest:
    if document["schema"] != SCHEMA:
        raise ValueError(f"schema is {document['schema']!r}")
    inventory = document["inventory"]
    return SweepManifest(
        started=_text(document["started"]), finished=_text(document["finished"]),
        partial=bool(document["partial"]), source=_text(inventory["source"]),
        nodes=tuple(_node_from_json(node) for node in inventory["nodes"]), default_sku=None
        if document["sku"] is None else _text(document["sku"]), only=_texts(document["only"]),
        skip=_texts(document["skip"]), rules_digest=_text(document["rules_digest"]),
        probes=document["probes"], profiles=_texts(document.get("profiles", [])),
        withheld=_cleaned(document.get("withheld", {})), gpu_history=None
        if (known := document.get("gpu_history")) is None else
        GpuHistory(_cleaned(known["names"]), _cleaned(known["machines"]),
                   frozenset(_texts(known["undeclared"])), clean(_text(known["unread"]))))


def _node_to_json(node: Node) -> dict[str, Any]:
    ports = {pci: {"role": plan.role, "rail": plan.rail, "leaf": plan.leaf}
             for pci, plan in node.ports.items()}
    return {"name": node.name, "sku": node.sku, "profile": node.profile,
            "lifecycle": node.lifecycle.state.value, "rack": node.rack, "leaf": list(node.leaf),
            "ports": ports, "nvlink_domain": node.nvlink_domain, "power": node.power,
            "labels": dict(node.labels)}


def _node_from_json(document: Any) -> Node:
    name = _text(document["name"])
    if NAME.fullmatch(name) is None:
        raise ValueError("not a valid node name")
    ports = {_text(pci): PortPlan(_maybe(p["role"]), _rail(p["rail"]), _maybe(p["leaf"]))
             for pci, p in document["ports"].items()}
    return Node(name=name, sku=_maybe(document["sku"]), profile=_maybe(document.get("profile")),
                lifecycle=Lifecycle(LifecycleState(document["lifecycle"])), rack=_maybe(document["rack"]),
                leaf=_texts(document["leaf"]), ports=MappingProxyType(ports),
                nvlink_domain=_maybe(document["nvlink_domain"]), power=_maybe(document["power"]),
                labels=MappingProxyType({_text(k): _text(v) for k, v in document["labels"].items()}))


def _cleaned(document: Any) -> dict[str, str]:
    return {_text(name): clean(_text(text)) for name, text in document.items()}


def _maybe(value: Any) -> str | None:
    return None if value is None else _text(value)


def _rail(value: Any) -> int | None:
    if value is not None and type(value) is not int:
        raise TypeError(f"expected a number, got {type(value).__name__}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {type(value).__name__}")
    return value


def _texts(values: Sequence[Any]) -> tuple[str, ...]:
    return tuple(_text(value) for value in values)
