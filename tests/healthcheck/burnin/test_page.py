"""The page of a burn-in: verdict, accusations, what to type, and what was not measured; golden."""

from __future__ import annotations

import io
import shlex
from dataclasses import replace

import pytest
from rich.console import Console

from healthcheck.burnin import faults
from healthcheck.burnin.document import Burnin
from healthcheck.burnin.judgement import BurnInOutcome, Judgement, NodeOutcome
from healthcheck.burnin.model import Accusation, Object
from healthcheck.burnin.page import next_step, render, verdict_line
from inventory.nodeset import fold
from tests.goldens import golden
from tests.healthcheck.burnin.faulty import faulty
from tests.healthcheck.burnin.made import burnin


def page(of: Burnin, **how: object) -> str:
    out = io.StringIO()
    plain = {"soft_wrap": True, "highlight": False, "markup": False, "emoji": False}
    console = Console(file=out, width=100, **plain, **how)  # type: ignore[arg-type]
    render(console, of, fold)
    return out.getvalue()


def test_the_page_of_a_burn_in_with_faults_of_every_sort() -> None:
    golden("burnin-page.txt", page(faulty()))


def test_the_page_of_one_that_passes() -> None:
    golden("burnin-page-pass.txt", page(burnin()))


def test_the_verdict_comes_first_and_every_accusation_says_what_to_type() -> None:
    lines = page(faulty()).splitlines()
    assert lines[0].startswith("FAIL  burn-in 20261122T030000-1 (quick), 12 nodes, 10 min from 2026-11-22 "
                               "03:00 UTC: ")
    assert sum(line.startswith("  type ") for line in lines) == len(faulty().judgement.accusations) > 4


def test_in_a_log_it_is_plain_and_on_a_terminal_coloured_unless_that_is_not_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "\x1b" not in page(faulty())
    assert "\x1b[" in page(faulty(), force_terminal=True, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31" not in page(faulty(), force_terminal=True, color_system="standard", no_color=None)


def test_what_a_node_says_is_neither_markup_nor_acts_on_the_terminal() -> None:
    hostile = Accusation(Object.GPU, "gpu001:0", faults.RAISED, "[bold]\x1b[2J\x07 \u202e'; rm -rf /",
                         ("t\x1b",))
    of = replace(burnin(), judgement=Judgement((NodeOutcome("gpu001", BurnInOutcome.FAIL, ("\x1b[2J",)),),
                                               (hostile,), remarks=("\x1b]0;x\x07",)))
    text = page(of)
    assert "[bold]\\x1b[2J\\x07" in text and not {chr(code) for code in range(32) if code != 10} & set(text)


def test_what_to_type_is_one_command_whatever_the_names_are() -> None:
    of = faulty()
    node = Accusation(Object.NODE, "gpu001", "slow; touch /tmp/x", "")
    assert shlex.split(next_step(node, of, fold)) == ["muster", "cordon", "gpu001", "--reason",
                                                      f"burn-in {of.run}: gpu001: slow; touch /tmp/x"]
    assert next_step(Accusation(Object.NODE, "gpu001", faults.LOST, ""), of, fold) == "muster check gpu001"
    assert next_step(Accusation(Object.PAIR, "gpu001 - gpu002", faults.SLOW_LINK,
                                ""), of, fold) == "muster burnin run 'gpu[001-002]'"
    assert next_step(Accusation(Object.LEAF, "leaf02", faults.SLOW_LINK,
                                ""), of, fold) == "muster check 'gpu[005-008]' --only 'port-*'"
    open_ = Accusation(Object.UNEXPLAINED, "leaf1-gpu009-gpu010", faults.SLOW, "", ())
    assert next_step(open_, of, fold) == "muster burnin run 'gpu[009-010]'"


def test_a_thousand_accusations_still_make_one_page() -> None:
    many = tuple(Accusation(Object.NODE, f"gpu{number:04}", faults.SLOW, "x" * 400,
                            tuple(f"t{at}" for at in range(500))) for number in range(1000))
    of = replace(burnin(),
                 judgement=Judgement(tuple(NodeOutcome(one.name, BurnInOutcome.FAIL) for one in many), many))
    text = page(of)
    assert (len(text.splitlines()) < 160 and "and 980 more accusations; --format json has all" in text
            and "and 494 more" in text)


def test_a_failure_that_no_node_is_named_for_is_reported_in_the_first_line() -> None:
    open_ = Accusation(Object.UNEXPLAINED, "all-1", faults.SLOW, "all are slow", ("all-1",))
    of = replace(burnin(),
                 judgement=Judgement((NodeOutcome("gpu001", BurnInOutcome.UNKNOWN, ("all-1",)),), (open_,)))
    assert verdict_line(of).endswith("1 unknown; something failed, but no node is named for it")


def test_reasons_that_differ_by_the_node_s_name_alone_are_one_line() -> None:
    outcomes = tuple(
        NodeOutcome(name, BurnInOutcome.UNKNOWN, (f"known was not finished in node-known-{name}",))
        for name in ("gpu1", "gpu2", "gpu10"))
    text = page(replace(burnin(), judgement=Judgement(outcomes)))
    assert "gpu[1-2,10]: known was not finished in node-known-gpu[1-2,10]" in text
