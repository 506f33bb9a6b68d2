"""What is found of a job with a planted fault, scored: whether the right rank is named, how late, whether an
innocent is, and whether the cause is right. 'Cannot tell' is never wrong; a cause that is claimed, even as a
possible one, must be the planted one's."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

# The causes that are right for each kind. A stopped process is none of them; a SIGSTOP is what a hypervisor
# or a neighbour does to it.
RIGHT: Mapping[str, frozenset[str]] = {
    "stopped": frozenset({"cpu"}), "quota": frozenset({"cpu"}), "data": frozenset({"data_loading"}),
    "leak": frozenset({"garbage_collection"}),
    "memory": frozenset({"host_memory"}), "disk": frozenset({"storage", "data_loading"}), "none": frozenset()}


@dataclass(frozen=True)
class Scored:
    """One planting. `delay` is in steps from the fault to the first accusation, None where the rank is not
    named. `causes` are those claimed of the rank and of the job as a whole, with their certainty; `wrong` are
    those of them that are not the planted one's."""

    kind: str
    rank: int | None
    named: bool
    innocents: tuple[int, ...]
    delay: int | None
    causes: tuple[str, ...]
    wrong: tuple[str, ...]
    job_wide: int

    @property
    def told(self) -> bool:
        """Whether the right cause is claimed at the end."""
        return self.named and bool(self.causes) and not self.wrong


def score(kind: str, rank: int | None, began: int, lines: Sequence[Mapping[str, Any]]) -> Scored:
    """Scores the lines of `muster watch --format json`; `rank` is None, and `kind` "none", where no fault was
    planted."""
    found = [line for line in lines if line["kind"] == "finding"]
    accused = {number for one in found for number in one["ranks"]}
    delay, step = None, 0
    for line in lines:
        if line["kind"] == "window":
            step = line["last_step"]
        elif line["kind"] == "finding" and rank in line["ranks"]:
            delay = step - began
            break
    claimed = [(one["cause"]["name"], one["cause"]["certainty"])
               for one in found if one["cause"]["certainty"] != "cannot tell"]
    assert all((one["cause"]["name"] == "unknown") == (one["cause"]["certainty"] == "cannot tell")
               for one in found)
    wrong = tuple(sorted({f"{name} ({certainty})" for name, certainty in claimed if name not in RIGHT[kind]}))
    return Scored(kind, rank, rank in accused, tuple(sorted(accused - {rank})), delay,
                  tuple(sorted({f"{name} ({certainty})" for name, certainty in claimed})), wrong,
                  len({one["id"] for one in found if one["level"] == "job"}))


def line(found: Scored, load: float) -> str:
    """One planting: what was planted and what was said, and the machine's load average at its end."""
    planted = "-" if found.rank is None else found.rank
    named = [*([planted] if found.named else []), *found.innocents]
    return (f"{found.kind}: planted on {planted}, named {', '.join(map(str, named)) or 'no one'}, "
            f"{', '.join(found.causes) or ('cannot tell' if named else 'nothing')}"
            f"{f', {found.delay} steps after' if found.delay is not None else ''}; load {load:.1f}")


def read(text: str) -> list[dict[str, Any]]:
    """The lines that the command printed."""
    return [json.loads(line) for line in text.splitlines()]


def table(scores: Sequence[Scored]) -> list[str]:
    """A row for each kind."""
    rows = [
        f"{'fault':8} {'recall':>6} {'innocents':>9} {'delay: median, most':>20} {'wrong causes':>12}  "
        f"{'job-wide':>8}  causes claimed"]
    for kind in dict.fromkeys(one.kind for one in scores):
        ones = [one for one in scores if one.kind == kind]
        delays = [one.delay for one in ones if one.delay is not None]
        claimed = Counter(cause for one in ones for cause in one.causes)
        late = f"{median(delays):.0f}, {max(delays)}" if delays else "-"
        words = ", ".join(f"{cause} {count}" for cause, count in claimed.most_common()) or "none"
        rows.append(
            f"{kind:8} {sum(one.named for one in ones):>3}/{len(ones):<2} "
            f"{sum(len(one.innocents) for one in ones):>9} {late:>20} "
            f"{sum(bool(one.wrong) for one in ones):>12}  {sum(one.job_wide for one in ones):>8}  {words}")
    return rows
