"""The values of a change that is proven on a canary: what stood, what stands now, and the judgement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from types import MappingProxyType

# The kinds of evidence, as --without and documents name them.
RESULTS, LOG, FIGURES, MADE = "results", "log", "figures", "made"
KINDS = (RESULTS, LOG, FIGURES)


class ChangeVerdict(Enum):
    """What became of a change."""

    PASSED = "passed"
    WORSE = "worse"
    UNCLEAR = "cannot tell"

    @property
    def exit_code(self) -> int:
        """The exit code of `muster change judge`."""
        return {"passed": 0, "worse": 1, "cannot tell": 3}[self.value]


class Grade(Enum):
    """What one comparison says."""

    WORSE = "worse"
    UNCLEAR = "cannot tell"
    NOISE = "noise"         # something is new, and chance explains it
    SAME = "same"


@dataclass(frozen=True)
class LogForm:
    """A form of kernel-log lines: its template, the worst priority of its lines (0 to 7, None: unknown), and
    whether it is a report of several lines."""

    template: str
    priority: int | None
    report: bool = False

    @property
    def warns(self) -> bool:
        """Whether the kernel means a person to read it: a warning (4) or worse, a report, or unknown."""
        return self.report or self.priority is None or self.priority <= 4


@dataclass(frozen=True)
class LoggedForms:
    """What one boot's log of a node holds: ids of forms, those of them that were written as the node started,
    and whether the log still has its beginning."""

    ids: frozenset[str]
    starting: frozenset[str]
    whole: bool


@dataclass(frozen=True)
class NodeStanding:
    """What one snapshot of a node shows; `time` is epoch seconds, 0 where there is none. `failing`,
    `unmeasured` and `skipped` are warning and critical rules, `skips` how many were left out (all that the
    store says); they mean nothing where `missing` says why there are no results. `unlogged` says why there is
    no kernel log. `versions` are by name, without those that were not read."""

    time: float
    failing: frozenset[str] = frozenset()
    unmeasured: frozenset[str] = frozenset()
    versions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    boot: str = ""
    log: LoggedForms | None = None
    missing: str = ""
    unlogged: str = ""
    skipped: frozenset[str] = frozenset()
    skips: int = 0


@dataclass(frozen=True)
class FigureSeries:
    """One figure of one subject (GPU, node, pair, all): a value for each run. More is better."""

    figure: str
    subject: str
    nodes: tuple[str, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Stood:
    """What stands at one time: nodes by name, the forms of their logs by id, figures, and the burn-ins that
    these are from. `source` says where snapshots are from, `rules` by which rules they were judged
    (digest)."""

    source: str
    rules: str
    nodes: Mapping[str, NodeStanding]
    forms: Mapping[str, LogForm] = field(default_factory=lambda: MappingProxyType({}))
    figures: tuple[FigureSeries, ...] = ()
    runs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Compared:
    """One thing that was compared. `key` is what --without names: results/RULE, log/ID, figures/NAME."""

    kind: str
    key: str
    grade: Grade
    words: str
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ChangeJudgement:
    """What a judgement found; `time` is epoch seconds, `after` the snapshots' source and burn-ins, `remarks`
    what a person should know beside."""

    time: float
    who: str
    verdict: ChangeVerdict
    after: str
    comparisons: tuple[Compared, ...]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class SiteChange:
    """A change of a site: its canary, its controls, the rings that follow, and what stood as it began (epoch
    seconds). `without` are globs of keys that are not judged, which a person chose before the change."""

    name: str
    who: str
    began: float
    canary: tuple[str, ...]
    controls: tuple[str, ...]
    chosen: str
    rings: tuple[tuple[str, ...], ...]
    without: tuple[str, ...]
    before: Stood
    judgements: tuple[ChangeJudgement, ...] = ()

    @property
    def newest(self) -> ChangeJudgement | None:
        """The newest judgement."""
        return self.judgements[-1] if self.judgements else None

    @property
    def state(self) -> str:
        """The newest verdict; "not judged" before the first."""
        return self.newest.verdict.value if self.newest is not None else "not judged"

    def leaves_out(self, key: str) -> bool:
        """Whether a person chose not to judge this key, or all of its kind."""
        return any(fnmatchcase(key, glob) or key.partition("/")[0] == glob for glob in self.without)
