"""The files that decide what triage does: the site's one by one, the packaged ones as one."""

from __future__ import annotations

import hashlib
import pwd
from collections.abc import Iterator, Sequence
from pathlib import Path

from healthcheck.config.rulesfolder import packaged
from healthcheck.store.file import Store
from healthcheck.store.policyfiles import PolicyFile, note

PACKAGED = "the packaged rules"


def policy_changes(store: Store, folders: Sequence[Path], who: str, now: float) -> list[str]:
    """Notes these folders' files in the store; a line on each that changed since the run before."""
    return [f"policy: {message}" for message in note(store, files_of(folders), who, now)]


def files_of(folders: Sequence[Path]) -> Iterator[PolicyFile]:
    """What is read of these folders: `*.yaml` in each and in its folders (sku, profile, kernel ...), if it
    can be. Packaged files change together with muster: they count as one."""
    for folder in folders:
        paths = sorted((*folder.glob("[!.]*.yaml"), *folder.glob("[!.]*/[!.]*.yaml")))
        found = [file for path in paths if (file := _file(path)) is not None]
        if folder != packaged():
            yield from found
        elif found:
            newest = max(found, key=lambda file: file.modified)
            digest = hashlib.sha256("".join(file.digest for file in found).encode()).hexdigest()
            yield PolicyFile(PACKAGED, digest, newest.owner, newest.modified)


def _file(path: Path) -> PolicyFile | None:
    try:
        with path.open("rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        found = path.stat()
    except OSError:
        return None
    try:
        owner = pwd.getpwuid(found.st_uid).pw_name
    except KeyError:
        owner = str(found.st_uid)
    return PolicyFile(str(path.absolute()), digest, owner, found.st_mtime)
