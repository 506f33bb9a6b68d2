"""Checks of what is unusual in the kernel's log, by the baseline of healthy nodes; none of it isolates a
node.

Unusual things inform. They warn (kernel.suspect) only when an earlier snapshot or boot had them too, and
there is a reason to spend a person's time: the line's level or words report trouble, or every one of many
healthy boots has the missing line. `kernel_event` judges what the catalogue knows, whatever a baseline has
learned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from healthcheck.baseline.flags import WORST_PRIORITY, trouble
from healthcheck.baseline.kernelrules import KernelBaseline, KernelCatalogue
from healthcheck.checks.base import LONGEST_QUOTE, Findings, NotJudged, check
from healthcheck.checks.kernel_event import evidence, lines_of, observed
from healthcheck.facts.kernel import moment
from healthcheck.facts.kernel_event import KernelEvents
from healthcheck.facts.seen_before import SeenBefore, fingerprint
from healthcheck.kernellog.masking import nearest
from healthcheck.kernellog.model import Baseline, KernelMessage, KnownTemplate, Phase
from healthcheck.model.outcome import Finding, LogEvidence, Note

_BOOTING = (Phase.KERNEL, Phase.INITRD, Phase.SERVICES)
_MOST_NEAREST = 20      # novel templates whose nearest known one is searched, which goes through all of them
_ENOUGH_BOOTS = 3
_MANY_BOOTS = 10        # if each of so many has a line, its absence is worth a person's time
_NO_EMITTER = LogEvidence("")      # evidence that isolates no node, since its emitter is not known


class _Unusual(NamedTuple):
    """A finding, and why it would be worth a person's time if it repeats; empty where it would not."""

    finding: Finding
    why: str


@check("kernel.novel", peers=True)
def kernel_novel(
    kernel_events: KernelEvents, kernel_catalogue: KernelCatalogue, kernel_baseline: KernelBaseline,
    seen_before: SeenBefore,
) -> Findings:
    """The kernel's log holds no event that is new for healthy nodes of this kind, unknown to both catalogue
    and baseline."""
    baseline = _needed(kernel_baseline)
    yield from _informs(_novel(kernel_events, kernel_catalogue, baseline), seen_before)
    waiting = sum(1 for template in kernel_events.templates - baseline.known.keys()
                  if _quiet(baseline.proposed.get(template)))
    if waiting:
        yield Note(f"{waiting} lines were learned and wait for approval: muster baseline review")
    if not kernel_baseline.exact:
        yield Note(kernel_baseline.why)


@check("kernel.rate")
def kernel_rate(
    kernel_events: KernelEvents, kernel_catalogue: KernelCatalogue, kernel_baseline: KernelBaseline,
    seen_before: SeenBefore, *,
    factor: float, least: int,
) -> Findings:
    """No line of healthy nodes comes far more often than on them: `factor` times as often in an hour, and
    `least` times."""
    yield from _informs(_rate(kernel_events, kernel_catalogue, _needed(kernel_baseline), factor, least),
                        seen_before)


@check("kernel.missing")
def kernel_missing(kernel_events: KernelEvents, kernel_baseline: KernelBaseline,
                   seen_before: SeenBefore) -> Findings:
    """Every line of each healthy boot is there, as often as in each: eight adapters up, not seven."""
    baseline = _needed(kernel_baseline)
    if (why := _unjudged(kernel_events, baseline)) is not None:
        raise NotJudged(why)
    yield from _informs(_missing(kernel_events, baseline), seen_before)


@check("kernel.order")
def kernel_order(kernel_events: KernelEvents, kernel_baseline: KernelBaseline, seen_before: SeenBefore, *,
                 slack_seconds: float) -> Findings:
    """The phases of the boot came in their order, and none of them later than in healthy boots by more than
    `slack_seconds`."""
    baseline = _needed(kernel_baseline)
    if Phase.KERNEL not in kernel_events.digest.began:
        raise NotJudged("the log does not hold the beginning of the boot")
    yield from _informs(_order(kernel_events, baseline, slack_seconds), seen_before)


@check("kernel.suspect")
def kernel_suspect(
    kernel_events: KernelEvents, kernel_catalogue: KernelCatalogue, kernel_baseline: KernelBaseline,
    seen_before: SeenBefore, *,
    factor: float, least: int, slack_seconds: float,
) -> Findings:
    """Nothing unusual that reports trouble was in the log of an earlier snapshot or boot and still is. The
    numbers are those of kernel.rate and kernel.order."""
    baseline = _needed(kernel_baseline)
    if not seen_before.fingerprints:
        return
    kinds: tuple[Callable[[], Iterator[_Unusual]], ...] = (
        lambda: _novel(kernel_events, kernel_catalogue, baseline),
        lambda: _rate(kernel_events, kernel_catalogue, baseline, factor, least),
        lambda: iter(())
        if _unjudged(kernel_events, baseline) is not None else _missing(kernel_events, baseline),
        lambda: _order(kernel_events, baseline, slack_seconds),
    )
    for found in (one for kind in kinds for one in kind() if _again(one, seen_before)):
        yield Finding(f"seen before, and {found.why}: {found.finding.observed}", found.finding.expected,
                      found.finding.subject, lines=found.finding.lines, log=found.finding.log)


@check("kernel.baseline")
def kernel_baseline(kernel_events: KernelEvents, kernel_baseline: KernelBaseline) -> Findings:
    """There is a baseline for this node's kind, kernel and driver, so that new lines in its log are found."""
    if kernel_baseline.baseline.known:
        yield Note(kernel_baseline.why)
    else:
        yield Finding("no template is approved", "at least one", f"baseline {kernel_baseline.baseline.name}")


def _informs(found: Iterator[_Unusual], seen_before: SeenBefore) -> Iterator[Finding]:
    """The findings that kernel.suspect does not warn of."""
    return (one.finding for one in found if not _again(one, seen_before))


def _again(one: _Unusual, seen_before: SeenBefore) -> bool:
    return bool(one.why) and fingerprint(one.finding.subject) in seen_before.fingerprints


def _novel(events: KernelEvents, catalogue: KernelCatalogue, baseline: Baseline) -> Iterator[_Unusual]:
    new = {template for template in events.templates - baseline.known.keys()
           if not _quiet(baseline.proposed.get(template))}
    held = events.digest.select(new) if new else ()
    novel = [message for message in held if message.template not in baseline.known
             and not _quiet(baseline.proposed.get(message.template)) and not catalogue.fault(message)]
    for number, message in enumerate(novel):
        proposed = baseline.proposed.get(message.template)
        seen_before = (f"{observed([message], events.now)} (while "
                       f"{_WHEN[message.phase]}){_known_as(message, baseline, proposed, number)}")
        finding = Finding(seen_before, "a line that the baseline knows", _subject(message.template),
                          lines=tuple(lines_of([message])), log=evidence([message], ""))
        # A line of several healthy boots of the baseline waits for a person's approval, but is not
        # suspicious.
        yield _Unusual(finding, _says_trouble(message) if proposed is None or proposed.boots == 1 else "")


def _quiet(proposed: KnownTemplate | None) -> bool:
    """Whether it was learned and only waits for approval: nothing in it reports trouble."""
    return (proposed is not None and trouble(proposed.template) is None
            and (proposed.priority is None or proposed.priority > WORST_PRIORITY))


def _says_trouble(message: KernelMessage) -> str:
    levels = [line.priority for line in message.lines if line.priority is not None]
    word = trouble(message.template)
    if levels and min(levels) <= WORST_PRIORITY:
        return f"its level is {_LEVELS[min(levels)]}"
    return f"it says '{word}'" if word is not None else ""


def _known_as(message: KernelMessage, baseline: Baseline, proposed: KnownTemplate | None, number: int) -> str:
    if proposed is not None:
        return (f"; learned in {proposed.boots} of {baseline.boots} boots, and not approved (muster baseline "
                "review)")
    before = baseline.expired.get(message.template)
    if before is not None:
        return f"; approved once, and last seen {before.last_seen}"
    near = nearest(message.template, baseline.known) if number < _MOST_NEAREST else None
    return f"; nearest known: {near[:LONGEST_QUOTE]}" if near else ""


def _rate(events: KernelEvents, catalogue: KernelCatalogue, baseline: Baseline, factor: float,
          least: int) -> Iterator[_Unusual]:
    for message in events.digest.messages:
        known = baseline.known.get(message.template)
        if known is None or message.busiest < least or catalogue.fault(message):
            continue
        usual = max(known.busiest, known.most if message.phase in _BOOTING else 1)
        if message.busiest > factor * usual:
            finding = Finding(f"{message.busiest} times in an hour; {observed([message], events.now)}",
                              f"at most {usual} times, as in {baseline.boots} boots of healthy nodes",
                              _subject(message.template), lines=tuple(lines_of([message])),
                              log=evidence([message], ""))
            yield _Unusual(finding, "a device that logs so often is mostly failing")


def _unjudged(events: KernelEvents, baseline: Baseline) -> str | None:
    """Why this log cannot be judged for missing lines."""
    if baseline.boots < _ENOUGH_BOOTS:
        return (f"the baseline {baseline.name} is of {baseline.boots} boots; what every boot says takes "
                f"{_ENOUGH_BOOTS}")
    if not events.whole or Phase.KERNEL not in events.digest.began:
        return "the log does not hold the whole boot"
    return None if Phase.RUNNING in events.digest.began else "the node has not finished booting"


def _missing(events: KernelEvents, baseline: Baseline) -> Iterator[_Unusual]:
    counts = {message.template: message.count for message in events.digest.messages}
    for template, known in baseline.known.items():
        count = counts.get(template, 0)
        if known.boots == baseline.boots and set(known.phases) <= set(_BOOTING) and count < known.least:
            finding = Finding(f"{count} times", f"{_times(known)}, as in each healthy boot "
                              f"({known.example[:LONGEST_QUOTE]})", _subject(template), log=_NO_EMITTER)
            sure = known.least == known.most and baseline.boots >= _MANY_BOOTS
            yield _Unusual(finding, f"each of {baseline.boots} healthy boots says it {known.least} times"
                           if sure else "")


def _order(events: KernelEvents, baseline: Baseline, slack_seconds: float) -> Iterator[_Unusual]:
    began = events.digest.began
    if Phase.KERNEL not in began:
        return
    for phase in (Phase.INITRD, Phase.SERVICES):
        usual = baseline.phases.get(phase)
        if usual is None:
            continue
        if phase not in began:
            if Phase.RUNNING in began:
                yield _Unusual(Finding("not seen", f"{usual[0]:.0f} to {usual[1]:.0f} s after boot",
                                       f"phase {phase.value}", log=_NO_EMITTER), "")
        elif began[phase] > usual[1] + slack_seconds:
            late = Finding(moment(began[phase], 0.0), f"at most {usual[1] + slack_seconds:.0f} s after boot",
                           f"phase {phase.value}", log=_NO_EMITTER)
            yield _Unusual(late, "a boot that takes so long waits for something that is missing")
    came = [phase for phase in (Phase.INITRD, Phase.SERVICES) if phase in began]
    if len(came) == 2 and began[came[0]] > began[came[1]]:
        yield _Unusual(Finding("services before initrd", "initrd before services", "order of the phases",
                               log=_NO_EMITTER), "")


def _subject(template: str) -> str:
    """A template as findings name it; a long one by its beginning and fingerprint."""
    return (template if len(template) <= LONGEST_QUOTE
            else f"{template[:LONGEST_QUOTE - 20]} ({fingerprint(template)})")


def _needed(baseline: KernelBaseline) -> Baseline:
    if not baseline.there:
        raise NotJudged(baseline.why)
    return baseline.baseline


_LEVELS = ("emergency", "alert", "critical", "error")
_WHEN = {
    Phase.KERNEL: "the kernel started", Phase.INITRD: "in the initial RAM disk",
    Phase.SERVICES: "services started",
    Phase.RUNNING: "the node was running", Phase.UNKNOWN: "the node was at an unknown point",
}


def _times(known: KnownTemplate) -> str:
    return f"{known.least} times" if known.least == known.most else f"{known.least} to {known.most} times"
