"""What is kept of a burn-in while it runs: its document, written whole again and again, which passes nobody before the end."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from types import MappingProxyType

from healthcheck.burnin import document
from healthcheck.burnin.counters import Counter
from healthcheck.burnin.document import Burnin, Option
from healthcheck.burnin.floors import Floors
from healthcheck.burnin.judge import judge
from healthcheck.burnin.judgement import Judgement, Outcome
from healthcheck.burnin.merged import node_of, task_of
from healthcheck.burnin.model import Accusation
from healthcheck.burnin.stagecounters import StageCounters
from inventory.errors import UsageError
from provisioning.burnin.course import Course

EVERY_S = 10.0
_SHARE = 20         # writing takes at most one part in so many of the head's time, which watches ranks meanwhile
UNFINISHED = "the burn-in was not finished"


def run_id(now: float) -> str:
    """A name for a run that begins now: its time, UTC, and four letters that tell it from another one of that second."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now))}-{secrets.token_hex(2)}"


@dataclass
class Record:
    """One burn-in in the state folder. `doubts` say by node why it cannot pass, `withheld` why nothing that it showed counts, and
    `unfinished` why what was not done by now is not."""

    folder: Path
    length: str
    floors: Floors
    options: Mapping[str, Option]
    clock: Callable[[], float] = time.time
    run: str = ""
    began: float = 0.0
    counters: tuple[Counter, ...] = ()
    stage_counters: Sequence[StageCounters] = ()
    remarks: list[str] = field(default_factory=list)
    doubts: dict[str, str] = field(default_factory=dict)
    withheld: dict[str, str] = field(default_factory=dict)
    unfinished: str = UNFINISHED
    trouble: str = ""
    _written: float = 0.0
    _took: float = 0.0

    def __post_init__(self) -> None:
        self.began = self.began or self.clock()
        self.run = self.run or run_id(self.began)

    def result(self, course: Course) -> None:
        """Something came: it is written soon."""
        if self.clock() - self._written >= max(EVERY_S, _SHARE * self._took):
            self.keep(course)

    def keep(self, course: Course, *, finished: bool = False, act: Callable[[Burnin], None] | None = None) -> Burnin:
        """Writes the document as it is now; what cannot be written is told in `trouble`, and stops no burn-in. `act` is called before it is
        written: a document that says that the burn-in was finished has had its consequences.
        """
        begun = self.clock()
        burnin = self.made(course, finished=finished)
        if act is not None:
            act(burnin)
        try:
            document.write(self.folder, burnin)
            self.trouble = ""
        except UsageError as error:
            self.trouble = str(error)
        self._written = self.clock()
        self._took = self._written - begun
        return burnin

    def made(self, course: Course, *, finished: bool) -> Burnin:
        """The burn-in so far, judged."""
        missing = dict(course.missing)
        if not finished:
            missing = {**dict.fromkeys((step.stage for step in course.steps), self.unfinished), **missing}
        burnt = replace(course.burnt, counters=self.counters, missing=MappingProxyType(missing), stage_counters=tuple(self.stage_counters))
        judgement = judge(burnt, self.floors)
        doubts = {**(dict.fromkeys((place.node for place in course.places), self.unfinished) if not finished else {}),
                  **self.doubts, **self.withheld}
        judgement = doubted(judgement, doubts, self.withheld, {result.task.id: result.task.nodes for result in course.results})
        judgement = replace(judgement, remarks=(*judgement.remarks, *course.remarks, *self.remarks))
        environment = {name: value for result in course.results for name, value in result.task.environment.items()}
        return Burnin(self.run, self.length, self.began, self.clock(), version(), burnt, judgement, self.floors.digest,
                      MappingProxyType({**self.options, "finished": finished}), MappingProxyType(environment))


def doubted(
    judgement: Judgement, doubts: Mapping[str, str], withheld: Mapping[str, str], tasks: Mapping[str, Sequence[str]],
) -> Judgement:
    """The judgement in which nobody passes of whom there is a doubt.

    Of nodes that are `withheld` nothing is believed, no fault either; what is nobody's is believed if a task without them shows it, by
    the nodes of each task.
    """
    outcomes = []
    for one in judgement.outcomes:
        why = doubts.get(one.node)
        if why is not None and (one.outcome is not Outcome.FAIL or one.node in withheld):
            one = replace(one, outcome=Outcome.UNKNOWN, why=(why, *one.why))
        outcomes.append(one)
    every = [one.node for one in judgement.outcomes]

    def stands(one: Accusation) -> bool:
        node = node_of(one)
        shown = [tasks[name] for name in (one.name, *map(task_of, one.tests_for)) if name in tasks] or [every]
        return node not in withheld if node is not None else any(withheld.keys().isdisjoint(nodes) for nodes in shown)

    return replace(judgement, outcomes=tuple(outcomes), accusations=tuple(filter(stands, judgement.accusations)))


def rules_folder() -> Path:
    """Where a site's rules are, that nobody names: those of the machine for root, else one's own."""
    if os.geteuid() == 0:
        return Path("/etc/muster/rules")
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "muster" / "rules"


def version() -> str:
    """Of muster, as installed."""
    try:
        return metadata.version("cluster-muster")
    except metadata.PackageNotFoundError:
        return "0"


