"""The whole outputs of `muster fabric diff` and `map`, of one fabric with a swap, a missing cable, a host
that is off and one too many.

MUSTER_GOLDEN=update writes them anew.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.subnet import plancsv
from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedEnd
from tests.command import muster
from tests.documents import validate
from tests.goldens import golden
from tests.testbed import fabricoutputs
from tests.testbed.ibfabric import two_tiers

PLAN = two_tiers(8, 4, 2)
SCHEMAS = {"diff": "fabric-diff-1", "map": "fabric-map-1"}


def cabled() -> CablingPlan:
    """gpu002 and gpu006 are swapped, an uplink is missing, gpu008 is off, and a cable joins free ports."""
    first, second = (next(one for one in PLAN.cables if one.a.device == host)
                     for host in ("gpu002", "gpu006"))
    gone = next(one for one in PLAN.cables if one.a.device == "leaf02" and one.b.device == "spine01")
    cables = [replace(one, b=second.b) if one == first else replace(one, b=first.b) if one == second else one
              for one in PLAN.cables if one != gone and one.a.device != "gpu008"]
    extra = PlannedCable(PlannedEnd("leaf01", "20"), PlannedEnd("spine02", "20"), width=4, speed="HDR")
    return CablingPlan(PLAN.devices, (*cables, extra))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fabric")
    (folder / "plan.csv").write_text(plancsv.write(PLAN))
    fabricoutputs.write(cabled(), folder / "outputs")
    return folder


@pytest.mark.parametrize(("command", "form", "code"), [
    ("diff", "table", 1), ("diff", "json", 1), ("diff", "csv", 1), ("map", "table", 0), ("map", "json", 0),
    ("map", "dot", 0), ("map", "slurm", 0),
    ("map", "slurm-block", 0), ("map", "hosts", 0)])
def test_the_output_is_as_it_was(home: Path, command: str, form: str, code: int) -> None:
    done = muster("fabric", command, "--plan", "plan.csv", "--from", "outputs", "--format", form, home=home)
    assert (done.returncode, done.stderr) == (code, "")
    if form == "json":
        validate(json.loads(done.stdout), SCHEMAS[command])
    golden(f"fabric/{command}.{form}", done.stdout)
