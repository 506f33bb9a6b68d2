"""What a check's author uses: the two decorators, and `increase` for counters that are compared with an earlier look.

A check is a pure generator of findings. Its positional parameters are facts by name (a name that begins with `previous_` is
the same fact of the node's earlier look of the same boot); its keyword-only parameters are what a rule may set, typed.
The author writes no tests for missing values: the judge turns the reading of an unmeasured field into UNKNOWN for that
subject before the check can see it. A fleet check takes facts of every node of a cohort and yields (node, finding).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin, get_type_hints

from healthcheck.facts.values import Fact
from healthcheck.model.outcome import Finding, Note

PREVIOUS = "previous_"
CheckFunction = Callable[..., Iterator[Finding | Note]]
FleetFunction = Callable[..., Iterator[tuple[str, Any]]]


class NotMeasured(Exception):
    """A check met what was not measured: on which fact, and why. Raised by the judge's guard, and by `increase`."""

    def __init__(self, fact: object, reason: str) -> None:
        super().__init__(reason)
        self.fact = fact
        self.reason = reason


class NotJudged(Exception):
    """A check has nothing to go by on this node, and that is no fault of anything; its text says why. The rule is SKIPPED."""


@dataclass(frozen=True)
class Parameter:
    """One keyword-only parameter: its type as a phrase for messages, a test for values, and its default, if any."""

    name: str
    hint: Any
    required: bool

    def accepts(self, value: object) -> bool:
        """Whether a rule may set this value: exactly typed, except that a whole number will do for a float."""
        return _fits(value, self.hint)

    @property
    def phrase(self) -> str:
        """The type as a person would name it."""
        return _phrase(self.hint)


@dataclass(frozen=True)
class Check:
    """A registered check. `facts` are the names it takes, in order; `fleet` says which of the two kinds it is."""

    name: str
    function: Callable[..., Iterator[Any]]
    facts: tuple[str, ...]
    parameters: Mapping[str, Parameter]
    summary: str
    fleet: bool
    counts: bool = False
    peers: bool = False


CHECKS: dict[str, Check] = {}


def check(name: str, *, counts: bool = False, peers: bool = False) -> Callable[[CheckFunction], CheckFunction]:
    """Registers a check of one node under `subject.property`.

    `counts` says that it concludes from what is not there: then the whole collection must have been measured, or nothing is said.
    `peers` asks that each finding be told with how many nodes of the sweep have one of the same subject.
    """

    def register(function: CheckFunction) -> CheckFunction:
        _register(name, function, fleet=False, counts=counts, peers=peers)
        return function

    return register


def fleet_check(name: str) -> Callable[[FleetFunction], FleetFunction]:
    """Registers a check of a cohort: each positional parameter is a mapping from node to the fact of that name.

    Only nodes whose facts were all measured are in them. It yields a finding, or for what has no peers `Uncompared` (checks.fleet).
    """

    def register(function: FleetFunction) -> FleetFunction:
        _register(name, function, fleet=True)
        return function

    return register


def _register(name: str, function: Callable[..., Iterator[Any]], *, fleet: bool, counts: bool = False,
              peers: bool = False) -> None:
    if name in CHECKS and CHECKS[name].function.__module__ != function.__module__:
        raise ValueError(f"the check {name} is defined in {CHECKS[name].function.__module__} already")
    hints = get_type_hints(function)
    facts, parameters = [], {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            required = parameter.default is parameter.empty
            parameters[parameter.name] = Parameter(parameter.name, hints[parameter.name], required)
        else:
            facts.append(parameter.name)
    summary = inspect.getdoc(function)
    if not summary:
        raise ValueError(f"the check {name} has no docstring, and `muster explain` shows it")
    if fleet and not facts:
        raise ValueError(f"the fleet check {name} takes no fact, expected one at least")
    CHECKS[name] = Check(name, function, tuple(facts), parameters, summary, fleet, counts, peers)


def increase(now: Fact, before: Fact, counter: str) -> int:
    """By how much a counter grew between two looks. A counter that went down was reset: that is not measured, and not health."""
    newer, older = getattr(now, counter), getattr(before, counter)
    if newer < older:
        raise NotMeasured(now, f"{counter} went from {older} to {newer}: it was reset between the two looks")
    return int(newer - older)


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
