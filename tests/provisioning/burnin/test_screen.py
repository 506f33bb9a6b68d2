"""`muster burnin screen` as it is typed: real ranks on idle nodes of a real Slurm, jobs that arrive
meanwhile, a head that is killed."""

from __future__ import annotations

import contextlib
import json
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from healthcheck.certify.certificate import Passed
from healthcheck.certify.keys import new_key
from healthcheck.certify.manifest import issue, load_manifest
from healthcheck.store import screened
from healthcheck.store.file import opened
from healthcheck.store.history import problems
from tests.documents import schema
from tests.provisioning.burnin.site import Site, kept
from tests.testbed import torches
from tests.testbed.collector import await_none_with, processes_with
from tests.testbed.kubernetes import serving
from tests.testbed.require import require
from tests.testbed.slurm import WHY_NOT, Slurm, can_run
from tests.testbed.slurm import slurm as cluster
from tests.testbed.sshd import wait_until

# An all-reduce that lasts, for those who come in the middle of it.
LONG = {"allreduce.run_s": 300}
SCREEN = ("burnin", "screen", "--rules", "rules", "--launcher", "local")


def site_of(home: Path, *, nodes: int = 3, cordon: Any = "slurm", **more: Any) -> Site:
    """Nodes of one leaf in service."""
    site = Site(home, torches.python(), nodes=nodes, cordon=cordon, **more)
    text = json.loads((home / "muster.yaml").read_text())
    for entry in text["nodes"].values():
        entry["leaf"] = "leaf1"
    (home / "muster.yaml").write_text(json.dumps(text))
    return site


@contextlib.contextmanager
def slurm_of(site: Site) -> Iterator[Slurm]:
    require(can_run(), WHY_NOT)
    (site.home / "slurm").mkdir()
    with cluster(site.home / "slurm", site.names) as bed:
        yield bed


def submitted(bed: Slurm, *words: str) -> str:
    """The number of a job that has been submitted."""
    return bed.ask(
        "sbatch", "--parsable", "-p", "main", "-o", "/dev/null", *words, "--wrap", "sleep 600").strip()


def state(bed: Slurm, job: str) -> str:
    return bed.ask("squeue", "-h", "-j", job, "-o", "%T").strip()


@contextlib.contextmanager
def at_work(site: Site, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A screening whose ranks are in the all-reduce that lasts."""
    head = subprocess.Popen(
        [*site.words()[:1], *SCREEN, "--apply"], cwd=site.home, env=site.environment(**variables), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert head.stderr is not None
        seen = []
        for line in head.stderr:
            seen.append(line)
            if "node allreduce" in line:
                break
        else:
            raise AssertionError((seen, head.stdout.read() if head.stdout is not None else ""))
        yield head
    finally:
        head.kill()
        if head.stdout is not None and not head.stdout.closed:
            head.communicate()


def screenings(site: Site) -> dict[str, tuple[str, bool]]:
    with opened(site.home / "state") as store:
        return {node: (one.run, one.conclusive) for node, one in screened.newest(store).items()}


def checked(printed: str) -> dict[str, Any]:
    """The document, which its schema describes."""
    found: dict[str, Any] = json.loads(printed)
    jsonschema.validate(found, schema("screen-1"))
    return found


@pytest.mark.slow
def test_idle_nodes_are_screened_the_longest_unproven_first_and_nodes_with_a_job_a_drain_or_a_cordon_are_not(
    tmp_path: Path,
) -> None:
    site = site_of(tmp_path, nodes=6)
    state_ = tmp_path / "state"
    new_key(state_, "alpha", "test", time.time())
    hardware = {"gpu 0000:1b:00.0": {"serial": "1"}}
    issue(state_,
          [Passed("n1", "quick", int(time.time() - 86400), boot="b"),
           Passed("n2", "quick", int(time.time() - 30 * 86400), boot="b")], {"n1": hardware, "n2": hardware},
          time.time())
    before = load_manifest(state_)
    with slurm_of(site) as bed:
        variables = bed.environment
        job = submitted(bed, "-w", "n4")
        wait_until(lambda: state(bed, job) == "RUNNING", what="the job")
        bed.ask("scontrol", "update", "nodename=n5", "state=drain", "reason=mine")
        assert site.muster("cordon", "n6", "--reason", "for a test", **variables).returncode == 0
        plan = site.muster(*SCREEN, **variables)
        assert plan.returncode == 0 and plan.stdout.endswith(
            "Nothing changed. Run again with --apply to do this.\n"), (plan.stdout, plan.stderr)
        assert ([line.split()[0] for line in plan.stdout.splitlines()
                 if line.startswith("  n") and ": " not in line] == ["n3", "n2"])
        for line in ("  n1: proven 1.0 days ago, which holds for 7", f"  n4: job {job} (RUNNING) is on it",
                     "  n5: others hold it: mine", "  n6: muster has cordoned it"):
            assert line in plan.stdout.splitlines()
        assert kept(state_) == [] and "ReservationName" not in bed.ask("scontrol", "show", "reservation")
        done = site.muster(*SCREEN, "--apply", "--format", "json", code=0, **variables)
        found = checked(done.stdout)
        assert [one["node"] for one in found["chosen"]] == [
            "n3", "n2"] and found["verdict"] == "pass" and found["gave_way"] is None
        assert {one["node"]: one["outcome"] for one in found["nodes"]} == {"n2": "pass", "n3": "pass"}
        document = json.loads(kept(state_)[0].read_text())
        assert (document["run"] == found["run"] and document["length"] == "screen"
                and document["options"]["finished"] is True)
        assert {(task["stage"], task["kind"]) for task in document["tasks"]} == {
            ("node", "known"), ("node", "random"), ("node", "allreduce"), ("leaf-pairs", "allreduce")}
        # They are proven now, by no certificate.
        assert screenings(site) == dict.fromkeys(
            ("n2", "n3"), (found["run"], True)) and load_manifest(state_) == before
        assert site.muster(
            "certificate", "issue", str(kept(state_)[0])).returncode == 1 and load_manifest(state_) == before
        again = checked(site.muster(*SCREEN, "--format", "json", **variables).stdout)
        assert again["chosen"] == [] and 0 < again["budget"]["node_hours_used"] < 0.1
        assert "ReservationName" not in bed.ask(
            "scontrol", "show", "reservation") and state(bed, job) == "RUNNING"


@pytest.mark.slow
def test_a_job_that_comes_in_the_middle_has_its_nodes_within_seconds_and_nothing_is_said_of_them(
    tmp_path: Path,
) -> None:
    mark = secrets.token_hex(8)
    site = site_of(tmp_path, marked=mark, small=LONG)
    with slurm_of(site) as bed, contextlib.ExitStack() as stack:
        other = submitted(bed, "-w", "n3")
        wait_until(lambda: state(bed, other) == "RUNNING", what="another's job")
        # These wait whatever we do: one takes more nodes than are free with ours, the others are not to start
        # yet.
        large = submitted(bed, "-N", "3")
        waiting = {large, submitted(bed, "-N", "1", "--hold"), submitted(bed, "-N", "1", "--begin=now+1hour")}
        head = stack.enter_context(at_work(site, **bed.environment))
        wait_until(lambda: len(processes_with(mark)) > 4, what="ranks")
        assert {state(bed, one) for one in waiting} == {"PENDING"}
        bed.ask("scancel", large)
        began = time.monotonic()
        job = submitted(bed, "-N", "2")
        wait_until(lambda: state(bed, job) == "RUNNING", 30, "the job")
        took = time.monotonic() - began
        out, err = head.communicate(timeout=60)
        assert (head.returncode == 3
                and f"it gave way: job {job} waits for 2 nodes of partition main" in out), (out, err)
        assert took < 20, took
        assert "UNKNOWN" in out and "neither pass nor fail" in out
        await_none_with(mark, 5)
        assert "ReservationName" not in bed.ask(
            "scontrol", "show", "reservation") and site.muster("lease", "list").stdout == "no leases\n"
        found = json.loads(kept(tmp_path / "state")[0].read_text())
        assert (found["options"]["finished"] is False
                and found["verdict"] == "unknown" and not found["accusations"])
        assert screenings(site) == {} and state(bed, other) == "RUNNING"
        plan = checked(site.muster(*SCREEN, "--format", "json", **bed.environment).stdout)
        assert all(one["tried"] is None and one["proven"] is None for one in plan["chosen"])


@pytest.mark.slow
def test_what_was_finished_before_it_gave_way_stands_and_the_job_is_not_given_the_gpu_that_computes_wrong(
    tmp_path: Path,
) -> None:
    site = site_of(tmp_path, nodes=3, small=LONG)
    site.plant({"fault": "product", "node": "n1", "gpu": 0})
    store = tmp_path / "state"
    new_key(store, "alpha", "test", time.time())
    issue(store, [Passed(node, "quick", int(time.time() - 30 * 86400), boot="b") for node in site.names],
          {node: {"gpu 0000:1b:00.0": {"serial": node}} for node in site.names}, time.time())
    with slurm_of(site) as bed:
        with at_work(site, **bed.environment) as head:
            began = time.monotonic()
            job = submitted(bed, "-N", "2")
            wait_until(lambda: state(bed, job) == "RUNNING", 30, "the job")
            took = time.monotonic() - began
            out, err = head.communicate(timeout=60)
        assert head.returncode == 1 and "gpu n1:0: wrong data" in out and "it gave way: job" in out, (
            out, err)
        assert took < 20, took
        assert bed.states() == {"n1": "drained", "n2": "allocated", "n3": "allocated"}
        assert "a screening found of GPU 0 wrong data" in bed.ask("scontrol", "show", "node", "n1")
        assert "ReservationName" not in bed.ask(
            "scontrol", "show", "reservation") and site.muster("lease", "list").stdout == "no leases\n"
        held = load_manifest(store)
        assert [node for node in site.names if held.revocation(node) is not None] == ["n1"]
        with opened(store) as opened_:
            assert [(one.node, one.rule) for one in problems(opened_, None, 0.0, still=True)] == [
                ("n1", "burnin-wrong-data")]
        found = json.loads(kept(store)[0].read_text())
        assert {one["node"]: one["outcome"] for one in found["nodes"]} == {
            "n1": "fail", "n2": "unknown", "n3": "unknown"}
        assert {one["kind"] for one in found["tasks"]} == {
            "known", "random"} and screenings(site).keys() == {"n1"}
        bed.ask("scancel", job)
        wait_until(lambda: bed.states()["n2"] == "idle", what="idle nodes")
        plan = checked(site.muster(*SCREEN, "--format", "json", **bed.environment).stdout)
        assert [one["node"] for one in plan["chosen"]] == [
            "n2", "n3"] and plan["left"] == [{"node": "n1", "why": "muster has cordoned it"}]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_killed_in_the_middle_no_rank_and_no_node_stays_held(tmp_path: Path, number: signal.Signals) -> None:
    mark = secrets.token_hex(8)
    site = site_of(tmp_path, nodes=2, marked=mark, small=LONG)
    with slurm_of(site) as bed:
        with at_work(site, **bed.environment) as head:
            second = site.muster(*SCREEN, "--apply", **bed.environment)
            assert (second.returncode == 2
                    and "another muster burnin screen --apply is running" in second.stderr)
            beside = site.muster(*SCREEN, **bed.environment)
            assert beside.stdout.startswith(
                "to be screened: 0 of 2") and "it is leased (muster-" in beside.stdout
            head.send_signal(number)
            head.wait(timeout=60)
        await_none_with(mark, 15)
        if number is signal.SIGTERM:
            assert head.returncode == 130 and "ReservationName" not in bed.ask(
                "scontrol", "show", "reservation")
            return
        # Slurm ends it by itself, three minutes after the last renewal; any muster that leases does so at
        # once.
        shown = bed.ask("scontrol", "--oneliner", "show", "reservation")
        assert "Duration=00:0" in shown and int(shown.split("Duration=00:0")[1][0]) <= 4
        assert site.muster("lease", "release", **bed.environment).returncode == 0
        assert "ReservationName" not in bed.ask("scontrol", "show", "reservation")
        wait_until(lambda: set(bed.states().values()) == {"idle"}, what="idle nodes")


@pytest.mark.slow
def test_a_gpu_that_computes_wrong_is_evidence_against_its_node_until_a_burn_in_passes(
    tmp_path: Path,
) -> None:
    site = site_of(tmp_path, nodes=4, ranks=2)
    site.plant({"fault": "product", "node": "n3", "gpu": 1})
    with slurm_of(site) as bed:
        done = site.muster(*SCREEN, "--apply", **bed.environment)
        assert done.returncode == 1 and "gpu n3:1: wrong data" in done.stdout, (done.stdout, done.stderr)
        assert screenings(site).keys() == set(site.names)
        assert bed.states()["n3"] == "drained" and "cordoned in slurm as" in done.stderr
        assert site.muster("uncordon", "n3", "--reason", "for a test", **bed.environment).returncode == 0
        site.plant()
        with opened(tmp_path / "state") as store, store.writing() as db:
            db.execute("DELETE FROM screened")
        assert site.muster(*SCREEN, "--apply", **bed.environment).returncode == 0
    with opened(tmp_path / "state") as store:
        accused = [(one.node, one.rule) for one in problems(store, None, 0.0, still=True)
                   if one.rule.startswith("burnin-")]
    assert accused == [("n3", "burnin-wrong-data")]


@pytest.mark.slow
def test_in_kubernetes_a_pod_that_cannot_be_placed_ends_it_and_nodes_are_given_back_that_nothing_was_found_of(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as bed:
        site = site_of(tmp_path, nodes=2, cordon={"kubernetes": {"config": str(bed.config)}}, small=LONG)
        for name in site.names:
            bed.add(name)
        site.plant({"fault": "product", "node": "n1", "gpu": 0})
        with at_work(site) as head:
            assert all(bed.node(name)["spec"].get("unschedulable") for name in site.names)
            bed.pod("cpus-only", "", phase="Pending", unplaced="Unschedulable")
            bed.pod("training", "", gpus=8, phase="Pending", unplaced="Unschedulable")
            out, err = head.communicate(timeout=60)
            assert (head.returncode == 1
                    and "it gave way: pod default/training has nvidia.com/gpu: 8, and waits for a node"
                    in out), (out, err)
            assert "gpu n1:0: wrong data" in out
        with opened(tmp_path / "state") as store:
            assert [
                (one.node, one.rule) for one in problems(store, None, 0.0)] == [("n1", "burnin-wrong-data")]
        assert [bool(bed.node(name)["spec"].get("unschedulable")) for name in site.names] == [True, False]
        assert site.muster("uncordon", "n1", "--reason", "for a test").returncode == 0
        assert not bed.node("n1")["spec"].get("unschedulable")
        plan = site.muster(*SCREEN)
        assert ("screening gives way: pod default/training" in plan.stdout
                and plan.stdout.splitlines()[-1] == "Nothing changed.")


@pytest.mark.slow
def test_in_kubernetes_the_next_screening_gives_back_what_a_killed_one_left_and_plans_list_it(
    tmp_path: Path,
) -> None:
    mark = secrets.token_hex(8)
    with serving(tmp_path) as bed:
        site = site_of(
            tmp_path, nodes=2, cordon={"kubernetes": {"config": str(bed.config)}}, marked=mark, small=LONG)
        for name in site.names:
            bed.add(name)
        with at_work(site) as head:
            head.send_signal(signal.SIGKILL)
            head.wait(timeout=60)
        await_none_with(mark, 60)
        said = ("(muster burnin screen) keeps jobs from n[1-2], and the process that held it is gone: muster "
                "lease release")
        for words in (SCREEN, ("triage",)):
            done = site.muster(*words)
            assert said in done.stderr and all(
                bed.node(name)["spec"].get("unschedulable") for name in site.names), done
        bed.pod("training", "", gpus=8, phase="Pending", unplaced="Unschedulable")
        done = site.muster(*SCREEN, "--apply")
        assert ("given back: the process that held it is gone" in done.stderr
                and "to be screened: 0 of 2" in done.stdout), done
        assert not any(bed.node(name)["spec"].get("unschedulable") for name in site.names)


def test_what_cannot_say_who_waits_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    site = Site(tmp_path, "/no/such/python", nodes=2)
    done = site.muster("burnin", "screen", "--apply")
    assert done.returncode == 2 and not (tmp_path / "state").exists()
    assert done.stderr.startswith(
        "muster: screening needs a scheduler that knows idle nodes and waiting jobs"), done
