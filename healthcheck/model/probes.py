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
    """What a probe does. All but `COMMAND` and `NVML` happen in one reader child, so a hang costs one entry,
    not the sweep.
    """

    FILES = "files"        # read each file that the glob patterns name
    COMMAND = "command"    # run an argv list, no shell, C locale, standard input closed
    # Read /proc/self/mountinfo, then statvfs each mount point that is not of a skipped type
    MOUNTS = "mounts"
    CLOCK = "clock"        # adjtimex(2), read only: is the kernel clock disciplined?
    # One pass over /proc: counts by state, and those that sleep for good or were not waited for
    PROCESSES = "processes"
    # Registers of PCI devices' configuration space (`collector.onnode.config`), and of the ports above them
    CONFIG = "config"
    NVML = "nvml"          # the NVML reader, in a child of its own


class Needs(Enum):
    """What must be so on the node before a probe is started; where it is not, the capture is MISSING and its
    note says why.
    """

    NOTHING = ""
    NVIDIA = "nvidia"                           # the node has an NVIDIA device
    # And the NVML reader ended without an answer: a second source is wanted
    NVIDIA_UNANSWERED = "nvidia-unanswered"


class Effect(Enum):
    """Whether a probe may run beside a job."""

    PASSIVE = "passive"
    DISRUPTIVE = "disruptive"


@dataclass(frozen=True)
class Probe:
    """One thing to capture, with limits: `seconds` for the probe, `each_s` for one file or mount, `limit`
    bytes for its text.

    `tail`: past the limit keep the end rather than the beginning (logs). `root` says that without root it may
    be denied; it is then reported so, never guessed, and the root-owned helper knows it
    (`healthcheck.collector.helper`). `paths` are glob patterns for FILES, and for CONFIG those of the
    devices' links in their drivers' folders; `argv` is for COMMAND, and for PROCESSES the names of those
    whose limits are wanted; `skip` are file system types for MOUNTS.

    `each` are glob patterns for a COMMAND that is run once for each device: `{name}` in argv stands for the
    last part of the path that matches, where that is a plain name (letters, digits, `_.:-`), of at most
    `most` paths, one after another, each within `each_s`, all within `seconds` and `limit`. The capture has
    an entry per path (`facts.base.Captures.devices`); no device is no entry, and no tool where there are
    devices is MISSING. So: each=("/sys/class/nvme/nvme*",), argv=("smartctl", "-j", "-a", "/dev/{name}").
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

    def to_json(self) -> dict[str, Any]:
        """The form in which the collector reads it."""
        return {
            "id": self.id, "kind": self.kind.value, "paths": list(self.paths), "argv": list(self.argv),
            "skip": list(self.skip), "seconds": self.seconds, "each_s": self.each_s, "limit": self.limit, "tail": self.tail,
            "root": self.root, "needs": self.needs.value, "each": list(self.each), "most": self.most,
            # Two diagnostics at once would fail each other.
            **({"alone": True} if self.effect is Effect.DISRUPTIVE else {}),
        }


@dataclass(frozen=True)
class ProbeSet:
    """The probes that the chosen rules need, in a stable order, and the collector's own limits (seconds,
    bytes of reply).

    `cpu_seconds`, if set, is what the collector and all that it starts may spend; what is not captured by
    then is not.
    """

    probes: tuple[Probe, ...]
    seconds: float = 45.0
    reply_bytes: int = 32 * MIB
    lease: Lease | None = None
    cpu_seconds: float | None = None

    def __post_init__(self) -> None:
        """Invariant 8: only a probe set can be sent, and none that would disrupt can be made without a lease;
        raises ValueError.
        """
        disruptive = [probe.id for probe in self.probes if probe.effect is not Effect.PASSIVE]
        if disruptive and self.lease is None:
            raise ValueError(f"disruptive without a lease: {', '.join(disruptive)}")

    @classmethod
    def of(cls, probes: Iterable[Probe], seconds: float = 45.0, lease: Lease | None = None) -> ProbeSet:
        """Each probe once, sorted by id; two different probes under one id are a defect and raise ValueError."""
        by_id: dict[str, Probe] = {}
        for probe in probes:
            if by_id.setdefault(probe.id, probe) != probe:
                raise ValueError(f"two different probes are called {probe.id}")
        return cls(tuple(by_id[name] for name in sorted(by_id)), seconds, lease=lease)

    def to_json(self) -> Mapping[str, Any]:
        """The form in which the collector reads it."""
        return {
            "schema": "muster.probes/1", "seconds": self.seconds, "reply_bytes": self.reply_bytes,
            "probes": [probe.to_json() for probe in self.probes],
            **({} if self.cpu_seconds is None else {"cpu_seconds": self.cpu_seconds}),
        }
