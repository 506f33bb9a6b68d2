"""What every fact is made of: readings that may be unmeasured, the captures a fact is built from, and the registry.

A fact is a frozen dataclass that derives from `Fact`. Each field is a value, `UNSUPPORTED` (the device has no such thing) or
`Unmeasured(reason)`. Fields are annotated with the value's type alone, because a check only ever meets values: the judge
turns the reading of anything else into UNKNOWN before the check can see it (`healthcheck.judge`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from healthcheck.outcome import Origin
from healthcheck.probes import Kind, Probe
from healthcheck.recording import Capture, FileCapture, Host, Outcome, Recording


@dataclass(frozen=True)
class Unmeasured:
    """A value that is not known, and why, in one line."""

    reason: str
    origin: Origin = Origin.NODE


class Unsupported(Enum):
    """The type of `UNSUPPORTED`: the device says that it has no such thing."""

    UNSUPPORTED = "unsupported"


UNSUPPORTED = Unsupported.UNSUPPORTED


@dataclass(frozen=True)
class Partial:
    """A fact of which only a part was measured: a check may find faults in the part, but cannot pass."""

    value: Any
    reason: str


class Fact:
    """Base of all facts. Each has a `name` that is always measured: the subject as findings call it.

    `caveat` says what a PASS over this fact does not cover, and is shown beside it; mostly empty.
    """

    name: str
    caveat: str = ""


class Unread(Exception):
    """Inside a fact builder: what it needs was not captured; its text is the reason."""


T = TypeVar("T")


def made(kind: type[T], fields: dict[str, Any]) -> T:
    """`kind(**fields)` of a frozen dataclass, of which every field must be given.

    Its own __init__ sets fields one by one through object.__setattr__, which is most of what hundreds of links and GPUs of 75 fields cost.
    """
    instance = object.__new__(kind)
    object.__setattr__(instance, "__dict__", fields)
    return instance


def why(probe: Probe, capture: Capture | None) -> str:
    """Why a capture holds nothing to rely on, in one line that names the probe's tool or files."""
    what = probe.argv[0] if probe.kind is Kind.COMMAND else probe.id
    if capture is None:
        return f"{what} was not captured"
    note = f": {capture.note}" if capture.note else ""
    if capture.outcome is Outcome.MISSING:
        return f"{what} is not there{note}"
    if capture.outcome is Outcome.DENIED:
        return f"{what}: permission denied{note}" + (" (needs root)" if probe.root else "")
    if capture.outcome is Outcome.TIMEOUT:
        return f"{what} did not answer within {probe.seconds:g} s{note}"
    if capture.outcome is Outcome.TRUNCATED:
        return f"{what} said more than {probe.limit // 1024} KiB; the rest was dropped{note}"
    if capture.outcome is Outcome.CRASHED:
        return f"{what} crashed" + (f" (signal {-capture.exit})" if capture.exit is not None else "") + note
    if capture.outcome is Outcome.WEDGED:
        return f"{what} is wedged{note}"
    lines = capture.stderr.strip().splitlines()
    return f"{what} ended with exit status {capture.exit}" + (f": {lines[-1][:200]}" if lines else "")


_FILE_WHY = {
    Outcome.MISSING: "no such file", Outcome.DENIED: "permission denied", Outcome.TIMEOUT: "reading it hung",
    Outcome.TRUNCATED: "longer than its limit", Outcome.CRASHED: "reading it failed", Outcome.WEDGED: "reading it is wedged",
}


# Looked up once: an enum's members cost more than the rest of reading a small file.
_DONE, _MISSING = Outcome.DONE, Outcome.MISSING


class Files:
    """The entries of a FILES or MOUNTS capture; remembers which were asked for, so that nothing goes unseen."""

    def __init__(self, entries: Mapping[str, FileCapture]) -> None:
        self._entries = entries
        self._asked: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def has(self, path: str) -> bool:
        """Whether there is such a file at all, readable or not."""
        entry = self._entries.get(path)
        return entry is not None and entry.outcome is not _MISSING

    def truncated(self, path: str) -> bool:
        """Whether only a part of this file was kept."""
        return path in self._entries and self._entries[path].outcome is Outcome.TRUNCATED

    def text(self, path: str, *, part: bool = False) -> str:
        """The file's text, stripped of surrounding white space; raises Unread when it is not wholly there.

        With `part`, what was kept of a truncated file will do: the builder then answers with Partial.
        """
        self._asked.add(path)
        entry = self._entries.get(path)
        if entry is None:
            raise Unread(f"{path} was not captured")
        if entry.outcome is not Outcome.DONE and not (part and entry.outcome is Outcome.TRUNCATED):
            detail = f" ({entry.text.strip()[:60]})" if entry.outcome is Outcome.CRASHED and entry.text else ""
            raise Unread(f"{path}: {_FILE_WHY[entry.outcome]}{detail}")
        return entry.text.strip()

    def read(self, path: str, parse: Callable[[str], T]) -> Any:
        """`parse` of the file's text; Unmeasured when it is not there or is not what `parse` takes (ValueError, IndexError)."""
        entry = self._entries.get(path)
        if entry is not None and entry.outcome is _DONE:    # nearly always, and there are hundreds
            self._asked.add(path)
            text = entry.text.strip()
        else:
            try:
                text = self.text(path)
            except Unread as error:
                return Unmeasured(str(error))
        try:
            return parse(text)
        except (ValueError, IndexError, KeyError):
            return Unmeasured(f"{path} holds {text[:40]!r}, which is not of the documented form")

    def unseen(self) -> str | None:
        """Why an entry that nobody asked for is unusable (an unlistable directory, say), or None."""
        for path, entry in self._entries.items():
            if path not in self._asked and entry.outcome is not _DONE and entry.outcome is not _MISSING:
                return f"{path}: {_FILE_WHY[entry.outcome]}"
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


Builder = Callable[["Captures"], Any]


class Captures:
    """One reached node's recording as a fact builder sees it: asks by probe, and is told Unread when it cannot be had."""

    def __init__(self, recording: Recording) -> None:
        if recording.host is None:
            raise ValueError("a node that was not reached has no facts")
        self.host: Host = recording.host
        self.node = recording.node          # as the inventory calls it
        self.received = recording.received  # by the head's clock
        self._captures = recording.captures
        self._built: dict[Builder, Any] = {}

    def once(self, build: Builder) -> Any:
        """What `build` makes of these captures, made at most once for all the facts that share it; what it raises is not kept."""
        if build not in self._built:
            self._built[build] = build(self)
        return self._built[build]

    def capture(self, probe: Probe) -> Capture | None:
        """The raw capture, whatever its outcome."""
        return self._captures.get(probe.id)

    def text(self, probe: Probe) -> str:
        """What a command, clock or NVML probe printed, when it ended well; raises Unread otherwise."""
        capture = self._captures.get(probe.id)
        if capture is None or capture.outcome is not Outcome.DONE or capture.exit not in (0, None):
            raise Unread(why(probe, capture))
        return capture.text

    def files(self, probe: Probe) -> Files:
        """The entries of a FILES or MOUNTS probe, as far as it came; raises Unread when it never ran."""
        capture = self._captures.get(probe.id)
        if capture is None or capture.outcome not in (Outcome.DONE, Outcome.TRUNCATED, Outcome.TIMEOUT):
            raise Unread(why(probe, capture))
        return Files(capture.files)

    def devices(self, probe: Probe) -> Mapping[str, Said | Unmeasured]:
        """By the device's path, what a command with `each` said of it; raises Unread where none was asked (no tool, say)."""
        capture = self._captures.get(probe.id)
        if capture is None or capture.outcome not in (Outcome.DONE, Outcome.TRUNCATED, Outcome.TIMEOUT):
            raise Unread(why(probe, capture))
        return {path: said(path, entry) for path, entry in capture.files.items()}


@dataclass(frozen=True)
class FactSpec:
    """A registered fact: its name as checks ask for it, the probes it is built from, and the builder.

    `besides` are probes that add to the fact where they were captured, and that it does without where they were not.
    """

    name: str
    probes: tuple[Probe, ...]
    build: Builder
    besides: tuple[Probe, ...] = ()


FACTS: dict[str, FactSpec] = {}


def fact(name: str, *probes: Probe, besides: tuple[Probe, ...] = ()) -> Callable[[Builder], Builder]:
    """Registers a builder of the fact `name`. It returns the fact (or a tuple of facts), Partial or Unmeasured, or raises Unread."""

    def register(build: Builder) -> Builder:
        if name in FACTS and FACTS[name].build.__module__ != build.__module__:
            raise ValueError(f"the fact {name} is defined in {FACTS[name].build.__module__} already")
        FACTS[name] = FactSpec(name, probes, build, besides)
        return build

    return register


def build_fact(spec: FactSpec, captures: Captures) -> Any:
    """The fact's value, Partial or Unmeasured; never raises for what a node said.

    Enforced here and not left to builders: a fact from a probe that did not end well is at best Partial.
    """
    try:
        value = captures.once(spec.build)
    except Unread as error:
        return Unmeasured(str(error))
    except Exception as error:  # noqa: BLE001  (a parser that foreign bytes can upset must cost one fact, not the sweep)
        return Unmeasured(f"{spec.name} could not be read from what the node said ({type(error).__name__})")
    if isinstance(value, (Unmeasured, Partial)):
        return value
    for probe in spec.probes:
        capture = captures.capture(probe)
        if capture is not None and capture.outcome in (Outcome.TRUNCATED, Outcome.TIMEOUT):
            return Partial(value, why(probe, capture))
    return value
