"""What one snapshot of a boot hands on to the next: bounded, whole, and read from whatever text without an
error."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.kernellog.carried import (
    MOST,
    NO_RECORDS,
    CarriedRecords,
    RepairStatement,
    before_log,
    carry_over,
    from_text,
    representative,
    to_text,
)
from tests.tries import tries


def log(*numbers: int, text: str = "x") -> str:
    return "".join(f"4,{number},{number * 1_000_000},-;{text}\n SUBSYSTEM=pci\n" for number in numbers)


def test_what_is_written_is_read() -> None:
    whole = CarriedRecords(log(3, 9), {"kernel-xid": (3, 9)}, 20, 2, 2.5,
                           (RepairStatement("b", {("kernel-xid", "GPU \n 3")  : 9}, "why"),))
    assert (from_text(to_text(whole)) == whole
            and from_text("") == NO_RECORDS == from_text(to_text(NO_RECORDS)))


@given(st.text() | st.text().map(lambda text: f"muster {text}")
       | st.binary().map(lambda data: "muster " + data.decode("latin-1")))
def test_no_text_upsets_it(text: str) -> None:
    found = from_text(text)
    assert isinstance(found, CarriedRecords) and from_text(to_text(found)) == found


@given(st.integers(0, 400))
def test_a_text_that_is_cut_hands_on_no_more_than_it_says(end: int) -> None:
    whole = to_text(CarriedRecords(log(3, 9), {"r": (3, 9)}, 20, 2, 2.5))
    found = from_text(whole[:end])
    assert found == NO_RECORDS or whole.startswith(to_text(found)[:end])


def test_records_that_the_log_still_holds_are_not_doubled_and_those_that_it_lost_stand_in_front() -> None:
    handed = CarriedRecords(log(3, 9), {"r": (3, 9)}, 20, 0)
    assert before_log(handed, log(*range(4, 25))).records == log(3)
    assert before_log(handed, log(*range(25))).records == ""


def test_a_gap_between_what_was_seen_and_where_the_log_begins_begins_the_count_anew() -> None:
    handed = CarriedRecords(log(3), {"r": (3,)}, 20, 0)
    assert before_log(handed, log(*range(21, 25))).since == 0
    assert (before_log(handed, log(*range(22, 25))).since,
            before_log(handed, log(*range(22, 25))).seconds) == (22, 22.0)
    assert before_log(handed, log(*range(15, 25))).since == 0
    assert before_log(handed, log(*range(15, 25)), torn=True).since == 24
    assert before_log(handed, log(5, 6)).since == 5            # it went back: not the log that was seen
    assert before_log(NO_RECORDS, log(7, 8)).since == 7 and before_log(NO_RECORDS, log(0, 1)).since == 0
    assert before_log(handed, "no record\n") == handed


def test_records_are_handed_on_whole_while_a_finding_rests_on_them_and_no_longer() -> None:
    handed = carry_over(NO_RECORDS, log(1, 2, 3), {"a": (2,), "b": (1,)})
    assert handed.records == log(1, 2)
    assert carry_over(handed, log(9), {"a": (), "b": (1,)}).records == log(1)
    assert carry_over(handed, log(9), {"a": None, "b": ()}).records == log(2)          # it was not judged
    # nor asked for
    assert carry_over(handed, log(9), {"b": ()}).records_by_rule == {"a": (2,)}
    assert carry_over(handed, log(9), {"a": (), "b": ()}).records == ""


def test_resets_are_handed_on_for_the_whole_boot_the_newest_of_each_gpu() -> None:
    reason = "".join(f"12,{number},{number}000000,-;muster: {what} reset\n"
                     for number, what in enumerate(("GPU 0000:18:00.0 was", "GPU 0000:19:00.0 was",
                                                    "GPU 0000:18:00.0 was", "all GPUs were",
                                                    "GPU 0000:18:00.0 was not")))
    handed = carry_over(NO_RECORDS, reason, {})
    assert sorted(handed.numbers) == [1, 2, 3]
    assert carry_over(handed, log(9), {}).numbers == handed.numbers


@settings(max_examples=tries(20), deadline=None)
@given(st.dictionaries(st.text(max_size=5), st.lists(st.integers(0, 1999), max_size=300), max_size=80),
       st.integers(1, 300))
def test_what_is_handed_on_is_bounded_and_each_rule_keeps_what_tells_most(
    records_by_rule: dict[str, list[int]], size: int,
) -> None:
    handed = carry_over(NO_RECORDS, log(*range(2000), text="x" * size),
                        {rule: tuple(numbers) for rule, numbers in records_by_rule.items()})
    assert len(handed.records) <= MOST and len(to_text(handed)) < MOST + 24 * 1024
    assert set().union(*map(set, handed.records_by_rule.values())) <= handed.numbers
    for numbers in list(records_by_rule.values())[:40]:
        assert not numbers or numbers[0] in handed.numbers


@given(st.lists(st.integers(0, 5000), unique=True).map(sorted), st.integers(2, 64))
def test_of_many_like_reports_the_first_and_the_last_come_first(numbers: list[int], most: int) -> None:
    found = representative(numbers, most)
    assert len(found) <= most and set(found) <= set(numbers)
    assert not numbers or (found[0] == numbers[0] and numbers[-1] in found[:2])
