"""Reads the entries of a baseline's file exactly as `file.dump` writes them, ten times as fast as YAML. What
differs in any way gives None: the file is then read as YAML, which names the mistake and its place."""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Mapping

from healthcheck.baseline.file import unescaped
from healthcheck.kernellog.model import Baseline, KernelEventKind, KnownTemplate, Phase

_TEXT = "'([^'\n]*(?:''[^'\n]*)*)'"
_NUMBER = "(0|[1-9][0-9]{0,11})"
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_ENTRY = re.compile(
    f"- template: {_TEXT}\n  phases: \\[([a-z, ]*)\\]\n  nodes: (all|[1-9][0-9]{{0,11}})\n"
    f"(?:  on: {_TEXT}\n)?  boots: (all|[1-9][0-9]{{0,11}})\n  times: {_NUMBER}-{_NUMBER}\n"
    f"(?:  busiest: {_NUMBER}\n)?(?:  priority: ([0-7])\n)?(?:  kind: ([a-z]+)\n)?  first_seen: ({_DATE})\n"
    f"  last_seen: (last|{_DATE})\n(?:  unseen: {_NUMBER}\n)?(?:  by: {_TEXT}\n)?(?:  why: {_TEXT}\n)?"
    f"(?:  flags: \\[((?:'[a-z0-9 -]*'(?:, )?)*)\\]\n)?  example: {_TEXT}\n")
_UNPRINTABLE = re.compile(
    "[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_APPROVED = re.compile(r"^approved:(?: \[\])?\n", re.MULTILINE)
_PROPOSED = re.compile(r"proposed:(?: \[\])?\n")
_PHASES = {phase.value: phase for phase in Phase}
_KINDS = {kind.value: kind for kind in KernelEventKind}


def split(text: str) -> tuple[str, str] | None:
    """The text before the approved entries, and the rest; None for another format."""
    begins = _APPROVED.search(text)
    return (None if begins is None or _UNPRINTABLE.search(text)
            else (text[:begins.start()], text[begins.start():]))


def entries(
    text: str, held: Baseline,
) -> tuple[Mapping[str, KnownTemplate], Mapping[str, KnownTemplate]] | None:
    """Approved and proposed entries of the rest that `split` gave; `held` counts all nodes and boots."""
    known: dict[str, KnownTemplate] = {}
    proposed: dict[str, KnownTemplate] = {}
    begins = _APPROVED.match(text)
    at = begins.end() if begins else len(text)
    into = known
    while at < len(text):
        match = _ENTRY.match(text, at)
        if match is None:
            begins = _PROPOSED.match(text, at) if into is known else None
            if begins is None:
                return None
            into, at = proposed, begins.end()
            continue
        one = _known(match.groups(), held, approved=into is known)
        if one is None or one.template in known or one.template in proposed:
            return None
        into[one.template] = one
        at = match.end()
    return (known, proposed) if into is proposed else None


def _known(given: tuple[str | None, ...], held: Baseline, *, approved: bool) -> KnownTemplate | None:
    (template, phases, nodes, on, boots, least, most, busiest, priority, kind, first, last, unseen, by, why,
     flags, example) = given
    phases_read, times = _phases(phases or ""), (int(least or 0), int(most or 0))
    counts = (held.nodes if nodes == "all" else int(nodes or 0),
              held.boots if boots == "all" else int(boots or 0))
    day = held.last if last == "last" else last or ""
    sound = (
        template and phases_read is not None and 0 < times[0] <= times[1] and counts[0] <= held.nodes
        and counts[1] <= held.boots and (kind is None or kind in _KINDS) and _is_day(first or "")
        and _is_day(day) and bool(by and why) is approved
        and (approved or not (by or why)) and int(busiest or 0) <= times[1])
    if not sound:
        return None
    try:
        texts = [_plain(text or "") for text in (template, example, by, why, on)]
    except ValueError:
        return None
    return KnownTemplate(
        texts[0], phases_read or (), counts[0], counts[1], times[0], times[1], texts[1], first or "", day,
        texts[2], texts[3], times[1] if busiest is None else int(busiest), _KINDS[kind or "line"],
        None if priority is None else int(priority), texts[4], int(unseen or 0),
        tuple(flags[1:-1].split("', '")) if flags else (),
    )


def _plain(text: str) -> str:
    if "'" in text:
        text = text.replace("''", "'")
    return unescaped(text)


@functools.lru_cache(maxsize=1024)
def _phases(text: str) -> tuple[Phase, ...] | None:
    names = text.split(", ") if text else []
    return tuple(_PHASES[name] for name in names) if all(name in _PHASES for name in names) else None


@functools.lru_cache(maxsize=4096)
def _is_day(text: str) -> bool:
    try:
        return dt.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
