"""Stores a burn-in while it runs: its document is rewritten whole; before the end no node passes by it."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from healthcheck.burnin import document
from healthcheck.burnin.document import Burnin, Option
from healthcheck.burnin.runstates import RunEnding
from healthcheck.burnin.statemachine import BurninRun
from inventory.errors import UsageError
from inventory.release import VERSION

EVERY_S = 10.0
# writing takes at most one part in so many of the head's time, which watches ranks meanwhile
_SHARE = 20


def run_id(now: float) -> str:
    """A name for a run that begins now: its time, UTC, and four letters for others of that second."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now))}-{secrets.token_hex(2)}"


@dataclass
class BurnInRecord:
    """One burn-in in the state folder."""

    folder: Path
    length: str
    options: Mapping[str, Option]
    clock: Callable[[], float] = time.time
    run: str = ""
    began: float = 0.0
    trouble: str = ""
    _written: float = 0.0
    _took: float = 0.0

    def __post_init__(self) -> None:
        self.began = self.began or self.clock()
        self.run = self.run or run_id(self.began)

    def result(self, machine: BurninRun) -> None:
        """A task is over: it is written soon."""
        if self.clock() - self._written >= max(EVERY_S, _SHARE * self._took):
            self.keep(machine)

    def keep(self, machine: BurninRun, act: Callable[[Burnin], None] | None = None) -> Burnin:
        """Writes the document as it is now; why it cannot be written is in `trouble`, and stops no burn-in.
        `act` is called before: a document that says that the burn-in was finished has had its
        consequences."""
        begun = self.clock()
        burnin = self.document(machine)
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

    def document(self, machine: BurninRun) -> Burnin:
        """The burn-in so far, judged."""
        burnt, judgement = machine.judged()
        environment = {
            name: value for result in machine.results for name, value in result.task.environment.items()}
        finished = machine.ending is RunEnding.FINISHED
        return Burnin(self.run, self.length, self.began, self.clock(), VERSION, burnt, judgement,
                      machine.floors.digest, MappingProxyType({**self.options, "finished": finished}),
                      MappingProxyType(environment))


def rules_folder() -> Path:
    """Where a site's rules are, that no one names: those of the machine for root, else one's own."""
    if os.geteuid() == 0:
        return Path("/etc/muster/rules")
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "muster" / "rules"


