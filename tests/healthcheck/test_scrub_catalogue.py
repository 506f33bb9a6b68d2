"""Every line that the catalogue of known faults gives as an example is found by the same entry after
scrubbing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from healthcheck.scrub import scrub
from inventory.model import Node
from tests.healthcheck import machine
from tests.healthcheck.baseline.packaged import catalogue


def shown(lines: list[str]) -> list[str]:
    """The lines after scrubbing of a recording whose kernel log holds them and nothing else."""
    log = "".join(f"4,{at},{at}000,-;{line}\n" for at, line in enumerate(lines, 1))
    look = replace(machine.recording("qx7"), captures={"kernel.log": machine.done(**{"/dev/kmsg": log})})
    made = scrub(look, Node(name="qx7"), key=b"k" * 32).recording
    return [line.partition(";")[2]
            for line in made.captures["kernel.log"].files["/dev/kmsg"].text.split("\n")[:-1]]


@pytest.mark.parametrize("of_each", [1, pytest.param(100, marks=pytest.mark.slow)])
def test_an_example_of_the_catalogue_is_found_by_the_same_entry_after_scrubbing(of_each: int) -> None:
    lines = [line for entry in catalogue().entries for line in entry.examples[:of_each]]
    assert len(lines) >= 450 and not any("\n" in line for line in lines)
    changed = []
    for line, made in zip(lines, shown(lines), strict=True):
        before, after = (known.id if known is not None else None
                         for known in (catalogue().find(line), catalogue().find(made)))
        if before != after:
            changed.append((before, after, line, made))
    assert (changed
            == []), "words of rules/ that healthcheck/scrub/vocabulary.txt lacks? run scripts/vocabulary"
