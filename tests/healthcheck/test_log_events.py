"""What a kernel log reported ends as its entry says and by proof alone: at home, in the store, after a
restore, and by a person's word."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from healthcheck.config.rulesfolder import packaged
from healthcheck.kernellog.ending import EndKind
from healthcheck.model.outcome import Status, exit_code
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.store import rmas
from healthcheck.store.cordons import CordonState, mean, settle
from healthcheck.triage.gather import gather
from healthcheck.triage.policyload import load_policy
from healthcheck.triage.requalify import requalified
from provisioning.remediate.rma import returning
from tests.healthcheck import machine
from tests.healthcheck.logworld import (
    ECC,
    FALLEN,
    GPU,
    HOUR,
    NAME,
    NODE,
    POWER,
    RESET,
    START,
    TIMED_OUT,
    WANTS_RESET,
    XID,
    LogWorld,
    failing,
)
from tests.tries import tries

LINES = {EndKind.BOOT: FALLEN, EndKind.RESET: ECC, EndKind.REPAIR: POWER, EndKind.QUIET: TIMED_OUT}
RULES = {EndKind.BOOT: "kernel-xid", EndKind.RESET: "kernel-xid", EndKind.REPAIR: "kernel-xid",
         EndKind.QUIET: "disk-log-nvme-resets"}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LogWorld:
    return LogWorld(tmp_path, monkeypatch)


# Worlds in which a sweep has seen a report, by how it ends.
_REPORTED: dict[EndKind, LogWorld] = {}


def reported(world: LogWorld, ends: EndKind) -> None:
    """A sweep has seen the report. It is swept once for all tests; this new world becomes a copy of that
    one."""
    if ends not in _REPORTED:
        world.chatter()
        world.sweep()
        world.say(LINES[ends])
        assert set(failing(world.sweep())) == {RULES[ends]} == world.alive()
        folder = shutil.copytree(world.folder, world.folder.with_name(f"reported-{ends.value}"))
        _REPORTED[ends] = replace(world, folder=folder, records=[*world.records])
    kept = _REPORTED[ends]
    world.now, world.next, world.records = kept.now, kept.next, [*kept.records]
    shutil.copytree(kept.folder, world.folder, dirs_exist_ok=True)


# ---- how the log may be when the proof comes

def there(world: LogWorld) -> None:
    """The line is in the buffer still."""


def gone(world: LogWorld) -> None:
    world.rotate()
    world.sweep()


def lost(world: LogWorld) -> None:
    world.lose("usb 1-1: new high-speed USB device number 2 using xhci_hcd")
    world.sweep()


def looks_deleted(world: LogWorld) -> None:
    world.rotate()
    world.forget()
    world.sweep()


def unread_boot(world: LogWorld) -> None:
    """For one sweep the node does not say which boot it is in."""
    world.rotate()
    world.shown = ""
    world.sweep()
    world.shown = None


LOGS = (there, gone, lost, looks_deleted, unread_boot)


# ---- what may be taken for a proof

def nothing(world: LogWorld) -> None:
    world.chatter()


def another_boot(world: LogWorld) -> None:
    world.reboot()


def unread_other_boot(world: LogWorld) -> None:
    """A node that does not say its boot is not known to have booted."""
    world.shown = ""
    world.rotate()


def root_line(world: LogWorld) -> None:
    world.say(RESET, root=True)


def root_line_of_another(world: LogWorld) -> None:
    world.say("muster: GPU 0000:19:00.0 was reset", root=True)


def users_line(world: LogWorld) -> None:
    world.say(f"x {RESET}", root=True)


def root_line_that_did_not_help(world: LogWorld) -> None:
    world.say(RESET, root=True)
    world.more = {"gpu_nvml": machine.nvml(gpu0={"recovery_action": {"ok": "gpu-reset"}})}


def driver(world: LogWorld) -> None:
    """The driver asked for the reset, and asks for nothing now."""
    world.say(WANTS_RESET)


def hours(world: LogWorld) -> None:
    for _ in range(5):
        world.chatter()
        world.sweep(300)


def few_hours(world: LogWorld) -> None:
    for _ in range(4):
        world.chatter()
        world.sweep(300)


def word(world: LogWorld) -> None:
    assert world.repaired() == 1


def word_of_another(world: LogWorld) -> None:
    assert world.repaired("0000:19:00.0") == 0


PROVES: dict[Callable[[LogWorld], None], set[EndKind]] = {
    nothing: set(), another_boot: {EndKind.BOOT, EndKind.RESET, EndKind.QUIET}, unread_other_boot: set(),
    root_line: {EndKind.RESET},
    root_line_of_another: set(), users_line: set(), root_line_that_did_not_help: set(),
    driver: {EndKind.RESET}, hours: {EndKind.QUIET},
    few_hours: set(), word: set(EndKind), word_of_another: set(),
}


def combinations() -> Iterator[Any]:
    """Each log with each end and each proof. Those that are not slow have each pair of the three in them."""
    for (i, log), (j, ends), (k, proof) in product(enumerate(LOGS), enumerate(EndKind), enumerate(PROVES)):
        marks = [] if (i + k) % len(EndKind) == j else [pytest.mark.slow]
        yield pytest.param(log, ends, proof, marks=marks, id=f"{log.__name__}-{ends.value}-{proof.__name__}")


def test_of_the_combinations_that_are_not_slow_each_pair_is_there() -> None:
    fast = [param.values for param in combinations() if not param.marks]
    axes: tuple[Collection[Any], ...] = (LOGS, tuple(EndKind), PROVES)
    for (one, some), (other, more) in itertools.combinations(enumerate(axes), 2):
        assert {(values[one], values[other]) for values in fast} == set(product(some, more))


@pytest.mark.parametrize(("log", "ends", "proof"), [*combinations()])
def test_a_fault_ends_by_the_proof_that_its_entry_accepts_and_by_nothing_else(
    world: LogWorld, ends: EndKind, proof: Callable[[LogWorld], None], log: Callable[[LogWorld], None],
) -> None:
    reported(world, ends)
    log(world)
    assert world.alive() == {RULES[ends]} and world.state() in ("unhealthy", "degraded")
    proof(world)
    world.sweep(1)
    assert (world.alive() == set()) is (ends in PROVES[proof])
    assert (world.state() == "healthy") is (ends in PROVES[proof]) or proof is root_line_that_did_not_help
    # And it stays so, whatever becomes of the log.
    world.shown = None
    world.rotate()
    world.sweep()
    assert (world.alive() == set()) is (ends in PROVES[proof])


@pytest.mark.parametrize("ends", EndKind)
def test_while_looks_are_kept_the_check_itself_goes_on_failing_however_often_the_log_rotates(
        world: LogWorld, ends: EndKind) -> None:
    reported(world, ends)
    for _ in range(3):
        world.rotate()
        world.chatter()
        assert set(failing(world.sweep())) == {RULES[ends]}


def test_quiet_hours_begin_anew_where_records_were_lost(world: LogWorld) -> None:
    reported(world, EndKind.QUIET)
    world.chatter()
    world.sweep(20 * 60)
    lost(world)
    world.sweep(10 * 60)
    assert world.alive() == {"disk-log-nvme-resets"}
    world.chatter()
    world.sweep(13 * 60)
    assert world.alive() == {"disk-log-nvme-resets"}
    world.sweep(2 * 60)
    assert world.alive() == set()


def test_records_that_were_overwritten_while_they_were_read_begin_the_quiet_hours_anew(
        world: LogWorld) -> None:
    reported(world, EndKind.QUIET)
    world.now += 23 * HOUR
    world.chatter()
    world.note = "records were overwritten while they were read"
    world.sweep(1)
    world.note = ""
    world.chatter()
    world.sweep(2 * 60)
    assert world.alive() == {"disk-log-nvme-resets"}
    world.sweep(23 * 60)
    assert world.alive() == set()


def test_a_sweep_of_other_rules_neither_ends_a_fault_nor_forgets_it(world: LogWorld) -> None:
    reported(world, EndKind.BOOT)
    world.rotate()
    world.sweep(only=("gpu-count",))
    world.sweep(only=("disk-log-*",))
    world.rotate()
    assert set(failing(world.sweep())) == {"kernel-xid"}


def test_a_fault_whose_log_could_not_be_read_for_a_while_is_still_there_after_it(world: LogWorld) -> None:
    reported(world, EndKind.BOOT)
    world.more = {"kernel_log": machine.denied("/dev/kmsg")}
    world.sweep()
    world.more = {}
    world.rotate()
    assert set(failing(world.sweep())) == {"kernel-xid"}


def test_no_baseline_knows_of_what_earlier_snapshots_hand_on(world: LogWorld) -> None:
    reported(world, EndKind.BOOT)
    before = {one.rule: one.status for one in world.sweep().results}
    world.rotate()
    after = {one.rule: one.status for one in world.sweep().results}
    unusual = {"kernel-novel", "kernel-missing", "kernel-order", "kernel-rate", "kernel-suspect",
               "kernel-baseline"}
    assert {rule: status for rule, status in after.items() if rule in unusual} == {
        rule: status for rule, status in before.items() if rule in unusual}


def test_what_is_handed_on_of_a_flood_is_bounded_and_holds_the_first_and_the_last(world: LogWorld) -> None:
    world.chatter()
    for _ in range(1000):
        world.say(XID.format(pci=GPU, number=79, rest="GPU has fallen off the bus. " + "x" * 300))
    first, last = 3, world.next - 1
    world.sweep()
    world.rotate()
    found = failing(world.sweep())["kernel-xid"].findings[0].log
    assert found is not None and found.records[:2] == (first, last)
    assert (world.folder / "snapshots" / f"{NAME}.json").stat().st_size < 200_000


def test_of_many_gpus_each_fault_is_handed_on(world: LogWorld) -> None:
    world.chatter()
    for gpu in range(8):
        for _ in range(100):
            world.say(XID.format(pci=f"0000:{0x18 + gpu:02x}:00", number=48, rest="DBE " + "x" * 200))
    assert len(failing(world.sweep())["kernel-xid"].findings) == 8
    world.rotate()
    assert len(failing(world.sweep())["kernel-xid"].findings) == 8


@pytest.mark.parametrize("ends", EndKind)
def test_where_the_looks_are_gone_a_sweep_says_what_the_store_knows_and_never_pass(world: LogWorld,
                                                                                   ends: EndKind) -> None:
    reported(world, ends)
    world.rotate()
    world.forget()
    report = world.sweep()
    (result,) = failing(report).values()
    assert (result.rule, report.state.value, exit_code([report])) == (RULES[ends], world.state(), 1)
    (found,) = result.findings
    assert (found.observed == "reported before"
            and str(found.expected).startswith(f"a proof that it has ended (by {ends.value}"))


@pytest.mark.parametrize("ends", EndKind)
def test_what_was_reported_while_no_boot_was_read_is_not_over_when_one_is(world: LogWorld,
                                                                          ends: EndKind) -> None:
    world.chatter()
    world.sweep()
    world.say(LINES[ends])
    world.shown = ""
    assert set(failing(world.sweep())) == {RULES[ends]}
    world.shown = None
    world.rotate()
    assert set(failing(world.sweep())) == {RULES[ends]} == world.alive()


def test_a_gpu_that_was_reset_is_over_and_the_other_one_is_not(world: LogWorld) -> None:
    world.chatter()
    world.say(ECC, ECC.replace(GPU, "0000:19:00"))
    world.sweep()
    gone(world)
    root_line(world)
    found = failing(world.sweep())["kernel-xid"].findings
    assert [one.subject for one in found] == ["GPU at PCI 0000:19:00, Xid 48"]
    with world.store() as store:
        assert [row[0]
                for row in store.rows(
                    "SELECT subject FROM problem WHERE ended IS NULL AND rule = 'kernel-xid'")] == [
                        "GPU at PCI 0000:19:00, Xid 48"]


def test_a_report_of_many_lines_is_handed_on_whole(world: LogWorld) -> None:
    world.chatter()
    world.say("mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: fe00000000800400",
              "mce: [Hardware Error]: TSC 0 ADDR 3f2a000 MISC 1",
              "mce: [Hardware Error]: PROCESSOR 0:606a6 TIME 1732000000 SOCKET 0 APIC 6 microcode d0003a5")
    before = failing(world.sweep())
    assert before
    world.rotate()
    after = failing(world.sweep())
    assert {rule: [one.subject for one in result.findings] for rule, result in after.items()} == {
        rule: [one.subject for one in result.findings] for rule, result in before.items()}


# ---- a person's word

@pytest.mark.parametrize("ends", EndKind)
def test_a_line_from_before_a_persons_word_accuses_no_more_in_the_same_boot_and_a_newer_one_does(
        world: LogWorld, ends: EndKind) -> None:
    reported(world, ends)
    assert world.repaired() == 1
    for change in (there, gone, looks_deleted):
        change(world)
        report = world.sweep()
        assert not failing(report) and world.alive() == set() and world.state() == "healthy"
    world.say(LINES[ends])
    assert set(failing(world.sweep())) == world.alive() == {RULES[ends]}
    assert world.repaired() == 1
    assert not failing(world.sweep())


def test_beside_a_pass_the_result_says_that_it_passes_by_a_persons_word(world: LogWorld) -> None:
    reported(world, EndKind.BOOT)
    world.repaired(GPU)
    result = next(one for one in world.sweep().results if one.rule == "kernel-xid")
    assert (result.status is Status.PASS and "by a person's word" in result.reason
            and "Xid 79" in result.reason)


def test_a_report_that_came_before_the_word_and_that_no_sweep_had_seen_is_not_covered(
        world: LogWorld) -> None:
    reported(world, EndKind.BOOT)
    world.say(FALLEN)
    world.repaired()
    assert set(failing(world.sweep())) == {"kernel-xid"}


@pytest.mark.parametrize("component", ["0000:18:00", "0000:18:00.0", "18:00.0", "00000000:18:00.0",
                                       "0000:18:00.0 ", "ALL", "GPU 0", "gpu 0",
                                       "GPU at PCI 0000:18:00, Xid 79", "GPU at PCI 0000:18:00"])
def test_a_component_may_be_named_as_any_page_of_muster_names_it(world: LogWorld, component: str) -> None:
    reported(world, EndKind.BOOT)
    assert world.repaired(component) == 1


@pytest.mark.parametrize("component", ["0000:19:00", "0001:18:00", "18:00.1x", "GPU 1", "GPU 99", "nvme0", "",
                                       "Xid 79", "0000:18:0"])
def test_a_word_of_something_else_ends_nothing(world: LogWorld, component: str) -> None:
    reported(world, EndKind.BOOT)
    assert world.repaired(component) == 0 and world.alive() == {"kernel-xid"}


# ---- triage

def test_a_node_cordoned_for_an_xid_is_not_returned_by_a_log_that_forgot_it(world: LogWorld) -> None:
    full = load_ruleset([packaged()])
    policy = load_policy([packaged()], full)

    def held() -> tuple[bool, str]:
        with world.store() as store:
            return requalified(gather(store, [NODE], policy, START + world.now).nodes[0], policy,
                               START + world.now)

    reported(world, EndKind.BOOT)
    with world.store() as store:
        with store.writing() as db:
            db.execute(
                "INSERT INTO verdict (node, fault, isolation, repair, owner, why, evidence, began, seen) "
                "SELECT id, 'gpu-lost', "
                "'no-new-jobs', 'reboot', 'operator', 'Xid 79', '[]', ?, ? FROM node",
                (START + world.now, START + world.now))
        cordon = mean(store, NAME, "slurm", "Xid 79", "triage", START + world.now, verdict=1)
        settle(store, cordon, CordonState.HELD, "done", START + world.now)
    for change in (gone, gone, looks_deleted, gone):
        change(world)
        world.sweep()
        well, why = held()
        assert not well and "kernel-xid fails" in why
    world.reboot()
    world.sweep()
    assert not held()[0]
    world.sweep(1)
    assert not held()[0], "two looks within a minute are no two looks"
    world.sweep()
    assert held()[0], held()[1]


OPS = ("boot", "reset", "repair", "quiet", "rotate", "lose", "forget", "reset line", "reboot", "word",
       "hours", "unread", "few hours")


class Story:
    """What must hold of each kind of fault: since when it is reported, and whether anything has proven its
    end since."""

    def __init__(self, world: LogWorld) -> None:
        self.world = world
        # by how it ends: when it was last reported, and in which boot, as was read
        self.open: dict[EndKind, tuple[float, str]] = {}
        # since when no record was lost, as far as the looks tell
        self.whole = 0.0
        # what a person called repaired, and a sweep that read no boot reported again
        self.repaired: set[EndKind] = set()

    def step(self, op: str) -> None:
        world = self.world
        before = dict(self.open)
        proven: set[EndKind] = set()
        world.chatter(1)
        if op in {ends.value for ends in EndKind}:
            world.say(LINES[EndKind(op)])
        elif op == "rotate":
            world.rotate()
        elif op == "lose":
            world.lose("usb 1-1: new high-speed USB device number 2 using xhci_hcd")
        elif op == "forget":
            world.forget()
        elif op == "reset line":
            world.say(RESET, root=True)
            proven.add(EndKind.RESET)
        elif op == "reboot":
            world.reboot()
        elif op == "word":
            world.repaired()
            self.open.clear()
        elif op == "hours":
            world.now += 25 * HOUR
        elif op == "few hours":
            world.now += 7 * HOUR
        world.shown = "" if op == "unread" else None
        world.sweep(1)
        if op in ("lose", "forget", "reboot", "unread"):
            self.whole = world.now
        elif op in {ends.value for ends in EndKind}:
            self.open[EndKind(op)] = world.now, world.boot
            self.repaired.discard(EndKind(op))
        alive = {ends for ends in EndKind if self._alive(ends)}
        for ends, (last, boot) in before.items():
            if ends not in self.open or ends.value == op:
                continue
            rebooted = boot != world.boot
            may = (ends in proven | self.repaired or (ends is EndKind.QUIET
                                                      and world.now - last > 24 * HOUR)
                   or (rebooted and ends is not EndKind.REPAIR))
            must = ends in proven or (rebooted and op != "unread" and ends is not EndKind.REPAIR) or (
                ends is EndKind.QUIET and world.now - max(last, self.whole) > 24.5 * HOUR and op != "unread")
            assert ends in alive or may, f"{ends} ended without proof by {op}"
            assert ends not in alive or not must, f"{ends} did not end by {op}"
            if ends not in alive:
                del self.open[ends]
        # a person's word is of one boot: where none is read, the line from before it accuses again
        if op == "unread":
            self.repaired = alive - set(self.open)
            self.open |= dict.fromkeys(self.repaired, (world.now, world.boot))
        assert alive == set(self.open), op

    def _alive(self, ends: EndKind) -> bool:
        number = {EndKind.BOOT: "Xid 79", EndKind.RESET: "Xid 48", EndKind.REPAIR: "Xid 54",
                  EndKind.QUIET: "nvme0"}[ends]
        with self.world.store() as store:
            return bool(
                store.rows("SELECT 1 FROM problem WHERE ended IS NULL AND status = 'fail' AND subject LIKE ?",
                           f"%{number}"))


@settings(deadline=None, max_examples=tries(15),
          suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.sampled_from(OPS), min_size=2, max_size=8))
def test_whatever_becomes_of_the_log_nothing_ends_without_proof_and_everything_ends_with_it(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, ops: list[str],
) -> None:
    story = Story(LogWorld(tmp_path_factory.mktemp("story"), monkeypatch))
    for op in ops:
        story.step(op)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(4))
def test_long_stories_hold_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chance = random.Random(seed)
    story = Story(LogWorld(tmp_path, monkeypatch))
    for _ in range(400):
        story.step(chance.choice(OPS))


def test_a_persons_word_holds_though_the_sweep_before_it_could_not_read_the_boot(world: LogWorld) -> None:
    reported(world, EndKind.BOOT)
    unread_boot(world)
    assert world.repaired() == 1
    world.sweep()
    assert world.alive() == set() and world.state() == "healthy"


def test_a_part_that_is_back_from_the_vendor_is_repaired_by_the_word_of_who_takes_it_back(
        world: LogWorld) -> None:
    reported(world, EndKind.REPAIR)
    with world.store() as store:
        rma, line = rmas.begin(store, NAME, f"{GPU}.0", "gpu", "S1", "AUX power", "ada", "", "",
                               START + world.now)
        rmas.settle(store, line, "open", START + world.now)
        returning(store, rma, "same", "ada", lambda: START + world.now, lambda: "")
    assert world.alive() == set()
    world.sweep()
    assert world.alive() == set() and world.state() == "healthy"
