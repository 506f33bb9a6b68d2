"""`muster burnin run --stages fabric --engine perftest` with real ib_write_bw over soft RoCE, between two
virtual machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.provisioning.burnin.fabricsite import FabricSite, cabled, outputs
from tests.testbed.vm.machine import BOOT_SECONDS
from tests.testbed.vm.rxe import DEVICE, rxe


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.timeout(3 * BOOT_SECONDS + 900)
def test_pairs_of_ib_write_bw_run_and_each_link_has_a_result(tmp_path: Path) -> None:
    with rxe(tmp_path, 2) as nodes:
        outputs(tmp_path / "outputs", cabled(leaves=1, spines=0))
        for file in (tmp_path / "outputs").iterdir():
            file.write_text(file.read_text().replace("mlx5_0", DEVICE))
        # An emulated processor is late to answer: a packet is not sent again too soon.
        site = FabricSite(tmp_path, "/no/such/python", nodes=2,
                          small={"write.run_s": 8, "write.qp_timeout": 20})
        document = json.loads((tmp_path / "muster.yaml").read_text())
        for name, node in nodes.items():
            document["nodes"][name].update(node.entry())
        (tmp_path / "muster.yaml").write_text(json.dumps(document))
        done = site.run("--stages", "fabric", "--fabric", "outputs", "--share", "1", "--engine", "perftest",
                        launcher="ssh", timeout=800)
    found = site.document()
    assert found["tasks"] and all(task["kind"] == "write" and task["reports"]["end"] == "done"
                                  for task in found["tasks"]), (
                                      done.stdout, done.stderr)
    # A few Mbit/s of emulated processors: whether that is slow says nothing, but it is measured, and of every
    # link something is said.
    assert all(task["reports"]["figures"]["write_gb_s"] > 0 for task in found["tasks"])
    links = found["fabric"]
    assert links["links"] == 2 and links["proven"] + len(links["slow"]) + len(links["unproven"]) == 2
    assert done.returncode in (0, 1) and site.cordoned() == []
