"""What one snapshot of a boot hands on to the next: bounded, whole, and read from whatever text without an error."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.kernellog.carried import MOST, NOTHING, Carried, RepairStatement, after, before, read, telling, written


def log(*numbers: int, text: str = "x") -> str:
    return "".join(f"4,{number},{number * 1_000_000},-;{text}\n SUBSYSTEM=pci\n" for number in numbers)


def test_what_is_written_is_read() -> None:
    whole = Carried(log(3, 9), {"kernel-xid": (3, 9)}, 20, 2, 2.5, (RepairStatement("b", {("kernel-xid", "GPU \n 3")  : 9}, "why"),))
    assert read(written(whole)) == whole and read("") == NOTHING == read(written(NOTHING))


@given(st.text() | st.text().map(lambda text: f"muster {text}") | st.binary().map(lambda data: "muster " + data.decode("latin-1")))
def test_no_text_upsets_it(text: str) -> None:
    found = read(text)
    assert isinstance(found, Carried) and read(written(found)) == found


@given(st.integers(0, 400))
def test_a_text_that_is_cut_hands_on_no_more_than_it_says(end: int) -> None:
    whole = written(Carried(log(3, 9), {"r": (3, 9)}, 20, 2, 2.5))
    found = read(whole[:end])
    assert found == NOTHING or whole.startswith(written(found)[:end])


def test_records_that_the_log_still_holds_are_not_doubled_and_those_that_it_lost_stand_in_front() -> None:
    handed = Carried(log(3, 9), {"r": (3, 9)}, 20, 0)
    assert before(handed, log(*range(4, 25))).records == log(3)
    assert before(handed, log(*range(25))).records == ""


def test_a_gap_between_what_was_seen_and_where_the_log_begins_begins_the_count_anew() -> None:
    handed = Carried(log(3), {"r": (3,)}, 20, 0)
    assert before(handed, log(*range(21, 25))).since == 0
    assert (before(handed, log(*range(22, 25))).since, before(handed, log(*range(22, 25))).seconds) == (22, 22.0)
    assert before(handed, log(*range(15, 25))).since == 0
    assert before(handed, log(*range(15, 25)), torn=True).since == 24
    assert before(handed, log(5, 6)).since == 5            # it went back: not the log that was seen
    assert before(NOTHING, log(7, 8)).since == 7 and before(NOTHING, log(0, 1)).since == 0
    assert before(handed, "no record\n") == handed


def test_records_are_handed_on_whole_while_a_finding_rests_on_them_and_no_longer() -> None:
    handed = after(NOTHING, log(1, 2, 3), {"a": (2,), "b": (1,)})
    assert handed.records == log(1, 2)
    assert after(handed, log(9), {"a": (), "b": (1,)}).records == log(1)
    assert after(handed, log(9), {"a": None, "b": ()}).records == log(2)          # it was not judged
    assert after(handed, log(9), {"b": ()}).rests == {"a": (2,)}                  # nor asked for
    assert after(handed, log(9), {"a": (), "b": ()}).records == ""


def test_resets_are_handed_on_for_the_whole_boot_the_newest_of_each_gpu() -> None:
    said = "".join(f"12,{number},{number}000000,-;muster: {what} reset\n" for number, what in enumerate((
        "GPU 0000:18:00.0 was", "GPU 0000:19:00.0 was", "GPU 0000:18:00.0 was", "all GPUs were", "GPU 0000:18:00.0 was not")))
    handed = after(NOTHING, said, {})
    assert sorted(handed.numbers) == [1, 2, 3]
    assert after(handed, log(9), {}).numbers == handed.numbers


@settings(max_examples=20, deadline=None)
@given(st.dictionaries(st.text(max_size=5), st.lists(st.integers(0, 1999), max_size=300), max_size=80), st.integers(1, 300))
def test_what_is_handed_on_is_bounded_and_each_rule_keeps_what_tells_most(rests: dict[str, list[int]], size: int) -> None:
    handed = after(NOTHING, log(*range(2000), text="x" * size), {rule: tuple(numbers) for rule, numbers in rests.items()})
    assert len(handed.records) <= MOST and len(written(handed)) < MOST + 24 * 1024
    assert set().union(*map(set, handed.rests.values())) <= handed.numbers
    for numbers in list(rests.values())[:40]:
        assert not numbers or numbers[0] in handed.numbers


@given(st.lists(st.integers(0, 5000), unique=True).map(sorted), st.integers(2, 64))
def test_of_many_like_reports_the_first_and_the_last_come_first(numbers: list[int], most: int) -> None:
    found = telling(numbers, most)
    assert len(found) <= most and set(found) <= set(numbers)
    assert not numbers or (found[0] == numbers[0] and numbers[-1] in found[:2])
