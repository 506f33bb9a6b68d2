"""The output of one run, wherever it was judged. Python 3.8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class AgentOutput(NamedTuple):
    """The state folder's two documents, the text for node_exporter, and the line for people or Nagios.

    `remember` stores what the next run compares with; it is called once `look` is stored.
    """

    look: Any
    result: Any
    metrics: str
    line: str
    nagios: str
    remember: Callable[[], None]


_MOST = 600     # characters; NRPE before 3 carried 1024 bytes
WORDS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")


def nagios(code: int, text: str, counts: dict[str, int], seconds: float) -> str:
    """One line and its numbers (https://www.monitoring-plugins.org/doc/guidelines.html),
    which may hold only one bar."""
    numbers = " ".join(f"{name}={count}" for name, count in counts.items())
    line = f"MUSTER {WORDS[code]} - {text[:_MOST].replace('|', '/')}|{numbers} seconds={seconds:.3f}s"
    return line.replace("| ", "|")


def with_faults(line: str, code: int, faults: list[str]) -> tuple[str, int]:
    """A line of `nagios` and its code, of a run whose files could not all be written: its failures come
    first, and without one it is unknown."""
    text, _, numbers = line.partition("|")
    found, lost = text.partition(" - ")[2], "; ".join(faults).replace("|", "/")
    if code in (1, 2):
        return f"MUSTER {WORDS[code]} - {found}; {lost}|{numbers}", code
    return f"MUSTER {WORDS[3]} - {lost}; {found}|{numbers}", 3
