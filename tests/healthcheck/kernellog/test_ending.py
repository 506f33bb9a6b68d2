"""How faults end: what a rules file may say, what each is proven by, and when time alone is enough."""

from __future__ import annotations

import pytest

from healthcheck.kernellog.ending import DAY, EXPECTED, PROOFS, Ending, EndKind, EndProof, ending


@pytest.mark.parametrize(("text", "made"), [
    ("boot", Ending(EndKind.BOOT)), ("reset", Ending(EndKind.RESET)), ("repair", Ending(EndKind.REPAIR)),
    ("quiet 24h", DAY), ("quiet 1h", Ending(EndKind.QUIET, 1)), ("quiet 7d", Ending(EndKind.QUIET, 168)),
    ("quiet 9999h", Ending(EndKind.QUIET, 9999)),
])
def test_what_a_rules_file_may_say_is_read_and_said_again(text: str, made: Ending) -> None:
    assert ending(text) == made
    assert ending(str(made)) == made


@pytest.mark.parametrize("text", [
    "", " ", "never", "Boot", "boot ", " boot", "boot\n", "boot 24h", "reset 1d", "quiet", "quiet 24",
    "quiet h", "quiet 0h", "quiet 0d", "quiet -1h", "quiet 1.5h", "quiet 24 h", "quiet  24h", "quiet 24h ",
    "quiet 24m", "quiet 10000h", "quiet 24hd", "quiet 24h, boot", "quiet ٢٤h",
])
def test_anything_else_is_refused_with_what_may_be_said(text: str) -> None:
    with pytest.raises(ValueError, match="expected boot, reset, repair, or quiet with hours or days, as in "
                                         "quiet 24h") as problem:
        ending(text)
    assert EXPECTED in str(problem.value)


@pytest.mark.parametrize("text", ["quiet 00h", "quiet 000d"])
def test_no_hours_at_all_are_refused_however_they_are_written(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        ending(text)


def test_time_alone_ends_what_is_quiet_for_longer_than_its_hours_and_nothing_else() -> None:
    assert [DAY.over(age) for age in (0.0, 23.9, 24.0, 24.1, 1e9)] == [False, False, False, True, True]
    assert not DAY.over(-1.0)
    assert not DAY.over(float("nan"))
    assert not any(Ending(ends).over(1e9) for ends in EndKind if ends is not EndKind.QUIET)


def test_every_ending_is_proven_by_something_and_a_person_can_always_say_so() -> None:
    assert set(PROOFS) == set(EndKind)
    assert all(Ending(ends).proofs == PROOFS[ends] and EndProof.PERSON in PROOFS[ends] for ends in EndKind)


def test_no_boot_and_no_silence_mends_a_broken_part() -> None:
    assert Ending(EndKind.REPAIR).proofs == (EndProof.PERSON,)


def test_silence_proves_only_what_ends_by_silence_and_a_reset_only_what_a_reset_ends() -> None:
    assert [ends for ends in EndKind if EndProof.HOURS in PROOFS[ends]] == [EndKind.QUIET]
    assert [ends for ends in EndKind if {EndProof.DRIVER, EndProof.ROOT} & set(PROOFS[ends])] == [
        EndKind.RESET]
    assert [ends for ends in EndKind if EndProof.BOOT not in PROOFS[ends]] == [EndKind.REPAIR]
