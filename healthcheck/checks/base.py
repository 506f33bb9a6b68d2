"""What a check's author uses: the decorators, and what a check may take beside its subject.

A check is a pure generator of findings. Its keyword-only parameters are what a rule may set, typed. Its other
parameters are facts by name; the first is the check's subject:

    gpu: Gpu                one of a collection (`gpus`): the check runs once for each, the engine names it in
                            the findings, and one that cannot be read hides no other
    gpus: tuple[Gpu, ...]   the whole collection, for counts
    ports: Peers[Port]      the whole collection, to compare its members: those that cannot be read are
                            UNKNOWN by themselves
    driver: Driver          a single fact of the node
    growth: Growth[Gpu]     the subject in the earlier snapshot of the same boot; without one the check is
                            SKIPPED
    port: Port              beside another subject: the one of the collection `ports` with the same identity

`over="compute_ports"` runs a check over a selection of its collection. The author writes nothing for missing
values: reading one raises inside the check, and the engine makes that UNKNOWN. A fleet check takes facts of
every node of a cohort and yields (node, finding).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from healthcheck.facts.base import FACTS, MEMBERS
from healthcheck.facts.values import Fact, NotMeasured, NotSupported, readable
from healthcheck.model.outcome import Finding, Note

F = TypeVar("F", bound=Fact)
T = TypeVar("T")
Findings = Iterator[Finding | Note]
CheckFunction = Callable[..., Findings]
FleetFunction = Callable[..., Iterator[tuple[str, Any]]]
SelectionFunction = TypeVar("SelectionFunction", bound=Callable[..., Iterable[Any]])

GROWTH = "growth"
# The fact with a snapshot's time, which growth is measured against.
SNAPSHOT_TIME = "snapshot_time"

__all__ = ["CHECKS", "GIB", "GROWTH", "LONGEST_QUOTE", "SELECTIONS", "SNAPSHOT_TIME", "Check", "Findings",
           "NotJudged", "NotMeasured", "NotSupported", "Parameter", "Peers", "Selection", "and_more", "check",
           "fleet_check", "listed", "selection"]
GIB = 2**30
LONGEST_QUOTE = 200         # characters of a line that a finding quotes


class NotJudged(Exception):
    """A check does not apply to this node; its text says why. The rule is SKIPPED."""


class Peers(Generic[F]):
    """A collection whose members are compared with each other."""

    def __init__(self, members: Iterable[F]) -> None:
        self.members = tuple(members)

    def __len__(self) -> int:
        return len(self.members)

    def read(self, read: Callable[[F], T]) -> list[tuple[F, T]]:
        """Each member with the result of `read`; a member that refuses is left out, and UNKNOWN."""
        return list(readable(self.members, read))

    def where(self, holds: Callable[[F], bool]) -> Peers[F]:
        """The members for which it holds; a member that refuses is left out, and UNKNOWN."""
        return Peers(member for member, held in readable(self.members, holds) if held)


@dataclass(frozen=True)
class Parameter:
    """One keyword-only parameter: its type as a phrase for messages, a test for values, and its default, if
    any."""

    name: str
    hint: Any
    required: bool

    def accepts(self, value: object) -> bool:
        """Whether a rule may set this value: of the exact type, or a whole number for a float."""
        return _fits(value, self.hint)

    @property
    def phrase(self) -> str:
        """The type, for people."""
        return _phrase(self.hint)


@dataclass(frozen=True)
class Check:
    """A registered check. `arguments` are the names it takes, in order, and `peers_of` those of them that it
    compares.

    `counts`: it concludes from what is missing. `peers`: each of its findings is reported with how many nodes
    have it. `over` is the selection whose subjects it judges. `reads` are the fields of its subject that a
    fleet check reads; empty for all. `answers`: a subject that it finds fault with cannot be read, and that
    is the cause of what else is not measured of it.
    """

    name: str
    function: Callable[..., Iterator[Any]]
    arguments: tuple[str, ...]
    parameters: Mapping[str, Parameter]
    fleet: bool
    counts: bool = False
    peers: bool = False
    over: str = ""
    peers_of: frozenset[str] = frozenset()
    reads: tuple[str, ...] = ()
    answers: bool = False

    @property
    def summary(self) -> str:
        """What it says of itself; the first line is the whole first paragraph, for lists and findings."""
        first, blank, rest = (inspect.getdoc(self.function) or "").partition("\n\n")
        return " ".join(first.split()) + blank + rest

    @cached_property
    def each(self) -> str:
        """The collection whose members it judges one at a time; empty where it does not."""
        return MEMBERS.get(self.arguments[0], "")

    @cached_property
    def subject(self) -> str:
        """The fact that it judges."""
        return fact_of(self.arguments[0])

    @cached_property
    def facts(self) -> tuple[str, ...]:
        """The facts of the present snapshot that it takes, its subject first."""
        names = [fact_of(name) for name in self.arguments if name != GROWTH]
        if self.over:
            names += map(fact_of, SELECTIONS[self.over].arguments)
        return tuple(dict.fromkeys([*names, *([SNAPSHOT_TIME] if self.trend else [])]))

    @cached_property
    def trend(self) -> bool:
        """Whether it compares with an earlier snapshot."""
        return GROWTH in self.arguments

    @cached_property
    def earlier(self) -> tuple[str, ...]:
        """The facts of the earlier snapshot that it takes."""
        return (self.subject, SNAPSHOT_TIME) if self.trend else ()

    @cached_property
    def signature(self) -> str:
        """What it is given, in one word: checks of one signature are given the same on a node."""
        return " ".join([self.over, *(f"*{name}" if name in self.peers_of else name
                                      for name in self.arguments)])


@dataclass(frozen=True)
class Selection:
    """Chooses the subjects of a collection that checks are to judge, by other facts and the inventory."""

    function: Callable[..., Iterable[Any]]
    arguments: tuple[str, ...]
    peers_of: frozenset[str]


CHECKS: dict[str, Check] = {}
SELECTIONS: dict[str, Selection] = {}


def fact_of(argument: str) -> str:
    """The fact behind an argument's name: of one member it is the collection."""
    return MEMBERS.get(argument, argument)


def check(name: str, *, over: str = "", counts: bool = False,
          peers: bool = False, answers: bool = False) -> Callable[[CheckFunction], CheckFunction]:
    """Registers a check of one node under `subject.property`.

    `over` names a selection. `counts`: it concludes from what is missing, so it is UNKNOWN unless the whole
    collection was measured. `peers`: each finding is reported with how many nodes of the sweep have one of
    the same subject. `answers`: a subject with a finding cannot be read, and that is the cause of what else
    is not measured of it (`Unmeasured.asked`).
    """
    return partial(_register, name, fleet=False, counts=counts, peers=peers, over=over, answers=answers)


def fleet_check(name: str, *, reads: tuple[str, ...] = ()) -> Callable[[FleetFunction], FleetFunction]:
    """Registers a check of a cohort: each positional parameter is a mapping from node to the fact of that
    name.

    `reads` are the fields of its subject that it reads, besides its name and identity: no others are kept
    until all nodes were judged, unless another check asks for them. Without it, all are.

    They hold only nodes whose facts were measured; `growth` maps a node to the Growth of its subject, or of
    each. It reads facts through `readable`, so that what one node lacks does not affect the others, and
    yields findings, `Uncompared` for what has no peers, or `Undecided` where they disagree.
    """
    return partial(_register, name, fleet=True, reads=reads)


def selection(name: str) -> Callable[[SelectionFunction], SelectionFunction]:
    """Registers a selection: a function of facts that returns the chosen subjects. A subject that refuses a
    reading in it is UNKNOWN."""

    def register(function: SelectionFunction) -> SelectionFunction:
        arguments, _ = _parameters(function)
        SELECTIONS[name] = Selection(function, arguments, _compared(arguments, function))
        return function

    return register


def _compared(arguments: Iterable[str], function: Callable[..., Any]) -> frozenset[str]:
    annotations = inspect.get_annotations(function)
    return frozenset(name for name in arguments if _is_peers(annotations.get(name)))


def _is_peers(annotation: Any) -> bool:
    # Not evaluated: with hundreds of checks that is a tenth of the time of `muster rules list`.
    return annotation.startswith("Peers[") if isinstance(annotation, str) else get_origin(annotation) is Peers


_HINTS = {"int": int, "float": float, "bool": bool, "str": str, "tuple[str, ...]": tuple[str, ...]}


def _parameters(function: Any) -> tuple[tuple[str, ...], dict[str, Parameter]]:
    """The names of a function's positional parameters, and its keyword-only ones."""
    # inspect.signature would take a tenth of the time of `muster rules list`.
    function = inspect.unwrap(function)
    code, hints, defaults = function.__code__, function.__annotations__, function.__kwdefaults__ or {}
    names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
    return names[:code.co_argcount], {
        name: Parameter(name, _HINTS.get(hints.get(name)) or get_type_hints(function)[name],
                        name not in defaults) for name in names[code.co_argcount:]}


def _register(name: str, function: CheckFunction, *, fleet: bool, counts: bool = False, peers: bool = False,
              over: str = "", reads: tuple[str, ...] = (), answers: bool = False) -> Any:
    if name in CHECKS and CHECKS[name].function.__module__ != function.__module__:
        raise ValueError(f"the check {name} is defined in {CHECKS[name].function.__module__} already")
    arguments, parameters = _parameters(function)
    if not function.__doc__:
        raise ValueError(f"the check {name} has no docstring, and `muster explain` shows it")
    if not arguments or arguments[0] == GROWTH:
        raise ValueError(f"the check {name} has no subject: its first parameter must be a fact")
    CHECKS[name] = Check(name, function, arguments, parameters, fleet, counts, peers, over,
                         _compared(arguments, function), reads, answers)
    return function


def and_more(subjects: Sequence[str]) -> str:
    """Several subjects as one: "port 1 and 3 more"."""
    return subjects[0] if len(subjects) == 1 else f"{subjects[0]} and {len(subjects) - 1} more"


def listed(words: Sequence[str], most: int = 3) -> str:
    """The first of them: "a, b, c and 2 more"."""
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


def missing_facts(check: Check, handed_in: Iterable[str]) -> list[str]:
    """The facts that a check takes and that do not exist; `handed_in` are those that the sweep passes in."""
    return [name for name in check.facts if name not in FACTS and name not in handed_in]


_PHRASES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def _phrase(hint: Any) -> str:
    if get_origin(hint) is tuple:
        return f"a list, each {_phrase(get_args(hint)[0])}"
    return _PHRASES.get(hint, str(hint))


def _fits(value: object, hint: Any) -> bool:
    if get_origin(hint) is tuple:
        return isinstance(value, (list, tuple)) and all(_fits(item, get_args(hint)[0]) for item in value)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return type(value) is hint
