"""Reads nodes from a list of names: a file with a node set or several names a line."""

from __future__ import annotations

from inventory.errors import InventoryError, Mark
from inventory.importers.base import Collected, Imported, decode
from inventory.nodeset import expand
from inventory.text import short

TYPED = "names as typed"


def parse(data: bytes, source: str) -> Imported:
    """The nodes of a list, each once: node sets with spaces between them, # before a comment. Raises
    InventoryError, one line with the place, for what is no node set, and where there is no node."""
    collected = Collected(source)
    for number, line in enumerate(decode(data, source).splitlines(), 1):
        for word in line.partition("#")[0].split():
            mark = Mark(source, number, line.index(word) + 1)
            _take(collected, word, mark)
    return collected.done()


def typed(text: str) -> Imported:
    """The nodes of a node set that was typed."""
    collected = Collected(TYPED)
    _take(collected, text, None)
    return collected.done()


def _take(collected: Collected, text: str, mark: Mark | None) -> None:
    if any(sign in text for sign in "@*?"):
        raise collected.error(f"{short(text)}: groups and wildcards need an inventory; expected names, such "
                              "as gpu[001-064]", mark)
    try:
        names = expand(text)
    except InventoryError as problem:
        raise collected.error(str(problem), mark) from None
    for name in names:
        if name not in collected.nodes:
            collected.node(name, {}, mark)
