"""Probes: what to capture on a node, as data with limits; they know no thresholds and judge nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from healthcheck.model.lease import Lease

KIB = 1024
MIB = 1024 * 1024


class ProbeKind(Enum):
    """What a probe does. All but `COMMAND` and `NVML` run in one reader child: a hang costs one entry."""

    FILES = "files"        # read each file that the glob patterns name
    COMMAND = "command"    # run an argv list, no shell, C locale, standard input closed
    # Read /proc/self/mountinfo, then statvfs each mount point of a type that is not skipped
    MOUNTS = "mounts"
    CLOCK = "clock"        # adjtimex(2), read only: is the kernel clock disciplined?
    PROCESSES = "processes"    # one pass over /proc: counts by state, stuck processes and zombies
    OWNERS = "owners"      # one pass over /proc: who has which process, in which control group
    # PCI configuration registers of devices and the ports above (`collector.onnode.config`)
    CONFIG = "config"
    # Programs and files that configurations of container runtimes name, and whether they are there
    # (`collector.onnode.containers`)
    CONTAINERS = "containers"
    NVML = "nvml"          # the NVML reader, in a child of its own


class Needs(Enum):
    """What the node must have before a probe starts; otherwise the capture is MISSING, with a note."""

    NOTHING = ""
    NVIDIA = "nvidia"                           # the node has an NVIDIA device
    NVIDIA_UNANSWERED = "nvidia-unanswered"     # and the NVML reader gave no answer: a second source


class Effect(Enum):
    """Whether a probe may run beside a job."""

    PASSIVE = "passive"
    DISRUPTIVE = "disruptive"


@dataclass(frozen=True)
class Probe:
    """One thing to capture, with limits: `seconds` for the probe, `each_s` for one file or mount, `limit`
    bytes for its text.

    `tail`: past the limit keep the end (logs). `root`: without root it may be denied, which is then reported,
    and the root-owned helper knows it (`healthcheck.collector.helper`). `paths` are glob patterns for FILES,
    and for CONFIG those of the devices' links in their drivers' folders; `argv` is for COMMAND, and for
    PROCESSES the names of processes whose limits are wanted; `skip` are file system types for MOUNTS.

    `each` are glob patterns for a COMMAND that runs once for each device: `{name}` in argv stands for the
    last part of a matching path, if it is a plain name (letters, digits, `_.:-`), and `{stem}` for that
    without its last suffix. At most `most` paths run,
    one after another, each within `each_s`, all within `seconds` and `limit`. The capture has an entry per
    path (`facts.base.Captures.devices`). No device is no entry; a missing tool where there are devices is
    MISSING. Example: each=("/sys/class/nvme/nvme*",), argv=("smartctl", "-j", "-a", "/dev/{name}").

    `tools` are other names, or paths, of the program of `argv`: the first that is installed runs. With
    `scan`, where there is any device of `each`, the devices are those that this command lists instead
    ("/dev/bus/0 -d megaraid,8 # ...", as smartctl --scan): `{name}` is then the type and `{folder}` the
    device.
    """

    id: str
    kind: ProbeKind
    paths: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    seconds: float = 5.0
    each_s: float = 2.0
    limit: int = 256 * KIB
    tail: bool = False
    root: bool = False
    effect: Effect = Effect.PASSIVE
    needs: Needs = Needs.NOTHING
    each: tuple[str, ...] = ()
    most: int = 64
    tools: tuple[str, ...] = ()
    scan: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The form that the collector reads."""
        return {
            "id": self.id, "kind": self.kind.value, "paths": list(self.paths), "argv": list(self.argv),
            "skip": list(self.skip), "seconds": self.seconds, "each_s": self.each_s, "limit": self.limit,
            "tail": self.tail, "root": self.root, "needs": self.needs.value, "each": list(self.each),
            "most": self.most,
            # Two diagnostics at once would make each other fail.
            **({"alone": True} if self.effect is Effect.DISRUPTIVE else {}),
            **({"tools": list(self.tools)} if self.tools else {}),
            **({"scan": list(self.scan)} if self.scan else {}),
        }


@dataclass(frozen=True)
class ProbeSet:
    """The probes that the chosen rules need, in a stable order, and the collector's own limits (seconds,
    bytes of reply).

    `cpu_seconds`, if set, limits the collector and its children; what is not captured by then is missing.
    """

    probes: tuple[Probe, ...]
    seconds: float = 45.0
    reply_bytes: int = 32 * MIB
    lease: Lease | None = None
    cpu_seconds: float | None = None

    def __post_init__(self) -> None:
        """Only a probe set can be sent; raises ValueError for a disruptive one without lease.

        Invariant 8 of healthcheck/help/architecture.md.
        """
        disruptive = [probe.id for probe in self.probes if probe.effect is not Effect.PASSIVE]
        if disruptive and self.lease is None:
            raise ValueError(f"disruptive without a lease: {', '.join(disruptive)}")

    @classmethod
    def of(cls, probes: Iterable[Probe], seconds: float = 45.0, lease: Lease | None = None) -> ProbeSet:
        """Each probe once, sorted by id; raises ValueError for two different probes of one id."""
        by_id: dict[str, Probe] = {}
        for probe in probes:
            if by_id.setdefault(probe.id, probe) != probe:
                raise ValueError(f"two different probes are called {probe.id}")
        return cls(tuple(by_id[name] for name in sorted(by_id)), seconds, lease=lease)

    def to_json(self) -> Mapping[str, Any]:
        """The form that the collector reads."""
        return {
            "schema": "muster.probes/1", "seconds": self.seconds, "reply_bytes": self.reply_bytes,
            "probes": [probe.to_json() for probe in self.probes],
            **({} if self.cpu_seconds is None else {"cpu_seconds": self.cpu_seconds}),
        }
