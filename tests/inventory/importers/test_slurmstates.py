"""Each state of Slurm is a lifecycle with a reason, in every form in which Slurm writes it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from inventory import slurmstates
from inventory.importers import slurm
from inventory.model import LifecycleState

# Node states and flags of slurm.h up to 25.05, as `scontrol show node` writes them.
NOT_THERE = ("FUTURE", "POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POWER_DRAIN",
             "POWERING_UP", "POWER_UP")
THERE = ("ALLOCATED", "IDLE", "MIXED", "DOWN", "ERROR", "UNKNOWN", "CLOUD", "COMPLETING", "DRAIN", "FAIL",
         "DYNAMIC_NORM", "DYNAMIC_FUTURE", "EXTERNAL", "INVALID_REG", "MAINTENANCE", "NOT_RESPONDING",
         "PERFCTRS", "PLANNED", "REBOOT_REQUESTED", "REBOOT_ISSUED", "REBOOT_CANCELED", "RESERVED", "RESUME",
         "UNDRAIN", "BLOCKED")


def lifecycle(state: str) -> str:
    found = slurm.parse(f"NodeName=a NodeAddr=a State={state}\n".encode(), "x")
    return str(found.nodes["a"].get("lifecycle", "service"))


@pytest.mark.parametrize("state", NOT_THERE)
@pytest.mark.parametrize("form", ["{}", "IDLE+CLOUD+{}", "{}+CLOUD", "ALLOCATED+{}*"])
def test_a_node_whose_machine_is_not_there_is_planned(state: str, form: str) -> None:
    assert lifecycle(form.format(state)) == "planned"


@pytest.mark.parametrize("state", THERE)
def test_every_other_state_leaves_the_node_in_service(state: str) -> None:
    assert lifecycle(f"IDLE+{state}") == "service"
    assert slurmstates.meaning({state}) is None
    assert not slurmstates.unknown({state})


@pytest.mark.parametrize(("sign", "expected"), [
    ("~", "planned"), ("#", "planned"), ("!", "planned"), ("%", "planned"), ("*", "service"),
    ("$", "service"), ("@", "service"), ("^", "service"), ("-", "service"), ("", "service")])
def test_the_signs_behind_a_state_mean_what_the_words_do(sign: str, expected: str) -> None:
    for state in (f"IDLE{sign}", f"idle{sign}", f"MIXED+CLOUD{sign}"):
        assert lifecycle(state) == expected


@pytest.mark.parametrize("state", NOT_THERE)
def test_json_says_the_same(state: str) -> None:
    for node in ({"name": "a", "state": ["IDLE", "CLOUD", state]},
                 {"name": "a", "state": "idle", "state_flags": ["CLOUD", state]}):
        found = slurm.parse(json.dumps({"nodes": [node]}).encode(), "x")
        assert found.nodes["a"]["lifecycle"] == "planned"


def test_the_reason_is_noted_once_for_all_nodes() -> None:
    text = "".join(f"NodeName=gpu{number:03} NodeAddr=gpu{number:03} State=IDLE+CLOUD+POWERED_DOWN\n"
                   for number in range(1, 65))
    (note,) = slurm.parse(text.encode(), "x").notes
    assert note.startswith("gpu[001-064]: planned, as Slurm's state is POWERED_DOWN: ")


def test_a_state_that_is_not_known_is_said_and_counts_as_in_service() -> None:
    found = slurm.parse(b"NodeName=a NodeAddr=a State=IDLE+SPLENDID\n", "x")
    assert found.notes == ("a: Slurm's state 'SPLENDID' is not known here, and counts as in service",)
    assert dict(found.nodes["a"]) == {}


def test_every_state_has_a_reason_and_is_in_the_help() -> None:
    page = (Path(slurmstates.__file__).parent.parent / "healthcheck/help/importing.md").read_text()
    table = set(re.findall(r"[A-Z_]{3,}", page))
    assert {*NOT_THERE, *THERE} <= table
    assert all(means.why for means in slurmstates.MEANINGS.values())
    assert {means.lifecycle for means in slurmstates.MEANINGS.values()} == {
        LifecycleState.PLANNED, LifecycleState.SERVICE}
