"""`muster burnin run` as it is typed, with real ranks: well, with a bad GPU, with a head that is killed, and
through a real Slurm."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.provisioning.burnin.site import Site, kept
from tests.testbed import torches
from tests.testbed.collector import await_none_with, processes_with
from tests.testbed.require import require
from tests.testbed.slurm import WHY_NOT, can_run
from tests.testbed.slurm import slurm as cluster
from tests.testbed.sshd import Sshd, wait_until


def test_well_nodes_pass_every_stage_and_are_given_back_with_a_page_a_document_and_a_picture(
    tmp_path: Path,
) -> None:
    site = Site(tmp_path, torches.forked(), nodes=3)
    done = site.run("--svg", "pairs.svg", code=0)
    assert done.stdout.startswith("PASS  burn-in 2") and "3 nodes" in done.stdout and "n[1-3]" in done.stdout
    found = site.document()
    stages = Counter(task["stage"] for task in found["tasks"])
    assert stages == {"node": 27, "leaf-pairs": 1, "leaf-confirm": 1, "cross-pairs": 8, "all": 2, "train": 1}
    assert found["verdict"] == "pass" and found["options"]["finished"] is True and not found["accusations"]
    assert [path.read_bytes() for path in kept(tmp_path / "state")] == [(tmp_path / "doc.json").read_bytes()]
    assert "1 - 2" not in done.stdout and len(list(ElementTree.parse(  # noqa: S314  (ours)
        tmp_path / "pairs.svg").iter())) > 20
    assert site.cordoned() == [] and "burnin: leaf-pairs round 1: 1 task on 2 nodes" in done.stderr
    again = site.muster("burnin", "show")
    assert (again.returncode, again.stdout) == (0, done.stdout)
    assert site.muster("burnin", "show", "--list").stdout.startswith(f"{found['run']}  pass  ")


@pytest.mark.slow
def test_a_bad_gpu_is_named_leaves_the_later_stages_and_the_others_go_on(tmp_path: Path) -> None:
    site = Site(tmp_path, torches.forked(), nodes=3, ranks=2)
    site.plant({"fault": "product", "node": "n3", "gpu": 1})
    done = site.run("--stages", "node,leaf-pairs,all", code=1)
    found = site.document()
    assert [(one["object"], one["name"], one["fault"]) for one in found["accusations"]] == [
        ("gpu", "n3:1", "wrong data")], done.stdout
    assert {one["node"]: one["outcome"] for one in found["nodes"]}["n3"] == "fail"
    later = [task for task in found["tasks"] if task["stage"] != "node"]
    assert later and not any("n3:" in seat for task in later for seat in task["seats"])
    assert {one["node"]: one["outcome"] for one in found["nodes"] if one["node"] in ("n1", "n2")} == {
        "n1": "pass", "n2": "pass"}
    assert "gpu n3:1: wrong data" in done.stdout and site.cordoned() == []


@pytest.mark.slow
def test_a_rank_that_dies_among_all_nodes_is_named_and_they_are_tried_again_without_its_node(
    tmp_path: Path,
) -> None:
    site = Site(tmp_path, torches.forked())
    site.plant({"fault": "killed", "node": "n2", "least_world": 4, "iteration": 3})
    done = site.run("--stages", "all", code=1)
    found = site.document()
    assert [(one["object"], one["name"], one["fault"]) for one in found["accusations"]] == [
        ("gpu", "n2:0", "dead")], done.stdout
    worlds = [len(task["seats"]) for task in found["tasks"] if task["stage"] == "all"]
    assert worlds == [4, 3, 3] and {one["node"]: one["outcome"] for one in found["nodes"]} == {
        "n1": "pass", "n2": "fail", "n3": "pass", "n4": "pass"}


@pytest.mark.slow
def test_a_head_that_is_killed_leaves_no_rank_and_the_next_run_starts_clean(tmp_path: Path) -> None:
    mark = secrets.token_hex(8)
    site = Site(tmp_path, torches.python(), nodes=2, marked=mark)
    with site.come_to("leaf-pairs", "--stages", "node,leaf-pairs") as head:
        assert len(processes_with(mark)) > 4 and site.cordoned() == site.names
        head.kill()
    await_none_with(mark, 15)
    left = site.muster("burnin", "show", "--format", "json")
    half = json.loads(left.stdout)
    assert left.returncode == 3 and half["options"]["finished"] is False and half["verdict"] == "unknown"
    assert [task["kind"] for task in half["tasks"] if task["stage"] == "node"].count("copy") == 2
    assert all("the burn-in was not finished" in one["why"] for one in half["nodes"])
    assert "holder dead" in site.muster("lease", "list").stdout
    done = site.run("--stages", "leaf-pairs")
    assert done.returncode == 0 and "given back: the process that held it is gone" in done.stderr, (
        done.stdout, done.stderr)
    assert site.cordoned() == [] and len(kept(tmp_path / "state")) == 2
    await_none_with(mark, 15)


def test_a_node_without_pytorch_does_not_pass_and_is_reported_why(tmp_path: Path) -> None:
    site = Site(tmp_path, torches.forked(), nodes=3)
    text = json.loads((tmp_path / "muster.yaml").read_text())
    text["nodes"]["n3"]["burnin"] = {"python": ["/no/such/python"]}
    (tmp_path / "muster.yaml").write_text(json.dumps(text))
    site.run("--stages", "leaf-pairs", code=3)
    found = {one["node"]: one for one in site.document()["nodes"]}
    assert {
        node: one["outcome"] for node, one in found.items()} == {"n1": "pass", "n2": "pass", "n3": "unknown"}
    assert "/no/such/python" in found["n3"]["why"][0] and site.document()["accusations"] == []


def test_through_a_real_slurm_ranks_run_within_the_lease_s_reservation(tmp_path: Path) -> None:
    require(can_run(), WHY_NOT)
    (tmp_path / "slurm").mkdir()
    site = Site(tmp_path, torches.forked(), nodes=2, cordon="slurm")
    with cluster(tmp_path / "slurm", site.names, gres="gpu:h100:8") as bed:
        site.run("--stages", "leaf-pairs", launcher="slurm", code=0, **bed.environment)
        # Two looks and the ranks, and one look more at whether the nodes are idle.
        assert bed.ask("scontrol", "--oneliner", "show", "job").count("JobName=muster-") == 8
        assert "ReservationName" not in bed.ask("scontrol", "show", "reservation")
        wait_until(lambda: set(bed.states().values()) == {"idle"}, what="idle nodes")
    assert {one["outcome"] for one in site.document()["nodes"]} == {"pass"}


def test_over_ssh_the_head_is_found_by_what_sshd_says_of_the_connection(
    tmp_path: Path, plain_sshd: Sshd,
) -> None:
    site = Site(tmp_path, torches.forked(), nodes=1)
    text = json.loads((tmp_path / "muster.yaml").read_text())
    del text["burnin"]["head"]
    text["nodes"]["n1"].update(
        address="127.0.0.1", port=plain_sshd.port, user=plain_sshd.user,
        identity_file=str(plain_sshd.user_key), known_hosts_file=str(plain_sshd.known_hosts))
    (tmp_path / "muster.yaml").write_text(json.dumps(text))
    done = site.run("--stages", "node", launcher="ssh")
    assert done.returncode == 0 and site.cordoned() == [], (done.stdout, done.stderr)
    assert {task["kind"] for task in site.document()["tasks"]} == {
        "known", "random", "memory", "rate", "copy", "host", "allreduce", "sizes", "train"}


@pytest.mark.parametrize(
    ("more", "said"),
    [(("--launcher", "slurm"),
      "muster: --launcher slurm starts programs within the lease's reservation: it needs `cordon: slurm` "
      "in the inventory"),
     (("--stages", "nodes"),
      "muster: --stages 'nodes': expected some of node, rail, leaf-pairs, cross-pairs, fabric, all, "
      "train, soak"),
     (("--max-kw", "3"),
      "muster: what n1 and 1 more draws at most is not known, and power is limited: set it in the inventory"),
     (("--sku", "cray"), "muster: --sku cray: no such SKU; there are ")])
def test_what_cannot_be_meant_is_reported_before_anything_is_held(
    tmp_path: Path, more: tuple[str, ...], said: str,
) -> None:
    site = Site(tmp_path, "/no/such/python", nodes=2)
    done = site.run(*more)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith(said), done
    assert not (tmp_path / "state").exists()
