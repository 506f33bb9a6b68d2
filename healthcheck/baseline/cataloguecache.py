"""Caches the catalogue on disk: reading and checking it takes most of a second for every command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from healthcheck.baseline.catalogue import Catalogue
from healthcheck.baseline.catalogueload import load_catalogue
from healthcheck.config import usercache
from healthcheck.config.codec import from_plain, to_plain
from healthcheck.config.rulesfolder import packaged
from healthcheck.kernellog.model import CatalogueEntry


def catalogue(folders: Iterable[Path]) -> Catalogue:
    """What `load_catalogue` gives; raises RulesError."""
    folders = tuple(folders)
    return usercache.cached(
        "catalogue", usercache.digest(_parts(folders)),
        lambda held: Catalogue(from_plain(tuple[CatalogueEntry, ...], held)),
        lambda: load_catalogue(folders, proven=packaged()), lambda made: to_plain(made.entries))


def _parts(folders: Iterable[Path]) -> Iterator[bytes]:
    """The files, their contents, and the code that reads them: a checkout's version does not change."""
    here = Path(__file__).parent
    log = here.parent / "kernellog"
    for path in (here / "catalogueload.py", here.parent / "config" / "linear.py", *sorted(log.glob("*.py"))):
        yield path.read_bytes()
    for folder in folders:
        for path in sorted((*(folder / "kernel").glob("*.yaml"), *(folder / "emitter").glob("*.yaml"))):
            yield str(path).encode()
            yield path.read_bytes()
