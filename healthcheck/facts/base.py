"""The captures a fact is built from, and the registry of facts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar

from healthcheck.facts.cache import FactCache
from healthcheck.facts.files import CapturedFiles, DeviceOutput, device_output
from healthcheck.facts.values import Partial, Unmeasured, Unread
from healthcheck.model.probes import Needs, Probe, ProbeKind
from healthcheck.model.recording import Capture, Host, Outcome, Recording

T = TypeVar("T")
Builder = Callable[["Captures"], Any]
_CUT = (Outcome.TRUNCATED, Outcome.TIMEOUT)
_HELD = (Outcome.DONE, *_CUT)       # what these hold is real, as far as it goes


def hung(probe: Probe, capture: Capture | None) -> bool:
    """Whether a command was started in time and had all the probe's own time, and gave no answer: then it is
    what it asks that hangs, and no limit of ours."""
    return (capture is not None and not capture.note and capture.outcome is Outcome.TIMEOUT
            and capture.seconds >= probe.seconds - 0.5)


def why(probe: Probe, capture: Capture | None) -> str:
    """Why a capture holds nothing to rely on, in one line that names the probe's tool or files."""
    what = probe.argv[0] if probe.kind is ProbeKind.COMMAND else probe.id
    if capture is None:
        return f"{what} was not captured"
    note = f": {capture.note}" if capture.note else ""
    if capture.outcome is Outcome.MISSING:
        return f"{what} is not there{note}"
    if capture.outcome is Outcome.DENIED:
        return f"{what}: permission denied{note}" + (" (needs root)" if probe.root else "")
    if capture.outcome is Outcome.TIMEOUT and probe.kind is ProbeKind.NVML and capture.note:
        return f"{what}: {capture.note}"    # its stages have limits of their own
    if capture.outcome is Outcome.TIMEOUT and 0 < capture.seconds < probe.seconds - 0.5:
        return (f"{what} had not answered after {capture.seconds:.1f} s, when the snapshot's time was "
                f"over{note}")
    if capture.outcome is Outcome.TIMEOUT:
        return f"{what} did not answer within {probe.seconds:g} s{note}"
    if capture.outcome is Outcome.TRUNCATED:
        return f"{what} gave more than {probe.limit // 1024} KiB; the rest was dropped{note}"
    if capture.outcome is Outcome.CRASHED:
        return f"{what} crashed" + (f" (signal {-capture.exit})" if capture.exit is not None else "") + note
    if capture.outcome is Outcome.UNABLE:
        return f"{what}: our own program could not do its work{note}"
    if capture.outcome is Outcome.WEDGED:
        return f"{what} is wedged{note}"
    lines = capture.stderr.strip().splitlines()
    return f"{what} ended with exit status {capture.exit}" + (f": {lines[-1][:200]}" if lines else "")


class _Numbers(dict[str, "int | None"]):
    """What stands in the cache for the content of each probe's capture, found when it is first asked for."""

    def __init__(self, captures: Mapping[str, Capture], cache: FactCache) -> None:
        self._captures = captures
        self._cache = cache

    def __missing__(self, probe: str) -> int | None:
        number = self[probe] = self._cache.number(self._captures.get(probe))
        return number


class Captures:
    """A reached node's recording as fact builders read it, probe by probe; what was not captured raises
    Unread.

    With a `cache`, facts of captures that were seen before are not built again.
    """

    def __init__(self, recording: Recording, cache: FactCache | None = None) -> None:
        if recording.host is None:
            raise ValueError("a node that was not reached has no facts")
        self._recording = recording
        self._host = recording.host
        self._captures = recording.captures
        self._cache = cache
        self._numbers = _Numbers(self._captures, cache) if cache is not None else {}
        self._built: dict[Builder, Any] = {}
        self._cut = frozenset([name for name, capture in self._captures.items() if capture.outcome in _CUT])

    @property
    def host(self) -> Host:
        """The machine, as the collector reports it."""
        return self._host

    @property
    def node(self) -> str:
        """The node as the inventory calls it."""
        return self._recording.node

    @property
    def received(self) -> float:
        """When the answer was complete, by the head's clock."""
        return self._recording.received

    def once(self, build: Callable[[Captures], T]) -> T:
        """What `build` returns for these captures, built once for all facts that share it; exceptions are not
        cached."""
        built = self._built
        if build not in built:
            built[build] = self._build(build)
        found: T = built[build]
        return found

    def _build(self, build: Builder) -> Any:
        spec, cache = BY_BUILDER.get(build), self._cache
        if cache is None or spec is None or spec.of_snapshot:
            return build(self)
        return cache.fact(spec.name, tuple(map(self._numbers.__getitem__, spec.everything)),
                          partial(build, self))

    def part(self, name: str, content: Hashable, make: Callable[[], T]) -> T:
        """What `make` returns, which depends on this part of a capture alone: where facts are cached, equal
        parts of any snapshots share it. `name` tells what is made of a part."""
        return make() if self._cache is None else self._cache.part(name, content, make)

    @property
    def cut(self) -> frozenset[str]:
        """The ids of probes that brought a part at most."""
        return self._cut

    def capture(self, probe: Probe) -> Capture | None:
        """The raw capture, whatever its outcome."""
        return self._captures.get(probe.id)

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

    def files(self, probe: Probe) -> CapturedFiles:
        """The entries of a FILES or MOUNTS probe, as far as it came; raises Unread when it never ran."""
        capture = self._captures.get(probe.id)
        if capture is None or capture.outcome not in _HELD:
            raise Unread(why(probe, capture))
        return CapturedFiles(capture.files)

    def files_if_any(self, probe: Probe) -> CapturedFiles:
        """As `files`; none where it never ran."""
        try:
            return self.files(probe)
        except Unread:
            return CapturedFiles({})

    def whole_text(self, probe: Probe, path: str) -> str:
        """The text of a file that was read in whole, whatever became of the others; empty without one."""
        capture = self._captures.get(probe.id)
        entry = capture.files.get(path) if capture is not None else None
        return entry.text.strip() if entry is not None and entry.outcome is Outcome.DONE else ""

    def devices(self, probe: Probe) -> Mapping[str, DeviceOutput | Unmeasured]:
        """The output of a command with `each`, by device path; raises Unread where it never ran (no tool, for
        example)."""
        capture = self._captures.get(probe.id)
        if capture is None or capture.outcome not in _HELD:
            raise Unread(why(probe, capture))
        return {path: device_output(path, entry) for path, entry in capture.files.items()}


@dataclass(frozen=True)
class FactSpec:
    """A registered fact: its name as checks ask for it, the probes it is built from, and the builder.

    `besides` are probes that add to the fact but are not required. `at_hand` are probes that it reads where
    another fact had them run: it asks for none of them. `of_snapshot`: the fact also depends on the
    snapshot's `host`, `node` or `received`, which no capture holds.
    """

    name: str
    probes: tuple[Probe, ...]
    build: Builder
    besides: tuple[Probe, ...] = ()
    at_hand: tuple[Probe, ...] = ()
    of_snapshot: bool = False

    @cached_property
    def everything(self) -> tuple[str, ...]:
        """The ids of all probes that it may read."""
        return tuple(dict.fromkeys([probe.id for probe in (*self.probes, *self.besides, *self.at_hand)]))


FACTS: dict[str, FactSpec] = {}
# The collection that a member's name stands for: {"gpu": "gpus"}.
MEMBERS: dict[str, str] = {}
BY_BUILDER: dict[Builder, FactSpec] = {}


def fact(
    name: str, *probes: Probe, besides: tuple[Probe, ...] = (), at_hand: tuple[Probe, ...] = (),
    each: str = "", of_snapshot: bool = False,
) -> Callable[[Builder], Builder]:
    """Registers a builder of the fact `name`. It returns the fact (or a tuple of facts), Partial or
    Unmeasured, or raises Unread.

    `each` is what checks call one member of a collection.
    """

    def register(build: Builder) -> Builder:
        if name in FACTS and FACTS[name].build.__module__ != build.__module__:
            raise ValueError(f"the fact {name} is defined in {FACTS[name].build.__module__} already")
        FACTS[name] = BY_BUILDER[build] = FactSpec(name, probes, build, besides, at_hand, of_snapshot)
        if each:
            MEMBERS[each] = name
        return build

    return register


def build_fact(spec: FactSpec, captures: Captures) -> Any:
    """The fact's value, Partial or Unmeasured; a node's output never makes it raise.

    Enforced here and not left to builders: a fact from a probe that did not end well is at best Partial. Only
    where a second source ended well the builder says itself whether that source has made the fact whole; how
    the second source ended matters only to those who read it.
    """
    try:
        value = captures.once(spec.build)
    except Unread as error:
        return Unmeasured(str(error), asked=error.asked)
    except Exception as error:  # noqa: BLE001  (a parser that fails on foreign bytes must cost one fact only)
        return Unmeasured(f"{spec.name} could not be read from the node's output ({type(error).__name__})")
    if not captures.cut or isinstance(value, (Unmeasured, Partial)):
        return value
    seconds = [probe for probe in spec.probes if probe.needs is Needs.NVIDIA_UNANSWERED]
    replaced = any(captures.outcome(probe) is Outcome.DONE for probe in seconds)
    for probe in spec.probes:
        if probe in seconds or (replaced and probe.kind is ProbeKind.NVML):
            continue
        if probe.id in captures.cut:
            return Partial(value, why(probe, captures.capture(probe)))
    return value


def subjects_of(builder: Any, captures: Captures) -> tuple[tuple[Any, ...], bool]:
    """The subjects of the fact that this function makes, and whether they are complete."""
    value = build_fact(BY_BUILDER[builder], captures)
    found = value.value if isinstance(value, Partial) else value
    return (found, found is value) if type(found) is tuple else ((), False)
