"""Rules of rules/memory.yaml: each passes at its limit, fails beyond it, and says what it could not see."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.hugepages import requested
from healthcheck.facts.values import Unmeasured
from healthcheck.model.outcome import Status
from healthcheck.model.recording import Outcome, Recording
from tests.healthcheck import machine
from tests.healthcheck.checks.changed import files, spoilt
from tests.healthcheck.checks.verdicts import ALL, after, findings_of, gpus, ids, status_findings, verdict

KIB = 2113000000
MIB_PAGES = 2048


def meminfo(**values: int | None) -> Recording:
    """The healthy machine with these lines of /proc/meminfo; None takes one away."""
    lines = dict(line.split(":") for line in machine.MEMINFO.splitlines())
    lines |= {key: f" {value}" + ("" if key.startswith("HugePages_") else " kB")
              for key, value in values.items() if value is not None}
    text = "".join(f"{key}:{value}\n" for key, value in lines.items() if values.get(key, 0) is not None)
    return files("host.memory", {"/proc/meminfo": text})


def log(*texts: str, hours_before_the_end: float = 0) -> Recording:
    """A kernel log with these lines, and an harmless one so much later."""
    records = "".join(f"3,{900 + n},{10_000_000 + n},-;{text}\n" for n, text in enumerate(texts))
    last = int(10_000_000 + hours_before_the_end * 3600e6)
    return files("kernel.log", {"/dev/kmsg": f"{machine.KMSG}{records}6,999,{last},-;harmless\n"})


CE = ("EDAC MC3: 1 CE memory read error on CPU_SrcID#0_MC#3_Chan#0_DIMM#0 (channel:0 slot:0 page:0x1 "
      "offset:0x0 grain:32 syndrome:0x0)")

PASSING = [
    ("memory-poisoned", meminfo()), ("memory-available", meminfo()), ("memory-left-over", meminfo()),
    ("memory-hugepages", meminfo()),
    ("memory-available", meminfo(MemAvailable=KIB * 2 // 100)),
    ("memory-left-over", meminfo(MemAvailable=KIB * 70 // 100)),
    ("memory-left-over",
     meminfo(MemAvailable=KIB * 61 // 100, HugePages_Free=KIB * 9 // 100 // MIB_PAGES + 1)),
    ("memory-hugepages", meminfo(HugePages_Total=KIB, HugePages_Free=KIB * 10 // 100 // MIB_PAGES)),
    # A kernel without huge pages has no such lines.
    ("memory-hugepages", meminfo(HugePages_Total=None, HugePages_Free=None, Hugepagesize=None)),
    ("memory-ecc-uncorrected", machine.recording()),
    ("kernel-hardware-corrected", log(*[CE] * 24)),
    ("kernel-hardware-corrected", log(*[CE] * 25, hours_before_the_end=25)),
]
FAILING = [
    ("memory-poisoned", meminfo(HardwareCorrupted=4), "memory: 4 KiB out of use, expected at most 0 KiB"),
    ("memory-available", meminfo(MemAvailable=KIB * 2 // 100 - KIB // 500),
     "memory: 36.3 GiB available (1.8 %), expected at least 2 %"),
    ("memory-left-over", meminfo(MemAvailable=KIB // 2),
     "memory: 50 % available, and nothing runs on any GPU, expected at least 70 %"),
    ("memory-hugepages", meminfo(HugePages_Total=KIB, HugePages_Free=KIB // 5 // MIB_PAGES),
     "huge pages: 403.0 GiB reserved and idle (20 %), expected at most 10 % of memory"),
    ("memory-ecc-uncorrected", files("memory.edac", {"dimm1/dimm_ue_count": "2\n", "mc0/ue_count": "2\n"}),
     "DIMM P1-DIMMB1 (mc0/dimm1): 2 uncorrected, expected at most 0"),
    ("memory-ecc-uncorrected", files("memory.edac", {"mc0/ue_count": "1\n"}),
     "memory controller mc0: 1 uncorrected, of no known DIMM, expected at most 0"),
    ("memory-ecc-uncorrected", files("memory.edac", {"dimm1/dimm_ue_count": "2\n", "mc0/ue_count": "3\n"}),
     "DIMM P1-DIMMB1 (mc0/dimm1): 2 uncorrected, expected at most 0; "
     "memory controller mc0: 1 uncorrected, of no known DIMM, expected at most 0"),
    ("kernel-hardware-corrected", log(*[CE] * 25),
     f"kernel log: 25 in 24 h, the last: {CE}, expected at most 24"),
]


@pytest.mark.parametrize(("rule", "recording"), PASSING)
def test_a_node_at_its_limit_passes(rule: str, recording: Recording) -> None:
    assert status_findings(rule, recording) == (Status.PASS, "")


@pytest.mark.parametrize(("rule", "recording", "words"), FAILING)
def test_a_node_beyond_it_is_told_what_is_wrong(rule: str, recording: Recording, words: str) -> None:
    assert status_findings(rule, recording) == (Status.FAIL, words)


@pytest.mark.parametrize(("rule", "recording"), [
    ("memory-available", meminfo(MemAvailable=None)), ("memory-left-over", meminfo(MemAvailable=None)),
    ("memory-available", meminfo(MemTotal=None)),
    ("memory-hugepages", meminfo(HugePages_Free=None)),
    ("memory-poisoned", files("host.memory", {"/proc/meminfo": Outcome.DENIED})),
    ("memory-ecc-uncorrected", files("memory.edac", {"dimm0/dimm_ue_count": Outcome.DENIED})),
    ("memory-ecc-uncorrected", files("memory.edac", {"mc0/ue_count": "many\n"})),
    ("kernel-hardware-corrected", files("kernel.log", {"/dev/kmsg": Outcome.DENIED})),
    ("kernel-hardware-corrected", files("kernel.log", {"/dev/kmsg": ""})),
    ("memory-left-over", gpus({"processes": {"error": [999, "Unknown Error"]}})),
])
def test_what_could_not_be_read_is_unknown(rule: str, recording: Recording) -> None:
    assert verdict(rule, recording).status is Status.UNKNOWN


def test_memory_in_use_by_a_job_is_not_left_over() -> None:
    busy = gpus({"processes": [[4711, "R", "python3"]]}, [5])
    held = meminfo(MemAvailable=KIB // 2)
    busy = replace(busy, captures={**busy.captures, "host.memory": held.captures["host.memory"]})
    assert verdict("memory-left-over", busy).status is Status.PASS


def no_edac() -> Recording:
    capture = machine.captures()["memory.edac"]
    return machine.recording(memory_edac=replace(capture,
                                                 files={"/proc/meminfo": capture.files["/proc/meminfo"]}))


@pytest.mark.parametrize(("rule", "recording"), [
    ("memory-ecc-uncorrected", no_edac()), ("memory-ecc-corrected", no_edac()),
    ("memory-poisoned", meminfo(HardwareCorrupted=None)),
])
def test_what_this_kernel_does_not_count_is_skipped_and_says_so(rule: str, recording: Recording) -> None:
    result = verdict(rule, after(recording, 600), recording)
    assert (result.status, result.reason.partition(":")[0]) == (Status.SKIPPED, "not supported")


@pytest.mark.parametrize(("count", "seconds", "status", "words"), [
    (12, 600, Status.PASS, ""),      # 9 more than before: too few to say anything
    (13, 600, Status.FAIL,
     "DIMM P1-DIMMA1 (mc0/dimm0): 10 corrected in 10 min, expected fewer than 10, or at most 10 a day"),
    (13, 86400, Status.PASS, ""), (14, 86400, Status.FAIL, "DIMM P1-DIMMA1 (mc0/dimm0): 11 corrected in 1440 "
                                   "min, expected fewer than 10, or at most 10 a day"),
    (3, 600, Status.PASS, ""), (2, 600, Status.UNKNOWN, ""), (13, 0, Status.UNKNOWN, ""),
    (13, -5, Status.UNKNOWN, ""),
])
def test_a_dimm_is_accused_of_what_it_corrected_since_the_last_look(
    count: int, seconds: float, status: Status, words: str,
) -> None:
    """DIMM P1-DIMMA1 had corrected 3 errors by then."""
    now = files("memory.edac", {"dimm0/dimm_ce_count": f"{count}\n", "mc0/ce_count": f"{count}\n"})
    assert status_findings("memory-ecc-corrected", after(now, seconds),
                           machine.recording()) == (status, words)


def test_without_dimms_the_controller_is_accused() -> None:
    gone = {f"dimm{n}/{name}": None for n in range(2)
            for name in ("dimm_label", "dimm_ce_count", "dimm_ue_count")}
    result = verdict("memory-ecc-corrected", after(files("memory.edac", {**gone, "mc0/ce_count": "99\n"}),
                                                   60), files("memory.edac", gone))
    assert findings_of(result).startswith("memory controller mc0: 96 corrected in 1 min")


def test_idle_gpus_with_all_memory_back_are_fine() -> None:
    assert verdict("memory-left-over", gpus({"processes": []}, ALL)).status is Status.PASS


HUGE = "/sys/kernel/mm/hugepages/hugepages"


def with_(probe: str, texts: dict[str, str | Outcome | None], held: Recording) -> Recording:
    """This recording with other files of one probe, too."""
    return replace(held, captures={**held.captures, probe: files(probe, texts).captures[probe]})


def asked(cmdline: str, **pages: str | Outcome | None) -> Recording:
    """A node that was booted with these parameters and has so many pages of 1 GiB (`gigantic`) and 2 MiB."""
    held: dict[str, str | Outcome | None] = {
        f"{HUGE}-{kib}kB/{file}_hugepages": pages[name]
        for name, kib in (("gigantic", 1048576), ("small", 2048)) if name in pages
        for file in (("nr",) if pages[name] else ("nr", "free", "resv"))}
    return with_("host.system", {"/proc/cmdline": f"BOOT_IMAGE=/vmlinuz ro {cmdline}\n"},
                 files("host.memory", held))


@pytest.mark.parametrize(("cmdline", "pages", "words"), [
    ("iommu=pt", {}, ""),
    ("hugepagesz=1G hugepages=16", {"gigantic": "16\n"}, ""),
    ("hugepagesz=1G hugepages=16", {"gigantic": "13\n"}, "1 GiB huge pages: 13 of 16"),
    # A CPU without them, or a virtual machine: there is no folder for this size.
    ("hugepagesz=1G hugepages=16", {"gigantic": None}, "1 GiB huge pages: 0 of 16"),
    # Each node its own, and two sizes.
    ("hugepagesz=1G hugepages=0:8,1:8 hugepagesz=2M hugepages=512", {"gigantic": "8\n", "small": "512\n"},
     "1 GiB huge pages: 8 of 16"),
    ("hugepages=1024", {"small": "512\n"}, "2 MiB huge pages: 512 of 1024"),
    ("default_hugepagesz=1G hugepages=4", {"gigantic": "3\n"}, "1 GiB huge pages: 3 of 4"),
    # Pages before any size are of the default size; a size that the kernel does not understand has none.
    ("hugepages=8 hugepagesz=1G hugepages=1", {"small": "8\n", "gigantic": "0\n"},
     "1 GiB huge pages: 0 of 1"),
    ("hugepagesz=big hugepages=7", {}, ""),
])
def test_huge_pages_that_were_asked_for_at_boot_and_are_not_there_are_named(
    cmdline: str, pages: dict[str, str | None], words: str,
) -> None:
    result = verdict("memory-hugepages-asked", asked(cmdline, **pages))
    assert (result.status, findings_of(result)) == (
        Status.FAIL if words else Status.PASS,
        f"{words}, expected all that the kernel's parameters ask for" if words else "")


def test_a_kernel_without_huge_pages_has_none_too_few_unless_some_were_asked_for() -> None:
    none = {f"{HUGE}-{kib}kB/{name}_hugepages": None for kib in (1048576, 2048)
            for name in ("nr", "free", "resv")}
    bare = files("host.memory", {**none, "/proc/meminfo": machine.MEMINFO.partition("HugePages")[0]})
    assert {verdict(rule, bare).status for rule in ("memory-hugepages-asked", "memory-hugepages-leaked",
                                                    "memory-hugepages")} == {Status.PASS}
    wanting = with_("host.system", {"/proc/cmdline": "ro hugepagesz=1G hugepages=2\n"}, bare)
    assert findings_of(verdict("memory-hugepages-asked", wanting)).startswith("1 GiB huge pages: 0 of 2")


def test_huge_pages_of_any_size_that_lie_idle_count() -> None:
    pages = {f"{HUGE}-1048576kB/{name}_hugepages": "400\n" for name in ("nr", "free")}
    result = verdict("memory-hugepages", files("host.memory", pages))
    assert findings_of(result).startswith("huge pages: 400.0 GiB reserved and idle (20 %)")


def buddyinfo(*counts: int, node: int = 1) -> dict[str, str | Outcome | None]:
    """Free blocks of one node, the other's as on the healthy machine."""
    lines = machine.BUDDYINFO.splitlines(keepends=True)
    lines[node] = f"Node {node}, zone   Normal" + "".join(f" {count:6d}" for count in counts) + " \n"
    return {"/proc/buddyinfo": "".join(lines)}


@pytest.mark.parametrize(("counts", "free_kb", "words"), [
    # 40 GiB free in pages of 4 KiB.
    ((10 << 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), 950_000_000 + (40 << 20),
     "NUMA node 1: 0.0 % of 40.0 GiB free lies in blocks of 2 MiB or more, expected at least 2 %"),
    # As little as a full cache of files leaves.
    ((1 << 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), 950_000_000 + (4 << 20), ""),
    ((10 << 20, 0, 0, 0, 0, 0, 0, 0, 0, 500, 0), 950_000_000 + (41 << 20), ""),
])
def test_free_memory_in_small_pieces_is_named(counts: tuple[int, ...], free_kb: int, words: str) -> None:
    meminfo_ = machine.MEMINFO.replace("1900000000", str(free_kb))
    result = verdict("memory-fragmented",
                     files("host.memory", {"/proc/meminfo": meminfo_, **buddyinfo(*counts)}))
    assert (result.status, findings_of(result)) == (Status.FAIL if words else Status.PASS, words)


def test_pages_of_64_kib_are_known_by_the_free_memory_that_they_make() -> None:
    """Arm's kernels with such pages: a block of 2 MiB is of 32 of them."""
    text = "Node 0, zone   Normal 400000 0 0 0 0 10000 0 0 0 0 0 0 0 0\n"
    free = 64 * (400000 + 32 * 10000)
    held = files("host.memory",
                 {"/proc/meminfo": machine.MEMINFO.replace("1900000000", str(free)), "/proc/buddyinfo": text})
    (found,) = build_fact(FACTS["free_blocks"], Captures(held))
    assert (found.free_bytes, found.large_bytes) == (free * 1024, 10000 * 2 << 20)


def numa(**available: int) -> Recording:
    """NUMA nodes with so many kB available, all of them free; `node2` is one without CPUs."""
    held: dict[str, str | Outcome | None] = {}
    for name, kib in available.items():
        number = name.removeprefix("node")
        held[f"{machine.NUMA}/{name}/meminfo"] = (
            f"Node {number} MemTotal: 1000000000 kB\nNode {number} MemFree: {kib} kB\nNode {number} "
            f"Active(file): 0 kB\n"
            f"Node {number} Inactive(file): 0 kB\nNode {number} SReclaimable: 0 kB\n")
        held[f"{machine.NUMA}/{name}/cpulist"] = "\n" if number == "2" else "0-3\n"
    return files("numa.nodes", {"/online": f"0-{len(available) - 1}\n", **held})


@pytest.mark.parametrize(("recording", "words"), [
    (numa(node0=20_000_000, node1=900_000_000), ""),
    (numa(node0=19_000_000, node1=900_000_000),
     "NUMA node 0: 1.9 % of its memory available, another's is 90 %, expected at least 2 %"),
    # A job that fills both is no fault, and a GPU's memory is no one's reserve.
    (numa(node0=5_000_000, node1=190_000_000), ""),
    (numa(node0=5_000_000, node1=5_000_000, node2=900_000_000), ""),
])
def test_a_numa_node_that_is_full_beside_an_empty_one_is_named(recording: Recording, words: str) -> None:
    assert status_findings("numa-free", recording) == (Status.FAIL if words else Status.PASS, words)


@pytest.mark.parametrize(("rule", "recording"), [
    ("numa-free", files("numa.nodes", {"node1/meminfo": "Node 1 MemTotal: 9 kB\nNode 1 MemFree: 9 kB\n"})),
    ("memory-hugepages-asked", asked("hugepagesz=1G hugepages=4", gigantic=Outcome.DENIED)),
    ("memory-hugepages-asked", files("host.system", {"/proc/cmdline": Outcome.DENIED})),
    ("memory-hugepages", files("host.memory", {f"{HUGE}-1048576kB/free_hugepages": Outcome.DENIED})),
    ("memory-fragmented", files("host.memory", {"/proc/buddyinfo": Outcome.DENIED})),
    ("memory-fragmented", files("host.memory", {"/proc/buddyinfo": "Node 0, zone\n"})),
    ("memory-fragmented", files("host.memory", {"/proc/buddyinfo": "\n"})),
    ("memory-fragmented", meminfo(MemFree=None)),
])
def test_what_could_not_be_read_of_pages_and_nodes_is_unknown(rule: str, recording: Recording) -> None:
    assert verdict(rule, recording).status is Status.UNKNOWN


def test_a_numa_node_of_which_only_the_total_is_known_is_not_judged_by_what_is_free() -> None:
    only = files("numa.nodes", {f"node{n}/meminfo": f"Node {n} MemTotal: 1056000000 kB\n" for n in range(2)})
    assert verdict("numa-free", only).status is Status.SKIPPED


def test_a_kernel_that_shows_no_free_blocks_is_skipped_and_one_odd_size_costs_no_other_reading() -> None:
    assert verdict("memory-fragmented",
                   files("host.memory", {"/proc/buddyinfo": None})).status is Status.SKIPPED
    odd = files("host.memory", {f"{HUGE}-1048576kB/nr_hugepages": "many\n"})
    others = ("memory-poisoned", "memory-available", "memory-left-over", "memory-hugepages",
              "memory-fragmented", "host-memory")
    assert {rule: verdict(rule, odd, memory_gib=2048).status
            for rule in others} == dict.fromkeys(others, Status.PASS)


@pytest.mark.parametrize(("name", "rule"), [
    ("free", "memory-hugepages"), ("nr", "memory-hugepages-leaked"), ("resv", "memory-hugepages-leaked")])
def test_a_size_of_huge_pages_without_one_of_its_files_is_unknown(name: str, rule: str) -> None:
    assert verdict(rule,
                   files("host.memory", {f"{HUGE}-2048kB/{name}_hugepages": None})).status is Status.UNKNOWN


@pytest.mark.parametrize(("path", "rules"), [
    ("/proc/buddyinfo", {"memory-fragmented"}),
    (f"{HUGE}-2048kB/resv_hugepages", {"memory-hugepages-leaked"}),
    (f"{HUGE}-2048kB/free_hugepages", {"memory-hugepages-leaked", "memory-hugepages", "memory-left-over"}),
    # No page was asked for at boot, and so none can be missing.
    (f"{HUGE}-2048kB/nr_hugepages", {"memory-hugepages-leaked"}),
    ("/sys/kernel/mm/hugepages", {"memory-hugepages-leaked", "memory-hugepages", "memory-left-over"}),
])
def test_a_file_that_cannot_be_read_costs_only_what_it_is_read_for(path: str, rules: set[str]) -> None:
    denied = files("host.memory", {path: Outcome.DENIED})
    judged = ids("memory.yaml") - {"memory-ecc-corrected", "kernel-hardware-corrected"}
    assert {rule for rule in judged if verdict(rule, denied).status is Status.UNKNOWN} == rules
    assert {verdict(rule, denied).status for rule in judged - rules} == {Status.PASS}


@given(st.text(alphabet="hugepagesz=default_ 0123456789:,GMK", max_size=80))
def test_any_kernel_parameters_are_read_and_none_asks_for_pages_of_no_size(text: str) -> None:
    assert all(kib > 0 and count >= 0 for kib, count in requested(text, 2048).items())


def test_every_rule_of_the_file_is_in_a_table() -> None:
    assert ids("memory.yaml") == {row[0] for row in FAILING} | {"memory-ecc-corrected",
                                                                "memory-hugepages-asked",
                                                                "memory-hugepages-leaked",
                                                                "memory-fragmented"}


@pytest.mark.parametrize("fact", ["memory_use", "memory_parts", "huge_pages", "free_blocks"])
@given(data=st.data())
def test_no_bytes_in_any_file_raise(fact: str, data: st.DataObject) -> None:
    value = build_fact(FACTS[fact], Captures(data.draw(spoilt(FACTS[fact].probes[0].id))))
    assert not isinstance(value, Unmeasured) or "could not be read from" not in value.reason
