"""The policy as it is read: files laid over each other, every mistake told with its place, and nothing
critical left without a fault."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from healthcheck.config.rulesfolder import packaged
from healthcheck.model.faultkind import FaultKind, Isolation, Of
from healthcheck.model.outcome import Owner, Repair, Severity
from healthcheck.report.policy import digest, resolved
from healthcheck.store import accused, fabricfindings, watched
from healthcheck.triage.policy import EXPLAINING, KINDS, Causes, IncidentKind, IncidentPolicy, TriagePolicy
from healthcheck.triage.policyload import DOMAINS, load_policy, load_with_origins
from healthcheck.triage.remediation import Remediation, RemediationStep, Use
from inventory.errors import RulesError
from inventory.located import load_yaml
from tests import packagedrules
from tests.tries import tries

RULESET = packagedrules.RULES
PLAIN = load_policy([packaged()], RULESET)
PACKAGED = json.dumps(load_yaml(packaged() / "policy.yaml"))
RULES = {rule.id: rule for rule in RULESET.rules}


def loaded(folder: Path, text: str) -> TriagePolicy:
    """The packaged policy with this one over it."""
    (folder / "policy.yaml").write_text(text)
    return load_policy([packaged(), folder], RULESET)


def refused(folder: Path, text: str) -> str:
    with pytest.raises(RulesError) as caught:
        loaded(folder, text)
    said = str(caught.value)
    assert "\n" not in said
    return said.replace(f"{folder}/", "")


def test_every_glob_of_the_packaged_policy_matches_a_packaged_rule() -> None:
    for kind in PLAIN.kinds:
        for glob in kind.rules:
            assert any(fnmatchcase(rule, glob) for rule in (*RULES, *accused.RULES, *watched.RULES,
                                                            *fabricfindings.RULES)), (kind.id, glob)


def test_wrong_arithmetic_is_one_fault_whoever_finds_it_and_a_warning_of_it_isolates_no_one() -> None:
    found = {rule: PLAIN.kind(Of.FAIL, rule, Severity.CRITICAL)
             for rule in (*accused.RULES, "dcgm-diag-long")}
    assert {rule: kind.id for rule, kind in found.items()
            if kind is not None} == {"dcgm-diag-long": "wrong-arithmetic",
                                     accused.WRONG_DATA: "wrong-arithmetic", accused.SLOW: "failed-burn-in",
                                     accused.LINK: "failed-burn-in", accused.DEAD: "failed-burn-in",
                                     accused.ERRORS: "failed-burn-in", accused.SHARED: "critical"}
    for rule in accused.RULES:
        kind = PLAIN.kind(Of.FAIL, rule, Severity.WARNING)
        assert kind is not None and (kind.id, kind.isolation) == ("warning", Isolation.NONE)


def test_a_site_names_what_burn_ins_find_as_it_names_rules(tmp_path: Path) -> None:
    policy = loaded(tmp_path, "faults:\n- {id: slow-gpu, why: x, rules: [burnin-slow], isolation: none}\n")
    kind = policy.kind(Of.FAIL, accused.SLOW, Severity.CRITICAL)
    assert kind is not None and kind.id == "slow-gpu"
    assert "no rule matches 'burnin-slo'; did you mean 'burnin-slow'?" in refused(
        tmp_path, "faults:\n- {id: slow-gpu, why: x, rules: [burnin-slo], isolation: none}\n")


def test_every_packaged_fault_has_a_rule_of_its_own() -> None:
    has = resolved(PLAIN, RULESET.rules)
    assert [kind.id for kind in PLAIN.kinds if not has[kind.id] and kind.of is not Of.UNREACHED] == []


def test_every_packaged_rule_that_is_not_mere_information_is_of_a_fault() -> None:
    for rule in RULESET.rules:
        of_none = (PLAIN.kind(Of.FAIL, rule.id, rule.severity) is None
                   or PLAIN.kind(Of.UNKNOWN, rule.id, rule.severity) is None)
        assert of_none == (rule.severity is Severity.INFO), rule.id


def test_a_fault_of_the_site_goes_before_all_others_in_its_own_order(tmp_path: Path) -> None:
    policy = loaded(tmp_path, """
faults:
- {id: ours-first, why: x, rules: [gpu-count], isolation: evict, repair: replace, owner: vendor, reserve: true, lasting: true}
- {id: storage, confirm: 5}
- {id: ours-next, why: x, rules: ["gpu-*"], severities: [warning], confirm: 3}
""")  # noqa: E501
    assert [kind.id for kind in policy.kinds] == ["ours-first", "ours-next",
                                                  *(kind.id for kind in PLAIN.kinds)]
    first, after = policy.kinds[:2]
    assert (first.isolation, first.repair, first.owner, first.reserve, first.lasting) == (
        Isolation.EVICT, Repair.REPLACE, Owner.VENDOR, True, True)
    assert (after.severities, after.confirm, after.isolation) == (
        frozenset({Severity.WARNING}), 3, Isolation.NONE)
    assert after.repair is None, "of a fault of which the site says no more: what each rule's remedy asks for"
    assert policy.kind(Of.FAIL, "gpu-count", Severity.CRITICAL) is first


def test_a_fault_in_both_files_changes_the_keys_that_the_site_gives_and_stays_where_it_is(
    tmp_path: Path,
) -> None:
    policy = loaded(tmp_path, "faults:\n- {id: storage, confirm: 5, isolation: evict}\n")
    at = [kind.id for kind in PLAIN.kinds].index("storage")
    old, new = PLAIN.kinds[at], policy.kinds[at]
    assert (old.id, new.id, new.confirm, new.isolation,
            new.file) == ("storage", "storage", 5, Isolation.EVICT, str(tmp_path / "policy.yaml"))
    assert (new.why, new.rules, new.severities, new.repair) == (old.why, old.rules, old.severities,
                                                                old.repair)
    assert policy.kinds[:at] + policy.kinds[at + 1:] == PLAIN.kinds[:at] + PLAIN.kinds[at + 1:]


def test_a_fault_is_taken_out_and_a_later_folder_puts_it_back(tmp_path: Path) -> None:
    for name, word in (("one", "false"), ("two", "true")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.yaml").write_text(f"faults:\n- {{id: storage, enabled: {word}}}\n")
    found = load_with_origins([packaged(), tmp_path / "one"], RULESET)
    assert ("storage" not in [kind.id for kind in found.policy.kinds]
            and str(found.out["storage"]).endswith("one/policy.yaml:2:26"))
    kind = found.policy.kind(Of.FAIL, "raid-state", Severity.CRITICAL)
    assert kind is not None and kind.id == "critical"
    again = load_policy([packaged(), tmp_path / "one", tmp_path / "two"], RULESET)
    assert [kind.id for kind in again.kinds] == [kind.id for kind in PLAIN.kinds]


def test_numbers_are_laid_over_key_by_key_and_say_where_they_are_from(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(
        "breaker: {percent: 10, domains: {rack: 2, power: null}}\nwedged: {sweeps: 7}\nfresh: {hours: 2}\n"
        "requalify: {profile: gate}\n")
    found = load_with_origins([packaged(), tmp_path], RULESET)
    breaker = found.policy.breaker
    assert (breaker.percent, breaker.number, dict(breaker.domains)) == (
        10, PLAIN.breaker.number, {"rack": 2, "leaf": 4, "nvlink_domain": 4})
    assert (found.policy.wedged, found.policy.fresh_hours, found.policy.requalify.profile,
            found.policy.requalify.sweeps) == (7, 2, "gate", 2)
    assert (found.policy.ours, found.policy.climb, found.policy.repeat, found.policy.flap) == (
        PLAIN.ours, PLAIN.climb, PLAIN.repeat, PLAIN.flap)
    mine, theirs = str(tmp_path / "policy.yaml"), str(packaged() / "policy.yaml")
    assert {name: found.origins[name].file
            for name in ("breaker.percent", "breaker.number", "breaker.domains.rack",
                         "breaker.domains.leaf")} == {"breaker.percent": mine, "breaker.number": theirs,
                                                      "breaker.domains.rack": mine,
                                                      "breaker.domains.leaf": theirs}
    assert found.policy.files == (theirs, mine)


def test_every_packaged_rule_and_all_that_burn_ins_find_is_decided_for_every_kind_of_place() -> None:
    for rule in (*RULES, *accused.RULES):
        for of in (Of.FAIL, Of.UNKNOWN):
            assert (PLAIN.incidents.cause(of,
                                          rule) is not None), (
                                              f"{rule}: say in `places` of policy.yaml which "
                                              f"places can cause that it {of.value}s")
    for rule in accused.RULES:
        assert PLAIN.incidents.may_cause(Of.FAIL, rule) == {"driver", "kernel", "firmware", "batch",
                                                            "moment"}, rule
    assert PLAIN.incidents.cause(Of.UNREACHED, "") is not None
    for new in ("gpu-frobnicates", "kernel-frobnicates", "host-frobnicates", "fleet-frobnicates",
                "bmc-frobnicates", "frobnicates"):
        assert (PLAIN.incidents.cause(Of.FAIL,
                                      new) is None), (f"a new rule {new} would be taken for "
                                                      f"{PLAIN.incidents.cause(Of.FAIL, new)}")


def test_every_glob_of_the_packaged_places_decides_on_some_rule() -> None:
    for one in PLAIN.incidents.causes:
        for glob in one.rules:
            decided = [rule for rule in (*RULES, *accused.RULES) if fnmatchcase(rule, glob)
                       and PLAIN.incidents.cause(one.of, rule) is one]
            assert decided, (one.id, glob)


@pytest.mark.parametrize("rule", ["host-memory", "memory-ecc-uncorrected", "cpu-count", "gpu-ecc-uncorrected",
                                  "dcgm-diag-long", "gpu-row-remap-failed", "gpu-pages-retired",
                                  "kernel-hardware-error", "raid-degraded", "docker-answers", "driver-loads"])
def test_memory_arithmetic_drives_and_software_are_of_no_place(rule: str) -> None:
    assert (PLAIN.incidents.may_cause(Of.FAIL, rule) <= set(EXPLAINING)
            and "moment" in PLAIN.incidents.may_cause(Of.FAIL, rule))


@pytest.mark.parametrize(("of", "rule", "kinds", "others"), [
    (Of.FAIL, "port-state", {"leaf", "rail", "rack"}, {"nvlink_domain"}),
    (Of.FAIL, "nvlink-active", {"nvlink_domain", "driver"}, {"leaf", "rail"}),
    (Of.FAIL, "gpu-count", {"rack", "power"}, {"leaf", "rail"}),
    (Of.FAIL, "gpu-power-brake", {"power", "rack"}, {"leaf"}),
    (Of.UNREACHED, "", {"leaf", "rack", "power"}, {"rail"}),
    (Of.UNKNOWN, "gpu-count", {"driver"}, {"leaf", "rack", "power"}),
    (Of.FAIL, "acme-own-rule", {"driver", "batch", "moment"},
     {"leaf", "rail", "rack", "power", "nvlink_domain"})])
def test_a_place_is_asked_for_what_it_can_cause(of: Of, rule: str, kinds: set[str], others: set[str]) -> None:
    found = PLAIN.incidents.may_cause(of, rule)
    assert kinds <= found and not others & found


def test_nodes_are_isolated_in_the_name_of_a_place_that_the_policy_says_so_of_and_never_of_what_only_explains(
) -> None:
    kinds = {"rack": IncidentKind(Owner.OPERATOR, True), "leaf": IncidentKind(Owner.NETWORK, False),
             "driver": IncidentKind(Owner.VENDOR, True)}
    assert [kind for kind in (*KINDS, "room") if IncidentPolicy(kinds=kinds).isolates(kind)] == ["rack"]


def test_places_are_laid_over_by_id_and_new_ones_go_first(tmp_path: Path) -> None:
    policy = loaded(tmp_path, """
places:
- {id: ours, why: the chiller, rules: [host-memory], kinds: [rack]}
- {id: network, kinds: [leaf]}
- {id: nvlink, enabled: false}
""")
    assert (policy.incidents.causes[0].id == "ours" and policy.incidents.may_cause(Of.FAIL, "host-memory")
            == {"rack"})
    assert policy.incidents.may_cause(Of.FAIL, "port-state") == {"leaf"}
    assert policy.incidents.may_cause(Of.FAIL, "nvlink-active") == set(EXPLAINING)


def test_change_windows_are_read_and_spare_the_worst_unless_they_say_otherwise(tmp_path: Path) -> None:
    policy = loaded(tmp_path, """
windows:
- {from: 2026-11-28T22:00Z, until: 2026-11-29T06:00+01:00, why: new core switches}
- {from: Sat 22:00 Europe/Berlin, until: Sun 06:00 Europe/Berlin, why: weekly, but: [storage]}
""")
    first, second = policy.windows
    assert (first.begins, first.ends, first.but) == (1795903200.0, 1795928400.0,
                                                     {kind.id for kind in policy.kinds if kind.reserve})
    assert (second.but == {"storage"} and str(second.begins) == "Sat 22:00 Europe/Berlin"
            and PLAIN.windows == ())


def test_a_policy_that_says_nothing_of_places_windows_and_batches_is_as_it_was(tmp_path: Path) -> None:
    held = json.loads(PACKAGED)
    del held["places"], held["windows"], held["incidents"]["batch"]
    (tmp_path / "policy.yaml").write_text(json.dumps(held))
    policy = load_policy([tmp_path], RULESET)
    assert (policy.windows == () and "batch" not in policy.incidents.kinds
            and "leaf" in policy.incidents.may_cause(Of.FAIL, "port-state"))


def test_a_fault_that_says_no_more_than_it_must_isolates_at_once_and_has_no_privilege(tmp_path: Path) -> None:
    first = loaded(tmp_path, "faults:\n- {id: x, why: y, rules: [gpu-count], isolation: evict}\n").kinds[0]
    assert first == FaultKind("x", "y", ("gpu-count",), isolation=Isolation.EVICT,
                              file=str(tmp_path / "policy.yaml"))
    assert (first.confirm, first.reserve, first.lasting, first.decides, first.owner) == (
        1, False, False, False, None)


def test_a_policy_that_says_nothing_of_remediation_or_names_one_step_is_one(tmp_path: Path) -> None:
    held = json.loads(PACKAGED)
    for said, expected in ((None, Remediation()),
                           ({"days": 3, "reboot": held["remediation"]["reboot"]},
                            Remediation(days=3, uses={RemediationStep.REBOOT: Use(enabled=False)}))):
        (tmp_path / "policy.yaml").write_text(json.dumps({**held, "remediation": said} if said else {
            key: value for key, value in held.items() if key != "remediation"}))
        assert load_policy([tmp_path], RULESET).remediation == expected


def test_a_place_that_is_not_reached_causes_names_no_rules(tmp_path: Path) -> None:
    policy = loaded(tmp_path, "places:\n- {id: ours, why: the feed, of: unreached, kinds: [power]}\n")
    assert policy.incidents.causes[0] == Causes("ours", "the feed", frozenset({"power"}), of=Of.UNREACHED)
    assert policy.incidents.may_cause(Of.UNREACHED, "") == {"power"}


def test_a_policy_may_be_a_file_of_any_name(tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text("wedged: {sweeps: 7}\n")
    assert load_policy([packaged(), tmp_path / "ours.yaml"], RULESET).wedged == 7


def test_what_covers_no_critical_problem_needs_no_word_on_isolation(tmp_path: Path) -> None:
    held = loaded(tmp_path, "faults:\n- {id: x, why: x, rules: [gpu-count], severities: [info]}\n")
    (kind,) = (kind for kind in held.kinds if kind.id == "x")
    assert kind.isolation is Isolation.NONE


def test_what_went_wrong_in_an_earlier_file_is_told_of_its_last_key(tmp_path: Path) -> None:
    for name, text in (("a", "isolation: none, repair: reboot"), ("b", "confirm: 2")):
        (tmp_path / f"{name}.yaml").write_text(f"faults:\n- {{id: gpu-error, {text}}}\n")
    with pytest.raises(RulesError, match=r"a\.yaml:2:44: fault gpu-error: repair: reboot is for nodes"):
        load_policy([packaged(), tmp_path / "a.yaml", tmp_path / "b.yaml"], RULESET)


MISTAKES = [
    ("places:\n- {id: a b, why: x, rules: [gpu-count], kinds: [leaf]}\n", "policy.yaml:2:8: id: expected"),
    ("places: {}\n", "policy.yaml:1:9: places: expected a list of what places can cause, got a map"),
    ("places:\n- {id: x, why: x, kinds: [rack]}\n",
     "policy.yaml:2:3: place x: rules is missing: expected a list of globs"),
    ("places:\n- {id: x, why: x, rules: [gpu-count]}\n",
     "place x: kinds is missing: expected a list of kinds of place"),
    ("places:\n- {id: x, why: x, rules: [gpu-count], kinds: [leafs]}\n",
     "policy.yaml:2:47: place x: kinds: expected one of nvlink_domain, rack, leaf, rail, power, driver, "
     "kernel, firmware, batch, moment, got 'leafs'; did you mean 'leaf'?"),
    ("places:\n- {id: x, why: x, rules: [gpu-cuont], kinds: [leaf]}\n",
     "policy.yaml:2:27: place x: rules: no rule matches 'gpu-cuont'; did you mean 'gpu-count'?; `muster "
     "rules list` names them"),
    ("places:\n- {id: x, why: x, rules: [gpu-count], kinds: [leaf], of: unreached}\n",
     "place x: rules does not go with of: unreached"),
    ("places:\n- {id: network, kind: [leaf]}\n", "unknown key 'kind'; did you mean 'kinds'?"),
    ("incidents: {driver: {isolates: true}}\n",
     "policy.yaml:1:32: incidents: driver: isolates: expected false: a version, a delivery batch and a "
     "moment explain, and isolate no node, got True"),
    ("windows: {}\n", "policy.yaml:1:10: windows: expected a list of change windows, got a map"),
    ("windows:\n- 3\n", "policy.yaml:2:3: window: expected a map of from, until, why, but; got 3"),
    ("windows:\n- {from: 2026-11-28T22:00Z, why: x}\n",
     "policy.yaml:2:3: window: until is missing: expected a time such as 2026-11-28T22:00Z"),
    ("windows:\n- {from: 2026-11-28T22:00, until: 2026-11-28T23:00Z, why: x}\n",
     "policy.yaml:2:10: window: from: expected a time such as"),
    ("windows:\n- {from: 2026-11-28T22:00Z, until: 2026-11-28T21:00Z, why: x}\n",
     "policy.yaml:2:36: window: until: expected a time after from"),
    ("windows:\n- {from: Sat 22:00 UTC, until: Sun 06:00 Europe/Berlin, why: x}\n",
     "window: until: expected the timezone of from, UTC"),
    ("windows:\n- {from: Sat 22:00 UTC, until: 2026-11-28T21:00Z, why: x}\n",
     "window: until: expected a time of the same form as from"),
    ("windows:\n- {from: Sat 22:00 UTC, until: Sun 22:00 UTC, why: x, but: [storag]}\n",
     "window: but: no such fault: 'storag'; did you mean 'storage'?"),
    ("windows:\n- {from: Sat 22:00 UTC, until: Sun 22:00 UTC, why: x, till: y}\n",
     "window: unknown key 'till'"),
    ("fauls: []\n", "policy.yaml:1:1: unknown key 'fauls'; did you mean 'faults'?"),
    ("- 1\n", "policy.yaml:1:1: expected a map of faults, wedged,"),
    ("faults: {}\n", "policy.yaml:1:9: faults: expected a list of faults, got a map"),
    ("faults:\n- 3\n", "policy.yaml:2:3: expected a map with id, got 3"),
    ("faults:\n- {why: x}\n", "id: expected a name, got nothing"),
    ("faults:\n- {id: 'a b', why: x}\n",
     "policy.yaml:2:8: id: expected a name of lower-case letters, digits and -, at most 60, got 'a b'"),
    ("faults:\n- {id: storage, confrm: 2}\n",
     "policy.yaml:2:17: unknown key 'confrm'; did you mean 'confirm'?"),
    ("faults:\n- {id: storage, confirm: 2}\n- {id: storage, reserve: true}\n",
     "policy.yaml:3:3: id storage is defined twice; the first is at line 2"),
    ("faults:\n- {id: storage, confirm: 0}\n",
     "policy.yaml:2:26: fault storage: confirm: expected a whole number from 1 to 1000, got 0"),
    ("faults:\n- {id: storage, confirm: true}\n",
     "fault storage: confirm: expected a whole number from 1 to 1000, got True"),
    ("faults:\n- {id: storage, isolation: dain}\n",
     "isolation: expected one of none, no-new-jobs, evict, got 'dain'"),
    ("faults:\n- {id: storage, repair: reset_gpu}\n", "got 'reset_gpu'; did you mean 'reset-gpu'?"),
    ("faults:\n- {id: storage, severities: critical}\n",
     "severities: expected a list of severities, 1 to 200, got 'critical'"),
    ("faults:\n- {id: storage, severities: [warning, critcal]}\n",
     "policy.yaml:2:39: fault storage: severities: expected one of info, warning, critical, got 'critcal'; "
     "did you mean 'critical'?"),
    ("faults:\n- {id: storage, owner: me}\n",
     "owner: expected one of user, operator, network, datacentre, vendor, got 'me'"),
    ("faults:\n- {id: storage, reserve: 1}\n", "reserve: expected true or false, got 1"),
    ("faults:\n- {id: storage, why: ' '}\n", "why: expected text of at most 400 characters, got ' '"),
    ("faults:\n- {id: storage, of: failed}\n",
     "of: expected one of fail, unknown, unreached, got 'failed'; did you mean 'fail'?"),
    ("faults:\n- {id: storage, rules: [disk-*, filesytem-space]}\n",
     "policy.yaml:2:33: fault storage: rules: no rule matches 'filesytem-space'; did you mean "
     "'filesystem-space'?; `muster rules list` names them"),
    ("faults:\n- {id: storage, rules: [7]}\n",
     "policy.yaml:2:25: fault storage: rules: expected a glob over the ids of rules, such as gpu-*, got 7"),
    ("faults:\n- {id: stroage, confirm: 3}\n",
     "policy.yaml:2:3: fault stroage: why is missing: expected text of at most 400 characters; did you mean "
     "'storage'?"),
    ("faults:\n- {id: x, why: x, isolation: none}\n",
     "fault x: rules is missing: expected a list of globs over the ids of rules"),
    ("faults:\n- {id: x, why: x, rules: [gpu-count]}\n",
     "policy.yaml:2:3: fault x: isolation is missing: spell out none if the critical problems that it covers "
     "are to keep no job away"),
    ("faults:\n- {id: unreachable, isolation: none}\n",
     "policy.yaml:2:32: fault unreachable: isolation: inspect is for nodes that are kept from jobs: expected "
     "isolation no-new-jobs or evict, or repair watch"),
    ("faults:\n- {id: unreachable, rules: ['*']}\n",
     "policy.yaml:2:28: fault unreachable: rules does not go with of: unreached: no rule is judged then"),
    ("faults:\n- {id: probe-wedged, confirm: 2}\n",
     "policy.yaml:2:31: fault probe-wedged: confirm does not go with of: unknown: wedged: sweeps counts "
     "then"),
    ("faults:\n- {id: critical, enabled: false}\n",
     "policy.yaml:2:27: fault critical: enabled: would leave critical failures without a verdict: expected a "
     "fault with of: fail, rules: ['*']"),
    ("faults:\n- {id: critical, severities: [warning]}\n",
     "policy.yaml:2:30: fault critical: severities: would leave critical failures"),
    ("faults:\n- {id: critical, rules: [gpu-*]}\n",
     "policy.yaml:2:25: fault critical: rules: would leave critical failures"),
    ("faults:\n- {id: critical, of: unknown, enabled: true}\n",
     "policy.yaml:2:22: fault critical: confirm does not go with of: unknown"),
    ("faults:\n- {id: unreachable, enabled: false}\n",
     "fault unreachable: enabled: would leave nodes that cannot be reached without a verdict: "
     "expected a fault with of: unreached and severities with critical"),
    ("faults:\n- {id: unreachable, severities: [warning]}\n",
     "fault unreachable: severities: would leave nodes that cannot be reached"),
    ("faults:\n- {id: probe-wedged, enabled: false}\n",
     "would leave critical rules that a node does not answer without a verdict"),
    ("wedged: 3\n", "policy.yaml:1:9: wedged: expected a map of sweeps; got 3"),
    ("wedged: {sweep: 3}\n", "policy.yaml:1:10: wedged: unknown key 'sweep'; did you mean 'sweeps'?"),
    ("wedged: {sweeps: 0}\n", "policy.yaml:1:18: wedged: sweeps: expected a whole number from 1 to 1000, "
                              "got 0"),
    ("fresh: {hours: 0}\n", "fresh: hours: expected a number from 0.01 to 8784, got 0"),
    ("ours: {percent: 101}\n", "ours: percent: expected a number from 0 to 100, got 101"),
    ("ours: {nodes: 1}\n", "ours: nodes: expected a whole number from 2 to 100000, got 1"),
    ("climb: {failures: 1.5}\n", "climb: failures: expected a whole number from 1 to 1000, got 1.5"),
    ("repeat: {half_life_days: 0}\n", "repeat: half_life_days: expected a number from 0.01 to 3660, got 0"),
    ("repeat: {score: .nan}\n", "repeat: score: expected a number from 1 to 1000, got nan"),
    ("flap: {hours: .inf}\n", "flap: hours: expected a number from 0.01 to 8784, got inf"),
    ("flap: {calm_hours: true}\n", "flap: calm_hours: expected a number from 0.01 to 8784, got True"),
    ("requalify: {profile: bringupp}\n",
     "policy.yaml:1:22: requalify: profile: no such profile: 'bringupp'; did you mean 'bringup'?"),
    ("breaker: {percent: -1}\n", "breaker: percent: expected a number from 0 to 100, got -1"),
    ("breaker: {number: 0}\n", "breaker: number: expected a whole number from 1 to 100000, got 0"),
    ("breaker: {close_hours: 0}\n",
     "breaker: close_hours: expected a number from 0.01 to 8784, or null, got 0"),
    ("breaker: {domains: {leave: 3}}\n",
     "policy.yaml:1:21: breaker: domains: unknown key 'leave'; did you mean 'leaf'?"),
    ("breaker: {domains: {rack: 0}}\n",
     "policy.yaml:1:27: breaker: domains: rack: expected a whole number from 1 to 100000, or null, got 0"),
    ("breaker: {domains: [rack]}\n",
     "breaker: domains: expected a map of rack, leaf, power, nvlink_domain; got a list"),
    ("incidents: {at_least: 1}\n",
     "policy.yaml:1:23: incidents: at_least: expected a whole number from 2 to 100000, got 1"),
    ("incidents: {share: 101}\n", "incidents: share: expected a number from 0 to 100, got 101"),
    ("incidents: {likelyhood: 5}\n",
     "policy.yaml:1:13: incidents: unknown key 'likelyhood'; did you mean 'likelihood'?"),
    ("incidents: {leaf: {owner: me}}\n", "policy.yaml:1:27: incidents: leaf: owner: expected one of user, "
                                         "operator, network, datacentre, vendor, got 'me'"),
    ("incidents: {leaf: {isolates: 1}}\n",
     "policy.yaml:1:30: incidents: leaf: isolates: expected true or false, got 1"),
    ("incidents: {leaf: network}\n",
     "policy.yaml:1:19: incidents: leaf: expected a map of owner, isolates; got 'network'"),
    ("remediation: {reboot: {faults: [gpu-lost, storag]}}\n",
     "policy.yaml:1:32: remediation: reboot: faults: no such fault: 'storag'; did you mean 'storage'?"),
    ("remediation: {reboot: {fault: [gpu-lost]}}\n",
     "remediation: reboot: unknown key 'fault'; did you mean 'faults'?"),
    ("wedged: {sweeps: !!python/object/apply:os.system [echo]}\n", "unknown tag"),
]


@pytest.mark.parametrize(("text", "words"), MISTAKES)
def test_a_mistake_is_one_line_with_its_place_and_what_was_expected(
    tmp_path: Path, text: str, words: str,
) -> None:
    said = refused(tmp_path, text)
    assert words in said and said.startswith("policy.yaml:"), said


def test_critical_failures_may_be_left_alone_where_the_policy_spells_that_out(tmp_path: Path) -> None:
    policy = loaded(tmp_path, "faults:\n- {id: critical, isolation: none, repair: watch}\n- {id: known, why: "
                              "x, rules: ['*'], isolation: none}\n"
                              "- {id: storage, enabled: false}\n")
    kind = policy.kind(Of.FAIL, "raid-state", Severity.CRITICAL)
    assert kind is not None and (kind.id, kind.isolation) == ("known", Isolation.NONE)


def test_another_fault_may_stand_in_for_the_one_that_is_taken_out(tmp_path: Path) -> None:
    text = ("faults:\n- {id: critical, enabled: false}\n- {id: all, why: x, rules: [gpu-count, '**'], "
            "isolation: evict, repair: reboot}\n")
    assert loaded(tmp_path, text).kinds[0].id == "all"
    assert "would leave critical failures" in refused(tmp_path, text.replace("'**'", "'[a-z]*'"))


def test_a_site_alone_must_say_everything_and_a_folder_without_a_policy_says_nothing(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match=r"no rules folder holds a policy\.yaml: looked in "):
        load_policy([tmp_path], RULESET)
    assert load_policy([packaged(), tmp_path], RULESET) == PLAIN
    (tmp_path / "policy.yaml").write_text("wedged: {sweeps: 3}\n")
    with pytest.raises(RulesError,
                       match=r"policy\.yaml:1:1: faults: would leave critical failures without a verdict"):
        load_policy([tmp_path], RULESET)
    own = (packaged() / "policy.yaml").read_text()
    (tmp_path / "policy.yaml").write_text(own.replace("wedged: {sweeps: 3}", "wedged: {}"))
    with pytest.raises(RulesError, match=r"policy\.yaml:1:1: wedged: sweeps is missing: expected a whole "
                                         r"number from 1 to 1000"):
        load_policy([tmp_path], RULESET)


def test_the_digest_tells_policies_that_decide_otherwise_and_no_others(tmp_path: Path) -> None:
    same = [loaded(tmp_path, f"wedged: {{sweeps: {PLAIN.wedged}}}\n"),
            loaded(tmp_path, "# nothing\nfaults: []\n"),
            loaded(tmp_path, f"breaker: {{percent: {PLAIN.breaker.percent:.3f}}}\n")]
    assert {digest(policy) for policy in same} == {digest(PLAIN)}
    other = [f"wedged: {{sweeps: {PLAIN.wedged + 1}}}\n", "faults:\n- {id: storage, confirm: 3}\n",
             "faults:\n- {id: storage, enabled: false}\n", "breaker: {domains: {rack: null}}\n",
             "faults:\n- {id: x, why: x, rules: [gpu-count], isolation: none}\n"]
    assert len({digest(policy) for policy in [PLAIN, *(loaded(tmp_path, text) for text in other)]}) == 6


WORDS = ["faults", "wedged", "breaker", "domains", "rack", "id", "why", "rules", "of", "severities",
         "isolation", "repair", "enabled", "sweeps", "critical", "unreachable", "probe-wedged", "fail",
         "unknown", "unreached", "warning", "none", "evict", "watch", "reboot", "*", "gpu-*", "gpu-count",
         "[", "[]*", "***", "percent", "hours"]
SCALARS = st.none() | st.booleans() | st.integers(-3, 200) | st.floats() | st.sampled_from(WORDS) | st.text(
    "ab*-[]! \u202e", max_size=4)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
    st.sampled_from(WORDS), inner, max_size=3), max_leaves=6)
# What a site might well write, right or nearly so.
FAULTS = st.fixed_dictionaries({"id": st.sampled_from(
    ["critical", "unreachable", "probe-wedged", "warning", "storage", "x", "y"])}, optional={
        "why": st.just("x"), "of": st.sampled_from(["fail", "unknown", "unreached"]),
        "rules": st.lists(st.sampled_from(["*", "**", "gpu-*", "?*", "[a-z]*", "disk-*"]), min_size=1,
                          max_size=3),
        "severities": st.lists(st.sampled_from(["critical", "warning", "info"]), min_size=1, max_size=3),
        "isolation": st.sampled_from(["none", "no-new-jobs", "evict"]),
        "repair": st.sampled_from([repair.value for repair in Repair]),
        "enabled": st.booleans(), "confirm": st.integers(1, 3),
    })


def shared(factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples."""
    folder = factory.getbasetemp() / "any-policy"
    folder.mkdir(exist_ok=True)
    return folder


def never_without_a_verdict(policy: TriagePolicy, rule: str) -> None:
    assert policy.kind(Of.FAIL, rule, Severity.CRITICAL) is not None
    assert policy.kind(Of.UNKNOWN, rule, Severity.CRITICAL) is not None
    assert policy.kind(Of.UNREACHED, "", Severity.CRITICAL) is not None
    for kind in policy.kinds:
        assert kind.repair in (None, Repair.WATCH) or kind.isolation is not Isolation.NONE
    assert (0 <= policy.breaker.percent <= 100 and set(policy.breaker.domains) <= set(DOMAINS)
            and policy.ours.nodes > 1)


@settings(max_examples=tries(300), deadline=None)
@given(faults=st.lists(FAULTS, max_size=4), rule=st.text(max_size=12) | st.sampled_from(sorted(RULES)))
def test_whatever_a_site_writes_what_is_critical_is_of_some_fault(
    faults: list[dict[str, Any]], rule: str, tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = shared(tmp_path_factory)
    try:
        policy = loaded(folder, json.dumps({"faults": faults}))
    except RulesError as error:
        assert "\n" not in str(error) and f"{folder}/policy.yaml:" in str(error)
    else:
        never_without_a_verdict(policy, rule)


@settings(max_examples=tries(60), deadline=None)
@given(data=st.data())
def test_the_packaged_policy_with_anything_in_any_place_is_a_policy_or_one_line(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory,
) -> None:
    document = json.loads(PACKAGED)
    for _ in range(data.draw(st.integers(1, 3))):
        here = document
        while True:
            key = data.draw(st.sampled_from(sorted(here) if isinstance(here, dict) else range(len(here))))
            if not here[key] or not isinstance(here[key], (dict, list)) or data.draw(st.booleans()):
                break
            here = here[key]
        if data.draw(st.booleans()):
            here[key] = data.draw(VALUES)
        elif len(here) > 1:
            del here[key]
    folder = shared(tmp_path_factory)
    (folder / "policy.yaml").write_text(json.dumps(document))
    folders = [folder] if data.draw(st.booleans()) else [packaged(), folder]
    try:
        policy = load_policy(folders, RULESET)
    except RulesError as error:
        assert "\n" not in str(error) and "\u202e" not in str(error)
    else:
        never_without_a_verdict(policy, "some-rule")


@settings(max_examples=tries(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cut=st.integers(0, 6000), gone=st.integers(0, 40),
       put=st.binary(max_size=12) | st.sampled_from([b"!!python/name:os.system ", b"&a *a", b"\t"]))
def test_a_file_with_anything_cut_out_or_put_in_is_a_policy_or_one_line(
    cut: int, gone: int, put: bytes, tmp_path_factory: pytest.TempPathFactory,
) -> None:
    text = (packaged() / "policy.yaml").read_bytes()
    folder = shared(tmp_path_factory)
    (folder / "policy.yaml").write_bytes(text[:cut] + put + text[cut + gone:])
    try:
        never_without_a_verdict(load_policy([folder], RULESET), "gpu-count")
    except RulesError as error:
        assert "\n" not in str(error)
