"""Rules of a container that is given all GPUs and RDMA devices: what it lacks, and what was not seen."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from healthcheck.facts.container_run import CHECK_IMAGE, RUN
from healthcheck.model.outcome import Status
from healthcheck.model.recording import Capture, Outcome
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import RULES, ids, status_words

GPUS, RDMA = "container-all-gpus", "container-all-rdma"
FILES = (*(f"/dev/nvidia{n}" for n in range(8)), "/dev/nvidia-uvm",
         *(f"/dev/infiniband/uverbs{n}" for n in range(8)), "/dev/infiniband/rdma_cm")
ADAPTERS = tuple(f"mlx5_{n}" for n in range(8))
LIST = tuple(f"GPU {n}: NVIDIA H100 80GB HBM3 (UUID: GPU-{n:08x}-0000-0000-0000-000000000000)"
             for n in range(8))
HOW = "docker --gpus all"


def sees(who: str, files: Sequence[str], adapters: Sequence[str]) -> str:
    return "".join(f"{who} opens {path}\n" for path in files) + "".join(f"{who} rdma {name}\n"
                                                                        for name in adapters)


def ran(
    listed: Sequence[str] = LIST, files: Sequence[str] = FILES, adapters: Sequence[str] = ADAPTERS, *,
    how: str = HOW,
    node: tuple[Sequence[str], Sequence[str]] = (FILES, ADAPTERS), smi: int = 0,
) -> Capture:
    """A run of a container that ended by itself: what it lists, and what it and the node open and have."""
    inside = sees("inside", files, adapters) + "".join(f"{line}\n"
                                                       for line in listed) + f"inside ended {smi}\n"
    return printed(f"{sees('node', *node)}runs {how}\n{inside}exit 0\n")


def failed(words: str, code: int = 125, how: str = HOW) -> Capture:
    """A run of which the client says this, and nothing comes from inside."""
    return printed(f"{sees('node', FILES, ADAPTERS)}runs {how}\n{words}\nexit {code}\n")


def printed(text: str, exit_status: int = 0, stderr: str = "") -> Capture:
    return Capture(Outcome.DONE, exit=exit_status, seconds=4.0, text=text, stderr=stderr)


def judged(rule: str, capture: Capture) -> tuple[Status, str]:
    return status_words(rule, machine.recording("gpu001", container_run=capture))


@pytest.mark.parametrize("how", [HOW, "docker --device nvidia.com/gpu=all", "nerdctl --gpus all",
                                 "podman --device nvidia.com/gpu=all"])
def test_a_container_with_all_that_the_node_has_passes_by_any_client_and_any_way(how: str) -> None:
    assert [judged(rule, ran(how=how)) for rule in (GPUS, RDMA)] == [(Status.PASS, "")] * 2


@pytest.mark.parametrize(("rule", "capture", "words"), [
    (GPUS, ran(LIST[:6]), f"container: 6 GPUs in a container ({HOW}), expected 8, as the driver lists"),
    (GPUS, ran(files=[f for f in FILES if f != "/dev/nvidia-uvm"]),
     f"/dev/nvidia-uvm: cannot be opened in a container ({HOW}), expected opened, as on the node"),
    (GPUS, ran(["Failed to initialize NVML: Unknown Error"], (), smi=255),
     f"container: 0 GPUs in a container ({HOW}): Failed to initialize NVML: Unknown Error, expected "
     f"8, as the "
     "driver lists"),
    (GPUS, ran(["sh: 1: nvidia-smi: not found"], (), smi=127),
     f"container: 0 GPUs in a container ({HOW}): nvidia-smi: not found, expected 8, as the driver lists"),
    (GPUS, failed('docker: Error response from daemon: could not select device driver "" with capabilities: '
                  "[[gpu]]."),
     f'container: 0 GPUs in a container ({HOW}): could not select device driver "" with capabilities: '
     f'[[gpu]]., '
     "expected 8, as the driver lists"),
    (GPUS, failed("Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all", 126,
                  "podman --device nvidia.com/gpu=all"),
     "container: 0 GPUs in a container (podman --device nvidia.com/gpu=all): CDI devices: unresolvable CDI "
     "devices nvidia.com/gpu=all, expected 8, as the driver lists"),
    (RDMA, ran(files=[f for f in FILES if f != "/dev/infiniband/uverbs3"]),
     f"/dev/infiniband/uverbs3: cannot be opened in a container ({HOW}), expected opened, as on the node"),
    (RDMA, ran(adapters=ADAPTERS[:7]), f"mlx5_7: not in a container ({HOW}), expected in it, as on the node"),
])
def test_what_a_container_lacks_is_a_finding(rule: str, capture: Capture, words: str) -> None:
    assert judged(rule, capture) == (Status.FAIL, words)


def test_a_container_that_gpus_keep_from_starting_says_nothing_of_rdma_devices() -> None:
    status, reason = judged(RDMA,
                            failed(
                                "nvidia-container-cli: initialization error: nvml error: driver not loaded"))
    assert status is Status.UNKNOWN and "did not start: nvidia-container-cli" in reason


def test_what_runs_in_a_container_says_nothing_of_the_node() -> None:
    assert judged(RDMA,
                  ran((*LIST, "node rdma mlx5_9", "node opens /dev/infiniband/uverbs9"))) == (Status.PASS, "")


def test_a_file_that_the_node_cannot_open_either_is_no_fault_of_containers() -> None:
    less = [path for path in FILES if path != "/dev/infiniband/uverbs3"]
    assert judged(RDMA, ran(files=less, node=(less, ADAPTERS)))[0] is Status.PASS


def test_a_node_without_rdma_devices_is_not_judged_for_them() -> None:
    files = [path for path in FILES if "uverbs" not in path]
    status, reason = judged(RDMA, ran(files=files, adapters=(), node=(files, ())))
    assert status is Status.SKIPPED and "no RDMA devices" in reason


@pytest.mark.parametrize(("capture", "words"), [
    (printed(sees("node", FILES, ADAPTERS) + "lacks docker\n"), f"as root: docker tag IMAGE {CHECK_IMAGE}"),
    (printed("fails docker\nlacks podman\n", stderr="Cannot connect to the Docker daemon\n"),
     f"podman tag IMAGE {CHECK_IMAGE}"),
    (printed("fails docker\n",
             stderr="Cannot connect to the Docker daemon at unix:///var/run/docker.sock.\n"),
     "docker could not list images: Cannot connect to the Docker daemon"),
    (failed(
        'docker: Error response from daemon: Conflict. The container name "/muster-gpu-check" is in use.'),
     "docker run ended with exit status 125: docker: Error response from daemon: Conflict"),
    (failed('exec: "sh": executable file not found in $PATH: unknown.', 127), "exit status 127"),
    (printed(f"runs {HOW}\n", 124), "did not end within"), (printed(f"runs {HOW}\n"), "not whole"),
    (ran(["sh: 1: nvidia-smi: not found"], smi=127), "NVIDIA_DRIVER_CAPABILITIES"),
    (Capture(Outcome.MISSING), "timeout is not there"), (Capture(Outcome.TIMEOUT, seconds=105.0), "105 s"),
    (Capture(Outcome.TRUNCATED, text=ran().text), "the rest was dropped"),
])
@pytest.mark.parametrize("rule", [GPUS, RDMA])
def test_a_run_that_did_not_come_about_or_to_its_end_is_no_pass(rule: str, capture: Capture,
                                                                words: str) -> None:
    status, reason = judged(rule, capture)
    assert status is Status.UNKNOWN and words in reason, reason


def test_a_node_without_docker_nerdctl_and_podman_is_skipped() -> None:
    assert judged(GPUS, printed(sees("node", FILES, ADAPTERS)))[0] is Status.SKIPPED


def test_a_container_is_run_under_a_lease_only_and_nothing_is_pulled() -> None:
    assert {rule for rule in ids("container.yaml") if RULES[rule].disruptive} == {GPUS, RDMA}
    script = next(word for word in RUN.argv if "--pull" in word)
    assert "run --rm --pull never" in script and " pull " not in script
