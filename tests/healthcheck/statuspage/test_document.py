"""The page's document says of each node what the store, the gate and triage say, once and within bounds."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import Any

import pytest

from healthcheck.gate.decide import Gate, Why
from healthcheck.model.problem import Problem
from healthcheck.statuspage import changes, ready
from healthcheck.statuspage.findings import Findings
from healthcheck.statuspage.gather import document
from healthcheck.statuspage.text import lines, wrapped
from healthcheck.store.file import opened
from healthcheck.store.history import Spell
from inventory.load import load_inventory
from inventory.nodeset import expand
from tests.command import muster
from tests.documents import validate
from tests.healthcheck.statuspage.made import HOSTILE, NOW, World, world


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> World:
    return world(tmp_path_factory.mktemp("fleet"), 48, now=NOW, hostile=HOSTILE)


def node(made: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (one for one in made["nodes"] if one["node"] == name)
    return found


def test_it_is_as_its_schema_says_and_names_every_node_once(made: dict[str, Any]) -> None:
    validate(json.loads(json.dumps(made, allow_nan=False)), "page-1")
    assert [one["node"] for one in made["nodes"]] == [f"gpu{number:02d}" for number in range(1, 49)]


def test_a_node_is_ready_only_where_the_gate_opens_and_muster_holds_nothing(made: dict[str, Any]) -> None:
    by_sku = {one["sku"]: one for one in made["ready"]}
    assert sum(one["nodes"] for one in by_sku.values()) == 48
    for sku, one in by_sku.items():
        own = [each for each in made["nodes"] if each["sku"] == sku]
        ready_ones = [each for each in own if each["gate"] == "open" and not each.get("isolation")
                      and "lent" not in each]
        assert one["ready"] == len(ready_ones)
        assert one["ready"] + sum(reason["nodes"] for reason in one["not_ready"]) == one["nodes"]
        assert all(each["state"] in ("healthy", "degraded") and "certificate" in each for each in ready_ones)


def test_what_was_not_measured_is_never_ready_and_is_the_operators_turn(made: dict[str, Any]) -> None:
    for name, state, said in (("gpu01", "never-seen", "no stored sweep"),
                              ("gpu03", "healthy", "its data is old")):
        one = node(made, name)
        assert (one["state"], one["gate"] == "open", one["owner"]) == (state, False, "operator")
        assert said in one["turn"] and one["next"] == f"muster check {name} --store"
    assert "seen" not in node(made, "gpu01") and node(made, "gpu03")["stale"]


def test_work_is_by_owner_with_every_node_that_someone_has_to_act_on(made: dict[str, Any]) -> None:
    listed = {(one["owner"], name) for one in made["work"] for item in one["items"]
              for name in expand(item["nodes"])}
    assert {(one["owner"], one["node"]) for one in made["nodes"] if "owner" in one} <= listed
    for one in made["work"]:
        assert one["nodes"] == len({name for owner, name in listed if owner == one["owner"]})
        assert all(item["next"].startswith("muster ") for item in one["items"])
    assert node(made, "gpu47").get("owner") is None and node(made, "gpu47")["lifecycle"] == "maintenance"


def test_an_incident_stands_before_its_nodes_and_they_count_once(made: dict[str, Any]) -> None:
    incident = next(one for one in made["incidents"] if one["where"] == "rack r02")
    assert (incident["owner"], incident["nodes"]) == ("datacentre", "gpu[09-16]")
    (owner,) = (one for one in made["work"] if one["owner"] == incident["owner"])
    assert f"muster incident show {incident['id']}" in [item["next"] for item in owner["items"]][:2]


def test_a_day_is_told_by_states_then_and_now(made: dict[str, Any]) -> None:
    said = {(one["text"], one["nodes"]): one for one in made["changes"]}
    assert any(text == "healthy → unhealthy" and one["worse"] for (text, _), one in said.items())
    assert any(text.startswith("incident ") and text.endswith("opened: rack r02") for text, _ in said)
    assert any(text == "cordon, by triage" for text, _ in said)


def test_counters_that_grew_have_a_trend_and_those_that_stood_have_none(made: dict[str, Any]) -> None:
    found = [trend for one in made["nodes"] for trend in one.get("trends", ())]
    assert found
    for trend in found:
        assert trend["growth"] == trend["points"][-1][1] - trend["points"][0][1] > 0
        assert trend["points"] == sorted(trend["points"])
    assert "trends" not in node(made, "gpu02")


def test_new_kernel_messages_and_the_newest_burn_in_are_there(made: dict[str, Any]) -> None:
    assert [(one["rule"], one["nodes"]) for one in made["novelties"]] == [("kernel-novel", "gpu10")]
    # Never seen, not for long, not reached.
    assert made["logs_not_judged"] == 3
    assert made["burnin"]["verdict"] == "fail" and made["burnin"]["picture"].startswith("<svg")
    assert made["burnin"]["accused"] and node(made, "gpu01")["burnin"] == "fail"


def test_no_text_of_a_node_keeps_a_control_character_or_a_direction_mark(made: dict[str, Any]) -> None:
    shown = json.dumps(made, ensure_ascii=False)
    assert "\\\\x1b[31mred" in shown and "\\\\u202egnp" in shown
    assert not any(mark in shown for mark in "\x1b\x9b\x00\u202e\u2066\u200f\u2028")


def test_without_an_inventory_the_nodes_are_those_of_the_store(fleet: World) -> None:
    with opened(fleet.state) as store:
        made = document(store, None, fleet.state, NOW)
    assert [one["node"] for one in made["nodes"]] == [f"gpu{number:02d}" for number in range(2, 49)]
    assert {one["sku"] for one in made["nodes"]} == {"hgx-h100"}


def problem(node: str, rule: str, observed: str, severity: str = "warning",
            ended: float | None = None) -> Problem:
    return Problem(node, rule, "GPU 1", "fail", severity, None, "vendor", observed, "0", "", "Drain.",
                   NOW - 60, NOW, ended, 1, None, None)


def test_equal_findings_share_one_text_and_the_worst_of_a_node_stand_first() -> None:
    found = Findings()
    found.add([problem(f"n{at}", rule, "7", severity) for at in range(100)
               for rule, severity in (("b", "warning"), ("a", "critical"), ("c", "info"))])
    assert [text["rule"] for text in found.texts] == ["a", "b", "c"]
    assert [number for number, _, _ in found.of["n7"]] == [0, 1, 2] and not found.more


def test_findings_have_a_bound_and_every_node_keeps_its_worst_one() -> None:
    found = Findings()
    found.add([problem(f"n{at:04d}", f"rule-{rule:02d}", f"{at} {rule} " + "x" * 400) for at in range(2000)
               for rule in range(20)])
    assert sum(len(text) for one in found.texts for text in one.values()) < 600_000
    assert {text["rule"]
            for text in found.texts if text.get("reason") == "(not shown: the page is full)"} == {"rule-00"}
    assert len(found.of) == 2000 and all(len(held) + found.more[name] == 20
                                         for name, held in found.of.items())


def test_a_command_for_many_nodes_is_whole_and_says_for_how_many_it_is(tmp_path: Path) -> None:
    here = world(tmp_path, 1200, now=NOW, burnt=False)
    with opened(here.state) as store:
        made = document(store, load_inventory(here.inventory), here.state, NOW)
    items = [item for one in made["work"]
             for item in one["items"] if item["next"].startswith("muster burnin run")]
    assert any(item["of"] < item["count"] for item in items)
    for item in items:
        assert "…" not in item["next"] and len(item["next"]) <= 400
        assert len(expand(shlex.split(item["next"])[3])) == item["of"]


def test_a_certificate_that_is_due_is_the_operators_turn_while_the_gate_is_open(tmp_path: Path) -> None:
    here = world(tmp_path, 8, now=NOW, burnt=False, sick=8)
    later = NOW + 400 * 86400       # and the sweeps have gone on
    with opened(here.state) as store, store.writing() as db:
        db.execute("UPDATE spell SET seen = ? WHERE ended IS NULL", (later - 60,))
    with opened(here.state) as store:
        found = document(store, load_inventory(here.inventory), here.state, later)
    one = node(found, "gpu2")
    assert (one["owner"], one["turn"], one["certificate"][0]) == ("operator",
                                                                  "certificate is due: age", "requalify")
    assert one["next"].startswith("muster burnin run gpu2 --length ")


def test_certificates_that_cannot_be_read_certify_no_one_and_the_page_says_so(tmp_path: Path) -> None:
    here = world(tmp_path, 8, now=NOW, burnt=False)
    (tmp_path / "keys" / "keys.json").write_text("{")
    with opened(here.state) as store:
        found = document(store, load_inventory(here.inventory), here.state, NOW)
    assert any(note.startswith("no node counts as certified: ") for note in found["notes"])
    assert sum(one["certified"] + one["ready"] for one in found["ready"]) == 0


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_answers_fit_the_terminal_and_commands_stay_whole(made: dict[str, Any], width: int) -> None:
    plain = list(lines(made))
    found = list(wrapped(plain, width))
    commands = [line for line in plain if line.lstrip().startswith("muster ")]
    assert commands and [line for line in found if line.lstrip().startswith("muster ")] == commands
    words = "".join(found).split()
    assert all(len(line) <= width for line in found if line not in commands)
    assert "".join(words) == "".join("".join(plain).split())


def spell(state: str, began: float, ended: float | None = None) -> Spell:
    return Spell("n1", state, "", None, began, NOW, ended, 1)


@pytest.mark.parametrize(("spells", "said"), [
    ([spell("healthy", 0)], None),
    ([spell("healthy", 0, 50), spell("unhealthy", 120)], ("healthy → unhealthy", True)),
    ([spell("unhealthy", 0, 50), spell("healthy", 120)], ("unhealthy → healthy", False)),
    ([spell("healthy", 0, 110), spell("unknown", 110, 120), spell("healthy", 120)],
     ("changed, and healthy again", False)),
    ([spell("unknown", 120)], ("first seen, unknown", True)),
])
def test_a_change_is_of_the_state_at_the_day_s_begin(spells: list[Spell],
                                                     said: tuple[str, bool] | None) -> None:
    found = changes.of_states({"n1": spells}, 100.0)
    assert [(one.text, one.worse) for one in found] == ([said] if said else [])


def test_a_missing_certificate_is_the_reason_only_where_it_is_the_only_one() -> None:
    entry = {"lifecycle": "service", "state": "healthy", "isolation": "none", "looked": int(NOW),
             "certificate": None, "versions": {"driver": "570.86"}}
    policy = ready_policy()
    found = ready.at_gate({"n1": entry, "n2": {**entry, "state": "unhealthy", "why": "gpu-count: 7"}}, policy,
                          {"n1": "a", "n2": "a"}, NOW)
    assert found["n1"].why.startswith("no certificate") and found["n2"].why == "unhealthy: gpu-count: 7"


def ready_policy() -> dict[str, Any]:
    from healthcheck.config.rulesfolder import packaged
    from healthcheck.gate.policyload import load_gate_policy

    return load_gate_policy([packaged()]).document()


def test_what_muster_holds_is_not_ready_though_the_gate_is_open() -> None:
    free = ready.Standing("n1", "a", True, True, "open", None, "")
    lent, closed = free._replace(held="lent for tests"), free._replace(gate="closed",
                                                                       why=Why("n1", Gate.CLOSED,
                                                                               "unhealthy: x", ""))
    (row,) = ready.rows([free, lent, closed])
    assert row["ready"] == 1
    assert row["not_ready"] == [{"why": "lent for tests", "nodes": 1}, {"why": "unhealthy", "nodes": 1}]


def test_the_command_prints_the_answers_the_document_and_the_page(tmp_path: Path) -> None:
    here = world(tmp_path / "state", 9, now=time.time(), certified=False, burnt=False)
    words = ("-i", str(here.inventory))
    text = muster("report", *words, home=tmp_path)
    assert (text.returncode == 0 and text.stdout.startswith("Can a job start?\n")
            and "Whose turn is it?" in text.stdout)
    printed = muster("report", *words, "--format", "json", home=tmp_path)
    validate(json.loads(printed.stdout), "page-1")
    done = muster("report", *words, "--html", "page.html", home=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("page.html: 9 nodes, ")
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_without_a_store_it_says_how_to_make_one(tmp_path: Path) -> None:
    done = muster("report", "--html", "page.html", home=tmp_path)
    assert (done.returncode == 2 and "muster check --store" in done.stderr
            and not (tmp_path / "page.html").exists())
    assert not (tmp_path / "state").exists()
