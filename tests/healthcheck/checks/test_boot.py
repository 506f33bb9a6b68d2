"""The rule of unexpected reboots: two looks of one boot or of two, what the lifecycle says, how long a node
stays accused, and old looks."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts.boot import BOOT_CAPTURE, EarlierBoot, boot_capture, earlier_boot, utc
from healthcheck.facts.carried_log import LOG_CAPTURE
from healthcheck.facts.gpusigns import GPUS_CAPTURE
from healthcheck.facts.seen_before import UNUSUAL_CAPTURE
from healthcheck.facts.values import Unmeasured
from healthcheck.model.outcome import Result, Status
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from healthcheck.sweep.assess import Assessment
from healthcheck.sweep.snapshots import KeptSnapshots
from inventory.model import Lifecycle, LifecycleState, Node
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import RULESET, findings_of, status_words, verdict

RULE = "host-rebooted"
NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.timezone.utc).timestamp()
SERVICE, MAINTENANCE, RMA = LifecycleState.SERVICE, LifecycleState.MAINTENANCE, LifecycleState.RMA
HOUR = 3600.0


def snapshot(after_s: float, boot: str = "b00t", *, up_s: float | str = 40 * HOUR,
             only: bool = False) -> Recording:
    """A look at the healthy machine so long after noon, in this boot; `only` for one that asked for nothing
    that is compared."""
    text = up_s if isinstance(up_s, str) else f"{up_s:.2f} 1.00\n"
    uptime = Capture(Outcome.DONE, files={"/proc/uptime": FileCapture(Outcome.DONE, text)})
    seen = machine.recording(host_uptime=uptime)
    assert seen.host is not None
    host = replace(seen.host, boot_id=boot, time=NOON + after_s)
    return replace(seen, received=NOON + after_s, host=host,
                   captures={"host.uptime": uptime} if only else seen.captures)


def swept(folder: Path, *snapshots: tuple[Recording, LifecycleState]) -> Result:
    """What the last of some sweeps says, with a state folder between them."""
    kept_looks = KeptSnapshots(folder)
    kept_looks.prepare()
    said_last = None
    for seen, state in snapshots:
        previous = kept_looks.read(seen.node)
        assessment = Assessment([Node(name=seen.node, sku="hgx-h100", lifecycle=Lifecycle(state))],
                                RULESET.select((RULE,), ()))
        assessment.add(seen, previous)
        said_last = next(one for one in assessment.finish().reports[0].results if one.rule == RULE)
        kept_looks.write(seen, previous, state)
    assert said_last is not None
    return said_last


SINCE = "rebooted since the snapshot at 2026-11-21T12:00Z; up since 2026-11-21T"
UNREAD = "earlier boot: the node reports no boot_id"


@pytest.mark.parametrize(("now", "earlier", "status", "words"), [
    (snapshot(600), snapshot(0), Status.PASS, ""),
    (snapshot(0), None, Status.SKIPPED, "no earlier snapshot of this node"),
    (snapshot(600, "0ther", up_s=240), snapshot(0), Status.FAIL,
     f"node: {SINCE}12:06Z, expected no reboot in service"),
    # a snapshot that did not read its boot is of no other boot
    (snapshot(600, up_s=240), snapshot(0, ""), Status.PASS, ""),
    (snapshot(600, "", up_s=240), snapshot(0), Status.UNKNOWN, UNREAD),
    (snapshot(600, ""), snapshot(0), Status.UNKNOWN, UNREAD),
    # for a day a node is accused, and then only the note is left
    (snapshot(30 * HOUR, "0ther", up_s=24 * HOUR - 1), snapshot(0), Status.FAIL,
     f"node: {SINCE}18:00Z, expected no reboot in service"),
    (snapshot(30 * HOUR, "0ther", up_s=24 * HOUR), snapshot(0), Status.PASS,
     f"{SINCE}18:00Z: 24 h ago or more, and not judged"),
    # one that is up for longer than the other was away is another machine; by 60 s, two clocks differ
    (snapshot(600, "0ther", up_s=661), snapshot(0), Status.SKIPPED,
     "the snapshot at 2026-11-21T12:00Z was of another machine: this one is up since 2026-11-21T11:58Z"),
    (snapshot(600, "0ther", up_s=660), snapshot(0), Status.FAIL,
     f"node: {SINCE}11:59Z, expected no reboot in service"),
])
def test_what_two_snapshots_say_of_a_reboot(now: Recording, earlier: Recording | None, status: Status,
                                            words: str) -> None:
    assert status_words(RULE, now, earlier) == (status, words)


@pytest.mark.parametrize("text", ["", "a while\n", "-3 1\n"])
def test_without_the_uptime_a_reboot_is_unknown_and_never_a_pass(text: str) -> None:
    assert verdict(RULE, snapshot(600, "0ther", up_s=text), snapshot(0)).status is Status.UNKNOWN


def test_a_reboot_is_still_reported_at_the_looks_after_the_one_that_met_it(tmp_path: Path) -> None:
    again = swept(tmp_path, (snapshot(0), SERVICE), (snapshot(600, "0ther", up_s=240), SERVICE),
                  (snapshot(630, "0ther", up_s=270), SERVICE), (snapshot(1200, "0ther", up_s=840), SERVICE))
    assert again.status is Status.FAIL
    assert "the snapshot at 2026-11-21T12:00Z; up since 2026-11-21T12:06Z" in findings_of(again)


@pytest.mark.parametrize("states", [(MAINTENANCE, SERVICE, SERVICE), (SERVICE, MAINTENANCE, SERVICE),
                                    (SERVICE, SERVICE, MAINTENANCE)])
def test_a_node_that_was_out_of_service_before_the_reboot_or_since_is_not_accused(
    tmp_path: Path, states: tuple[LifecycleState, ...],
) -> None:
    snapshots = (snapshot(0), snapshot(600, "0ther", up_s=240), snapshot(660, "0ther", up_s=300))
    result = swept(tmp_path, *zip(snapshots, states, strict=True))
    assert result.status is Status.PASS
    assert result.reason == ("rebooted since the snapshot at 2026-11-21T12:00Z; up since 2026-11-21T12:06Z; "
                             "expected, since it was in maintenance")


def test_that_a_reboot_was_meant_says_nothing_of_the_next_one(tmp_path: Path) -> None:
    result = swept(tmp_path, (snapshot(0), SERVICE), (snapshot(600, "0ther", up_s=240), RMA),
                   (snapshot(700, "0ther", up_s=340), SERVICE), (snapshot(1800, "th1rd", up_s=60), SERVICE))
    assert result.status is Status.FAIL
    assert "the snapshot at 2026-11-21T12:11Z; up since 2026-11-21T12:29Z" in findings_of(result)


def test_looks_for_other_rules_are_looks_too_and_leave_what_is_compared_its_own_time(tmp_path: Path) -> None:
    snapshots = KeptSnapshots(tmp_path)
    snapshots.prepare()
    snapshots.write(snapshot(0), None)
    snapshots.write(snapshot(600, only=True), snapshots.read("gpu001"))
    found = snapshots.read("gpu001")
    assert found is not None and found.received == NOON and "gpu.nvml" in found.captures
    fact = earlier_boot(snapshot(900, "0ther", up_s=100), found, SERVICE)
    assert fact == EarlierBoot("node", known=True, looked=NOON + 600, now=NOON + 900, out="")
    snapshots.write(snapshot(900, "0ther", only=True), found)
    found = snapshots.read("gpu001")
    assert found is not None and set(found.captures) == {BOOT_CAPTURE, UNUSUAL_CAPTURE,
                                                         LOG_CAPTURE, GPUS_CAPTURE}
    assert earlier_boot(snapshot(1000, "0ther"), found, SERVICE).looked == NOON + 600


JSON = st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
                    lambda inner: st.lists(inner)
                    | st.dictionaries(st.sampled_from(["state", "last", "looked", "out", "x"]), inner),
                    max_leaves=12)


@given(st.one_of(st.text(), JSON.map(json.dumps), st.fixed_dictionaries(
    {"state": JSON, "last": JSON, "looked": JSON, "out": JSON}).map(json.dumps)))
def test_whatever_stands_in_a_kept_look_a_fact_is_made_of_it(text: str) -> None:
    previous = replace(snapshot(0), captures={BOOT_CAPTURE: Capture(Outcome.DONE, text=text)})
    for boot in ("b00t", "0ther"):
        fact: Any = earlier_boot(snapshot(600, boot), previous, SERVICE)
        assert isinstance(fact, EarlierBoot) and utc(fact.looked) and (boot == "b00t" or fact.looked)
        assert boot_capture(snapshot(600, boot), previous, SERVICE).outcome is Outcome.DONE


def test_a_kept_text_that_is_cut_anywhere_is_no_word_of_a_boot() -> None:
    whole = boot_capture(snapshot(600, "0ther"), snapshot(0), MAINTENANCE).text
    for end in range(len(whole)):
        previous = replace(snapshot(0), captures={BOOT_CAPTURE: Capture(Outcome.DONE, text=whole[:end])})
        assert earlier_boot(snapshot(600), previous, SERVICE) == EarlierBoot("node", True, 0.0, NOON + 600,
                                                                             "")


def test_a_node_without_a_boot_id_has_no_fact() -> None:
    assert isinstance(earlier_boot(snapshot(0, ""), None, SERVICE), Unmeasured)


@given(st.integers(0, 253_402_300_799))
def test_a_time_is_written_as_a_calendar_would_write_it(seconds: int) -> None:
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(seconds=seconds)
    assert utc(seconds) == moment.strftime("%Y-%m-%dT%H:%MZ").rjust(17, "0")
