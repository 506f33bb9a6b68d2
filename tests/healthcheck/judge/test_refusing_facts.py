"""Facts that refuse: no way of reading what one lacks makes a pass."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, dataclass
from functools import cached_property
from typing import Any

import pytest

from healthcheck.checks.base import NotMeasured, NotSupported
from healthcheck.facts.base import MEMBERS
from healthcheck.facts.values import (
    UNSUPPORTED,
    Fact,
    Unmeasured,
    changed,
    readable,
    reading,
    readings,
)
from healthcheck.judge.judge import judge
from healthcheck.judge.nodefacts import NodeFacts
from healthcheck.model.outcome import Finding, Status
from tests.healthcheck.judge.things import BARE, COLD, DARK, HOT, judged
from tests.healthcheck.rules import Thing, rule, thing


class Nest(Fact):
    """A fact with facts inside, a property, a method and a property that remembers."""

    name: str
    heat: int
    inner: Thing
    several: tuple[Thing, ...]

    @property
    def warm(self) -> bool:
        return self.heat > 30

    @cached_property
    def hottest(self) -> int:
        return max(self.heat, self.inner.heat)

    def over(self, limit: int) -> bool:
        return any(thing.heat > limit for thing in self.several)


HEATLESS = Nest("nest", Unmeasured("hung"), COLD, (COLD,))  # type: ignore[arg-type]
DARK_INSIDE = Nest("nest", 20, DARK, (COLD, DARK))


@pytest.mark.parametrize(("nest", "read"), [
    (HEATLESS, lambda nest: nest.heat), (HEATLESS, lambda nest: nest.warm),
    (HEATLESS, lambda nest: nest.hottest), (HEATLESS, lambda nest: nest.__dict__["heat"]),
    (HEATLESS, lambda nest: getattr(nest, "heat", 0)), (HEATLESS, lambda nest: hasattr(nest, "heat")),
    (DARK_INSIDE, lambda nest: nest.inner.heat), (DARK_INSIDE, lambda nest: nest.hottest),
    (DARK_INSIDE, lambda nest: nest.over(50)), (DARK_INSIDE, lambda nest: [t.heat for t in nest.several]),
    (HEATLESS, lambda nest: nest.no_such_field)])
def test_no_way_of_reading_what_a_fact_lacks_makes_a_pass(nest: Nest, read: Callable[[Any], Any],
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    def reads(nest: Nest) -> Iterator[Finding]:
        read(nest)
        yield from ()

    monkeypatch.setitem(MEMBERS, "nest", "nests")
    for _ in range(2):
        found = judge(rule(reads), NodeFacts({"nests": (nest,)}), None)
        assert found.status is Status.UNKNOWN, found


def test_what_is_measured_of_it_is_read_as_it_is() -> None:
    assert (DARK_INSIDE.heat, DARK_INSIDE.warm, DARK_INSIDE.inner.weight,
            len(DARK_INSIDE.several)) == (20, False, 1, 2)
    assert repr(HEATLESS).startswith("Nest(name='nest', heat=Unmeasured(reason='hung'")


def test_other_code_asks_for_the_value_or_the_reason() -> None:
    assert (reading(HEATLESS, "heat"), reading(HEATLESS, "warm")) == (Unmeasured("hung"),) * 2
    assert (reading(BARE, "heat"), reading(COLD, "heat"),
            reading(DARK_INSIDE, "warm")) == (UNSUPPORTED, 20, False)
    assert readings(BARE) == {"name": "thing 3", "heat": UNSUPPORTED, "weight": 1}
    assert [found for _, found in readable((COLD, DARK, BARE, HOT), lambda thing: thing.heat)] == [20, 99]


def test_asking_for_the_reason_is_no_refusal_of_a_check() -> None:
    def asks(thing: Thing) -> Iterator[Finding]:
        reading(thing, "heat")
        yield from ()

    assert judged(rule(asks), (DARK,)).status is Status.PASS


def test_a_fact_can_be_copied_pickled_and_compared_whatever_it_lacks() -> None:
    for fact in (DARK, BARE, COLD, HEATLESS, DARK_INSIDE):
        for same in (copy.copy(fact), copy.deepcopy(fact), pickle.loads(pickle.dumps(fact))):  # noqa: S301
            assert (same, hash(same), repr(same)) == (fact, hash(fact), repr(fact))
    assert thing("thing 2", Unmeasured("another reason")) != DARK
    assert DARK != thing("thing 2", UNSUPPORTED) != COLD
    assert changed(DARK, weight=5) == thing("thing 2", Unmeasured("the sensor hung"), 5)
    with pytest.raises(NotMeasured, match="the sensor hung"):
        _ = changed(DARK, weight=5).heat
    with pytest.raises(NotSupported, match="thing 3: heat is not supported"):
        _ = BARE.heat


def test_a_field_with_a_default_is_refused_when_the_class_is_made() -> None:
    with pytest.raises(TypeError, match=r"Lax\.heat has a default"):
        class Lax(Fact):
            name: str
            heat: int = 0


@pytest.mark.parametrize("given",
                         [{}, {"name": "x"}, {"name": "x", "heat": 1, "colour": 2}, {"name": "x", "haet": 1}])
def test_a_fact_is_made_with_exactly_its_fields(given: dict[str, Any]) -> None:
    class Pot(Fact):
        name: str
        heat: int

    assert Pot("x", 1) == Pot(name="x", heat=1) == Pot("x", heat=1) != Pot("x", 2)
    with pytest.raises(TypeError, match="Pot has the fields name, heat; missing or not among them: "):
        Pot(**given)
    for values, named in ((("x", 1, 2), {}), (("x", 1), {"heat": 2})):
        with pytest.raises(TypeError, match="3 values"):
            Pot(*values, **named)


def test_a_plug_ins_fact_that_is_a_dataclass_besides_refuses_what_it_lacks_too() -> None:
    @dataclass(frozen=True)
    class Kettle(Fact):
        name: str
        heat: int

    with pytest.raises(NotMeasured, match="no probe"):
        _ = Kettle("kettle", Unmeasured("no probe")).heat  # type: ignore[arg-type]


def test_a_caveat_that_a_fact_lacks_hides_no_fault_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plug(Fact):
        name: str
        heat: int
        caveat: str

    monkeypatch.setitem(MEMBERS, "plug", "plugs")

    def hot(plug: Plug) -> Iterator[Finding]:
        if plug.heat > 50:
            yield Finding(plug.heat, "at most 50")

    plugs = (Plug.absent("plug 1", Unmeasured("no probe")), Plug("plug 2", 99, ""))
    found = judge(rule(hot), NodeFacts({"plugs": plugs}), None)
    assert (found.status, found.findings[0].subject, found.reason) == (Status.FAIL, "plug 2",
                                                                       "plug 1: no probe")
    assert reading(plugs[0], "caveat") == ""


def test_a_misspelt_field_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'Thing' object has no attribute 'haet'"):
        _ = COLD.haet  # type: ignore[attr-defined]


def test_a_check_can_change_nothing() -> None:
    def writes(thing: Thing) -> Iterator[Finding]:
        thing.heat = 20  # type: ignore[misc]
        yield from ()

    def deletes(thing: Thing) -> Iterator[Finding]:
        del thing.heat
        yield from ()

    for check in (writes, deletes):
        assert judged(rule(check), (DARK,)).status is Status.UNKNOWN
        assert judged(rule(check), (COLD,)).status is Status.UNKNOWN
    with pytest.raises(FrozenInstanceError):
        COLD.heat = 3  # type: ignore[misc]
