"""Fields of facts that hold a value or refuse to be read: what a class of facts is, and what facts are
equal."""

from __future__ import annotations

from typing import ClassVar

import pytest

from healthcheck.facts.parsing import matching
from healthcheck.facts.values import (
    UNSUPPORTED,
    Fact,
    NotMeasured,
    NotSupported,
    Refusal,
    Unmeasured,
    Unread,
    first_unread,
    narrowed,
    reading,
    readings,
    refusals,
)

WHY = Unmeasured("it was not asked", asked=("fan 1",))


class Fan(Fact):
    name: str
    rpm: int
    level: int
    IDENTITY = ("name", "rpm")


class Other(Fact):
    name: str
    rpm: int
    level: int


fan = Fan("fan 1", 900, WHY)    # type: ignore[arg-type]


def test_what_is_of_the_class_is_no_field() -> None:
    class Pump(Fan):
        KIND: ClassVar[str] = "pump"
        litres: int

    assert list(Pump.FIELDS) == ["name", "rpm", "level",
                                 "litres"] and list(Fan.FIELDS) == ["name", "rpm", "level"]
    assert readings(fan) == {"name": "fan 1", "rpm": 900, "level": WHY}


def test_a_field_of_a_fact_has_no_default() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.rpm has a default"):
        class Wrong(Fact):
            name: str
            rpm: int = 0


def test_a_subject_is_identified_by_one_field_or_by_several() -> None:
    class Several(Fan):
        IDENTITY = ("name", "rpm")

    class One(Fan):
        IDENTITY = ("rpm",)

    assert Several("fan 1", 900, 1).identity == ("fan 1", 900) and One("fan 1", 900, 1).identity == (900,)
    with pytest.raises(NotMeasured, match="it was not asked"):
        assert Fan("fan 1", WHY, 1).identity   # type: ignore[arg-type]


def test_the_identity_of_a_plug_ins_fact_may_be_inherited_from_no_fact_or_be_its_own_property() -> None:
    class AtPci:
        IDENTITY = ("pci", "number")

    class Slot(AtPci, Fact):
        name: str
        pci: str
        number: int

    class Lane(Fact):
        IDENTITY = ("pci",)
        name: str
        pci: str

        @property
        def identity(self) -> tuple[str, ...]:
            return (self.pci.lower(),)

    assert (Slot("slot 1", "0000:1A:00.0", 2).identity, Lane("lane", "0000:1A:00.0").identity) == (
        ("0000:1A:00.0", 2), ("0000:1a:00.0",))
    with pytest.raises(NotMeasured, match="no address"):
        _ = Slot("slot 1", Unmeasured("no address"), 2).identity  # type: ignore[arg-type]


def test_a_caveat_that_a_fact_lacks_is_none() -> None:
    class Plug(Fact):
        name: str
        caveat: str

    assert (Plug("plug", WHY).caveat, Plug("plug", "of one side").caveat) == (  # type: ignore[arg-type]
        "", "of one side")


def test_facts_are_equal_if_their_class_and_all_their_values_are() -> None:
    assert fan == Fan("fan 1", 900, WHY) and hash(fan) == hash(Fan("fan 1", 900,
                                                                   WHY))  # type: ignore[arg-type]
    assert fan != Fan("fan 1", 900, 1) and fan != Fan("fan 1", 901, WHY)    # type: ignore[arg-type]
    assert Fan("fan 1", 900, 1) != Other("fan 1", 900, 1) and Fan("fan 1", 900, 1) != ("fan 1", 900, 1)


def test_a_fact_that_was_narrowed_has_these_fields_alone_and_still_refuses_what_was_not_measured() -> None:
    part = narrowed(fan, ("rpm", "level"))
    assert readings(part) == {"rpm": 900, "level": WHY} and reading(part, "level") == WHY
    with pytest.raises(AttributeError, match="was not kept"):
        assert part.name
    assert readings(narrowed(fan, ("name",))) == {"name": "fan 1"}
    assert readings(narrowed(fan, ("level",))) == {"level": WHY}
    with pytest.raises(AttributeError, match=r"Fan\.level was not kept"):
        assert narrowed(fan, ("name",)).level


def test_every_refusal_is_recorded_caught_or_not_with_what_it_says() -> None:
    found: list[Refusal] = []
    absent = Fan.absent("fan 2")
    with refusals(found):
        for fact, field in ((fan, "level"), (absent, "rpm")):
            with pytest.raises(Refusal):
                getattr(fact, field)
    with pytest.raises(NotMeasured):
        assert fan.level
    unasked, lacking = found
    assert isinstance(unasked, NotMeasured) and isinstance(lacking, NotSupported)
    assert (unasked.fact, str(unasked), unasked.details) == (fan, WHY.reason,
                                                             (WHY.reason, WHY.origin, WHY.asked))
    assert (lacking.fact, str(lacking), lacking.details) == (absent, "fan 2: rpm is not supported", ("rpm",))
    assert unasked.source == id(fan) and lacking.source == id(absent)


def test_why_a_capture_could_not_be_read_is_the_reason_alone() -> None:
    assert str(Unread("it hung", ("fan 1",))) == "it hung" and Unread("it hung",
                                                                      ("fan 1",)).asked == ("fan 1",)


def test_a_parser_of_a_pattern_returns_the_whole_text_or_refuses_it() -> None:
    assert matching("([a-z]+)[0-9]")("md0") == "md0"
    with pytest.raises(ValueError, match="md0 "):
        matching("([a-z]+)[0-9]")("md0 ")


def test_the_first_that_was_not_measured_is_found_among_values() -> None:
    assert first_unread([1, UNSUPPORTED, WHY, Unmeasured("later")]) is WHY
    assert first_unread([1, UNSUPPORTED]) is None
