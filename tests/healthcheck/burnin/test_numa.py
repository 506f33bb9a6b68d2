"""A rank is bound to its GPU's NUMA node, or reports why not."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.burnin.onnode.numa import cpus_of, numa_bound

GPU = "0000:41:00.0"


def machine(folder: Path, nodes: dict[int, str], gpu: str | None) -> str:
    """A sysfs with these NUMA nodes and their cores, and a GPU on one."""
    for node, cores in nodes.items():
        at = folder / f"devices/system/node/node{node}"
        at.mkdir(parents=True)
        (at / "cpulist").write_text(f"{cores}\n")
    if gpu is not None:
        (folder / f"bus/pci/devices/{GPU}").mkdir(parents=True)
        (folder / f"bus/pci/devices/{GPU}/numa_node").write_text(f"{gpu}\n")
    return str(folder)


def apart(what: Callable[[], object]) -> object:
    """What comes of it in a process of its own, so that this one stays as it is."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, json.dumps(what()).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        found = json.loads(file.read())
    os.wait()
    return found


def test_it_runs_on_its_node_s_cores_and_takes_that_node_s_memory(tmp_path: Path) -> None:
    first, *_ = sorted(os.sched_getaffinity(0))
    root = machine(tmp_path, {0: str(first), 1: "9000-9001"}, "0")

    def bound() -> object:
        said = numa_bound(GPU, root)
        policy = next((line.split()[1] for line in Path("/proc/self/numa_maps").read_text().splitlines()
                       if "stack" in line), "")
        return said, sorted(os.sched_getaffinity(0)), policy

    said, cores, policy = apart(bound)      # type: ignore[misc]
    assert said.startswith("node 0") and cores == [first]
    assert policy == "bind:0" or "by its cores only: " in said


@pytest.mark.parametrize(("nodes", "gpu", "said"), [
    # a superchip's GPU memory is a node, too
    ({0: "0-3"}, "0", "one node"), ({}, None, "one node"), ({0: "0-3", 1: ""}, "0", "one node"),
    ({0: "0-3", 1: "4-7"}, "-1", "not bound: the kernel reports no NUMA node of 0000:41:00.0 (-1)"),
    ({0: "0-3", 1: "4-7"}, None, "not bound: the kernel reports no NUMA node of 0000:41:00.0 (nothing)"),
    ({0: "0-3", 1: "9000-9003"}, "1", "not bound: this process may use none of the cores of node 1"),
])
def test_where_it_cannot_be_that_is_reported_and_nothing_changes(
    tmp_path: Path, nodes: dict[int, str], gpu: str | None, said: str,
) -> None:
    before = os.sched_getaffinity(0)
    assert numa_bound(GPU, machine(tmp_path, nodes, gpu)) == said and os.sched_getaffinity(0) == before


def test_a_gpu_whose_address_is_not_known_is_not_bound(tmp_path: Path) -> None:
    assert numa_bound("", machine(tmp_path, {0: "0", 1: "1"},
                                  "0")) == "not bound: PyTorch does not report the GPU's PCI address"


@given(st.text(max_size=40))
def test_no_list_of_cores_breaks_it(text: str) -> None:
    assert all(core >= 0 for core in cpus_of(text))


def test_a_list_of_cores_is_read() -> None:
    assert cpus_of("0-2,8,10-11") == {0, 1, 2, 8, 10, 11} and cpus_of("") == set()
