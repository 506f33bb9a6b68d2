"""`muster explain kernel`: the catalogue of known faults in the kernel log, one entry of it,
or the entry that matches a line."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

import click

from healthcheck.baseline.catalogue import Catalogue
from healthcheck.baseline.cataloguecache import catalogue as cached_catalogue
from healthcheck.baseline.formats import read
from healthcheck.cli.options import near
from healthcheck.cli.wrapping import echo
from healthcheck.kernellog.model import CatalogueEntry
from inventory.errors import UsageError
from inventory.text import short


def explain_kernel(asked: str | None, folders: list[Path], fmt: str) -> None:
    """Prints one entry, the one that matches a line (an argument with spaces), or all;
    raises UsageError if there is none."""
    catalogue = cached_catalogue(folders)
    if asked is None:
        _all(catalogue, fmt)
        return
    entry = _knowing(asked, catalogue) if " " in asked else catalogue.by_id(asked)
    if entry is None:
        raise UsageError(f"no entry of the catalogue matches the line {short(asked)}" if " " in asked
                         else _unknown(asked, catalogue))
    document = _document(entry)
    if fmt == "json":
        click.echo(json.dumps(document, indent=1))
    else:
        echo(_text(document))


def _knowing(asked: str, catalogue: Catalogue) -> CatalogueEntry | None:
    """The entry that matches a line, with or without the time and names before the message."""
    messages = [line.text for log in read(f"{asked}\n".encode(errors="surrogateescape"), "the line")
                for line in log.lines]
    return next(filter(None, map(catalogue.find, messages)), None)


def _unknown(asked: str, catalogue: Catalogue) -> str:
    close = difflib.get_close_matches(asked, [entry.id for entry in catalogue.entries], n=1)
    return f"no such entry: {short(asked)}" + (f"; did you mean {close[0]!r}?" if close
                                               else "; `muster explain kernel` lists all")


def _all(catalogue: Catalogue, fmt: str) -> None:
    if fmt == "json":
        click.echo(json.dumps([_document(entry) for entry in catalogue.entries], indent=1))
        return
    width = max((len(entry.id) for entry in catalogue.entries), default=0)
    for entry in catalogue.entries:
        echo(f"{entry.id:<{width}}  {'disabled' if entry.disabled else entry.severity.value:<8}  "
                   f"{entry.meaning}")


def _document(entry: CatalogueEntry) -> dict[str, Any]:
    return {
        "id": entry.id, "class": entry.group, "from": [emitter.id for emitter in entry.emitters],
        "begins": [emitter.begins for emitter in entry.emitters if emitter.begins],
        "severity": entry.severity.value, "meaning": entry.meaning, "remedy": entry.remedy,
        "owner": entry.owner.value, "repair": entry.repair.value if entry.repair else None,
        "match": entry.match, "unless": entry.unless or None, "ends": str(entry.ending),
        "proofs": [proof.value for proof in entry.ending.proofs], "yields": list(entry.yields),
        "xid": entry.xid or None, "source": entry.source, "examples": list(entry.examples),
        "disabled": entry.disabled or None, "file": entry.file, "line": entry.line,
        "overrides": list(entry.overridden),
    }


def _ends(document: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """By what it ends; an Xid's number has its own."""
    if document["xid"]:
        return (("ends", f"by its number (muster explain {document['xid']} NUMBER)"),)
    return ("ends", document["ends"]), ("", "proven by " + "; or by ".join(document["proofs"]))


def _text(document: dict[str, Any]) -> str:
    """The rows of the text output; empty ones are left out."""
    judged = (f"by its number (muster explain {document['xid']} NUMBER)" if document["xid"]
              else document["severity"])
    hidden = (f", which overrides {', '.join(map(near, document['overrides']))}" if document["overrides"]
              else "")
    rows = [
        ("severity", document["disabled"] or judged), ("remedy", document["remedy"]),
        ("owner", document["owner"]), ("repair", document["repair"]), *_ends(document),
        ("from", ", ".join(document["from"])),
        *(("begins" if not at else "", begins) for at, begins in enumerate(document["begins"])),
        ("match", document["match"]), ("unless", document["unless"]),
        ("yields to", ", ".join(document["yields"])), ("source", document["source"]),
        *(("example" if not at else "", example) for at, example in enumerate(document["examples"])),
        ("file", f"{near(document['file'])}:{document['line']}{hidden}"),
    ]
    title = f"{document['id']}  ({document['class']})"
    return "\n".join(
        [title, "", f"  {document['meaning']}", "", *(f"  {key:<12}{value}" for key, value in rows if value)])
