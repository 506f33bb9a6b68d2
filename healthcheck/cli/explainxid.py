"""`muster explain xid` and `muster explain sxid`: what a number means, its sources,
and how muster judges it and why."""

from __future__ import annotations

import json
from typing import Any

import click

from healthcheck.cli.options import near
from healthcheck.cli.wrapping import echo
from healthcheck.xid.xidtable import (
    SERIOUS,
    WATCHED,
    Action,
    SwitchEntry,
    SxidReach,
    XidEntry,
    XidRepeat,
    XidTable,
)
from inventory.errors import UsageError
from inventory.text import short

_RULES = {Action.APP: "kernel-xid-job", Action.OBEY: "kernel-xid-recovery",
          Action.DECODE: "kernel-xid-nvlink", Action.IGNORE: ""}

# The driver logs nothing on a reset.
_ONCE_RESET = {
    "xid": "over once the driver no longer asks for the reset (Xid 154); else when root writes to /dev/kmsg: "
    "muster: GPU 0000:3b:00.0 was reset",
    "sxid": "over, when root writes to /dev/kmsg: muster: all GPUs were reset",
}


def explain_xid(kind: str, number: str | None, table: XidTable | None, fmt: str) -> None:
    """Prints one entry, or all without a number;
    raises UsageError for a number that the table does not hold."""
    if table is None:
        raise UsageError("no rules folder holds an xid.yaml")
    entries: dict[int, Any] = dict(table.xids if kind == "xid" else table.sxids)
    if number is None:
        if fmt == "json":
            click.echo(json.dumps([_document(entry, table) for entry in entries.values()], indent=1))
            return
        for entry in entries.values():
            echo(f"{entry.number:<6} {entry.action.value:<9} {_name(entry)}{entry.meaning}")
        return
    dated = table.dated if kind == "xid" else table.sxids_dated
    if not number.isascii() or not number.isdigit() or len(number) > 6:
        raise UsageError(f"{kind}: expected a number such as {min(entries)}, got {short(number)}; `muster "
                         f"explain {kind}` lists all")
    asked = int(number)
    if asked not in entries:
        nearest = min(entries, key=lambda known: (abs(known - asked), known))
        message = f"{kind} {asked} is not in the table of {dated}; muster treats it as a case for support"
        if kind == "sxid":
            message += ", and watches it where the driver calls it non-fatal"
        raise UsageError(f"{message}; the nearest is {nearest}")
    document = _document(entries[asked], table)
    if fmt == "json":
        click.echo(json.dumps(document, indent=1))
    else:
        echo(_text(kind, document))


def _name(entry: XidEntry | SwitchEntry) -> str:
    return f"{entry.mnemonic}: " if isinstance(entry, XidEntry) and entry.mnemonic not in ("", "-") else ""


def _rule(action: Action) -> str:
    return "kernel-xid" if action in SERIOUS else "kernel-xid-watch" if action in WATCHED else _RULES[action]


def _document(entry: XidEntry | SwitchEntry, table: XidTable) -> dict[str, Any]:
    ends = table.ending(entry.action, entry.ends)
    shared = {
        "meaning": entry.meaning, "gpud": entry.gpud or None, "action": entry.action.value,
        "owner": entry.owner.value, "remedy": entry.remedy or table.remedy(entry.action) or None,
        "why": entry.why or None, "ends": str(ends), "proofs": [proof.value for proof in ends.proofs],
        "file": entry.file, "line": entry.line, "overrides": list(entry.overridden),
    }
    if isinstance(entry, SwitchEntry):
        rule = ("kernel-sxid" if entry.kind in (SxidReach.ALWAYS_FATAL, SxidReach.POTENTIALLY_FATAL)
                else "kernel-sxid-watch")
        return {"sxid": entry.number, "kind": entry.kind.value, **shared, "rule": rule,
                "dated": table.sxids_dated}
    special = {
        name: {"meaning": other.meaning, "action": other.action.value, "owner": other.owner.value,
               "remedy": other.remedy or table.remedy(other.action) or None,
               "rule": _rule(other.action) or None}
        for name, other in entry.architectures.items()
    }
    return {
        "xid": entry.number, "mnemonic": entry.mnemonic, **shared, "nvidia": list(entry.nvidia),
        "dcgm": entry.dcgm or None, "rule": _rule(entry.action) or None, "architectures": special,
        "repeats": [_repeat(repeat) for repeat in table.repeats.values() if repeat.covers(entry.number)],
        "dated": table.dated, "sources": dict(table.sources),
    }


def _repeat(repeat: XidRepeat) -> dict[str, Any]:
    return {
        "id": repeat.id, "says": _repeat_text(repeat), "why": repeat.why, "action": repeat.action.value,
        "count": repeat.count, "hours": repeat.hours, "same": repeat.same,
        "gap_seconds": repeat.gap_seconds, "alone_seconds": repeat.alone_seconds, "jobs": repeat.jobs,
        "apart_seconds": repeat.apart_seconds,
        "sticky": sorted(repeat.sticky), "sticky_hours": repeat.sticky_hours, "enabled": repeat.enabled,
        "file": repeat.file, "line": repeat.line, "overrides": list(repeat.overridden),
    }


def _repeat_text(repeat: XidRepeat) -> str:
    where = "one GPC and TPC of a GPU" if repeat.same == "tpc" else "one GPU"
    return f"{repeat.count} bursts on {where} within {repeat.hours:g} h: {repeat.action.value}"


def _from(document: dict[str, Any]) -> str:
    """The file that won, and those it overrides."""
    hidden = (f", which overrides {', '.join(map(near, document['overrides']))}" if document["overrides"]
              else "")
    return f"{near(document['file'])}:{document['line']}{hidden}"


def _text(kind: str, document: dict[str, Any]) -> str:
    """The rows of the text output; empty ones are left out."""
    mnemonic = document.get("mnemonic", "-")
    title = f"{'SXid' if kind == 'sxid' else 'Xid'} {document[kind]}" + (
        f"  {mnemonic}" if mnemonic not in ("", "-") else "")
    rows: list[tuple[str, str | None]] = [
        ("action", f"{document['action']}, by {document['rule'] or 'no rule: it is ignored'}")]
    rows += [("kind", document["kind"].replace("_", " "))] if kind == "sxid" else []
    rows += [("why", document["why"]), ("remedy", document["remedy"]), ("owner", document["owner"])]
    rows += [("once reset", _ONCE_RESET[kind])] if document["action"] == Action.RESET.value else []
    rows += [("ends", f"{document['ends']}, proven by {'; or by '.join(document['proofs'])}")]
    rows += [("NVIDIA", " / ".join(document.get("nvidia", ()))), ("gpud", document["gpud"]),
             ("DCGM", document.get("dcgm"))]
    for name, other in document.get("architectures", {}).items():
        rows.append((name, f"{other['action']}: {other['meaning']}"))
    for repeat in document.get("repeats", ()):
        text = repeat["says"] if repeat["enabled"] else f"not judged, {repeat['id']} is disabled"
        rows += [("repeated", f"{text} ({repeat['id']}: {repeat['why']})"), ("", _from(repeat))]
    rows += [("file", _from(document)), ("dated", document["dated"])]
    return "\n".join(
        [title, "", f"  {document['meaning']}", "", *(f"  {key:<12}{value}" for key, value in rows if value)])
