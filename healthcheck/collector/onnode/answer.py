"""Keeps the reply within its limit: the largest captures are cut and marked."""

from __future__ import annotations

import json
from typing import Any, Dict, Set


def fit(captures: Dict[str, Dict[str, Any]], limit: int, tails: Set[str]) -> Dict[str, Dict[str, Any]]:
    """The same captures in at most so many bytes of JSON; the largest are cut and marked."""
    sizes = {name: len(json.dumps({name: made})) for name, made in captures.items()}
    while sizes and sum(sizes.values()) > limit:
        name = max(sizes, key=lambda key: sizes[key])
        made = captures[name] = shrink(captures[name], sizes[name] // 2 - 200, name in tails)
        sizes[name] = len(json.dumps({name: made}))
        if not (made.get("files") or made.get("text") or made.get("stderr") or made.get("note")):
            del sizes[name]
            limit -= 200
    return captures


def clip(text: str, room: int, tail: bool) -> str:
    """The beginning of a text, or its last whole lines, in at most so many bytes of JSON."""
    whole = text
    while text and len(json.dumps(text)) > room:
        half = len(text) // 2
        text = text[len(text) - half:] if tail else text[:half]
    return text[text.find("\n") + 1:] if tail and len(text) < len(whole) else text


def shrink(made: Dict[str, Any], room: int, tail: bool) -> Dict[str, Any]:
    """A smaller capture: what does not fit is cut, or dropped from the end."""
    less = dict(made, outcome="truncated" if made["outcome"] == "done" else made["outcome"])
    for key in ("text", "stderr", "note"):
        if key in made:
            less[key] = clip(made[key], room, tail)
    files: Dict[str, Any] = {}
    for path, entry in made.get("files", {}).items():
        size = len(json.dumps([path, entry]))
        if size > room:
            outcome = "truncated" if entry[0] == "done" else entry[0]
            entry = [outcome, *(clip(found, room - len(json.dumps(path)), tail) for found in entry[1:])]
            size = len(json.dumps([path, entry]))
        if size > room:
            break
        room -= size
        files[path] = entry
    less["files"] = files
    return less
