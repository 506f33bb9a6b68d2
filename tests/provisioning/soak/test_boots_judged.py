"""What a real sweep of this machine leaves in the record of a boot."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.config.rulesfolder import packaged
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.store.file import opened
from provisioning.bringup.engine.model import Machine
from provisioning.bringup.steps.soakboots import BootTimes, NodeBoots
from provisioning.soak.record import SoakRecord, read, write
from tests.provisioning.bringup.afteros import context, machines

TIMES = BootTimes("warm", 1000.0, 1050.0, 1100.0)


@pytest.fixture
def boots(tmp_path: Path) -> tuple[NodeBoots, Machine]:
    (tmp_path / "muster.yaml").write_text(
        json.dumps({"version": 1, "nodes": {"n1": {"sku": "cpu-only", "lifecycle": "bringup"}}}))
    rules = load_ruleset([packaged()])
    of = context(tmp_path,
                 replace(rules, rules=tuple(one for one in rules.rules
                                            if one.id in ("filesystem-read-only", "kernel-fault"))))
    return NodeBoots(of, "bringup"), machines(of, "n1")[0]


def test_a_boot_is_recorded_with_rules_parts_and_log_of_a_real_sweep_which_is_in_the_store(
    tmp_path: Path, boots: tuple[NodeBoots, Machine],
) -> None:
    nodes, machine = boots
    look = nodes.look(machine.node)
    found = nodes.judged(machine, look, TIMES)
    assert found.message == "" and found.record is not None
    one = found.record
    assert (one.kind, one.boot, one.seconds, one.memory, one.cpus) == ("warm", look.boot, 100.0,
                                                                       look.memory, look.cpus)
    assert one.pci == look.pci and one.rules["filesystem-read-only"][0] == "pass"
    assert {name.partition(" ")[0] for name in one.parts} <= {"gpu", "hca", "nvme", "dimm", "board",
                                                              "chassis", "disk", "psu"}
    assert not one.forms or one.log is not None, "errors of a log that was not read"
    write(tmp_path / "state", SoakRecord("n1", "cpu-only", "1", ("warm",), (one,)))
    assert read(tmp_path / "state", "n1") == SoakRecord("n1", "cpu-only", "1", ("warm",), (one,))
    with opened(tmp_path / "state") as store:
        assert [row[0] for row in store.rows("SELECT source FROM sweep")] == ["muster bringup"]


def test_a_sweep_of_another_boot_than_was_looked_at_is_no_record(boots: tuple[NodeBoots, Machine]) -> None:
    nodes, machine = boots
    found = nodes.judged(machine, replace(nodes.look(machine.node), boot="another"), TIMES)
    assert found.record is None and found.message == "it restarted while it was checked"


def test_a_machine_that_cannot_be_swept_is_no_record_and_says_why(boots: tuple[NodeBoots, Machine]) -> None:
    nodes, machine = boots
    look = nodes.look(machine.node)
    found = nodes.judged(replace(machine, node=replace(machine.node, python="/no/such/python")), look, TIMES)
    assert found.record is None and found.message
