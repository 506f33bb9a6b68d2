"""The files of a capture as a fact builder reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from healthcheck.facts.values import UNSUPPORTED, Unmeasured, Unread
from healthcheck.model.recording import FileCapture, Outcome

T = TypeVar("T")

_FILE_WHY = {
    Outcome.MISSING: "no such file", Outcome.DENIED: "permission denied", Outcome.TIMEOUT: "reading it hung",
    Outcome.TRUNCATED: "longer than its limit", Outcome.CRASHED: "reading it failed",
    Outcome.WEDGED: "reading it is wedged", Outcome.UNABLE: "our own reader could not read it",
}
# Looked up once: an enum's members cost more than the rest of reading a small file.
_DONE, _MISSING = Outcome.DONE, Outcome.MISSING
_USUAL, _outcome_of = frozenset((_DONE, _MISSING)), attrgetter("outcome")


class CapturedFiles:
    """The entries of a FILES or MOUNTS capture. It remembers which failed reads a builder handled, so that no
    other goes unnoticed."""

    def __init__(self, entries: Mapping[str, FileCapture]) -> None:
        self._entries = entries
        self._asked: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def items(self) -> Iterable[tuple[str, FileCapture]]:
        """Each path with its file as it was captured."""
        return self._entries.items()

    def __contains__(self, path: str) -> bool:
        return path in self._entries

    def has(self, path: str) -> bool:
        """Whether there is such a file at all, readable or not."""
        entry = self._entries.get(path)
        return entry is not None and entry.outcome is not _MISSING

    def truncated(self, path: str) -> bool:
        """Whether only a part of this file was kept."""
        return self.outcome(path) is Outcome.TRUNCATED

    def outcome(self, path: str) -> Outcome | None:
        """How reading a file ended; None where it was not tried."""
        entry = self._entries.get(path)
        return entry.outcome if entry is not None else None

    def entry(self, path: str) -> FileCapture | None:
        """A file as it was captured; None where it was not tried."""
        return self._entries.get(path)

    def complaint(self, path: str) -> str:
        """The text beside a file that was not read in whole, such as the system's error."""
        entry = self._entries.get(path)
        return entry.text.strip() if entry is not None and entry.outcome is not _DONE else ""

    def require(self, *paths: str) -> None:
        """Raises Unread unless each of these was read in whole."""
        for path in paths:
            self.text(path)

    def text(self, path: str, *, part: bool = False) -> str:
        """The file's text, stripped of surrounding white space; raises Unread unless it was read in whole.

        With `part`, the kept part of a truncated file is returned: the builder then returns Partial.
        """
        entry = self._entries.get(path)
        if entry is not None and entry.outcome is _DONE:
            return entry.text.strip()
        self._asked.add(path)
        if part and entry is not None and entry.outcome is Outcome.TRUNCATED:
            return entry.text.strip()
        raise Unread(_why(path, entry))

    def read(self, path: str, parse: Callable[[str], T]) -> Any:
        """`parse` of the file's text; Unmeasured where there is none or `parse` refuses it (ValueError,
        IndexError, KeyError)."""
        entry = self._entries.get(path)
        if entry is None or entry.outcome is not _DONE:
            self._asked.add(path)
            return Unmeasured(_why(path, entry))
        text = entry.text.strip()
        try:
            return parse(text)
        except (ValueError, IndexError, KeyError):
            return Unmeasured(f"{path} holds {text[:40]!r}, which is not in the documented format")

    def optional(self, path: str, parse: Callable[[str], T]) -> Any:
        """As `read`; UNSUPPORTED where there is no such file."""
        entry = self._entries.get(path)
        return UNSUPPORTED if entry is None or entry.outcome is _MISSING else self.read(path, parse)

    def ignore(self, paths: Iterable[str]) -> None:
        """Ignores whether these could be read."""
        self._asked.update(paths)

    def unreadable(self) -> str | None:
        """Why an entry that no builder read is unusable (an unlistable directory, for example), or None."""
        if _USUAL.issuperset(map(_outcome_of, self._entries.values())):
            return None
        for path, entry in self._entries.items():
            if entry.outcome is not _DONE and entry.outcome is not _MISSING and path not in self._asked:
                return f"{path}: {_FILE_WHY[entry.outcome]}"
        return None


def _why(path: str, entry: FileCapture | None) -> str:
    """Why a file was not read in whole."""
    if entry is None:
        return f"{path} was not captured"
    detail = f" ({entry.text.strip()[:60]})" if entry.outcome is Outcome.CRASHED and entry.text else ""
    return f"{path}: {_FILE_WHY[entry.outcome]}{detail}"


class DeviceOutput(NamedTuple):
    """What one device's command returned: its exit status, standard output, and the last line of its standard
    error."""

    exit: int
    text: str
    complaint: str = ""


def device_output(path: str, entry: FileCapture) -> DeviceOutput | Unmeasured:
    """One entry of a probe with `each`; Unmeasured where the command did not end by itself."""
    head, _, rest = entry.text.partition("\n")
    if entry.outcome is not Outcome.DONE:
        detail = f" ({head[:200]})" if head else ""
        return Unmeasured(f"{path}: the command's outcome is {entry.outcome.value}{detail}")
    word, _, complaint = head.removeprefix("exit ").partition(": ")
    try:
        return DeviceOutput(int(word), rest, complaint)
    except ValueError:
        return Unmeasured(f"{path}: no exit status was captured")
