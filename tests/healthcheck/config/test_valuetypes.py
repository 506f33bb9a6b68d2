"""What a value of the policy may be, at the edges of each form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from healthcheck.config.valuetypes import (
    FLAG,
    GLOB,
    NAME,
    TEXT,
    ValueType,
    choice,
    integer,
    list_of,
    number,
    optional,
    parse_value,
)
from healthcheck.model.outcome import Repair
from healthcheck.triage.policylists import WHEN
from healthcheck.triage.policyload import NEVER
from inventory.errors import Mark, RulesError
from inventory.located import LocatedList

HERE = Mark("policy.yaml", 7, 3)
# Each is made in the test that asks it.
FORMATS: Mapping[str, Callable[[], ValueType]] = {
    "whole": lambda: integer(1, 3), "real": lambda: number(0.5, 2), "yet": lambda: optional(integer(1, 3)),
    "word": lambda: choice(Repair), "several": lambda: list_of("words", NAME), "text": lambda: TEXT,
    "glob": lambda: GLOB, "name": lambda: NAME, "flag": lambda: FLAG,
    "never": lambda: NEVER, "moment": lambda: WHEN}


def listed(*members: object) -> LocatedList:
    """A list as a file gives it, a member a line."""
    made = LocatedList(HERE)
    made.extend(members)
    made.value_marks.update({at: Mark("policy.yaml", 8 + at, 5) for at in range(len(members))})
    return made


@pytest.mark.parametrize(("form", "given", "read"), [
    ("whole", 1, 1), ("whole", 3, 3), ("real", 0.5, 0.5), ("real", 2, 2.0), ("yet", None, None),
    ("yet", 3, 3), ("word", "reboot", Repair.REBOOT), ("several", listed("a"), ("a",)),
    ("several", listed(*["a"] * 200), ("a",) * 200), ("text", "x" * 400, "x" * 400),
    ("text", " a\n b ", "a b"), ("glob", "gpu-*", "gpu-*"), ("name", "gpu-lost", "gpu-lost"),
    ("flag", True, True), ("flag", False, False), ("never", False, False),
    ("moment", "2026-11-28T22:00Z", 1795903200.0)])
def test_what_a_form_allows_is_read(form: str, given: Any, read: object) -> None:
    found = parse_value("key", given, HERE, FORMATS[form]())
    assert found == read and type(found) is type(read)


@pytest.mark.parametrize(("form", "given"), [
    ("whole", 0), ("whole", 4), ("whole", True), ("whole", 2.0), ("whole", "2"), ("whole", None),
    ("real", 0.4), ("real", 2.1), ("real", True), ("real", float("nan")), ("real", float("inf")),
    ("real", "1"), ("yet", 4), ("word", "Reboot"), ("word", None), ("several", listed()),
    ("several", listed(*["a"] * 201)), ("several", "a"), ("several", ["a"]), ("text", " "),
    ("text", "x" * 401), ("text", 3), ("glob", "gpu *"), ("glob", "x" * 121), ("glob", 3), ("name", "GPU"),
    ("name", "x" * 61), ("name", 3), ("flag", 1), ("flag", "true"), ("never", True), ("never", 0),
    ("never", None), ("moment", "tomorrow"), ("moment", 3)])
def test_what_a_form_does_not_allow_is_one_line_with_its_place_and_what_was_expected(
    form: str, given: Any,
) -> None:
    made = FORMATS[form]()
    with pytest.raises(RulesError) as caught:
        parse_value("key", given, HERE, made)
    assert (str(caught.value).startswith(f"policy.yaml:7:3: key: expected {made.phrase}, got ")
            and "\n" not in str(caught.value))


def test_of_a_list_the_member_is_named_that_is_wrong() -> None:
    with pytest.raises(RulesError) as caught:
        parse_value("key", listed("watch", "rebot"), HERE, list_of("repairs", choice(Repair)))
    said = str(caught.value)
    assert (said.startswith("policy.yaml:9:5: key: expected one of watch, ")
            and said.endswith("did you mean 'reboot'?"))
