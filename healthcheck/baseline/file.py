"""A baseline as a file, muster.baseline/1: sorted blocks, so that a change touches only its own lines.

    schema: muster.baseline/1
    masks: 1                        masking.VERSION of the templates
    scope: {sku: 'dgx-h100', kernel: '6.5.0-1007-nvidia', driver: '', firmware: ''}
    learned: {...}                  dates, nodes, boots, expiry; `node_boots` holds the learned boots by node
    phases: {kernel: [0.0, 0.0]}    the earliest and the latest second at which a boot entered it
    approved:                       by template
    - template: 'EXT4-fs (<disk>): mounted filesystem with ordered data mode'
      phases: [services]
      nodes: all                    or a number, and then `on` names them
      boots: all
      times: 1-2                    in one boot that has it; `busiest` in an hour, if fewer than the most
      priority: 6                   the worst; left out if there is none, as is kind for a line
      first_seen: 2026-11-01
      last_seen: last               the day of the last learning
      by: 'anna'
      why: 'on every node since delivery'
      example: 'EXT4-fs (sda2): mounted filesystem with ordered data mode'
    proposed: [...]                 the same, with flags, and without by and why

Text of logs stands in single quotes, in which YAML changes nothing. A backslash is doubled; what a terminal
or YAML would act on, or what has no shape, is written as \\xNN, \\uNNNN or \\UNNNNNNNN.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from healthcheck.config.files import write_whole
from healthcheck.kernellog.masking import VERSION
from healthcheck.kernellog.model import Baseline, KernelEventKind, KnownTemplate
from inventory.errors import UsageError
from inventory.located import MAX_BYTES

SCHEMA = "muster.baseline/1"
_HEAD = (
    "# What healthy nodes say in their kernel log, as `muster baseline learn` saw it. "
    "What is proposed is not accepted yet:\n"
    "# `muster baseline review FILE` shows it, `muster baseline approve FILE` moves it.\n")
_ESCAPED = re.compile(r"\\(\\|x[0-9a-f]{2}|u[0-9a-f]{4}|U000[0-9a-f]{5}|U0010[0-9a-f]{4})?")


def escaped(text: str) -> str:
    """Any text as printable characters; `unescaped` reverses it."""
    return "".join([one if one != "\\" and one.isprintable() else _escape(one) for one in text])


def _escape(sign: str) -> str:
    code = ord(sign)
    if sign == "\\":
        return "\\\\"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def unescaped(text: str) -> str:
    """The text that `escaped` was given; raises ValueError for a backslash that it does not write."""
    return _ESCAPED.sub(_unescape, text) if "\\" in text else text


def _unescape(match: re.Match[str]) -> str:
    if not match[1]:
        raise ValueError(f"a backslash that begins no escape, at character {match.start() + 1}: "
                         "expected \\\\, \\xNN, \\uNNNN or \\UNNNNNNNN")
    return "\\" if match[1] == "\\" else chr(int(match[1][1:], 16))


def dump(baseline: Baseline) -> str:
    """The text of its file; equal baselines give equal text."""
    return "".join(f"{line}\n" for line in _lines(baseline))


def _lines(baseline: Baseline) -> Iterator[str]:
    scope = baseline.scope
    yield _HEAD + f"schema: {SCHEMA}\nmasks: {VERSION}"
    yield (f"scope: {{sku: {_quoted(scope.sku)}, kernel: {_quoted(scope.kernel)}, "
           f"driver: {_quoted(scope.driver)}, firmware: {_quoted(scope.firmware)}}}")
    yield "learned:"
    yield f"  first: {baseline.first}\n  last: {baseline.last}"
    yield f"  nodes: {baseline.nodes}\n  boots: {baseline.boots}"
    yield f"  expires_days: {baseline.expires_days}\n  expires_boots: {baseline.expires_boots}"
    yield "  node_boots:" if baseline.learned_boots else "  node_boots: {}"
    for node in sorted(baseline.learned_boots):
        yield f"    {_quoted(node)}: {_quoted(' '.join(baseline.learned_boots[node]))}"
    yield "phases:" if baseline.phases else "phases: {}"
    for phase, (least, most) in baseline.phases.items():
        yield f"  {phase.value}: [{least!r}, {most!r}]"
    yield from _entries("approved", {**baseline.known, **baseline.expired}, baseline)
    yield from _entries("proposed", baseline.proposed, baseline)


def _entries(name: str, known: Mapping[str, KnownTemplate], baseline: Baseline) -> Iterator[str]:
    yield f"{name}:" if known else f"{name}: []"
    for template in sorted(known):
        yield from _entry(known[template], baseline)


def _entry(one: KnownTemplate, baseline: Baseline) -> Iterator[str]:
    yield f"- template: {_quoted(one.template)}"
    yield f"  phases: [{', '.join(phase.value for phase in one.phases)}]"
    yield f"  nodes: {'all' if one.nodes == baseline.nodes else one.nodes}"
    if one.on:
        yield f"  on: {_quoted(one.on)}"
    yield f"  boots: {'all' if one.boots == baseline.boots else one.boots}"
    yield f"  times: {one.least}-{one.most}"
    if one.busiest != one.most:
        yield f"  busiest: {one.busiest}"
    if one.priority is not None:
        yield f"  priority: {one.priority}"
    if one.kind is not KernelEventKind.LINE:
        yield f"  kind: {one.kind.value}"
    yield f"  first_seen: {one.first_seen}"
    yield f"  last_seen: {'last' if one.last_seen == baseline.last else one.last_seen}"
    if one.unseen:
        yield f"  unseen: {one.unseen}"
    if one.by:
        yield f"  by: {_quoted(one.by)}"
    if one.why:
        yield f"  why: {_quoted(one.why)}"
    if one.flags:
        yield f"  flags: [{', '.join(_quoted(flag) for flag in one.flags)}]"
    yield f"  example: {_quoted(one.example)}"


def _quoted(text: str) -> str:
    return "'" + escaped(text).replace("'", "''") + "'"


def stamp(path: Path) -> tuple[int, ...] | None:
    """Differs after someone else has written the file; None if there is no file."""
    try:
        held = path.stat()
    except OSError:
        return None
    return held.st_ino, held.st_mtime_ns, held.st_size


def write(baseline: Baseline, path: Path, since: tuple[int, ...] | None) -> None:
    """Replaces the file as a whole: a reader finds the old one or the new one. UsageError on failure, and
    where someone has changed the file since it was read, with the stamp `since`."""
    data = dump(baseline).encode()
    if len(data) > MAX_BYTES:
        raise UsageError(
            f"{path}: would be {len(data) / 2**20:.0f} MB, over the limit of {MAX_BYTES // 2**20}: "
            "learn nodes of one SKU and kernel at a time")
    if stamp(path) != since:
        raise UsageError(
            f"{path} was changed by someone else meanwhile; nothing was written: run the command again")
    target, mode = path, 0o644
    with contextlib.suppress(OSError):
        target = path.resolve(strict=True)      # the file that a link names, not the link
        mode = target.stat().st_mode & 0o777
    try:
        write_whole(target, data, mode)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
