"""Checks of the kernel log's events: what the catalogue knows to be bad, and what the baseline of healthy nodes does not hold.

The catalogue goes first: what it knows is never judged by a baseline, whatever that has learned. What is merely new is a warning.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from healthcheck.baseline.book import KernelBaseline, KernelCatalogue
from healthcheck.baseline.masking import nearest
from healthcheck.baseline.model import Baseline, Entry, Known, Phase, Told
from healthcheck.checks import disk, hca, memory
from healthcheck.checks.base import NotJudged, check
from healthcheck.facts.kernel import as_dmesg
from healthcheck.facts.kernel_event import KernelEvents
from healthcheck.outcome import Finding, Note, Severity

Said = Iterator[Finding | Note]

_LONGEST = 200
_BOOTING = (Phase.KERNEL, Phase.INITRD, Phase.SERVICES)
_MOST_NEAREST = 20      # novel templates whose nearest known one is looked for; it is a search through all of them
_ENOUGH_BOOTS = 3


@check("kernel.hardware_error")
def kernel_hardware_error(
    kernel_events: KernelEvents, kernel_catalogue: KernelCatalogue, *, groups: tuple[str, ...], everything: bool = False,
) -> Said:
    """The kernel's log holds no uncorrected hardware error: nothing critical of these files of the catalogue (`groups`).

    `everything` tells also what a rule of its own (disk-log-*, hca-log*, kernel-hardware-corrected) tells of the device.
    """
    yield from _known(kernel_events, kernel_catalogue, Severity.CRITICAL, everything, groups=groups)


@check("kernel.fault")
def kernel_fault(
    kernel_events: KernelEvents, kernel_catalogue: KernelCatalogue, *, but: tuple[str, ...] = (), everything: bool = False,
) -> Said:
    """The kernel's log holds nothing that the catalogue calls critical, in this boot; `but` are files of it that another rule judges."""
    yield from _known(kernel_events, kernel_catalogue, Severity.CRITICAL, everything, but=but)


@check("kernel.trouble")
def kernel_trouble(kernel_events: KernelEvents, kernel_catalogue: KernelCatalogue, *, hours: float, everything: bool = False) -> Said:
    """The kernel's log holds nothing that the catalogue warns of, from the boot or from the last `hours`."""
    yield from _known(kernel_events, kernel_catalogue, Severity.WARNING, everything, hours=hours)


@check("kernel.told")
def kernel_told(kernel_events: KernelEvents, kernel_catalogue: KernelCatalogue, *, hours: float, everything: bool = False) -> Said:
    """The kernel's log holds nothing of which the catalogue wants somebody told, from the boot or from the last `hours`."""
    yield from _known(kernel_events, kernel_catalogue, Severity.INFO, everything, hours=hours)


# What checks of their own tell, by the device.
_ELSEWHERE = (
    disk.IO_LINES, disk.FILESYSTEM_LINES, disk.RESET_LINES, disk.DEAD_LINES, hca.LOST_LINES, hca.LOOK_LINES, hca.MODULE_LINES,
    hca.REFUSED_LINES,
    memory.CORRECTED_LINES,
)


def _known(
    events: KernelEvents, catalogue: KernelCatalogue, severity: Severity, everything: bool, *, groups: tuple[str, ...] = (),
    but: tuple[str, ...] = (), hours: float = math.inf,
) -> Said:
    """A finding for each entry that knows something of the log. What was said while the node booted is true of this boot, however old."""
    def asked(entry: Entry) -> bool:
        return not (entry.xid or entry.severity is not severity or entry.group in but or (groups and entry.group not in groups)
                    or (entry.ordinary and not everything))

    known = catalogue.entries(events.templates)
    wanted = events.templates if known is None else {template for template, entry in known.items() if asked(entry)}
    if events.alone and not wanted:
        return
    by_entry: dict[str, tuple[Entry, list[Told]]] = {}
    old: list[str] = []
    for told in events.digest.of(wanted):
        entry = catalogue.entry(told)
        if entry is None or not asked(entry) or (not everything and any(form.search(told.head) for form in _ELSEWHERE)):
            continue
        if told.phase not in _BOOTING and told.last is not None and events.newest - told.last > hours * 3600:
            old.append(entry.id)
            continue
        by_entry.setdefault(entry.id, (entry, []))[1].append(told)
    for entry, alike in by_entry.values():
        yield Finding(entry.id, _observed(alike), "never", _sentences(entry.meaning, entry.remedy), entry.owner, entry.repair,
                      tuple(_lines(alike)))
    if old:
        yield Note(f"more than {hours:g} h ago: {_few(sorted(set(old)))}")


@check("kernel.novel", peers=True)
def kernel_novel(kernel_events: KernelEvents, kernel_catalogue: KernelCatalogue, kernel_baseline: KernelBaseline) -> Said:
    """The kernel's log holds no event that healthy nodes of this kind have not said before: neither catalogue nor baseline knows it."""
    baseline = _needed(kernel_baseline)
    new = kernel_events.templates - baseline.known.keys()
    held = kernel_events.digest.of(new) if new else ()
    novel = [told for told in held if told.template not in baseline.known and not kernel_catalogue.fault(told)]
    for number, told in enumerate(novel):
        before = baseline.expired.get(told.template)
        near = nearest(told.template, baseline.known) if before is None and number < _MOST_NEAREST else None
        likest = f"; nearest known: {near[:_LONGEST]}" if near else f"; approved once, and last seen {before.last_seen}" if before else ""
        observed = f"{_observed([told])} (while {_WHEN[told.phase]}){likest}"
        yield Finding(told.template[:_LONGEST], observed, "a line that the baseline knows", lines=tuple(_lines([told])))
    yield from _how_fitting(kernel_baseline)


@check("kernel.rate")
def kernel_rate(
    kernel_events: KernelEvents, kernel_catalogue: KernelCatalogue, kernel_baseline: KernelBaseline, *, factor: float, least: int,
) -> Said:
    """Nothing that healthy nodes say now and then is said far more often: `factor` times as often in an hour, and `least` times."""
    baseline = _needed(kernel_baseline)
    for told in kernel_events.digest.told:
        known = baseline.known.get(told.template)
        if known is None or kernel_catalogue.fault(told):
            continue
        usual = max(known.busiest, known.most if told.phase in _BOOTING else 1)
        if told.busiest >= least and told.busiest > factor * usual:
            yield Finding(told.template[:_LONGEST], f"{told.busiest} times in an hour; {_observed([told])}",
                          f"at most {usual} times, as in {baseline.boots} boots of healthy nodes", lines=tuple(_lines([told])))


@check("kernel.missing")
def kernel_missing(kernel_events: KernelEvents, kernel_baseline: KernelBaseline) -> Said:
    """Everything that each healthy boot says was said, as often as each says it: eight adapters up, not seven."""
    baseline = _needed(kernel_baseline)
    if baseline.boots < _ENOUGH_BOOTS:
        raise NotJudged(f"the baseline {baseline.name} is of {baseline.boots} boots; what every boot says takes {_ENOUGH_BOOTS}")
    if not kernel_events.whole or Phase.KERNEL not in kernel_events.digest.began:
        raise NotJudged("the log does not hold the whole boot")
    if Phase.RUNNING not in kernel_events.digest.began:
        raise NotJudged("the node has not yet done booting")
    counts = {told.template: told.count for told in kernel_events.digest.told}
    for template, known in baseline.known.items():
        count = counts.get(template, 0)
        if known.boots == baseline.boots and set(known.phases) <= set(_BOOTING) and count < known.least:
            usual = f"{_times(known)}, as in each healthy boot ({known.example[:_LONGEST]})"
            yield Finding(template[:_LONGEST], f"{count} times", usual)


@check("kernel.order")
def kernel_order(kernel_events: KernelEvents, kernel_baseline: KernelBaseline, *, slack_seconds: float) -> Said:
    """The phases of the boot came in their order, and none of them later than in healthy boots by more than `slack_seconds`."""
    baseline = _needed(kernel_baseline)
    began = kernel_events.digest.began
    if Phase.KERNEL not in began:
        raise NotJudged("the log does not hold the beginning of the boot")
    for phase in (Phase.INITRD, Phase.SERVICES):
        usual = baseline.phases.get(phase)
        if usual is None:
            continue
        if phase not in began:
            if Phase.RUNNING in began:
                yield Finding(f"phase {phase.value}", "not seen", f"{usual[0]:.0f} to {usual[1]:.0f} s after boot")
        elif began[phase] > usual[1] + slack_seconds:
            yield Finding(f"phase {phase.value}", f"{began[phase]:.0f} s after boot", f"at most {usual[1] + slack_seconds:.0f} s")
    came = [phase for phase in (Phase.INITRD, Phase.SERVICES) if phase in began]
    if len(came) == 2 and began[came[0]] > began[came[1]]:
        yield Finding("order of the phases", "services before initrd", "initrd before services")


@check("kernel.baseline")
def kernel_baseline(kernel_events: KernelEvents, kernel_baseline: KernelBaseline) -> Said:
    """There is a baseline for this node's kind, kernel and driver, so that what is new in its log can be told."""
    if kernel_baseline.baseline.known:
        yield Note(kernel_baseline.why)
    else:
        yield Finding(f"baseline {kernel_baseline.baseline.name}", "no template is approved", "at least one")


def _needed(baseline: KernelBaseline) -> Baseline:
    if not baseline.there:
        raise NotJudged(baseline.why)
    return baseline.baseline


_WHEN = {
    Phase.KERNEL: "the kernel started", Phase.INITRD: "in the initial RAM disk", Phase.SERVICES: "services started",
    Phase.RUNNING: "the node was running", Phase.UNKNOWN: "the node was at an unknown point",
}


def _how_fitting(baseline: KernelBaseline) -> Said:
    if not baseline.exact:
        yield Note(baseline.why)


def _observed(alike: Sequence[Told]) -> str:
    """How often and when, and the first line, which is nearest to the cause."""
    first = min(alike, key=lambda told: (told.first is None, told.first or 0.0))
    count = sum(told.count for told in alike)
    times = "" if count == 1 else f"{count} times, the first "
    lasts = [told.last for told in alike if told.last is not None]
    at = "" if first.first is None else f"{first.first:.0f} s after boot"
    until = f" and the last {max(lasts):.0f} s after boot" if count > 1 and lasts and first.first is not None else ""
    return f"{times}{at}{until}{': ' if at else ''}{first.head[:_LONGEST]}"


def _lines(alike: Iterable[Told]) -> Iterator[str]:
    for told in alike:
        for line in told.lines:
            yield as_dmesg(line.seconds, line.text)


def _times(known: Known) -> str:
    return f"{known.least} times" if known.least == known.most else f"{known.least} to {known.most} times"


def _few(words: Sequence[str], most: int = 3) -> str:
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


def _sentences(*parts: str) -> str:
    return " ".join(part[0].upper() + part[1:] + ("" if part.endswith((".", "!", "?")) else ".") for part in parts if part)
