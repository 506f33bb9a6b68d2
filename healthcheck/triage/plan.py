"""The plan: what triage would do now, in the order in which it would; `--apply` does exactly this."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from healthcheck.triage.verdict import Incident, Verdict


class Act(Enum):
    """What a step does."""

    ISOLATE = "isolate"
    RELEASE = "release"


@dataclass(frozen=True)
class Step:
    """One deed on one node. `backend` is set for a release: where our cordon `cordon` is held."""

    act: Act
    node: str
    why: str
    verdict: Verdict
    reserve: bool = False
    backend: str = ""
    cordon: int = 0


@dataclass(frozen=True)
class Withheld:
    """A step that is not taken, and why."""

    act: Act
    node: str
    why: str


@dataclass(frozen=True)
class Plan:
    """What is decided at `now`. `verdicts` are those with something to say, by node. `opens` and `closes` are words on the breaker: why it
    opens or closes with this plan, empty where it does neither; `is_open` is how it stands afterwards."""

    now: float
    verdicts: tuple[Verdict, ...]
    incidents: tuple[Incident, ...]
    steps: tuple[Step, ...]
    withheld: tuple[Withheld, ...]
    opens: str = ""
    closes: str = ""
    is_open: bool = False
