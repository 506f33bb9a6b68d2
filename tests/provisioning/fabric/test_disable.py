"""Ports are written down before they are disabled, asked once, and believed only when read back, whoever is
killed in between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.store import portdisables
from healthcheck.store.file import opened
from healthcheck.subnet.join import FabricJoin
from healthcheck.subnet.model import FabricEnd, LinkState, Subnet
from healthcheck.triage.policy import PortPolicy
from inventory.errors import UsageError
from provisioning.fabric import disable as acting
from provisioning.fabric.disable import LATE_S, PortOutcome, PortTools, settle
from provisioning.fabric.propose import PortProposal, named, proposals
from provisioning.fabric.route import PortAnswer, PortTarget
from tests.healthcheck.subnet.trees import Tree, leaf
from tests.provisioning.fabric.ports import HALF, KeptPorts, killed_at
from tests.testbed.death import Death

UPLINK, SECOND = FabricEnd(leaf(0), 3), FabricEnd(leaf(1), 3)


class MadeFabric:
    """A route to a fabric in memory; `deaf` makes a request have no effect, `killed` ends the sender at that
    moment."""

    name = "a made fabric"

    def __init__(self) -> None:
        self.subnet = Tree(3, 2, 2, 2).by_destination()
        self.asked: list[tuple[FabricEnd, bool]] = []
        self.deaf = False
        self.killed = ""
        self.answer = PortAnswer(None, "")

    def look(self) -> tuple[Subnet, ...]:
        if self.killed == "reading back" and self.asked:
            raise Death
        return (self.subnet,)

    def set(self, target: PortTarget, *, enable: bool, seen: Subnet) -> PortAnswer:
        if self.killed == "before":
            raise Death
        self.asked.append((target.end, enable))
        if self.answer.done is not False and not self.deaf:
            self.turn(target.end, "polling" if enable else "disabled")
        if self.killed == "after":
            raise Death
        return self.answer

    def turn(self, end: FabricEnd, physical: str) -> None:
        """The port's physical state is this; its cable's other end is seen only while it is up."""
        device = self.subnet.devices[end.guid]
        port = replace(device.ports[end.number], physical=physical, state=LinkState.DOWN, peer=None)
        self.subnet = replace(self.subnet, devices={
            **self.subnet.devices, end.guid: replace(device, ports={**device.ports, end.number: port})})

    def is_off(self, end: FabricEnd) -> bool:
        port = self.subnet.port(end)
        return port is not None and port.physical == "disabled"


class Bed(KeptPorts):
    """A store, a made fabric, a clock that stands still."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.fabric = MadeFabric()
        self.held: list[str] = []
        self.refuses = ""

    @contextmanager
    def hold(self, host: str) -> Iterator[None]:
        if self.refuses:
            raise UsageError(self.refuses)
        self.held.append(host)
        yield

    def tools(self, policy: PortPolicy = HALF) -> PortTools:
        return PortTools(self.folder, "ops", self.fabric, policy, self.hold, lambda: self.now, lambda _: None)

    def proposal(self, end: FabricEnd = UPLINK) -> PortProposal:
        (found,) = proposals(self.fabric.look(), FabricJoin(), {end: "bit errors"}, HALF, self.rows())
        return found

    def disable(self, end: FabricEnd = UPLINK, policy: PortPolicy = HALF) -> PortOutcome:
        return acting.disable(self.proposal(end), self.fabric.subnet, 12, self.tools(policy))


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


def test_a_port_is_disabled_read_back_and_enabled_again_and_the_ledger_has_both(bed: Bed) -> None:
    done = bed.disable()
    assert done.done is True and "3 of its 4 working uplinks are left" in done.message
    (row,) = bed.rows()
    assert (row.stands, row.why, row.route) == ("disabled", "bit errors",
                                                "a made fabric") and row.place == "200 port 3 to 100 port 1"
    back = acting.enable(row, "mended", bed.tools())
    assert back == PortOutcome(row.place, True,
                               "enabled (polling); its link is not up yet") and bed.rows() == ()
    assert bed.fabric.asked == [(UPLINK, False), (UPLINK, True)]
    assert ([action for action, _ in bed.ledger()] == ["disable port", "enable port"]
            and all(outcome for _, outcome in bed.ledger()))


def test_what_does_not_show_is_unknown_and_never_done_and_is_not_asked_twice(bed: Bed) -> None:
    bed.fabric.deaf = True
    assert bed.disable().done is None
    assert bed.rows()[0].stands == "UNKNOWN: asked to disable it" and bed.ledger() == [("disable port", None)]
    assert bed.disable().message == "not disabled: ops has it: muster fabric disable lists it"
    (early,) = settle(bed.tools())
    assert early.done is None and "whether the request is still on its way" in early.message
    bed.now += LATE_S
    (late,) = settle(bed.tools())
    assert late.done is False and bed.rows() == () and bed.fabric.asked == [(UPLINK, False)]


@pytest.mark.parametrize(("moment", "asked", "stands"),
                         [("before", 0, "UNKNOWN: asked to disable it"), ("after", 1, "disabled"),
                          ("reading back", 1, "disabled")])
def test_whoever_is_killed_leaves_what_the_next_one_finds_out(bed: Bed, moment: str, asked: int,
                                                              stands: str) -> None:
    proposal = bed.proposal()
    bed.fabric.killed = moment
    with pytest.raises(Death):
        acting.disable(proposal, bed.fabric.subnet, 12, bed.tools())
    bed.fabric.killed = ""
    assert len(bed.fabric.asked) == asked and len(bed.rows()) == 1
    settle(bed.tools())
    assert bed.rows()[0].stands == stands and len(bed.fabric.asked) == asked
    bed.now += LATE_S
    settle(bed.tools())
    assert len(bed.rows()) == asked and bed.fabric.is_off(UPLINK) == bool(asked)


@pytest.mark.parametrize("step", ["begin", "asking", "held"])
def test_killed_at_a_step_of_the_record_a_port_is_asked_at_most_once(bed: Bed, step: str) -> None:
    proposal = bed.proposal()
    with killed_at(step):
        acting.disable(proposal, bed.fabric.subnet, 12, bed.tools())
    settle(bed.tools())
    assert len(bed.fabric.asked) == (step == "held")
    assert [row.stands for row in bed.rows()] == (["disabled"] if step == "held" else [])
    assert all(outcome for _, outcome in bed.ledger())


@pytest.mark.parametrize("moment", ["before", "after", "reading back"])
def test_killed_while_enabling_the_port_stays_ours_until_it_is_read_back(bed: Bed, moment: str) -> None:
    bed.disable()
    (row,) = bed.rows()
    bed.fabric.asked.clear()
    bed.fabric.killed = moment
    with pytest.raises(Death):
        acting.enable(row, "mended", bed.tools())
    bed.fabric.killed = ""
    (told,) = settle(bed.tools())
    if moment == "before":
        assert "disabled still" in told.message and len(bed.rows()) == 1
        assert acting.enable(bed.rows()[0], "mended", bed.tools()).done is True
    assert bed.rows() == () and not bed.fabric.is_off(UPLINK) and bed.fabric.asked == [(UPLINK, True)]


def test_what_the_route_refuses_is_not_done_and_takes_no_room(bed: Bed) -> None:
    bed.fabric.answer = PortAnswer(False, "its cable leads elsewhere now")
    assert bed.disable().message == "not disabled: its cable leads elsewhere now" and bed.rows() == ()
    bed.fabric.answer = PortAnswer(None, "")
    with opened(bed.folder) as store:
        assert portdisables.used(store, 0) == 0


def test_the_policy_bounds_how_many_are_disabled_and_enabling_makes_no_room(bed: Bed) -> None:
    one = replace(HALF, number=1)
    assert bed.disable(policy=one).done is True
    acting.enable(bed.rows()[0], "mended", bed.tools())
    refused = bed.disable(SECOND, one)
    assert (refused.message == "not disabled: 1 ports were disabled lately, and the policy allows 1"
            and len(bed.fabric.asked) == 2)
    bed.now += 25 * 3600
    assert bed.disable(SECOND, one).done is True


def test_a_port_that_somebody_enabled_is_no_longer_ours(bed: Bed) -> None:
    bed.disable()
    bed.fabric.turn(UPLINK, "linkup")
    (told,) = settle(bed.tools())
    assert told.message == "somebody else enabled it (linkup)" and bed.rows() == ()


def test_a_port_that_somebody_else_disabled_is_refused(bed: Bed) -> None:
    bed.fabric.turn(UPLINK, "disabled")
    assert bed.proposal().disable.refused == "it is disabled already, and not by this"


def test_a_leaf_does_not_lose_its_uplinks_one_day_at_a_time(bed: Bed) -> None:
    for number, refused in ((3, ""), (4, ""), (5, "200 would keep 1 uplinks, and the policy asks for 2")):
        proposal = bed.proposal(FabricEnd(leaf(0), number))
        assert proposal.disable.refused == refused
        if not refused:
            assert bed.disable(FabricEnd(leaf(0), number)).done is True
        bed.now += 25 * 3600


def test_the_machine_of_a_host_link_is_held_and_where_it_cannot_be_nothing_is_asked(bed: Bed) -> None:
    link = replace(bed.proposal(), disable=replace(bed.proposal().disable, hosts=("gpu001",)))
    bed.refuses = "it is not proven idle: a job"
    assert acting.disable(link, bed.fabric.subnet, 12,
                          bed.tools()).message == "not disabled: it is not proven idle: a job"
    assert bed.fabric.asked == [] and bed.rows() == ()
    bed.refuses = ""
    assert acting.disable(link, bed.fabric.subnet, 12, bed.tools()).done is True and bed.held == ["gpu001"]


def test_a_switch_that_is_gone_afterwards_is_said_and_the_outcome_is_not_well(bed: Bed) -> None:
    proposal, before = bed.proposal(), bed.fabric.subnet
    bed.fabric.subnet = replace(before, devices={guid: one
                                                 for guid, one in before.devices.items() if guid != leaf(2)})
    done = acting.disable(proposal, before, 12, bed.tools())
    assert (done.done is None and "202 is no longer seen" in done.message
            and bed.rows()[0].stands == "disabled")


@pytest.mark.parametrize(("word", "said"), [("leaf", "expected SWITCH/PORT"),
                                            ("nosuch/3", "no device of that name or GUID was seen"),
                                            ("200/99", "no such port was seen there"),
                                            ("\x1b[31m/1", "no device")])
def test_a_port_that_cannot_be_found_is_one_clear_line(bed: Bed, word: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as error:
        named(word, bed.fabric.look())
    assert "\x1b" not in str(error.value)
    assert named("200/3", bed.fabric.look()) == named(f"0x{leaf(0)}/3", bed.fabric.look()) == UPLINK
