"""`muster remediate` on nodes with a real systemd: what helps, what does not, what harms."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from healthcheck.triage.remediation import RemediationStep
from inventory.load import load_inventory
from inventory.transport.remote import RemoteTransport
from provisioning.remediate.send import StepReport, send
from tests.command import muster, running
from tests.provisioning.remediate.bed import (
    active,
    busy,
    check,
    held,
    invocation,
    ledger,
    remediate,
    site,
    unit,
    well,
)
from tests.testbed import fuse
from tests.testbed.nspawn import Machine, nodes, require_nspawn
from tests.testbed.planted import executable
from tests.testbed.require import require
from tests.testbed.sshd import wait_until

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]       # five minutes of systemd


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Machine]]:
    require_nspawn()
    missing = fuse.available()
    require(missing is None, str(missing))
    with nodes(tmp_path_factory.mktemp("nspawn"), "n1", "n2", "n3") as started:
        yield {one.name: one for one in started}


@pytest.fixture
def home(tmp_path: Path, machines: dict[str, Machine]) -> Path:
    for one in machines.values():
        well(one)
    site(tmp_path, list(machines.values()))
    return tmp_path


def stop(machine: Machine, name: str) -> None:
    machine.run("systemctl", "stop", f"{name}.service")


def test_a_stopped_service_is_planned_then_started_and_the_node_is_given_back(
    home: Path, machines: dict[str, Machine],
) -> None:
    stop(machines["n1"], "nvidia-fabricmanager")
    stop(machines["n3"], "docker")
    check(home)
    plan = remediate(home)
    assert ("rack r1, at most 4 nodes at a time:\n"
            "  n1  restart-fabric-manager  units: units-run of nvidia-fabricmanager: inactive (dead)\n"
            in plan)
    assert ("systemctl restart nvidia-fabricmanager.service\n"
            "    then must pass: units-run@nvidia-fabricmanager" in plan)
    assert not active(machines["n1"], "nvidia-fabricmanager") and not ledger(home)
    said = remediate(home, "--apply")
    assert "n1: restart-fabric-manager: done: units-run@nvidia-fabricmanager passes" in said
    assert active(machines["n1"], "nvidia-fabricmanager") and active(machines["n3"], "docker")
    assert held(home) == {}
    one, other = ledger(home)
    assert (one.node, one.action, other.node) == (
        "n1", "restart-service", "n3") and str(one.outcome).startswith("done: ")
    assert remediate(home, "--apply") == "nothing to do\n" and len(ledger(home)) == 2


def test_a_service_that_fails_is_reported_tried_twice_and_then_left_to_a_person(
    home: Path, machines: dict[str, Machine],
) -> None:
    unit(machines["n1"], "docker", start="/bin/false")
    stop(machines["n3"], "docker")
    check(home)
    for _ in range(2):
        said = remediate(home, "--apply", code=1)
        assert "n1: restart-docker: no use: docker.service does not stay: failed (failed), exit-code" in said
        # The other domain is not begun, as not all of this one passed.
        assert "n3: not started: not all nodes of rack r1 passed" in said and not active(
            machines["n3"], "docker")
    assert held(home) == {}
    said = remediate(home, "--apply")
    assert "n1: left: units: inspect: restart-docker was tried 2 times in 7 days" in said
    assert "n3: restart-docker: done" in said


def test_a_step_that_breaks_another_service_ends_it_all_and_that_node_stays_cordoned(
    home: Path, machines: dict[str, Machine],
) -> None:
    unit(machines["n1"], "docker", "ExecStartPost=/bin/systemctl stop other.service", run=False)
    stop(machines["n1"], "docker")
    machines["n1"].run("systemctl", "start", "other.service")
    stop(machines["n3"], "docker")
    check(home)
    said = remediate(home, "--apply", code=1)
    assert "n1: restart-docker: worse: other-runs passed before and is wrong now" in said
    assert "it stays cordoned until a person has checked it: muster uncordon n1" in said
    assert "n3: not started: restart-docker on n1 ended worse" in said
    assert list(held(home)) == ["n1"] and not active(machines["n3"], "docker")


def test_nothing_is_done_beside_a_job_or_where_the_unit_is_masked_or_the_check_passes_by_now(
    home: Path, machines: dict[str, Machine],
) -> None:
    for name in ("n1", "n2", "n3"):
        stop(machines[name], "docker")
    check(home)
    busy(home, "n1")
    machines["n2"].run("rm", "/etc/systemd/system/docker.service")
    machines["n2"].run("systemctl", "daemon-reload")
    machines["n3"].run("systemctl", "start", "docker.service")
    said = remediate(home, "--apply", code=1)
    assert "n1: NOT done: a job is on it" in said and not active(machines["n1"], "docker")
    assert "n2: restart-docker: not done: docker.service is not installed" in said
    assert "n3: not started" in said
    assert held(home) == {}
    # What did not touch the node is no attempt, and what passes by now is left as it is.
    before = invocation(machines["n3"], "docker")
    assert "n3: nothing to do: units-run@docker passes now" in remediate(home, "n3", "--apply")
    assert invocation(machines["n3"], "docker") == before


def test_a_head_that_is_killed_at_work_is_found_out_about_and_nothing_is_done_twice(
    home: Path, machines: dict[str, Machine],
) -> None:
    n1 = machines["n1"]
    unit(n1, "docker", "ExecStartPre=/bin/sleep 3\nExecStartPre=/bin/sh -c 'echo >> /var/lib/starts'",
         run=False)
    stop(n1, "docker")
    (n1.root / "var/lib/starts").write_text("")
    check(home)
    head = running("remediate", "--apply", "--rules", "rules", home=home)
    wait_until(lambda: "activating" in n1.run("systemctl", "is-active", "docker.service", check=False), 60,
               "that the step is at work")
    head.kill()
    head.wait()
    (line,) = ledger(home)
    assert line.outcome is None and held(home)["n1"].startswith("muster:")
    assert "1 interrupted: --apply first checks the outcome on n1" in remediate(home)
    said = remediate(home, "--apply")
    assert "n1: restart-docker: done: units-run@docker passes: docker.service was restarted" in said
    assert "its run was killed, and this was found later" in said
    assert (n1.root / "var/lib/starts").read_text() == "\n" and held(home) == {}
    assert [line.outcome is None for line in ledger(home)] == [False]
    assert "muster-" not in muster("lease", "list", home=home).stdout


def test_a_head_that_is_killed_before_it_sent_anything_leaves_nothing_held(
    home: Path, machines: dict[str, Machine],
) -> None:
    stop(machines["n1"], "docker")
    check(home)
    head = running("remediate", "--apply", "--rules", "rules", home=home)
    wait_until(lambda: (home / "held.json").exists() and "us" in (home / "held.json").read_text(), 60,
               "that the node is held")
    head.kill()
    head.wait()
    wait_until(lambda: n1_rests(machines["n1"]), 30, "that nothing is at work there")
    remediate(home, "--apply")
    assert active(machines["n1"], "docker") and held(home) == {}
    assert all(line.outcome is not None for line in ledger(home))


def n1_rests(machine: Machine) -> bool:
    return "python3" not in machine.run("sh", "-c", "cat /proc/[0-9]*/comm")


SMI = """#!/bin/sh
systemctl is-active nvidia-persistenced nvidia-fabricmanager > /var/lib/seen
echo "$@" >> /var/lib/seen
exit ${CODE}
"""


@pytest.mark.parametrize(("code", "ok", "said"),
                         [("0", True, "all GPUs were reset"), ("3", False, "nvidia-smi --gpu-reset: exit 3")])
def test_gpus_are_reset_together_while_nothing_has_them_open_and_what_was_stopped_runs_again(
    home: Path, machines: dict[str, Machine], code: str, ok: bool, said: str,
) -> None:
    n1 = machines["n1"]
    executable(n1.root / "usr/local/bin/nvidia-smi", SMI.replace("${CODE}", code))
    n1.run("sh", "-c", ": > /dev/kmsg")
    did = step(home, "n1", RemediationStep.RESET_GPU, f"a-{code}")
    assert (did.ok, did.touched, did.message) == (ok, True, said)
    # What the driver reported before a reset is over by this line, which a reset that failed does not write.
    assert n1.run("sh", "-c",
                  "cat /dev/kmsg; rm /dev/kmsg") == ("muster: all GPUs were reset\n" if ok else "")
    assert (n1.root / "var/lib/seen").read_text() == "inactive\ninactive\n--gpu-reset\n"
    assert active(n1, "nvidia-persistenced") and active(n1, "nvidia-fabricmanager")
    # The same line is not taken again: what became of it is told.
    (n1.root / "var/lib/seen").unlink()
    assert step(
        home, "n1", RemediationStep.RESET_GPU, f"a-{code}") == did and not (n1.root / "var/lib/seen").exists()


def test_a_reset_that_the_kernel_s_log_does_not_take_is_one_and_says_so(
    home: Path, machines: dict[str, Machine],
) -> None:
    executable(machines["n1"].root / "usr/local/bin/nvidia-smi", SMI.replace("${CODE}", "0"))
    did = step(home, "n1", RemediationStep.RESET_GPU, "c")
    assert did.ok and did.message == ("all GPUs were reset; /dev/kmsg does not take it (No such file or "
                                      "directory), so that Xids before it still count")


def test_gpus_that_a_process_has_open_are_not_reset(home: Path, machines: dict[str, Machine]) -> None:
    n1 = machines["n1"]
    executable(n1.root / "usr/local/bin/nvidia-smi", SMI.replace("${CODE}", "0"))
    (n1.root / "var/lib/seen").unlink(missing_ok=True)
    n1.run("systemd-run", "--quiet", "--unit=holder", "sh", "-c", "exec sleep infinity 3> /dev/nvidia0")
    try:
        did = step(home, "n1", RemediationStep.RESET_GPU, "b")
        assert did.ok is False and "has a GPU open; nothing was reset" in did.message and not (
            n1.root / "var/lib/seen").exists()
        assert active(n1, "nvidia-persistenced") and active(n1, "nvidia-fabricmanager")
    finally:
        n1.run("systemctl", "stop", "holder.service")


@pytest.mark.parametrize(
    ("script", "touched", "said"),
    [("echo 'modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.1.0'; exit 1", False,
      "Module nvidia not found"), ("exit 0", True, "nvidia is not loaded anyway"),
     ("test $1 = -n || exit 1", True, "modprobe -b -- nvidia: exit 1")])
def test_a_module_that_does_not_load_is_reported(
    home: Path, machines: dict[str, Machine], script: str, touched: bool, said: str,
) -> None:
    executable(machines["n1"].root / "usr/local/sbin/modprobe", f"#!/bin/sh\n{script}\n")
    did = step(home, "n1", RemediationStep.LOAD_NVIDIA, f"m-{len(said)}")
    assert (did.ok, did.touched) == (False, touched) and said in did.message


def test_a_masked_unit_is_left_alone_and_two_steps_do_not_go_together(
    home: Path, machines: dict[str, Machine],
) -> None:
    n1 = machines["n1"]
    (n1.root / "etc/systemd/system/docker.service").unlink()
    n1.run("systemctl", "mask", "docker.service")
    did = step(home, "n1", RemediationStep.RESTART_DOCKER, "c")
    assert did == StepReport("n1", False, False, "docker.service is masked: someone wants it not to run")
    n1.run("systemctl", "unmask", "docker.service")
    n1.run(
        "systemd-run", "--quiet", "--unit=other-step", "flock", "/run/muster-remediate", "sleep", "infinity")
    wait_until(lambda: "sleep" in n1.run("sh", "-c", "cat /proc/[0-9]*/comm"), 30, "that it has the lock")
    did = step(home, "n1", RemediationStep.RESTART_DOCKER, "d")
    n1.run("systemctl", "stop", "other-step.service")
    assert did == StepReport("n1", False, False, "another step is at work here")


def step(home: Path, node: str, which: RemediationStep, line: str) -> StepReport:
    there = load_inventory(home / "muster.yaml")
    (did,) = send({line: there.nodes[node]}, which, RemoteTransport(), 1)
    return did


@contextmanager
def restarting(machine: Machine) -> Iterator[None]:
    """systemd-nspawn leaves with 133 when its node restarts, and expects to be started again."""
    over = threading.Event()

    def keep() -> None:
        while machine.process.wait() == 133 and not over.is_set():
            machine.process = subprocess.Popen(
                machine.process.args, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, start_new_session=True)

    thread = threading.Thread(target=keep)
    thread.start()
    try:
        yield
    finally:
        over.set()
        machine.process.terminate()
        thread.join(60)


def test_a_node_that_restarts_comes_back_and_one_that_does_not_keeps_its_cordon(
    home: Path, machines: dict[str, Machine],
) -> None:
    n2 = machines["n2"]
    for name in ("nvidia-fabricmanager", "nvidia-persistenced", "docker", "other"):
        n2.run("systemctl", "enable", f"{name}.service")
    stop(n2, "docker")
    check(home)
    assert "n2  reboot  units" in remediate(home, "n2", "--step", "reboot")
    with restarting(n2):
        assert "n2: reboot: done: units-run passes" in remediate(home, "n2", "--step", "reboot", "--apply")
        assert [line.action for line in ledger(home)] == ["reboot"] and held(home) == {}
        stop(n2, "docker")
        n2.run("systemctl", "mask", "ssh.service", "ssh.socket")
        check(home)
        said = remediate(home, "n2", "--step", "reboot", "--apply", code=1)
        assert "n2: reboot: not back: it restarts; since then it is not reached" in said
        assert list(held(home)) == ["n2"]
        # That it answers again later gives nothing back: a person is to look first.
        n2.run("systemctl", "unmask", "ssh.service", "ssh.socket")
        n2.run("systemctl", "start", "ssh.service")
        assert remediate(home, "n2", "--apply", code=0) != "" and list(held(home)) == ["n2"]
