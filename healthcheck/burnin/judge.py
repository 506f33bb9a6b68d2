"""Judges a burn-in: figures against floors and equals, products against those of equals, counters against
limits; then node by node.

Pure: results in, a judgement out. Who is dead, late or hung, whose data was wrong and which link is slow was
found out while it ran, and comes as accusations.
"""

from __future__ import annotations

import statistics
from collections import Counter as Counted
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from healthcheck.burnin import faults
from healthcheck.burnin.checksums import odd_ones
from healthcheck.burnin.clocks import clocks, said
from healthcheck.burnin.counters import CounterGrowth, counted
from healthcheck.burnin.floors import Floors
from healthcheck.burnin.judgement import JudgedFigure, Judgement
from healthcheck.burnin.merged import merged, task_of
from healthcheck.burnin.model import (
    Accusation,
    BurnInStage,
    Object,
    Participant,
    RankEnd,
    TaskKind,
    TaskResult,
)
from healthcheck.burnin.nodejudge import outcomes
from healthcheck.burnin.onnode.times import OFTEN, OFTEN_SHARE
from healthcheck.burnin.published import BY_SIZE, CHECKSUMS, GLOO, BurninRules, Setting, bytes_of, unjudged
from healthcheck.burnin.setting import (
    OF_HOST,
    OF_HOST_MEMORY,
    Measure,
    SkuHardware,
    backend_of,
    measures,
    subject,
    unbound,
)
from healthcheck.burnin.sizes import busbw, without_nvls
from healthcheck.burnin.stagecounters import StageCounters, with_causes
from healthcheck.burnin.stats import LEAST_EQUALS, slow
from healthcheck.burnin.storagejudge import not_measured, without_shared
from healthcheck.burnin.training import odd_nodes
from inventory.text import clean

# Pairs are judged against each other by whoever isolates, and few runs of all nodes are no equals.
_BY_EQUALS = (BurnInStage.NODE.value, BurnInStage.RAIL.value, BurnInStage.TRAIN.value)
_ALONE = (BurnInStage.ALL.value, BurnInStage.BISECT.value, BurnInStage.SOAK.value)


@dataclass(frozen=True)
class Burnt:
    """All that a burn-in brought to light.

    `asked` is what each node was to do; `missing` says why a stage was not run, by stage.

    `found` are the accusations of isolation and bisection, beside those in the results. `hardware` is by SKU.
    `counters` were read before and after all of it, `stage_counters` between the stages.
    """

    places: tuple[Participant, ...]
    results: tuple[TaskResult, ...]
    asked: tuple[tuple[BurnInStage, TaskKind], ...]
    found: tuple[Accusation, ...] = ()
    counters: tuple[CounterGrowth, ...] = ()
    missing: Mapping[BurnInStage, str] = field(default_factory=lambda: MappingProxyType({}))
    hardware: Mapping[str, SkuHardware] = field(default_factory=lambda: MappingProxyType({}))
    stage_counters: tuple[StageCounters, ...] = ()


def judge(burnt: Burnt, floors: Floors) -> Judgement:
    """The judgement."""
    places = {place.node: place for place in burnt.places}
    rules = floors.rules
    groups: dict[Setting, list[Measure]] = defaultdict(list)
    for one in measures(burnt.results, places, burnt.hardware):
        groups[one.setting].append(one)
    alike = Counted(setting.learned_from for setting in groups for _ in groups[setting])
    held = tuple(_held(setting, groups[setting], floors, alike[setting.learned_from])
                 for setting in sorted(groups))
    sampled, odd, apart = clocks(burnt.results), odd_ones(burnt.results), odd_nodes(burnt.results)
    errors = counted(burnt.counters, rules, places, burnt.hardware)
    slows: list[Accusation] = []
    doubts: dict[str, list[str]] = {node: list(said_) for node, said_ in errors.unknown.items()}
    for of in held:
        group = groups[of.setting]
        equals = [one.name for one in group]
        found = [*_below(of, group), *_behind(of, group, rules.relative.get(of.setting.backend))]
        for name in dict.fromkeys(one.name for one in found if one.object is Object.GPU):
            if why := said(name, sampled, equals):
                found.append(Accusation(Object.GPU, name, faults.SLOW, why))
        slows += found
        # Rails alone are asked of no one: they only make an accusation narrower.
        if (not _judged(of) and not rules.accepts(of.setting)
                and of.setting.stage != BurnInStage.RAIL_CONFIRM.value):
            what = unjudged(of.setting.figure, of.setting.learned_from.stage)
            why = f"{what} was not judged: there is no floor, and it was not compared with equals"
            for node in dict.fromkeys(node for one in group for node in one.nodes):
                if why not in (known := doubts.setdefault(node, [])):
                    known.append(why)
        peak = rules.peak(of.setting)
        for one in (one for one in group if peak is not None and one.value > peak):
            why = f"{of.setting.figure} of {one.name} is {one.value:g}, more than its data sheet allows"
            for node in one.nodes:
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
    _on_cpus(burnt, doubts)
    _far(burnt.results, rules, doubts)
    _not_learned(burnt.results, doubts)
    for what, alone in (("a random product", odd.alone), ("a training", apart.alone)):
        for node, backend in alone.items():
            if unjudged(CHECKSUMS, BurnInStage.NODE.value) not in rules.accept.get(backend, ()):
                doubts.setdefault(node, []).append(f"{what} had no equal to be compared with, so whether it "
                                                   f"is right was not judged")
    return Judgement(outcomes(burnt.places, burnt.results, burnt.asked, burnt.missing, accusations, doubts,
                              {**odd.doubtful, **apart.doubtful}), accusations, held,
                     (*_remarks(held, rules), *without_nvls(burnt.results), *jitter_unjudged,
                      *_untested(burnt.results), *odd.remarks, *errors.remarks))


def _held(setting: Setting, group: Sequence[Measure], floors: Floors, alike: int) -> JudgedFigure:
    """`alike` is how many there are in all stages whose figures are alike: those of a confirmation are
    compared with all pairs.
    """
    values = [one.value for one in group]
    few = alike < LEAST_EQUALS or setting.stage in _ALONE
    equals = not few and _comparable(setting) and floors.rules.relative.get(setting.backend) is not None
    return JudgedFigure(setting, len(values), statistics.median(values), min(values), floors.of(setting),
                        equals)


def _judged(of: JudgedFigure) -> bool:
    """Whether anything said how good the figure is."""
    return of.floor is not None or of.equals


def _below(of: JudgedFigure, group: Iterable[Measure]) -> Iterator[Accusation]:
    """Who does not reach the floor: in half of its tests, where there are several, for once may be chance."""
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
    """Who is behind its equals by both rules, of several measures by their median."""
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


def _comparable(setting: Setting) -> bool:
    """Whether equals may accuse by it.

    What CPUs do within a node is not what is burnt in, and they do other work, too; paths between nodes are.
    At small sizes the times of a sweep scatter by more than the noise that the rule allows for. Whose file
    system is full, or whose disk is of another make, reads at another rate.
    """
    return (setting.figure != BY_SIZE and not setting.mount
            and not (setting.backend == GLOO and setting.stage in _BY_EQUALS))


def _figure(one: Measure) -> str:
    figure = one.setting.figure
    if one.setting.mount:
        return (f"{figure.removesuffix('_gb_s').replace('_', ' ')} of {clean(one.setting.mount, 120)} "
                f"{one.value:.4g} GB/s")
    if figure in OF_HOST_MEMORY:
        return (f"host memory{' of its slowest NUMA node' * (figure != OF_HOST_MEMORY[0])} {one.value:.4g} "
                f"GB/s")
    if figure.startswith("tflops_"):
        return f"{figure.removeprefix('tflops_')} product {one.value:.4g} TFLOPS"
    if figure == BY_SIZE:
        ranks = one.setting.nodes * one.setting.gpus
        # The definition of the bandwidth has the same form when it is solved for the time.
        took = f"{busbw(one.setting.size, one.value, ranks) * 1e6:.4g} us"
        return (f"an all-reduce of {bytes_of(one.setting.size)} took {took} ({one.setting.algo}), busbw "
                f"{one.value:.4g} GB/s")
    return f"{figure.removesuffix('_gb_s')} {one.value:.4g} GB/s"


def _slow(object_: Object) -> str:
    return faults.SLOW if object_ in (Object.GPU, Object.NODE) else faults.SLOW_LINK


def _wrong(results: Iterable[TaskResult]) -> Iterator[Accusation]:
    """Who was wrong all by itself.

    Of data that ranks exchange, and of what is a node's, others have decided.
    """
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
    """Tasks that were not whole, or had wrong data, and for which nobody may have been named."""
    for result in results:
        task = result.task
        wrong = sum(report.wrong_total for report in result.reports)
        if wrong:
            yield Accusation(Object.UNEXPLAINED, task.id, faults.WRONG_DATA,
                             f"{wrong} wrong elements, and nobody whose they are", (task.id,))
        # A rail's own test that was not finished says nothing of the proven node that it was tried with.
        elif not result.whole and task.stage is not BurnInStage.RAIL_CONFIRM:
            ends = sorted({report.end.value for report in result.reports} - {"done"}) or ["no report"]
            why = (f"{task.stage.value} {task.kind.value} was not finished ({', '.join(ends)}), and nobody "
                   f"was named")
            yield Accusation(Object.UNEXPLAINED, task.id, faults.RAISED, why, (task.id,))


def _jitter(results: Iterable[TaskResult],
            limits: Mapping[str, float | None]) -> tuple[list[Accusation], list[str]]:
    """Collectives, and steps of a training, of which not one but several are far longer than most, as every
    rank sees; and what is not judged so.
    """
    found, unjudged = [], set[str]()
    for result in results:
        if result.task.kind not in (TaskKind.ALLREDUCE, TaskKind.TRAIN) or not result.whole:
            continue
        backend = backend_of(result.reports[0])
        limit = limits.get(backend)
        # The all-reduce of a step waits for others' own work.
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
    """Adds whose memory was not tested over enough of it: the rest was not measured."""
    for result in results:
        for report in result.reports if result.task.kind is TaskKind.MEMORY else ():
            share, wanted = report.figures.get("memory_share"), least.get(backend_of(report))
            if wanted is not None and report.end is RankEnd.DONE and (share is None or not share >= wanted):
                how = "an unknown part" if share is None else f"{share:.0%}"
                doubts.setdefault(report.seat.node, []).append(
                    f"{how} of the memory of {report.seat} was tested, wanted {wanted:.0%}")


def _not_learned(results: Iterable[TaskResult], doubts: dict[str, list[str]]) -> None:
    """Adds whose training did not make the loss fall: it was none."""
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
    """Adds whose copies to, from and in the host's memory cannot be judged, because that may have been on the
    far socket.
    """
    kinds = {TaskKind.COPY: (OF_HOST, "host copies", "were"),
             TaskKind.HOST: (OF_HOST_MEMORY[:1], "host memory", "was")}
    for result in results:
        figures, what, were = kinds.get(result.task.kind, ((), "", ""))
        names = {unjudged(figure, BurnInStage.NODE.value) for figure in figures}
        for report in result.reports if figures else ():
            if (why := unbound(report)) and not names <= set(rules.accept.get(backend_of(report), ())):
                doubts.setdefault(report.seat.node,
                                  []).append(f"{what} of {report.seat} {were} not judged: {why}")


def _on_cpus(burnt: Burnt, doubts: dict[str, list[str]]) -> None:
    """Adds whose ranks worked on CPUs though the node has GPUs, by its SKU: those were not measured."""
    skus = {name for name, hardware in burnt.hardware.items() if hardware.gpu}
    with_gpus = {place.node for place in burnt.places if place.sku in skus}
    seats = {report.seat.node: str(report.seat) for result in burnt.results for report in result.reports
             if report.end is RankEnd.DONE and report.seat.node in with_gpus and backend_of(report) == GLOO}
    for node, seat in seats.items():
        doubts.setdefault(node, []).append(f"the rank of {seat} worked on a CPU, and not on its GPU")


def _untested(results: Iterable[TaskResult]) -> Iterator[str]:
    """In which stages only the timed all-reduce was verified, and why."""
    whys: dict[str, set[str]] = {}
    for result in results:
        tested = any(report.figures.get("checks") for report in result.reports)
        if result.task.kind is TaskKind.ALLREDUCE and result.whole and not tested:
            reasons = {report.facts.get("arithmetic_not", "") for report in result.reports}
            whys.setdefault(result.task.stage.value, set()).update(reasons)
    for stage, said_ in whys.items():
        why = "; ".join(sorted(filter(None, said_))) or "the timed all-reduce alone was verified"
        yield f"sums and paths of other collectives were not tested in {stage}: {clean(why, 200)}"


def _remarks(held: Iterable[JudgedFigure], rules: BurninRules) -> Iterator[str]:
    """What had no floor, once for each figure and way to be judged without."""
    stages: dict[tuple[str, str], list[str]] = {}
    for of in held:
        if of.floor is None:
            how = ("judged by equals alone" if of.equals else "and it was not compared with equals: not "
                   "judged" + (", which the site's policy accepts" if rules.accepts(of.setting) else ""))
            stages.setdefault((of.setting.figure, how), []).append(of.setting.stage)
    for (figure, how), where in stages.items():
        yield (f"{figure} in {', '.join(dict.fromkeys(where))}: no floor was learned or published for it, "
               f"{how}")
