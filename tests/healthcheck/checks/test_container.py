"""Rules of rules/container.yaml: Docker's containers, CDI, containers with GPUs, containerd, pyxis."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from healthcheck.model.outcome import Result, Status
from healthcheck.model.recording import Capture, FileCapture, Outcome
from tests.healthcheck import machine
from tests.healthcheck.checks.test_docker import HUNG, NO_CLIENT, NO_DAEMON
from tests.healthcheck.checks.verdicts import findings_of, status_findings, verdict

OF_PS = ("container-dead", "container-restarting", "container-unhealthy", "container-stopped",
         "container-left-over")


def ps(*rows: dict[str, Any]) -> Capture:
    return machine.lines(*rows)


def of(rule: str, *rows: dict[str, Any]) -> tuple[Status, str]:
    return status_findings(rule, machine.recording(docker_ps=ps(*rows)))


@pytest.mark.parametrize(("rule", "state", "status", "words"), [
    ("container-dead", "dead", "Dead", "job: dead (img:1), expected removed"),
    ("container-dead", "removing", "Removal In Progress", "job: removing (img:1), expected removed"),
    ("container-dead", "exited", "Exited (137) 2 hours ago", ""),
    ("container-dead", "created", "Created", ""),
    ("container-restarting", "restarting", "Restarting (3) 12 seconds ago",
     "job: restarting (img:1), ended with exit status 3, expected running"),
    ("container-restarting", "running", "Up 3 seconds", ""),
    ("container-unhealthy", "running", "Up 2 hours (unhealthy)", "job: unhealthy (img:1), expected healthy"),
    ("container-unhealthy", "running", "Up 2 hours (healthy)", ""),
    ("container-unhealthy", "running", "Up 2 seconds (health: starting)", ""),
    ("container-left-over", "running", "Up 2 days",
     "job: running (img:1), expected no container but the site's own"),
    ("container-left-over", "paused", "Up 2 days (Paused)",
     "job: paused (img:1), expected no container but the site's own"),
    ("container-left-over", "exited", "Exited (0) 2 days ago", ""),
])
def test_a_container_is_named_by_the_rule_that_its_state_breaks(
    rule: str, state: str, status: str, words: str,
) -> None:
    expected = Status.FAIL if words else Status.PASS
    assert of(rule, machine.container(), machine.container("job", state, status,
                                                           "img:1")) == (expected, words)


@pytest.mark.parametrize("rule", OF_PS)
def test_no_container_at_all_is_a_fine_answer(rule: str) -> None:
    assert of(rule) == (Status.PASS, "")


def test_containers_that_have_ended_may_pile_up_so_far() -> None:
    ended = [machine.container(f"job{n}", "exited", f"Exited ({n % 2}) 2 days ago") for n in range(51)]
    assert of("container-stopped", *ended[:50]) == (Status.PASS, "")
    assert of("container-stopped", *ended) == (Status.FAIL, "containers: 51 have ended, 25 of them not with "
                                               "0, expected at most 50")


@pytest.mark.parametrize(("capture", "status"), [
    (NO_CLIENT, Status.SKIPPED), (NO_DAEMON, Status.SKIPPED), (HUNG, Status.UNKNOWN),
    (machine.docker_denied(), Status.UNKNOWN),
    (Capture(Outcome.CRASHED), Status.UNKNOWN), (replace(ps(), text="Error\n"), Status.UNKNOWN),
    (ps({"container": "x", "id": "1", "image": "i", "state": "hibernating", "status": "?"}), Status.UNKNOWN),
    (replace(ps(machine.container()), outcome=Outcome.TRUNCATED), Status.UNKNOWN),
    (ps(machine.container()), Status.PASS),
])
@pytest.mark.parametrize("rule", [*OF_PS, "container-restarts-again"])
def test_what_docker_did_not_tell_of_containers_is_no_pass(rule: str, capture: Capture,
                                                           status: Status) -> None:
    seen = machine.recording(docker_ps=capture)
    assert verdict(rule, seen, seen).status is status


@pytest.mark.parametrize(("now", "before", "words"), [
    ("Up 3 seconds", "Up 59 seconds",
     "job: up for 3 s, and for 59 s in the earlier snapshot (img:1), expected up since the earlier snapshot"),
    ("Up Less than a second", "Up 1 second",
     "job: up for 0 s, and for 1 s in the earlier snapshot (img:1), expected up since the earlier snapshot"),
    ("Up About a minute", "Up 3 seconds", ""), ("Up 3 seconds", "Up About a minute", ""),
    ("Up 3 seconds", "Up 2 weeks", ""),
    ("Up 10 minutes", "Up 3 seconds", ""),
])
def test_a_container_that_is_young_at_both_looks_is_started_again_and_again(
    now: str, before: str, words: str,
) -> None:
    snapshots = [machine.recording(docker_ps=ps(machine.container("job", status=status, image="img:1")))
                 for status in (now, before)]
    assert status_findings("container-restarts-again",
                           *snapshots) == (Status.FAIL if words else Status.PASS, words)


def test_a_container_that_is_new_or_ended_is_not_compared() -> None:
    now = machine.recording(docker_ps=ps(machine.container("job", status="Up 3 seconds"),
                                         machine.container("old", "exited", "Exited (0) 1 second ago")))
    before = machine.recording(docker_ps=ps(machine.container("old", status="Up 3 seconds")))
    assert verdict("container-restarts-again", now, before).status is Status.PASS
    assert verdict("container-restarts-again", now).status is Status.SKIPPED
    without = machine.recording(docker_ps=NO_DAEMON)
    # Docker has come since
    assert verdict("container-restarts-again", now, without).status is Status.SKIPPED


def test_an_uptime_in_other_words_is_unknown_where_it_is_read() -> None:
    odd = machine.recording(docker_ps=ps(machine.container("job", status="Up since Tuesday")))
    result = verdict("container-restarts-again", odd, odd)
    assert result.status is Status.UNKNOWN and "Up since Tuesday" in result.reason


# CDI

def spec(gpus: int = 8, driver: str = "550.54.15", kind: str = "nvidia.com/gpu") -> str:
    devices = "".join(f'- containerEdits:\n    deviceNodes:\n    - path: /dev/nvidia{n}\n  name: "{n}"\n'
                      for n in range(gpus))
    return (f"---\ncontainerEdits:\n  mounts:\n  - hostPath: "
            f"/usr/lib64/libcuda.so.{driver}\ndevices:\n{devices}kind: {kind}\n")


def cdi(rule: str, **files: str) -> Result:
    return verdict(rule, machine.recording(container_cdi=machine.done(**files)))


@pytest.mark.parametrize(("rule", "text", "words"), [
    ("cdi-gpus", spec(), ""),
    ("cdi-gpus", spec(7), "CDI: 7 GPUs in /etc/cdi/nvidia.yaml, expected 8, as on the PCI bus"),
    ("cdi-gpus", spec(9), ""),
    ("cdi-gpus", json.dumps({"kind": "nvidia.com/gpu", "devices": [{"name": "all", "containerEdits": {
        "deviceNodes": [{"path": f"/dev/nvidia{name}"} for name in (0, 1, 2, "-uvm", "ctl")]}}]}),
     "CDI: 3 GPUs in /etc/cdi/nvidia.yaml, expected 8, as on the PCI bus"),
    ("cdi-driver", spec(), ""),
    ("cdi-driver", spec(driver="535.161.08"),
     "CDI: libraries of 535.161.08 in /etc/cdi/nvidia.yaml, expected 550.54.15, the driver that is loaded"),
    ("cdi-driver", spec() + "  - hostPath: /usr/lib64/libnvidia-ml.so.535.161.08\n",
     "CDI: libraries of 535.161.08 and 550.54.15 in /etc/cdi/nvidia.yaml, expected 550.54.15, the driver "
     "that is loaded"),
])
def test_a_specification_is_compared_with_the_node(rule: str, text: str, words: str) -> None:
    result = cdi(rule, **{"/etc/cdi/nvidia.yaml": text})
    assert (result.status, findings_of(result)) == (Status.FAIL if words else Status.PASS, words)


@pytest.mark.parametrize("rule", ["cdi-gpus", "cdi-driver"])
def test_no_specification_or_none_of_gpus_is_skipped_and_one_that_cannot_be_read_is_unknown(
    rule: str,
) -> None:
    assert cdi(rule).status is Status.SKIPPED
    assert cdi(rule, **{"/etc/cdi/nic.yaml": spec(kind="vendor.example/nic")}).status is Status.SKIPPED
    for outcome in (Outcome.DENIED, Outcome.TRUNCATED, Outcome.TIMEOUT):
        held = Capture(Outcome.DONE, files={"/etc/cdi/nvidia.yaml": FileCapture(outcome, spec())})
        assert verdict(rule, machine.recording(container_cdi=held)).status is Status.UNKNOWN


def test_the_specification_with_most_gpus_is_the_one_that_counts() -> None:
    assert cdi("cdi-gpus", **{"/etc/cdi/a.yaml": spec(1),
                              "/var/run/cdi/nvidia.yaml": spec(8)}).status is Status.PASS


def test_a_specification_without_libraries_says_nothing_of_the_driver() -> None:
    assert cdi("cdi-driver", **{"/etc/cdi/n.yaml": "devices:\n- path: /dev/nvidia0\nkind: "
                                "nvidia.com/gpu\n"}).status is Status.SKIPPED


# What a container gets

CLI = "NVRM version:   550.54.15\nCUDA version:   12.4\n" + "".join(
    f"\nDevice Index:   {n}\nDevice Minor:   {n}\nModel:          NVIDIA H100 80GB HBM3\nGPU UUID:       "
    f"GPU-{n:08x}-0000-0000-0000-000000000000\n"
    f"Bus Location:   00000000:{n:02x}:00.0\n" for n in range(8))

def gave(text: str, exit_status: int = 0, stderr: str = "") -> Capture:
    return Capture(Outcome.DONE, exit=exit_status, text=text, stderr=stderr)


@pytest.mark.parametrize(("capture", "status", "words"), [
    (gave(CLI), Status.PASS, ""),
    (gave(CLI[: CLI.index("\nDevice Index:   7")]), Status.FAIL,
     "container GPUs: 7 GPUs for nvidia-container-cli, expected 8, as the driver lists"),
    (Capture(Outcome.MISSING), Status.SKIPPED, ""),
    (HUNG, Status.UNKNOWN, ""),
    (gave("", 1, "nvidia-container-cli: initialization error: nvml error: driver not loaded\n"),
     Status.UNKNOWN, ""),
])
def test_nvidias_library_finds_every_gpu(capture: Capture, status: Status, words: str) -> None:
    assert status_findings("container-gpus",
                           machine.recording("gpu001", container_cli=capture)) == (status, words)


# containerd, pyxis

CTR = ("Client:\n  Version:  1.7.12\n  Revision: 7101\n  Go version: go1.20\n\nServer:\n  Version:  1.7.12\n "
       " Revision: 7101\n  UUID: 5c\n")
USED = {"containerd_kubelet": machine.done(**{
    "/var/lib/kubelet/config.yaml": "containerRuntimeEndpoint: unix:///run/containerd/containerd.sock\n"}),
    "containerd_nerdctl": Capture(Outcome.MISSING)}
DIAL = 'ctr: failed to dial "/run/containerd/containerd.sock": context deadline exceeded\n'


@pytest.mark.parametrize(("capture", "status", "words"), [
    (gave(CTR), Status.PASS, ""),
    (gave("", 1, DIAL), Status.FAIL, f"containerd: {DIAL[5:].strip()}, expected an answer from the daemon"),
    (gave("", 1, "ctr: dial unix /run/containerd/containerd.sock: connect: permission denied\n"),
     Status.UNKNOWN, ""),
    (gave("", 1), Status.UNKNOWN, ""), (gave(CTR.partition("Server")[0]), Status.UNKNOWN, ""),
    (HUNG, Status.UNKNOWN, ""),
    (replace(HUNG, seconds=10.0), Status.FAIL,
     "containerd: no answer within 10 s, expected an answer from the daemon"),
    (Capture(Outcome.MISSING), Status.SKIPPED, ""),
])
def test_containerd_answers_or_says_why_not(capture: Capture, status: Status, words: str) -> None:
    result = verdict("containerd-answers", machine.recording(containerd_version=capture, **USED))
    assert (result.status, findings_of(result)) == (status, words)


@pytest.mark.parametrize(("kubelet", "nerdctl", "status"), [
    (machine.done(), Capture(Outcome.MISSING), Status.SKIPPED),
    (machine.done(), Capture(Outcome.DONE, exit=0), Status.FAIL),
    (machine.done(
        **{"/var/lib/kubelet/config.yaml": "containerRuntimeEndpoint: unix:///run/crio/crio.sock\n"}),
     Capture(Outcome.MISSING), Status.SKIPPED),
    (machine.done(**{
        "/var/lib/kubelet/"
        "config.yaml": "containerRuntimeEndpoint: unix:///run/k3s/containerd/containerd.sock\n"
    }), Capture(Outcome.MISSING), Status.SKIPPED),
    (machine.done(
        **{
            "/var/lib/kubelet/kubeadm-flags.env": 'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint='
            'unix:///var/run/containerd/containerd.sock"\n'}), Capture(Outcome.MISSING), Status.FAIL),
    (machine.denied("/var/lib/kubelet/config.yaml"), Capture(Outcome.MISSING), Status.UNKNOWN),
    (machine.done(), Capture(Outcome.TIMEOUT), Status.UNKNOWN),])
def test_a_dead_containerd_counts_where_something_uses_it(kubelet: Capture, nerdctl: Capture,
                                                          status: Status) -> None:
    dead = gave("", 1,
                'ctr: cannot access socket /run/containerd/containerd.sock: no such file or directory\n')
    seen = machine.recording(containerd_version=dead, containerd_kubelet=kubelet, containerd_nerdctl=nerdctl)
    assert verdict("containerd-answers", seen).status is status


@pytest.mark.parametrize("capture", [
    gave("", 1), gave("", 1, "ctr: permission denied\n"), gave("rubbish"), replace(HUNG, seconds=10.0), HUNG,
    gave("", 1, 'rpc error: code = Unimplemented desc = unknown service runtime.v1.RuntimeService\n')])
def test_a_containerd_that_no_one_uses_is_not_judged_however_its_clients_fail(capture: Capture) -> None:
    seen = machine.recording(containerd_version=capture, containerd_cri=capture)
    for rule in ("containerd-answers", "containerd-ready"):
        assert verdict(rule, seen).status is Status.SKIPPED, rule


SILENT_CRI = "CRI: no answer to crictl info in time, though containerd answers ctr, expected an answer"


def conditions(runtime: object, network: object) -> Capture:
    rows = [{"type": "RuntimeReady", "status": runtime, "reason": "", "message": ""},
            {"type": "NetworkReady", "status": network, "reason": "NetworkPluginNotReady",
             "message": "cni plugin not initialized"}]
    return gave(json.dumps({"status": {"conditions": rows}}))


@pytest.mark.parametrize(
    ("capture", "status", "words"),
    [(conditions(True, True), Status.PASS, ""),
     (conditions(True, False), Status.FAIL, "CRI: not ready: NetworkReady: NetworkPluginNotReady cni plugin "
      "not initialized, expected RuntimeReady and NetworkReady"),
     (conditions(True, "yes"), Status.UNKNOWN, ""), (gave("{}"), Status.UNKNOWN, ""),
     (gave("[" * 9000), Status.UNKNOWN, ""), (gave("", 1, "x"), Status.UNKNOWN, ""),
     (gave("", 1, "rpc error: code = DeadlineExceeded desc = context deadline exceeded"),
      Status.FAIL, SILENT_CRI),
     (replace(HUNG, seconds=10.0), Status.FAIL, SILENT_CRI), (HUNG, Status.UNKNOWN, ""),
     (Capture(Outcome.MISSING), Status.SKIPPED, "")])
def test_a_runtime_tells_a_kubelet_that_it_is_ready(capture: Capture, status: Status, words: str) -> None:
    seen = machine.recording(containerd_cri=capture, containerd_version=gave(CTR), **USED)
    assert status_findings("containerd-ready", seen) == (status, words)


def test_a_cri_that_hangs_with_its_containerd_is_no_second_fault() -> None:
    late = replace(HUNG, seconds=10.0)
    seen = machine.recording(containerd_cri=late, containerd_version=late, **USED)
    assert verdict("containerd-answers", seen).status is Status.FAIL
    assert verdict("containerd-ready", seen).status is Status.UNKNOWN


STACK, ENROOT = "/etc/slurm/plugstack.conf", "/etc/enroot/enroot.conf"
NAMED = "# pyxis\nrequired /usr/local/lib/slurm/spank_pyxis.so runtime_path=/run/pyxis\n"


@pytest.mark.parametrize(("files", "status", "words"), [
    ({STACK: NAMED, ENROOT: ""}, Status.PASS, ""),
    ({STACK: "include plugstack.conf.d/*\n", "/etc/slurm/plugstack.conf.d/pyxis.conf": NAMED, ENROOT: ""},
     Status.PASS, ""),
    ({STACK: "optional spank_pyxis.so\n", ENROOT: ""}, Status.PASS, ""),
    ({STACK: "# required spank_pyxis.so\n", ENROOT: ""}, Status.FAIL,
     "pyxis: plugstack.conf does not name spank_pyxis.so, expected named, since enroot is set up"),
    ({STACK: NAMED}, Status.FAIL,
     "enroot: no /etc/enroot/enroot.conf, expected set up, since plugstack.conf names pyxis"),
    ({}, Status.SKIPPED, ""), ({ENROOT: ""}, Status.SKIPPED, ""),
    ({STACK: "required other.so\n"}, Status.SKIPPED, ""),
])
def test_pyxis_and_enroot_are_there_together_or_not_at_all(files: dict[str, str], status: Status,
                                                           words: str) -> None:
    result = verdict("pyxis-configured", machine.recording(container_slurm=machine.done(**files)))
    assert (result.status, findings_of(result)) == (status, words)


def test_a_plug_in_stack_that_may_not_be_read_is_unknown() -> None:
    assert verdict("pyxis-configured",
                   machine.recording(container_slurm=machine.denied(STACK))).status is Status.UNKNOWN
