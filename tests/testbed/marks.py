"""Marks in messages: a store's name is drawn by chance, so tests that compare whole messages leave it out."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import subprocess
from pathlib import Path

from healthcheck.store.file import Store
from tests import command

_NAMED = re.compile(r"muster:[0-9a-f]{4}#")


def plain(text: str) -> str:
    """The text with each mark as if its store had no name."""
    return _NAMED.sub("muster#", text)


def files_moved(database: Path, old: Path, new: Path) -> None:
    """After a site was copied to another folder: its cordons are in the copy of the file that they were
    in."""
    with contextlib.closing(sqlite3.connect(database)) as db, db:
        db.execute("UPDATE cordon SET file = replace(file, ?, ?)", (f"{old}/", f"{new}/"))


def muster(*words: str, home: Path, timeout: float = 60, **more: str) -> subprocess.CompletedProcess[str]:
    """The finished command, with its output as text in which marks name no store."""
    done = command.muster(*words, home=home, timeout=timeout, **more)
    return subprocess.CompletedProcess(done.args, done.returncode, plain(done.stdout), plain(done.stderr))


def nameless(store: Store) -> Store:
    """The store, whose marks from now on name none, as those of older versions."""
    with store.writing() as db:
        db.execute("UPDATE name SET store = ''")
    return store
