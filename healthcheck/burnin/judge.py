"""Judges a burn-in by floors, equals, checksums and counters, then node by node.

Pure: results in, a judgement out. Dead, late and hung ranks, wrong data and slow links were found during the
run, and arrive as accusations.
"""

from __future__ import annotations

import statistics
from collections import Counter as Counted
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from healthcheck.burnin import faults, limits
from healthcheck.burnin.checksums import SAME_SETUP, odd_ones
from healthcheck.burnin.clocks import clock_reason, clocks
from healthcheck.burnin.counters import CounterGrowth, counted
from healthcheck.burnin.fabricresult import FabricCoverage
from healthcheck.burnin.figures import LATENCY
from healthcheck.burnin.floors import Floors
from healthcheck.burnin.judgement import JudgedFigure, Judgement
from healthcheck.burnin.merged import merged, task_of
from healthcheck.burnin.model import (
    Accusation,
    BurnInStage,
    Object,
    Participant,
    RankEnd,
    RankReport,
    TaskKind,
    TaskResult,
)
from healthcheck.burnin.nodejudge import outcomes
from healthcheck.burnin.onnode.times import OFTEN, OFTEN_SHARE
from healthcheck.burnin.published import BY_SIZE, CHECKSUMS, GLOO, BurninRules, Setting, bytes_of, unjudged
from healthcheck.burnin.setting import (
    OF_HOST,
    OF_HOST_MEMORY,
    OF_RANK,
    Measure,
    SkuHardware,
    backend_of,
    measures,
    subject,
    unbound,
)
from healthcheck.burnin.sizes import busbw, without_nvls
from healthcheck.burnin.stagecounters import StageCounters, with_causes
from healthcheck.burnin.stats import LEAST_EQUALS, LEAST_RATIO, slow
from healthcheck.burnin.storagejudge import not_measured, without_shared
from healthcheck.burnin.training import odd_nodes
from inventory.nodeset import natural
from inventory.text import clean, listed

# PairJudge compares pairs, and few runs of all nodes are no equals.
_BY_EQUALS = (BurnInStage.NODE.value, BurnInStage.RAIL.value, BurnInStage.TRAIN.value)
_ALONE = (BurnInStage.ALL.value, BurnInStage.BISECT.value, BurnInStage.SOAK.value)
# What is below this share of the median of equals is no scatter, even of the times of small sizes.
_FAR_BEHIND = 0.25
# Work with several figures, of which a rank may lack some.
_SEVERAL = (TaskKind.RATE, TaskKind.COPY, TaskKind.SIZES)


@dataclass(frozen=True)
class BurnInResults:
    """All that a burn-in measured. `asked` is the work of each node; `missing` says by stage why it was not
    run. `found` are the accusations of isolation and bisection, beside those in the results. `hardware` is by
    SKU. `counters` are of the whole run, `stage_counters` of each stage; `fabric` is of a link burn."""

    places: tuple[Participant, ...]
    results: tuple[TaskResult, ...]
    asked: tuple[tuple[BurnInStage, TaskKind], ...]
    found: tuple[Accusation, ...] = ()
    counters: tuple[CounterGrowth, ...] = ()
    missing: Mapping[BurnInStage, str] = field(default_factory=lambda: MappingProxyType({}))
    hardware: Mapping[str, SkuHardware] = field(default_factory=lambda: MappingProxyType({}))
    stage_counters: tuple[StageCounters, ...] = ()
    fabric: FabricCoverage | None = None


def judge(burnt: BurnInResults, floors: Floors) -> Judgement:
    """The judgement."""
    places = {place.node: place for place in burnt.places}
    rules = floors.rules
    groups: dict[Setting, list[Measure]] = defaultdict(list)
    for one in measures(burnt.results, places, burnt.hardware):
        groups[one.setting].append(one)
    comparable = Counted(setting.learned_from for setting in groups for _ in groups[setting])
    held = tuple(_held(setting, groups[setting], floors, comparable[setting.learned_from])
                 for setting in sorted(groups))
    sampled, odd, apart = clocks(burnt.results), odd_ones(burnt.results), odd_nodes(burnt.results)
    errors = counted(burnt.counters, rules, places, burnt.hardware)
    slows: list[Accusation] = []
    doubts: dict[str, list[str]] = {node: list(reasons) for node, reasons in errors.unknown.items()}
    for of in held:
        group = groups[of.setting]
        equals = [one.name for one in group]
        found = [*_below(of, group), *_behind(of, group, rules.relative.get(of.setting.backend))]
        for name in dict.fromkeys(one.name for one in found if one.object is Object.GPU):
            if why := clock_reason(name, sampled, equals):
                found.append(Accusation(Object.GPU, name, faults.SLOW, why))
        slows += found
        # Single rails are not required: they only narrow an accusation.
        if (not _judged(of) and not rules.accepts(of.setting)
                and of.setting.stage != BurnInStage.RAIL_CONFIRM.value):
            what = unjudged(of.setting.figure, of.setting.learned_from.stage)
            why = f"{what} was not judged: there is no floor, and it was not compared with equals"
            for node in dict.fromkeys(node for one in group for node in one.nodes):
                if why not in (known := doubts.setdefault(node, [])):
                    known.append(why)
        peak = rules.peak(of.setting)
        for one in (one for one in group if peak is not None and one.value > peak):
            why = (f"{of.setting.figure} of {one.name} is {one.value:g}, more than its "
                   f"{'ports carry' if of.setting.through_ports else 'data sheet allows'}")
            for node in one.nodes:
                doubts.setdefault(node, []).append(why)
    for node, why in (*_hidden(held, groups, rules), *_far_behind(held, groups)):
        doubts.setdefault(node, []).append(why)
    jitter, jitter_unjudged = _jitter(burnt.results, rules.jitter)
    named = [*(one for result in burnt.results for one in result.accusations), *burnt.found, *odd.accusations,
             *apart.accusations, *errors.accusations, *_wrong(burnt.results), *slows, *jitter]
    for node, why in not_measured(burnt.results):
        doubts.setdefault(node, []).append(why)
    blamed = {task_of(test) for one in named for test in one.tests_for}
    named += (one for one in _unexplained(burnt.results) if one.name not in blamed)
    accusations = with_causes(merged(without_shared(named, burnt.results), places), burnt.stage_counters,
                              burnt.results)
    _uncovered(burnt.results, rules.coverage, doubts)
    _lacking(burnt.results, doubts)
    _on_cpus(burnt, doubts)
    _far(burnt.results, rules, doubts)
    _not_learned(burnt.results, doubts)
    for what, alone in (("a random product", odd.alone), ("a training", apart.alone)):
        for node, backend in alone.items():
            if unjudged(CHECKSUMS, BurnInStage.NODE.value) not in rules.accept.get(backend, ()):
                doubts.setdefault(node, []).append(f"{what} had no equal to compare with, so it was not "
                                                   "judged")
    return Judgement(outcomes(burnt.places, burnt.results, burnt.asked, burnt.missing, accusations, doubts,
                              {**odd.doubtful, **apart.doubtful}), accusations, held,
                     (*_remarks(held, rules), *without_nvls(burnt.results), *jitter_unjudged,
                      *_untested(burnt.results), *odd.remarks, *errors.remarks),
                     burnt.fabric is None or burnt.fabric.whole)


def _held(setting: Setting, group: Sequence[Measure], floors: Floors, comparable: int) -> JudgedFigure:
    """Judges one group; `comparable` counts its measures in all stages with comparable figures."""
    values = [one.value for one in group]
    few = comparable < LEAST_EQUALS or setting.stage in _ALONE
    equals = not few and _comparable(setting) and floors.rules.relative.get(setting.backend) is not None
    return JudgedFigure(setting, len(values), statistics.median(values), min(values), floors.of(setting),
                        equals)


def _judged(of: JudgedFigure) -> bool:
    """Whether a floor or equals judged the figure."""
    return of.floor is not None or of.equals


def _below(of: JudgedFigure, group: Iterable[Measure]) -> Iterator[Accusation]:
    """Accuses what misses the floor, in at least half of its tests: a single one may be chance."""
    if of.floor is None:
        return
    each: dict[str, list[Measure]] = defaultdict(list)
    for one in group:
        each[one.name].append(one)
    for own in each.values():
        low = [one for one in own if one.value < of.floor.least]
        if low and 2 * len(low) >= len(own):
            often = f", in {len(low)} of {len(own)} tests" if len(own) > 1 else ""
            worst = min(low, key=lambda one: one.value)
            why = f"{_figure(worst)}, floor {of.floor.least:.4g} ({of.floor.origin}: {of.floor.why}){often}"
            fault = faults.SLOW_STORAGE if of.setting.mount else _slow(worst.object)
            yield Accusation(worst.object, worst.name, fault, why, tuple(one.task for one in low),
                             tuple(one.task for one in own if one not in low))


def _behind(of: JudgedFigure, group: Sequence[Measure], least: float | None) -> Iterator[Accusation]:
    """Accuses what is slower than its equals by both rules, by the median of its measures."""
    if of.setting.stage not in _BY_EQUALS or not _comparable(of.setting) or least is None:
        return
    each: dict[str, list[Measure]] = defaultdict(list)
    for one in group:
        each[one.name].append(one)
    values = {name: statistics.median(one.value for one in own) for name, own in each.items()}
    for name, beside in slow(values, ratio=least).items():
        if beside.off:
            own = each[name]
            far = f", z {beside.z:.1f}" if beside.z is not None else ""
            why = (f"{_figure(replace(own[0], value=beside.value))}, {beside.ratio or 0:.0%} of the median "
                   f"of {beside.equals} equals "
                   f"({beside.median or 0:.4g}{far})")
            yield Accusation(own[0].object, name, _slow(own[0].object), why,
                             tuple(dict.fromkeys(one.task for one in own)))


def _hidden(held: Iterable[JudgedFigure], groups: Mapping[Setting, Sequence[Measure]],
            rules: BurninRules) -> Iterator[tuple[str, str]]:
    """The nodes, and why, of what no floor judged and the scatter of its equals hides, or is far too slow for
    its ports though its equals are as well; of pairs only a node that no pair shows to be sound."""
    pools: dict[Setting, dict[str, list[Measure]]] = defaultdict(lambda: defaultdict(list))
    for of in held:
        if (_judged(of) and of.floor is None and not rules.accepts(of.setting)
                and of.setting.stage != BurnInStage.RAIL_CONFIRM.value):
            for one in groups[of.setting]:
                # Pairs of suspects have those of planned rounds as equals.
                pool = of.setting.learned_from if one.object is Object.PAIR else of.setting
                pools[pool][one.name].append(one)
    for setting, each in pools.items():
        values = {name: statistics.median(one.value for one in own) for name, own in each.items()}
        least = rules.least_of_ports(setting)
        whys = {name: f"was not judged: {beside.why}" for name, beside in slow(
            values, ratio=rules.relative[setting.backend] or LEAST_RATIO).items() if beside.off is None}
        whys.update({name: "is less than a quarter of what its ports carry, and no floor says that it may be"
                     for name, value in values.items() if least is not None and value < least})
        seen = {node for name, own in each.items() if name not in whys and len(own[0].nodes) > 1
                for node in own[0].nodes}
        for name in sorted(whys):
            first = replace(each[name][0], value=values[name])
            for node in first.nodes:
                if node not in seen:
                    seen.add(node)
                    yield node, f"{_figure(first)} of {name} in {setting.stage} {whys[name]}"


def _far_behind(held: Iterable[JudgedFigure],
                groups: Mapping[Setting, Sequence[Measure]]) -> Iterator[tuple[str, str]]:
    """The nodes, and why, of what equals may not accuse by and no floor judged, where it is far below what
    equals reach: that a site accepts a size as not judged does not make this sound."""
    seen = set[str]()
    for of in held:
        group = groups[of.setting]
        if (_judged(of) or of.setting.figure != BY_SIZE or of.setting.backend == GLOO
                or of.setting.stage in _ALONE or len(group) < LEAST_EQUALS):
            continue
        for one in group:
            if one.value < _FAR_BEHIND * of.median:
                share = f"{one.value / of.median:.0%} of the median of {len(group)} equals"
                why = (f"{_figure(one)} of {one.name} in {of.setting.stage} is {share}, and no floor says "
                       "that it may be")
                yield from ((node, why) for node in one.nodes if node not in seen)
                seen.update(one.nodes)


def _comparable(setting: Setting) -> bool:
    """Whether equals may accuse by it: not by what CPUs do within a node, as they do other work too; not by
    small sizes of a sweep, whose times scatter by more than the rule allows for; not by storage, as a full
    file system or a disk of another make has another rate."""
    return (setting.figure != BY_SIZE and not setting.mount
            and not (setting.backend == GLOO and setting.stage in _BY_EQUALS))


def _figure(one: Measure) -> str:
    figure = one.setting.figure
    if one.setting.mount:
        return (f"{figure.removesuffix('_gb_s').replace('_', ' ')} of {clean(one.setting.mount, 120)} "
                f"{one.value:.4g} GB/s")
    if figure in OF_HOST_MEMORY:
        return (f"host memory{' of its slowest NUMA node' * (figure != OF_HOST_MEMORY[0])} {one.value:.4g} "
                "GB/s")
    if figure.startswith("tflops_"):
        return f"{figure.removeprefix('tflops_')} product {one.value:.4g} TFLOPS"
    if figure == "train_steps_s":
        return f"training {one.value:.4g} steps a second"
    if figure == BY_SIZE:
        ranks = one.setting.nodes * one.setting.gpus
        # Solved for the time, the definition of the bandwidth has the same form.
        took = f"{busbw(one.setting.size, one.value, ranks) * 1e6:.4g} us"
        return (f"an all-reduce of {bytes_of(one.setting.size)} took {took} ({one.setting.algo}), busbw "
                f"{one.value:.4g} GB/s")
    return f"{figure.removesuffix('_gb_s')} {one.value:.4g} GB/s"


def _slow(object_: Object) -> str:
    return faults.SLOW if object_ in (Object.GPU, Object.NODE) else faults.SLOW_LINK


def _wrong(results: Iterable[TaskResult]) -> Iterator[Accusation]:
    """Accuses GPUs of wrong results of their own; other modules judge exchanged data and nodes."""
    for result in results:
        if result.task.kind.together or result.task.kind.of_node:
            continue
        named = {one.name for one in result.accusations if one.object is Object.GPU}
        for report in result.reports:
            if report.wrong_total and str(report.seat) not in named:
                why = (f"{result.task.kind.value}: {report.wrong_total} wrong "
                       f"element{'s' * (report.wrong_total != 1)}")
                yield Accusation(Object.GPU, str(report.seat), faults.WRONG_DATA, why, (result.task.id,))


def _unexplained(results: Iterable[TaskResult]) -> Iterator[Accusation]:
    """Tasks that were not whole, or had wrong data, and may have no one accused."""
    for result in results:
        task = result.task
        wrong = sum(report.wrong_total for report in result.reports)
        if wrong:
            yield Accusation(Object.UNEXPLAINED, task.id, faults.WRONG_DATA,
                             f"{wrong} wrong elements of unknown origin", (task.id,))
        # An unfinished test of a rail says nothing about the proven node in it.
        elif not result.whole and task.stage is not BurnInStage.RAIL_CONFIRM:
            ends = sorted({report.end.value for report in result.reports} - {"done"}) or ["no report"]
            why = (f"{task.stage.value} {task.kind.value} was not finished ({', '.join(ends)}), and no one "
                   "was named")
            yield Accusation(Object.UNEXPLAINED, task.id, faults.RAISED, why, (task.id,))


def _jitter(results: Iterable[TaskResult],
            limits: Mapping[str, float | None]) -> tuple[list[Accusation], list[str]]:
    """Collectives and training steps of which several are far longer than most, and what is not judged so."""
    found, unjudged = [], set[str]()
    for result in results:
        if result.task.kind not in (TaskKind.ALLREDUCE, TaskKind.TRAIN) or not result.whole:
            continue
        # One rank waits for no one: its all-reduce is a launch of microseconds.
        if result.task.kind is TaskKind.ALLREDUCE and len(result.task.seats) == 1:
            continue
        backend = backend_of(result.reports[0])
        limit = limits.get(backend)
        # The all-reduce of a step includes waiting for others' work.
        of = "step" if result.task.kind is TaskKind.TRAIN else "seconds"
        ratios = [report.figures[f"{of}_often"] / report.figures[f"{of}_p50"] for report in result.reports
                  if report.figures.get(f"{of}_p50", 0) > 0 and report.figures.get(f"{of}_often", 0) > 0]
        if limit is None:
            unjudged.add(backend)
        elif ratios and (ratio := statistics.median(ratios)) > limit:
            object_, name = subject(result.task)
            why = (f"at least {OFTEN} iterations, and {OFTEN_SHARE:.0%} of them, took {ratio:.3g} times the "
                   f"median, allowed {limit:g}")
            found.append(Accusation(object_, name, faults.JITTER, why, (result.task.id,)))
    return found, [f"jitter of {backend} is not judged" for backend in sorted(unjudged)]


def _uncovered(results: Iterable[TaskResult], least: Mapping[str, float | None],
               doubts: dict[str, list[str]]) -> None:
    """Adds ranks that tested too small a share of their memory."""
    for result in results:
        for report in result.reports if result.task.kind is TaskKind.MEMORY else ():
            share, wanted = report.figures.get("memory_share"), least.get(backend_of(report))
            if wanted is not None and report.end is RankEnd.DONE and (share is None or not share >= wanted):
                how = "an unknown part" if share is None else f"{share:.0%}"
                doubts.setdefault(report.seat.node, []).append(
                    f"{how} of the memory of {report.seat} was tested, wanted {wanted:.0%}")


def _lacking(results: Iterable[TaskResult], doubts: dict[str, list[str]]) -> None:
    """Adds nodes with ranks that lack some of the figures which others of equal work and setup have."""
    groups: dict[tuple[object, ...], list[RankReport]] = defaultdict(list)
    for result in results:
        task = result.task
        if task.kind in _SEVERAL and result.whole:
            work = task.kind, task.stage, len(task.seats), tuple(sorted(task.params.items()))
            for report in result.reports:
                groups[work, tuple(report.facts.get(fact, "") for fact in SAME_SETUP)].append(report)
    found: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for equals in groups.values():
        own = [{name for name, value in report.figures.items()
                if value > 0 and (name in OF_RANK or name.startswith(LATENCY))} for report in equals]
        every = set[str]().union(*own)
        for report, names in zip(equals, own, strict=True):
            if names and names != every:
                found[report.seat.node, tuple(sorted(every - names, key=natural))].append(str(report.seat))
    for (node, lacks), seats in found.items():
        what = f"{listed(lacks, limits.NAMES)} of {listed(seats, limits.NODES_NAMED)}"
        doubts.setdefault(node, []).append(f"{what} was not measured, as it was of equals")


def _not_learned(results: Iterable[TaskResult], doubts: dict[str, list[str]]) -> None:
    """Adds nodes whose training did not reduce the loss: it was no training."""
    for result in results:
        for report in result.reports if result.task.kind is TaskKind.TRAIN and result.whole else ():
            first, last = report.figures.get("train_loss_first"), report.figures.get("train_loss")
            if first is None or last is None or not last < first:
                how = ("is not known" if first is None
                       or last is None else f"did not fall ({first:.3g} to {last:.3g})")
                why = f"the loss of the {result.task.stage.value} training {how}"
                if why not in doubts.setdefault(report.seat.node, []):
                    doubts[report.seat.node].append(why)


def _far(results: Iterable[TaskResult], rules: BurninRules, doubts: dict[str, list[str]]) -> None:
    """Adds host copies and host memory that are not judged, as the rank may have used the far socket."""
    kinds = {TaskKind.COPY: (OF_HOST, "host copies", "were"),
             TaskKind.HOST: (OF_HOST_MEMORY[:1], "host memory", "was")}
    for result in results:
        figures, what, were = kinds.get(result.task.kind, ((), "", ""))
        names = {unjudged(figure, BurnInStage.NODE.value) for figure in figures}
        for report in result.reports if figures else ():
            if (why := unbound(report)) and not names <= set(rules.accept.get(backend_of(report), ())):
                doubts.setdefault(report.seat.node,
                                  []).append(f"{what} of {report.seat} {were} not judged: {why}")


def _on_cpus(burnt: BurnInResults, doubts: dict[str, list[str]]) -> None:
    """Adds nodes with GPUs (by SKU) whose ranks worked on CPUs: their GPUs were not measured."""
    skus = {name for name, hardware in burnt.hardware.items() if hardware.gpu}
    with_gpus = {place.node for place in burnt.places if place.sku in skus}
    seats = {report.seat.node: str(report.seat) for result in burnt.results for report in result.reports
             if report.end is RankEnd.DONE and report.seat.node in with_gpus and backend_of(report) == GLOO}
    for node, seat in seats.items():
        doubts.setdefault(node, []).append(f"the rank of {seat} worked on a CPU instead of its GPU")


def _untested(results: Iterable[TaskResult]) -> Iterator[str]:
    """Stages in which only the timed all-reduce was verified, and why."""
    whys: dict[str, set[str]] = {}
    for result in results:
        tested = any(report.figures.get("checks") for report in result.reports)
        if (result.task.kind is TaskKind.ALLREDUCE and result.whole and not tested
                and result.task.stage is not BurnInStage.FABRIC):
            reasons = {report.facts.get("arithmetic_not", "") for report in result.reports}
            whys.setdefault(result.task.stage.value, set()).update(reasons)
    for stage, reasons in whys.items():
        why = "; ".join(sorted(filter(None, reasons))) or "only the timed all-reduce was verified"
        yield f"sums and paths of other collectives were not tested in {stage}: {clean(why, 200)}"


def _remarks(held: Iterable[JudgedFigure], rules: BurninRules) -> Iterator[str]:
    """Figures without a floor, one line for each figure and way of judging it."""
    stages: dict[tuple[str, str], list[str]] = {}
    for of in held:
        if of.floor is None:
            how = ("judged by equals alone" if of.equals else "and it was not compared with equals: not "
                   "judged" + (", which the site's policy accepts" if rules.accepts(of.setting) else ""))
            stages.setdefault((of.setting.figure, how), []).append(of.setting.stage)
    for (figure, how), where in stages.items():
        yield (f"{figure} in {', '.join(dict.fromkeys(where))}: no floor was learned or published for it, "
               f"{how}")
