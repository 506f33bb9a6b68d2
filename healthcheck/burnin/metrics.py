"""Prometheus metrics of burn-ins: the newest one of each node, from the documents in the state folder."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from healthcheck.burnin import documentread, limits
from healthcheck.burnin.document import Burnin, kept
from healthcheck.burnin.judgement import NodeOutcome
from healthcheck.burnin.merged import node_of
from healthcheck.burnin.published import BUSBW
from healthcheck.burnin.publishedload import load_burnin
from healthcheck.burnin.shares import shares
from healthcheck.config.rulesfolder import folders
from healthcheck.model.exposition import GAUGE, MetricFamily, Sample
from inventory.errors import MusterError

OUTCOME = MetricFamily("muster_burnin_outcome", GAUGE, "Outcome of the newest burn-in of a node (pass, fail, "
                       "unknown); always 1.", ("node", "outcome"))
STAGE = MetricFamily("muster_burnin_stage_done", GAUGE,
                     "Whether the newest burn-in of a node measured all of a stage.", ("node", "stage"))
BANDWIDTH = MetricFamily("muster_burnin_busbw_bytes_per_second", GAUGE,
                         "Bus bandwidth of all-reduces with this node, median of a stage's tasks.",
                         ("node", "stage"))
SHARE = MetricFamily("muster_burnin_worst_share_ratio", GAUGE,
                     "Worst figure of a node in a stage as a share of its floor, or of its equals' median.",
                     ("node", "stage"))
GEMM = MetricFamily("muster_burnin_gemm_flops_per_second", GAUGE,
                    "Rate of matrix products, of the slowest GPU of a node.", ("node", "precision"))
TRAINING = MetricFamily("muster_burnin_train_steps_per_second", GAUGE, "Steps of a short training a second, "
                        "all-reduce not counted, of the slowest GPU of a node.", ("node",))
ACCUSED = MetricFamily("muster_burnin_accusations", GAUGE,
                       "Accusations of a node, its GPUs and rails by its newest burn-in.", ("fault", "node"))
FINISHED = MetricFamily("muster_burnin_finished_timestamp_seconds", GAUGE,
                        "When the newest burn-in of a node ended.", ("node",))
WRONG = MetricFamily("muster_burnin_wrong_elements", GAUGE,
                     "Wrong elements that the newest burn-in found, of any origin.")
UNEXPLAINED = MetricFamily("muster_burnin_unexplained", GAUGE,
                           "Failures of the newest burn-in for which no GPU, node, rail or leaf is named.")
STALE_AFTER = MetricFamily("muster_burnin_stale_after_seconds", GAUGE,
                           "The age from which a burn-in no longer counts, by burnin.yaml.")
UNREADABLE = MetricFamily("muster_burnin_unreadable_documents", GAUGE,
                          "Documents of burn-ins in the state folder that cannot be read.")
FAMILIES = (OUTCOME, STAGE, BANDWIDTH, SHARE, GEMM, TRAINING, ACCUSED, FINISHED, WRONG, UNEXPLAINED,
            STALE_AFTER, UNREADABLE)

# No text in a document can match: its quotes would be escaped.
_UNFINISHED = re.compile(rb'"finished": ?false')
_BEGINNING = 65536
_GEMM, _TRAINING, _PAIRS_OF = "tflops_", "train_steps_s", f"{BUSBW} "


@dataclass(frozen=True)
class BurnInSummary:
    """What metrics keep of one burn-in: its nodes, their faults, its end, and its unexplained failures."""

    ended: float
    nodes: tuple[NodeOutcome, ...]
    accused: Mapping[str, tuple[str, ...]]
    wrong: int
    unexplained: int
    shares: Mapping[str, tuple[tuple[str, float], ...]]     # by node those of stages


def summary(burnin: Burnin) -> BurnInSummary:
    """The summary of a burn-in."""
    accused: dict[str, tuple[str, ...]] = {}
    unnamed = 0
    for one in burnin.judgement.accusations:
        node = node_of(one)
        if node is None:
            unnamed += 1
        else:
            accused[node] = (*accused.get(node, ()), one.fault)
    wrong = sum(report.wrong_total for result in burnin.burnt.results for report in result.reports)
    found = shares(burnin)
    of_stages = {row.node: tuple((stage.value, cell.share) for stage, cell in zip(
        found.stages, row.stages, strict=True) if cell.share is not None) for row in found.nodes}
    return BurnInSummary(burnin.ended, burnin.judgement.outcomes, accused, wrong, unnamed, of_stages)


class Burnins:
    """The newest documents of a state folder; each is read once."""

    def __init__(self, state: Path, days: float | None) -> None:
        self._state, self._days = state, days
        self._held: dict[tuple[str, int, int], BurnInSummary | None] = {}
        self._seen = False
        self.samples: tuple[Sample, ...] = ()

    def again(self) -> bool:
        """Reads new documents; whether the samples may have changed."""
        stamps = []
        # A screening is less than a burn-in, and would hide it as a node's newest one.
        for path in kept(self._state, screenings=False)[:limits.METRIC_DOCUMENTS]:
            try:
                found = path.stat()
            except OSError:
                continue        # removed
            stamp = (str(path), found.st_mtime_ns, found.st_size)
            if stamp in self._held or not _under_way(path):
                stamps.append(stamp)
        if self._seen and list(self._held) == stamps:
            return False
        self._held = {stamp: self._held[stamp] if stamp in self._held else _read(Path(stamp[0]))
                      for stamp in stamps}
        self._seen = True
        self.samples = tuple(samples(self._held.values(), self._days)) if stamps else ()
        return True


def here(state: Path) -> Burnins:
    """The burn-ins of a state folder; without readable rules the age at which they are stale is unknown."""
    try:
        days: float | None = load_burnin(folders(None)).days
    except MusterError:
        days = None
    return Burnins(state, days)


def _under_way(path: Path) -> bool:
    """Whether its burn-in is not finished: the file changes every few seconds and holds no outcome yet."""
    try:
        with path.open("rb") as file:
            return _UNFINISHED.search(file.read(_BEGINNING)) is not None
    except OSError:
        return False


def _read(path: Path) -> BurnInSummary | None:
    try:
        return summary(documentread.load(path))
    except MusterError:
        return None


def samples(burnins: Iterable[BurnInSummary | None], days: float | None) -> Iterator[Sample]:
    """All samples; `burnins` have the newest first, None for one that cannot be read."""
    burnins = list(burnins)
    known = sorted((one for one in burnins if one is not None), key=lambda one: -one.ended)
    seen: set[str] = set()
    for one in known:
        for node in one.nodes:
            if node.node not in seen:
                seen.add(node.node)
                yield from _of_node(one, node)
    if known:
        yield WRONG, WRONG.sample(known[0].wrong)
        yield UNEXPLAINED, UNEXPLAINED.sample(known[0].unexplained)
    if days is not None:
        yield STALE_AFTER, STALE_AFTER.sample(days * 86400)
    yield UNREADABLE, UNREADABLE.sample(sum(one is None for one in burnins))


def _of_node(one: BurnInSummary, node: NodeOutcome) -> Iterator[Sample]:
    name = node.node
    yield OUTCOME, OUTCOME.sample(1, name, node.outcome.value)
    yield FINISHED, FINISHED.sample(round(one.ended, 3), name)
    for stage in node.stages:
        yield STAGE, STAGE.sample(stage.done, name, stage.stage.value)
    for figure, value in sorted(node.figures.items()):
        if not math.isfinite(value):
            continue
        if figure.startswith(_GEMM):
            yield GEMM, GEMM.sample(value * 1e12, name, figure.removeprefix(_GEMM))
        elif figure == _TRAINING:
            yield TRAINING, TRAINING.sample(value, name)
        elif figure.startswith(_PAIRS_OF):
            yield BANDWIDTH, BANDWIDTH.sample(value * 1e9, name, figure.removeprefix(_PAIRS_OF))
    for stage_name, share in one.shares.get(name, ()):
        yield SHARE, SHARE.sample(share, name, stage_name)
    accused = one.accused.get(name, ())
    for fault in sorted(set(accused)):
        yield ACCUSED, ACCUSED.sample(accused.count(fault), fault, name)
