"""Reads recordings from bytes: what json.loads and from_json make of them, in half the time where they are as we write them.

Two thirds of a recording are short files, and of those a fleet's nodes, like two looks at one node, say nearly all alike. So the files
of each capture are cut out of the text and known at sight (judge.entryforms), and of those that are not, the pieces that were met
before are looked up, not parsed. Whatever is not of the form
that we write is left to json.loads, which therefore also says what is wrong with it.
"""

from __future__ import annotations

import json
from json.decoder import scanstring  # type: ignore[attr-defined]  # what json.loads reads a string with
from typing import Any

from healthcheck.model import entryforms
from healthcheck.model.recording import Entries, FileCapture, Kindred, Recording, file_of, from_json

_BEGIN, _END_AND_NEXT = b'"files":{"', b'"]}},"'


class _Odd(ValueError):
    """It may be JSON, and even a recording, but not one as we write them."""


def read(data: bytes) -> Recording:
    """The recording in a document of ours. Raises RecordingError for what is none; ValueError or RecursionError for what is not JSON."""
    try:
        return from_json(_quick(data))
    except (ValueError, LookupError, RecursionError):
        return from_json(json.loads(data))


def loads(data: bytes) -> Any:
    """What json.loads makes of a document that holds recordings, but that files of captures may be read already (Entries, Kindred)."""
    try:
        return _quick(data)
    except (ValueError, LookupError, RecursionError):
        return json.loads(data)


def _quick(data: bytes) -> Any:
    # json.loads takes for UTF-8 what begins so; a byte order mark, or two or four bytes to a character, do not.
    if data[:1] != b"{" or 0 in data[:4]:
        raise _Odd
    held: list[Entries | Kindred] = []
    frame, at = [], 0
    begin = data.find(_BEGIN)
    if begin < 0:
        return json.loads(data)
    while begin >= 0:
        begins = begin + len(_BEGIN)
        known = entryforms.find(data, begins, _MET.__getitem__)
        if known is None:
            following = data.find(_BEGIN, begins)
            limit = following if following >= 0 else len(data)
            # What closes a capture's files closes the capture, and the next begins. (In a string every quote is escaped.)
            ends = data.rfind(_END_AND_NEXT, begins, limit)
            if ends < 0:
                ends = data.index(entryforms.END, begins, limit)
            held.append(entryforms.learn(data[begins:ends], _MET.__getitem__))
            ends += len(entryforms.END)
        else:
            entries, ends = known
            held.append(entries)
            following = data.find(_BEGIN, ends)
        frame.append(data[at:begin])
        at, begin = ends, following
    frame.append(data[at:])
    # In the place of each stands a constant that JSON has not. As many are met as were put there, or some were there before: so each
    # that is met stands for its own files, and they were a value where it is one.
    held.reverse()
    document = json.loads(b'"files":NaN'.join(frame), parse_constant=lambda _: held.pop())
    if held:
        raise _Odd
    return document


def read_files(data: bytes) -> Entries | Kindred:
    """The files of a capture in an object of their own; raises ValueError for what is not as we write it, JSON or not."""
    if not (data.startswith(b'{"') and data.endswith(entryforms.END)):
        raise _Odd
    known = entryforms.find(data, 2, _MET.__getitem__)
    return known[0] if known is not None and known[1] == len(data) else entryforms.learn(data[2:-3], _MET.__getitem__)


class _Met(dict[bytes, tuple[str, FileCapture]]):
    """Paths and files by the JSON that says them, from behind the first quote to before the last: what is not there is read, and kept.

    Of pieces each of which is read to its end, the whole is what they say one after another: none was cut in the midst of a string.
    """

    def __missing__(self, piece: bytes) -> tuple[str, FileCapture]:
        closed = piece.decode("utf-8", "surrogatepass") + '"'
        path, at = scanstring(closed, 0)
        outcome, text = "done", ""
        if closed.startswith(':["done","', at):
            text, at = scanstring(closed, at + 10)
        elif closed.startswith(':["', at):
            outcome, at = scanstring(closed, at + 3)
            if closed.startswith(',"', at):
                text, at = scanstring(closed, at + 2)
        else:
            raise _Odd
        if at < len(closed):
            raise _Odd
        made = path, file_of(outcome, text)
        if len(piece) <= _SHORT:
            if len(self) >= _MOST_MET:
                self.clear()
            self[piece] = made
        return made


_MET = _Met()
_MOST_MET, _SHORT = 16384, 256
