"""The step of rules that need a lease: a container is run on this machine, whose container client is planted,
under a cordon of the site's own."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.store.file import opened
from healthcheck.store.leases import open_leases
from healthcheck.store.ledger import lines
from provisioning.bringup.engine.model import Machine, Observation, OperationResult, StepEffect, StepState
from provisioning.bringup.policy.load import load
from provisioning.bringup.steps.context import StepContext
from provisioning.bringup.steps.leased import Leased
from tests.provisioning.bringup.afteros import after, context, machines, step
from tests.provisioning.bringup.steps.test_burnin_step import bed

RULES = ("container-all-*",)
# It holds the image unless told otherwise, and what runs inside sees one GPU of the node's and no RDMA
# device.
CLIENT = """#!/bin/sh
[ "$1" = --host ] && shift 2
case $1 in
images) {images} ;;
ps) ;;
run) echo ran >> {home}/ran; {runs} ;;
esac
"""


@pytest.fixture
def of(tmp_path: Path) -> StepContext:
    bed(tmp_path, 2)
    return context(tmp_path)


def client(home: Path, monkeypatch: pytest.MonkeyPatch, images: str,
           runs: str = "echo 'inside opens /dev/nvidia0'; echo 'inside ended 0'") -> None:
    """A docker that is found before any other."""
    (home / "bin").mkdir(exist_ok=True)
    (home / "bin/docker").write_text(CLIENT.format(home=home, images=images, runs=runs))
    (home / "bin/docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")


def tried(of: StepContext) -> tuple[Leased, Machine, Observation, OperationResult]:
    """The step, and a machine that it observed and worked on once."""
    (one,) = machines(of, "n1")
    run = Leased(step("leased"), of, "bringup", RULES)
    ((_, first),) = run.observe([one])
    return run, one, first, run.make_together([one])["n1"]


def looked_after(of: StepContext) -> tuple[OperationResult, Observation]:
    run, one, first, made = tried(of)
    ((_, seen),) = run.observe([after(one, first, made)])
    return made, seen


def test_a_machine_on_which_they_pass_or_concern_nothing_goes_on_and_was_leased_for_it(
        of: StepContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client(tmp_path, monkeypatch, "echo 0123abcd")
    run, one, seen, made = tried(of)
    assert (seen.stand is StepState.NOT_SO and seen.operation is not None
            and seen.operation.effect is StepEffect.DISRUPTIVE)
    assert made.done is True, made
    ((_, seen),) = run.observe([after(one, seen, made)])
    assert seen.stand is StepState.SO, seen
    assert (tmp_path / "ran").read_text().splitlines() == ["ran"]
    with opened(of.folder) as store:
        assert not open_leases(store) and {line.action for line in lines(store)} >= {"lease"}
    ((_, anew),) = run.observe([replace(one, began=one.began + 60)])     # a person had it begun anew
    assert anew.stand is StepState.NOT_SO


def test_a_machine_without_the_image_is_trouble_that_names_the_command_and_how_to_leave_the_step_out(
        of: StepContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client(tmp_path, monkeypatch, "true")
    _, seen = looked_after(of)
    (trouble,) = seen.troubles
    assert seen.stand is StepState.TROUBLE and "docker tag IMAGE muster/gpu-check" in trouble.what
    assert "muster bringup retry n1" in trouble.hand and "without" in trouble.hand


def test_a_machine_that_someone_else_holds_is_asked_again_and_nothing_runs_on_it(
        of: StepContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client(tmp_path, monkeypatch, "echo 0123abcd")
    (tmp_path / "held.json").write_text('{"n1": "a person: bad fan"}')
    made, seen = looked_after(of)
    assert made.done is False and "bad fan" in made.message
    assert seen.stand is StepState.NOT_SO and seen.operation is not None and seen.again_s == 300.0
    assert "bad fan" in seen.troubles[0].what and not (tmp_path / "ran").exists()


def test_a_site_chooses_the_rules_that_need_a_lease(tmp_path: Path) -> None:
    from healthcheck.config.rulesfolder import packaged

    assert load([packaged()]).leased.rules == RULES
    (tmp_path / "bringup.yaml").write_text("leased: {rules: [dcgm-diag-medium, 'container-all-*']}\n")
    assert load([packaged(), tmp_path]).leased.rules == ("dcgm-diag-medium", "container-all-*")


@pytest.mark.parametrize(("images", "runs"), [
    ("echo cannot connect >&2; exit 1", "true"),
    ("echo 0123abcd", "echo 'inside opens /dev/nv'; kill -9 $$"),
    *(pytest.param("echo 0123abcd", runs, marks=pytest.mark.slow)
      for runs in ("true", "head -c 3000 /dev/urandom", "echo 'permission denied'; exit 126")),
])
def test_a_client_that_refuses_prints_nothing_half_or_rubbish_lets_no_machine_pass(
    of: StepContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, images: str, runs: str,
) -> None:
    client(tmp_path, monkeypatch, images, runs)
    _, seen = looked_after(of)
    assert seen.stand is StepState.TROUBLE and "muster bringup retry n1" in seen.troubles[0].hand, seen
