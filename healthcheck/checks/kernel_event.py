"""Checks of the kernel log's known faults, by the catalogue; `kernel_unusual` judges what is merely unusual.

Each entry says how long its fault counts (`healthcheck.kernellog.ending`): time ends only those that end by
quiet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from healthcheck.baseline.kernelrules import KernelCatalogue
from healthcheck.checks import disk, hca, memory
from healthcheck.checks.base import LONGEST_QUOTE, Findings, check, listed
from healthcheck.facts.kernel import as_dmesg, moment
from healthcheck.facts.kernel_event import KernelEvents
from healthcheck.kernellog.ending import EndKind
from healthcheck.kernellog.fold import LazyDigest
from healthcheck.kernellog.model import CatalogueEntry, KernelEventKind, KernelMessage
from healthcheck.model.outcome import Finding, LogEvidence, Note, Severity


@check("kernel.hardware_error")
def kernel_hardware_error(
    kernel_events: KernelEvents, kernel_catalogue: KernelCatalogue, *, groups: tuple[str, ...],
    everything: bool = False,
) -> Findings:
    """The kernel's log holds no uncorrected hardware error: nothing critical of these files of the catalogue
    (`groups`).

    `everything` reports also what is over, and what another rule (disk-log-*, hca-log*,
    kernel-hardware-corrected) reports.
    """
    yield from _known(kernel_events, kernel_catalogue, Severity.CRITICAL, everything, groups=groups)


@check("kernel.fault")
def kernel_fault(
    kernel_events: KernelEvents, kernel_catalogue: KernelCatalogue, *, but: tuple[str, ...] = (),
    everything: bool = False,
) -> Findings:
    """The kernel's log holds nothing that the catalogue calls critical, in this boot; `but` are files of it
    that another rule judges."""
    yield from _known(kernel_events, kernel_catalogue, Severity.CRITICAL, everything, but=but)


@check("kernel.trouble")
def kernel_trouble(kernel_events: KernelEvents, kernel_catalogue: KernelCatalogue, *,
                   everything: bool = False) -> Findings:
    """The kernel's log holds nothing that the catalogue warns of and that has not ended."""
    yield from _known(kernel_events, kernel_catalogue, Severity.WARNING, everything)


@check("kernel.told")
def kernel_told(kernel_events: KernelEvents, kernel_catalogue: KernelCatalogue, *,
                everything: bool = False) -> Findings:
    """The kernel's log holds nothing that the catalogue only reports and that has not ended."""
    yield from _known(kernel_events, kernel_catalogue, Severity.INFO, everything)


# The files of entries that a reset of GPUs, and with all of them of the switches, ends.
_OF_GPUS = ("nvidia", "nvswitch")
# Lines that other checks report, by device.
_ELSEWHERE = (
    disk.IO_LINES, disk.FILESYSTEM_LINES, disk.RESET_LINES, disk.DEAD_LINES, hca.LOST_LINES, hca.LOOK_LINES,
    hca.MODULE_LINES, hca.REFUSED_LINES, memory.CORRECTED_LINES,
)


def _elsewhere(message: KernelMessage, entry: CatalogueEntry) -> bool:
    """Whether another check reports the event. That of corrected errors only counts them: what is critical in
    a report that begins with one is not its own."""
    by = [pattern for pattern in _ELSEWHERE if pattern.match(message.head)]
    return bool(by) and (entry.severity is not Severity.CRITICAL or by != [memory.CORRECTED_LINES])


def _known(
    events: KernelEvents, catalogue: KernelCatalogue, severity: Severity, everything: bool, *,
    groups: tuple[str, ...] = (), but: tuple[str, ...] = (),
) -> Findings:
    """A finding for each entry that matches the log and has not ended."""
    def asked(entry: CatalogueEntry) -> bool:
        return not (entry.xid or entry.severity is not severity or entry.group in but
                    or (groups and entry.group not in groups) or (entry.ordinary and not everything))

    by_entry: dict[str, tuple[CatalogueEntry, str, list[KernelMessage]]] = {}
    over: list[str] = []
    was_reset: list[str] = []
    digests = [digest for digest in (events.earlier, events.digest) if digest is not None]
    for message in chain.from_iterable(_candidates(digest, catalogue, asked) for digest in digests):
        entry = catalogue.entry(message)
        if entry is None or not asked(entry) or (not everything and _elsewhere(message, entry)):
            continue
        emitter = catalogue.emitter(entry, message)
        if not everything and message.last is not None and entry.ending.over(events.age_hours(message.last)):
            over.append(entry.id)
            continue
        if entry.ending.ends is EndKind.RESET and entry.group in _OF_GPUS and _reset(message, events):
            was_reset.append(entry.id)
            continue
        by_entry.setdefault(entry.id, (entry, emitter, []))[2].append(message)
    for entry, emitter, messages in by_entry.values():
        expected = "harmless: healthy machines write it too" if entry.ordinary else "no such message"
        yield Finding(observed(messages, events.now), expected, entry.id,
                      _sentences(entry.meaning, entry.remedy), entry.owner, entry.repair,
                      tuple(lines_of(messages)), evidence(messages, emitter, str(entry.ending)))
    if was_reset:
        yield Note(f"over, since the GPU was reset: {listed(sorted(set(was_reset)))}")
    if over:
        yield Note(f"over, quiet for long enough: {listed(sorted(set(over)))}")


def _reset(message: KernelMessage, events: KernelEvents) -> bool:
    """Whether root wrote after it that all GPUs were reset, or the one that it names."""
    last = message.last
    return last is not None and any(last <= one.seconds and one.pci in message.head.lower()
                                    for one in events.resets)


def _candidates(digest: LazyDigest, catalogue: KernelCatalogue,
                asked: Callable[[CatalogueEntry], bool]) -> Iterable[KernelMessage]:
    """The messages of a log that may belong to an entry that is asked for."""
    known = catalogue.entries(digest.templates)
    wanted = digest.templates
    if known is not None:
        wanted = frozenset(template for template, entry in known.items() if asked(entry))
    return () if digest.single_lines and not wanted else digest.select_apart(wanted)


def evidence(messages: Sequence[KernelMessage], emitter: str, ends: str = "") -> LogEvidence:
    """The raw values of these messages; of their records the first and the latest come first."""
    first = [message.first for message in messages if message.first is not None]
    last = [message.last for message in messages if message.last is not None]
    newest = sorted(messages, key=lambda message: message.last or 0.0, reverse=True)
    records = dict.fromkeys([*(line.sequence for message in messages for line in message.lines[:1]),
                             *(number for message in newest for number in message.latest),
                             *(line.sequence for message in newest for line in message.lines)])
    return LogEvidence(emitter, ends, sum(message.count for message in messages), min(first, default=None),
                       max(last, default=None), tuple(records))


def observed(messages: Sequence[KernelMessage], now: float) -> str:
    """How often and when, and the first line, which is nearest to the cause. `now` is the uptime in seconds,
    0 where not known."""
    first = min(messages, key=lambda message: (message.first is None, message.first or 0.0))
    count = sum(message.count for message in messages)
    times = "" if count == 1 else f"{count} times, the first "
    lasts = [message.last for message in messages if message.last is not None]
    several = count > 1 and lasts and first.first is not None
    at = "" if first.first is None else moment(first.first, 0.0 if several else now)
    until = f" and the last {moment(max(lasts), now)}" if several else ""
    return f"{times}{at}{until}{': ' if at else ''}{first.head[:LONGEST_QUOTE]}"


def lines_of(messages: Iterable[KernelMessage]) -> Iterator[str]:
    """The lines themselves, as dmesg prints them; of reports of many lines all of the first one's, and the
    heads of the others."""
    reported = False
    for message in messages:
        single = message.kind is KernelEventKind.LINE
        for line in message.lines:
            if single or not reported or line.text == message.head:
                yield as_dmesg(line.seconds, line.text)
        reported = reported or not single


def _sentences(*parts: str) -> str:
    return " ".join(part[0].upper() + part[1:] + ("" if part.endswith((".", "!", "?")) else ".")
                    for part in parts if part)
