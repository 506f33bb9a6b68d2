"""What is configured for containers, beside what is on the node: runtimes and their programs, NVIDIA's
container toolkit, Docker's daemon.json, and CDI specifications.

Sources: docs.docker.com (dockerd, daemon configuration file); containerd's docs/cri/config.md; crio.conf(5);
the packages of NVIDIA/nvidia-container-toolkit, whose base package alone serves CDI; the CDI specification
(cncf-tags/container-device-interface, SPEC.md); its package cdi (one device in two files of a folder is a
conflict, and no container gets it); NVIDIA/nvidia-container-toolkit issue 885 (a path of a specification that
is gone keeps containers from starting).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.container import CDI, LIBRARY, TOOLKIT_CONFIG
from healthcheck.facts.files import CapturedFiles
from healthcheck.facts.parsing import json_object
from healthcheck.facts.values import Fact, Unmeasured, Unread, changed, reading
from healthcheck.model.probes import MIB, Needs, Probe, ProbeKind
from healthcheck.model.recording import Outcome
from inventory.text import clean

DAEMON = "/etc/docker/daemon.json"
SPECIFICATIONS = tuple(path for path in CDI.paths if path != TOOLKIT_CONFIG)
CONFIG = Probe(
    "container.config", ProbeKind.CONTAINERS, limit=1 * MIB, root=True,
    paths=(*SPECIFICATIONS, DAEMON, "/etc/containerd/config.toml", "/etc/containerd/conf.d/*.toml",
           "/var/lib/rancher/*/agent/etc/containerd/config.toml", "/etc/crio/crio.conf",
           "/etc/crio/crio.conf.d/*.conf"))
# "NVIDIA Container Toolkit CLI version 1.14.3" is its first line.
VERSION = Probe("container.toolkit", ProbeKind.COMMAND, argv=("nvidia-ctk", "--version"), seconds=10.0,
                needs=Needs.NVIDIA)
_TOOLKIT = "toolkit"
# Without it `docker run --gpus` gives none; the second is its former name.
HOOKS = ("nvidia-container-runtime-hook", "nvidia-container-toolkit")
_PROGRAMS = 64


class ContainerRuntime(Fact):
    """One runtime that a configuration names: its name there, the file, its program, and whether that is on
    the node (a bare name: in the customary folders). A file that could not be read stands for itself."""

    name: str
    runtime: str
    file: str
    program: str
    there: bool


class Toolkit(Fact):
    """NVIDIA's container toolkit: which of its programs are on the node, and whether its configuration is;
    and the programs that runtimes' configurations name and that are not on the node."""

    name: str
    configured: bool
    programs: tuple[str, ...]
    missing: tuple[str, ...]


class ToolkitVersion(Fact):
    """The version of NVIDIA's container toolkit; absent (UNSUPPORTED) where it is not installed."""

    name: str
    version: str


class DockerConfig(Fact):
    """Docker's daemon.json. `trouble` is what is wrong with its form, else ""; `settings` are those of its
    keys that the daemon's own report has too, as (key, value). Both are absent (UNSUPPORTED) without a
    file."""

    name: str
    trouble: str
    settings: tuple[tuple[str, str], ...]


class CdiSpec(Fact):
    """One CDI specification: its kind, the devices that it defines, the paths that containers with one of
    them need and that are not on the node, and the driver version of the libraries that it mounts ("" where
    it mounts none, or of several)."""

    name: str
    kind: str
    devices: tuple[str, ...]
    gone: tuple[str, ...]
    libraries: str


def _described(files: CapturedFiles, path: str) -> Mapping[str, Any]:
    """What the reader says of one file; raises Unread."""
    found = json_object(files.text(path))
    if found is None:
        raise Unread(f"{path}: what it names is not in the reader's format")
    return found


def _programs(found: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    listed = found.get("programs")
    for row in listed[:_PROGRAMS] if isinstance(listed, list) else ():
        if (isinstance(row, list) and len(row) == 3 and isinstance(row[0], str) and isinstance(row[1], str)
                and (row[2] is None or isinstance(row[2], bool))):
            yield clean(row[0], 64), clean(row[1], 200), row[2]


@fact("container_runtimes", CONFIG, each="container_runtime")
def container_runtimes(captures: Captures) -> Any:
    """Of daemon.json and the configurations of containerd and CRI-O; absent where they name none."""
    files = captures.files(CONFIG)
    runtimes = [runtime for path in _configurations(files) for runtime in _runtimes(files, path)]
    return tuple(runtimes) or (ContainerRuntime.absent("container runtimes"),)


def _configurations(files: CapturedFiles) -> list[str]:
    return [path for path in files if path != _TOOLKIT and files.has(path)
            and not path.startswith(("/etc/cdi", "/var/run/cdi"))]


def _runtimes(files: CapturedFiles, path: str) -> Iterator[ContainerRuntime]:
    try:
        found = _described(files, path)
    except Unread as error:
        yield changed(ContainerRuntime.absent(path, Unmeasured(str(error))), file=path)
        return
    for runtime, program, there in _programs(found):
        hidden: Any = Unmeasured(f"{program} of {path} cannot be looked for (needs root)")
        yield ContainerRuntime(f"{runtime} of {path}", runtime=runtime, file=path, program=program,
                               there=hidden if there is None else there)


@fact("toolkit", CONFIG, CDI)
def toolkit(captures: Captures) -> Toolkit:
    """Its programs in the customary folders."""
    files = captures.files(CONFIG)
    found = _described(files, _TOOLKIT)
    if any(not isinstance(value, bool) for value in found.values()):
        raise Unread("the folders of programs cannot be read")
    named = [runtime for path in _configurations(files) for runtime in _runtimes(files, path)]
    return Toolkit("container toolkit", configured=captures.files(CDI).has(TOOLKIT_CONFIG),
                   programs=tuple(sorted(clean(name, 64) for name, there in found.items() if there)),
                   missing=tuple(one.program for one in named if reading(one, "there") is False))


_VERSION = re.compile(r"(?m)^NVIDIA Container Toolkit CLI version (\S{1,60})\s*$")


@fact("toolkit_version", VERSION)
def toolkit_version(captures: Captures) -> ToolkitVersion:
    """What `nvidia-ctk --version` prints."""
    if captures.outcome(VERSION) is Outcome.MISSING:
        return ToolkitVersion.absent("container toolkit")
    match = _VERSION.search(captures.text(VERSION))
    if match is None:
        raise Unread("nvidia-ctk --version names no version")
    return ToolkitVersion("container toolkit", clean(match[1]))


@fact("docker_config", CONFIG)
def docker_config(captures: Captures) -> Any:
    """The settings in words that compare with the daemon's report."""
    files = captures.files(CONFIG)
    if not files.has(DAEMON):
        return DockerConfig.absent("daemon.json")
    found = _described(files, DAEMON)
    trouble = found.get("trouble")
    if isinstance(trouble, str):
        return DockerConfig("daemon.json", clean(trouble, 200), ())
    keys = found.get("keys")
    if not isinstance(keys, dict):
        raise Unread(f"{DAEMON}: what it names is not in the reader's format")
    settings = [(key, _words(keys[key])) for key in ("storage-driver", "data-root", "default-runtime",
                                                     "live-restore", "log-driver") if key in keys]
    options = keys.get("exec-opts")
    settings += [("cgroup driver", option.partition("=")[2])
                 for option in (options if isinstance(options, list) else ())
                 if isinstance(option, str) and option.startswith("native.cgroupdriver=")]
    settings += [("runtime", name) for name, _, _ in _programs(found)]
    return DockerConfig("daemon.json", "", tuple((key, clean(value, 200)) for key, value in settings))


def _words(value: object) -> str:
    return {True: "true", False: "false"}.get(value, "") if isinstance(value, bool) else str(value)


@fact("cdi_specs", CDI, CONFIG, each="cdi_spec")
def cdi_specs(captures: Captures) -> Any:
    """The specifications in both folders; absent where there is none."""
    texts, described = captures.files(CDI), captures.files(CONFIG)
    specs = tuple(_spec(texts, described, path) for path in texts
                  if path != TOOLKIT_CONFIG and texts.has(path))
    return specs or (CdiSpec.absent("CDI specifications"),)


def _spec(texts: CapturedFiles, described: CapturedFiles, path: str) -> CdiSpec:
    try:
        found, text = _described(described, path), texts.text(path)
    except Unread as error:
        return CdiSpec.absent(path, Unmeasured(str(error)))
    spec = parse_spec(text)
    gone, unseen = found.get("gone"), found.get("unseen")
    if spec is None or not isinstance(gone, list) or not isinstance(unseen, list):
        return CdiSpec.absent(path, Unmeasured(f"{path} is not written as nvidia-ctk writes it"))
    kind, devices, needed = spec
    missing: Any = tuple(clean(each, 300) for each in sorted(needed & {str(one) for one in gone}))
    if needed & {str(one) for one in unseen}:
        missing = Unmeasured(f"paths of {path} cannot be seen (needs root)")
    versions = set(LIBRARY.findall(text))
    return CdiSpec(path, kind=clean(kind, 100), devices=tuple(clean(name, 100) for name in devices),
                   gone=missing, libraries=versions.pop() if len(versions) == 1 else "")


Spec = tuple[str, tuple[str, ...], frozenset[str]]
# Of which keys of an item the first that it has is the path on the node.
_NEEDED = {"deviceNodes": ("hostPath", "path"), "mounts": ("hostPath",), "hooks": ("path",)}


def parse_spec(text: str) -> Spec | None:
    """The kind of a CDI specification, the devices that it defines, and the paths of the node that it needs;
    None where its form is another."""
    if not text.lstrip().startswith("{"):
        return _yaml_spec(text)
    try:
        return _json_spec(json.loads(text))
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return None


def _json_spec(document: Any) -> Spec:
    needed: set[str] = set()
    names: list[str] = []
    edits = [document.get("containerEdits")]
    for device in document["devices"]:
        names.append(str(device["name"]))
        edits.append(device.get("containerEdits"))
    for edit in edits:
        for section in _NEEDED:
            for item in (edit or {}).get(section) or ():
                needed.update(_path_of(section, item))
    return str(document["kind"]), tuple(names), frozenset(needed)


def _path_of(section: str, item: Mapping[str, Any]) -> Iterator[str]:
    yield from [str(item[key]) for key in _NEEDED[section] if key in item][:1]


_KEY = re.compile(r"""( *)((?:- +)?)["']?([A-Za-z]+)["']?:(?: +(.*?))?(?: +#.*)? *$""")
_QUOTED = re.compile(r"""(["'])(.*)\1$""")
# YAML that is not a key a line: flow style, anchors and blocks of text.
_OTHER = re.compile(r"(?:^|[:-] +) *[{\[&*|>](?![\]}] *$)")


def _yaml_spec(text: str) -> Spec | None:
    """A key a line, and an item of a list after its dash, as marshallers of Go write it."""
    kind = section = top = ""
    names: list[str] = []
    needed: set[str] = set()
    item: dict[str, str] = {}
    columns: dict[str, int] = {}        # of the section's key, of its items' keys, of devices' keys
    for line in text.splitlines():
        if _OTHER.search(line):
            return None
        match = _KEY.match(line)
        if match is None:
            continue
        column, dash, key, value = len(match[1]) + len(match[2]), match[2], match[3], match[4] or ""
        quoted = _QUOTED.match(value)
        value = quoted[2] if quoted else value
        if section and (column <= columns["section"] or (dash and column == columns.get("item"))):
            needed.update(_path_of(section, item))
            item = {}
        if section and column <= columns["section"]:
            section = ""
        if column == 0:
            top = key
            columns.pop("device", None)
            kind = value if key == "kind" else kind
        if top == "devices" and dash:
            columns.setdefault("device", column)
        if section:
            if column == columns.setdefault("item", column):
                item[key] = value
        elif key in _NEEDED:
            section, columns["section"] = key, column
            columns.pop("item", None)
        elif column == columns.get("device") and key == "name":
            names.append(value)
    if section:
        needed.update(_path_of(section, item))
    return (kind, tuple(names), frozenset(needed)) if kind else None
