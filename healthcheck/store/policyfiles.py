"""Which files decided at the newest run of triage, and what has changed in them since:
a line in the ledger for each change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from healthcheck.store import ledger
from healthcheck.store.file import Store
from inventory.text import clean
from inventory.times import minute

ACTION = "policy changed"


@dataclass(frozen=True)
class PolicyFile:
    """One file by a digest of its content; `owner` and `modified` (epoch seconds)
    are from its file system."""

    name: str
    digest: str
    owner: str
    modified: float


def note(store: Store, files: Iterable[PolicyFile], who: str, now: float) -> list[str]:
    """Writes down, in one transaction, the files that decide now; gives a line for people on each that is not
    what it was, which stands in the ledger as well, by its owner. Where none was ever noted there is nothing
    to compare with. Raises StoreError.
    """
    found = {file.name: file for file in files}
    changes: list[tuple[str, str]] = []
    with store.writing() as db:
        before = {row[0]: row[1] for row in db.execute("SELECT name, digest FROM policy_file")}
        for file in found.values() if before else ():
            if before.get(file.name) != file.digest:
                what, owner = "changed" if file.name in before else "was added", clean(file.owner, 80)
                changes.append(
                    (owner, f"{clean(file.name, 200)} {what}, modified {minute(file.modified)} by {owner}"))
        changes += [("", f"{clean(name, 200)} is not there any more") for name in before if name not in found]
        for owner, what in changes:
            ledger.done(db, now, owner, ACTION, "", what, "file", f"found by {who}")
        db.execute("DELETE FROM policy_file")
        db.executemany("INSERT INTO policy_file (name, digest, seen) VALUES (?, ?, ?)",
                       [(file.name, file.digest, now) for file in found.values()])
    return [what for _, what in changes]
