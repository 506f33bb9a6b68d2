"""The event log over IPMI is read back to where the rules look, and what is cut is not known."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest

from healthcheck.facts.bmc import oldest_record, records
from inventory.model import Bmc, Node, Speaks
from provisioning.bmc.base import BmcError, BmcErrorReason, LogReading
from provisioning.bmc.ipmi import tool
from provisioning.bmc.ipmi.controller import IpmiController

DAY = 86400.0


def rows(count: int, apart: float, *, worst: int | None = None) -> list[str]:
    """A log of records, the newest a minute old, each `apart` seconds older; `worst` counts from the end."""
    now = time.time() - 60
    found = []
    for at in range(count):
        when = time.strftime("%m/%d/%Y | %H:%M:%S", time.gmtime(now - (count - 1 - at) * apart))
        what = "Memory #0x53 | Uncorrectable ECC | Asserted" if worst == count - at else (
            f"Fan #0x{at % 200:02x} | Lower Critical going low  | Asserted")
        found.append(f"{at + 1:4x} | {when} | {what}")
    return found


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[LogReading, list[int]]]:
    monkeypatch.setattr(tool, "found", lambda: "ipmitool")

    def log(lines: Sequence[str], *, days: float = 7.0,
            most: int | None = None) -> tuple[LogReading, list[int]]:
        asked: list[int] = []

        def query(words: Sequence[str], end: float) -> str:
            asked.append(int(words[-1]))
            if most is not None and asked[-1] > most:
                raise BmcError(BmcErrorReason.TIMEOUT, "ipmitool had no answer in time")
            return "\n".join(lines[-asked[-1]:]) + "\n"

        controller = IpmiController(Node("gpu001", bmc=Bmc("127.0.0.1", speaks=Speaks.IPMI)),
                                    lambda: ("", ""))
        monkeypatch.setattr(controller, "_query", query)
        return controller.log(days), asked
    return log


Read = Callable[..., tuple[LogReading, list[int]]]


def worst(found: LogReading) -> bool:
    return any(event.text == "Uncorrectable ECC" for event in found.log.events)  # type: ignore[union-attr]


@pytest.mark.parametrize(("log", "most", "asked", "bad", "missing"), [
    ((40, 60.0, 40), None, [100], True, ""), ((3000, DAY, 0), None, [100], False, ""),
    ((1000, 600.0, 900), None, [100, 400, 1600], True, ""),       # seven days, ten minutes apart
    ((3000, 60.0, 2000), 100, [100, 400], False, "its last 100 records are newer than 7 days"),
    ((3000, 60.0, 2000), 400, [100, 400, 1600], False, "its last 400 records are newer than 7 days"),
    ((9000, 1.0, 0), None, [100, 400, 1600, 6400], False, "its last 6400 records are newer than 7 days")],
    ids=["a short one is read whole", "one that goes back far enough", "an error behind the last hundred",
         "little comes in time", "more comes in time", "a flood is bounded"])
def test_a_log_is_read_as_far_back_as_it_has_to_be_and_what_is_missing_is_said(
    read: Read, log: tuple[int, float, int], most: int | None, asked: list[int], bad: bool, missing: str,
) -> None:
    count, apart, at = log
    found, times = read(rows(count, apart, worst=at), most=most)
    assert (times, worst(found)) == (asked, bad)
    assert missing in found.missing if missing else not found.missing


def test_how_far_back_is_as_the_policy_says(read: Read) -> None:
    assert read(rows(2000, 3600.0), days=3.0)[1] == [100]
    assert read(rows(2000, 3600.0), days=30.0)[1] == [100, 400, 1600]


def test_a_log_that_cannot_be_read_at_all_is_an_error(read: Read) -> None:
    with pytest.raises(BmcError):
        read(rows(10, 1.0), most=0)


def test_undated_records_are_no_reason_to_stop(read: Read) -> None:
    undated = [f"{at:4x} | Pre-Init  |0000000123| Fan #0x01 | Transition | Asserted" for at in range(1, 200)]
    _, asked = read(undated)
    assert asked == [100, 400]
    assert oldest_record("\n".join(undated)) is None and records("SEL has no entries\n") == 0
