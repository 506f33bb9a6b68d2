"""Which step is chosen for which fault: what the policy names, when due, and no more often."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.config.rulesfolder import packaged
from healthcheck.model.problem import Problem
from healthcheck.triage.past import FleetHistory, NodeHistory, Repaired
from healthcheck.triage.plan import make
from healthcheck.triage.policyload import load_policy
from healthcheck.triage.remediation import RemediationStep
from provisioning.remediate.choose import NAMING, ExcludedNode, PlannedStep, choose
from provisioning.remediate.record import parsed
from provisioning.remediate.send import _step_report
from provisioning.remediate.steps import SPECS
from tests.healthcheck.triage.made import NOW, at, past, problem
from tests.packagedrules import RULES

POLICY = load_policy([packaged()], RULES)
FABRIC = problem("nvlink-fabric-manager", "nvidia-fabricmanager", observed="inactive (dead)")
DOCKER = problem("docker-answers", "docker")


def chosen(*nodes: NodeHistory, tries: dict[tuple[str, RemediationStep], int] | None = None,
           only: RemediationStep | None = None) -> tuple[list[PlannedStep], list[ExcludedNode]]:
    fleet = FleetHistory(NOW, nodes, since=at(-2000))
    naming = {rule.id for rule in RULES.rules if rule.checked.name in NAMING}
    return choose(
        fleet, make(fleet, POLICY).verdicts, POLICY, {one.node for one in nodes}, tries or {}, naming, only)


def one(
    *problems: Problem, only: RemediationStep | None = None,
    tries: dict[tuple[str, RemediationStep], int] | None = None, **more: Any,
) -> str:
    """The step, or why there is none; empty where nothing is said."""
    works, lefts = chosen(past("n1", *problems, **more), only=only, tries=tries)
    return works[0].step.value if works else lefts[0].why if lefts else ""


def warned(rule: str, subject: str) -> Problem:
    return problem(rule, subject, severity="warning")


@pytest.mark.parametrize(
    ("problems", "step"),
    [((FABRIC,), "restart-fabric-manager"), ((DOCKER,), "restart-docker"),
     ((problem("driver-loads", "driver"),), "load-nvidia"),
     ((warned("driver-persistence-daemon", "GPU 0"),), "restart-persistenced"),
     ((warned("driver-peermem", "driver"),), "load-nvidia-peermem"),
     ((warned("module-expected", "nvidia-uvm"),), "load-nvidia-uvm"),
     ((warned("module-expected", "mlx5_ib"),), "load-mlx5-ib"),
     ((warned("service-expected", "containerd"),), "restart-containerd"),
     ((warned("service-expected", "sshd"),),
      "warning: there is no step for it; restart-service: muster ticket n1"),
     ((warned("module-expected", "ib_uverbs"),), "warning: there is no step for it; restart-service: muster "
      "ticket n1"), ((warned("netdev-link", "eth0"),), ""), ((), "")])
def test_the_packaged_policy_names_a_step_for_what_a_step_can_mend(
    problems: tuple[Problem, ...], step: str,
) -> None:
    assert one(*problems) == step


def test_what_the_policy_does_not_enable_a_person_must_name() -> None:
    lost = problem("gpu-count", "GPUs")
    assert (one(lost) == "gpu-lost: reboot is for it, and the policy does not enable it: muster remediate n1 "
                         "--step reboot")
    assert one(lost, only=RemediationStep.REBOOT) == "reboot"
    # A step that the policy does not name for a fault no word makes one for it.
    assert one(lost, only=RemediationStep.RESET_GPU) == (
        "gpu-lost: reset-gpu is not for it, reboot is: muster remediate n1 --step reboot")


def test_a_site_that_has_nodes_reset_unasked_has_none_reset_on_which_jobs_may_run(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("remediation: {reset-gpu: {enabled: true}}\n")
    site = load_policy([packaged(), tmp_path], RULES)
    for found, step in ((problem("nvlink-speed", "GPU 3"), RemediationStep.RESET_GPU),
                        (warned("gpu-row-remap-pending", "GPU 3"), None)):
        fleet = FleetHistory(NOW, (past("n1", found),), since=at(-2000))
        works, lefts = choose(fleet, make(fleet, site).verdicts, site, {"n1"}, {}, ())
        assert [one.step for one in works] == ([step] if step else [])
        assert (step
                or lefts[0].why == ("warning: reset-gpu is for it, and jobs may run there: muster remediate "
                                    "n1 --step reset-gpu"))


def test_what_the_verdict_asks_for_is_done_though_another_fault_comes_first() -> None:
    reset, dead = problem("nvlink-speed", "GPU 3"), problem("driver-answers", "driver")
    assert one(reset,
               dead) == ("driver: reboot is for it, and the policy does not enable it: muster remediate "
                         "n1 --step reboot")


def test_what_the_driver_itself_asks_for_is_the_rung_that_is_due() -> None:
    reset = problem("gpu-recovery-action", "GPU 3", repair="reset-gpu")
    assert one(reset, only=RemediationStep.RESET_GPU) == "reset-gpu" and "reboot is not for it" in one(
        reset, only=RemediationStep.REBOOT)
    reboot = problem("gpu-recovery-action", "GPU 3", repair="reboot")
    assert one(reboot, only=RemediationStep.REBOOT) == "reboot" and "reset-gpu is not for it" in one(
        reboot, only=RemediationStep.RESET_GPU)


def test_what_came_back_after_a_restart_is_not_restarted_again() -> None:
    before = problem("nvlink-fabric-manager", "nvidia-fabricmanager", began=-30, ended=-28)
    again = one(FABRIC, over=(before,), repaired=(Repaired(at(-28), "restart-service"),))
    assert (again == "fabric-manager: reboot is for it, and the policy does not enable it: muster remediate "
                     "n1 --step reboot")


def test_after_its_attempts_a_person_inspects_it() -> None:
    assert one(FABRIC, tries={("n1", RemediationStep.RESTART_FABRIC_MANAGER): 1}) == "restart-fabric-manager"
    assert one(FABRIC, tries={("n1", RemediationStep.RESTART_FABRIC_MANAGER): 2}) == (
        "fabric-manager: inspect: restart-fabric-manager was tried 2 times in 7 days")


@pytest.mark.parametrize(
    ("more", "said"),
    [({"others": "others hold it: fan, Tuesday"}, "others hold it"),
     ({"leased": "it is leased as muster-1"}, "leased"), ({"away": "RMA 3 is shipped"}, "RMA 3"),
     ({"in_service": False, "lifecycle": "maintenance"}, "its lifecycle is maintenance")])
def test_what_people_hold_or_is_away_is_left(more: dict[str, Any], said: str) -> None:
    assert said in one(FABRIC, **more)


def test_a_worse_fault_that_no_step_mends_comes_first() -> None:
    assert (one(problem("gpu-row-remap-failed", "GPU 3"), FABRIC)
            == "gpu-worn-out: there is no step for it; replace: muster ticket n1")


def test_nodes_come_by_their_failure_domains_and_one_without_is_its_own() -> None:
    nodes = [past("n1", FABRIC, domains={"rack": ("r2",)}), past("n2", FABRIC, domains={"leaf": ("l1",)}),
             past("n3", FABRIC), past("n4", FABRIC, domains={"rack": ("r2",), "leaf": ("l1",)})]
    works, _ = chosen(
        *(NodeHistory(**{**vars(each), "problems": (problem("nvlink-fabric-manager", "x", node=each.node),)})
          for each in nodes))
    assert [(work.domain, work.node) for work in works] == [
        ("leaf l1", "n2"), ("node n3", "n3"), ("rack r2", "n1"), ("rack r2", "n4")]


def test_each_step_has_commands_of_its_own_that_no_shell_reads() -> None:
    assert set(SPECS) == set(
        RemediationStep) and len({spec.runs for spec in SPECS.values()}) == len(RemediationStep)
    for spec in SPECS.values():
        assert 0 < spec.seconds <= 1200
        assert not any(mark in word for word in spec.runs for mark in ";|&$`<>\n")


@given(st.binary(max_size=400))
def test_whatever_a_node_answers_is_a_value(body: bytes) -> None:
    assert _step_report("n1", body).ok is None


@given(st.text(max_size=200))
def test_whatever_a_line_of_the_ledger_holds_is_a_step_or_none(text: str) -> None:
    assert parsed(text) is None
    found = parsed(f"step=restart-docker rules=a,b@docker boot=0a-1 passed={text}")
    assert found is None or (found.rules == ("a", "b@docker") and " " not in text)
