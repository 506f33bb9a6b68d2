"""A store for commands that only list: where there is none, none is made, and the list is empty."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from healthcheck.store.file import NAME, Store, opened


@contextmanager
def reading(folder: Path) -> Iterator[Store | None]:
    """The store in a state folder, None where there is none. Raises StoreError for one that cannot be
    read."""
    if not (folder / NAME).exists():
        yield None
        return
    with opened(folder) as store:
        yield store
