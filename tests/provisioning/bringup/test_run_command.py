"""`muster bringup run` and `resume` as typed, over machines that are a dictionary."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from healthcheck.cli.main import root
from healthcheck.model.outcome import Owner
from healthcheck.store import bringups
from healthcheck.store.file import opened
from inventory.errors import ConfigError, MusterError
from provisioning.bringup.engine.model import (
    ORDER,
    Executor,
    Machine,
    Observation,
    Operation,
    OperationResult,
    StepEffect,
    StepState,
)
from tests.provisioning.bringup.filled import PSU
from tests.provisioning.bringup.scripted import SO, Acts, trouble
from tests.provisioning.bringup.test_command import INVENTORY

WRITE = Operation("write BIOS settings", "bios:1",
                  ("MmioAbove4Gb: Disabled -> Enabled", "SysProfile: PerfPerWatt -> PerfOptimized"),
                  StepEffect.DISRUPTIVE, once=True)
Typed = Callable[..., tuple[int, str, str]]


@dataclass
class World:
    """What looks show, by (machine, step), everything else being so; and what was made."""

    shows: dict[tuple[str, str], Observation] = field(default_factory=dict)
    made: list[tuple[str, str]] = field(default_factory=list)
    looked: list[tuple[str, str]] = field(default_factory=list)

    def executors(self, context: Any, policy: Any, *rest: Any) -> dict[str, Executor]:
        return {name: Acts(step, self._observe(name), self._make) for name, step in policy.steps.items()}

    def _observe(self, step: str) -> Callable[[Machine], Observation]:
        def observe(machine: Machine) -> Observation:
            self.looked.append((machine.name, step))
            return self.shows.get((machine.name, step), SO)
        return observe

    def _make(self, machine: Machine, operation: Operation) -> OperationResult:
        self.made.append((machine.name, operation.key))
        self.shows = {
            at: seen for at, seen in self.shows.items()
                if at[0] != machine.name or seen.operation != operation}
        return OperationResult(True, "accepted")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    module: Any = ModuleType("provisioning.bringup.steps.executors")
    module.executors = made.executors
    monkeypatch.setitem(sys.modules, "provisioning.bringup.steps.executors", module)
    return made


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "muster.yaml").write_text(INVENTORY)
    (tmp_path / "rules").mkdir()
    together = "".join(
        f"  {step}: {{gather_seconds: 0}}\n"
        for step in ("checks", "kernel", "leased", "burnin", "certificate"))
    (tmp_path / "rules/bringup.yaml").write_text(
        f"steps:\n{together}stop: {{share: 0.3, least: 3, refused_logins: 2}}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUSTER_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("MUSTER_INVENTORY", raising=False)
    return tmp_path


@pytest.fixture
def typed(home: Path, world: World, capsys: pytest.CaptureFixture[str]) -> Typed:
    def run(*words: str) -> tuple[int, str, str]:
        try:
            code = root.main(
                ["bringup", *words, *(("--rules", "rules") if words[0] in ("run", "resume") else ())],
                standalone_mode=False)
        except MusterError as error:
            code = error.exit_code
            print(f"muster: {error}", file=sys.stderr)
        message = capsys.readouterr()
        return code, message.out, message.err
    return run


def stands(home: Path) -> dict[str, tuple[str, str]]:
    with opened(home / "state") as store:
        return {one.node: (one.step, one.stand) for one in bringups.progress(store)}


def test_a_dry_run_says_the_first_step_that_is_not_so_and_what_would_change_and_touches_nothing(
    typed: Typed, world: World, home: Path,
) -> None:
    for name in ("gpu001", "gpu002"):
        world.shows[name, "bios"] = Observation(StepState.NOT_SO, "2 settings differ", WRITE)
    world.shows["gpu003", "os"] = Observation(StepState.WAIT, "the installer is at 40%")
    code, out, err = typed("run", "gpu[001-004]")
    assert code == 0 and not world.made and not (home / "state").exists()
    assert out.splitlines() == [
        "gpu[001-002]  bios  would change, disruptive: write BIOS settings", "    now: 2 settings differ",
        "    MmioAbove4Gb: Disabled -> Enabled", "    SysProfile: PerfPerWatt -> PerfOptimized",
        "gpu003  os  waits: the installer is at 40%", "gpu004  all is so", "",
        "4 machines, and nothing was written: 2 would change, 1 waits, 1 through",
        "This was a dry run. Run again with --apply to do it."]
    assert not err


def test_a_dry_run_that_finds_trouble_says_whose_it_is_and_the_next_hand(typed: Typed, world: World) -> None:
    world.shows["gpu001", "hardware"] = Observation(StepState.TROUBLE, PSU.what, troubles=(PSU,))
    code, out, _ = typed("run", "gpu[001-002]")
    assert code == 1 and out.startswith(
        f"gpu001  hardware  in trouble: {PSU.what}\n    next: {PSU.hand} (datacentre)\n")


def test_a_dry_run_that_could_not_measure_is_no_pass(typed: Typed, world: World) -> None:
    world.shows["gpu001", "bmc"] = Observation(StepState.UNKNOWN, "it answers with 500")
    code, out, _ = typed("run", "gpu[001-002]")
    assert code == 3 and out.startswith("gpu001  bmc  not measured: it answers with 500\n")


def test_a_dry_run_ends_at_the_step_that_is_asked_for(typed: Typed, world: World) -> None:
    world.shows["gpu001", "os"] = trouble("never checked")
    code, out, _ = typed("run", "gpu001", "--until", "boot")
    assert code == 0 and out.startswith("gpu001  all is so, as far as was asked\n")
    assert {step for _, step in world.looked} == set(ORDER[:5])


def test_with_apply_machines_go_all_the_way_and_a_log_tells_each_change(
    typed: Typed, world: World, home: Path,
) -> None:
    world.shows["gpu001", "bios"] = Observation(StepState.NOT_SO, "2 settings differ", WRITE)
    code, out, err = typed("run", "gpu[001-002]", "--apply")
    assert code == 0 and world.made == [("gpu001", "bios:1")]
    assert out.startswith("2 machines: 2 through, 0 in trouble")
    assert ("bringup: gpu001 bios operation: write BIOS settings\n" in err
            and "bringup: gpu002 service done\n" in err)
    assert set(stands(home).values()) == {("service", "done")}
    # Beside a Slurm that does not answer, if there is one here, nothing is said.
    assert "bringup" not in typed("run", "gpu[001-002]", "--quiet", "--apply")[2]


def test_trouble_is_reported_with_its_owner_and_the_others_go_on(typed: Typed, world: World,
                                                                 home: Path) -> None:
    world.shows["gpu001", "hardware"] = Observation(StepState.TROUBLE, PSU.what, troubles=(PSU,))
    code, out, _ = typed("run", "gpu[001-003]", "--apply", "--quiet")
    assert code == 1 and stands(
        home)["gpu001"] == ("hardware", "trouble") and stands(home)["gpu003"] == ("service", "done")
    assert f"datacentre  {PSU.what}\n    next: {PSU.hand}\n" in out
    del world.shows["gpu001", "hardware"]
    assert typed("resume", "--quiet")[0] == 0 and stands(home)["gpu001"] == ("service", "done")
    assert (typed("resume")[::2]
            == (2, "muster: no machine is in bring-up; to start: muster bringup run NODES --apply\n"))


def test_a_refused_password_is_tried_again_only_after_a_retry(typed: Typed, world: World, home: Path) -> None:
    world.shows["gpu001", "credentials"] = Observation(
        StepState.TROUBLE, "the login is refused", keep={"login": "refused"})
    assert "the next one tries a refused login again, and accounts lock" in typed("run", "gpu001")[2]
    assert typed("run", "gpu001", "--apply", "--quiet")[0] == 1
    world.shows.clear()
    world.looked.clear()
    assert typed("resume", "--quiet")[0] == 1 and not world.looked
    assert "gpu001  credentials  not checked: its controller refused the login" in typed("run", "gpu001")[1]
    assert typed("retry", "gpu001")[0] == 0
    assert typed("resume", "--quiet")[0] == 0


def test_a_dry_run_tries_no_more_passwords_than_may_be_refused(typed: Typed, world: World) -> None:
    for number in range(1, 9):
        world.shows[f"gpu{number:03d}", "credentials"] = Observation(
            StepState.TROUBLE, "the login is refused", keep={"login": "refused"})
    code, out, _ = typed("run", "gpu[001-008]")
    assert code == 4 and [step for _, step in world.looked].count("credentials") == 2
    assert "not checked: 2 controllers refused the login" in out and "6 not checked" in out


def test_until_ends_after_the_step_and_the_next_run_goes_on(typed: Typed, world: World, home: Path) -> None:
    assert typed("run", "gpu[001-002]", "--apply", "--until", "os", "--quiet")[0] == 0
    assert set(stands(home).values()) == {("ssh", "queued")} and ("gpu001", "ssh") not in world.looked
    assert typed(
        "run", "gpu[001-002]", "--apply", "--until", "os")[::2] == (0, "nothing to do: all are through os\n")
    assert typed("resume", "--until", "checks", "--quiet")[0] == 0
    assert set(stands(home).values()) == {("kernel", "queued")}
    assert typed("resume", "--quiet")[0] == 0 and set(stands(home).values()) == {("service", "done")}


def test_a_trouble_that_many_meet_halts_the_step_for_the_others(typed: Typed, world: World) -> None:
    for number in range(1, 13):
        world.shows[f"gpu{number:03d}", "os"] = trouble("no lease", Owner.NETWORK)
    (Path("rules") / "bringup.yaml").write_text(
        Path("rules/bringup.yaml").read_text().replace("steps:\n", "steps:\n  os: {at_once: 3}\n"))
    code, _, err = typed("run", "gpu[001-012]", "--apply", "--quiet")
    assert code == 4 and "muster: halted at os: " in err and sum(
        step == "os" for _, step in world.looked) < 12


def test_who_is_refused_is_reported_and_the_others_are_brought_up(typed: Typed, home: Path) -> None:
    code, _, err = typed("run", "gpu[012-013]", "--apply", "--quiet")
    assert code == 3 and err.startswith("muster: gpu013: refused: its lifecycle is service") and stands(
        home) == {"gpu012": ("service", "done")}


def test_a_machine_that_may_not_go_on_is_taken_off_its_way(typed: Typed, world: World, home: Path) -> None:
    world.shows["gpu001", "os"] = trouble("no lease")
    typed("run", "gpu001", "--apply", "--quiet")
    (home / "muster.yaml").write_text(
        INVENTORY.replace("{bmc: 192.0.2.1}", "{bmc: 192.0.2.1, lifecycle: rma}"))
    assert typed("resume", "--quiet")[0] == 1 and stands(home)["gpu001"][1] == "left"
    assert typed("resume", "--quiet")[0] == 2


def test_the_cordon_of_a_machine_that_is_taken_off_its_way_is_reported(
    typed: Typed, world: World, home: Path,
) -> None:
    (home / "down").write_text("")
    there = INVENTORY + f"cordon: {{hostfile: {home / 'down'}}}\n"
    (home / "muster.yaml").write_text(there)
    world.shows["gpu001", "os"] = world.shows["gpu002", "os"] = trouble("no lease")
    typed("run", "gpu[001-002]", "--apply", "--quiet")
    (home / "muster.yaml").write_text(there.replace("{bmc: 192.0.2.1}", "{bmc: 192.0.2.1, lifecycle: rma}"))
    assert "gpu001: still cordoned by bring-up; to give it to jobs: muster uncordon gpu001\n" in typed(
        "resume", "--quiet")[2]
    assert "gpu001" in (home / "down").read_text() and stands(home)["gpu002"] == ("os", "trouble")


def test_a_machine_that_left_the_inventory_does_not_keep_the_others(
    typed: Typed, world: World, home: Path,
) -> None:
    world.shows["old001", "os"] = world.shows["gpu001", "os"] = trouble("no lease")
    (home / "muster.yaml").write_text(INVENTORY + "  old001: {bmc: 192.0.2.99}\n")
    typed("run", "gpu001,old001", "--apply", "--quiet")
    (home / "muster.yaml").write_text(INVENTORY)
    world.shows.clear()
    code, _, err = typed("resume", "--quiet")
    assert code == 3 and "left as it is: muster.yaml does not name old001" in err
    assert stands(home) == {"gpu001": ("service", "done"), "old001": ("os", "trouble")}
    code, _, err = typed("resume", "--quiet")
    assert code == 2 and "does not name old001" in err


def test_an_interrupt_ends_what_is_under_way_and_says_how_to_go_on(
    typed: Typed, world: World, home: Path,
) -> None:
    world.shows["gpu001", "bios"] = Observation(StepState.NOT_SO, "2 settings differ", WRITE)
    made = world._make

    def make(machine: Machine, operation: Operation) -> OperationResult:
        os.kill(os.getpid(), signal.SIGTERM)
        return made(machine, operation)
    world._make = make  # type: ignore[method-assign]
    code, _, err = typed("run", "gpu001", "--apply", "--quiet")
    assert code == 130 and "interrupted; to go on: muster bringup resume" in err
    with opened(home / "state") as store:
        assert [(one.key, one.done) for one in bringups.actions(store)] == [("bios:1", True)]
    assert typed("resume", "--quiet")[0] == 0 and world.made == [("gpu001", "bios:1")]


def test_two_at_once_are_not_let_act(typed: Typed, home: Path) -> None:
    from provisioning.lease.runlock import alone

    (home / "state").mkdir()
    file = home / "muster.yaml"
    file.write_text(INVENTORY.replace("lifecycle: bringup", "lifecycle: planned")
                    + f"cordon: {{hostfile: {home / 'down'}}}\n")
    (home / "down").write_text("")
    before = file.read_text()
    with alone(home / "state", "bringup.lock", "bringup run"):
        code, _, err = typed("run", "gpu001", "--apply", "--quiet")
        assert code == 2 and "another muster bringup run --apply is running" in err
        assert (file.read_text(), (home / "down").read_text()) == (before, "")
        assert typed("run", "gpu001")[0] == 0


def test_a_run_that_cannot_be_has_changed_nothing(
    typed: Typed, home: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    def executors(*given: Any) -> dict[str, Executor]:
        raise ConfigError("the delivery list cannot be read")
    monkeypatch.setattr(sys.modules["provisioning.bringup.steps.executors"], "executors", executors)
    file = home / "muster.yaml"
    file.write_text(INVENTORY.replace("lifecycle: bringup", "lifecycle: planned"))
    before = file.read_text()
    assert typed("run", "gpu001", "--apply", "--quiet")[0] == 2 and file.read_text() == before


def test_a_login_that_was_refused_does_not_keep_a_machine_whose_step_is_skipped(
    typed: Typed, world: World, home: Path,
) -> None:
    world.shows["gpu001", "credentials"] = Observation(
        StepState.TROUBLE, "the login is refused", keep={"login": "refused"})
    assert typed("run", "gpu001", "--apply", "--quiet")[0] == 1
    steps = [word for step in ORDER[1:5] for word in ("--step", step)]
    assert typed("skip", "gpu001", *steps, "--reason", "settings were read off the screen")[0] in (0, None)
    assert typed("resume", "--quiet")[0] == 0 and stands(home)["gpu001"] == ("service", "done")
    assert not {("gpu001", step) for step in ORDER[2:5]} & set(world.looked)


def test_machines_without_a_controller_come_up_where_its_steps_are_left_out(typed: Typed, home: Path) -> None:
    (home / "muster.yaml").write_text("version: 1\ndefaults: {lifecycle: bringup}\nnodes: {old001: {}}\n")
    assert typed("run", "old001", "--apply", "--quiet")[0] == 2
    rules = home / "rules/bringup.yaml"
    rules.write_text(f"{rules.read_text()}without: [{', '.join(ORDER[:5])}]\n")
    assert typed(
        "run", "old001", "--apply", "--quiet")[0] == 0 and stands(home)["old001"] == ("service", "done")


@pytest.mark.parametrize(
    ("text", "message"),
    [("firmware: [{id: new, component: bmc, exactly: '2', skus: [hgx-h1oo]}]",
      "new: skus: no such SKU 'hgx-h1oo'; there are "),
     ("bios: [{id: new, settings: {A: b}, source: me, skus: [hgx-h1oo]}]",
      "new: skus: no such SKU 'hgx-h1oo'; there are "),
     ("checks: {profile: bringupp}", "checks: profile: no such profile 'bringupp'; there are ")])
def test_a_wish_for_what_the_rules_do_not_have_is_a_mistake_and_not_a_wish_for_no_one(
    typed: Typed, home: Path, text: str, message: str,
) -> None:
    with (home / "rules/bringup.yaml").open("a") as file:
        file.write(f"{text}\n")
    code, _, err = typed("run", "gpu001")
    assert code == 2 and f"rules/bringup.yaml: {message}" in err


def test_a_step_that_is_to_be_skipped_the_second_time_is_skipped_and_what_was_the_first_time_is_not(
    typed: Typed, world: World, home: Path,
) -> None:
    for step in ("bios", "boot"):
        typed("skip", "gpu001", "--step", step, "--reason", "read off the screen")
    assert typed("run", "gpu001", "--apply", "--quiet")[0] == 0 and ("gpu001", "bios") not in world.looked
    typed("skip", "gpu001", "--step", "bios", "--reason", "the board is new")
    typed("skip", "gpu001", "--step", "checks", "--reason", "the board is new")
    text = typed("plan", "gpu001")[1]
    assert "bios is skipped: " in text and "checks is skipped: " in text and "boot is skipped" not in text
    world.looked.clear()
    assert typed("run", "gpu001", "--apply", "--quiet")[0] == 0
    assert {step for _, step in world.looked} == set(ORDER) - {"bios", "checks", "soak"}
