"""Runs of `muster triage --apply` in the store: who began which when, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

from healthcheck.store.file import Store
from healthcheck.store.rows import insert
from inventory.text import clean

DONE, INCOMPLETE, FAILED = "done", "incomplete", "failed"
SILENT = "ended without a word"
# Whoever lets triage run by itself does so more often.
OVERDUE_S = 3600.0


@dataclass(frozen=True)
class TriageRun:
    """One run; `finished` is None while it is at work, or was killed. `host` and `holder` are its machine and
    its process (`provisioning.lease.holder`). Times are epoch seconds.
    """

    id: int
    began: float
    finished: float | None
    who: str
    host: str
    outcome: str
    holder: str

    @property
    def success(self) -> bool:
        """Whether it came to its end, and no step of it failed."""
        return self.outcome.partition(":")[0] == DONE


def begin(store: Store, who: str, host: str, holder: str, now: float) -> int:
    """Writes down that a run begins; gives its number."""
    with store.writing() as db:
        return insert(db, "triage_run", began=now, who=who, host=host, outcome="", holder=holder)


def finish(store: Store, number: int, outcome: str, now: float) -> None:
    """Writes down how a run ended, once."""
    with store.writing() as db:
        db.execute("UPDATE triage_run SET finished = ?, outcome = ? WHERE id = ? AND finished IS NULL",
                   (now, clean(outcome, 300), number))


def unfinished(store: Store) -> list[TriageRun]:
    """Runs with unknown end, oldest first."""
    return [TriageRun(**dict(row))
            for row in store.rows("SELECT * FROM triage_run WHERE finished IS NULL ORDER BY id")]


def last(store: Store) -> TriageRun | None:
    """The newest run that recorded its own end; None if there is none."""
    rows = store.rows("SELECT * FROM triage_run WHERE finished IS NOT NULL AND outcome NOT LIKE ? "
                      "ORDER BY finished DESC, id DESC LIMIT 1",
                      f"{SILENT}%")
    return TriageRun(**dict(rows[0])) if rows else None


def overdue(store: Store, now: float) -> str:
    """A line for people where triage has run before and has not for long, or failed the last time; "" where
    all is well or it never ran."""
    run = last(store)
    if run is None or run.finished is None:
        return ""
    ago = (now - run.finished) / 3600
    if now - run.finished > OVERDUE_S:
        return (f"triage --apply last ran {ago:.0f} h ago, and nothing was isolated or released since: see "
                "what runs it (its timer, cron)")
    return "" if run.success else f"the last triage --apply did not do all of it: {run.outcome}"
