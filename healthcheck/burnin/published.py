"""Published figures of sound machines by GPU, NICs, nodes, size and algorithm; limits of `rules/burnin.yaml`.

A figure holds for the conditions under which it was measured; most conditions have none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from healthcheck.burnin.model import BurnInStage

FILE = "burnin.yaml"
GIB = 1024**3
BUSBW = "busbw_gb_s"
BY_SIZE = "busbw_by_size_gb_s"      # of a sweep, whose sizes are settings of their own
CHECKSUMS = "checksums"     # of random products, which equals judge
NCCL, GLOO = "nccl", "gloo"
# Sound rings of 2 to 16 nodes reach 0.9 of the ports' rate, and half of it where a port sends to itself.
_LEAST_OF_PORTS = 0.25
# The algorithm asked of NCCL; for a sweep whether it may use NVLS.
ALGOS = ("auto", "ring", "tree", "nvls", "nvlstree", "collnet", "pat", "nvls-on", "nvls-off")
# Stages with comparable figures: floors learned in one hold in the other.
_LEARNED_IN = {BurnInStage.LEAF_CONFIRM: BurnInStage.LEAF_PAIRS, BurnInStage.BISECT: BurnInStage.ALL,
         BurnInStage.SOAK: BurnInStage.ALL, BurnInStage.TRAIN: BurnInStage.NODE}


def learning_stage(stage: BurnInStage) -> BurnInStage:
    """The stage under whose name figures of this one are learned."""
    return _LEARNED_IN.get(stage, stage)


@dataclass(frozen=True, order=True)
class Setting:
    """The conditions under which a figure was measured. `gpu` is the product's name ("": none), for host
    memory that of the processor. `gpus` are ranks a node, `nics` the NICs of a node for it, of `gbps` each
    (0: unknown). `size` is in bytes, or of matrices in rows; 0 where there is none, or the usual one
    (`setting.unusual_size`). `watts` is the power limit (0: unknown). `nvlink`: whether all of it is in one
    node or NVLink domain. `nodes` is how many tested a `mount` at once, if they may share a file system."""

    figure: str
    stage: str
    gpu: str = ""
    gpus: int = 1
    nodes: int = 1
    nics: int = 0
    gbps: float = 0
    size: int = 0
    algo: str = ""
    watts: int = 0
    nvlink: bool = True
    backend: str = NCCL
    mount: str = ""

    @property
    def learned_from(self) -> Setting:
        """The same, named by the stage under which such figures are learned."""
        return replace(self, stage=learning_stage(BurnInStage(self.stage)).value)

    @property
    def through_ports(self) -> bool:
        """Whether it is a bandwidth that leaves the node or its NVLink domain."""
        return self.figure in (BUSBW, BY_SIZE) and not self.nvlink

    def __str__(self) -> str:
        parts = [self.figure, self.stage, self.gpu or "no GPU", f"{self.nodes} x {self.gpus}"]
        if self.size:
            parts += [bytes_of(self.size), self.mount or self.algo]
        return ", ".join([*parts, f"{self.watts} W"] if self.watts else parts)


@dataclass(frozen=True)
class PublishedFigure:
    """One published figure, and for what it holds; None or empty: for any."""

    id: str
    figure: str
    source: str
    gpu: str = ""
    but: tuple[str, ...] = ()
    gpus: int | None = None
    nodes: tuple[int, int] = (1, 1)
    nics: int | None = None
    gbps: float | None = None
    nvlink: bool | None = None
    size: int = 0
    algo: tuple[str, ...] = ()
    watts: int = 0
    value: float | None = None
    per_nic: bool = False
    share: float | None = None
    peak: float | None = None
    file: str = ""

    def holds(self, setting: Setting) -> bool:
        """Whether it holds for this setting."""
        return (
            self.figure == setting.figure and setting.backend == NCCL
            and (not self.gpu or (is_model(setting.gpu, self.gpu)
                                  and not any(is_model(setting.gpu, word) for word in self.but)))
            and self.gpus in (None, setting.gpus) and self.nodes[0] <= setting.nodes <= self.nodes[1]
            and self.nics in (None, setting.nics) and self.gbps in (None, setting.gbps)
            and (not self.per_nic or setting.nics > 0) and self.nvlink in (None, setting.nvlink)
            # Of a bandwidth the size is the least; any other figure is published for the usual size alone.
            and (self.size <= setting.size if self.figure in (BUSBW, BY_SIZE) else not setting.size)
            and (not self.algo or setting.algo in self.algo)
            # A board with a lower power limit is slower without a fault.
            and (not self.watts or not setting.watts or setting.watts >= self.watts)
        )


@dataclass(frozen=True)
class CounterLimit:
    """How far counters may rise. `below_gbps`: only on links slower than that."""

    id: str
    counters: tuple[str, ...]
    why: str
    source: str
    allow: float | None = None
    allow_per_hour: float | None = None
    below_gbps: float | None = None

    def allowed(self, seconds: float) -> float:
        """The rise that is within the limit in that time."""
        return (self.allow or 0) + (self.allow_per_hour or 0) * seconds / 3600


@dataclass(frozen=True)
class ScreenPolicy:
    """Screening: no node within `days` of a pass, at most `nodes` at a time, `node_hours` a day."""

    days: float
    nodes: int
    node_hours: float


@dataclass(frozen=True)
class BurninRules:
    """All of `burnin.yaml`. Ratios are by backend, None where that is not judged; `accept` names by backend
    what may pass unjudged, as "busbw_gb_s in all"; a learned floor below `least_share` is refused; `profiles`
    are NCCL settings by name."""

    published: tuple[PublishedFigure, ...]
    counters: tuple[CounterLimit, ...]
    share: float
    least_bytes: int
    believed: float
    learn_nodes: int
    learn_runs: int
    warn_share: float
    least_share: float
    relative: Mapping[str, float | None]
    jitter: Mapping[str, float | None]
    coverage: Mapping[str, float | None]
    accept: Mapping[str, tuple[str, ...]]
    days: float
    screen: ScreenPolicy
    profiles: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    sources: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    files: tuple[str, ...] = ()

    def value(self, setting: Setting) -> tuple[float, PublishedFigure] | None:
        """The published figure for a setting: the most specific entry, then the largest buffers."""
        fits = [one for one in self.published if one.value is not None and one.holds(setting)]
        if not fits:
            return None
        best = max(fits, key=lambda one: (bool(one.gpu), one.nics is not None, one.size))
        return (best.value or 0) * (setting.nics if best.per_nic else 1), best

    def peak(self, setting: Setting) -> float | None:
        """The largest credible figure, by data sheet or the rate of the ports; None where neither is known.
        A ring sends its bus bandwidth through the ports of each node. Any other algorithm sends and receives
        at least the buffer, so its bus bandwidth is at most twice the rate."""
        bounds = [one.peak for one in self.published if one.peak is not None
                  and replace(one, watts=0).holds(setting)]
        if setting.through_ports and setting.backend == NCCL and setting.nics * setting.gbps > 0:
            bounds.append(setting.nics * setting.gbps / 8 * (1 if setting.algo == "ring" else 2))
        return self.believed * max(bounds) if bounds else None

    def least_of_ports(self, setting: Setting) -> float | None:
        """The bandwidth of large buffers below which ports do not do their work, whatever equals do; None
        where their rate is unknown, or the site accepts such a figure that nothing judged."""
        if (setting.figure != BUSBW or not setting.through_ports or setting.backend != NCCL
                or setting.size < GIB or setting.nics * setting.gbps == 0 or self.accepts(setting)):
            return None
        return _LEAST_OF_PORTS * setting.nics * setting.gbps / 8

    def datasheet(self, figure: str, gpu: str) -> PublishedFigure | None:
        """The entry with the data sheet's figure for a product name; None without one."""
        fits = [one for one in self.published if one.peak is not None and one.figure == figure and one.gpu
                and is_model(gpu, one.gpu) and not any(is_model(gpu, word) for word in one.but)]
        return max(fits, key=lambda one: one.peak or 0.0, default=None)

    def accepts(self, setting: Setting) -> bool:
        """Whether the site accepts such a figure that nothing judged."""
        return unjudged(setting.figure, setting.learned_from.stage) in self.accept.get(setting.backend, ())

    def limit(self, counter: str) -> CounterLimit | None:
        """The limit of that counter; None where it is not judged."""
        return next((one for one in self.counters if counter in one.counters), None)


def bytes_of(size: int) -> str:
    """A size in words, such as 64 KiB."""
    for unit, of in (("GiB", GIB), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= of:
            return f"{size / of:.3g} {unit}"
    return f"{size} B"


def unjudged(figure: str, stage: str) -> str:
    """The name by which a policy accepts what nothing judged."""
    return f"{figure} in {stage}"


def is_model(product: str, word: str) -> bool:
    """Whether a product's name holds that word, whole: "B200" is not in "NVIDIA GB200"."""
    return re.search(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", product, re.IGNORECASE) is not None
