"""Files of captures, known at sight: those of a fleet's nodes are equal to the letter but for a few, which are each node's own.

A form is the text that we write of a capture's files, cut where those stand that differ: a text that has all of the form's pieces, with
one value between each two, is of the same files, and only the values are read. Which files differ is learned: from the second text, and
from those that follow, until a file that rarely differs is no more taken for each node's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]  # what json.loads reads a string with

from healthcheck.model.recording import Entries, FileCapture, Kin, Kindred

# One file of a capture in JSON, from behind the first quote to before the last: path":["done","text
Read = Callable[[bytes], tuple[str, FileCapture]]
BETWEEN, END = b'"],"', b'"]}'
_DONE = b'":["done","'
_LARGE = 64 * 1024
# Forms of captures that begin with the same path, such paths, and bytes of text in all of them; a fleet of one SKU needs some 100 KiB.
_MOST, _MOST_KEYS, _MOST_TEXT = 6, 128, 8 * 1024 * 1024
# After so many texts of a form those files are its own no more that differed less than twice from the text before.
_YOUNG = 8
# So often, and in more than one text of so many, a file differs that the form has in common: it is each node's own as well.
_TIMES, _OF = 3, 8
_LONGEST_PATH = 4096
_NEAR = 1024


class _Form:
    """The files of a text (`pieces`), cut at those that each node has its own of (`own`)."""

    def __init__(self, pieces: Sequence[bytes], entries: Entries, own: Sequence[int]) -> None:
        self.pieces, self.own = pieces, own
        self.paths = tuple(entries)
        self.size = sum(map(len, pieces))
        self.met = 0
        self.odd: dict[int, int] = {}
        self._entries = entries
        self._kin = Kin(entries, [self.paths[at] for at in own])
        self._cuts: list[bytes] = []
        start = 0
        for at in own:
            self._cuts.append(BETWEEN.join([*([b""] if start else []), *pieces[start:at], _head(pieces[at])]))
            start = at + 1
        self._rest = BETWEEN.join([*([b""] if start else []), *pieces[start:]]) + END
        # Of its own files the last ends where all of them end.
        self._ends = [BETWEEN] * len(own)
        if own and start == len(pieces):
            self._ends[-1] = END
        self._before: list[bytes] = []
        self._changes = [0] * len(own)

    def match(self, data: bytes, begins: int) -> tuple[Entries | Kindred, int] | None:
        """The entries that are said from there on, and where they end; None where it is of another form, or a value cannot be read."""
        at, values = begins, []
        for cut, end in zip(self._cuts, self._ends, strict=True):
            if not data.startswith(cut, at):
                return None
            start = at + len(cut)
            at = _ends(data, end, start)
            if at < 0:
                return None
            values.append(data[start:at])
        if not data.startswith(self._rest, at):
            return None
        at += len(self._rest)
        if not values:
            self.met += 1
            return self._entries, at
        try:
            texts = list(map(_text, values))
        except ValueError:
            return None
        self.met += 1
        if self.met <= _YOUNG:
            if self._before:
                self._changes = [count + (one != other) for count, one, other in zip(self._changes, values, self._before, strict=True)]
            self._before = values
        return Kindred(self._kin, dict(zip(self._kin.own, texts, strict=True)), at - begins), at

    def narrowed(self, read: Read) -> _Form | None:
        """The form without those files of its own that hardly ever differed, once that can be told; None where there are none."""
        if self.met != _YOUNG or not self.own:
            return None
        own = [at for at, count in zip(self.own, self._changes, strict=True) if count > 1]
        if len(own) == len(self.own):
            return None
        pieces = list(self.pieces)
        for at, value in zip(self.own, self._before, strict=True):
            pieces[at] = _head(pieces[at]) + value
        return _Form(pieces, Entries(map(read, pieces)), own)

    def widened(self, pieces: Sequence[bytes], entries: Entries) -> _Form | None:
        """The form of a text of the same files that is not of this one, if there is to be one; else it is remembered what differs."""
        if self.paths != tuple(entries):
            return None
        differ = [at for at, (one, other) in enumerate(zip(self.pieces, pieces, strict=True)) if one != other and at not in self.own]
        if self.met:
            for at in differ:
                self.odd[at] = self.odd.get(at, 0) + 1
            differ = [at for at, times in list(self.odd.items()) if times >= _TIMES and times * _OF > self.met]
        if not differ or not all(_DONE in self.pieces[at] and _head(self.pieces[at]) == _head(pieces[at]) for at in differ):
            return None
        return _Form(pieces, entries, sorted({*self.own, *differ}))


def _ends(data: bytes, end: bytes, start: int) -> int:
    """Where the value ends that begins there; below 0 where it does not within the capture's files.

    Where it is not near it is not sought past these files: of a document of many small captures the rest would be searched for each.
    """
    at = data.find(end, start, start + _NEAR)
    return at if at >= 0 else data.find(end, start, data.find(END, start) + len(END))


def _head(piece: bytes) -> bytes:
    """Of a file that was wholly read all but its text. (In its path no quote stands alone.)"""
    return piece[:piece.find(_DONE) + len(_DONE)]


def _text(value: bytes) -> str:
    """Raises ValueError for what is no text of a file, whole and not empty."""
    closed = value.decode("utf-8", "surrogatepass") + '"'
    text, end = scanstring(closed, 0)
    if end < len(closed) or not text:
        raise ValueError(value)
    return str(text)


# Never changed in place: several threads may read.
_FORMS: dict[bytes, tuple[_Form, ...]] = {}


def find(data: bytes, begins: int, read: Read) -> tuple[Entries | Kindred, int] | None:
    """The entries that are said from there on, as far as the end of the capture's files, if they are of a known form."""
    key = _first_path(data, begins)
    forms = _FORMS.get(key, ())
    for form in forms:
        found = form.match(data, begins)
        if found is not None:
            if form.met == _YOUNG and (narrowed := form.narrowed(read)) is not None:
                _keep(key, [narrowed if one is form else one for one in forms])
            return found
    return None


def _first_path(data: bytes, begins: int) -> bytes:
    return data[begins:max(begins, data.find(b'"', begins, begins + _LONGEST_PATH))]


def learn(text: bytes, read: Read) -> Entries:
    """The entries in a text of no known form; `read` reads each. What that raises is raised."""
    pieces = text.split(BETWEEN)
    entries = Entries(map(read, pieces), len(text))
    if len(text) <= _LARGE and len(entries) == len(pieces):
        _learn(_first_path(text, 0), pieces, entries)
    return entries


def _learn(key: bytes, pieces: Sequence[bytes], entries: Entries) -> None:
    forms = _FORMS.get(key, ())
    for form in forms:
        wider = form.widened(pieces, entries)
        if wider is not None:
            _keep(key, [wider if one is form else one for one in forms])
            return
    least = min(forms, key=lambda form: form.met) if len(forms) >= _MOST else None
    _keep(key, [*(form for form in forms if form is not least), _Form(pieces, entries, ())])


def _keep(key: bytes, forms: Sequence[_Form]) -> None:
    if len(_FORMS) >= _MOST_KEYS or sum(form.size for others in list(_FORMS.values()) for form in others) > _MOST_TEXT:
        _FORMS.clear()
    # What has the most in common comes first.
    _FORMS[key] = tuple(sorted(forms, key=lambda form: len(form.own)))
