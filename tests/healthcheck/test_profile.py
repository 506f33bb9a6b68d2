"""Profiles: rules that a site leaves out for some nodes stay visible, cost no probe, and a replay knows of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from healthcheck import sweep
from healthcheck.assess import Assessment
from healthcheck.outcome import NodeReport, NodeState, Status
from healthcheck.ruleset import Ruleset, load_ruleset
from healthcheck.rulesfolder import packaged
from healthcheck.saved import Manifest, _manifest_from_json, _manifest_to_json
from inventory.errors import InventoryError, MusterError, RulesError, UsageError
from inventory.load import load_inventory
from inventory.model import Node
from tests.command import muster
from tests.healthcheck import machine

RULES = load_ruleset([packaged()])
GOOD = "profile: quiet\ntitle: a test\nleave_out: [docker-*, host-swap]\n"


def load(folder: Path, text: str) -> Ruleset:
    (folder / "profile").mkdir(exist_ok=True)
    (folder / "profile/site.yaml").write_text(text)
    return load_ruleset([packaged(), folder])


def reports(nodes: list[Node], ruleset: Ruleset = RULES) -> dict[str, NodeReport]:
    assessment = Assessment(nodes, ruleset, "hgx-h100")
    for node in nodes:
        assessment.add(machine.recording(node.name, kernel_log=machine.denied("/dev/kmsg"), docker_info=machine.docker_denied()))
    return {report.node: report for report in assessment.finish().reports}


def test_the_packaged_profile_leaves_out_what_needs_root_and_nothing_else() -> None:
    """Who adds a rule that needs root says here whether a site without root wants to be unknown for it."""
    left = {rule.id for rule in RULES.under("unprivileged") if rule.left_out}
    assert left == {rule.id for rule in RULES.rules if any(probe.root for probe in rule.probes)}


def test_a_node_that_nobody_may_look_at_as_root_is_healthy_under_the_profile_and_unknown_without() -> None:
    seen = reports([Node("plain"), Node("quiet", profile="unprivileged")])
    assert (seen["plain"].state, seen["quiet"].state) == (NodeState.UNKNOWN, NodeState.HEALTHY)
    left = {r.rule: r for r in seen["quiet"].results if r.reason == "left out by profile unprivileged"}
    assert set(left) == {"docker-answers", "kernel-hardware-error", "kernel-xid"}
    assert all(result.status is Status.SKIPPED for result in left.values())
    assert [r.rule for r in seen["quiet"].results] == [r.rule for r in seen["plain"].results]


def test_what_was_not_asked_for_is_not_counted_as_not_seen() -> None:
    seen = reports([Node("plain"), Node("quiet", profile="unprivileged")])
    plain, quiet = seen["plain"].probes, seen["quiet"].probes
    assert plain is not None and quiet is not None
    assert (plain.need_root, plain.denied) == (2, ("docker.info", "kernel.log"))
    assert (quiet.asked, quiet.need_root, quiet.denied) == (plain.asked - 2, 0, ())


def test_a_fleet_rule_compares_only_nodes_that_it_is_judged_for(tmp_path: Path) -> None:
    ruleset = load(tmp_path, "profile: quiet\nleave_out: [fleet-*]\n")
    nodes = [Node(f"n{n}") for n in range(3)] + [Node("odd", profile="quiet")]
    assessment = Assessment(nodes, ruleset, "hgx-h100")
    for node in nodes:
        version = "6.8.0\n" if node.name == "odd" else "6.5.0-1019\n"
        assessment.add(machine.recording(node.name, host_versions=machine.done(**{"/proc/sys/kernel/osrelease": version})))
    found = {report.node: {r.rule: r for r in report.results} for report in assessment.finish().reports}
    assert found["odd"]["fleet-kernel"].reason == "left out by profile quiet"
    assert found["n0"]["fleet-kernel"].status is Status.PASS


def test_probes_that_only_left_out_rules_need_are_not_sent_unless_another_node_needs_them() -> None:
    def ids(*profiles: str | None) -> set[str]:
        return {probe.id for probe in RULES.probe_set(45, profiles=profiles).probes}

    assert ids(None) - ids("unprivileged") == {"docker.info", "kernel.log"}
    assert ids(None, "unprivileged") == ids(None) == {probe.id for probe in RULES.probe_set(45).probes}


def test_a_rule_that_was_left_out_already_keeps_its_reason() -> None:
    skipped = {rule.id: rule.left_out for rule in RULES.select(skip=("kernel-xid",)).under("unprivileged")}
    assert skipped["kernel-xid"] == "left out by --skip"
    assert skipped["kernel-hardware-error"] == "left out by profile unprivileged"


def test_the_profile_of_the_command_line_is_for_nodes_that_name_none() -> None:
    nodes = sweep.profiled([Node("a"), Node("b", profile="own")], "unprivileged")
    assert [node.profile for node in nodes] == ["unprivileged", "own"]
    assert sweep.profiled(nodes, None) == nodes


def test_a_profile_that_is_not_defined_is_one_line_and_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="no such profile: 'unprivilegd'; did you mean 'unprivileged'"):
        RULES.under("unprivilegd")


@pytest.mark.parametrize(("change", "line", "words"), [
    (("docker-*", "doker-*"), 3, "no rule matches 'doker-*'; `muster explain` lists them"),
    (("docker-*", "docker-answer"), 3, "no rule matches 'docker-answer'; did you mean 'docker-answers'?"),
    (("[docker-*, host-swap]", "[3]"), 3, "no rule matches 3"),
    (("[docker-*, host-swap]", "[]"), 3, "leave_out: expected a list of globs"),
    (("[docker-*, host-swap]", "docker-*"), 3, "leave_out: expected a list of globs over the ids of rules, got 'docker-*'"),
    (("[docker-*, host-swap]", "['*']"), 3, "leaves no rule to judge"),
    (("leave_out: [docker-*, host-swap]\n", ""), 1, "leave_out: expected a list of globs over the ids of rules, got nothing"),
    (("title: a test", "titel: a test"), 2, "unknown key 'titel'; did you mean 'title'?"),
    (("title: a test", "title: [a]"), 2, "title: expected text, got a list"),
    (("profile: quiet\n", ""), 1, "profile: expected a name, got nothing"),
])
def test_a_mistake_in_a_profile_is_one_line_with_its_place(tmp_path: Path, change: tuple[str, str], line: int, words: str) -> None:
    assert change[0] in GOOD
    with pytest.raises(RulesError) as error:
        load(tmp_path, GOOD.replace(*change))
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
    path.write_text("version: 1\ndefaults: {profile: unprivilegd}\nnodes: {a: , b: {profile: unprivileged}}\n")
    assert [node.profile for node in load_inventory(path)] == ["unprivilegd", "unprivileged"]
    with pytest.raises(InventoryError, match=r"muster\.yaml:2:21: undefined profile 'unprivilegd'; did you mean unprivileged"):
        load_inventory(path, known_profiles=RULES.profiles)


def test_the_manifest_carries_each_nodes_profile_and_an_older_one_has_none() -> None:
    manifest = Manifest("a", "b", False, "x", (Node("a", profile="unprivileged"), Node("b")), None, (), (), "d", {})
    document = json.loads(json.dumps(_manifest_to_json(manifest)))
    assert [node.profile for node in _manifest_from_json(document).nodes] == ["unprivileged", None]
    for node in document["inventory"]["nodes"]:
        del node["profile"]
    assert [node.profile for node in _manifest_from_json(document).nodes] == [None, None]


def test_what_was_left_out_live_is_left_out_in_the_replay(tmp_path: Path) -> None:
    live = muster("check", "--local", "--sku", "cpu-only", "--profile", "unprivileged", "--format", "json", "--save", "saved", home=tmp_path)
    again = muster("check", "--replay", "saved", "--format", "json", home=tmp_path)
    assert live.stdout == again.stdout and live.returncode == again.returncode
    assert live.stdout.count("left out by profile unprivileged") == 3
    refused = muster("check", "--local", "--profile", "quiet", home=tmp_path)
    assert refused.returncode == 2 and "no such profile: 'quiet'" in refused.stderr


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.one_of(st.text(max_size=100), st.lists(st.sampled_from(
    [*GOOD.splitlines(), "leave_out: {a: b}", "leave_out: [[a]]", "- x", "profile: [a]", "leave_out: ['[', '**']"])).map("\n".join)))
def test_any_text_is_a_profile_or_one_line_of_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "profile").mkdir(exist_ok=True)
    (tmp_path / "profile/site.yaml").write_bytes(text.encode())
    try:
        load_ruleset([packaged(), tmp_path])
    except MusterError as error:
        assert "\n" not in str(error)
