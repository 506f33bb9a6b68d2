"""Container facts: Docker's containers, what gives GPUs to containers (CDI, NVIDIA's container tools), and
Slurm's pyxis with enroot.

Sources: docs.docker.com, `docker container ls` (placeholders; a format with .Size, such as {{json .}}, makes
the daemon measure every layer, so only the fields that are needed are named; commands and labels may hold
secrets and are not) and units.HumanDuration of docker/go-units (the words of "Up ..."); the CDI specification
(cncf-tags/container-device-interface, SPEC.md) and what `nvidia-ctk cdi generate` of
NVIDIA/nvidia-container-toolkit writes; `nvidia-container-cli info` of NVIDIA/libnvidia-container
(src/cli/info.c); spank(7) (plugstack.conf) and the README files of NVIDIA/pyxis and NVIDIA/enroot.
"""

from __future__ import annotations

import re
from typing import Any

from healthcheck.facts import docker
from healthcheck.facts.base import Captures, fact
from healthcheck.facts.parsing import matched
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, Unread, changed, partial_if
from healthcheck.model.probes import KIB, MIB, Needs, Probe, ProbeKind
from healthcheck.model.recording import Outcome
from inventory.text import clean

TOOLKIT_CONFIG = "/etc/nvidia-container-runtime/config.toml"
CDI = Probe("container.cdi", ProbeKind.FILES, limit=1 * MIB,
            paths=("/etc/cdi/*.yaml", "/etc/cdi/*.json", "/var/run/cdi/*.yaml", "/var/run/cdi/*.json",
                   TOOLKIT_CONFIG))
CLI = Probe("container.cli", ProbeKind.COMMAND, argv=("nvidia-container-cli", "info"), seconds=20.0,
            needs=Needs.NVIDIA, root=True)
# /run/slurm/conf and slurmd's spool hold what slurmctld distributes (configless Slurm).
PLUGSTACKS = ("/etc/slurm/plugstack.conf", "/run/slurm/conf/plugstack.conf",
              "/var/spool/slurmd/conf-cache/plugstack.conf")
ENROOT_CONFIG = "/etc/enroot/enroot.conf"
SLURM = Probe("container.slurm", ProbeKind.FILES,
              paths=(*PLUGSTACKS, "/etc/slurm/plugstack.conf.d/*.conf",
                     "/run/slurm/conf/plugstack.conf.d/*.conf", ENROOT_CONFIG), limit=128 * KIB)


class Container(Fact):
    """One container. `state` is Docker's word; `exit` the last exit status; `up_s` how long it has run at
    least.

    `health` is the result of its own health check: healthy, unhealthy or starting, "" where it has none.
    """

    name: str
    id: str
    image: str
    state: str
    exit: int
    up_s: int
    health: str


class Containers(Fact):
    """All containers of the Docker daemon, the newest first; there may be none. UNSUPPORTED where there is no
    daemon."""

    name: str
    listed: tuple[Container, ...]


class Cdi(Fact):
    """The CDI specifications of nvidia.com/gpu: GPUs by their minor numbers, the file that names most of
    them, and the driver version of the libraries that it mounts; these are UNSUPPORTED where no specification
    is of that kind.

    `toolkit`: the configuration of NVIDIA's container toolkit exists, which its package installs.
    """

    name: str
    found: bool
    toolkit: bool
    file: str
    gpus: int
    driver: str


class ContainerGpus(Fact):
    """GPUs as a container would get them; their UUIDs."""

    name: str
    uuids: tuple[str, ...]


class Pyxis(Fact):
    """Whether Slurm's plug-in stack names pyxis, and whether enroot, which it starts containers with, has its
    configuration. Both are UNSUPPORTED where neither is there."""

    name: str
    configured: bool
    enroot: bool


_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400, "month": 30 * 86400,
          "year": 365 * 86400}
_UP = re.compile(
    r"Up (?:([0-9]{1,6}) (second|minute|hour|day|week|month|year)s?|(Less than a second)"
    r"|(?:About )?an? (minute|hour))(?: \(.*\))?")
_EXIT = re.compile(r"(?:Exited|Restarting) \(([0-9]{1,3})\)(?: .*)?")
_HEALTH = re.compile(r"\((?:health: )?(healthy|unhealthy|starting)\)$")
STATES = ("created", "running", "paused", "restarting", "removing", "exited", "dead")


def up_seconds(status: str) -> int:
    """The seconds of "Up 5 weeks (healthy)", rounded down as Docker's client rounds; raises ValueError."""
    number, unit, less, one = matched(_UP, status).groups()
    return 0 if less else _UNITS[one] if one else int(number) * _UNITS[unit]


def _container(row: dict[str, Any]) -> Container | None:
    words = [row.get(key) for key in ("container", "id", "image", "state", "status")]
    if not all(isinstance(word, str) for word in words) or row["state"] not in STATES or not row["id"]:
        return None
    status = row["status"]
    ended = _EXIT.fullmatch(status)
    health = _HEALTH.search(status)
    up: Any = UNSUPPORTED
    if row["state"] == "running":
        try:
            up = up_seconds(status)
        except ValueError:
            up = Unmeasured(f"docker ps gives the status {clean(status, 60)}, which is not in the documented "
                            "format")
    exit_status: Any = int(ended[1]) if ended else UNSUPPORTED
    return Container(
        clean(row["container"] or row["id"], 120), id=clean(row["id"], 64), image=clean(row["image"], 200),
        state=row["state"],
        exit=exit_status, up_s=up, health=health[1] if health else "",
    )


@fact("containers", docker.PS, besides=(docker.INFO,))
def containers(captures: Captures) -> Any:
    """What `docker ps --all` lists."""
    found = docker.rows(captures, docker.PS)
    if found is None:
        return Containers.absent("containers")
    listed, trouble = found
    read = [_container(row) for row in listed]
    known = tuple(container for container in read if container is not None)
    if len(known) < len(read) and not trouble:
        trouble = (f"docker ps printed {len(read) - len(known)} containers that are not in its documented "
                   "format")
    return partial_if(Containers("containers", known), trouble)


_KIND = re.compile(r"""(?m)^\s*"?kind"?\s*:\s*["']?nvidia\.com/gpu["']?\s*,?\s*$""")
_COMPACT_KIND = re.compile(r'"kind":\s?"nvidia\.com/gpu"')
_NODE = re.compile(r"(?<![\w/.])/dev/nvidia([0-9]{1,3})(?!\w)")
LIBRARY = re.compile(r"/lib(?:cuda|nvidia-ml)\.so\.([0-9]{1,4}(?:\.[0-9]{1,4}){1,3})(?![\w.])")


def parse_cdi(text: str) -> tuple[int, str] | None:
    """The number of GPUs in a CDI specification, and its driver's version ("" where it mounts no library);
    None if it is of another kind.

    Device nodes and libraries are written the same in YAML and JSON, so neither is parsed.
    """
    if _KIND.search(text) is None and _COMPACT_KIND.search(text) is None:
        return None
    versions = sorted(set(LIBRARY.findall(text)))
    return len(set(_NODE.findall(text))), versions[0] if len(versions) == 1 else " and ".join(versions[:3])


@fact("cdi", CDI)
def cdi(captures: Captures) -> Cdi:
    """The specification that names most GPUs; of one device those of /var/run/cdi go before those of
    /etc/cdi."""
    files = captures.files(CDI)
    found: list[tuple[bool, int, str, str]] = []
    for path in files:
        parsed = parse_cdi(files.text(path)) if path != TOOLKIT_CONFIG and files.has(path) else None
        if parsed is not None:
            count, driver = parsed
            found.append((count > 0 and path.startswith("/var/run/cdi/"), count, driver, path))
    unreadable = files.unreadable()
    if unreadable:
        raise Unread(unreadable)
    toolkit = files.has(TOOLKIT_CONFIG)
    if not found:
        return changed(Cdi.absent("CDI"), found=False, toolkit=toolkit)
    _, count, driver, path = max(found)
    driver_or_none: Any = driver or UNSUPPORTED
    return Cdi("CDI", found=True, toolkit=toolkit, file=path, gpus=count, driver=driver_or_none)


_CLI_UUID = re.compile(r"(?m)^GPU UUID:\s+(GPU-[0-9a-fA-F-]{8,64})\s*$")


@fact("container_gpus", CLI)
def container_gpus(captures: Captures) -> ContainerGpus:
    """The GPUs that NVIDIA's container library would give to a container; UNSUPPORTED where its tool is not
    installed."""
    if captures.outcome(CLI) is Outcome.MISSING:
        return ContainerGpus.absent("container GPUs")
    return ContainerGpus("container GPUs", tuple(_CLI_UUID.findall(captures.text(CLI))))


_SPANK = re.compile(r"^\s*(?:required|optional)\s+(\S+)", re.MULTILINE)


@fact("pyxis", SLURM)
def pyxis(captures: Captures) -> Pyxis:
    """Slurm's plug-in stack and enroot's configuration, from their files."""
    files = captures.files(SLURM)
    stacks = [path for path in files if "plugstack" in path and files.has(path)]
    enroot: Any = files.has(ENROOT_CONFIG)
    named = any(plugin.rpartition("/")[2] == "spank_pyxis.so" for path in stacks
                for plugin in _SPANK.findall(files.text(path)))
    unreadable = files.unreadable()
    if unreadable:
        raise Unread(unreadable)
    if not named and (not stacks or not enroot):
        return Pyxis.absent("pyxis")
    return Pyxis("pyxis", configured=named, enroot=enroot)

