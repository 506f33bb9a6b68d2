"""Burn-in on a real GPU: what it measures of one, and whom real NCCL ranks accuse.

Four nodes of one GPU each are this machine's one GPU (tests.testbed.badgpu says how NCCL bears that), so that
nothing here judges speed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from healthcheck.burnin.model import BurnInStage
from healthcheck.burnin.published import learning_stage
from tests.healthcheck.burnin.workers import Nodes
from tests.provisioning.burnin.site import Site
from tests.testbed import badgpu

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400)]

# A whole burn-in of four nodes takes 95 s on an H200.
EACH_S = 300
FIGURES = ("tflops_fp64", "tflops_fp32", "tflops_tf32", "tflops_fp16", "tflops_bf16", "tflops_fp8",
           "memory_gb_s", "copy_to_gb_s", "copy_from_gb_s",
           "copy_within_gb_s", "host_gb_s", "busbw_gb_s", "train_steps_s", "busbw_by_size_gb_s")
ACCEPTED = [f"{figure} in {stage}" for figure in (*FIGURES, "checksums")
            for stage in sorted({learning_stage(stage).value for stage in BurnInStage})]
RULES = (f"relative: {{nccl: null, gloo: null}}\njitter: {{nccl: null, gloo: null}}\ncoverage: {{nccl: "
         f"null}}\naccept:\n  nccl: {json.dumps(ACCEPTED)}\n")
SMALL = {"known.n": 1024, "known.precisions": "all", "random.n": 1024, "random.precisions": "all",
         "memory.bytes": 1 << 28, "rate.n": 1024,
         "rate.precisions": "all", "copy.bytes": 1 << 26, "allreduce.bytes": 1 << 20,
         "allreduce.iterations": 12}


@pytest.fixture
def site(tmp_path: Path, cuda_python: str) -> Site:
    return Site(tmp_path, cuda_python, sku="single-gpu", small=SMALL, rules=RULES)


def accused(site: Site) -> list[tuple[str, str, str]]:
    return sorted((one["object"], one["name"], one["fault"]) for one in site.document()["accusations"])


def test_sound_gpus_pass_every_stage_with_nccl(site: Site) -> None:
    done = site.run(timeout=EACH_S)
    found = site.document()
    assert accused(site) == [] and done.returncode == 0, (done.stdout, done.stderr)
    assert {task["reports"]["facts"]["backend"] if "facts" in task["reports"] else "nccl"
            for task in found["tasks"]} == {"nccl"}


@pytest.mark.parametrize(("fault", "name"), [
    ({"fault": "product", "node": "n3", "iteration": 1}, "wrong data"),
    ({"fault": "stuck", "node": "n3"}, "wrong data"),
    ({"fault": "flip", "node": "n3", "iteration": 4, "every": True}, "wrong data"),
    ({"fault": "killed", "node": "n3", "iteration": 3}, "dead"),
    ({"fault": "stopped", "node": "n3", "iteration": 3}, "stopped"),
    ({"fault": "hung", "node": "n3", "iteration": 3}, "hung"),
    ({"fault": "raises", "node": "n3", "iteration": 3}, "raised"),
    ({"fault": "gradient", "node": "n3", "iteration": 4, "bit": 20}, "wrong data"),
])
def test_the_gpu_with_a_fault_is_named_and_no_other(site: Site, fault: dict[str, Any], name: str) -> None:
    site.plant(fault)
    done = site.run("--stages", "node,leaf-pairs", timeout=EACH_S)
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert accused(site) == [("gpu", "n3:0", name)], (done.stdout, done.stderr)


@pytest.mark.parametrize(("fault", "name"), [
    ({"fault": "killed", "node": "n2", "least_world": 4, "iteration": 3}, "dead"),
    ({"fault": "stopped", "node": "n2", "least_world": 4, "iteration": 3}, "stopped"),
    ({"fault": "never", "node": "n2", "least_world": 4}, "absent"),
])
def test_who_stops_all_nodes_is_named_and_they_are_tried_again_without_it(site: Site, fault: dict[str, Any],
                                                                          name: str) -> None:
    site.plant(fault)
    done = site.run("--stages", "leaf-pairs,cross-pairs,all", timeout=EACH_S)
    assert accused(site) == [("gpu", "n2:0", name)], (done.stdout, done.stderr)
    worlds = [len(task["seats"]) for task in site.document()["tasks"] if task["stage"] == "all"]
    assert worlds[0] == 4 and worlds[-1] == 3, worlds


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory, cuda_python: str) -> Iterator[Callable[..., Any]]:
    plan = tmp_path_factory.mktemp("gpu") / "plan.json"
    plan.write_text("[]")
    with Nodes(["a", "b", "c", "d"], [cuda_python, badgpu.__file__, str(plan)]) as nodes:
        def task(kind: str, **params: Any) -> Any:
            plan.write_text(json.dumps(params.pop("faults", [])))
            return nodes.task(kind, [(name, 0) for name in "abcd"], **params)
        yield task


def test_every_collective_of_nccl_is_exact_and_its_log_names_network_and_algorithm(
        ranks: Callable[..., Any]) -> None:
    came = ranks("allreduce", bytes=1 << 20, iterations=8, checks=2)
    for report in came.reports.values():
        assert (report["end"], report["wrong_total"]) == ("done", 0), report
        # As many all-reduces in a row share a check as keep checks within their share of the time.
        assert (8 <= report["figures"]["verified"] < 8 + 32
                and not report["facts"].get("arithmetic_not")), report["facts"]
        assert report["facts"]["nccl_via"].startswith("NET/Socket ") and report["facts"]["nccl_gdrdma"] == "0"
    sizes = ranks("sizes", bytes=1 << 20, iterations=5)
    assert any(name.startswith("latency_us_") for name in sizes.reports[0]["figures"]), sizes.reports[0]


def test_a_rank_that_stops_in_nccl_is_seen_by_the_others_flight_recorder_and_ras(
        ranks: Callable[..., Any]) -> None:
    came = ranks("allreduce", seconds=20, bytes=1 << 20, iterations=50, checks=0,
                 faults=[{"fault": "hung", "node": "b", "gpu": 0, "iteration": 5}])
    others = [report for rank, report in came.reports.items() if rank != 1]
    assert others and all("allreduce" in report["facts"].get("flight", "").lower().replace("_", "")
                          for report in others), came.reports
    assert any(report["facts"].get("ras") for report in others), came.reports


