"""Jobs are kept away from machines in bring-up by cordons of ours, until they are through."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from healthcheck.store import ledger
from healthcheck.store.cordons import open_cordons
from healthcheck.store.file import opened
from inventory.errors import UsageError
from inventory.load import load_inventory
from inventory.model import Inventory
from provisioning.actions.base import ActionError
from provisioning.actions.choose import Options, backend
from provisioning.actions.cordon import cordon
from provisioning.bringup.engine.hold import give, held, hold
from provisioning.bringup.engine.idle import idle
from provisioning.bringup.engine.model import StepState
from provisioning.bringup.steps.service import ServiceStep
from tests.provisioning.bringup.afteros import context, machines, step

FILE = """\
version: 1
cordon: {{hostfile: {down}}}
defaults: {{lifecycle: bringup}}
nodes: {{"n[1-3]": {{}}}}
"""


@pytest.fixture
def there(tmp_path: Path) -> Inventory:
    (tmp_path / "down").write_text("n3\n")      # someone else holds it
    (tmp_path / "muster.yaml").write_text(FILE.format(down=tmp_path / "down"))
    return load_inventory(tmp_path / "muster.yaml")


def test_who_could_be_given_jobs_is_cordoned_and_others_cordons_are_left(
    tmp_path: Path, there: Inventory,
) -> None:
    done = hold(tmp_path, there, ["n1", "n2", "n3"], "ada", time.time)
    assert [(one.node, one.failed) for one in done] == [("n1", False), ("n2", False)]
    assert [
        line.partition(" ")[0] for line in (tmp_path / "down").read_text().splitlines()] == ["n3", "n1", "n2"]
    assert held(tmp_path, there, ["n1", "n3"]) == {"n1"}
    assert hold(tmp_path, there, ["n1", "n2", "n3"], "ada", time.time) == []
    with opened(tmp_path) as store:
        assert {(line.action, line.node, line.why) for line in ledger.lines(store)} == {
            ("cordon", "n1", "bring-up"), ("cordon", "n2", "bring-up")}


def test_nothing_disruptive_is_done_to_a_machine_from_which_nothing_keeps_jobs_away(
    tmp_path: Path, there: Inventory,
) -> None:
    of = context(tmp_path)
    one, three = machines(of, "n1", "n3")
    ask = idle(of.folder, there, ["n1", "n2", "n3"])
    assert "muster cordon n1 --reason 'bring-up'" in ask(one) and ask(three) == ""
    hold(of.folder, there, ["n1"], "ada", time.time)
    assert idle(of.folder, there, ["n1", "n2", "n3"])(one) == ""


def test_who_is_through_is_given_to_jobs_and_what_others_cordoned_stays_theirs(
    tmp_path: Path, there: Inventory,
) -> None:
    of = context(tmp_path)
    hold(of.folder, there, ["n1", "n3"], "ada", time.time)
    with opened(of.folder) as store:
        cordon(store, backend(there, Options()), ["n2"], "a coolant leak", "ada", time.time)
    service = ServiceStep(step("service"), of)
    seen = dict(service.observe(machines(of, "n1", "n2", "n3")))
    assert (seen["n1"].operation is not None
            and seen["n1"].operation.change == ("lifecycle: bringup -> service", "uncordon"))
    assert (seen["n2"].operation is not None
            and seen["n2"].operation.change == ("lifecycle: bringup -> service",))
    made = service.make_together(machines(of, "n1", "n2", "n3"))
    assert all(one.done for one in made.values()) and made["n1"].message.endswith("is released"), made
    assert {one.stand for _, one in service.observe(machines(of, "n1", "n2", "n3"))} == {StepState.SO}
    with opened(of.folder) as store:
        assert [(one.node, one.why) for one in open_cordons(store)] == [("n2", "a coolant leak")]
    assert "n3" in (tmp_path / "down").read_text() and "n1" not in (tmp_path / "down").read_text()


def test_a_kill_between_the_inventory_and_the_release_is_seen_by_the_next_look(
    tmp_path: Path, there: Inventory,
) -> None:
    of = context(tmp_path)
    hold(of.folder, there, ["n1"], "ada", time.time)
    text = of.path.read_text()
    of.path.write_text(text.replace("lifecycle: bringup", "lifecycle: service"))
    service = ServiceStep(step("service"), of)
    seen = dict(service.observe(machines(of, "n1")))["n1"]
    assert seen.stand is StepState.NOT_SO and seen.operation is not None and seen.operation.change == (
        "uncordon",)
    assert [one.node for one in give(of.folder, there, ["n1"], "ada", time.time)] == ["n1"]
    assert dict(service.observe(machines(of, "n1")))["n1"].stand is StepState.SO


def test_what_the_inventory_names_must_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "muster.yaml").write_text("version: 1\ncordon: slurm\nnodes: {n1: {lifecycle: bringup}}\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises((ActionError, UsageError)):
        hold(tmp_path, load_inventory(tmp_path / "muster.yaml"), ["n1"], "ada", time.time)
    (tmp_path / "muster.yaml").write_text("version: 1\nnodes: {n1: {lifecycle: bringup}}\n")
    assert hold(tmp_path, load_inventory(tmp_path / "muster.yaml"), ["n1"], "ada", time.time) == []


@pytest.mark.parametrize("state", ["rma", "maintenance", "retired"])
def test_whom_a_person_sent_elsewhere_meanwhile_is_not_put_into_service(
    tmp_path: Path, there: Inventory, state: str,
) -> None:
    of = context(tmp_path)
    hold(of.folder, there, ["n1", "n2"], "ada", time.time)
    service = ServiceStep(step("service"), of)
    both = machines(of, "n1", "n2")
    text = of.path.read_text().replace('{"n[1-3]": {}}', f'{{"n[1-3]": {{}}, n1: {{lifecycle: {state}}}}}')
    of.path.write_text(text)
    seen = dict(service.observe(both))
    assert (seen["n1"].stand is StepState.TROUBLE and f"lifecycle to {state}" in seen["n1"].message
            and seen["n2"].stand is StepState.NOT_SO)
    assert not any(one.done for one in service.make_together(both).values()) and of.path.read_text() == text
    assert held(of.folder, there, ["n1", "n2"]) == {"n1", "n2"}
    assert service.make(both[1], seen["n2"].operation).done      # type: ignore[arg-type]


def test_where_the_inventory_names_nothing_and_slurm_does_not_answer_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("scontrol", "sinfo", "squeue"):
        (tmp_path / name).write_text("#!/bin/sh\necho slurmctld is down >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    (tmp_path / "muster.yaml").write_text("version: 1\nnodes: {n1: {lifecycle: bringup}}\n")
    said: list[str] = []
    assert hold(
        tmp_path, load_inventory(tmp_path / "muster.yaml"), ["n1"], "ada", time.time, said.append) == []
    (line,) = said
    assert "slurmctld is down" in line and "cordon: slurm in" in line
