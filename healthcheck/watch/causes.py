"""Why: weighs what nodes say against what step times show. An accusation needs evidence that its alternatives
do not explain as well; where two causes fit equally, the answer is 'cannot tell' with both."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from healthcheck.joblog.prefix import short
from healthcheck.watch.model import (
    CauseVerdict,
    Certainty,
    SlowPattern,
    StepPhase,
    WatchCause,
    WatchLevel,
)
from healthcheck.watch.robust import median
from healthcheck.watch.signals import NodeSignal, SignalKind, gpu_name
from healthcheck.watch.signalstore import SignalStore

_BEYOND = 2.0           # times the median of the other nodes
_AS_BEFORE = 0.7        # a signal that was nearly as high before explains no change
_CLEARLY = 4.0          # times as strong as the next cause, each in parts of what counts
_OWN = 0.5              # share of the excess that a rank's own measurement must explain
_PART = 0.2             # of it that one explains which is then in the way of another
_FAULTS = 5.0           # major page faults a step beyond the peers
_FAULT_S = 0.02         # that one takes at most: a read of a slow disk, twice
_MORE_WORK = 0.1        # of the excess that the rank spends on a CPU: it does more than its peers
_COMMON = 0.5           # share of the finding's hosts that must measure it, where it has several
# States that last as long as what they slow: one that was there for a part of the time only is not the cause.
_LASTING = (SignalKind.THERMAL, SignalKind.POWER_BRAKE, SignalKind.POWER_CAP, SignalKind.CLOCKS,
            SignalKind.PCIE)
_SOMEWHERE = "what was lost was lost on the way: at its link, at that of whom it sends to, or between them"
# What the first brings about by itself: swapping reads disks and stops tasks, collecting garbage wants a CPU.
_BRINGS = {WatchCause.HOST_MEMORY: (WatchCause.STORAGE, WatchCause.CPU),
           WatchCause.GARBAGE_COLLECTION: (WatchCause.CPU,), WatchCause.STORAGE: (WatchCause.DATA_LOADING,)}


@dataclass(frozen=True)
class Slowness:
    """What is to be explained: who, since when (epoch seconds, by the job's clock) and until when, in which
    phase. `of_gc`, `of_delay` (shares of the excess) and `faults` (a step) are what the ranks measured
    themselves, beyond their peers; `of_cpu` is the share in which they run on a CPU more than those (0 where
    not measured), and `excess_s` all of it (seconds a step). `waits_known`: they time communication apart.
    `gpu` is the GPU of a single rank, empty where it is not known."""

    level: WatchLevel
    hosts: Collection[str]
    since: float
    until: float
    pattern: SlowPattern
    phase: StepPhase | None
    of_gc: float = 0.0
    of_delay: float = 0.0
    faults: float = 0.0
    waits_known: bool = False
    of_cpu: float = 0.0
    excess_s: float = 0.0
    gpu: str = ""


def cause_of(slowness: Slowness, store: SignalStore) -> CauseVerdict:
    """Why, as far as is known."""
    found = _by_signals(slowness, store)
    if slowness.level is WatchLevel.JOB:
        found = _of_most(slowness, store) or found
    _own_measurements(slowness, found)
    for cause in list(found):
        for brought in _BRINGS.get(cause, ()):
            found.pop(brought, None)
    ranked = sorted(found.items(), key=lambda one: -one[1].strength)
    clear = len(ranked) == 1 or (ranked and ranked[0][1].strength >= _CLEARLY * ranked[1][1].strength)
    if clear and not any(case.blocks for _, case in ranked[1:]) and not ranked[0][1].weak:
        cause, case = ranked[0]
        rivals = tuple(one for one, _ in ranked[1:])
        if case.kinds and all(kind.of_path for kind in case.kinds):
            return CauseVerdict(cause, Certainty.POSSIBLE, (*case.words, _SOMEWHERE), rivals)
        return CauseVerdict(cause, Certainty.LIKELY, tuple(case.words), rivals, case.worst())
    if ranked:
        words = tuple(word for _, case in ranked for word in case.words)
        return CauseVerdict(WatchCause.UNKNOWN, Certainty.NONE, words, tuple(one for one, _ in ranked))
    return _by_phase(slowness, store)


@dataclass
class _Case:
    """What speaks for a cause: its strongest signal in parts of what counts, and all in words. `blocks`: it
    explains so much that no other is the cause alone; `weak`: it is none by itself."""

    strength: float = 0.0
    blocks: bool = False
    weak: bool = False
    words: list[str] = field(default_factory=list)
    kinds: set[SignalKind] = field(default_factory=set)
    hosts: dict[str, float] = field(default_factory=dict)

    def worst(self) -> tuple[str, ...]:
        """The hosts whose own measurements speak for it about as strongly as any."""
        most = max(self.hosts.values(), default=0.0)
        return tuple(host for host, strength in self.hosts.items() if _CLEARLY * strength > most)


def _by_signals(slowness: Slowness, store: SignalStore) -> dict[WatchCause, _Case]:
    found: dict[WatchCause, _Case] = defaultdict(_Case)
    for kind in store.kinds():
        if not _fits(kind, slowness):
            continue
        strongest = _strongest(kind, dict.fromkeys(map(short, slowness.hosts)), slowness, store)
        if strongest is None or strongest.value < kind.least:
            continue
        # What slows the whole job may come from one node, which then stands out from all others.
        own = ({short(strongest.host)} if slowness.level is WatchLevel.JOB
               else {short(host) for host in slowness.hosts})
        others = [host for host in store.hosts if host not in own]
        usual = median([_most(store.of(kind, host, slowness.since, slowness.until)) for host in others])
        if usual == usual and strongest.value < max(_BEYOND * usual, usual + kind.least):
            continue
        if _shared_in_host(strongest, slowness, store):
            continue
        earlier = store.before(kind, short(strongest.host), slowness.since)
        before = _most([one for one in earlier if _own_gpu(one, slowness)])
        if slowness.pattern is not SlowPattern.STEADY and before >= _AS_BEFORE * strongest.value:
            continue
        having = [host for host in slowness.hosts if _most(store.of(
            kind, short(host), slowness.since, slowness.until)) >= kind.least]
        if slowness.level is WatchLevel.PLACE and len(having) < _COMMON * sum(
                short(host) in store.hosts for host in slowness.hosts):
            continue
        if kind in _LASTING and not _lasts(kind, strongest, slowness, store):
            continue
        case = found[kind.cause]
        strength = strongest.value / kind.least
        case.strength = max(case.strength, strength)
        if not kind.of_path:
            for host in (strongest.host, *(having if slowness.level is WatchLevel.PLACE else ())):
                case.hosts[host] = max(case.hosts.get(host, 0.0), strength)
        top = _top(kind, others, slowness, store) if others else ""
        beside = f", {len(others)} other nodes at most {top}" if others else ""
        part = f" ({strongest.part})" if strongest.part else ""
        which = ("; which GPU is the rank's is not known" if strongest.gpu and not slowness.gpu
                 and slowness.level is WatchLevel.RANK else "")
        case.words.append(f"{strongest.host}{part}: {kind.shown(strongest.value)}"
                          f"{f', {strongest.beside}' if strongest.beside else ''}{beside}{which}")
        case.kinds.add(kind)
    _of_clocks(found)
    return dict(found)


def _lasts(kind: SignalKind, strongest: NodeSignal, slowness: Slowness, store: SignalStore) -> bool:
    """Whether it was measured for at least half of the time of a slowness that does not come and go."""
    if slowness.pattern is SlowPattern.OSCILLATION:
        return True
    spans = [(min(one.until, slowness.until) - max(one.since, slowness.since), one.value >= kind.least)
             for one in store.of(kind, short(strongest.host), slowness.since, slowness.until)
             if (one.part, one.gpu) == (strongest.part, strongest.gpu)]
    return 2 * sum(span for span, there in spans if there) >= sum(span for span, _ in spans)


def _of_most(slowness: Slowness, store: SignalStore) -> dict[WatchCause, _Case]:
    """What most nodes measure since the whole job is slow, and did not before."""
    found: dict[WatchCause, _Case] = defaultdict(_Case)
    for kind in store.kinds():
        if slowness.phase is not None and slowness.phase not in kind.phases:
            continue
        now = {host: _most(store.of(kind, host, slowness.since, slowness.until)) for host in store.hosts}
        before = {host: max((one.value for one in store.before(kind, host, slowness.since)), default=None)
                  for host in store.hosts}
        grown = [host for host, value in now.items() if value >= kind.least
                 and (then := before[host]) is not None and then < _AS_BEFORE * value]
        if len(grown) < 2 or len(grown) <= _COMMON * len(now):
            continue
        usual = median([now[host] for host in grown])
        case = found[kind.cause]
        case.strength = max(case.strength, usual / kind.least)
        if not kind.of_path:
            case.hosts |= {host: now[host] / kind.least for host in grown}
        case.kinds.add(kind)
        earlier = kind.shown(median([before[host] or 0.0 for host in grown])).rpartition(": ")[2]
        case.words.append(f"{len(grown)} of {len(now)} nodes: {kind.shown(usual)} in the median, before "
                          f"{earlier}")
    return dict(found)


def _of_clocks(found: dict[WatchCause, _Case]) -> None:
    """Low clocks are what a slowdown does, for heat as well; alone they say no reason."""
    power, heat = found.get(WatchCause.POWER), found.get(WatchCause.THERMAL)
    if power is None or power.kinds != {SignalKind.CLOCKS}:
        return
    if heat is None:
        power.weak = True
    else:
        heat.words += power.words
        del found[WatchCause.POWER]


def _own_gpu(one: NodeSignal, slowness: Slowness) -> bool:
    """Whether the signal may be of the rank's own GPU, or is of none."""
    return not one.gpu or not slowness.gpu or gpu_name(slowness.gpu) in one.gpu


def _shared_in_host(strongest: NodeSignal, slowness: Slowness, store: SignalStore) -> bool:
    """Whether the other GPUs of the host measure about as much as the rank's own: then it explains no rank
    that is slower than those of its host."""
    if not strongest.gpu or not slowness.gpu:
        return False
    others = [one for one in store.of(strongest.kind, short(strongest.host), slowness.since, slowness.until)
              if one.gpu and one.gpu != strongest.gpu]
    parts = {one.part: one.value for one in others}
    usual = median(list(parts.values()))
    return usual == usual and usual >= _AS_BEFORE * strongest.value


def _fits(kind: SignalKind, slowness: Slowness) -> bool:
    """Whether the signal can slow that phase. Where ranks do not time communication, it hides in other
    phases; where they do, a link slows no rank's own work. Of the whole job only what ranks share is slow."""
    network = StepPhase.COMMUNICATION in kind.phases
    if slowness.level is WatchLevel.JOB and not network \
            and kind.cause not in (WatchCause.STORAGE, WatchCause.HOST_MEMORY):
        return False
    if network and slowness.level is not WatchLevel.JOB:
        return not slowness.waits_known
    return slowness.phase is None or slowness.phase in kind.phases


def _strongest(kind: SignalKind, hosts: Collection[str], slowness: Slowness,
               store: SignalStore) -> NodeSignal | None:
    signals = [one for host in hosts for one in store.of(kind, host, slowness.since, slowness.until)
               if _own_gpu(one, slowness)]
    return max(signals, key=lambda one: one.value, default=None)


def _most(signals: Sequence[NodeSignal]) -> float:
    return max((one.value for one in signals), default=0.0)


def _top(kind: SignalKind, hosts: Sequence[str], slowness: Slowness, store: SignalStore) -> str:
    most = max((_most(store.of(kind, host, slowness.since, slowness.until)) for host in hosts), default=0.0)
    return f"{100 * most:.3g} %" if kind.unit == "%" else f"{most:.3g}"


def _own_measurements(slowness: Slowness, found: dict[WatchCause, _Case]) -> None:
    """What ranks measured of themselves in their own process: nothing else explains those seconds."""
    measured: Mapping[WatchCause, tuple[float, float, str]] = {
        WatchCause.GARBAGE_COLLECTION: (slowness.of_gc, _OWN, "in Python's garbage collector"),
        WatchCause.CPU: (slowness.of_delay, _OWN, "waiting for a CPU, by the rank's own count"),
    }
    for cause, (share, least, words) in measured.items():
        if share >= min(least, _PART):
            case = found.setdefault(cause, _Case())
            case.words.append(f"{100 * min(share, 1.0):.0f} % of the lost time is {words}")
            case.blocks, enough = True, share >= least
            case.weak = not enough and not case.strength
            if cause is WatchCause.CPU and slowness.of_cpu >= _MORE_WORK:
                # Who has more to do waits longer in the same crowd.
                case.words.append(f"it also runs on a CPU for {100 * min(slowness.of_cpu, 1.0):.0f} % of it "
                                  "more than its peers: it has more work to do")
                enough, case.weak = False, True
            case.strength = max(case.strength, 10 * share / least if enough else 0.0)
    if slowness.faults >= max(_FAULTS, _OWN * slowness.excess_s / _FAULT_S):
        case = found.setdefault(WatchCause.HOST_MEMORY, _Case())
        case.strength = max(case.strength, 2 * slowness.faults / _FAULTS)
        case.words.append(f"{slowness.faults:.3g} major page faults a step more than its peers")


def _by_phase(slowness: Slowness, store: SignalStore) -> CauseVerdict:
    """Without a signal that stands out, the phase alone."""
    heard = {short(host) for host in slowness.hosts} & set(store.hosts)
    beside = ("no measurement of the node stands out" if heard else "nothing is measured of the node")
    if slowness.phase is StepPhase.DATA:
        return CauseVerdict(WatchCause.DATA_LOADING, Certainty.POSSIBLE,
                            ("the time is lost while it waits for data", beside), (WatchCause.STORAGE,))
    if slowness.phase is StepPhase.CHECKPOINT:
        return CauseVerdict(WatchCause.STORAGE, Certainty.POSSIBLE,
                            ("the time is lost while it writes checkpoints", beside))
    return CauseVerdict(evidence=(beside,))
