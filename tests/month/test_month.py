"""A month on the simulated site, as hypothesis tells it: whatever happens, in whatever order, no part is in
two places, no hold is without an owner and a way to end it, and no node comes back unmeasured.

The laws are in `story.py`, what a node is owed in `model.py`. The deep form tells whole months.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from healthcheck.subnet.check.findings import FabricRule
from tests.month.story import Story
from tests.month.world import slot_of
from tests.testbed.memory import in_memory

# Of all racks, leaves and PDUs a few: what happens shall meet.
SOME = st.sampled_from([1, 2, 3, 9, 10, 17, 18, 33, 34, 35, 50, 64])
GPU = st.integers(0, 3)
PART_RULES = st.sampled_from(["gpu-row-remap-failed", "gpu-ecc-uncorrected"])
NODE_RULES = st.sampled_from(["host-memory", "port-state", "fleet-driver"])
PLACE = st.sampled_from([("rack", "r0"), ("leaf", "l1"), ("power", "pdu2")])


class Month(RuleBasedStateMachine):
    """`sweeps` a day go on by themselves in `time_goes_on`; everything else is an event."""

    sweeps = 3

    @initialize(main=st.sampled_from(["hostfile", "slurm"]))
    def begin(self, main: str) -> None:
        self.folder = in_memory()
        self.story = Story(Path(self.folder.name), main)
        self.names = list(self.story.world.machines)
        self.spare = 0

    def node(self, number: int) -> str:
        """The node that stood at this number, by its name now."""
        return self.names[number - 1]

    def there(self, *numbers: int) -> list[str]:
        """Those of them that the inventory has."""
        lives = self.story.world.lifecycles()
        return [self.node(number) for number in numbers if self.node(number) in lives]

    # ---- time

    @rule(sweeps=st.integers(1, 4), minutes=st.sampled_from([11.0, 20.0, 65.0]))
    def sweeps_go_on(self, sweeps: int, minutes: float) -> None:
        self.story.turn(sweeps, minutes)

    @rule(hours=st.sampled_from([16, 30]))
    def time_goes_on(self, hours: int) -> None:
        self.story.turn(max(4, hours * self.sweeps // 24), hours * 60 / max(4, hours * self.sweeps // 24))
        self.story.turn(2, 11)

    # ---- parts

    @rule(at=SOME, gpu=GPU, what=PART_RULES)
    def a_part_fails(self, at: int, gpu: int, what: str) -> None:
        self.story.part_fails(self.node(at), gpu, what)
        self.story.turn(2)

    @rule(at=SOME)
    def what_a_part_had_goes_away(self, at: int) -> None:
        for gpu in range(4):
            self.story.part_is_well(self.node(at), gpu)
        self.story.turn(1)

    @rule(one=SOME, gpu=GPU, other=SOME, there=GPU)
    def boards_change_places(self, one: int, gpu: int, other: int, there: int) -> None:
        if (one, gpu) != (other, there):
            self.story.parts_change_places(self.node(one), gpu, self.node(other), there)
            self.story.turn(1)

    @rule(at=SOME, gpu=GPU)
    def a_spare_takes_its_place(self, at: int, gpu: int) -> None:
        self.spare += 1
        self.story.part_is_exchanged(self.node(at), gpu, f"SPARE{self.spare}")
        self.story.turn(1)

    @rule(at=SOME, gpu=GPU)
    def a_board_goes_to_the_vendor(self, at: int, gpu: int) -> None:
        if self.there(at) and not self.story.operator.away(self.node(at)):
            self.story.rma_opened(self.node(at), gpu)
            self.story.turn(1)

    @rule(at=SOME, how=st.sampled_from(["new", "same", "wrong", "?"]))
    def a_board_comes_back(self, at: int, how: str) -> None:
        if not self.there(at) or not self.story.operator.away(self.node(at)):
            return
        self.spare += 1
        new = f"NEW{self.spare}"
        seat = {"wrong": "OTHER" + new, "?": new}.get(how, "")
        self.story.rma_returned(self.node(at), {"new": new, "wrong": new}.get(how, how), seat)
        self.story.turn(2)
        self.story.lifecycle(self.node(at), "service")
        self.story.turn(2)

    @rule(at=SOME, other=SOME, gpu=GPU)
    def a_board_that_was_exchanged_shows_up_elsewhere(self, at: int, other: int, gpu: int) -> None:
        gone = [one for one in self.story.operator.returns if one.node == self.node(at)
                and one.outcome not in ("", "same")
                and one.serial not in {serial for machine in self.story.world.machines.values()
                                       for serial in machine.parts.values()}]
        if gone and at != other:
            self.story.old_board_shows_up(gone[-1].serial, self.node(other), gpu)
            self.story.turn(2)

    @rule(at=SOME, gpu=GPU)
    def a_board_is_exchanged_on_site(self, at: int, gpu: int) -> None:
        if self.there(at) and not self.story.operator.away(self.node(at)):
            self.spare += 1
            self.story.exchanged_on_site(self.node(at), gpu, f"SPARE{self.spare}")
            self.story.turn(2)
            self.story.lifecycle(self.node(at), "service")
            self.story.turn(2)

    @rule(at=SOME)
    def a_return_is_closed(self, at: int) -> None:
        if self.there(at) and self.story.rma_closed(self.node(at)):
            self.story.turn(2)
            if not self.story.operator.away(self.node(at)):
                self.story.lifecycle(self.node(at), "service")
            self.story.turn(2)

    @rule(one=SOME, other=SOME)
    def two_nodes_change_places(self, one: int, other: int) -> None:
        if one != other:
            self.story.nodes_change_places(self.node(one), self.node(other))
            self.story.turn(2)

    # ---- nodes and places

    @rule(at=SOME, what=NODE_RULES)
    def a_node_fails(self, at: int, what: str) -> None:
        self.story.node_fails(self.node(at), what)
        self.story.turn(2)

    @rule(at=SOME)
    def a_node_is_well(self, at: int) -> None:
        self.story.node_is_well(self.node(at))
        self.story.turn(1)

    @rule(at=SOME, times=st.integers(2, 5), minutes=st.sampled_from([20.0, 60.0]))
    def a_link_flaps(self, at: int, times: int, minutes: float) -> None:
        for _ in range(times):
            self.story.node_fails(self.node(at), "port-state")
            self.story.turn(1, minutes)
            self.story.node_is_well(self.node(at))
            self.story.turn(1, minutes)

    @rule(at=SOME, what=st.sampled_from([FabricRule.LINK, FabricRule.ERRORS]), turns=st.integers(1, 4))
    def a_cable_is_sick_and_is_reseated(self, at: int, what: FabricRule, turns: int) -> None:
        node = self.node(at)
        self.story.cable_is_sick(node, what)
        self.story.turn(turns)
        self.story.cable_is_reseated(node)
        self.story.turn(1)

    @rule(where=PLACE, what=st.sampled_from(["", "port-state"]))
    def a_place_fails_and_is_back(self, where: tuple[str, str], what: str) -> None:
        self.story.place_fails(*where, what)
        self.story.turn(3)
        self.story.place_is_well(*where, what)
        self.story.turn(1)

    @rule(times=st.integers(2, 4))
    def a_leaf_flaps(self, times: int) -> None:
        for _ in range(times):
            self.story.place_fails("leaf", "l2", "port-state")
            self.story.turn(1)
            self.story.place_is_well("leaf", "l2", "port-state")
            self.story.turn(1)

    # ---- people

    @rule(at=SOME, second=st.booleans())
    def a_person_cordons(self, at: int, second: bool) -> None:
        if self.there(at):
            self.story.cordon(self.node(at), "fan", hostfile=second)
            self.story.turn(1)

    @rule(at=SOME)
    def a_person_uncordons(self, at: int) -> None:
        if self.there(at):
            self.story.uncordon(self.node(at))
            self.story.turn(1)

    @rule(at=SOME)
    def a_person_ends_a_mark(self, at: int) -> None:
        self.story.mark_ends(self.node(at))
        self.story.turn(1)

    @rule(at=SOME, minutes=st.sampled_from([30.0, 600.0]), killed=st.booleans())
    def a_burn_in_leases_a_node(self, at: int, minutes: float, killed: bool) -> None:
        if self.there(at):
            self.story.lease(self.node(at), minutes, killed=killed)
            self.story.turn(2)

    @rule(at=SOME)
    def a_burn_in_ends(self, at: int) -> None:
        self.story.lease_ends(self.node(at))
        self.story.turn(1)

    @rule(at=SOME, hours=st.sampled_from([1, 30]))
    def a_person_silences(self, at: int, hours: int) -> None:
        if self.there(at):
            self.story.silence(self.node(at), "*" if hours == 1 else "gpu-*", hours) if hours != 1 else \
                self.story.silence(self.node(at), "host-*", hours)
            self.story.turn(1)

    @rule(at=SOME)
    def a_person_wants_to_hear_again(self, at: int) -> None:
        if self.there(at):
            self.story.unsilence(self.node(at))
            self.story.turn(1)

    @rule(at=SOME, how=st.sampled_from(["drains", "frees", "edits", "says that it is repaired"]))
    def a_person_works_beside_us(self, at: int, how: str) -> None:
        node = self.node(at)
        if not self.there(at):
            return
        if how == "drains":
            self.story.person_drains(node, "bench, alice")
        elif how == "frees":
            self.story.person_frees(node)
        elif how == "edits":
            self.story.person_edits(node)
        else:
            self.story.repaired(node)
        self.story.turn(1)

    @rule(at=SOME, state=st.sampled_from(["maintenance", "service", "service"]))
    def a_node_leaves_service_or_is_back(self, at: int, state: str) -> None:
        if self.there(at) and not self.story.operator.away(self.node(at)):
            self.story.lifecycle(self.node(at), state)
            self.story.turn(1)

    @rule(at=SOME)
    def a_node_is_removed_or_readmitted(self, at: int) -> None:
        if self.there(at):
            self.story.world.remove(self.node(at))
        else:
            self.story.world.readmit(self.node(at))
        self.story.turn(1)

    @rule(at=SOME)
    def a_node_is_renamed(self, at: int) -> None:
        if self.there(at):
            self.spare += 1
            new = f"gpu{100 + self.spare}"
            if self.story.renamed(self.node(at), new):
                self.names[at - 1] = new
            self.story.turn(1)

    # ---- the head

    @rule()
    def the_store_is_copied(self) -> None:
        self.story.backup()

    @precondition(lambda self: self.story.world.backups)
    @rule()
    def an_older_copy_is_restored(self) -> None:
        self.story.restore()
        self.story.turn(1)

    @rule()
    def the_store_moves_to_another_head(self) -> None:
        self.story.moves()
        self.story.turn(1)

    @rule(hours=st.sampled_from([-24, -2, 2, 24]))
    def the_clock_of_the_head_jumps(self, hours: int) -> None:
        self.story.clock_jumps(hours)
        self.story.turn(1)

    @rule(strict=st.booleans())
    def the_rules_change(self, strict: bool) -> None:
        for at in (2, 33):
            self.story.world.machines[self.node(at)].hot = True
        self.story.rules_change(strict=strict)
        self.story.turn(2)

    @rule()
    def the_breaker_is_closed(self) -> None:
        self.story.world.triage("--close-breaker", "--reason", "looked at")

    def teardown(self) -> None:
        if hasattr(self, "story"):
            self.story.every_hold_can_be_ended()
            self.folder.cleanup()


def walk(machine: type[Month], examples: int, steps: int) -> None:
    """So many stories of so many events each."""
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None,
                          suppress_health_check=list(HealthCheck)))


@pytest.mark.timeout(300)
def test_some_days_of_a_site() -> None:
    walk(Month, 4, 6)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_months_of_a_site() -> None:
    walk(Month, 120, 90)


def test_the_books_of_the_operator_ask_nothing_of_muster() -> None:
    tree = ast.parse((Path(__file__).parent / "model.py").read_text())
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [name for name in names if name.partition(".")[0] in ("healthcheck", "inventory",
                                                                     "provisioning", "tests")]


def test_a_slot_is_where_its_number_says() -> None:
    assert slot_of(2) == "00000000:03:00.0"
