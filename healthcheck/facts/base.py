"""What every fact is made of: readings that may be unmeasured, the captures a fact is built from, and the registry.

A fact is a frozen dataclass that derives from `Fact`. Each field is a value, `UNSUPPORTED` (the device has no such thing) or
`Unmeasured(reason)`. Fields are annotated with the value's type alone, because a check only ever meets values: the judge
turns the reading of anything else into UNKNOWN before the check can see it (`healthcheck.judge`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Protocol, TypeVar, cast

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
    if capture.outcome is Outcome.TIMEOUT and 0 < capture.seconds < probe.seconds - 0.5:
        return f"{what} had not answered after {capture.seconds:.1f} s, when this look's time was over{note}"
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


# What devices' files were made into, with the paths that were asked for in vain; of devices whose files are short.
_Key = tuple[Callable[..., Any], tuple[str, ...], tuple[FileCapture | None, ...], tuple[Any, ...]]
_ALIKE: dict[_Key, tuple[Any, set[str]]] = {}
_MOST_ALIKE, _SHORT = 8192, 4096

# Looked up once: an enum's members cost more than the rest of reading a small file.
_DONE, _MISSING = Outcome.DONE, Outcome.MISSING


class Files:
    """The entries of a FILES or MOUNTS capture; remembers which it could not give, so that nothing goes unseen."""

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
        entry = self._entries.get(path)
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
        entry = self._entries.get(path)
        try:
            # Nearly always, and there are hundreds.
            return parse(entry.text.strip() if entry is not None and entry.outcome is _DONE else self.text(path))
        except Unread as error:
            return Unmeasured(str(error))
        except (ValueError, IndexError, KeyError):
            return Unmeasured(f"{path} holds {self.text(path)[:40]!r}, which is not of the documented form")

    def optional(self, path: str, parse: Callable[[str], T]) -> Any:
        """As `read`; UNSUPPORTED where there is no such file."""
        entry = self._entries.get(path)
        return UNSUPPORTED if entry is None or entry.outcome is _MISSING else self.read(path, parse)

    def alike(self, paths: tuple[str, ...], make: Callable[..., T], *about: Any) -> T:
        """`make(files, *about)`, made once for all the nodes on which these files say the same. It may read no others.

        What differs between nodes or looks (a serial number, a temperature) is better read apart and added afterwards.
        """
        held = tuple(map(self._entries.get, paths))
        key = (make, paths, held, about)
        known = _ALIKE.get(key)
        if known is None:
            part = Files({path: entry for path, entry in zip(paths, held, strict=True) if entry is not None})
            known = make(part, *about), part._asked
            if sum(len(entry.text) for entry in held if entry is not None) <= _SHORT:
                if len(_ALIKE) >= _MOST_ALIKE:
                    _ALIKE.clear()
                _ALIKE[key] = known
        self._asked |= known[1]
        return cast(T, known[0])

    def passed_over(self, paths: Iterable[str]) -> None:
        """Takes these for seen: nothing is made of them, and whether they could be read is of no account."""
        self._asked.update(paths)

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
Mark = tuple[Any, ...]
NOTHING = object()


class Store(Protocol):
    """Where what was built is kept for other captures that say the same (healthcheck.shared)."""

    def find(self, key: Mark) -> Any:
        """What was made of such captures, or NOTHING."""

    def keep(self, key: Mark, value: Any) -> Any:
        """Takes what was made of them; gives it back, or what is equal to it and known already."""


def _mark(capture: Capture | None) -> Mark | None:
    """What is equal for equal captures and for no others; None where that cannot be told (they were not read from JSON)."""
    if capture is None:
        return ()
    serial = getattr(capture.files, "serial", None) if capture.files else -1
    if serial is None:
        return None
    # How long it took is looked at only where it did not end. Of an enum's member the name is cheap to hash, and the member is not.
    seconds = capture.seconds if capture.outcome is Outcome.TIMEOUT else None
    return serial, capture.outcome._name_, capture.exit, seconds, capture.text, capture.stderr, capture.note


class Captures:
    """One reached node's recording as a fact builder sees it: asks by probe, and is told Unread when it cannot be had.

    `personal` becomes true when a builder asks for what no capture holds: such a fact is this look's alone, whatever the captures say.
    """

    def __init__(self, recording: Recording, store: Store | None = None) -> None:
        if recording.host is None:
            raise ValueError("a node that was not reached has no facts")
        self._recording = recording
        self._host: Host = recording.host
        self._captures = recording.captures
        self._store = store
        self._built: dict[Builder, tuple[Any, bool]] = {}
        self._marks: dict[str, Mark | None] = {}
        self.personal = False

    @property
    def host(self) -> Host:
        """What the collector says of the machine."""
        self.personal = True
        return self._host

    @property
    def node(self) -> str:
        """The node as the inventory calls it."""
        self.personal = True
        return self._recording.node

    @property
    def received(self) -> float:
        """When the answer was complete, by the head's clock."""
        self.personal = True
        return self._recording.received

    def once(self, build: Builder) -> Any:
        """What `build` makes of these captures, made at most once for all the facts that share it; what it raises is not kept."""
        known = self._built.get(build)
        if known is None:
            known = self._built[build] = self._build(build)
        self.personal = self.personal or known[1]
        return known[0]

    def _build(self, build: Builder) -> tuple[Any, bool]:
        """What a builder makes, and whether that is this look's alone; from the store where equal captures have brought it before."""
        key = self._key(BY_BUILDER[build]) if self._store is not None and build in BY_BUILDER else None
        if key is not None and self._store is not None and (stored := self._store.find(key)) is not NOTHING:
            return stored, False
        before, self.personal = self.personal, False
        try:
            value = build(self)
        except BaseException:
            # Who catches it may make something of that.
            self.personal = self.personal or before
            raise
        personal, self.personal = self.personal, before
        if key is not None and self._store is not None and not personal:
            value = self._store.keep(key, value)
        return value, personal

    def _key(self, spec: FactSpec) -> Mark | None:
        """What tells these captures of the fact's probes from all others, if anything does."""
        marks = [self._mark(probe.id) for probe in spec.everything]
        return None if None in marks else (spec.name, *marks)

    def _mark(self, probe: str) -> Mark | None:
        try:
            return self._marks[probe]
        except KeyError:
            mark = self._marks[probe] = _mark(self._captures.get(probe))
            return mark

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

    @cached_property
    def everything(self) -> tuple[Probe, ...]:
        """All probes that may take part in it; a builder reads the captures of no other."""
        return tuple(dict.fromkeys((*self.probes, *self.besides)))


FACTS: dict[str, FactSpec] = {}
BY_BUILDER: dict[Builder, FactSpec] = {}


def fact(name: str, *probes: Probe, besides: tuple[Probe, ...] = ()) -> Callable[[Builder], Builder]:
    """Registers a builder of the fact `name`. It returns the fact (or a tuple of facts), Partial or Unmeasured, or raises Unread."""

    def register(build: Builder) -> Builder:
        if name in FACTS and FACTS[name].build.__module__ != build.__module__:
            raise ValueError(f"the fact {name} is defined in {FACTS[name].build.__module__} already")
        FACTS[name] = BY_BUILDER[build] = FactSpec(name, probes, build, besides)
        return build

    return register


def part(*probes: Probe) -> Callable[[Builder], Builder]:
    """Registers what several facts are made of, and is made of these probes alone: what `once` makes of it nodes share as they do facts."""

    def register(build: Builder) -> Builder:
        BY_BUILDER[build] = FactSpec(f"{build.__module__}.{build.__qualname__}", probes, build)
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
