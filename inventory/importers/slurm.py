"""Nodes as Slurm knows them: `scontrol show node`, with or without -o,
or the JSON of `sinfo` and `scontrol show nodes`.

It takes the name; NodeAddr as address where it differs from the name; Gres and the available features as
labels; partitions as groups. A drained or failed node is still in service and only cordoned, which Slurm
itself keeps and shows, and which may end at any time. A node whose machine is not there (FUTURE, or in any
state of powering down or up) becomes `planned`, with a note; `slurmstates` has all states. The address of a
CLOUD node is ignored: it changes with each start.

Slurm 22.05 writes a node's state as text with `state_flags` beside it and features as text; newer ones
(data_parser v0.0.39 and later) write both as lists. `sinfo --json` lists nodes up to 22.05 only. When a node
was started is seconds since 1970 in JSON, since 23.02 with `set` and `infinite` beside the number; in text it
is a date, which discover.py asks for in UTC.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from inventory.discover import Run, output
from inventory.errors import InventoryError, Mark
from inventory.importers.base import Collected, Imported, check_size, parse_json
from inventory.slurmstates import meaning, states_in, unknown
from inventory.text import clean, short

# All of them: those of hidden partitions, and those that are only planned.
LIVE = "slurm (scontrol show node)"     # the source of what the controller says
SCONTROL = ("scontrol", "--all", "--future", "--oneliner", "show", "node")

_TAKEN = re.compile(
    r"(?:^|\s)(NodeName|NodeAddr|NodeHostName|AvailableFeatures|Gres|State|Partitions|BootTime)=(\S*)")
# What a person, a node's own slurmd or a plug-in wrote, to the end of the line: it may look like anything.
_FREE = re.compile(r"(?:^|\s)(Reason|Comment|Extra|AdminComment)=")
_AFTER_OS = re.compile(r"\sRealMemory=[0-9]+ AllocMem=")
# gpu:h100:8(S:0-1): which sockets, known only once the node has registered
_SOCKETS = re.compile(r"\([^()]*\)")
# Who gave the reason, and when. It stands at the end of the reason's first line;
# what looks so within it is part of it.
_BY = re.compile(r"\s*\[([^\s\[\]@]+)@([0-9T:-]+)\](?=\s*\Z|\s[A-Z][A-Za-z]*=|\s{8})")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}")
_LAST = 0xFFFFFFFE      # NO_VAL of slurm.h: what it writes for a number that it does not know
_NOTHING = frozenset({"", "(null)", "null", "n/a", "none"})
_MOST = 1024    # characters of a label


class _Node(NamedTuple):
    """One node as any of the formats gives it."""

    name: str
    address: str | None
    gres: str | None
    features: str | None
    states: frozenset[str]
    partitions: tuple[str, ...]
    reason: str | None
    booted: float | None
    mark: Mark | None
    user: str = ""
    since: float | None = None


class SlurmNodeState(NamedTuple):
    """What Slurm shows of a node now: its states in capitals ("IDLE", "DRAIN"), their reason, since when the
    machine is up, and who gave the reason, when; times in seconds since 1970 by Slurm's clock."""

    states: frozenset[str]
    reason: str | None
    booted: float | None
    user: str = ""
    since: float | None = None


def live(run: Run | None = None) -> Imported:
    """The nodes of this machine's Slurm cluster, by `scontrol show node`. Raises UsageError, one line with
    the next step, when scontrol is missing, fails or does not answer; else as `parse`."""
    return parse(output(SCONTROL, run), LIVE)


def parse(data: bytes, source: str) -> Imported:
    """The nodes of a saved output of scontrol or sinfo, of either format; `source` is what errors call it.
    Raises InventoryError, with the place if there is one, for an unknown format or over 16 MB."""
    collected = Collected(source)
    for node in _nodes(data, source):
        _add(collected, node)
    return collected.done()


def states_of(data: bytes, source: str) -> dict[str, SlurmNodeState]:
    """Each node's current state, by name; raises as `parse`."""
    return {node.name: SlurmNodeState(node.states, node.reason, node.booted, node.user, node.since)
            for node in _nodes(data, source)}


def _nodes(data: bytes, source: str) -> Iterator[_Node]:
    check_size(data, source)
    text = data.decode("utf-8", "backslashreplace").removeprefix("\ufeff")
    return _json(parse_json(text, source), source) if text.lstrip()[:1] in ("{", "[") else _text(text, source)


def _add(collected: Collected, node: _Node) -> None:
    values: dict[str, Any] = {}
    if node.address is not None and node.address != node.name:
        if "CLOUD" in node.states:
            collected.note("the address is ignored: a CLOUD node gets another with each start", node.name)
        else:
            values["address"] = node.address
    if (means := meaning(node.states)) is not None:
        values["lifecycle"] = means[1].lifecycle.value
        if means[0] != "FUTURE":
            collected.note(f"planned, as Slurm's state is {means[0]}: {means[1].why}; once it is there: "
                           "muster inventory lifecycle NODE service", node.name)
    for word in unknown(node.states):
        collected.note(f"Slurm's state {short(word)} is not known here, and counts as in service", node.name)
    labels = {}
    for key, text in (("gres", node.gres), ("features", node.features)):
        if text is not None and (len(text) > _MOST or not text.isprintable()):
            collected.note(f"{key} is ignored: over {_MOST} characters, or not printable", node.name)
        elif text is not None:
            labels[key] = text
    if labels:
        values["labels"] = labels
    if node.reason is not None:
        collected.note(f"a state with the reason {short(node.reason)} is ignored: Slurm keeps it (sinfo -R)",
                       node.name)
    collected.node(node.name, values, node.mark)
    for partition in node.partitions:
        collected.member(partition, node.name)


def _given(text: object) -> str | None:
    """A value, or None for any of Slurm's spellings of none."""
    if not isinstance(text, str) or text.strip().lower() in _NOTHING:
        return None
    return text.strip()


def _gres(text: object) -> str | None:
    given = _given(text)
    return _given(_SOCKETS.sub("", given)) if given is not None else None


def date_of(text: str) -> float | None:
    """A date as Slurm writes it, in UTC, as seconds since 1970; None for anything else."""
    if _DATE.fullmatch(text) is None:
        return None
    try:
        return dt.datetime.fromisoformat(f"{text}+00:00").timestamp()
    except ValueError:      # the 31st of February
        return None


def _seconds(value: Any) -> float | None:
    """Seconds since 1970, where they are known; 0 and beyond all dates say that they are not."""
    if isinstance(value, Mapping):
        value = (value.get("number") if value.get("set") is True and value.get("infinite") is not True
                 else None)
    return float(value) if type(value) is int and 0 < value < _LAST else None


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word) if text else ()


# what scontrol prints

def _text(text: str, source: str) -> Iterator[_Node]:
    """Nodes of scontrol's own format: one a line, or one a paragraph that begins with NodeName=."""
    record: list[str] = []
    start = 0
    free = False        # a reason or a comment has begun
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip("\r")
        if line.startswith("NodeName="):
            if record:
                yield _record(record, Mark(source, start, 1))
            record, start, free = [line], number, _FREE.search(line) is not None
        elif record and (not line.strip() or line[0].isspace()):
            record.append(line)
            free = free or _FREE.search(line) is not None
        elif record and free:
            continue        # it has several lines
        elif line.strip():
            raise InventoryError(
                f"{short(clean(line, 60))} is not a line of scontrol; expected the output of "
                "`scontrol show node`, `scontrol show nodes --json` or, up to Slurm 22.05, `sinfo --json`",
                Mark(source, number, 1))
    if record:
        yield _record(record, Mark(source, start, 1))


def _record(lines: list[str], mark: Mark) -> _Node:
    one_line = " State=" in lines[0]
    kept: list[str] = []
    reason, user, since = None, "", None
    for line in lines:
        free = _FREE.search(line)
        if free is not None:        # this and all that follows of a node
            kept.append(line[: free.start()])
            if free[1] == "Reason":
                reason, user, since = _given_by(line[free.end():])
            break
        if not line.lstrip().startswith("OS="):
            kept.append(line)
    head = " ".join(kept)
    if one_line and (start := head.find(" OS=")) >= 0:
        ends = [match.start() for match in _AFTER_OS.finditer(head, start)]     # the last one is Slurm's own
        head = head[:start] + head[ends[-1] if ends else start:]
    values: dict[str, str] = {}
    for key, value in _TAKEN.findall(head):
        if values.setdefault(key, value) != value:
            raise InventoryError(f"{key} of {short(values['NodeName'])} is here twice, as "
                                 f"{short(values[key])} and {short(value)}", mark)
    if "State" not in values:
        raise InventoryError(f"{short(values['NodeName'])} has no State: is the output cut off?", mark)
    return _Node(
        name=values["NodeName"],
        address=_given(values.get("NodeAddr")) or _given(values.get("NodeHostName")),
        gres=_gres(values.get("Gres")),
        features=_given(values.get("AvailableFeatures")),
        states=states_in(values["State"]),
        partitions=_words(_given(values.get("Partitions"))),
        reason=reason,
        booted=date_of(values.get("BootTime", "")),
        mark=mark,
        user=user,
        since=since,
    )


def _given_by(text: str) -> tuple[str | None, str, float | None]:
    """A reason, who gave it, and when: "fan 3 [root@2026-11-23T04:32:50]", before any comment."""
    by = _BY.search(text)
    if by is None:
        return _bounded(_given(re.split(r"\s(?:Comment|Extra)=", text)[0])), "", None
    more = text[by.end():] if text[by.end():].startswith(" " * 8) else ""       # its other lines
    return (_bounded(_given(text[: by.start()] + re.split(r"\s(?:Comment|Extra)=", more)[0])),
            clean(by[1], 100), date_of(by[2]))


def _bounded(reason: str | None) -> str | None:
    return reason[:_MOST].strip() if reason is not None else None


# JSON

def _json(document: Any, source: str) -> Iterator[_Node]:
    nodes = document.get("nodes") if isinstance(document, Mapping) else None
    if isinstance(document, Mapping) and "nodes" not in document and "sinfo" in document:
        raise InventoryError(
            f"{source}: is the table that sinfo --json prints since Slurm 23.02, which has no addresses; "
            "save `scontrol show nodes --json` instead")
    if not isinstance(nodes, list):
        raise InventoryError(
            f"{source}: has no list of nodes; expected the output of `scontrol show nodes --json` or, "
            "up to Slurm 22.05, `sinfo --json`")
    for at, node in enumerate(nodes):
        if not isinstance(node, Mapping) or not isinstance(node.get("name"), str):
            raise InventoryError(f"{source}: nodes[{at}] has no name")
        yield _Node(
            name=node["name"],
            address=_given(node.get("address")) or _given(node.get("hostname")),
            gres=_gres(node.get("gres")),
            features=_given(",".join(_listed(node, "features", source))),
            states=frozenset(word.upper() for key in ("state", "state_flags")
                             for word in _listed(node, key, source)),
            partitions=tuple(_listed(node, "partitions", source)),
            reason=_bounded(_given(node.get("reason"))),
            booted=_seconds(node.get("boot_time")),
            mark=None,
            user=clean(_given(node.get("reason_set_by_user")) or "", 100),
            since=_seconds(node.get("reason_changed_at")),
        )


def _listed(node: Mapping[str, Any], key: str, source: str) -> list[str]:
    """A list of words, which older versions give as text with commas."""
    value = node.get(key)
    if value is None:
        return []
    if isinstance(value, str):
        return list(_words(_given(value)))
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return [each for each in value if _given(each) is not None]
    raise InventoryError(f"{source}: {key} of {short(node['name'])} is neither text nor a list of texts")
