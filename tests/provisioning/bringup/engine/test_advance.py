"""What comes next for a machine: only a look ends a step, nothing is done twice, every step ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from provisioning.bringup.engine.advance import StartOperation, StepTimes, Stuck, Through, Until, after, found
from provisioning.bringup.engine.model import Machine, Observation, Operation, PastOperation, StepState
from tests.provisioning.bringup.scripted import SO, node, operation, step, trouble

NODE = node("n1")
BIOS = step("bios", 600.0)
TIMES = StepTimes(came=1000.0, woke=1000.0, learned=1000.0, grace_s=10.0)
WRITE = operation("write", once=True)


def request(seen: Observation, *operations: PastOperation, now: float = 1000.0,
          times: StepTimes = TIMES) -> Through | StartOperation | Until | Stuck:
    return after(BIOS, Machine(NODE, 900.0, now, operations=operations), seen,
                 replace(times, learned=max(now, times.learned)))


def missing(what: Operation, again_s: float = 15.0) -> Observation:
    return Observation(StepState.NOT_SO, "it is not so", what, again_s=again_s)


def past(
    key: str = "write", *, began: float = 950.0, ended: float | None = 951.0, done: bool | None = True,
) -> PastOperation:
    return PastOperation(key, f"do {key}", began, ended, done, "said")


def stuck(what: object) -> Trouble:
    assert isinstance(what, Stuck)
    return what.troubles[0]


def test_a_step_that_is_so_is_left_and_one_that_is_not_has_its_action_done() -> None:
    assert request(SO) == Through()
    assert request(missing(WRITE)) == StartOperation(WRITE)


def test_trouble_is_reported_as_the_look_named_it_or_as_the_steps_owners() -> None:
    assert stuck(request(trouble("no GPU 3"))) == Trouble("no GPU 3", Owner.VENDOR, "swap it")
    assert stuck(request(Observation(StepState.TROUBLE, "dark"))) == Trouble(
        "dark", Owner.DATACENTRE, "check it, then: muster bringup retry n1")


@pytest.mark.parametrize("stand", [StepState.WAIT, StepState.UNKNOWN])
def test_what_is_on_its_way_or_not_known_is_looked_at_again_and_a_last_time_when_its_time_is_over(
    stand: StepState,
) -> None:
    seen = Observation(stand, "booting", again_s=40.0)
    assert request(seen) == Until(1040.0, "booting")
    assert request(seen, now=1590.0) == Until(1600.0, "booting")
    how = "could not be measured" if stand is StepState.UNKNOWN else "is not so"
    assert stuck(request(seen, now=1600.0)) == Trouble(
        f"bios is well: {how} after 10 min: booting", Owner.DATACENTRE,
        "check it, then: muster bringup retry n1")


def test_a_look_that_took_long_is_not_followed_by_another_at_once() -> None:
    assert (request(Observation(StepState.WAIT, "slow", again_s=15.0), times=replace(TIMES, learned=1100.0))
            == Until(1115.0, "slow"))


def test_the_time_of_a_step_is_over_for_actions_too() -> None:
    assert stuck(request(missing(WRITE), now=1600.0)).owner is Owner.DATACENTRE


def test_what_a_look_says_it_comes_to_when_the_time_is_over_is_what_it_comes_to() -> None:
    comes_to = Trouble("its BMC cannot be reached", Owner.NETWORK, "see to the port")
    seen = Observation(StepState.UNKNOWN, "no route", troubles=(comes_to,))
    assert request(
        seen, now=1599.0) == Until(1600.0, "no route") and stuck(request(seen, now=1600.0)) == comes_to


def test_what_became_of_an_action_that_no_one_knows_of_follows_from_what_is_next() -> None:
    cut = past(ended=None, done=None)
    often = operation("write")
    assert [(made.done if made else "open") for made in (
        found(cut, Through()), found(cut, StartOperation(WRITE)), found(cut, StartOperation(often)),
        found(cut, StartOperation(operation("off"))), found(cut, Stuck(())),
        found(cut, Until(1.0, "")))] == [True, False, None, None, None, "open"]


def test_an_action_that_may_be_done_often_is_done_again_after_its_time_to_show() -> None:
    pxe = operation("pxe", settle_s=30.0)
    assert request(missing(pxe), past("pxe", ended=990.0)) == Until(1015.0, "it is not so")
    assert request(missing(pxe), past("pxe", ended=970.0)) == StartOperation(pxe)
    assert request(
        missing(operation("pxe", settle_s=0.0)), past("pxe", ended=990.0)) == Until(1005.0, "it is not so")
    assert request(missing(pxe), past("pxe", ended=None, done=None)) == StartOperation(pxe)
    assert request(missing(pxe), past("pxe", ended=995.0, done=False)) == Until(1010.0, "it is not so")
    assert request(missing(pxe), past("pxe", ended=985.0, done=False)) == StartOperation(pxe)


def test_an_action_to_be_done_once_that_was_accepted_and_does_not_show_is_trouble() -> None:
    assert request(missing(WRITE), past(ended=950.0)) == Until(1010.0, "it is not so")
    on_event = stuck(request(missing(WRITE), past(ended=940.0)))
    assert (on_event == Trouble("do write was accepted, and after 60 s it does not show: it is not so",
                                Owner.OPERATOR, "check it, then: muster bringup retry n1"))


def test_what_a_look_did_not_show_is_of_its_beginning() -> None:
    # The look began five seconds after the operation, and took two minutes: what it saw was no proof.
    assert isinstance(request(missing(WRITE), past(ended=995.0), times=replace(TIMES, learned=1120.0)), Until)


def test_an_action_to_be_done_once_that_was_refused_is_asked_for_again() -> None:
    assert request(
        missing(WRITE), past(ended=990.0, done=False)) == Until(1005.0, "do write was not done: said")
    assert request(missing(WRITE), past(ended=985.0, done=False)) == StartOperation(WRITE)


def test_an_action_of_which_no_one_knows_is_left_its_time_and_done_again_only_if_it_would_have_shown(
) -> None:
    cut = past(began=100.0, ended=None, done=None)
    # It may have been sent until the moment at which its run was killed, which was before this one began.
    assert request(missing(WRITE, 100.0), cut) == Until(1060.0, "it is not so")
    assert request(missing(WRITE), cut, now=1060.0) == StartOperation(WRITE)
    lost = past(ended=980.0, done=None)
    assert (request(missing(operation("write", once=True, settle_s=1.0), 100.0), replace(lost, ended=995.0))
            == Until(1005.0, "it is not so"))
    blind = operation("write", once=True, shows=False)
    on_event = stuck(request(missing(blind), cut, now=1060.0))
    assert (on_event == Trouble("whether this was done is not known, and cannot be seen: do write",
                                Owner.OPERATOR, "check it, then: muster bringup retry n1"))


def test_another_key_is_another_action() -> None:
    assert (request(missing(operation("off", once=True)), past("write", ended=None, done=None))
            == StartOperation(operation("off", once=True)))


def test_a_look_that_is_not_so_and_names_no_action_is_a_defect_of_ours() -> None:
    assert stuck(request(Observation(StepState.NOT_SO, "no"))).owner is Owner.OPERATOR


PASTS = st.lists(
    st.builds(lambda key, began, took, done,
              cut: PastOperation(key, key, began, None if cut else began + took, None if cut else done, ""),
              st.sampled_from(["a", "b"]), st.floats(0, 3000), st.floats(0, 100),
              st.sampled_from([True, False, None]), st.booleans()), max_size=4)
DEEDS = st.builds(lambda key, once, shows, settle: operation(key, once=once, shows=shows, settle_s=settle),
                  st.sampled_from(["a", "b"]), st.booleans(), st.booleans(), st.floats(0, 100))
SEENS = st.builds(
    lambda stand, one,
    again: Observation(stand, "said", one if stand is StepState.NOT_SO else None, again_s=again),
    st.sampled_from(StepState), DEEDS, st.floats(0, 100))


@given(SEENS, PASTS, st.floats(1000, 3000), st.floats(0, 50), st.floats(0, 60))
def test_whatever_was_seen_only_so_goes_on_and_nothing_is_waited_for_beyond_the_steps_time(
    seen: Observation, pasts: list[PastOperation], now: float, took: float, grace: float,
) -> None:
    times = StepTimes(1000.0, 1000.0, now + took, grace)
    what = after(BIOS, Machine(NODE, 900.0, now, operations=tuple(pasts)), seen, times)
    assert isinstance(what, Through) == (seen.stand is StepState.SO)
    if isinstance(what, Until):
        assert times.learned <= what.time <= max(1600.0, times.learned)
    if now >= 1600.0 and seen.stand is not StepState.SO:
        assert isinstance(what, Stuck)
    if isinstance(what, StartOperation) and what.operation.once:
        same = [one for one in pasts if one.key == what.operation.key]
        assert not any(one.done for one in same)
        assert what.operation.shows or all(one.done is False for one in same)
        for one in same:
            # Whatever may have been sent has had its time before this look began.
            if one.done is not False:
                assert now >= (
                    times.woke if one.ended is None else one.ended) + max(grace, what.operation.settle_s)


@dataclass
class Box:
    """A machine with one thing to be done once: it comes true after `lag_s`, or never; `effects` counts."""

    lag_s: float
    blind: bool
    sent: float | None = None
    effects: int = 0

    def observe(self, now: float) -> Observation:
        shown = self.sent is not None and now >= self.sent + self.lag_s and not self.blind
        return SO if shown else missing(
            operation("write", once=True, shows=not self.blind, settle_s=20.0), 5.0)

    def make(self, now: float) -> None:
        self.sent = now if self.sent is None else self.sent
        self.effects += 1


# What becomes of each operation: it is killed before the effect or after it, its answer is lost, it is
# refused, or all is well.
FATES = st.lists(st.sampled_from(["before", "after", "lost", "lost before", "refused", "well"]), max_size=6)


@given(st.floats(0, 19.9), st.booleans(), FATES, st.floats(0, 30), st.floats(0, 8))
def test_however_often_it_is_killed_what_must_be_done_once_is_done_once(
    lag: float, blind: bool, fates: list[str], down: float, slow: float,
) -> None:
    box, now, woke, came = Box(lag, blind), 1000.0, 1000.0, 1000.0
    operations: list[PastOperation] = []
    for _ in range(1000):
        seen = box.observe(now)
        what = after(BIOS, Machine(NODE, 900.0, now, operations=tuple(operations)), seen,
                     StepTimes(came, woke, now + slow, 10.0))
        now += slow
        if isinstance(what, (Through, Stuck)):
            break
        if isinstance(what, Until):
            now = max(what.time, now + 0.001)
            continue
        fate = fates.pop() if fates else "well"
        if fate not in ("before", "lost before", "refused"):
            box.make(now)
        began, now = now, now + 1.0
        if fate in ("before", "after"):
            operations.append(PastOperation("write", "", began, None, None, ""))
            now += down
            woke = came = now
        else:
            operations.append(
                PastOperation("write", "", began, now, {"well": True, "refused": False}.get(fate), ""))
    else:
        raise AssertionError("it never ends")
    assert box.effects <= 1
    if isinstance(what, Through):
        assert box.effects == 1
