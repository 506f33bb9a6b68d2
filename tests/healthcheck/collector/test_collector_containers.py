"""What the reader makes of configurations of containers: names and whether they are there, and nothing else
of a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.collector.onnode.containers import daemon, described, runtimes
from healthcheck.facts.container_config import CONFIG
from healthcheck.model.recording import Outcome
from tests.testbed.collector import collect

CONTAINERD = """version = 2
[plugins."io.containerd.grpc.v1.cri".registry.configs."nvcr.io".auth]
  password = "s3cret"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
    BinaryName = "/usr/bin/nvidia-container-runtime"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes."nvidia-cdi".options]
  BinaryName = '/opt/gone'
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/opt/cni/bin"
  # BinaryName = "/opt/commented"
"""
CRIO = ('[crio.runtime.runtimes.nvidia]\nruntime_path = "/usr/bin/nvidia-container-runtime"\nmonitor_path = '
        '"/usr/libexec/crio/conmon"\n')
SPEC = """cdiVersion: 0.5.0
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    - {hostPath: "/dev/nvidia1", path: /dev/x}
  name: "0"
containerEdits:
  mounts:
  - containerPath: /in/the/container
    hostPath: /usr/lib64/libcuda.so.535.161.08
kind: nvidia.com/gpu
"""
DAEMON = {"log-driver": "splunk", "log-opts": {"splunk-token": "s3cret"},
          "proxies": {"http-proxy": "http://me:s3cret@proxy"},
          "runtimes": {"nvidia": {"path": "nvidia-container-runtime", "runtimeArgs": []},
                       "kata": {"runtimeType": "io.containerd.kata.v2"}}}


def found(tree: Path, files: dict[str, str]) -> dict[str, Any]:
    """What the real collector says of each file of a tree, from the root."""
    for path, text in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    capture = collect([CONFIG], tree).captures["container.config"]
    assert capture.outcome is Outcome.DONE, capture
    return {path: json.loads(entry.text) for path, entry in capture.files.items()}


def test_a_node_says_what_is_named_and_what_of_that_is_there_and_no_secret(tmp_path: Path) -> None:
    made = {"usr/bin/nvidia-container-runtime": "", "usr/local/bin/nvidia-ctk": "", "dev/nvidia0": "",
            "etc/containerd/config.toml": CONTAINERD,
            "etc/crio/crio.conf.d/99-nvidia.conf": CRIO, "etc/cdi/nvidia.yaml": SPEC,
            "etc/docker/daemon.json": json.dumps(DAEMON)}
    said = found(tmp_path, made)
    assert said["/etc/containerd/config.toml"] == {"programs": [
        ["nvidia", "/usr/bin/nvidia-container-runtime", True], ["nvidia-cdi", "/opt/gone", False]]}
    assert (said["/etc/crio/crio.conf.d/99-nvidia.conf"]
            == {"programs": [["nvidia", "/usr/bin/nvidia-container-runtime", True]]})
    assert said["/etc/cdi/nvidia.yaml"] == {"gone": ["/dev/nvidia1", "/dev/x",
                                                     "/usr/lib64/libcuda.so.535.161.08"], "unseen": []}
    assert said["/etc/docker/daemon.json"] == {"keys": {"log-driver": "splunk"},
                                               "programs": [["nvidia", "nvidia-container-runtime", True]]}
    assert {name
            for name, there in said["toolkit"].items() if there} == {"nvidia-container-runtime", "nvidia-ctk"}
    assert "s3cret" not in json.dumps(said)


def test_a_node_without_any_says_that_nothing_of_the_toolkit_is_there(tmp_path: Path) -> None:
    said = found(tmp_path, {})
    assert list(said) == ["toolkit"] and not any(said["toolkit"].values())


@pytest.mark.parametrize(("text", "expected"), [
    ("", {"keys": {}, "programs": []}), ("\ufeff{}", {"keys": {}, "programs": []}),
    ('{"live-restore": true,}',
     {"trouble": "Expecting property name enclosed in double quotes: line 1 column 23"}),
    ("[]", {"trouble": "no object"}),
    ('{"runtimes": 3, "data-root": "/"}', {"keys": {"data-root": "/"}, "programs": []}),
])
def test_daemon_json_is_read_as_docker_reads_it(text: str, expected: dict[str, Any]) -> None:
    assert daemon(text.encode()) == expected


@given(data=st.binary(max_size=200) | st.text("[]{}\"': =/.runtimesBaryNmpathhostP\n",
                                              max_size=200).map(str.encode))
def test_no_file_upsets_the_reader(data: bytes) -> None:
    for path in ("/etc/cdi/a.yaml", "/etc/docker/daemon.json", "/etc/containerd/config.toml"):
        assert isinstance(json.loads(described(path, data)), dict)
    assert all(len(row) == 3 for row in runtimes(data.decode("utf-8", "replace")))
