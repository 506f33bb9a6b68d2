"""Tickets: whole ones against golden files, and nothing foreign in them that forges a line,
a link or a mention."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.model.faultkind import FaultKind, Isolation, Of
from healthcheck.model.outcome import Owner, Repair
from healthcheck.model.problem import Problem
from healthcheck.model.verdict import RMA, Fault, Verdict
from healthcheck.store.history import ComponentLocation
from healthcheck.store.ledger import LedgerEntry
from healthcheck.triage.past import NodeHistory, OpenVerdict, Repaired
from healthcheck.triage.ticket import document, markdown, ticket
from inventory.model import Bmc, Node, PortPlan
from tests.tries import tries

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
T0 = 1_790_000_000.0
HOUR = 3600.0
NODE = Node("gpu017", rack="r04", bmc=Bmc("10.9.0.17"),
            ports={"0000:5e:00.0": PortPlan("compute", 3, "leaf12")})
CHASSIS = ComponentLocation("chassis", "C0017", "gpu017", "chassis", T0 - 900 * HOUR, T0, None)


def problem(rule: str, subject: str = "", **more: object) -> Problem:
    given = {"node": "gpu017", "rule": rule, "subject": subject, "status": "fail", "severity": "critical",
             "origin": None, "owner": None, "observed": "", "expected": "", "reason": "", "remedy": "",
             "began": T0, "seen": T0 + 2 * HOUR, "ended": None, "sweeps": 9, "kind": None, "serial": None}
    return Problem(**{**given, **more})  # type: ignore[arg-type]


def verdict(
    kind: str, problems: tuple[Problem, ...], repair: Repair, owner: Owner, place: str = "", *because: str,
) -> Verdict:
    fault = Fault(FaultKind(kind, "why", ("*",), Of.FAIL), place, problems, Isolation.NO_NEW_JOBS, repair,
                  owner, T0, because)
    return Verdict("gpu017", Isolation.NO_NEW_JOBS, repair, owner, kind, "why it matters", (fault,))


WORN = problem("gpu-row-remap-failed", "GPU 3", observed="a row could not be remapped", expected="none",
               kind="gpu", serial="1650721", remedy="Send the GPU back: no reset brings spare rows back.")
CASES = {
    "worn-gpu": (
        verdict("gpu-worn-out", (WORN,), Repair.REPLACE, Owner.VENDOR, "gpu 1650721",
                "repeat offender: this component failed 3 times"),
        NodeHistory("gpu017",
                    moved=(problem("gpu-ecc-uncorrected", "GPU 6", node="gpu004", observed="2", kind="gpu",
                                   serial="1650721", began=T0 - 300 * HOUR, seen=T0 - 280 * HOUR,
                                   ended=T0 - 279 * HOUR),),
                    boots=(T0 - 700 * HOUR, T0 + HOUR),
                    verdict=OpenVerdict(1, "gpu-worn-out", Isolation.NO_NEW_JOBS, T0)),
        (CHASSIS, ComponentLocation("gpu", "1650721", "gpu017", "0000:9a:00.0", T0 - 200 * HOUR, T0, None),
         ComponentLocation("gpu", "1650721", "gpu004", "0000:5d:00.0", T0 - 900 * HOUR, T0 - 250 * HOUR,
                           T0 - 210 * HOUR)),
        (LedgerEntry(3, T0 - 50 * HOUR, "ops", "cordon", "gpu017", "long ago", "slurm", "cordoned",
                     T0 - 50 * HOUR),
         LedgerEntry(7, T0 + 60, "muster", "cordon", "gpu017", "gpu-worn-out", "slurm", "cordoned", T0 + 61),
         LedgerEntry(8, T0 + 600, "muster", "reboot", "gpu017", "to see", "slurm", None, None)),
        "/var/lib/muster/evidence/gpu017/20260921T160000Z",
    ),
    "port-down": (
        verdict("network-port",
                (problem("port-state", "mlx5_3/1 (0000:5e:00.0)", observed="DOWN, Polling",
                         expected="ACTIVE, LinkUp", remedy="Look at the cable and the switch port."),),
                Repair.INSPECT, Owner.NETWORK),
        NodeHistory("gpu017"), (CHASSIS,), (), ""),
    "unreachable": (
        verdict("unreachable",
                (problem("", status="unknown", origin="node", reason="connect: timed out after 10 s"),),
                Repair.INSPECT, Owner.DATACENTRE),
        NodeHistory("gpu017"), (),
        (LedgerEntry(9, T0 + 60, "muster", "cordon", "gpu017", "unreachable", "slurm", "cordoned", T0 + 61),),
        ""),
    "wedged": (
        verdict("probe-wedged", tuple(
            problem(f"gpu-{name}", status="unknown", origin="node",
                    reason="nvml: wedged since 14:02, pid 4711", sweeps=4)
            for name in ("count", "memory", "power", "ecc-uncorrected", "recovery-action")), Repair.REBOOT,
                Owner.OPERATOR),
        NodeHistory("gpu017", repaired=(Repaired(T0 + 1800, "restart-service"),)), (CHASSIS,), (), ""),
}


def golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("MUSTER_GOLDEN") == "update":
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("name", CASES)
def test_a_ticket_says_all_that_its_reader_needs(name: str) -> None:
    judged, past, seats, lines, bundle = CASES[name]
    golden(f"ticket-{name}.md", markdown(ticket(judged, past, seats, lines, NODE, bundle=bundle)))


def test_what_was_done_before_the_fault_began_is_left_out_and_what_no_one_knows_the_end_of_is_reported(
) -> None:
    judged, past, seats, lines, _ = CASES["worn-gpu"]
    text = markdown(ticket(judged, past, seats, lines, NODE))
    assert "long ago" not in text and "reboot by muster (to see): outcome not known" in text
    assert text.count("the node had been restarted") == 1
    assert text.endswith("Evidence: none since this began; `muster evidence gpu017` makes one\n")


def test_a_repair_that_the_ledger_tells_of_is_reported_once_and_paper_not_at_all() -> None:
    judged, past, *_ = CASES["wedged"]
    done = [LedgerEntry(1, T0 + 1700, "triage", "restart-service", "gpu017", "x", "", "done", T0 + 1800),
            *(LedgerEntry(2, T0 + 1700, "ops", action, "gpu017", "x", "", "done", T0 + 1800)
              for action in ("rma open", "silence"))]
    text = markdown(ticket(judged, past, (), done, NODE))
    assert text.count("restart-service") == 1 and "rma" not in text and "silence" not in text


def test_what_is_not_known_is_said_not_to_be() -> None:
    judged, past, *_ = CASES["unreachable"]
    text = markdown(ticket(judged, past, (), (), None))
    assert [line for line in text.splitlines() if line.endswith("not known")] == [
        "- Rack: not known", "- BMC: not known", "- Chassis serial: not known"]


def test_a_ticket_is_to_one_owner_and_names_what_is_for_others() -> None:
    worn, past, seats, lines, _ = CASES["worn-gpu"]
    port = CASES["port-down"][0].faults[0]
    text = markdown(ticket(replace(worn, faults=(*worn.faults, port)), past, seats, lines, NODE))
    assert "To the vendor." in text and "Polling" not in text
    assert "Also wrong, and not asked for here: network-port" in text


def test_what_is_asked_of_an_owner_is_the_repair_of_what_is_theirs() -> None:
    worn, past, seats, lines, _ = CASES["worn-gpu"]
    port = CASES["port-down"][0]
    both = replace(port, repair=Repair.REPLACE, faults=(*port.faults, *worn.faults))
    said = ticket(both, past, seats, lines, NODE)
    assert ((said.owner, said.repair) == (Owner.NETWORK, Repair.INSPECT)
            and "both ends of the link" in said.asked)
    none_of_theirs = ticket(replace(both, owner=Owner.DATACENTRE), past, seats, lines, NODE)
    assert none_of_theirs.evidence == () and len(none_of_theirs.others) == 2


def test_a_component_that_has_left_its_slot_is_named_by_where_it_sat_last() -> None:
    judged, past, *_ = CASES["worn-gpu"]
    gone = ComponentLocation("gpu", "1650721", "gpu017", "0000:9a:00.0", T0 - 200 * HOUR, T0, T0 + HOUR)
    assert "slot 0000:9a:00.0" in markdown(ticket(judged, past, (gone,), (), NODE))


def test_the_document_holds_the_same() -> None:
    judged, past, seats, lines, bundle = CASES["worn-gpu"]
    said = ticket(judged, past, seats, lines, NODE, bundle=bundle)
    told = json.loads(json.dumps(document(said)))
    assert (told["schema"], told["node"], told["owner"], told["repair"], told["bundle"]) == (
        "muster.ticket/1", "gpu017", "vendor", "replace", bundle)
    assert told["text"] == markdown(said) and told["where"]["BMC"] == "10.9.0.17"


def faulty(*repairs: Repair, owner: Owner = Owner.VENDOR, began: float = T0) -> tuple[Fault, ...]:
    """Faults of one owner, each with the repair it asks for, an hour after the other."""
    (fault,) = CASES["worn-gpu"][0].faults
    return tuple(replace(fault, repair=repair, owner=owner, began=began + at * HOUR)
                 for at, repair in enumerate(repairs))


def test_without_an_owner_it_is_the_operators_who_are_asked_to_find_the_cause() -> None:
    said = ticket(replace(CASES["worn-gpu"][0], owner=None, repair=Repair.INSPECT, faults=()),
                  NodeHistory("gpu017"), (), (), NODE)
    assert (said.owner is Owner.OPERATOR
            and said.asked == "Please look at it, find the cause, and say what was done.")


def test_of_several_repairs_of_an_owner_the_greatest_is_asked_for_but_where_an_incident_or_an_rma_says_which(
) -> None:
    base = replace(CASES["worn-gpu"][0], repair=Repair.REPLACE,
                   faults=faulty(Repair.RESET_GPU, Repair.REBOOT, Repair.WATCH))
    past = NodeHistory("gpu017")

    def repair(**more: object) -> Repair:
        return ticket(replace(base, **more), past, (), (), NODE).repair     # type: ignore[arg-type]

    assert repair() is Repair.REBOOT
    assert repair(incident=3) is Repair.REPLACE and repair(fault=RMA) is Repair.REPLACE


def test_what_was_tried_is_reported_since_the_first_of_the_faults_began_and_the_newest_of_many() -> None:
    judged = replace(CASES["worn-gpu"][0], faults=faulty(Repair.REPLACE, Repair.REPLACE))

    def lines(*times: float) -> list[LedgerEntry]:
        return [LedgerEntry(at, time, "ops", f"try {at}", "gpu017", "x", "", "done", time)
                for at, time in enumerate(times)]

    past = NodeHistory("gpu017", boots=(T0 - 9, T0 - 1, T0, T0 + 5),
                       repaired=(Repaired(T0 - 1, "early"), Repaired(T0, "reset")))
    said = ticket(judged, past, (), lines(T0 - 1, T0, T0 + 60), NODE).tried
    assert [text.partition("Z ")[2].partition(" by")[0] for text in said] == [
        "done: reset", "the node had been restarted, and was looked at again", "try 1",
        "the node had been restarted, and was looked at again", "try 2"]
    text = markdown(ticket(judged, NodeHistory("gpu017"), (), lines(*(T0 + at for at in range(9))), NODE))
    shown = text[text.index("What was tried:"):].splitlines()[1:10]
    assert shown[0] == "- and 1 before" and "try 1" in shown[1] and "try 8" in shown[8]
    assert "before" not in markdown(ticket(judged, NodeHistory("gpu017"), (),
                                           lines(*(T0 + at for at in range(8))),
                                           NODE)).partition("What was tried:")[2]


def test_of_many_remedies_the_first_are_reported_and_the_others_counted() -> None:
    def helps(number: int) -> list[str]:
        found = tuple(problem("a-rule", f"GPU {at}", remedy=f"do {at}") for at in range(number))
        text = markdown(ticket(verdict("k", found, Repair.REPLACE, Owner.VENDOR), NodeHistory("gpu017"),
                               (), (), NODE))
        return [line for line in text.partition("What helps:")[2].splitlines() if line.startswith("- ")]

    assert helps(3) == ["- do 0", "- do 1", "- do 2"] and helps(4) == ["- do 0", "- do 1", "- do 2",
                                                                       "- and 1 more"]


def test_long_words_are_cut_where_the_reader_has_enough() -> None:
    long = problem("a-rule", "s" * 200, remedy="[r]" + "r" * 500)
    judged = verdict("k", (long,), Repair.REPLACE, Owner.VENDOR)
    text = markdown(ticket(judged, NodeHistory("gpu017"), (), (), NODE, bundle="/" + "b" * 400))
    spans = re.findall("`([^`]+)`", text)
    assert (max(len(one) for one in spans if "rrr" in one) == 400
            and max(len(one) for one in spans if "bbb" in one) == 300)
    assert len(ticket(judged, NodeHistory("gpu017"), (), (), NODE).title) == len("gpu017: k, ") + 80
    numbered = verdict("k", (problem("a-rule", "s" * 200, kind="gpu", serial="9"),),
                       Repair.REPLACE, Owner.VENDOR)
    seat = ComponentLocation("gpu", "9", "gpu017", "slot", T0, T0, None)
    assert len(ticket(numbered, NodeHistory("gpu017"), (seat,), (), NODE).title) == len("gpu017: k, ") + 120


def test_a_part_is_where_it_sits_now_else_where_it_was_seen_last() -> None:
    judged = CASES["worn-gpu"][0]

    def slot(*seats: ComponentLocation) -> str:
        return dict(ticket(judged, NodeHistory("gpu017"), seats, (), NODE).where)["Part"]

    was = ComponentLocation("gpu", "1650721", "gpu017", "old", T0 - 9, T0 + 50, T0 + 60)
    now = ComponentLocation("gpu", "1650721", "gpu017", "new", T0 - 5, T0, None)
    assert "slot new" in slot(was, now) and "slot new" in slot(now, was)
    assert "slot old" in slot(was, replace(now, ended=T0 + 1))


def test_the_chassis_is_that_of_this_node_which_is_there_now() -> None:
    judged = CASES["worn-gpu"][0]

    def serial(*seats: ComponentLocation) -> str:
        return dict(ticket(judged, NodeHistory("gpu017"), seats, (), NODE).where)["Chassis serial"]

    assert serial(replace(CHASSIS, node="gpu018", serial="X"), replace(CHASSIS, ended=T0, serial="Y"),
                  replace(CHASSIS, kind="board", serial="Z"), CHASSIS) == "C0017"
    assert serial(replace(CHASSIS, ended=T0)) == "not known"


@pytest.mark.parametrize(("number", "told"), [(3, "GPU 0, GPU 1, GPU 2 (no serial number known)"),
                                              (4, "GPU 0, GPU 1, GPU 2 and 1 more (no serial number known)")])
def test_parts_without_a_number_are_told_by_name_and_counted(number: int, told: str) -> None:
    found = tuple(problem("a-rule", f"GPU {at}") for at in range(number))
    assert dict(ticket(verdict("k", found, Repair.REPLACE, Owner.VENDOR), NodeHistory("gpu017"), (), (),
                       NODE).where)["Part"] == told


@pytest.mark.parametrize(("number", "more"), [(3, None), (4, "and 1 more like these")])
def test_of_many_faults_so_many_parts_are_reported(number: int, more: str | None) -> None:
    judged = replace(CASES["worn-gpu"][0], faults=faulty(*[Repair.REPLACE] * number))
    assert dict(ticket(judged, NodeHistory("gpu017"), (), (), NODE).where).get("Parts") == more


@pytest.mark.parametrize(("number", "label"), [(3, "r0, r1, r2"), (4, "r0, r1, r2 and 1 more rules")])
def test_rules_that_say_the_same_are_one_line(number: int, label: str) -> None:
    found = tuple(problem(f"r{at}", status="unknown", reason="the tool hangs") for at in range(number))
    assert [rules for rules, _ in ticket(verdict("k", found, Repair.REBOOT, Owner.OPERATOR),
                                         NodeHistory("gpu017"), (), (), NODE).evidence] == [label]


def test_of_a_part_without_a_number_nothing_is_reported_from_elsewhere() -> None:
    judged = verdict("k", (problem("a-rule", "GPU 3", kind="gpu"),), Repair.REPLACE, Owner.VENDOR)
    moved = NodeHistory("gpu017", moved=(problem("b-rule", node="gpu004", kind="gpu"),))
    assert ticket(judged, moved, (), (), NODE).elsewhere == ()


NASTY = st.text(max_size=60) | st.sampled_from([
    "`", "``", "a`b", "\n# forged", "\r\n- forged", "\x1b[31m", "[x](http://e.vil)", "<img src=x>",
    "@everyone", "#1", "http://e.vil/x", "www.e.vil", "\u2028- forged", "\u202egnp", "\u2066", "```\nx\n```",
    "\x85# x", "\ud800", "*b*", "~~", "a|b", "", " ", "\u00ad",
])


OURS = re.compile(r"(?:- |To |Also wrong, and not asked for here: |Evidence: ).*|(?:What was seen|Why this "
                  r"is asked|The same component before|"
                  r"What was tried|What helps):|")


@settings(max_examples=tries(200), deadline=None)
@given(st.lists(NASTY, min_size=9, max_size=9), st.integers(1, 30))
def test_nothing_foreign_forges_a_line_or_anything_else(words: list[str], times: int) -> None:
    lines = _said("", times, *words).splitlines()
    assert len(lines) <= 60 and lines[0].startswith("# ")
    for line in lines[1:]:
        assert OURS.fullmatch(line), line
    for line in lines:
        assert all(each.isprintable() for each in line) and len(line) < 700
        outside = re.sub(r"`[^`]+`", "", line.removeprefix("# "))
        assert not re.search(r"[`\[\]<>@*#|~\\]|//|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|www\.e", outside), line


def _said(first: str, times: int, *words: str) -> str:
    subject, observed, expected, reason, remedy, serial, slot, why, outcome = words
    found = tuple(problem("a-rule", f"{first}{number}" if times > 1 else subject, observed=observed,
                          expected=expected, reason=reason,
                          remedy=remedy and f"{remedy}{number if times > 1 else ''}", kind="gpu",
                          serial=f"{serial}{number}") for number in range(times))
    unread = tuple(problem("b-rule", status="unknown", reason=f"{reason}{number if times > 1 else ''}")
                   for number in range(times))
    faults = tuple(replace(verdict("k", found[at:] + unread, Repair.REPLACE, Owner.VENDOR, subject,
                                   why or "y").faults[0]) for at in range(min(times, 5)))
    other = verdict("other", found, Repair.INSPECT, Owner.NETWORK, slot or "s").faults[0]
    judged = Verdict("gpu017", Isolation.EVICT, Repair.REPLACE, Owner.VENDOR, "k", why or "y",
                     (*faults, *[other] * times))
    seats = [ComponentLocation("gpu", f"{serial}{number}", node, slot, T0, T0, None)
             for number in range(times) for node in ("gpu017", "gpu003")]
    moved = tuple(replace(each, node="gpu003", ended=T0 + 1) for each in found)
    lines = [LedgerEntry(number, T0 + number, "ops", "cordon", "gpu017", why, "", outcome, None)
             for number in range(times)]
    return markdown(ticket(judged, NodeHistory("gpu017", moved=moved), seats, lines, NODE, bundle=slot))
