"""What a snapshot left out, as the inventory says, stands beside every result that it concerns, and in no
other."""

from __future__ import annotations

from dataclasses import replace

from healthcheck.judge.leftout import addresses, left_out, with_left_out
from healthcheck.model.outcome import Result, Severity, Status, Unjudged
from healthcheck.model.recording import Capture, Outcome
from tests.packagedrules import RULES

PORT_RULE = next(rule for rule in RULES.rules if rule.id == "port-rate")
PROBE = PORT_RULE.probes[0].id
ONE = "mlx5_0 (0000:18:00.0)"
LEFT = {PROBE: (ONE,)}
NOTE = f"not read, as the inventory says: {ONE}"


def noted(note: str) -> Capture:
    return replace(Capture(Outcome.DONE), note=note)


def result(status: Status, **changes: object) -> Result:
    return replace(Result("port-rate", "port.rate", status, Severity.CRITICAL), **changes)


def test_only_notes_of_devices_that_were_left_out_are_read() -> None:
    found = left_out({"a": noted(f"left out: {ONE}; slow; left out: mlx5_1 (0000:2a:00.0)"),
                      "b": noted("slow"), "c": noted("")})
    assert found == {"a": (ONE, "mlx5_1 (0000:2a:00.0)")}
    assert left_out({"a": noted("left out: " + "x" * 5000)})["a"] == ("x" * 99 + "…",)


def test_the_addresses_are_those_of_devices_that_name_one() -> None:
    assert addresses({"a": (ONE, "mlx5_9"), "b": ("mlx5_1 (0000:2a:00.0)",)}) == {"0000:18:00.0",
                                                                                  "0000:2a:00.0"}


def test_the_reason_of_each_rule_that_reads_the_probe_names_them() -> None:
    assert with_left_out(result(Status.PASS), PORT_RULE, LEFT) == result(Status.PASS, reason=NOTE)
    assert with_left_out(result(Status.UNKNOWN, reason="hung"), PORT_RULE, LEFT).reason == f"hung; {NOTE}"
    assert with_left_out(result(Status.PASS), PORT_RULE, {"another": (ONE,)}) == result(Status.PASS)


def test_a_rule_that_was_not_judged_is_left_as_it_is() -> None:
    assert with_left_out(result(Status.SKIPPED, reason="none there"), PORT_RULE,
                         LEFT) == result(Status.SKIPPED, reason="none there")


def test_where_the_reason_is_kept_in_parts_they_are_one_of_them_and_no_cause_of_unknown() -> None:
    parts = (Unjudged("GPU 0: hung", ("GPU 0",)),)
    found = with_left_out(result(Status.UNKNOWN, reason="GPU 0: hung", unjudged=parts), PORT_RULE, LEFT)
    assert found.unjudged == (*parts, Unjudged(NOTE, note=True))
