"""The output of one run, wherever it was judged. Python 3.8."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from inventory.text import fit


class AgentOutput(NamedTuple):
    """The state folder's two documents, the text for node_exporter, and the line for people or Nagios.

    `remember` stores what the next run compares with; it is called once `snapshot` is stored.
    """

    snapshot: Any
    result: Any
    metrics: str
    line: str
    nagios: str
    remember: Callable[[], None]


# Bytes of a line for a log: syslog's packets hold 1024 with their headers (RFC 3164, section 4.1).
LINE = 900
# Bytes of a plugin's whole answer: NRPE before 3 carried 1024. Nagios itself reads 8 KiB.
NAGIOS = 1000
WORDS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")


def nagios(
    code: int, line: Callable[[int, str], str], counts: Mapping[str, int], seconds: float | None = None,
) -> str:
    """One line and its numbers (https://www.monitoring-plugins.org/doc/guidelines.html), with one bar between
    them: none is left in the text. `line` makes the text, for so many bytes and with this before it."""
    numbers = [f"{name}={count}" for name, count in counts.items()]
    numbers += [] if seconds is None else [f"seconds={seconds:.3f}s"]
    return _one_bar(code, line, " ".join(numbers))


def unknown(text: str) -> str:
    """The plugin's line where nothing could be checked, or judged."""
    return nagios(3, lambda most, head: fit([text], most, head), {})


def with_faults(line: str, code: int, faults: list[str]) -> tuple[str, int]:
    """A line of `nagios` and its code, of a run whose files could not all be written: its failures come
    first, and without one it is unknown."""
    text, _, numbers = line.partition("|")
    found = text.partition(" - ")[2]
    fails = code in (1, 2)
    items = [found, *faults] if fails else [*faults, found]
    shown = code if fails else 3
    return _one_bar(shown, lambda most, head: fit(items, most, head), numbers), shown


def _one_bar(code: int, line: Callable[[int, str], str], numbers: str) -> str:
    tail = f"|{numbers}" if numbers else ""
    return line(NAGIOS - len(tail), f"MUSTER {WORDS[code]} - ").replace("|", "/") + tail
