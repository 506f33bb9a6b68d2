"""The captures a fact is built from, and the registry of facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from healthcheck.facts.files import Files, Said, said
from healthcheck.facts.marks import NOT, NOTHING, READ, Builder, Mark, Own, Store, mark_of, own_of
from healthcheck.facts.values import Partial, Unmeasured, Unread
from healthcheck.model.probes import Kind, Probe
from healthcheck.model.recording import Capture, Host, Kindred, Outcome, Recording

T = TypeVar("T")

# Looked up once: an enum's members cost more than the rest.
_TRUNCATED, _TIMEOUT = Outcome.TRUNCATED, Outcome.TIMEOUT
_OUTCOME = attrgetter("outcome")


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


class _Built(NamedTuple):
    """What a builder made, whether that is this look's alone, and how it depends on what is each node's own."""

    value: Any
    personal: bool
    own: Own


class Captures:
    """One reached node's recording as a fact builder sees it: asks by probe, and is told Unread when it cannot be had.

    `personal` becomes true when a builder asks for what no capture holds: such a fact is this look's alone, whatever the captures say.
    `own` tells what it read, or may have read, of files that are each node's own: what it made is that of captures that are equal in those,
    too, or of which the other builders that it asked made the same. What it did not read it does not depend on.
    `marks` are by probe equal for captures that are equal but for such files; None where that cannot be told.
    """

    def __init__(self, recording: Recording, store: Store | None = None) -> None:
        if recording.host is None:
            raise ValueError("a node that was not reached has no facts")
        self._recording = recording
        self._host: Host = recording.host
        self._captures = recording.captures
        self._store = store
        self._built: dict[Builder, _Built] = {}
        self.marks = {probe: mark_of(capture) for probe, capture in recording.captures.items()}
        self.personal = False
        self.own = NOT

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
        if known.personal:
            self.personal = True
        if known.own is not NOT:
            self._depends(Own(False, frozenset((build,))) if build in BY_BUILDER else known.own)
        return known.value

    def _depends(self, own: Own) -> None:
        self.own = own if self.own is NOT else Own(self.own.read or own.read, self.own.through | own.through)

    def _reads_own(self) -> None:
        if not self.own.read:
            self._depends(READ)

    def _build(self, build: Builder) -> _Built:
        """What a builder makes; from the store where equal captures have brought it before."""
        store, spec, key, known, vain = self._store, BY_BUILDER.get(build), None, NOT, False
        if store is not None and spec is not None:
            # What tells these captures of the fact's probes from all others, if anything does.
            marks = (spec.name, *[self.marks.get(probe, ()) for probe in spec.ids])
            if None not in marks:
                key = marks
                stored = store.find(key)
                if type(stored) is Own:
                    known, stored = stored, NOTHING
                    vain = known.read and store.own_differs(spec.name)
                    if not vain:
                        key = self._whole(spec, marks, known)
                        stored = store.find_own(key)
                if stored is not NOTHING:
                    return _Built(stored, False, known)
        before, self.personal, self.own = (self.personal, self.own), False, NOT
        try:
            value = build(self)
        except BaseException:
            # Who catches it may make something of that.
            self.personal = self.personal or before[0]
            self._depends(before[1])
            raise
        personal, own = self.personal, self.own
        self.personal, self.own = before
        if key is not None and store is not None and spec is not None and not personal:
            if own.read > known.read or not own.through <= known.through:
                known = Own(own.read or known.read, own.through | known.through)
                store.depends(marks, known)
            if known is not NOT and not vain:
                key = self._whole(spec, marks, known)       # made anew: what it named by identity may be forgotten since
            value = store.same(spec.name, value) if vain else store.keep(key, value)
        return _Built(value, personal, known if known is not NOT else own)

    def _whole(self, spec: FactSpec, marks: Mark, own: Own) -> Mark:
        """What also tells apart captures that differ in what is each node's own."""
        if not own.read and self._store is not None:
            made = list(map(self.asked, own.through))
            if all(map(self._store.holds, made)):
                return (*marks, *map(id, made))
        return (*marks, *[own_of(self._captures.get(probe)) for probe in spec.ids])

    def asked(self, build: Builder) -> Any:
        """What a builder makes, on behalf of another; NOTHING where it raises."""
        known = self._built.get(build)
        if known is not None:
            return known.value
        before = self.personal, self.own
        try:
            return self.once(build)
        except Exception:  # noqa: BLE001  (it is raised again where it is asked for)
            return NOTHING
        finally:
            self.personal, self.own = before

    def through(self, spec: FactSpec) -> frozenset[Builder] | None:
        """Of a fact that was built, the other builders on whose values it depends, beside the marks of its captures; None: on more."""
        built = self._built.get(spec.build)
        return None if built is None or built.personal or built.own.read or self.cut else built.own.through

    @cached_property
    def cut(self) -> bool:
        """Whether any capture at all is one of which a part is missing, which few looks have."""
        outcomes = list(map(_OUTCOME, self._captures.values()))
        return _TRUNCATED in outcomes or _TIMEOUT in outcomes

    def capture(self, probe: Probe) -> Capture | None:
        """The raw capture, whatever its outcome."""
        capture = self._captures.get(probe.id)
        if capture is not None and type(capture.files) is Kindred:
            self._reads_own()
        return capture

    def outcome(self, probe: Probe) -> Outcome | None:
        """How a capture ended; None where there is none."""
        capture = self._captures.get(probe.id)
        return capture.outcome if capture is not None else None

    def note(self, probe: Probe) -> str:
        """What a capture adds for people."""
        capture = self._captures.get(probe.id)
        return capture.note if capture is not None else ""

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
        return Files(capture.files, self._reads_own)

    def devices(self, probe: Probe) -> Mapping[str, Said | Unmeasured]:
        """By the device's path, what a command with `each` said of it; raises Unread where none was asked (no tool, say)."""
        capture = self._captures.get(probe.id)
        if capture is None or capture.outcome not in (Outcome.DONE, Outcome.TRUNCATED, Outcome.TIMEOUT):
            raise Unread(why(probe, capture))
        if type(capture.files) is Kindred:
            self._reads_own()
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

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The ids of `everything`."""
        return tuple(probe.id for probe in self.everything)


FACTS: dict[str, FactSpec] = {}
# The collection that a member's name stands for: {"gpu": "gpus"}.
MEMBERS: dict[str, str] = {}
BY_BUILDER: dict[Builder, FactSpec] = {}


def fact(name: str, *probes: Probe, besides: tuple[Probe, ...] = (), each: str = "") -> Callable[[Builder], Builder]:
    """Registers a builder of the fact `name`. It returns the fact (or a tuple of facts), Partial or Unmeasured, or raises Unread.

    Of a collection `each` is what checks call one member.
    """

    def register(build: Builder) -> Builder:
        if name in FACTS and FACTS[name].build.__module__ != build.__module__:
            raise ValueError(f"the fact {name} is defined in {FACTS[name].build.__module__} already")
        FACTS[name] = BY_BUILDER[build] = FactSpec(name, probes, build, besides)
        if each:
            MEMBERS[each] = name
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
    for probe in spec.probes if captures.cut else ():
        capture = captures.capture(probe)
        if capture is not None and (capture.outcome is _TRUNCATED or capture.outcome is _TIMEOUT):
            return Partial(value, why(probe, capture))
    return value
