"""Profiles: rules that a site leaves out for some nodes stay visible, cost no probe, and a replay knows of
them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from healthcheck.config.rulesfolder import packaged
from healthcheck.model.outcome import (
    NodeReport,
    NodeState,
    Origin,
    Result,
    Severity,
    Status,
    exit_code,
    state_of,
)
from healthcheck.model.probes import Effect
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.ruleset import Ruleset, load_ruleset
from healthcheck.sweep.saved import SweepManifest, _manifest_from_json, _manifest_to_json
from inventory.errors import InventoryError, MusterError, RulesError, UsageError
from inventory.load import load_inventory
from inventory.model import Node
from tests.command import muster
from tests.healthcheck import machine
from tests.healthcheck.assessing import assessed
from tests.packagedrules import RULES
from tests.tries import tries

GOOD = "profile: quiet\ntitle: a test\nleave_out: [docker-*, host-swap]\n"


# Labels of adapters, which only root may read, are shown where they are there; no rule of adapters needs
# them.
BESIDES = {"hca.vpd"}
ROOTED = {probe.id for rule in RULES.rules if not rule.left_out
          and not rule.disruptive for probe in rule.probes if probe.root} - BESIDES


def needs_root(rule: Rule) -> bool:
    return any(probe.root and probe.id not in BESIDES for probe in rule.probes)


def load(folder: Path, text: str) -> Ruleset:
    (folder / "profile").mkdir(exist_ok=True)
    (folder / "profile/site.yaml").write_text(text)
    return load_ruleset([packaged(), folder])


def reports(nodes: list[Node], ruleset: Ruleset = RULES) -> dict[str, NodeReport]:
    seen = [machine.recording(node.name, kernel_log=machine.denied("/dev/kmsg"),
                              docker_info=machine.docker_denied())
            for node in nodes]
    found = assessed(*seen, nodes=nodes, rules=ruleset, default_sku="hgx-h100")
    return {report.node: report for report in found.reports}


def test_the_packaged_profile_leaves_out_what_needs_root_and_nothing_else() -> None:
    """Who adds a rule that needs root says here whether a site without root wants to be unknown for it."""
    # With what is disabled elsewhere, too.
    all_ = replace(RULES,
                   profiles={**RULES.profiles, "bringup": replace(RULES.profiles["bringup"], enable=("*",))})
    left = {rule.id for rule in all_.under("unprivileged", "bringup") if rule.left_out}
    assert left == {rule.id for rule in RULES.rules if needs_root(rule)}


def test_a_node_that_no_one_may_examine_as_root_is_healthy_under_the_profile_and_unknown_without() -> None:
    seen = reports([Node("plain"), Node("quiet", profile="unprivileged")])
    assert (seen["plain"].state, seen["quiet"].state) == (NodeState.UNKNOWN, NodeState.HEALTHY)
    left = {r.rule: r for r in seen["quiet"].results if r.reason == "left out by profile unprivileged"}
    assert set(left) == {rule.id for rule in RULES.rules if needs_root(rule) and not rule.disabled}
    assert all(result.status is Status.SKIPPED for result in left.values())
    assert [r.rule for r in seen["quiet"].results] == [r.rule for r in seen["plain"].results]


def test_what_was_not_asked_for_is_not_counted_as_not_seen() -> None:
    seen = reports([Node("plain"), Node("quiet", profile="unprivileged")])
    plain, quiet = seen["plain"].probes, seen["quiet"].probes
    assert plain is not None and quiet is not None
    assert plain.need_root == len(ROOTED | BESIDES) and {"docker.info",
                                                         "kernel.log"} <= set(plain.denied) <= ROOTED
    assert (quiet.asked, quiet.need_root, quiet.denied) == (plain.asked - len(ROOTED), len(BESIDES), ())


def test_a_fleet_rule_compares_only_nodes_that_it_is_judged_for(tmp_path: Path) -> None:
    ruleset = load(tmp_path, "profile: quiet\nleave_out: [fleet-*]\n")
    nodes = [Node(f"n{n}") for n in range(3)] + [Node("odd", profile="quiet")]
    seen = [machine.recording(node.name, host_versions=machine.done(**{
        "/proc/sys/kernel/osrelease": "6.8.0\n" if node.name == "odd" else "6.5.0-1019\n"}))
            for node in nodes]
    reports = assessed(*seen, nodes=nodes, rules=ruleset.select(only=("fleet-*",)),
                       default_sku="hgx-h100").reports
    found = {report.node: {r.rule: r for r in report.results} for report in reports}
    assert found["odd"]["fleet-kernel"].reason == "left out by profile quiet"
    assert found["n0"]["fleet-kernel"].status is Status.PASS


def test_probes_that_only_left_out_rules_need_are_not_sent_unless_another_node_needs_them() -> None:
    def ids(*profiles: str | None) -> set[str]:
        return {probe.id for probe in RULES.probe_set(45, profiles=profiles).probes}

    assert {"docker.info", "kernel.log"} <= ids(None) - ids("unprivileged") == ROOTED
    assert ids(None, "unprivileged") == ids(None) == {probe.id for probe in RULES.probe_set(45).probes}


def test_a_rule_that_was_left_out_already_keeps_its_reason() -> None:
    skipped = {rule.id: rule.left_out for rule in RULES.select(skip=("kernel-xid",)).under("unprivileged")}
    assert skipped["kernel-xid"] == "left out by --skip"
    assert skipped["kernel-hardware-error"] == "left out by profile unprivileged"


def test_a_nodes_own_profile_and_that_of_the_occasion_both_hold(tmp_path: Path) -> None:
    ruleset = load(tmp_path, GOOD)
    nodes = [Node("a"), Node("b", profile="unprivileged")]
    reports = assessed(*map(machine.recording, "ab"), nodes=nodes, rules=ruleset, default_sku="hgx-h100",
                       profiles=("quiet",)).reports
    a, b = ({r.rule: r.reason for r in report.results if r.reason.startswith("left out")}
            for report in reports)
    assert set(a) == {rule.id for rule in RULES.rules if rule.id.startswith("docker-")
                      and not rule.left_out} | {"host-swap"}
    assert set(a.values()) == {"left out by profile quiet"}
    assert set(b) > set(a) and b["kernel-xid"] == "left out by profile unprivileged"
    assert b["host-swap"] == "left out by profile quiet"


def test_only_names_what_is_judged_and_leave_out_takes_from_it(tmp_path: Path) -> None:
    ruleset = load(tmp_path, "profile: quiet\nonly: [host-*]\nleave_out: [host-swap]\n")
    taken = {rule.id for rule in ruleset.under("quiet") if not rule.left_out}
    assert taken == {rule.id for rule in RULES.rules if rule.id.startswith("host-")
                     and not rule.left_out} - {"host-swap"}
    assert {probe.id for probe in ruleset.probe_set(45, occasion=("quiet",)).probes} == {
        probe.id for rule in ruleset.under("quiet") if not rule.left_out for probe in rule.probes}


def site(folder: Path, profile: str) -> Ruleset:
    (folder / "site.yaml").write_text(
        "- {id: host-swap, enabled: false}\n- {id: fleet-kernel, enabled: false}\n")
    return load(folder, profile)


def test_a_profile_enables_what_is_disabled_otherwise_also_a_fleet_rule(tmp_path: Path) -> None:
    ruleset = site(tmp_path, "profile: deep\nenable: [host-*, fleet-*]\n")
    nodes = [Node(f"n{number}") for number in range(3)] + [Node("deep", profile="deep")]
    for occasion, statuses in (((), {Status.SKIPPED}), (("deep",), {Status.PASS})):
        reports = assessed(*(machine.recording(node.name) for node in nodes), nodes=nodes,
                           rules=ruleset.select(only=("host-*", "fleet-*")),
                           default_sku="hgx-h100", profiles=occasion).reports
        found = [{r.rule: r for r in report.results} for report in reports]
        for rule in ("host-swap", "fleet-kernel"):
            assert {results[rule].status for results in found[:3]} == statuses
        assert found[3]["host-swap"].status is Status.PASS
    assert found[0]["host-swap"].reason == ""


def test_skip_outranks_a_profile_that_enables(tmp_path: Path) -> None:
    ruleset = site(tmp_path, "profile: deep\nenable: ['*']\n").select(skip=("host-swap",))
    assert {rule.id: rule.left_out for rule in ruleset.under("deep")}["host-swap"] == "left out by --skip"


def test_what_is_disruptive_is_enabled_by_its_full_name_only() -> None:
    passive = next(rule for rule in RULES.rules if rule.effect is Effect.PASSIVE)
    disruptive = replace(passive, effect=Effect.DISRUPTIVE)
    wide = replace(RULES.profiles["bringup"], enable=("*",))
    assert not wide.enables(disruptive) and wide.enables(passive)
    assert replace(wide, enable=("*", disruptive.id)).enables(disruptive)


def test_of_several_budgets_the_least_holds_and_the_probe_set_carries_it(tmp_path: Path) -> None:
    load(tmp_path, "profile: a\nbudget: {seconds: 10, cpu_seconds: 3}\n")
    (tmp_path / "profile/b.yaml").write_text("profile: b\nbudget: {seconds: 20, cpu_seconds: 1.5}\n")
    ruleset = load_ruleset([packaged(), tmp_path])
    made = ruleset.probe_set(45, occasion=("a", "b", "unprivileged"))
    assert (made.seconds, made.cpu_seconds, made.to_json()["cpu_seconds"]) == (10, 1.5, 1.5)
    assert ruleset.probe_set(5, occasion=("a",)).seconds == 5
    plain = ruleset.probe_set(45, profiles=("a",))
    assert (plain.seconds, plain.cpu_seconds) == (45, None) and "cpu_seconds" not in plain.to_json()


def unknown(rule: str, origin: Origin, severity: Severity = Severity.CRITICAL) -> Result:
    return Result(rule, "c", Status.UNKNOWN, severity, origin=origin)


FINE, BAD = Result("x", "c", Status.PASS, Severity.CRITICAL), Result("y", "c", Status.FAIL, Severity.WARNING)


@pytest.mark.parametrize(("results", "profiles", "code"), [
    ((FINE, unknown("a", Origin.MUSTER)), (), 3),
    ((FINE, unknown("a", Origin.MUSTER)), ("unprivileged",), 3),
    ((FINE, unknown("a", Origin.MUSTER)), ("timer",), 0),
    ((FINE, unknown("a", Origin.MUSTER)), ("timer", "unprivileged"), 0),
    ((FINE, unknown("a", Origin.MUSTER)), ("timer", "bringup"), 3),
    ((FINE, unknown("a", Origin.NODE)), ("timer",), 3),
    ((FINE, unknown("a", Origin.MUSTER), unknown("b", Origin.NODE)), ("timer",), 3),
    ((BAD, unknown("a", Origin.MUSTER)), ("timer",), 1),
    ((unknown("a", Origin.MUSTER),), ("timer",), 3),
    ((), ("timer",), 3),
])
def test_an_unknown_that_the_occasion_allows_does_not_count_in_the_exit_code(
    results: tuple[Result, ...], profiles: tuple[str, ...], code: int,
) -> None:
    reports = [NodeReport("n", state_of(results), "", results)]
    assert exit_code(reports, partial(RULES.allows, profiles=profiles)) == code


def test_a_word_on_a_rule_outranks_that_on_its_origin(tmp_path: Path) -> None:
    ruleset = load(
        tmp_path,
        "profile: q\nunknown: {node: allow, rules: {host-swap: block, 'host-*': allow, kernel-xid: block}}\n")
    message = {name: ruleset.allows(unknown(name, Origin.NODE), ("q",))
               for name in ("host-swap", "host-memory", "kernel-xid", "gpu-count")}
    assert message == {"host-swap": False, "host-memory": True, "kernel-xid": False, "gpu-count": True}
    assert not ruleset.allows(unknown("gpu-count", Origin.MUSTER), ("q",))
    assert not ruleset.allows(FINE, ("q",))


def test_the_packaged_profiles_are_what_their_occasions_can_bear() -> None:
    taken = {name: {rule.id: rule for rule in RULES.under(name) if not rule.left_out}
             for name in ("bringup", "timer", "gate")}
    own = {"gpu-idle", "container-left-over", "optics-rx-power", "optics-tx-power", "optics-alarm",
           "port-ber"}
    assert set(taken["bringup"]) == own | {rule.id for rule in RULES.rules if not rule.disabled}
    # What a site has to fill with its own words would keep every machine out before it did.
    assert not set(taken["bringup"]) & {"host-bios", "host-cmdline", "docker-images", "module-expected",
                                        "service-expected"}
    assert set(taken["gate"]) < set(taken["bringup"])
    assert not any(rule.checked.fleet for rule in taken["gate"].values())
    assert {rule.severity for rule in taken["gate"].values()} == {Severity.CRITICAL}
    for name in ("timer", "gate"):
        assert all(rule.effect is Effect.PASSIVE for rule in taken[name].values() if name == "gate"
                   or not rule.disruptive)
        assert "docker.info" not in {probe.id for rule in taken[name].values() for probe in rule.probes}
        assert RULES.budget((name,)).cpu_seconds == 2
    assert "kernel.log" not in {probe.id for rule in taken["gate"].values() for probe in rule.probes}


def test_a_profile_that_is_not_defined_is_one_line_and_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="no such profile: 'unprivilegd'; did you mean 'unprivileged'"):
        RULES.under("unprivilegd")


@pytest.mark.parametrize(("change", "line", "words"), [
    (("docker-*", "zocker*"), 3, "no rule matches 'zocker*'; `muster rules list` names them"),
    (("docker-*", "docker-answer"), 3, "no rule matches 'docker-answer'; did you mean 'docker-answers'?"),
    (("[docker-*, host-swap]", "[3]"), 3, "no rule matches 3"),
    (("[docker-*, host-swap]", "[]"), 3, "leave_out: expected a list of globs"),
    (("[docker-*, host-swap]", "docker-*"), 3,
     "leave_out: expected a list of globs over the ids of rules, got 'docker-*'"),
    (("[docker-*, host-swap]", "['*']"), 3, "leaves no rule to judge"),
    (("leave_out: [docker-*, host-swap]\n", ""), 1,
     "is empty: expected at least one of only, leave_out, enable, budget, unknown"),
    (("only: [x]", "only: []"), 4, "only: expected a list of globs over the ids of rules, got a list"),
    (("leave_out", "enable"), 4, "only: no rule matches 'x'"),
    (("only: [x]", "budget: 3"), 4, "budget: expected a map of seconds, cpu_seconds; got 3"),
    (("only: [x]", "budget: {}"), 4, "budget: expected a map"),
    (("only: [x]", "budget: {second: 3}"), 4, "budget: unknown key 'second'; did you mean 'seconds'?"),
    (("only: [x]", "budget: {seconds: true}"), 4,
     "budget: seconds: expected seconds from 1 to 3600, got True"),
    (("only: [x]", "budget: {cpu_seconds: .nan}"), 4,
     "cpu_seconds: expected seconds from 1 to 3600, got nan"),
    (("only: [x]", "budget: {cpu_seconds: 0.5}"), 4, "cpu_seconds: expected seconds from 1 to 3600, got 0.5"),
    (("only: [x]", "unknown: allow"), 4, "unknown: expected a map of node, muster, rules; got 'allow'"),
    (("only: [x]", "unknown: {node: [a]}"), 4, "unknown: node: expected block or allow, got a list"),
    (("only: [x]", "unknown: {head: allow}"), 4, "unknown: unknown key 'head'"),
    (("only: [x]", "unknown: {rules: [a]}"), 4,
     "unknown: rules: expected a map from globs to block or allow"),
    (("only: [x]", "unknown: {rules: {x: allow}}"), 4, "unknown: rules: no rule matches 'x'"),
    (("only: [x]", "unknown: {rules: {gpu-count: maybe}}"), 4,
     "unknown: rules: gpu-count: expected block or allow, got 'maybe'"),
    (("title: a test", "titel: a test"), 2, "unknown key 'titel'; did you mean 'title'?"),
    (("title: a test", "title: [a]"), 2, "title: expected text, got a list"),
    (("profile: quiet\n", ""), 1, "profile: expected a name, got nothing")])
def test_a_mistake_in_a_profile_is_one_line_with_its_place(tmp_path: Path, change: tuple[str, str], line: int,
                                                           words: str) -> None:
    text = GOOD + "only: [x]\n" if line == 4 else GOOD
    assert change[0] in text
    with pytest.raises(RulesError) as error:
        load(tmp_path, text.replace(*change, 1))
    assert str(error.value).startswith(f"{tmp_path}/profile/site.yaml:{line}:"), error.value
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_site_overrides_a_profile_by_name_and_the_digest_tells(tmp_path: Path) -> None:
    site = load(tmp_path, "profile: unprivileged\nleave_out: [kernel-*]\n")
    profile = site.profiles["unprivileged"]
    assert profile.leave_out == ("kernel-*",) and profile.file == str(tmp_path / "profile/site.yaml")
    assert profile.title == RULES.profiles["unprivileged"].title
    assert site.digest != RULES.digest


def test_the_inventory_checks_names_of_profiles_where_they_are_known(tmp_path: Path) -> None:
    path = tmp_path / "muster.yaml"
    path.write_text(
        "version: 1\ndefaults: {profile: unprivilegd}\nnodes: {a: , b: {profile: unprivileged}}\n")
    assert [node.profile for node in load_inventory(path)] == ["unprivilegd", "unprivileged"]
    with pytest.raises(
        InventoryError,
        match=r"muster\.yaml:2:21: undefined profile 'unprivilegd'; did you mean unprivileged"):
        load_inventory(path, known_profiles=RULES.profiles)


def test_the_manifest_carries_each_nodes_profile_and_an_older_one_has_none() -> None:
    manifest = SweepManifest("a", "b", False, "x", (Node("a", profile="unprivileged"), Node("b")), None, (),
                             (), "d", {})
    document = json.loads(json.dumps(_manifest_to_json(replace(manifest, profiles=("timer",)))))
    assert _manifest_from_json(document).profiles == ("timer",)
    assert [node.profile for node in _manifest_from_json(document).nodes] == ["unprivileged", None]
    for node in document["inventory"]["nodes"]:
        del node["profile"]
    del document["profiles"]
    older = _manifest_from_json(document)
    assert [node.profile for node in older.nodes] == [None, None] and older.profiles == ()


def test_what_was_left_out_live_is_left_out_in_the_replay(tmp_path: Path) -> None:
    live = muster("check", "--local", "--sku", "cpu-only", "--profile", "unprivileged", "--format",
                  "json", "--full",
                  "--save", "saved", home=tmp_path)
    again = muster("check", "--replay", "saved", "--format", "json", "--full", home=tmp_path)
    assert live.stdout == again.stdout and live.returncode == again.returncode
    assert live.stdout.count("left out by profile unprivileged") == len(
        [rule for rule in RULES.under("unprivileged") if rule.left_out == "left out by profile unprivileged"])
    other = muster("check", "--replay", "saved", "--profile", "gate", "--format", "json", "--full",
                   home=tmp_path)
    assert "left out by profile unprivileged" not in other.stdout
    assert "left out by profile gate" in other.stdout
    refused = muster("check", "--local", "--profile", "quiet", home=tmp_path)
    assert refused.returncode == 2 and "no such profile: 'quiet'" in refused.stderr


@settings(deadline=None, max_examples=tries(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.one_of(
    st.text(max_size=100),
    st.lists(st.sampled_from([*GOOD.splitlines(), "leave_out: {a: b}", "only: [host-*]", "enable: [1]",
                              "budget: {seconds: 1e3}", "budget: {cpu_seconds: 0x10}",
                              "unknown: {node: allow, rules: {gpu-*: block}}", "unknown: {rules: {a: {}}}",
                              "leave_out: [[a]]", "- x", "profile: [a]",
                              "leave_out: ['[', '**']"])).map("\n".join)))
def test_any_text_is_a_profile_or_one_line_of_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "profile").mkdir(exist_ok=True)
    (tmp_path / "profile/site.yaml").write_bytes(text.encode())
    try:
        load_ruleset([packaged(), tmp_path])
    except MusterError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(("seconds", "taken"),
                         [("1", True), ("3600", True), ("0.99", False), ("3600.5", False), ("true", False)])
def test_a_budget_is_from_a_second_to_an_hour(tmp_path: Path, seconds: str, taken: bool) -> None:
    text = f"{GOOD}budget: {{cpu_seconds: {seconds}}}\n"
    if taken:
        assert load(tmp_path, text).budget(["quiet"]).cpu_seconds == float(seconds)
    else:
        with pytest.raises(RulesError, match=r"budget: cpu_seconds: expected seconds from 1 to 3600"):
            load(tmp_path, text)
