"""Step bios: settings written once, one power cycle, and only a look ends it; also when killed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.config.rulesfolder import packaged
from healthcheck.facts.values import Unmeasured
from healthcheck.model.outcome import Owner
from provisioning.bmc.base import Bios, BmcError, BmcErrorReason, PowerState
from provisioning.bringup.engine.model import (
    Machine,
    Observation,
    Operation,
    OperationResult,
    StepEffect,
    StepState,
)
from provisioning.bringup.engine.run import run
from provisioning.bringup.engine.site import BringupOutcome, RunContext
from provisioning.bringup.policy.load import load
from provisioning.bringup.policy.model import BringupPolicy, DesiredBios, Machines, MissingAttribute
from provisioning.bringup.steps.bios import BiosAsDesired, digest_of, same
from tests.provisioning.bringup.controllers import (
    IDENTITY,
    NODE,
    POLICY,
    UNSUPPORTED,
    Scripted,
    machine,
    past,
    sku_of,
)
from tests.provisioning.bringup.scripted import Plan
from tests.testbed.death import Clock

OLD: dict[str, str | int | bool] = {"ProcTurboMode": "Disabled", "NumCores": 4, "Quiet": True}
WISHED: dict[str, str | int | bool] = {"ProcTurboMode": "Enabled", "NumCores": 8}
POWER = POLICY.power
OFF, ON = f"off:bios:{digest_of(WISHED)}", f"on:bios:{digest_of(WISHED)}"
WRITE = f"write:{digest_of(WISHED)}"


def policy(
    absent: MissingAttribute = MissingAttribute.TROUBLE, vendor: str = "Dell*", **settings: str | int | bool,
) -> BringupPolicy:
    return replace(
        POLICY, bios=(DesiredBios("ours", Machines(vendor), settings or WISHED, absent, "a test's"),))


def bios(controller: Scripted, desired: BringupPolicy | None = None) -> BiosAsDesired:
    return BiosAsDesired(POLICY.steps["bios"], controller, desired or policy(), sku_of)


def looked(
    controller: Scripted, *operations: tuple[str, bool | None], after: float = 1.0,
    desired: BringupPolicy | None = None, message: str = "accepted", kept: dict[str, str] | None = None,
) -> Observation:
    of = machine(after=after, operations=tuple(past(key, done, message=message) for key, done in operations),
                 kept=kept)
    (_, found), = bios(controller, desired).observe([of])
    return found


def brought(
    folder: Path, controller: Scripted, executor: BiosAsDesired | None = None, clock: Clock | None = None,
) -> BringupOutcome:
    clock = clock or Clock()
    executor = executor or bios(controller)
    return run(RunContext(folder, "somebody", clock, clock.sleep), [NODE], {"bios": executor},
               Plan({"bios": executor.step}), lambda event: None)


WRITES = "write ProcTurboMode=Enabled,NumCores=8"
LOST = BmcError(BmcErrorReason.UNREACHABLE, "connection dropped", done=None)
AWAY = BmcError(BmcErrorReason.UNREACHABLE, "no route", done=False)


def before(**more: Any) -> Callable[[], Scripted]:
    """Makes a machine with the old settings, or with these."""
    return lambda: Scripted(**{"settings": dict(OLD), **more})


@pytest.mark.parametrize(("made", "operations"), [
    (before(), [WRITES, "off", "on"]), (before(on=PowerState.OFF), [WRITES, "on"]),
    (before(settings={**OLD, **WISHED}), []), (before(pending=dict(WISHED)), ["off", "on"]),
    (before(fails={"written": [LOST, LOST]}), [WRITES, "off", "on"]),
    (before(fails={"turned": [LOST, LOST]}), [WRITES, "off", "on"]),
    (before(fails={"set_bios": [AWAY, None], "turn": [AWAY, None, AWAY, None]}), [WRITES, "off", "on"])],
    ids=["the power goes off and on once", "one that is off is only turned on", "as wished costs no reset",
         "what waits is not written again", "a lost answer costs no second write", "nor a second reset",
         "what never came there is sent again"])
def test_settings_are_written_once_and_then_they_are_current(
    tmp_path: Path, made: Callable[[], Scripted], operations: list[str],
) -> None:
    controller = made()
    assert brought(tmp_path, controller).done == ("gx01",)
    assert (controller.operations, controller.settings) == (operations, {**OLD, **WISHED})


class Dying(BiosAsDesired):
    """A step of which it is not known the end of one change, which was made or was not."""

    def __init__(self, controller: Scripted, at: int, done: bool) -> None:
        super().__init__(POLICY.steps["bios"], controller, policy(), sku_of)
        self._left, self._done = at, done

    def make(self, machine: Machine, operation: Operation) -> OperationResult:
        self._left -= 1
        if self._left:
            return super().make(machine, operation)
        if self._done:
            super().make(machine, operation)
        return OperationResult(None, "it is not known")


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("done", [False, True])
def test_a_change_whose_end_no_one_knows_is_done_again_only_where_it_does_not_show(
    tmp_path: Path, at: int, done: bool,
) -> None:
    controller = Scripted(settings=dict(OLD))
    assert brought(tmp_path, controller, Dying(controller, at, done)).done == ("gx01",)
    assert controller.operations == [WRITES, "off", "on"]


@pytest.mark.parametrize("message", [
    "refused: 400: Pending configuration values are already committed, unable to perform another set "
    "operation.",
    "refused: 409: A pending BIOS configuration job exists"])
def test_a_change_that_waits_for_a_reset_is_named_and_not_the_setting(message: str) -> None:
    found = looked(Scripted(settings=dict(OLD)), (WRITE, False), message=message)
    (wrong,) = found.troubles
    assert "while an earlier change waits" in wrong.what
    assert wrong.hand.startswith("restart the machine once")


def test_a_setting_that_is_refused_is_ours_and_named_and_nothing_is_reset(tmp_path: Path) -> None:
    controller = Scripted(settings=dict(OLD),
                          fails={"set_bios": BmcError(BmcErrorReason.REFUSED, "400: NumCores is read-only")})
    assert brought(tmp_path, controller).trouble == ("gx01",) and controller.operations == []
    found = looked(controller, (WRITE, False), message="refused: 400: NumCores is read-only")
    assert (found.stand is StepState.TROUBLE and found.troubles[0].owner is Owner.OPERATOR
            and "NumCores" in found.troubles[0].what)


def test_a_bios_that_takes_settings_and_does_not_apply_them_is_the_vendors_after_its_time(
    tmp_path: Path,
) -> None:
    controller, clock = Scripted(settings=dict(OLD), applies=False), Clock()
    assert brought(tmp_path, controller, clock=clock).trouble == ("gx01",)
    assert controller.operations == [WRITES, "off", "on"]
    assert POWER.bios_s <= clock.now - 1000 < POWER.bios_s + 100
    waits = looked(controller, (WRITE, True), (OFF, True), (ON, True), after=POWER.bios_s - 1)
    assert waits.stand is StepState.WAIT
    found = looked(controller, (WRITE, True), (OFF, True), (ON, True), after=POWER.bios_s + 1)
    assert (found.stand is StepState.TROUBLE and found.troubles[0].owner is Owner.VENDOR
            and "is as it was after a reset" in found.troubles[0].what)


def test_a_machine_that_does_not_go_off_or_on_is_for_the_data_centre(tmp_path: Path) -> None:
    controller = Scripted(settings=dict(OLD), stays=True)
    assert brought(tmp_path, controller).trouble == ("gx01",) and controller.operations[1:] == ["off"]
    found = looked(
        replace(controller, pending=dict(WISHED)), (WRITE, True), (OFF, True), after=POWER.off_s + 1)
    assert (found.stand is StepState.TROUBLE and found.troubles[0].owner is Owner.DATACENTRE
            and found.troubles[0].part == "psu")
    dark = looked(replace(controller, pending=dict(WISHED), on=PowerState.OFF), (WRITE, True), (OFF, True),
                  (ON, True), after=POWER.on_s + 1)
    assert (dark.stand is StepState.TROUBLE and dark.troubles[0].owner is Owner.DATACENTRE
            and "rack r12" in dark.troubles[0].hand)


def test_a_power_that_will_not_be_turned_is_ours() -> None:
    found = looked(Scripted(settings=dict(OLD), pending=dict(WISHED)), (OFF, False),
                   message="denied: the account may not")
    assert (found.stand is StepState.TROUBLE and found.troubles[0].owner is Owner.OPERATOR
            and "turn it off" in found.troubles[0].what)


def test_while_the_power_changes_nothing_is_asked_for() -> None:
    assert looked(
        Scripted(settings=dict(OLD), pending=dict(WISHED), on=PowerState.CHANGING)).stand is StepState.WAIT


def test_settings_that_come_one_by_one_during_a_boot_are_no_reason_for_another_reset() -> None:
    half = Scripted(settings={**OLD, "NumCores": 8}, pending={"ProcTurboMode": "Enabled"})
    assert looked(half, (WRITE, True), (OFF, True), (ON, True), after=10).stand is StepState.WAIT
    later = looked(half, (WRITE, True), (OFF, True), (ON, True), after=POWER.bios_s + 1)
    assert (later.stand is StepState.NOT_SO and later.operation is not None
            and later.operation.key == f"off:bios:{digest_of({'ProcTurboMode': 'Enabled'})}")


class ComesOn(Scripted):
    """Its power comes on between two questions of one look."""

    def power(self) -> PowerState:
        was, self.on = self.on, PowerState.ON
        return was


@pytest.mark.parametrize("was", [PowerState.OFF, PowerState.CHANGING])
@pytest.mark.parametrize("waits", [True, False])
def test_a_machine_that_comes_on_during_a_look_is_not_written_to_again(was: PowerState, waits: bool) -> None:
    found = looked(ComesOn(settings=dict(OLD), pending=dict(WISHED) if waits else {}, on=was), (WRITE, True),
                   (OFF, True), (ON, True))
    assert found.stand is StepState.WAIT, found


def test_the_action_tells_each_setting_as_it_is_and_as_it_will_be() -> None:
    found = looked(Scripted(settings=dict(OLD)))
    assert (found.stand is StepState.NOT_SO and found.operation is not None and found.operation.once
            and found.operation.shows)
    assert found.operation.change == (
        "BIOS ProcTurboMode: Disabled -> Enabled", "BIOS NumCores: 4 -> 8") and found.operation.key == WRITE


def test_where_what_waits_cannot_be_read_a_write_of_unknown_end_is_not_done_again() -> None:
    blind = Scripted(settings=dict(OLD), pending=Unmeasured("x"))
    found = looked(blind)
    assert found.operation is not None and not found.operation.shows
    reset = looked(blind, (WRITE, True))
    assert (reset.operation is not None and reset.operation.key == OFF
            and reset.operation.effect is StepEffect.DISRUPTIVE)


def test_what_changed_between_look_and_write_is_not_written() -> None:
    controller = Scripted(settings={**OLD, "NumCores": 8})
    made = bios(controller).make(machine(), Operation("write BIOS settings", WRITE, (), StepEffect.PASSIVE))
    assert made.done is False and controller.operations == []


def test_a_setting_that_the_bios_does_not_have_is_ours_or_left_as_the_policy_says() -> None:
    controller = Scripted(settings={"NumCores": 8})
    found = looked(controller)
    assert (found.stand is StepState.TROUBLE and "no setting ProcTurboMode" in found.message
            and "bringup.yaml" in found.troubles[0].hand)
    left = looked(controller, desired=policy(MissingAttribute.LEAVE))
    assert left.stand is StepState.SO and "1 settings as wanted; it has no ProcTurboMode" in left.message


@pytest.mark.parametrize("how", ["raises", "says"])
def test_a_controller_that_knows_no_bios_is_trouble_where_something_is_wished_and_none_where_not(
    how: str,
) -> None:
    controller = Scripted(
        settings=UNSUPPORTED,
        fails={"bios": BmcError(BmcErrorReason.UNSUPPORTED, "IPMI")} if how == "raises" else {})
    found = looked(controller)
    assert (found.stand is StepState.TROUBLE and "by hand" in found.troubles[0].hand
            and "muster bringup skip gx01 --step bios --reason" in found.troubles[0].hand)
    nothing = looked(controller, desired=replace(POLICY, bios=()))
    assert nothing.stand is StepState.SO and nothing.message == "no setting is wanted for"


def test_settings_that_could_not_be_read_are_read_again() -> None:
    found = looked(Scripted(settings=Unmeasured("it answered 500")))
    assert found.stand is StepState.UNKNOWN and found.troubles[0].owner is Owner.OPERATOR


def test_wishes_go_by_the_maker_that_was_kept_or_is_asked_for_and_an_unknown_maker_is_no_pass() -> None:
    controller = Scripted(settings=dict(OLD))
    assert looked(controller, kept={"vendor": "HPE"}).message == "no setting is wanted for"
    assert looked(controller, kept={"vendor": "Dell Inc."}).stand is StepState.NOT_SO
    silent = Scripted(settings=dict(OLD), who=replace(IDENTITY, vendor=Unmeasured("x")))
    assert looked(silent).stand is StepState.TROUBLE
    assert looked(silent, desired=policy(vendor="*")).stand is StepState.NOT_SO


def test_the_packaged_wishes_that_a_site_turns_on_make_a_dell_as_it_should_be(tmp_path: Path) -> None:
    (tmp_path / "bringup.yaml").write_text(
        "bios: [{id: dell-large-bars, enabled: true}, {id: dell-full-speed, enabled: true}]\n")
    controller = Scripted(settings={"MmioAbove4Gb": "Disabled", "SysProfile": "PerfPerWattOptimizedDapc"})
    executor = BiosAsDesired(POLICY.steps["bios"], controller, load([packaged(), tmp_path]), sku_of)
    assert brought(tmp_path, controller, executor).done == ("gx01",)
    assert controller.settings == {"MmioAbove4Gb": "Enabled", "SysProfile": "PerfOptimized"}


@given(st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["x", 1, True, "1"]), min_size=1))
def test_a_digest_names_settings_whatever_their_order_and_tells_values_apart(
    given_: dict[str, str | int | bool],
) -> None:
    assert digest_of(given_) == digest_of(dict(reversed(given_.items())))
    assert all(digest_of({**given_, name: "y"}) != digest_of(given_) for name in given_)


@pytest.mark.parametrize(("one", "other", "groups"),
                         [("Enabled", "enabled", True), (True, "true", True), (8, "8", True),
                          (True, 1, False), ("1", True, False), ("On", True, False), ("a", "b", False)])
def test_values_are_compared_as_controllers_write_them(
    one: str | int | bool, other: str | int | bool, groups: bool,
) -> None:
    assert same(one, other) is groups


@settings(deadline=None)
@given(st.lists(st.sampled_from(["told", "lost", "away", "not made"]), max_size=12))
def test_however_changes_end_each_is_made_once(ends: list[str]) -> None:
    """Told, made and its answer lost, lost on the way, or known not to be made; then all are told. As the
    engine, what was accepted is not done again."""
    controller, ends = Scripted(settings=dict(OLD)), list(ends)
    done: dict[str, tuple[float, bool | None]] = {}
    for now in range(len(ends) + 6):
        of = machine(
            after=now, operations=tuple(past(key, ended, at=at) for key, (at, ended) in done.items()))
        (_, found), = bios(controller).observe([of])
        if found.operation is None:
            continue
        assert done.get(found.operation.key, (0, None))[1] is not True
        end = ends.pop(0) if ends else "told"
        if end in ("told", "lost"):
            assert bios(controller).make(of, found.operation).done
        done[found.operation.key] = float(now), {"told": True, "not made": False}.get(end)
    assert controller.operations == [
        "write ProcTurboMode=Enabled,NumCores=8", "off", "on"] and found.stand is StepState.SO


def test_current_and_pending_are_read_in_one_go() -> None:
    controller = Scripted(settings=dict(OLD))
    reads: list[Bios] = []
    read = controller.bios
    controller.bios = lambda: reads.append(read()) or reads[
        -1]  # type: ignore[method-assign,func-returns-value]
    looked(controller)
    assert len(reads) == 1
