"""What one run has to say, wherever it was judged. Python 3.8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class AgentOutput(NamedTuple):
    """The two documents of the state folder, the text for node_exporter, and the line for a person or for Nagios.

    `remember` keeps what the next run compares with; it is called once `look` is kept.
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
    """One line and its numbers (https://www.monitoring-plugins.org/doc/guidelines.html), in which a bar may stand once only."""
    numbers = " ".join(f"{name}={count}" for name, count in counts.items())
    return f"MUSTER {WORDS[code]} - {text[:_MOST].replace('|', '/')}|{numbers} seconds={seconds:.3f}s".replace("| ", "|")
