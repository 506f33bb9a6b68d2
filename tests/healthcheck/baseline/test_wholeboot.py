"""What the kernel's buffer has lost since an earlier look of the same boot is still judged, and what no look saw is said."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from healthcheck.baseline.wholeboot import MOST, whole_boot
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.values import Partial
from healthcheck.recording import Recording
from tests.healthcheck import machine


def look(first: int, last: int, boot: str = "b1") -> Recording:
    text = "".join(f"6,{number},{number * 1000},-;line {number}\n SUBSYSTEM=pci\n" for number in range(first, last + 1))
    made = machine.recording(kernel_log=machine.done(**{"/dev/kmsg": text}))
    assert made.host is not None
    return replace(made, host=replace(made.host, boot_id=boot))


def seen(recording: Recording) -> tuple[list[int], str]:
    found = build_fact(FACTS["kernel_log"], Captures(recording))
    log = found.value if isinstance(found, Partial) else found
    return [line.sequence for line in log.records()], log.caveat


def test_records_that_were_overwritten_since_are_still_there() -> None:
    assert seen(whole_boot(look(50, 90), look(0, 60))) == (list(range(91)), "")


def test_it_goes_on_over_any_number_of_looks() -> None:
    kept = look(0, 10)
    for first in range(5, 100, 5):
        kept = whole_boot(look(first, first + 10), kept)
    assert seen(kept) == (list(range(106)), "")


def test_what_no_look_has_seen_is_said_and_goes_on_being_said() -> None:
    once = whole_boot(look(50, 60), look(0, 40))
    numbers, caveat = seen(once)
    assert (numbers, caveat) == ([*range(41), *range(50, 61)], "records 41 to 49 of this boot were lost between two looks")
    assert "records 41 to 49" in seen(whole_boot(look(55, 70), once))[1]


def test_another_boot_adds_nothing() -> None:
    assert whole_boot(look(50, 60), look(0, 55, boot="b0")) == look(50, 60)
    assert whole_boot(look(0, 60), look(0, 55)) == look(0, 60) and whole_boot(look(9, 60), None) == look(9, 60)


def test_what_is_kept_is_bounded_and_of_the_boot_the_beginning() -> None:
    many = look(0, 200_000)
    kept = whole_boot(look(150_000, 200_001), many)
    text = kept.captures["kernel.log"].files["/dev/kmsg"].text
    assert text.startswith("6,0,") and len(text) < MOST + 100 + len(look(150_000, 200_001).captures["kernel.log"].files["/dev/kmsg"].text)
    assert "lost between two looks" in seen(kept)[1]


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_no_record_is_doubled_or_out_of_order(a: int, b: int, c: int, d: int) -> None:
    numbers, caveat = seen(whole_boot(look(a, a + b), look(c, c + d)))
    assert numbers == sorted(set(numbers)) and set(numbers) >= set(range(a, a + b + 1))
    assert bool(caveat) or numbers[0] == 0
