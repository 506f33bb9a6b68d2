"""`muster fabric diff` against a simulated fabric (ibsim) made of the plan's own topology file, read with the
real tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from healthcheck.subnet import plancsv
from healthcheck.subnet.cabling import PlannedEnd, Tier
from healthcheck.subnet.portlabel import number_of
from healthcheck.subnet.topologyfile import guid_of, topology
from tests.command import muster
from tests.documents import validate
from tests.healthcheck.subnet.made import rails
from tests.testbed.ibfabric import Fabric, NetPort, fabric, require_fabric

PLAN = rails(hosts=8, ports=4, per_leaf=4, radix=16)
WITHOUT = ("saquery-smir", "saquery-issm", "ibqueryerrors", "ibqueryerrors-data", "sminfo")


def there(end: PlannedEnd) -> NetPort:
    """Where the topology file puts a planned end."""
    if PLAN.devices[end.device].tier is Tier.HOST:
        return NetPort(f"H-{guid_of(f'{end.device} {end.port}')}", 1)
    return NetPort(f"S-{guid_of(end.device)}", number_of(end.port) or 0)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    require_fabric()
    folder = tmp_path_factory.mktemp("fabric")
    with fabric(folder / "sim", PLAN, topology(PLAN)) as bed:
        bed.there = {end: there(end) for end in bed.there}
        yield bed


def looked(bed: Fabric, folder: Path) -> dict[str, Any]:
    """What the command prints of the fabric as it is now."""
    (folder / "plan.csv").write_text(plancsv.write(PLAN))
    bed.look(folder / "outputs", without=WITHOUT)
    done = muster("fabric", "diff", "--plan", "plan.csv", "--from", "outputs", "--format",
                  "json", home=folder)
    found: dict[str, Any] = json.loads(done.stdout)
    validate(found, "fabric-diff-1")
    assert found["exit"] == done.returncode, done.stderr
    return found


def kinds(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["kind"], one["what"]) for one in found["differences"]]


def cable(at: int) -> tuple[NetPort, NetPort]:
    return there(PLAN.cables[at].a), there(PLAN.cables[at].b)


def test_a_fabric_made_of_the_plan_is_as_planned(running: Fabric, tmp_path: Path) -> None:
    found = looked(running, tmp_path)
    assert (found["same"] == found["planned"] == len(PLAN.cables) and not found["differences"]
            and not found["notes"])


def test_a_swapped_pair_is_named_and_repaired_by_its_own_steps(running: Fabric, tmp_path: Path) -> None:
    (one, at), (other, to) = cable(0), cable(17)
    running.tell(f"Unlink {one}", f"Unlink {other}", f"Link {one} {to}", f"Link {other} {at}")
    found = looked(running, tmp_path)
    assert [kind for kind, _ in kinds(found)] == ["swapped"] and found["plugs"] == 2
    # What the steps say, done on the simulator: a cable's two ends are known by where its other end stays.
    moves = [step for step in found["differences"][0]["steps"] if step["action"] == "move"]
    ends = [(there(PlannedEnd(**step["other"])), there(PlannedEnd(**step["to"]))) for step in moves]
    running.tell(*(f"Unlink {stays}" for stays, _ in ends), *(f"Link {stays} {into}" for stays, into in ends))
    (tmp_path / "again").mkdir()
    assert not looked(running, tmp_path / "again")["differences"]


def test_a_link_that_is_down_is_missing_and_a_host_that_is_off_is_unknown(running: Fabric,
                                                                          tmp_path: Path) -> None:
    down, off = cable(5), [cable(at) for at in range(8, 12)]
    running.tell(f"Unlink {down[0]}", *(f"Unlink {one}" for one, _ in off))
    try:
        found = looked(running, tmp_path)
        assert kinds(found) == [
            ("missing",
             "gpu02 port mlx5_1 to leaf002 port 2: no link is seen: no cable, an end unplugged, or down"),
            ("unknown", "gpu03 not seen")]
        assert found["same"] == len(PLAN.cables) - 5
    finally:
        running.tell(*(f"Link {one} {other}" for one, other in [down, *off]))
