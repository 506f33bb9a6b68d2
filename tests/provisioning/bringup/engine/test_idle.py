"""Whether a machine may be disturbed: a job or a living lease keeps it; unknown is no leave."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from healthcheck.store import leases
from healthcheck.store.file import opened
from inventory.errors import InventoryError
from inventory.model import CordonBy, Inventory, IsolationBackend
from provisioning.actions.base import ActionError, Holder, NodeHold
from provisioning.bringup.engine.idle import IdleCheck, idle
from provisioning.bringup.engine.model import Machine
from provisioning.lease.holder import me
from tests.provisioning.bringup.filled import NOW, place

ONE, TWO = Machine(place("gpu001"), NOW, NOW), Machine(place("gpu002"), NOW, NOW)


@dataclass
class Backend:
    """A back end that knows some nodes, or cannot be asked."""

    busy: dict[str, bool | None] = field(default_factory=dict)
    broken: bool = False
    asked: int = 0
    name: str = "slots"

    def held(self, nodes: Collection[str]) -> Mapping[str, NodeHold]:
        self.asked += 1
        if self.broken:
            raise ActionError("it does not answer")
        return {
            node: NodeHold(Holder.OTHERS, busy=self.busy[node]) if node in self.busy
                else NodeHold(Holder.ABSENT) for node in nodes}

    def isolate(self, node: str, reason: str) -> None:
        raise AssertionError

    def release(self, node: str, shown: str = "") -> None:
        raise AssertionError


def asking(folder: Path, through: Backend | None, *, must: bool = True, now: float = NOW) -> IdleCheck:
    return IdleCheck(folder, ["gpu001", "gpu002"], through, must=must, clock=lambda: now)


def test_where_nothing_keeps_jobs_away_lifecycle_is_proof_enough(tmp_path: Path) -> None:
    assert asking(tmp_path, None)(ONE) == ""


@pytest.mark.parametrize(("busy", "said"),
                         [({"gpu001": True}, "a job is on it, by slots"), ({"gpu001": False}, ""),
                          ({"gpu001": None}, ""), ({}, "")])
def test_a_job_keeps_a_machine_and_one_that_the_scheduler_does_not_know_has_none(
    tmp_path: Path, busy: dict[str, bool | None], said: str,
) -> None:
    assert asking(tmp_path, Backend(busy))(ONE) == said


def test_a_back_end_that_is_named_must_answer_and_one_that_is_not_need_not(tmp_path: Path) -> None:
    with pytest.raises(ActionError):
        asking(tmp_path, Backend(broken=True))(ONE)
    assert asking(tmp_path, Backend(broken=True), must=False)(ONE) == ""


def test_machines_that_ask_together_share_an_answer_and_later_ones_do_not(tmp_path: Path) -> None:
    through, now = Backend({"gpu002": True}), NOW
    ask = IdleCheck(tmp_path, ["gpu001", "gpu002"], through, must=True, clock=lambda: now)
    assert (ask(ONE), ask(TWO), through.asked) == ("", "a job is on it, by slots", 2)
    now += 3
    through.busy = {"gpu001": True}
    assert (ask(ONE), ask(TWO), through.asked) == ("a job is on it, by slots", "", 4)
    now -= 100      # a clock that was put back
    assert ask(ONE) and through.asked == 6


@pytest.mark.parametrize(
    ("holder", "until", "said"),
    [(json.dumps({"boot": "another", "pid": 1, "start": 1}), NOW + 60,
      "lease 1 of ops is on it (muster burnin run): muster lease list"),
     (json.dumps({"boot": "another", "pid": 1, "start": 1}), NOW - 60, ""), ("ours", NOW + 60, ""),
     ("dead", NOW + 60, "")], ids=["another host's", "another host's, over", "ours", "a dead process's"])
def test_a_lease_of_somebody_who_may_live_keeps_a_machine(
    tmp_path: Path, holder: str, until: float, said: str,
) -> None:
    if holder == "ours":
        holder = me()
    if holder == "dead":
        holder = json.dumps({**json.loads(me()), "pid": 2**22 + 1})
    with opened(tmp_path, make=True) as store:
        leases.begin(
            store, "cordon", "slots", ["gpu001"], "muster burnin run", "ops", holder, NOW - 60, until)
    assert asking(tmp_path, None)(ONE) == said
    assert asking(tmp_path, None)(TWO) == ""


def test_the_back_end_is_that_of_the_inventory(tmp_path: Path) -> None:
    (tmp_path / "down").write_text("gpu001\n")
    there = Inventory({}, {}, "muster.yaml", CordonBy(IsolationBackend.HOSTFILE, str(tmp_path / "down")))
    assert idle(tmp_path, there, ["gpu001"])(ONE) == ""


def test_without_any_back_end_no_one_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert idle(tmp_path, Inventory({}, {}, "muster.yaml"), ["gpu001"])(ONE) == ""
    with pytest.raises(Exception, match="scontrol was not found"):
        idle(tmp_path, Inventory({}, {}, "muster.yaml", CordonBy(IsolationBackend.SLURM)), ["gpu001"])


def test_a_machine_that_a_person_took_out_of_bring_up_meanwhile_is_not_disturbed(tmp_path: Path) -> None:
    file = tmp_path / "muster.yaml"
    file.write_text("version: 1\ndefaults: {lifecycle: bringup}\nnodes: {gpu001: {}, gpu002: {}}\n")
    ask = IdleCheck(tmp_path, ["gpu001", "gpu002"], None, must=False, path=file)
    assert ask(ONE) == ask(TWO) == ""
    file.write_text("version: 1\ndefaults: {lifecycle: bringup}\nnodes: {gpu001: {lifecycle: service}}\n")
    assert ask(ONE).startswith("its lifecycle is service") and ask(TWO) == f"{file} does not name it any more"
    file.unlink()
    with pytest.raises(InventoryError):
        ask(ONE)


def test_a_job_that_came_just_before_the_machine_was_held_is_seen(tmp_path: Path) -> None:
    class Late(Backend):
        """Free at first, where a job comes at once; held from the second look on."""

        def held(self, nodes: Collection[str]) -> Mapping[str, NodeHold]:
            self.asked += 1
            return {
                node: NodeHold(Holder.NO_ONE, busy=False) if self.asked == 1
                    else NodeHold(Holder.OTHERS, busy=True) for node in nodes}
    assert asking(tmp_path, Late())(ONE) != ""
