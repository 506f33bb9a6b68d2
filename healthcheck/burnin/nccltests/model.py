"""A run of nccl-tests as values, whatever its format; bandwidths in GB/s (1e9 bytes), times in us."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True)
class IterationSpread:
    """How iterations spread (-I): shortest, longest, 99th percentile, deviation in percent of the mean."""

    min_us: float
    max_us: float
    p99_us: float
    cv_percent: float


@dataclass(frozen=True)
class Half:
    """One half of a row, out of place or in place. `wrong` is None where nothing was verified or counted;
    `blur` is half of the last digit printed of time, algbw and busbw: what each may be off; `times_us` is
    every iteration, where it was written (-I with -J)."""

    time_us: float
    algbw: float
    busbw: float
    wrong: int | None = None
    blur: tuple[float, float, float] = (5e-7, 5e-7, 5e-7)
    spread: IterationSpread | None = None
    times_us: tuple[float, ...] = ()


@dataclass(frozen=True)
class NcclRow:
    """One size; a half is None where it was not run or is nan, `line` 0 where the format has no lines."""

    line: int
    size: int
    count: int
    type: str
    redop: str
    root: int | None
    out: Half | None
    into: Half | None

    @property
    def halves(self) -> tuple[Half, ...]:
        """Those that were measured, out of place first."""
        return tuple(half for half in (self.out, self.into) if half is not None)


@dataclass(frozen=True)
class NcclDevice:
    """One rank as the test lists it; `address` as printed, which is a bus number alone before 2.16."""

    rank: int
    group: int
    host: str
    gpu: int
    address: str
    name: str


@dataclass(frozen=True)
class OutputLine:
    """A line of the output, cleaned, with its number (0: the format has no lines)."""

    line: int
    text: str


@dataclass(frozen=True)
class OutOfBounds:
    """The footer's count of sizes with wrong values, and whether it calls that OK."""

    count: int
    okay: bool
    line: int = 0


@dataclass(frozen=True)
class NcclRun:
    """One run of one test. `ranks` are those of one communicator, 0 where they are not listed; `copies` is
    how often rank 0 is listed: more than one means separate runs that look like one. `config` are counts by
    the test's own words. `average` is the footer's mean over all sizes and both halves; `minimum`: whether it
    reached 0.9 of NCCL_TESTS_MIN_BW (None: not asked). `broken` are unreadable table rows. `endless` marks a
    format without a footer, in which a run that was cut off looks like a whole one."""

    test: str = ""
    version: str = ""
    library: int | None = None
    ranks: int = 0
    copies: int = 1
    devices: tuple[NcclDevice, ...] = ()
    config: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    rows: tuple[NcclRow, ...] = ()
    cpu_time: bool = False
    bounds: OutOfBounds | None = None
    average: float | None = None
    minimum: bool | None = None
    failures: tuple[OutputLine, ...] = ()
    broken: tuple[OutputLine, ...] = ()
    endless: bool = False

    @property
    def complete(self) -> bool:
        """Whether it came to its end: both lines of the footer are there."""
        return self.bounds is not None and self.average is not None

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of its ranks, each once, in the order of ranks."""
        return tuple(dict.fromkeys(device.host for device in self.devices))
