"""The files of a capture as a fact builder reads them, and what was made of those that nodes and looks have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, TypeVar, cast

from healthcheck.facts.text import MOST_PATHS
from healthcheck.facts.values import UNSUPPORTED, Unmeasured, Unread
from healthcheck.model.recording import FileCapture, Kin, Kindred, Outcome

T = TypeVar("T")

_FILE_WHY = {
    Outcome.MISSING: "no such file", Outcome.DENIED: "permission denied", Outcome.TIMEOUT: "reading it hung",
    Outcome.TRUNCATED: "longer than its limit", Outcome.CRASHED: "reading it failed", Outcome.WEDGED: "reading it is wedged",
}

# What devices' files were made into, with the paths that were asked for in vain; of devices whose files are short.
_Key = tuple[Callable[..., Any], tuple[str, ...], tuple[FileCapture | None, ...], tuple[Any, ...]]
_ALIKE: dict[_Key, tuple[Any, set[str]]] = {}
_MOST_ALIKE, _SHORT = 8192, 4096

# Looked up once: an enum's members cost more than the rest of reading a small file.
_DONE, _MISSING = Outcome.DONE, Outcome.MISSING
_OUTCOME = attrgetter("outcome")


class _Split(NamedTuple):
    """The paths of a capture that are nobody's own, and what gets their entries."""

    paths: tuple[str, ...]
    others: Callable[[Mapping[str, FileCapture]], tuple[FileCapture, ...]]


def _split(own: Callable[[str], bool], paths: tuple[str, ...]) -> _Split | None:
    """None where that is not worth it, or too much."""
    return _split_of(own, paths) if len(paths) <= MOST_PATHS else None


@lru_cache(maxsize=64)
def _split_of(own: Callable[[str], bool], paths: tuple[str, ...]) -> _Split | None:
    others = tuple(path for path in paths if not own(path))
    return _Split(others, itemgetter(*others)) if len(others) > 1 else None


# By what makes them the last few things that were made of whole captures: the split, its entries, what else went in, what came of it and
# which paths were asked for in vain. Never changed in place: several threads may read.
_WHOLE: dict[Callable[..., Any], tuple[tuple[_Split, tuple[FileCapture, ...], tuple[Any, ...], Any, set[str]], ...]] = {}
_MOST_WHOLE, _MOST_TEXT = 8, 128 * 1024


_NONE: Mapping[str, str] = {}
_NOTHING = object()


def _are_all(own: Callable[[str], bool], kin: Kin) -> bool:
    """Whether all files that differ between entries of this kin are such."""
    known = kin.made.get(own)
    if known is None:
        known = kin.made[own] = all(map(own, kin.own))
    return bool(known)


class Files:
    """The entries of a FILES or MOUNTS capture; remembers which it could not give, so that nothing goes unseen.

    Whoever reads a file that is each node's own is told of through `reads_own`. That it is there they have in common.
    """

    def __init__(self, entries: Mapping[str, FileCapture], reads_own: Callable[[], object] = lambda: None) -> None:
        self._entries = entries
        self._asked: set[str] = set()
        self._kin: Kin | None = None
        self._own: Mapping[str, str] = _NONE        # what its own files say, which are wholly there
        self._others = entries
        if type(entries) is Kindred:
            self._kin, self._own, self._others = entries.kin, entries.texts, entries.kin.base
        self._reads_own = reads_own

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def has(self, path: str) -> bool:
        """Whether there is such a file at all, readable or not."""
        entry = self._others.get(path)
        return entry is not None and entry.outcome is not _MISSING

    def truncated(self, path: str) -> bool:
        """Whether only a part of this file was kept."""
        entry = self._others.get(path)
        return entry is not None and entry.outcome is Outcome.TRUNCATED

    def outcome(self, path: str) -> Outcome | None:
        """How reading a file ended; None where that was not tried."""
        entry = self._others.get(path)
        return entry.outcome if entry is not None else None

    def complaint(self, path: str) -> str:
        """What there is of a file that was not wholly read: the system's error, say."""
        entry = self._others.get(path)
        return entry.text.strip() if entry is not None and entry.outcome is not _DONE else ""

    def must(self, *paths: str) -> None:
        """Raises Unread where one of these is not wholly there; what they say is of no account."""
        for path in paths:
            if path not in self._own:
                self.text(path)

    def text(self, path: str, *, part: bool = False) -> str:
        """The file's text, stripped of surrounding white space; raises Unread when it is not wholly there.

        With `part`, what was kept of a truncated file will do: the builder then answers with Partial.
        """
        if path in self._own:
            self._reads_own()
            return self._own[path].strip()
        entry = self._others.get(path)
        if entry is not None and entry.outcome is _DONE:
            return entry.text.strip()
        self._asked.add(path)
        if entry is None:
            raise Unread(f"{path} was not captured")
        if not (part and entry.outcome is Outcome.TRUNCATED):
            detail = f" ({entry.text.strip()[:60]})" if entry.outcome is Outcome.CRASHED and entry.text else ""
            raise Unread(f"{path}: {_FILE_WHY[entry.outcome]}{detail}")
        return entry.text.strip()

    def read(self, path: str, parse: Callable[[str], T]) -> Any:
        """`parse` of the file's text; Unmeasured when it is not there or is not what `parse` takes (ValueError, IndexError)."""
        try:
            return parse(self.text(path))
        except Unread as error:
            return Unmeasured(str(error))
        except (ValueError, IndexError, KeyError):
            return Unmeasured(f"{path} holds {self.text(path)[:40]!r}, which is not of the documented form")

    def optional(self, path: str, parse: Callable[[str], T]) -> Any:
        """As `read`; UNSUPPORTED where there is no such file."""
        return self.read(path, parse) if self.has(path) else UNSUPPORTED

    def found(self, find: Callable[[tuple[str, ...]], T]) -> T:
        """`find` of all paths, made once for all the nodes that are known to have the same."""
        kin = self._kin
        if kin is None:
            return find(tuple(self._entries))
        known = kin.made.get(find, _NOTHING)
        if known is _NOTHING:
            known = kin.made[find] = find(kin.paths)
        return cast(T, known)

    def alike(self, paths: tuple[str, ...], make: Callable[..., T], *about: Any) -> T:
        """`make(files, *about)`, made once for all the nodes on which these files say the same. It may read no others.

        What differs between nodes or looks (a serial number, a temperature) is better read apart and added afterwards.
        """
        held = tuple(map(self._entries.get, paths))
        if self._own and not self._own.keys().isdisjoint(paths):
            # Hardly another will say the same: what is kept is for those that are alike.
            self._reads_own()
            return self._part(paths, held, make, about)[0]
        key = (make, paths, held, about)
        known = _ALIKE.get(key)
        if known is None:
            known = self._part(paths, held, make, about)
            if sum(len(entry.text) for entry in held if entry is not None) <= _SHORT:
                if len(_ALIKE) >= _MOST_ALIKE:
                    _ALIKE.clear()
                _ALIKE[key] = known
        self._asked |= known[1]
        return cast(T, known[0])

    def _part(
        self, paths: tuple[str, ...], held: tuple[FileCapture | None, ...], make: Callable[..., T], about: tuple[Any, ...],
    ) -> tuple[T, set[str]]:
        part = Files({path: entry for path, entry in zip(paths, held, strict=True) if entry is not None})
        value = make(part, *about)
        self._asked |= part._asked
        return value, part._asked

    def but(self, own: Callable[[str], bool], make: Callable[..., T], *about: Any) -> T:
        """`make(files, *about)` of all files but those that are a node's or a look's `own`, made once for nodes on which they say the same.

        As `alike`, for a whole capture at once. `make` reads no file of its own; whether those could be read is still to be asked.
        """
        entries, kin = self._entries, self._kin
        if kin is not None:
            if _are_all(own, kin):
                made: tuple[tuple[tuple[Any, ...], Any, set[str]], ...] = kin.made.get((own, make), ())
                for told, value, asked in made:
                    if told == about:
                        self._asked |= asked
                        return cast(T, value)
                part = Files({path: entry for path, entry in kin.base.items() if not own(path)})
                value = make(part, *about)
                self._asked |= part._asked
                kin.made[own, make] = ((about, value, part._asked), *made)[:_MOST_WHOLE]
                return value
            self._reads_own()
        split = _split(own, tuple(entries))
        if split is None:
            return make(self, *about)
        held = split.others(entries)
        known = _WHOLE.get(make, ())
        for at, (of, said, told, value, asked) in enumerate(known):
            # Mostly the very same entries, of which comparing costs nothing.
            if of is split and said == held and told == about:
                if at:
                    _WHOLE[make] = (known[at], *known[:at], *known[at + 1:])
                self._asked |= asked
                return cast(T, value)
        part = Files(dict(zip(split.paths, held, strict=True)))
        value = make(part, *about)
        self._asked |= part._asked
        if sum(len(entry.text) for entry in held) <= _MOST_TEXT:
            _WHOLE[make] = ((split, held, about, value, part._asked), *known)[:_MOST_WHOLE]
        return value

    def passed_over(self, paths: Iterable[str]) -> None:
        """Takes these for seen: nothing is made of them, and whether they could be read is of no account."""
        self._asked.update(paths)

    def unseen(self) -> str | None:
        """Why an entry that nobody asked for is unusable (an unlistable directory, say), or None."""
        asked = self._asked
        if self._kin is not None:
            return next((f"{path}: {_FILE_WHY[outcome]}" for path, outcome in self._kin.odd.items() if path not in asked), None)
        for path, outcome in zip(self._entries, map(_OUTCOME, self._entries.values()), strict=True):
            if outcome is not _DONE and outcome is not _MISSING and path not in asked:
                return f"{path}: {_FILE_WHY[outcome]}"
        return None


@dataclass(frozen=True)
class Said:
    """What one device's command said: its exit status, standard output, and the last line of its standard error."""

    exit: int
    text: str
    complaint: str = ""


def said(path: str, entry: FileCapture) -> Said | Unmeasured:
    """What one entry of a probe with `each` holds; Unmeasured where the command did not come to its end by itself."""
    head, _, rest = entry.text.partition("\n")
    if entry.outcome is not Outcome.DONE:
        detail = f" ({head[:200]})" if head else ""
        return Unmeasured(f"{path}: the command's outcome is {entry.outcome.value}{detail}")
    word, _, complaint = head.removeprefix("exit ").partition(": ")
    try:
        return Said(int(word), rest, complaint)
    except ValueError:
        return Unmeasured(f"{path}: no exit status was captured")
