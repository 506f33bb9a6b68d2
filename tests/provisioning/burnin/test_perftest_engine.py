"""`muster burnin run --stages fabric --engine perftest` with a stand-in for ib_write_bw on every node."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

import pytest

from tests.documents import validate
from tests.provisioning.burnin.fabricsite import FabricSite, cabled, outputs
from tests.testbed import ibwritebw
from tests.testbed.collector import await_none_with, processes_with

BURN = ("--stages", "fabric", "--fabric", "outputs", "--engine", "perftest")
SMALL = {"write.run_s": 5}
FULL = 2 * 8 * 0.97     # Gb/s both ways over 4X SDR


def burn(home: Path, *more: str, rates: dict[str, float] | None = None, fault: str = "",
         leaves: int = 2, per_leaf: int = 2) -> tuple[Any, FabricSite]:
    nodes = leaves * per_leaf
    outputs(home / "outputs", cabled(per_leaf, leaves, width=4))
    # one device a host, so that the stand-in can tell hosts apart
    for file in (home / "outputs").iterdir():
        text = file.read_text()
        for number in range(1, nodes + 1):
            text = text.replace(f"n{number} mlx5_0", f"n{number} mlx5_{number}")
        file.write_text(text)
    site = FabricSite(home, "/no/such/python", nodes=nodes, small=SMALL)
    folder = ibwritebw.install(home / "bin", rates or {}, FULL, fault)
    return site.run(*BURN, *more, PATH=f"{folder}:{os.environ['PATH']}"), site


def test_full_rates_prove_every_link_and_no_pytorch_is_needed(tmp_path: Path) -> None:
    done, site = burn(tmp_path)
    assert done.returncode == 0, (done.stdout, done.stderr)
    document = site.document()
    validate(document, "burnin-1")
    assert (document["verdict"] == "pass" and document["fabric"]["proven"] == 8
            and document["fabric"]["means"] == "write")
    assert {task["kind"] for task in document["tasks"]} == {"write"} and "write (perftest)" in done.stdout
    assert "links: 8 of 8 proven to carry 90% each way, by the forwarding tables" in done.stdout
    assert site.cordoned() == []
    again = site.muster("burnin", "show")
    assert (again.returncode, again.stdout) == (0, done.stdout)


def test_a_slow_adapter_s_link_is_named_and_its_node_alone_does_not_pass(tmp_path: Path) -> None:
    done, site = burn(tmp_path, rates={"mlx5_3": 4.0}, leaves=3)
    assert done.returncode == 1, (done.stdout, done.stderr)
    (accused,) = site.document()["accusations"]
    assert (accused["object"],
            accused["fault"]) == ("link", "slow link") and "n3 mlx5_3" in accused["name"], done.stdout
    assert {one["node"] for one in site.document()["nodes"] if one["outcome"] != "pass"} == {"n3"}


def test_of_links_that_share_every_pair_none_is_named_alone(tmp_path: Path) -> None:
    done, site = burn(tmp_path, rates={"mlx5_2": 4.0}, per_leaf=1)
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert [(one["object"], one["fault"]) for one in site.document()["accusations"]] == [
        ("unexplained", "slow link")], done.stdout
    assert ("cannot tell which of these links is slow: n1 mlx5_1 port 1 to leaf1 port 1; n2 mlx5_2 port 1 to "
            "leaf2 port 1; ") in done.stdout
    assert "links: 0 of 6 proven to carry 90% each way, by the forwarding tables" in done.stdout
    assert "not proven: n2 mlx5_2 port 1 to leaf2 port 1: n2 mlx5_2 port 1 was loaded to 25%" in done.stdout


def test_output_that_is_no_rate_is_not_measured_and_never_a_pass(tmp_path: Path) -> None:
    done, site = burn(tmp_path, fault="garbage", per_leaf=1)
    assert (done.returncode == 1
            and "ib_write_bw: it printed no rate: \\x1b[2J nothing of the kind" in done.stdout), done.stdout
    assert site.document()["fabric"]["proven"] == 0 and site.document()["verdict"] != "pass"


def test_where_it_is_not_installed_nothing_is_measured_and_the_node_is_reported_why(tmp_path: Path) -> None:
    done, site = burn(tmp_path, fault="absent", per_leaf=1)
    assert (done.returncode == 3
            and "ib_write_bw is not there: install perftest" in done.stdout), (done.stdout, done.stderr)
    assert site.document()["verdict"] == "unknown" and site.document()["tasks"] == []


def test_a_head_that_is_killed_leaves_no_ib_write_bw(tmp_path: Path) -> None:
    outputs(tmp_path / "outputs", cabled(width=4))
    mark = secrets.token_hex(8)
    site = FabricSite(tmp_path, "/no/such/python", marked=mark, small={"write.run_s": 60})
    folder = ibwritebw.install(tmp_path / "bin", {}, FULL, "hang")
    with site.come_to("fabric round 1", *BURN, PATH=f"{folder}:{os.environ['PATH']}") as head:
        assert processes_with(mark)
        head.kill()
    await_none_with(mark, 15)
    half = json.loads(site.muster("burnin", "show", "--format", "json").stdout)
    assert half["verdict"] == "unknown" and half["options"]["finished"] is False


@pytest.mark.parametrize(("words", "said"), [
    (("--stages", "fabric"),
     "--stages fabric is planned from saved outputs of the fabric's tools: give --fabric DIR"),
    (("--stages", "node", "--fabric", "outputs"), "--fabric goes with --stages fabric"),
    (("--stages", "node", "--engine", "perftest"),
     "--engine perftest runs the stage fabric: give --stages fabric and --fabric DIR"),
    (("--stages", "fabric", "--fabric", "nowhere"), "nowhere: is no folder of saved outputs"),
    (("--stages", "fabric", "--fabric", "outputs", "--via", "mlx5_0"), "--via goes with --fabric-node NODE"),
    (("--stages", "fabric", "--fabric", "outputs", "--fabric-node", "n1", "--via", "-x"),
     "--via -x: no name of a device"),
    (("--stages", "fabric", "--fabric", "outputs", "--fabric-node", "@all"),
     "--fabric-node @all: names 2 nodes, expected one"),
])
def test_what_cannot_be_meant_is_reported_before_anything_is_held(tmp_path: Path, words: tuple[str, ...],
                                                                  said: str) -> None:
    outputs(tmp_path / "outputs", cabled(width=4))
    site = FabricSite(tmp_path, "/no/such/python", nodes=2)
    done = site.run(*words)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr, done
    assert not (tmp_path / "state").exists()


def test_a_fabric_without_tables_needs_adaptive_and_then_only_counters_prove(tmp_path: Path) -> None:
    outputs(tmp_path / "outputs", cabled(width=4))
    (tmp_path / "outputs/dump_fts.txt").unlink()
    site = FabricSite(tmp_path, "/no/such/python", small=SMALL)
    folder = ibwritebw.install(tmp_path / "bin", {}, FULL)
    done = site.run(*BURN, PATH=f"{folder}:{os.environ['PATH']}")
    assert done.returncode == 2 and "no output shows forwarding tables" in done.stderr
    done = site.run(*BURN, "--adaptive", PATH=f"{folder}:{os.environ['PATH']}", code=3)
    assert "not proven" in done.stdout and "only counters prove what adaptive routing did" in done.stdout
    assert site.document()["verdict"] == "unknown"


def test_the_plan_shows_its_rounds_and_touches_nothing(tmp_path: Path) -> None:
    outputs(tmp_path / "outputs", cabled(width=4))
    site = FabricSite(tmp_path, "/no/such/python")
    done = site.muster("burnin", "plan", "@all", "--stages", "fabric", "--fabric", "outputs")
    assert done.returncode == 0 and done.stdout.splitlines()[1].startswith("fabric  round 1"), done
    assert not (tmp_path / "state").exists()
