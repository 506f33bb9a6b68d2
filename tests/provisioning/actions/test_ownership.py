"""Whose the hold on a node is: what Slurm cuts or appends is no person's, every other change is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.store.cordons import Cordon, CordonState
from healthcheck.store.marks import CordonMark
from healthcheck.store.strays import StrayKind
from inventory.discover import CommandOutput
from inventory.importers.slurm import states_of
from provisioning.actions.base import AcknowledgedChange, ActionError, Holder, NodeHold
from provisioning.actions.ownership import Whose, dropped, strays, whose, words
from provisioning.actions.slurm import SlurmBackend, undone_by

WHY = "gpu-error: kernel-xid of GPU 0: 79 (expected none)"
OURS = Cordon(3, "n1", "slurm", WHY, "triage", CordonState.HELD, 1.0, None, 1, store="7f3a", user="root",
              identity="chassis=A")
WROTE = f"{OURS.mark}: {WHY}"


def us(reason: str, **more: str) -> NodeHold:
    return NodeHold(Holder.US, reason, OURS.mark, **more)       # type: ignore[arg-type]


@pytest.mark.parametrize("shown",
                         [WROTE, WROTE[:40], f"{OURS.mark}:", f"{WROTE} : reboot issued",
                          f"{WROTE} : reboot issued : reboot timed out", f"{WROTE} : reboot complete",
                          f"{WROTE} : Not responding", f"{WROTE[:60]}…", WROTE.replace(" ", "  "),
                          f"{WROTE} : Low RealMemory (reported:90 < 100.00% of configured:100)"])
def test_what_a_back_end_cuts_or_appends_is_not_a_persons(shown: str) -> None:
    assert whose(OURS, us(shown, user="root")) is Whose.OURS
    assert strays({"n1": us(shown, user="root")}, [OURS], {"7f3a"}) == []


@pytest.mark.parametrize(
    ("shown", "said"),
    [(f"{WROTE} KEEP DOWN", "a person wrote: KEEP DOWN"),
     (f"{WROTE} - KEEP DOWN", "a person wrote: KEEP DOWN"),
     (f"{OURS.mark}: KEEP DOWN - riser change until Friday",
      "a person wrote: KEEP DOWN - riser change until Friday"),
     (f"{OURS.mark}: KEEP {WHY}", f"a person wrote: KEEP {WHY}"),
     (f"{WROTE} : reboot issued by me", "a person wrote: reboot issued by me"),
     (f"{WROTE} : reboot issued : KEEP DOWN", "a person wrote: reboot issued : KEEP DOWN"),
     (WROTE.replace("79", "48"), "a person wrote: "),
     (WROTE.upper().replace("MUSTER:7F3A", "muster:7f3a"), "a person wrote: GPU-ERROR")])
def test_words_that_are_not_ours_are_a_persons(shown: str, said: str) -> None:
    assert whose(OURS, us(shown)) is Whose.PERSON and words(OURS, us(shown)).startswith(said)
    found = strays({"n1": us(shown)}, [OURS], {"7f3a"})
    assert [(one.kind, one.node) for one in found] == [(StrayKind.PERSON, "n1")]


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40).map(
    str.strip).filter(bool))
def test_whatever_is_added_makes_it_a_persons(more: str) -> None:
    for shown in (f"{WROTE} {more}", f"{OURS.mark}: {more} {WHY}"):
        assert whose(OURS, us(shown)) is Whose.PERSON


def test_our_words_set_again_by_another_user_are_a_persons_and_what_slurm_appends_is_not() -> None:
    assert whose(OURS, us(WROTE, user="alice")) is Whose.PERSON
    assert words(OURS, us(WROTE, user="alice")) == "alice set its reason again, which root had set"
    assert whose(OURS, us(WROTE, user="root")) is whose(OURS, us(WROTE)) is Whose.OURS
    assert whose(OURS, us(f"{WROTE} : reboot issued", user="slurm")) is Whose.OURS


def test_a_node_that_is_another_one_by_its_identity_was_given_back_by_no_person() -> None:
    assert whose(OURS, NodeHold(Holder.NO_ONE)) is whose(
        OURS, NodeHold(Holder.NO_ONE, identity="chassis=A")) is Whose.FREE
    assert whose(OURS, NodeHold(Holder.NO_ONE, identity="chassis=B")) is whose(
        OURS, NodeHold(Holder.NO_ONE), "chassis=B") is Whose.ANEW
    assert whose(OURS, NodeHold(Holder.OTHERS, "sold")) is Whose.TAKEN and whose(
        OURS, NodeHold(Holder.ABSENT)) is Whose.ABSENT
    # where the mark has outlived the machine it still holds
    assert whose(OURS, us(WROTE, identity="chassis=B")) is Whose.OURS


def test_marks_of_other_stores_and_of_numbers_that_are_not_open_are_told_apart() -> None:
    other, over = (
        NodeHold(Holder.US, f"{mark}: x", mark) for mark in (CordonMark("beef", 3), CordonMark("7f3a", 9)))
    found = strays(
        {"n1": us(WROTE), "n2": other, "n3": over, "n4": NodeHold(Holder.OTHERS, "sold")}, [OURS], {"7f3a"})
    assert [(one.node, one.kind, one.mark) for one in found] == [("n2", StrayKind.STORE, "muster:beef#3"),
                                                                 ("n3", StrayKind.NUMBER, "muster:7f3a#9")]


EVENTS = b"""n1|2026-11-23T04:00:00|2026-11-23T04:30:00|muster:7f3a#3: x
n2|2026-11-23T04:00:00|Unknown|muster:7f3a#4: x
n3|2026-11-23T04:00:00|2026-11-23T05:00:01|muster:7f3a#5: x
n4|2026-11-23T04:00:00|2026-11-23T05:40:00|muster:7f3a#6: x
n5|2026-11-23T04:00:00|2026-11-23T04:30:00|sold | really
"""


def test_events_of_slurmdbd_decide_between_a_person_and_a_controller_that_forgot() -> None:
    changes = {f"n{n}": AcknowledgedChange(CordonMark("7f3a", n + 2), 1.0) for n in range(1, 6)}
    started = 1795410000.0      # 2026-11-23T05:00:00Z
    assert undone_by(EVENTS, changes, started) == {"n1", "n4"}
    assert undone_by(b"", changes, started) == undone_by(b"\xff|", changes, started) == frozenset()


@pytest.mark.parametrize(
    ("line", "seen"),
    [("Reason=fan [root@2026-11-23T05:00:00]", ("fan", "root", 1795410000.0)),
     ("Reason=fan [root@2026-11-23T05:00:00] Comment=mine [x@2026-01-01T00:00:00]",
      ("fan", "root", 1795410000.0)),
     ("Reason=fan [bob@2026-01-01T00:00:00] again [root@2026-11-23T05:00:00]",
      ("fan [bob@2026-01-01T00:00:00] again", "root", 1795410000.0)),
     ("Reason=see Comment=5 in the log [root@2026-11-23T05:00:00]",
      ("see Comment=5 in the log", "root", 1795410000.0)), ("Reason=fan", ("fan", "", None)),
     ("Comment=[root@2026-11-23T05:00:00]", (None, "", None))])
def test_who_gave_a_reason_and_when_is_reported_from_the_reason(
    line: str, seen: tuple[str | None, str, float | None],
) -> None:
    one = states_of(f"NodeName=n1 State=IDLE+DRAIN {line}\n".encode(), "x")["n1"]
    assert (one.reason, one.user, one.since) == seen


def test_a_controller_that_does_not_say_since_when_it_is_up_is_an_error() -> None:

    with pytest.raises(ActionError, match="has no BOOT_TIME"):
        SlurmBackend(lambda argv: CommandOutput(0, b"Configuration data\n", b"")).forgot(
            {"n1": AcknowledgedChange(OURS.mark, 1.0)})


@pytest.mark.parametrize(("state", "reason", "lost"), [
    ("IDLE+POWERING_DOWN", WROTE, True), ("IDLE+CLOUD+POWERED_DOWN", f"{WROTE} : reboot issued", True),
    ("MIXED+POWER_DOWN", WROTE, True),
    # 24.11 leaves the reason of what a person gives back
    ("IDLE", WROTE, False),
    ("IDLE+POWERED_DOWN", "", False), ("IDLE+POWERED_DOWN", f"{WROTE} - mine now", False),
    ("IDLE+POWERED_DOWN", "muster:7f3a#9: x", False),
    ("IDLE+DRAIN+POWERED_DOWN", WROTE, False)])
def test_a_drain_that_powering_down_took_away_is_known_by_our_words_that_are_left(
    state: str, reason: str, lost: bool,
) -> None:
    shown = f"NodeName=n1 State={state} Reason={reason} [root@2026-11-23T05:00:00]\n"
    held = SlurmBackend(lambda argv: CommandOutput(0, shown.encode(), b"")).held(["n1"])["n1"]
    assert bool(dropped(OURS, held)) is lost
