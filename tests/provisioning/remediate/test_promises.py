"""What rules, kernel entries, Xids and burn-ins promise in words is what is made of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from healthcheck.checks.gpu import _RECOVERIES
from healthcheck.checks.kernel_event import _OF_GPUS
from healthcheck.config.rulesfolder import packaged
from healthcheck.kernellog.ending import Ending, EndKind
from healthcheck.model.faultkind import Isolation
from healthcheck.model.outcome import Owner, Repair, Severity
from healthcheck.model.problem import Problem
from healthcheck.report.nodes import row
from healthcheck.report.plan import text as plan_text
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.store.accused import DEAD, ERRORS, LINK, SHARED, SLOW, WRONG_DATA
from healthcheck.triage.past import FleetHistory
from healthcheck.triage.plan import make
from healthcheck.triage.policyload import load_policy
from healthcheck.triage.remediation import RemediationStep
from healthcheck.triage.ticket import markdown, ticket
from healthcheck.xid.xidtable import REPAIRS, SERIOUS, WATCHED, Action
from inventory.errors import RulesError
from provisioning.remediate.choose import NAMING, choose
from provisioning.remediate.steps import SPECS
from tests.healthcheck.triage.made import NOW, at, past, problem
from tests.packagedrules import RULES
from tests.promises import first, promises

POLICY = load_policy([packaged()], RULES)
NAMED = {rule.id for rule in RULES.rules if rule.checked.name in NAMING}
assert RULES.kernel is not None
ENTRIES = RULES.kernel.catalogue.entries
WATCHED_OVER = {rule.id: rule for rule in RULES.rules if rule.severity is not Severity.INFO}
_ASKED = {
    Repair.WATCH: "Nothing is urgent",
    Repair.RESTART_SERVICE: "Please restart the service, or load the module",
    Repair.RESET_GPU: "Please reset the GPU", Repair.REBOOT: "Please restart the node",
    Repair.INSPECT: "Please ", Repair.REPLACE: "Please replace it",
}
_TO = {Owner.USER: "job's user", Owner.OPERATOR: "cluster's operators", Owner.NETWORK: "network's people",
       Owner.DATACENTRE: "data centre", Owner.VENDOR: "vendor"}


@dataclass(frozen=True)
class Promise:
    """What something says that a node has: in which words, and whom it names. `ends` is of what a log
    says."""

    what: str
    rule: str
    severity: Severity
    remedy: str
    owner: Owner
    repair: Repair | None = None
    subject: str = "GPU 3"
    ends: Ending | None = None


def of_rules() -> Iterator[Promise]:
    for rule in WATCHED_OVER.values():
        yield Promise(rule.id, rule.id, rule.severity, rule.remedy, rule.owner)


def of_kernel_entries() -> Iterator[Promise]:
    hardware = next(rule for rule in RULES.rules if rule.id == "kernel-hardware-error").parameters["groups"]
    for entry in ENTRIES:
        if entry.severity is Severity.INFO or entry.xid or entry.ordinary:
            continue
        rule = ("kernel-trouble" if entry.severity is Severity.WARNING
                else "kernel-hardware-error" if entry.group in hardware else "kernel-fault")
        yield Promise(entry.id, rule, entry.severity, entry.remedy, entry.owner, entry.repair, entry.id,
                      entry.ending)


def of_xids() -> Iterator[Promise]:
    table = RULES.xids
    assert table is not None
    for number in table.xids:
        for arch in ("", *table.xids[number].architectures):
            entry = table.xid(number, arch)
            if entry.action in SERIOUS | WATCHED:
                serious = entry.action in SERIOUS
                yield Promise(f"Xid {number} {arch}", "kernel-xid" if serious else "kernel-xid-watch",
                              Severity.CRITICAL if serious else Severity.WARNING,
                              entry.remedy or table.remedy(entry.action), entry.owner,
                              REPAIRS[entry.action], ends=table.ending(entry.action, entry.ends))
    for number, switch in table.sxids.items():
        serious = switch.action in SERIOUS
        yield Promise(f"SXid {number}", "kernel-sxid" if serious else "kernel-sxid-watch",
                      Severity.CRITICAL if serious else Severity.WARNING,
                      switch.remedy or table.remedy(switch.action), switch.owner,
                      REPAIRS.get(switch.action, Repair.WATCH),
                      ends=table.ending(switch.action, switch.ends))
    for code, recovery in table.recoveries.items():
        if recovery.action is not Action.IGNORE:
            yield Promise(f"Xid 154 of {code}", "kernel-xid-recovery", Severity.CRITICAL, recovery.remedy,
                          Owner.OPERATOR, REPAIRS[recovery.action])
    for word in table.words:
        for action in {word.action, word.fatal or word.action} & SERIOUS:
            yield Promise(f"Xid {word.xid} {word.meaning}", "kernel-xid-nvlink", Severity.CRITICAL,
                          table.remedy(action), word.owner or (
                              Owner.VENDOR if action is Action.SUPPORT else Owner.OPERATOR), REPAIRS[action],
                          ends=table.ending(action))
    for repeat in table.repeats.values():
        yield Promise(repeat.id, "kernel-xid-repeat", Severity.WARNING,
                      repeat.remedy or table.remedy(repeat.action), repeat.owner, REPAIRS[repeat.action])
    for asked, (remedy, owner, repair) in _RECOVERIES.items():
        yield Promise(f"NVML {asked}", "gpu-recovery-action", Severity.CRITICAL, remedy, owner, repair)


def found(one: Promise, subject: str = "") -> Problem:
    """The problem as the store holds it."""
    return problem(one.rule, subject or one.subject, severity=one.severity.value, owner=one.owner.value,
                   remedy=one.remedy, repair=one.repair.value if one.repair else None,
                   emitter="kernel" if one.ends else None, ends=str(one.ends) if one.ends else None)


def due(one: Promise) -> Repair:
    """What it asks for in one word."""
    rule = WATCHED_OVER.get(one.rule)
    if one.repair is not None:
        return one.repair
    otherwise = Repair.INSPECT if one.severity is Severity.CRITICAL else Repair.WATCH
    return rule.repair or otherwise if rule is not None else otherwise


def disagreements(one: Promise) -> Iterator[str]:
    """Where words and actions are not the same."""
    repair = due(one)
    begins, says = first(one.remedy), promises(one.remedy)
    if begins in (Repair.RESET_GPU, Repair.REBOOT, Repair.REPLACE) and repair is not begins:
        yield f"begins with {begins.value}, but is for {repair.value}"
    if repair not in (Repair.WATCH, Repair.INSPECT) and repair not in says:
        yield f"is for {repair.value}, and does not say so"
    if (repair in (Repair.RESTART_SERVICE, Repair.RESET_GPU, Repair.REBOOT)
            and one.owner not in (Owner.OPERATOR, *((Owner.DATACENTRE,) * (repair is Repair.REBOOT)))):
        yield f"has {one.owner.value} for what the operators do"
    if repair is Repair.REPLACE and one.owner in (Owner.OPERATOR, Owner.USER):
        yield f"has {one.owner.value} for what needs a spare part"
    if one.ends is not None and one.ends.ends is EndKind.REPAIR and repair in (
            Repair.RESET_GPU, Repair.REBOOT, Repair.RESTART_SERVICE):
        yield f"ends by a person's word alone, which {repair.value} is not"
    if one.ends is not None and repair is Repair.RESET_GPU and one.ends.ends is not EndKind.RESET:
        yield f"is not over after a reset, but by {one.ends}"
    yield from _shown(one, repair)


def _shown(one: Promise, repair: Repair) -> Iterator[str]:
    node = past("n1", found(one))
    fleet = FleetHistory(NOW, (node,), since=at(-2000))
    plan = make(fleet, POLICY)
    (verdict,) = plan.verdicts
    if (verdict.repair, verdict.owner) != (repair, one.owner):
        yield f"triage: {verdict.repair.value}, by {verdict.owner and verdict.owner.value}"
    shown = row(node, None, verdict, NOW, 3600.0)
    if (shown.repair, shown.owner) != (repair.value, one.owner.value):
        yield f"nodes: {shown.repair}, by {shown.owner}"
    lines = "\n".join(plan_text(plan, 1, 1, NOW))
    if repair is not Repair.WATCH and f"{repair.value}, by {one.owner.value}" not in lines:
        yield f"triage's text: {lines}"
    written = markdown(ticket(verdict, node, (), (), None))
    if not (f"To the {_TO[one.owner]}. {_ASKED[repair]}" in written
            and one.remedy.split(".")[0][:60].replace("`", "'") in written):
        yield f"ticket: {written}"
    yield from _step(one, repair, fleet, verdict.isolation)


def _step(one: Promise, repair: Repair, fleet: FleetHistory, isolation: Isolation) -> Iterator[str]:
    plan = make(fleet, POLICY)
    works, lefts = choose(fleet, plan.verdicts, POLICY, {"n1"}, {}, NAMED)
    said = works[0].step.value if works else lefts[0].why if lefts else ""
    step = next((step for step, spec in SPECS.items() if spec.rung is repair), None)
    if repair in (Repair.RESET_GPU, Repair.REBOOT):
        assert step is not None
        kind = plan.verdicts[0].fault
        if said != (f"{kind}: {step.value} is for it, and the policy does not enable it: muster remediate n1 "
                    f"--step {step.value}"):
            yield f"remediate: {said}"
        (work,), _ = choose(fleet, plan.verdicts, POLICY, {"n1"}, {}, NAMED, step)
        if (work.step, work.rules) != (step, (one.rule,)):
            yield f"remediate --step: {work}"
    elif works or (repair is Repair.RESTART_SERVICE and one.rule not in NAMED):
        # What asks for a restart has the step that does it; of units that a site names, those that there are.
        if repair is not Repair.RESTART_SERVICE or not works or SPECS[works[0].step].rung is not repair:
            yield f"remediate: {said}"
    elif said.partition(": ")[2] != ("" if repair is Repair.WATCH else
                                     f"there is no step for it; {repair.value}: muster ticket n1"):
        yield f"remediate: {said or 'nothing to do'}"


@pytest.mark.parametrize("several", [of_rules, of_kernel_entries, of_xids])
def test_whatever_says_a_repair_in_words_has_that_step_that_owner_and_that_ticket(several: object) -> None:
    assert callable(several)
    every = list(several())
    wrong = [f"{one.what}: {said} ({one.remedy})" for one in every for said in disagreements(one)]
    assert len(every) > 250 and not wrong, "\n".join(wrong)


def test_what_a_reset_ends_of_the_kernels_log_is_of_the_files_that_a_reset_of_gpus_ends() -> None:
    assert {entry.group for entry in ENTRIES
            if entry.repair is Repair.RESET_GPU and entry.ending.ends is EndKind.RESET} <= set(_OF_GPUS)


@pytest.mark.parametrize(("rule", "subject", "step"), [
    *(("service-expected", unit, f"restart-{unit.removeprefix('nvidia-')}")
      for unit in ("docker", "containerd", "nvidia-persistenced")),
    *(("module-expected", module, f"load-{module.replace('_', '-')}")
      for module in ("nvidia", "nvidia_uvm", "nvidia_peermem", "mlx5_ib")),
    ("nvlink-fabric-manager", "nvidia-fabricmanager", "restart-fabric-manager"),
    ("nvlink-fabric-state", "GPU 3", "restart-fabric-manager"),
    ("docker-answers", "docker", "restart-docker"),
    ("docker-hangs", "docker", "restart-docker"), ("containerd-answers", "containerd", "restart-containerd"),
    ("driver-loads", "driver", "load-nvidia"), ("driver-peermem", "driver", "load-nvidia-peermem"),
    ("driver-persistence-daemon", "GPU 3", "restart-persistenced"),
    ("gpu-persistence", "GPU 3", "restart-persistenced")])
def test_each_service_and_module_that_a_remedy_restarts_or_loads_has_its_step(
    rule: str, subject: str, step: str,
) -> None:
    known = WATCHED_OVER[rule]
    assert known.repair is Repair.RESTART_SERVICE
    one = Promise(rule, rule, known.severity, known.remedy, known.owner)
    fleet = FleetHistory(NOW, (past("n1", found(one, subject)),), since=at(-2000))
    (work,), _ = choose(fleet, make(fleet, POLICY).verdicts, POLICY, {"n1"}, {}, NAMED)
    assert work.step is RemediationStep(step)


def test_every_rule_that_a_service_s_step_is_for_asks_for_it() -> None:
    listed = {rule for use in POLICY.remediation.uses.values() for rule in use.rules or ()}
    assert listed == {rule.id for rule in WATCHED_OVER.values() if rule.repair is Repair.RESTART_SERVICE}


@pytest.mark.parametrize(("rule", "critical", "repair", "owner"), [
    (WRONG_DATA, True, Repair.REPLACE, Owner.VENDOR), (WRONG_DATA, False, Repair.INSPECT, Owner.VENDOR),
    (SLOW, True, Repair.INSPECT, Owner.OPERATOR), (LINK, True, Repair.INSPECT, Owner.NETWORK),
    (DEAD, True, Repair.INSPECT, Owner.OPERATOR), (ERRORS, True, Repair.INSPECT, Owner.OPERATOR),
    (SLOW, False, Repair.WATCH, Owner.OPERATOR), (SHARED, False, Repair.WATCH, Owner.NETWORK)])
def test_a_burn_in_s_accusation_asks_for_what_its_words_ask_for(
    rule: str, critical: bool, repair: Repair, owner: Owner,
) -> None:
    said = ("Drain the node; the GPU goes to the vendor" if repair is Repair.REPLACE
            else "muster burnin show x")
    asked = repair if rule == WRONG_DATA else None
    one = Promise(rule, rule, Severity.CRITICAL if critical else Severity.WARNING, said, owner, asked)
    assert list(disagreements(one)) == []
    if rule == WRONG_DATA and critical:     # as a store from before says it, that knew no repair of it
        assert "replace" in {verdict.repair.value for verdict in make(
            FleetHistory(NOW, (past("n1", found(replace(one, repair=None))),), since=at(-2000)),
            POLICY).verdicts}


def test_the_words_of_a_remedy_are_read_as_a_person_reads_them() -> None:
    assert first("Drain the node and reset the GPU; if it comes back, reboot.") is Repair.RESET_GPU
    assert promises("Drain the node and reset the GPU; if it comes back, reboot.") == {Repair.RESET_GPU}
    assert first("Look at the fan, then replace it.") is None
    assert first("Watch it. Replace the drive when the number grows.") is None
    assert promises("Save what is needed; replace the disk when the number grows.") == set()
    assert first("Let running jobs end, then drain the node and reset the GPU or reboot.") is Repair.RESET_GPU
    assert first("Drain the node; the board goes to the vendor.") is None


def test_a_site_s_rule_says_another_repair_its_policy_goes_before_that_and_the_driver_before_both(
    tmp_path: Path,
) -> None:
    (tmp_path
     / "ours.yaml").write_text("- {id: nvlink-speed, repair: inspect}\n- {id: host-swap, repair: mend}\n")
    with pytest.raises(RulesError) as caught:
        load_ruleset([packaged(), tmp_path])
    assert str(caught.value) == (f"{tmp_path}/ours.yaml:2:27: rule host-swap: repair: expected one of watch, "
                                 "restart-service, reset-gpu, reboot, inspect, replace; got 'mend'")
    (tmp_path / "ours.yaml").write_text("- {id: nvlink-speed, repair: inspect}\n")
    here = problem("nvlink-speed", "GPU 3")
    for policy, repair in (("", Repair.INSPECT),
                           ("faults:\n- {id: nvlink, repair: reboot}\n", Repair.REBOOT)):
        (tmp_path / "policy.yaml").write_text(policy or "wedged: {sweeps: 3}\n")
        site = load_policy([packaged(), tmp_path], load_ruleset([packaged(), tmp_path]))
        for asked, expected in ((None, repair), ("reset-gpu", Repair.RESET_GPU)):
            fleet = FleetHistory(NOW, (past("n1", replace(here, repair=asked)),), since=at(-2000))
            (verdict,) = make(fleet, site).verdicts
            assert verdict.repair is expected
