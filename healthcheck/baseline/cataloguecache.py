"""Caches the catalogue on disk: reading and checking it takes most of a second for every command."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from healthcheck.baseline.catalogue import Catalogue
from healthcheck.baseline.catalogueload import load_catalogue
from healthcheck.config import usercache
from healthcheck.config.codec import from_plain, to_plain
from healthcheck.config.rulesfolder import packaged
from healthcheck.kernellog.model import CatalogueEntry

_KIND = "catalogue"


def catalogue(folders: Iterable[Path]) -> Catalogue:
    """What `load_catalogue` gives; raises RulesError."""
    folders = tuple(folders)
    name = usercache.digest(_parts(folders))
    data = usercache.load(_KIND, name)
    with contextlib.suppress(ValueError, KeyError, TypeError):
        if data is not None:
            return Catalogue(from_plain(tuple[CatalogueEntry, ...], json.loads(data)))
    made = load_catalogue(folders, proven=packaged())
    usercache.save(_KIND, name, json.dumps(to_plain(made.entries), separators=(",", ":")).encode())
    return made


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
