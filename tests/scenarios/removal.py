"""What can be taken out of a recorded node, one thing at a time: a file of a tree, a line of a text, a key or
a table's row of a JSON document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from healthcheck.model.recording import Capture, Recording

Step = Any      # a key of an object, or a place in a list
_HEADER = re.compile(r"exit -?\d+\n")
_NAMES = (
    (re.compile(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"), "PCI"),
    (re.compile(r"\bpci[0-9a-f]{4}:[0-9a-f]{2}"), "pciN"),
    (re.compile(r"\d+"), "N"),
)


@dataclass(frozen=True)
class Removal:
    """One thing to take out: of a capture's own text, or of the file at `path`. With neither `line` nor
    `keys` it is the file itself.

    `keys` is the way into a JSON document; where the text is many documents, one a line, `line` says which.
    `called` is what the thing is called by people, numbers left out: "/sys/class/nvme/nvmeN/state",
    ".smart_status.passed", "#MemTotal".
    """

    probe: str
    path: str = ""
    line: int | None = None
    keys: tuple[Step, ...] = ()
    called: str = ""

    def __str__(self) -> str:
        where = f" line {self.line}" if self.line is not None else ""
        return f"{self.probe} {self.path}{where} {'.'.join(map(str, self.keys))} ({self.called})"


def removals(recording: Recording) -> Iterator[Removal]:
    """All that can be taken out of this node, one at a time."""
    for probe, capture in recording.captures.items():
        yield from _of_text(probe, "", capture.text)
        for path, file in capture.files.items():
            yield Removal(probe, path, called=plain(path))
            yield from _of_text(probe, path, file.text)


def without(recording: Recording, removal: Removal) -> Recording:
    """The node as if this had never been there; its outcomes and exit codes stay as they are."""
    capture = recording.captures[removal.probe]
    return replace(recording, captures={**recording.captures, removal.probe: _without(capture, removal)})


def nonsense(recording: Recording, removal: Removal) -> Recording | None:
    """The node with nonsense in the place of this file's text ("?") or this key's value (an object of no
    meaning); None for a line, or a row of a table."""
    if removal.keys and isinstance(removal.keys[-1], str):
        capture = recording.captures[removal.probe]
        text = _changed(text_of(recording, removal), removal, {"?": "?"})
        changed = replace(capture, text=text) if not removal.path else replace(
            capture, files={**capture.files, removal.path: capture.files[removal.path]._replace(text=text)})
    elif removal.path and removal.line is None and not removal.keys:
        capture = recording.captures[removal.probe]
        changed = replace(capture, files={**capture.files,
                                          removal.path: capture.files[removal.path]._replace(text="?\n")})
    else:
        return None
    return replace(recording, captures={**recording.captures, removal.probe: changed})


def text_of(recording: Recording, removal: Removal) -> str:
    """The text that the thing is taken out of."""
    capture = recording.captures[removal.probe]
    return capture.files[removal.path].text if removal.path else capture.text


def taken(recording: Recording, removal: Removal) -> str:
    """What is taken out, as text; "" where this node has no such thing."""
    capture = recording.captures.get(removal.probe)
    if capture is None or (removal.path and removal.path not in capture.files):
        return ""
    text = text_of(recording, removal)
    lines = text.splitlines()
    if removal.line is not None:
        text = lines[removal.line] if removal.line < len(lines) else ""
    if not removal.keys:
        return text
    value: Any = _document(_split(text)[1])
    for key in removal.keys:
        try:
            value = value[key]
        except (LookupError, TypeError):
            return ""
    return json.dumps(value)


def _without(capture: Capture, removal: Removal) -> Capture:
    if not removal.path:
        return replace(capture, text=_less(capture.text, removal))
    if removal.line is None and not removal.keys:
        return replace(capture,
                       files={path: file for path, file in capture.files.items() if path != removal.path})
    file = capture.files[removal.path]
    return replace(capture,
                   files={**capture.files, removal.path: file._replace(text=_less(file.text, removal))})


def plain(text: str) -> str:
    """The text with addresses and numbers left out, so that members of one kind are called the same."""
    for pattern, name in _NAMES:
        text = pattern.sub(name, text)
    return text


def _of_text(probe: str, path: str, text: str) -> Iterator[Removal]:
    called = plain(path)
    whole = _document(_split(text)[1])
    if whole is not None:
        for keys, name in _keys(whole):
            yield Removal(probe, path, None, keys, f"{called}{name}")
        return
    for number, line in enumerate(text.splitlines()):
        document = _document(line)
        if document is not None:
            for keys, name in _keys(document):
                yield Removal(probe, path, number, keys, f"{called}{name}")
            yield Removal(probe, path, number, (), f"{called}#")
        elif line.strip():
            yield Removal(probe, path, number, (), f"{called}#{_head(line)}")


def _less(text: str, removal: Removal) -> str:
    if removal.keys:
        return _changed(text, removal, None)
    assert removal.line is not None
    lines = text.splitlines(keepends=True)
    del lines[removal.line]
    return "".join(lines)


def _changed(text: str, removal: Removal, value: Mapping[str, str] | None) -> str:
    """The text with this in the place of what the keys lead to, or without that."""
    if removal.line is None:
        header, document = _split(text)
        return header + json.dumps(_set(json.loads(document), removal.keys, value)) + "\n"
    lines = text.splitlines(keepends=True)
    lines[removal.line] = json.dumps(_set(json.loads(lines[removal.line]), removal.keys, value)) + "\n"
    return "".join(lines)


def _split(text: str) -> tuple[str, str]:
    """What the collector writes before a device's document, and the document."""
    found = _HEADER.match(text)
    return (found.group(), text[found.end():]) if found else ("", text)


def _document(text: str) -> Mapping[str, Any] | list[Any] | None:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, (dict, list)) else None


def _keys(value: Any, way: tuple[Step, ...] = (), name: str = "") -> Iterator[tuple[tuple[Step, ...], str]]:
    """Ways to each key of each object, and to each row of each table (a list of objects)."""
    if isinstance(value, dict):
        for key, held in value.items():
            yield (*way, key), f"{name}.{plain(key)}"
            yield from _keys(held, (*way, key), f"{name}.{plain(key)}")
    elif isinstance(value, list):
        for number, held in enumerate(value):
            if isinstance(held, (dict, list)):
                if isinstance(held, dict):
                    yield (*way, number), f"{name}[]"
                yield from _keys(held, (*way, number), f"{name}[]")


def _set(value: Any, keys: tuple[Step, ...], new: Mapping[str, str] | None) -> Any:
    """The document with this in the place of what the way leads to, or without that."""
    first, *rest = keys
    held = dict(value) if isinstance(value, dict) else list(value)
    if rest:
        held[first] = _set(held[first], tuple(rest), new)
    elif new is None:
        del held[first]
    else:
        held[first] = new
    return held


def _head(line: str) -> str:
    """What a line is about: what stands before its colon, equals sign or first space."""
    return plain(re.split(r"[:=]|\s{2,}|\s", line.strip(), maxsplit=1)[0])[:40]
