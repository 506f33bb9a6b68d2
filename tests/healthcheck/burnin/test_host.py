"""Host memory: copies of all ranks at once, every word checked, in buffers of the right size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.burnin import faults
from healthcheck.burnin.judge import judge
from healthcheck.burnin.judgement import BurnInOutcome, Judgement
from healthcheck.burnin.model import BurnInStage, Object, TaskKind, TaskResult
from healthcheck.burnin.onnode import host
from healthcheck.burnin.wrongdata import wrong_data
from tests.healthcheck.burnin.made import FLOORS, burnt, changed, places, sound
from tests.healthcheck.burnin.workers import RankPart

EIGHT = places(8)
MIB, GIB = 1 << 20, 1 << 30


class Part(RankPart):
    """What a rank is to its work."""

    def __init__(self, world: int = 1, numa: str = "", **params: Any) -> None:
        super().__init__("host", params, world)
        self.facts["numa"] = numa
        self.phases: list[str] = []
        self.then = self.phases.append


@pytest.fixture
def machine(tmp_path: Path) -> str:
    """Two NUMA nodes of four cores, each with a cache of 32 MiB, and 64 GiB free, of which the first node has
    10.
    """
    files = {f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{name}": text for cpu in range(8)
             for index, (level, size, shared) in enumerate((("1", "48K", str(cpu)), ("2", "1M", str(cpu)),
                                                            ("3", "32M", "0-3" if cpu < 4 else "4-7")))
             for name, text in (("level", level), ("size", size), ("shared_cpu_list", shared))}
    for node, (cpus, free) in enumerate((("0-3", 10), ("4-7", 54))):
        files[f"sys/devices/system/node/node{node}/cpulist"] = cpus
        files[f"sys/devices/system/node/node{node}/meminfo"] = (
            f"Node {node} MemTotal: 99 kB\nNode {node} MemFree: {free << 20} kB\n")
    files["proc/meminfo"] = (f"MemTotal:  99999999 kB\nMemAvailable:   {64 << 20} kB\n"
                             "HugePages_Total:       0\n")
    files["proc/cpuinfo"] = "processor : 0\nmodel name\t: Xeon 8480+\n"
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    return f"{tmp_path}/"


def test_every_word_goes_to_and_fro_and_is_right(machine: str) -> None:
    part = Part(bytes=4 * MIB, run_s=0.02, threads=3)
    host.host_memory(part, SimpleNamespace(torch=pytest.importorskip("torch")), machine)
    assert part.wrong == 0 and part.figures["host_gb_s"] > 0 and part.figures["verified"] >= 3
    assert (part.facts["host_memory"] == f"3 threads, {4 * MIB} bytes" and part.facts["cpu"] == "Xeon 8480+"
            and part.phases[-1] == "verify")


def test_a_word_that_changes_on_the_way_is_found_however_often_it_was_copied_since() -> None:
    torch = pytest.importorskip("torch")
    copier = host.Copier(Part(), torch, 1000, host.SLICE_WORDS + 4096)
    arrived = copier.target
    assert copier.run(0.0, 0.0)[0] > 0      # its time is over before it begins
    arrived[host.SLICE_WORDS + 77] ^= 8     # as the first copy may have
    copier.run(0.0, host.time.monotonic() + 0.01)
    assert (copier.wrong() == 1 and copier.first == f"word {host.SLICE_WORDS + 1077}, bits 0x8"
            and copier.copies > 1)


def test_caches_ask_for_more_and_free_memory_bounds_it(machine: str) -> None:
    assert host.cache_bytes(machine) == 64 * MIB
    assert host.host_bytes(Part(8, bytes=MIB), machine) == (MIB, "")
    assert host.host_bytes(Part(8, bytes=MIB, caches=4.0), machine) == (32 * MIB, "")
    # a quarter of 64, of eight ranks
    assert host.host_bytes(Part(8, bytes=100 * GIB), machine)[0] == 2 * GIB
    # the lesser node, twice
    assert host.host_bytes(Part(8, "node 0", bytes=100 * GIB), machine)[0] == 20 * GIB // 4 // 8
    size, why = host.host_bytes(Part(8, share=1e-4, caches=4.0), machine)
    assert size == 0 and why.startswith(f"{64 * GIB} bytes of memory are free, and a rank may take")
    assert host.host_bytes(Part(8), "/no/such/")[0] == 0


def test_what_may_not_be_taken_is_not_measured(machine: str) -> None:
    part = Part(8, share=1e-4, caches=4.0)
    host.host_memory(part, SimpleNamespace(torch=None), machine)
    assert "host_gb_s" not in part.figures and "are wanted" in part.facts["not_measured"]


def test_threads_are_a_rank_s_share_of_the_cores_that_it_may_use(
    machine: str, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host.os, "sched_getaffinity", lambda pid: set(range(8)))
    assert (host.host_threads(Part(4, threads=0), machine) == 2
            and host.host_threads(Part(4, threads=5), machine) == 5)
    monkeypatch.setattr(host.os, "sched_getaffinity", lambda pid: set(range(4)))
    assert (host.host_threads(Part(4, "node 1", threads=0), machine) == 2
            and host.host_threads(Part(64, threads=0), machine) == 1)


@given(st.text(max_size=200))
def test_whatever_meminfo_says_is_read_as_far_as_it_can_be(tmp_path_factory: pytest.TempPathFactory,
                                                           text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "meminfo"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    assert all(isinstance(value, int) for value in host.meminfo(str(path)).values())


# Judged

def judged(results: Iterable[TaskResult]) -> Judgement:
    return judge(burnt(EIGHT, results), FLOORS)


def lower(results: list[TaskResult], share: float, *gpus: int) -> list[TaskResult]:
    for gpu in gpus:
        results = changed(results, "node-host-gpu003", f"gpu003:{gpu}", figures={"host_gb_s": 45 * share})
    return results


def test_a_node_s_memory_is_the_sum_of_its_ranks_and_one_slow_socket_is_seen() -> None:
    of = judged(sound(EIGHT))
    held = {one.setting.figure: (one.n, one.equals) for one in of.held
            if one.setting.figure.startswith("host")}
    assert (held == {"host_gb_s": (8, True), "host_numa_gb_s": (8, True)}
            and of.outcomes[0].figures["host_gb_s"] == pytest.approx(360, rel=0.01))
    of = judged(lower(sound(EIGHT), 0.88, 4, 5, 6, 7))
    [one] = of.accusations
    assert (one.object, one.name, one.fault) == (Object.NODE, "gpu003", faults.SLOW)
    assert "host memory of its slowest NUMA node 158" in one.why, one.why
    # How ranks of one NUMA node share what it has says nothing.
    assert not judged(changed(lower(sound(EIGHT), 0.7, 4, 5), "node-host-gpu003", "gpu003:6",
                              figures={"host_gb_s": 45 * 1.6})).accusations


def test_ranks_that_were_not_bound_and_memory_that_was_not_measured_leave_the_node_unknown() -> None:
    of = judged(changed(sound(EIGHT), "node-host-gpu003", "gpu003:1",
                        facts={"numa": "not bound: no word of it"}))
    assert [one.node for one in of.outcomes if one.outcome is BurnInOutcome.UNKNOWN] == ["gpu003"]
    assert "host memory of gpu003:1 was not judged: not bound: no word of it" in of.outcomes[2].why
    of = judged(changed(sound(EIGHT), "node-host-gpu003", "*", figures={"host_gb_s": 0.0},
                        facts={"not_measured": "too little"}))
    assert ("host memory was not measured: too little" in of.outcomes[2].why
            and of.outcomes[2].outcome is BurnInOutcome.UNKNOWN)


def test_wrong_words_are_the_node_s_and_no_gpu_s() -> None:
    results = [replace(one, accusations=wrong_data(one.task, one.reports)) if one.task.kind is TaskKind.HOST
               else one for one in changed(sound(EIGHT), "node-host-gpu003", "gpu003:5", wrong_total=2,
                                           facts={"wrong_in": "word 77, bits 0x8"})]
    [one] = judged(results).accusations
    assert (one.object, one.name, one.fault, one.why) == (Object.NODE, "gpu003", faults.WRONG_DATA,
                                                          "host memory: 2 words differ from what was "
                                                          "written, the first at word 77, bits 0x8")
    assert (one.tests_for == ("node-host-gpu003",)
            and BurnInStage.NODE in {result.task.stage for result in results})
