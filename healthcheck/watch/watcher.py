"""Watches one job: takes its lines and its nodes' signals as they come, and says what is found. It knows no
clock: the time is given."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from healthcheck.joblog import ras
from healthcheck.joblog.prefix import short
from healthcheck.watch import hang
from healthcheck.watch.causes import Slowness, cause_of
from healthcheck.watch.groups import Accused, Group, grouped, late_places
from healthcheck.watch.jobwide import JobSeries, JobSpeed
from healthcheck.watch.late import EFFECT, SIGMAS, LateRank, LateWindow, OwnBasis, late_ranks
from healthcheck.watch.model import (
    COMMUNICATION,
    PHASES,
    JobAttempt,
    SlowPattern,
    StepPhase,
    StepWindow,
    WatchFinding,
    WatchLevel,
)
from healthcheck.watch.nvrx import RankScore
from healthcheck.watch.robust import median
from healthcheck.watch.saves import Saves
from healthcheck.watch.signals import NodeSignal
from healthcheck.watch.signalstore import SignalStore
from healthcheck.watch.track import RECENT_LATE, History, LateRun, Tracker, false_accusations, pattern_of
from healthcheck.watch.windows import RankValues, Windows

KEPT_WINDOWS = 20_000
KEPT_FINDINGS = 1_000
_EXPLAINED = 0.5        # share of what the job lost that late ranks explain


@dataclass(frozen=True)
class WatchSettings:
    """How a job is watched. `window_s`: seconds of a window at the job's usual speed."""

    window_s: float = 10.0
    least_steps: int = 5
    effect: float = EFFECT
    sigmas: float = SIGMAS


@dataclass(frozen=True)
class WatchUpdate:
    """What a pass brought: windows that closed, and findings that are new or changed."""

    windows: tuple[StepWindow, ...] = ()
    findings: tuple[WatchFinding, ...] = ()


@dataclass(slots=True)
class _Late:
    """The newest description of a rank that is late, and sums over its windows."""

    rank: LateRank
    windows: int = 0
    excess: float = 0.0
    gc: float = 0.0
    delay: float = 0.0
    faults: float = 0.0
    cpu: float = 0.0
    phases: dict[StepPhase | None, int] = field(default_factory=dict)


class JobWatch:
    """One job. `places` gives the rack or other place of a host."""

    def __init__(self, settings: WatchSettings = WatchSettings(),
                 places: Mapping[str, str] | None = None) -> None:
        self._settings = settings
        self._places = {short(host): place for host, place in (places or {}).items()}
        self.input = Windows(settings.window_s, settings.least_steps)
        self.add, self.add_all = self.input.add, self.input.add_all
        self.signals = SignalStore()
        self.windows: deque[StepWindow] = deque(maxlen=KEPT_WINDOWS)
        self.findings: dict[str, WatchFinding] = {}
        self.scores: dict[int, RankScore] = {}
        self.basis: OwnBasis | None = None
        self.last: LateWindow | None = None
        self.ranks: tuple[int | None, ...] = ()
        self.hosts: tuple[str, ...] = ()
        self._tracker: Tracker[int] = Tracker()
        self._place_tracker: Tracker[str] = Tracker()
        self._history = History()
        self._series = JobSeries()
        self._saves = Saves()
        self._late: dict[int, _Late] = {}
        self._steps: dict[int, tuple[int, float]] = {}      # by window of this attempt: first step, its begin
        self._attempt, self._number = -1, -1
        self.most = 0              # windows of one attempt
        self._cells, self._late_cells = 0, 0
        self._open: dict[str, str] = {}                     # what is going on -> id of its finding
        self._since: dict[str, int] = {}                    # of what slows the job: its first window
        self._heard = 0.0
        self._pauses = [0.0, 0.0]       # the longest, longest first: what happens once is no habit of the job

    @property
    def attempts(self) -> tuple[JobAttempt, ...]:
        """The starts of the job so far."""
        return self.input.attempts.all()

    @property
    def expected_false(self) -> float:
        """How many healthy ranks would be accused in all windows so far, had all that was late in single
        windows been chance (`track.false_accusations`)."""
        q = self._late_cells / self._cells if self._cells else 0.0
        count = max(1, len(self.ranks))
        return false_accusations(q, count, self._cells // count)

    def add_signals(self, signals: Iterable[NodeSignal]) -> None:
        """Takes what nodes say."""
        self.signals.add(signals)

    def add_scores(self, scores: Iterable[RankScore]) -> None:
        """Takes scores of NVIDIA's resiliency extension; the newest of each rank counts."""
        for score in scores:
            known = self.scores.get(score.rank)
            # A warning names the rank alone: what was said of it before holds.
            warned = replace(known, warned=True) if known is not None and score.score is None else score
            self.scores[score.rank] = warned

    def settle(self, now: float, sources: hang.HangSources | None = None, *,
               heard: bool = True) -> WatchUpdate:
        """Closes what is complete, after a pass over all logs at `now` (epoch seconds). `heard`: whether any
        line came in this pass; a job that is silent for long hangs, and `sources` say who did not come."""
        update = self._taken(self.input.settle())
        if heard or not self._heard:
            self._heard = now
            return WatchUpdate(update.windows, (*update.findings, *self._end("hang")))
        if not self.silent(now):
            return update
        before = self.findings.get(self._open.get("hang", ""))
        found = self._hangs(now, sources or hang.HangSources())
        if before is not None and _shown(before) == _shown(found):
            return update
        return WatchUpdate(update.windows, (*update.findings, found))

    @property
    def ended(self) -> float:
        """When the newest step ended, in epoch seconds by the ranks' clocks; 0 before the first."""
        return max((one.ended for one in self.attempts), default=0.0)

    @property
    def judged(self) -> bool:
        """Whether there were windows enough, in one attempt, to accuse anyone."""
        return self.most >= RECENT_LATE

    @property
    def heard(self) -> float:
        """When the newest line came, in epoch seconds by the head's clock; 0 before the first."""
        return self._heard

    def waited_for(self, sources: hang.HangSources) -> hang.HangVerdict:
        """Whom the others wait for, if the job hangs."""
        return hang.who(self.progress, self.host_of, sources, reach=self.reach)

    @property
    def progress(self) -> dict[int, int]:
        """The newest step of each rank that reports in the newest attempt."""
        return {rank: one.step for rank, one in self.input.attempts.ranks.items() if rank is not None
                and one.attempt == self.input.attempts.newest}

    @property
    def host_of(self) -> dict[int, str]:
        """Where each rank runs."""
        return {rank: host for rank, host in zip(self.ranks, self.hosts, strict=True) if rank is not None}

    @property
    def reach(self) -> int:
        """The steps that a rank that still reports can be behind others: its newest line may not be written
        yet, and covers at most a window. 0 until the size of a window is known."""
        return 2 * self.input.per

    def silent(self, now: float) -> bool:
        """Whether no line has come for so long that the job hangs. One that paused twice for minutes and went
        on, as for a checkpoint or an evaluation, may do so again."""
        usual = self._series.usual()
        return usual == usual and hang.hangs(now - self._heard, usual, usual * self.input.per,
                                             self._pauses[-1])

    def finish(self) -> WatchUpdate:
        """Closes all that is left, at the end of finished logs."""
        return self._taken(self.input.finish())

    def hung(self, sources: hang.HangSources) -> WatchUpdate:
        """At the end of finished logs: whether the job hung to its end. Ranks that gave up waiting after its
        last step say so, or an answer of RAS that misses some, long after it."""
        if not self.attempts:
            return WatchUpdate()
        self._heard = ended = self.attempts[-1].ended
        late = sources.ras is not None and self.silent(sources.answered) and bool(ras.missing(sources.ras))
        if not sources.timeouts and not late:
            return WatchUpdate()
        until = max([ended, *(time for time in sources.timeouts if time is not None)])
        return WatchUpdate((), (self._hangs(until, sources),))

    def _taken(self, closed: Iterator[RankValues]) -> WatchUpdate:
        windows: list[StepWindow] = []
        findings: dict[str, WatchFinding] = {}
        before = {id_: _shown(one) for id_, one in self.findings.items()}
        for values in closed:
            window, found = self._window(values)
            windows.append(window)
            findings |= {one.id: one for one in found if before.get(one.id) != _shown(one)}
        return WatchUpdate(tuple(windows), tuple(findings.values()))

    def _window(self, values: RankValues) -> tuple[StepWindow, list[WatchFinding]]:
        found: list[WatchFinding] = []
        if values.attempt != self._attempt:
            found += self._restarted(values.attempt)
        self._number += 1
        self.most = max(self.most, self._number + 1)
        seen = late_ranks(values, self._settings.effect, self._settings.sigmas)
        self.last, self.basis, self.ranks, self.hosts = seen, seen.basis, values.ranks, values.hosts
        began = values.time - seen.seconds * (values.last - values.first + 1)
        self._steps[self._number] = (values.first, began)
        self._steps.pop(self._number - KEPT_WINDOWS, None)
        self._history.add(list(seen.excess))
        self._cells += seen.judged
        self._late_cells += len(seen.late)
        self._paused(values)
        gc = sum(value for value in values.gc if value == value)
        self._series.add(self._number, seen.seconds, seen.phases, gc)
        window = StepWindow(values.attempt, values.first, values.last, values.time, len(seen.slots),
                            seen.seconds, {phase: value for phase, value in
                                           zip(PHASES, seen.phases, strict=True) if value == value},
                            seen.own, seen.worst, seen.gc)
        self.windows.append(window)
        found += self._of_places(values, seen)
        found += self._of_ranks(values, seen)
        found += self._of_saves(values, seen)
        found += self._of_job(values, seen)
        return window, found

    def _paused(self, values: RankValues) -> None:
        """Keeps by how much this window ended later than its steps usually take."""
        before = self.windows[-1] if self.windows else None
        usual = self._series.usual()
        if before is None or before.attempt != values.attempt or usual != usual:
            return
        pause = values.time - before.time - usual * (values.last - before.last)
        self._pauses = sorted([*self._pauses, pause], reverse=True)[:2]

    def _restarted(self, attempt: int) -> list[WatchFinding]:
        """Findings end with the attempt that they are of."""
        self._tracker.clear()
        self._place_tracker.clear()
        self._history.clear()
        self._series.clear()
        self._saves.clear()
        self._late.clear()
        self._steps.clear()
        self._attempt, self._number = attempt, -1
        return [one for what in list(self._open) for one in self._end(what)]

    def _of_ranks(self, values: RankValues, seen: LateWindow) -> list[WatchFinding]:
        for one in seen.late:
            self._noted(one)
        self._tracker.window(self._number, {one.slot: one.excess for one in seen.late})
        for slot in list(self._late):
            if slot not in self._tracker.runs:
                del self._late[slot]
        accused = []
        for slot, run in self._tracker.runs.items():
            if not run.accused:
                continue
            rank, late = values.ranks[slot], self._late[slot]
            place = self._places.get(short(values.hosts[slot]), "")
            if rank is not None and f"place {place}" not in self._open:
                accused.append(Accused(slot, rank, values.hosts[slot], place, late.excess / late.windows))
        groups = grouped(accused, [(values.hosts[slot], self._places.get(short(values.hosts[slot]), ""))
                                   for slot in seen.slots]) if accused else []
        found = [self._of_group(group, values, seen) for group in groups]
        going_on = {group.subject for group in groups}
        for what in [what for what in self._open if what.startswith(("rank ", "host ", "ranks "))]:
            if what not in going_on:
                found += self._end(what)
        return found

    def _noted(self, late: LateRank) -> None:
        one = self._late.setdefault(late.slot, _Late(late))
        one.rank, one.windows = late, one.windows + 1
        one.excess += late.excess
        one.gc += late.of_gc if late.of_gc == late.of_gc else 0.0
        one.delay += late.of_delay if late.of_delay == late.of_delay else 0.0
        one.faults += late.faults if late.faults == late.faults else 0.0
        one.cpu += late.of_cpu if late.of_cpu == late.of_cpu else 0.0
        one.phases[late.phase] = one.phases.get(late.phase, 0) + 1

    def _of_group(self, group: Group, values: RankValues, seen: LateWindow) -> WatchFinding:
        lates = [self._late[one.slot] for one in group.accused]
        runs = [self._tracker.runs[one.slot] for one in group.accused]
        first = min(runs, key=lambda run: run.since)
        worst = max(group.accused, key=lambda one: one.excess)
        pattern = pattern_of(first, self._history.of(worst.slot), self._number)
        votes: dict[StepPhase | None, int] = defaultdict(int)
        for late in lates:
            for phase, count in late.phases.items():
                votes[phase] += count
        phase = max(votes, key=lambda one: votes[one])
        excess = sum(late.excess for late in lates)
        evidence = [self._measured(group, lates, seen)]
        waits = [late.rank.waits for late in lates if late.rank.waits == late.rank.waits]
        if waits and median(waits) < 0:
            evidence.append(f"it waits {-median(waits):.3g} s a step less for others than its peers do")
        if seen.basis is OwnBasis.TOTALS:
            evidence.append("only step times are known, no phases")
        evidence += self._score_words([one.rank for one in group.accused])
        slowness = Slowness(
            group.level, group.hosts, self._begin(first.since), values.time, pattern, phase,
            sum(late.gc for late in lates) / excess, sum(late.delay for late in lates) / excess,
            max(late.faults / late.windows for late in lates), seen.basis is OwnBasis.WAITS,
            sum(late.cpu for late in lates) / excess, worst.excess,
            values.gpus[worst.slot] if group.level is WatchLevel.RANK else "")
        if pattern is SlowPattern.STEADY:
            evidence.append("a rank that has more work than its peers looks the same: give it a role")
        # All wait for it, so that the step without it is shorter; but by step times alone no one waits.
        usual = seen.seconds - (worst.excess if seen.basis is not OwnBasis.TOTALS else 0.0)
        return self._put(group.subject, slowness, group.level, tuple(one.rank for one in group.accused),
                         group.hosts, values, first, worst.excess, usual, tuple(evidence))

    def _measured(self, group: Group, lates: Sequence[_Late], seen: LateWindow) -> str:
        worst = max(lates, key=lambda late: late.excess / late.windows)
        return (f"{worst.excess / worst.windows:.3g} s a step beyond the median of its peers "
                f"({worst.rank.sigmas:.0f} deviations, by {seen.basis.value}) in {worst.windows} windows")

    def _score_words(self, ranks: Sequence[int]) -> list[str]:
        known = [score for rank in ranks if (score := self.scores.get(rank)) is not None]
        return [score.words for score in known if score.low][:4]

    def _of_places(self, values: RankValues, seen: LateWindow) -> list[WatchFinding]:
        if not self._places:
            return []
        of = {slot: self._places.get(short(values.hosts[slot]), "") for slot in seen.slots}
        late = late_places(of, values.hosts, seen)
        self._place_tracker.window(self._number, late)
        found, going_on = [], set()
        for place, run in self._place_tracker.runs.items():
            if not run.accused:
                continue
            slots = [slot for slot, where in of.items() if where == place]
            hosts = tuple(dict.fromkeys(values.hosts[slot] for slot in slots))
            excess = run.total / run.windows
            going_on.add(f"place {place}")
            words = (f"the median of its {len(slots)} ranks is {excess:.3g} s a step beyond that of the "
                     f"other places, in {run.windows} windows",)
            slowness = Slowness(WatchLevel.PLACE, hosts, self._begin(run.since), values.time,
                                SlowPattern.STEADY if run.since <= 1 else SlowPattern.STEP_DOWN, None)
            found.append(self._put(f"place {place}", slowness, WatchLevel.PLACE,
                                   tuple(rank for slot in slots if (rank := values.ranks[slot]) is not None),
                                   hosts, values, run, excess, seen.seconds - excess, words))
        for what in [what for what in self._open if what.startswith("place ") and what not in going_on]:
            found += self._end(what)
        return found

    def _of_saves(self, values: RankValues, seen: LateWindow) -> list[WatchFinding]:
        slow = self._saves.window(self._number, values, seen)
        if slow is None:
            return []
        found, going_on = [], set()
        for one in slow:
            rank = values.ranks[one.slot] if one.slot is not None else None
            if one.slot is not None and (rank is None or f"rank {rank}" in self._open):
                continue        # it is slow as it is
            what = "checkpoints" if one.slot is None else f"checkpoints of rank {rank}"
            hosts = tuple(filter(None, values.hosts[one.slot:one.slot + 1] if one.slot is not None else ()))
            beside = "usually" if one.slot is None else "those of its peers"
            words = (f"a checkpoint takes {one.took:.3g} s, {beside} {one.usual:.3g} s, in {one.windows} "
                     "windows with one",)
            level = WatchLevel.JOB if one.slot is None else WatchLevel.RANK
            slowness = Slowness(
                level, hosts or tuple(dict.fromkeys(filter(None, values.hosts))), self._begin(one.since),
                values.time, SlowPattern.STEADY if one.since <= 1 else SlowPattern.STEP_DOWN,
                StepPhase.CHECKPOINT)
            going_on.add(what)
            run = LateRun(since=one.since, windows=one.windows)
            found.append(self._put(what, slowness, level, (rank,) if rank is not None else (), hosts, values,
                                   run, one.lost, self._series.usual(), words))
        for what in [what for what in self._open if what.startswith("checkpoints") and what not in going_on]:
            found += self._end(what)
        return found

    def _of_job(self, values: RankValues, seen: LateWindow) -> list[WatchFinding]:
        found = []
        start = self._series.slow_start()
        if start is not None:
            found.append(self._of_speed("slow start", start, values, seen))
            found += self._end("slow start")
        speed = self._series.speed()
        if speed is None or self._explained(speed):
            return found + self._end("the job")
        return [*found, self._of_speed("the job", speed, values, seen)]

    def _explained(self, speed: JobSpeed) -> bool:
        """Whether ranks or places that are accused cost the job about as much as it lost."""
        return any(self.findings[id_].lost_s >= _EXPLAINED * speed.lost_s for what, id_ in self._open.items()
                   if what not in ("the job", "hang"))

    def _of_speed(self, what: str, speed: JobSpeed, values: RankValues, seen: LateWindow) -> WatchFinding:
        hosts = tuple(dict.fromkeys(filter(None, values.hosts)))
        words = [f"a step takes {speed.usual_s + speed.lost_s:.3g} s, usually {speed.usual_s:.3g} s"]
        if speed.phase is None and seen.phases[COMMUNICATION] != seen.phases[COMMUNICATION]:
            words.append("with step times alone it is not known which rank the others wait for: each waits "
                         "for the slowest")
        alone = len(seen.slots) - seen.judged
        if alone > 0 and seen.basis is not OwnBasis.TOTALS:
            words.append(f"{alone} of {len(seen.slots)} ranks could not be compared")
        # The series forgets old windows; what goes on began when it was first seen.
        since = self._since[what] = min(speed.since, self._since.get(what, speed.since))
        run = LateRun(since=since, windows=max(1, self._number - since + 1))
        slowness = Slowness(WatchLevel.JOB, hosts, self._begin(since), values.time, speed.pattern,
                            speed.phase, speed.of_gc / speed.lost_s if speed.lost_s > 0 else 0.0)
        return self._put(what, slowness, WatchLevel.JOB, (), (), values, run, speed.lost_s, speed.usual_s,
                         tuple(words))

    def _hangs(self, now: float, sources: hang.HangSources) -> WatchFinding:
        verdict = self.waited_for(sources)
        newest = max((one.step for one in self.input.attempts.ranks.values()
                      if one.attempt == self.input.attempts.newest), default=0)
        id_ = self._open.setdefault("hang", f"{self._attempt}-hang-{newest}")
        what = ", ".join(f"rank {rank}" for rank in verdict.ranks[:4]) or ", ".join(verdict.hosts[:4])
        finding = WatchFinding(
            id_, WatchLevel.RANK if verdict.ranks else WatchLevel.JOB, what or "the job", verdict.ranks,
            verdict.hosts, SlowPattern.HANG, StepPhase.COMMUNICATION if verdict.sure and verdict.ranks
            else None, self._attempt, newest, self._heard, now, 0, now - self._heard, 1.0,
            True, evidence=(f"no line for {now - self._heard:.0f} s" if now > self._heard
                            else "no step after it", *verdict.evidence))
        return self._changed(finding)

    def _put(self, what: str, slowness: Slowness, level: WatchLevel, ranks: tuple[int, ...],
             hosts: tuple[str, ...], values: RankValues, run: LateRun, lost: float, usual: float,
             evidence: tuple[str, ...]) -> WatchFinding:
        since = self._steps.get(run.since, (values.first, values.time))
        id_ = self._open.setdefault(what, f"{self._attempt}-{what.replace(' ', '-')}-{since[0]}")
        finding = WatchFinding(
            id_, level, "the job" if level is WatchLevel.JOB else what, ranks, hosts, slowness.pattern,
            slowness.phase, self._attempt, since[0], since[1], values.time, run.windows, lost,
            lost / usual if usual > 0 else 0.0, True, cause_of(slowness, self.signals), evidence)
        return self._changed(finding)

    def _changed(self, finding: WatchFinding) -> WatchFinding:
        self.findings[finding.id] = finding
        while len(self.findings) > KEPT_FINDINGS:
            gone = next(iter(self.findings))
            del self.findings[gone]
            self._open = {what: id_ for what, id_ in self._open.items() if id_ != gone}
        return finding

    def _end(self, what: str) -> list[WatchFinding]:
        id_ = self._open.pop(what, None)
        self._since.pop(what, None)
        if id_ is None or id_ not in self.findings:
            return []
        self.findings[id_] = replace(self.findings[id_], still=False)
        return [self.findings[id_]]

    def _begin(self, number: int) -> float:
        return self._steps.get(number, (0, 0.0))[1]


def _shown(finding: WatchFinding) -> tuple[object, ...]:
    """What makes a finding worth showing again, where it changes."""
    return (finding.pattern, finding.phase, finding.ranks, finding.verdict.cause, finding.verdict.certainty,
            finding.still)
