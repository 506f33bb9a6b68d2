"""Rules of rules/docker.yaml: the daemon's settings, room for images, and the images themselves."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from healthcheck.judge.judge import judge
from healthcheck.judge.nodefacts import NodeFacts
from healthcheck.model.outcome import Origin, Result, Status
from healthcheck.model.recording import Capture, Outcome
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import (
    RULES,
    _facts,
    cohort,
    findings_of,
    status_findings,
    status_words,
    verdict,
)
from tests.healthcheck.machine import DIGEST, IMAGE_ID

NO_DAEMON = Capture(Outcome.DONE, exit=1, stderr="Cannot connect to the Docker daemon at "
                    "unix:///var/run/docker.sock. Is the docker daemon running?\n")
NO_CLIENT = Capture(Outcome.MISSING)
HUNG = Capture(Outcome.TIMEOUT)
PODMAN = Capture(Outcome.DONE, exit=125,
                 stderr="Emulate Docker CLI using podman. Create /etc/containers/nodocker "
                 "to quiet msg.\nError: unknown flag: --host\nSee 'podman --help'\n")
QUIET_PODMAN = Capture(Outcome.DONE, exit=125, stderr="Error: unknown flag: --host\nSee 'podman --help'\n")
# Since podman 4 its stand-in knows --host, and answers with podman's own document where its service listens
# there (cmd/podman/root.go, libpod/define/info.go).
PODMAN_ANSWERS = Capture(Outcome.DONE, exit=0, stderr="Emulate Docker CLI using podman.\n", text=(
    '{"host":{"arch":"amd64","buildahVersion":"1.33.8","cgroupManager":"systemd","cgroupVersion":"v2",'
    '"ociRuntime":{"name":"crun"}},"store":{"graphDriverName":"overlay"},"registries":{},'
    '"plugins":{},"version":{"APIVersion":"4.9.4","Version":"4.9.4"}}\n'))
SETTINGS = ("docker-storage-driver", "docker-cgroup-driver", "docker-gpu-runtime", "docker-warnings",
            "docker-disk", "docker-live-restore")


def of(rule: str, **info: Any) -> tuple[Status, str]:
    return status_words(rule, machine.recording(docker_info=machine.docker(**info)))


@pytest.mark.parametrize(("rule", "info", "words"), [
    ("docker-storage-driver", {}, ""), ("docker-storage-driver", {"Driver": "overlayfs"}, ""),
    ("docker-storage-driver", {"Driver": "vfs"},
     "storage driver: vfs, expected overlay2 or overlayfs or btrfs or zfs"),
    ("docker-cgroup-driver", {}, ""),
    ("docker-cgroup-driver", {"CgroupDriver": "cgroupfs", "CgroupVersion": "1"}, ""),
    ("docker-cgroup-driver", {"CgroupDriver": "cgroupfs"},
     "cgroup driver: cgroupfs, expected systemd, on a host with cgroup v2"),
    ("docker-warnings", {}, ""),
    ("docker-warnings", {"Warnings": ["WARNING: No blkio throttle.read_bps_device support"]}, ""),
    ("docker-warnings",
     {"Warnings": ["WARNING: API is accessible on http://0.0.0.0:2375 without encryption."]},
     "docker: API is accessible on http://0.0.0.0:2375 without encryption., expected no warning"),
    ("docker-live-restore", {"LiveRestoreEnabled": True}, ""),
    ("docker-live-restore", {},
     "live-restore: off: a restart of the daemon ends every container, expected on"),
])
def test_a_setting_of_the_daemon_is_as_the_rule_has_it(rule: str, info: dict[str, Any], words: str) -> None:
    assert of(rule, **info) == (Status.FAIL if words else Status.PASS, words)


@pytest.mark.parametrize(("rule", "info"), [
    ("docker-storage-driver", {"Driver": None}), ("docker-cgroup-driver", {"CgroupVersion": 2}),
    ("docker-gpu-runtime", {"Runtimes": {}}),
    ("docker-gpu-runtime", {"Runtimes": ["nvidia"]}), ("docker-warnings", {"Warnings": "x"}),
    ("docker-warnings", {"Warnings": [1]}),
    ("docker-disk", {"DockerRootDir": ""}), ("docker-live-restore", {"LiveRestoreEnabled": "true"}),
])
def test_a_setting_that_the_daemon_does_not_tell_is_unknown(rule: str, info: dict[str, Any]) -> None:
    status, reason = of(rule, **info)
    assert status is Status.UNKNOWN and "docker info has no" in reason


def test_a_daemon_without_a_word_of_warnings_at_all_is_unknown() -> None:
    info = {key: value for key, value in machine.DOCKER_INFO.items() if key != "Warnings"}
    assert verdict("docker-warnings",
                   machine.recording(docker_info=machine.lines(info))).status is Status.UNKNOWN


LATE = "error during connect: Get http://%2Fvar%2Frun%2Fdocker.sock/v1.45/info: context deadline exceeded\n"
SILENT = (replace(HUNG, seconds=10.0), Capture(Outcome.DONE, exit=1, stderr=LATE),
          Capture(Outcome.DONE, exit=0, text=json.dumps({"ServerErrors": [LATE]})))


@pytest.mark.parametrize("capture", SILENT)
def test_a_daemon_that_hangs_is_one_fault_whoever_times_out_first(capture: Capture) -> None:
    seen = machine.recording(docker_info=capture)
    assert status_findings("docker-hangs", seen) == (
        Status.FAIL, "docker: no answer in time to docker info, expected an answer from the daemon")
    for rule in (*SETTINGS, "docker-answers"):
        unknown = verdict(rule, seen, docker=True)
        assert unknown.status is Status.UNKNOWN and "did not answer in time" in unknown.reason, rule


def test_a_daemon_that_lists_no_containers_in_time_hangs_though_it_tells_of_itself() -> None:
    seen = machine.recording(docker_ps=replace(HUNG, seconds=10.0))
    assert findings_of(verdict("docker-hangs", seen)).startswith("docker: no answer in time to docker ps")
    assert verdict("container-dead", seen).status is Status.UNKNOWN
    assert verdict("docker-answers", seen, docker=True).status is Status.PASS


@pytest.mark.parametrize(("capture", "status"), [
    (HUNG, Status.UNKNOWN), (replace(HUNG, seconds=4.0), Status.UNKNOWN),
    (replace(HUNG, seconds=10.0, note="its turn never came"), Status.UNKNOWN),
    (Capture(Outcome.DENIED), Status.UNKNOWN), (NO_CLIENT, Status.SKIPPED), (NO_DAEMON, Status.PASS),
    (PODMAN, Status.SKIPPED), (PODMAN_ANSWERS, Status.SKIPPED),
])
def test_a_limit_of_ours_is_no_daemon_that_hangs(capture: Capture, status: Status) -> None:
    assert verdict("docker-hangs", machine.recording(docker_info=capture)).status is status


@pytest.mark.parametrize("rule", SETTINGS)
@pytest.mark.parametrize("capture", [NO_DAEMON, NO_CLIENT, PODMAN, QUIET_PODMAN, PODMAN_ANSWERS])
def test_where_there_is_no_docker_only_docker_answers_speaks(rule: str, capture: Capture) -> None:
    seen = machine.recording(docker_info=capture)
    skipped = verdict(rule, seen)
    assert skipped.status is Status.SKIPPED and "not supported" in skipped.reason
    answers = verdict("docker-answers", seen, docker=True)
    assert answers.status is (Status.FAIL if capture is NO_DAEMON else Status.UNKNOWN)
    assert verdict("docker-answers", seen).status is Status.SKIPPED      # HGX H100 says nothing of Docker


@pytest.mark.parametrize("rule", SETTINGS)
@pytest.mark.parametrize("capture", [
    HUNG, machine.docker_denied(),
    Capture(Outcome.DONE, exit=1, stderr="Error response from daemon: context canceled\n"),
])
def test_a_daemon_that_did_not_tell_is_unknown_in_every_rule(rule: str, capture: Capture) -> None:
    assert verdict(rule, machine.recording(docker_info=capture)).status is Status.UNKNOWN


def test_containers_of_podman_are_not_docker_s() -> None:
    listed = machine.lines(
        {"id": "a1", "container": "job", "image": "x", "state": "configured", "status": ""})
    seen = machine.recording(docker_info=PODMAN_ANSWERS, docker_ps=listed)
    for rule in ("container-dead", "container-restarting", "container-unhealthy"):
        result = verdict(rule, seen)
        assert result.status is Status.SKIPPED and "not supported" in result.reason


# GPUs in containers

RUNC = {"runc": {"path": "runc"}}
NVIDIA = {**RUNC, "nvidia": {"path": "nvidia-container-runtime"}}
ELSEWHERE = {**RUNC, "nvidia": {"path": "/opt/nvidia/nvidia-container-runtime"}}
TOOLKIT = {"/etc/nvidia-container-runtime/config.toml": "x\n"}
SPEC = {"/etc/cdi/nvidia.yaml": machine.CDI}
DAEMON = "/etc/docker/daemon.json"
READS = {"CDISpecDirs": ["/etc/cdi"]}
NO_WAY = "GPUs in containers: no way: runtimes {}, no CDI, expected NVIDIA's runtime, its toolkit or CDI"


@pytest.mark.parametrize(("info", "files", "programs", "words"), [
    ({"Runtimes": NVIDIA}, {}, ["nvidia-container-runtime"], ""),
    ({"Runtimes": NVIDIA}, {}, [], "nvidia, runc, but nvidia-container-runtime is not on the node, no hook"),
    ({"Runtimes": NVIDIA}, {}, ["nvidia-container-runtime-hook"], ""),
    ({"Runtimes": NVIDIA, **READS}, SPEC, [], ""),
    ({"Runtimes": ELSEWHERE}, {}, [], ""),
    ({"Runtimes": RUNC}, {}, [], "runc, no toolkit"),
    ({"Runtimes": RUNC}, {}, ["nvidia-ctk", "nvidia-container-runtime"], "runc, no toolkit"),
    ({"Runtimes": RUNC}, TOOLKIT, [],
     "runc, only /etc/nvidia-container-runtime/config.toml is left of the toolkit"),
    ({"Runtimes": RUNC}, TOOLKIT, ["nvidia-container-runtime-hook"], ""),
    ({"Runtimes": RUNC}, {}, ["nvidia-container-toolkit"], ""),
    ({"Runtimes": RUNC, **READS}, SPEC, [], ""),
    ({"Runtimes": RUNC, **READS}, {}, [], "runc, no toolkit"),
    ({"Runtimes": RUNC, "CDISpecDirs": []}, SPEC, [], "runc, no toolkit"),
    ({"Runtimes": RUNC}, SPEC, [], "runc, no toolkit"),
    ({"Runtimes": RUNC, **READS}, {"/etc/cdi/net.yaml": "kind: vendor.example/net\n"}, [],
     "runc, no toolkit"),
])
def test_gpus_come_into_containers_by_a_runtime_by_the_toolkits_hook_or_by_cdi(
    info: dict[str, Any], files: dict[str, str], programs: list[str], words: str,
) -> None:
    seen = machine.recording(docker_info=machine.docker(**info), container_cdi=machine.done(**files),
                             container_config=machine.container_config(*programs))
    result = verdict("docker-gpu-runtime", seen)
    assert findings_of(result) == (NO_WAY.format(words) if words else "")
    assert result.status is (Status.FAIL if words else Status.PASS)


def test_a_runtime_whose_program_lies_elsewhere_and_is_gone_is_no_way() -> None:
    config = machine.container_config(**{DAEMON: {"keys": {}, "programs": [
        ["nvidia", "/opt/nvidia/nvidia-container-runtime", False]]}})
    seen = machine.recording(docker_info=machine.docker(Runtimes=ELSEWHERE), container_cdi=machine.done(),
                             container_config=config)
    assert "/opt/nvidia/nvidia-container-runtime is not on the node" in findings_of(
        verdict("docker-gpu-runtime", seen))


@pytest.mark.parametrize("capture", [Capture(Outcome.TIMEOUT), Capture(Outcome.DENIED),
                                     machine.done(toolkit='{"nvidia-ctk": null}'),
                                     machine.done(toolkit="what")])
def test_programs_that_could_not_be_looked_for_are_no_way_to_gpus_and_no_fault(capture: Capture) -> None:
    assert verdict("docker-gpu-runtime", machine.recording(container_config=capture)).status is Status.UNKNOWN


def test_a_node_without_gpus_needs_no_way_for_them() -> None:
    seen = machine.recording(docker_info=machine.docker(Runtimes=RUNC), container_cdi=machine.done(),
                             container_config=machine.container_config(), gpu_pci=machine.pci(0))
    assert verdict("docker-gpu-runtime", seen, sku="cpu-only").status is Status.PASS


# daemon.json

def daemon(keys: dict[str, Any], *runtimes: str, **info: Any) -> tuple[Status, str]:
    config = machine.container_config(**{DAEMON: {
        "keys": keys, "programs": [[name, f"/usr/bin/{name}", True] for name in runtimes]}})
    return status_words("docker-config",
                        machine.recording(docker_info=machine.docker(**info), container_config=config))


@pytest.mark.parametrize(("keys", "runtimes", "words"), [
    ({}, (), ""),
    ({"log-driver": "json-file", "live-restore": False, "data-root": "/raid/docker"}, ("nvidia",), ""),
    ({"storage-driver": "overlayfs"}, (), ""), ({"exec-opts": ["native.cgroupdriver=systemd", "x"]}, (), ""),
    ({"storage-driver": "btrfs"}, (),
     "storage-driver: overlay2, expected btrfs, as /etc/docker/daemon.json says"),
    ({"exec-opts": ["native.cgroupdriver=cgroupfs"]}, (), "cgroup driver: systemd, expected cgroupfs"),
    ({"data-root": "/data"}, (), "data-root: /raid/docker, expected /data"),
    ({"data-root": "/raid/dock"}, (), "data-root: /raid/docker, expected /raid/dock"),
    ({"live-restore": True}, (), "live-restore: false, expected true"),
    ({"log-driver": "local"}, (), "log-driver: json-file, expected local"),
    ({"default-runtime": "nvidia"}, (), "default-runtime: runc, expected nvidia"),
    ({}, ("kata",), "runtime: no kata among io.containerd.runc.v2, nvidia, runc, expected kata"),
])
def test_the_daemon_runs_as_its_file_says(keys: dict[str, Any], runtimes: tuple[str, ...],
                                          words: str) -> None:
    status, found = daemon(keys, *runtimes)
    assert (status, found.startswith(words)) == (Status.FAIL if words else Status.PASS, True), found


def test_a_data_root_with_a_remapped_user_is_the_same() -> None:
    assert daemon({"data-root": "/raid/docker"}, DockerRootDir="/raid/docker/165536.165536")[0] is Status.PASS


def test_a_file_with_which_the_daemon_would_not_start_is_a_finding_though_the_daemon_runs_or_hangs() -> None:
    broken = machine.container_config(**{DAEMON: {"trouble": "Expecting ',' delimiter: line 3 column 5"}})
    for info in (machine.docker(), NO_DAEMON):
        result = verdict("docker-config", machine.recording(docker_info=info, container_config=broken))
        assert findings_of(result).startswith(
            "daemon.json: /etc/docker/daemon.json cannot be read: Expecting ','")


def test_without_a_file_or_without_docker_there_is_nothing_to_compare_and_what_is_not_told_is_unknown(
) -> None:
    none = machine.done(toolkit="{}")
    assert verdict("docker-config", machine.recording(container_config=none)).status is Status.SKIPPED
    assert verdict("docker-config", machine.recording(docker_info=NO_CLIENT)).status is Status.SKIPPED
    assert verdict("docker-config", machine.recording(container_config=HUNG)).status is Status.UNKNOWN
    assert daemon({"log-driver": "local"}, LoggingDriver=None)[0] is Status.UNKNOWN


# Room

def mounts(root_free: int, raid_free: int | None) -> Capture:
    table = machine.MOUNTINFO if raid_free is not None else machine.MOUNTINFO.splitlines()[0] + "\n"
    files = {"/proc/self/mountinfo": table, "/": f"4096 4096 100000000 {root_free} {root_free} 500000 400000 "
             "400000 4096 255", "/home": machine.STATVFS}
    if raid_free is not None:
        files["/raid"] = f"4096 4096 100000000 {raid_free} {raid_free} 500000 400000 400000 4096 255"
    return machine.done(**files)


GIB = 2**30 // 4096


@pytest.mark.parametrize(("root", "root_free", "raid_free", "words"), [
    ("/raid/docker", 0, 30 * GIB, ""), ("/raid/docker", 90 * GIB, 30 * GIB - 1,
                                        "/raid/docker on /raid: 30.0 GiB left, expected at least 30 GiB"),
    ("/raid", 90 * GIB, GIB, "/raid on /raid: 1.0 GiB left, expected at least 30 GiB"),
    ("/raider/docker", 90 * GIB, 0, ""),
    ("/var/lib/docker", 2 * GIB, 90 * GIB, "/var/lib/docker on /: 2.0 GiB left, expected at least 30 GiB"),
    ("/raid/docker/", 29 * GIB, None, "/raid/docker on /: 29.0 GiB left, expected at least 30 GiB"),
])
def test_the_file_system_that_holds_the_data_root_has_room(root: str, root_free: int, raid_free: int | None,
                                                           words: str) -> None:
    seen = machine.recording(docker_info=machine.docker(DockerRootDir=root),
                             filesystem_mounts=mounts(root_free, raid_free))
    assert status_findings("docker-disk", seen) == (Status.FAIL if words else Status.PASS, words)


def test_images_that_containerd_holds_are_not_in_the_data_root() -> None:
    """With the containerd image store, the default since Docker 29, data-root moves them no more."""
    def of_images(root_free: int, raid_free: int = 90 * GIB, driver: str = "overlayfs") -> Result:
        return verdict("docker-disk", machine.recording(
            docker_info=machine.docker(DockerRootDir="/raid/docker", Driver=driver),
            filesystem_mounts=mounts(root_free, raid_free)))

    assert of_images(90 * GIB).status is of_images(GIB, driver="overlay2").status is Status.PASS
    assert "that its root is there is not known" in of_images(90 * GIB).reason
    short = of_images(GIB)
    assert short.status is Status.UNKNOWN and not short.findings
    assert "/var/lib/containerd on / has 1.0 GiB left" in short.reason
    assert of_images(GIB, GIB).status is Status.FAIL


def test_a_data_root_on_what_could_not_be_measured_is_unknown() -> None:
    whole = mounts(90 * GIB, 90 * GIB)
    without = replace(whole, files={path: entry for path, entry in whole.files.items() if path != "/raid"})
    assert verdict("docker-disk", machine.recording(filesystem_mounts=without)).status is Status.UNKNOWN


# Images

images = machine.lines


def pulled(rows: tuple[dict[str, Any], ...] | Capture, *named: str) -> Result:
    seen = machine.recording(docker_images=rows if isinstance(rows, Capture) else images(*rows))
    rule = replace(RULES["docker-images"], parameters={"images": tuple(named)})
    return judge(replace(rule, left_out=""), NodeFacts(_facts(rule, seen)), None)


OTHER = "sha256:" + "ee" * 32


@pytest.mark.parametrize(("named", "words"), [
    ("nvcr.io/nvidia/pytorch:24.03-py3", ""), (f"nvcr.io/nvidia/pytorch:24.03-py3@{DIGEST}", ""),
    (f"nvcr.io/nvidia/pytorch@{DIGEST}", ""),
    (f"nvcr.io/nvidia/pytorch:24.03-py3@{IMAGE_ID}", ""), ("docker.io/library/ubuntu", ""),
    ("ubuntu:latest", ""), ("localhost:5000/tool", ""),
    ("nvcr.io/nvidia/pytorch", "nvcr.io/nvidia/pytorch:latest: not on the node, expected pulled"),
    ("nvcr.io/nvidia/pytorch:24.05-py3",
     "nvcr.io/nvidia/pytorch:24.05-py3: not on the node, expected pulled"),
    (f"nvcr.io/nvidia/pytorch:24.03-py3@{OTHER}",
     f"nvcr.io/nvidia/pytorch:24.03-py3: {DIGEST}, expected {OTHER}"),
    (f"ubuntu:latest@{OTHER}", f"ubuntu:latest: no digest, id {IMAGE_ID}, expected {OTHER}"),
])
def test_an_image_is_found_by_its_tag_and_held_to_its_digest(named: str, words: str) -> None:
    held = (machine.image(), machine.image("ubuntu:latest", "<none>"),
            machine.image("localhost:5000/tool:latest"), machine.image("<none>:<none>"))
    result = pulled(held, named)
    assert (result.status, findings_of(result)) == (Status.FAIL if words else Status.PASS, words)


def test_no_image_named_is_no_pass() -> None:
    result = pulled((machine.image(),))
    assert result.status is Status.UNKNOWN and "no image is named" in result.reason


@pytest.mark.parametrize(("capture", "status"), [
    (NO_CLIENT, Status.SKIPPED), (NO_DAEMON, Status.SKIPPED), (HUNG, Status.UNKNOWN),
    (machine.docker_denied(), Status.UNKNOWN),
    (images(), Status.FAIL), (replace(images(), text='{"repository": "ubuntu"}\n'), Status.UNKNOWN),
    (replace(images(), text="what\n"), Status.UNKNOWN),
    (replace(images(), outcome=Outcome.TRUNCATED), Status.UNKNOWN),
])
def test_a_list_of_images_that_is_not_whole_accuses_no_one_of_what_is_missing(
    capture: Capture, status: Status,
) -> None:
    result = pulled(capture, "ubuntu")
    assert result.status is status
    assert result.origin is (Origin.NODE if status is Status.UNKNOWN else None)


# The fleet

def fleet(rule: str, **captures: tuple[Capture, ...]) -> list[tuple[Status, str]]:
    (name, each), = captures.items()
    return cohort(rule,
                  *(machine.recording(f"gpu{n:03d}", **{name: capture}) for n, capture in enumerate(each, 1)))


def test_the_node_with_another_version_of_docker_is_named() -> None:
    found = fleet("fleet-docker-version",
                  docker_info=(machine.docker(),) * 3 + (machine.docker(ServerVersion="20.10.24"),))
    assert (found == [(Status.PASS, "")] * 3
            + [(Status.FAIL, "Docker version: 20.10.24, expected 24.0.7, as on 3 of 4 nodes")])


def test_the_node_whose_docker_works_with_another_containerd_is_named() -> None:
    other = machine.docker(ContainerdCommit={"ID": "beef" * 10})
    found = fleet("fleet-docker-parts", docker_info=(machine.docker(),) * 3 + (other,))
    assert found == [(Status.PASS, "")] * 3 + [(
        Status.FAIL, "Docker's parts: containerd beefbeefbeef, runc v1.1.12-0-g51d5e94, expected containerd "
        "7c3aca7a610d, runc v1.1.12-0-g51d5e94, as on 3 of 4 nodes")]


@pytest.mark.parametrize(("rule", "others", "statuses"), [
    ("fleet-docker-version", (NO_CLIENT, HUNG), (Status.SKIPPED, Status.UNKNOWN)),
    ("fleet-docker-parts", (machine.docker(RuncCommit={}), NO_CLIENT, HUNG),
     (Status.SKIPPED, Status.SKIPPED, Status.UNKNOWN))])
def test_a_node_without_docker_or_that_did_not_say_leaves_the_comparison(
    rule: str, others: tuple[Capture, ...], statuses: tuple[Status, ...],
) -> None:
    found = fleet(rule, docker_info=(machine.docker(),) * 3 + others)
    assert [status for status, _ in found] == [Status.PASS] * 3 + list(statuses)


def test_one_tag_with_two_digests_is_named_on_the_node_that_differs() -> None:
    name = "nvcr.io/nvidia/pytorch:24.03-py3"
    found = fleet("fleet-docker-image",
                  docker_images=(images(machine.image()),) * 3 + (images(machine.image(digest=OTHER)),))
    assert (found == [(Status.PASS, "")] * 3
            + [(Status.FAIL, f"{name}: {OTHER}, expected {DIGEST}, as on 3 of 4 nodes")])


OURS, BUILT = images(machine.image()), images(machine.image("tool:1", "<none>"))


@pytest.mark.parametrize(("three", "fourth", "status"), [
    (OURS, HUNG, Status.UNKNOWN),           # it leaves the comparison
    (BUILT, images(machine.image("tool:1", "<none>", OTHER)),
     Status.FAIL)])        # without digests, by their ids
def test_images_are_compared_where_they_were_listed_and_by_their_ids_without_digests(
    three: Capture, fourth: Capture, status: Status,
) -> None:
    found = fleet("fleet-docker-image", docker_images=(three, three, three, fourth))
    assert [each for each, _ in found] == [Status.PASS] * 3 + [status]


def test_a_tag_that_few_have_or_of_which_none_has_a_majority_accuses_no_one() -> None:
    few = fleet("fleet-docker-image", docker_images=(
        images(machine.image(), machine.image("a:1")),
        images(machine.image(), machine.image("a:1", OTHER)), OURS))
    assert [status for status, _ in few] == [Status.PASS] * 3
    split = fleet("fleet-docker-image",
                  docker_images=(OURS, OURS) + (images(machine.image(digest=OTHER)),) * 2)
    assert [status for status, _ in split] == [Status.SKIPPED] * 4 and "no digest of" in split[0][1]
