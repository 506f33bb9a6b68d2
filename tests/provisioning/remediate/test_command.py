"""`muster remediate` as typed, and what a site's policy may say of it."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from healthcheck.config.rulesfolder import packaged
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.store.file import opened
from healthcheck.triage.policyload import load_policy
from healthcheck.triage.remediation import RemediationStep
from inventory.errors import RulesError
from provisioning.cli.remediate import _STEPS, _folded
from provisioning.remediate.choose import ExcludedNode
from tests.command import muster


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "muster.yaml").write_text("version: 1\ncordon: {hostfile: bad}\nnodes:\n  gpu001: {}\n")
    return tmp_path


def site(folder: Path, text: str) -> Path:
    (folder / "rules").mkdir(exist_ok=True)
    (folder / "rules" / "policy.yaml").write_text(text)
    return folder / "rules"


@pytest.mark.parametrize(
    ("text", "said"),
    [("remediation: {restart-dokcer: {enabled: true}}", "restart-dokcer"),
     ("remediation: {restart-docker: {faults: [contianers]}}",
      "no such fault: 'contianers'; did you mean 'containers'?"),
     ("remediation: {restart-docker: {command: [rm, -rf, /]}}", "command"),
     ("remediation: {restart-docker: [rm, -rf, /]}", "expected a map of faults, rules, enabled"),
     ("remediation: {attempts: 0}", "expected a whole number from 1"),
     ("remediation: {reboot: {enabled: 'yes'}}", "expected true or false")])
def test_a_policy_names_steps_and_nothing_else(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(RulesError) as caught:
        load_policy([packaged(), site(tmp_path, text)], load_ruleset([packaged()]))
    assert said in str(caught.value) and str(tmp_path) in str(caught.value)


def test_a_site_changes_what_it_wants_and_the_rest_stays(tmp_path: Path) -> None:
    found = load_policy([packaged(), site(tmp_path, "remediation: {attempts: 1, reboot: {enabled: true}}")],
                        load_ruleset([packaged()]))
    assert found.remediation.attempts == 1 and found.remediation.at_once == 4
    reboot = found.remediation.uses[RemediationStep.REBOOT]
    assert reboot.enabled and reboot.faults is None and reboot.rules is None


def test_out_of_the_box_services_and_modules_are_mended_and_nothing_is_reset_or_restarted_unasked() -> None:
    uses = load_policy([packaged()], load_ruleset([packaged()])).remediation.uses
    assert {step for step, use in uses.items() if not use.enabled} == {
        RemediationStep.RESET_GPU, RemediationStep.REBOOT} and set(uses) == set(RemediationStep)
    assert tuple(step.value for step in RemediationStep) == _STEPS


@pytest.mark.parametrize(("words", "said"), [
    ((), "there is no store yet"), (("gpu009",), "gpu009"), (("--step", "format-disk"), "format-disk"),
])
def test_what_cannot_be_done_is_said_in_a_line(home: Path, words: tuple[str, ...], said: str) -> None:
    done = muster("remediate", *words, home=home)
    assert (done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
            and done.stdout == "")


def test_there_is_nothing_to_do_where_nothing_is_wrong_and_two_do_not_act_at_once(home: Path) -> None:
    with opened(home / "state", make=True):
        pass
    assert (done := muster("remediate", home=home)).returncode == 0 and done.stdout == "nothing to do\n"
    assert ((done := muster("remediate", "--apply", home=home)).returncode == 0
            and done.stdout == "nothing to do\n")
    with (home / "state" / "remediate.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = muster("remediate", "--apply", home=home)
    assert done.returncode == 2 and "another muster remediate --apply is running" in done.stderr


def test_nodes_that_are_left_for_one_reason_are_one_line() -> None:
    lefts = [ExcludedNode(name, f"warning: there is no step for it; replace: muster ticket {name}")
             for name in ("gpu1", "gpu2", "gpu3")]
    other = ExcludedNode("gpu4", "gpu-lost: inspect: reboot was tried 2 times in 7 days")
    assert list(_folded([*lefts, other])) == [
        ("gpu[1-3]", "warning: there is no step for it; replace: muster ticket NODE"), ("gpu4", other.why)]
    assert list(_folded(lefts[:1])) == [("gpu1", lefts[0].why)]
