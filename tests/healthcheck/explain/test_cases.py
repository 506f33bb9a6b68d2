"""The composed files, each with its culprit: the first line of the page is right, and so are certainty,
owner and exit code."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from healthcheck.explain.page import page
from tests.healthcheck.explain.cases import FOLDER, explained, first_line

GOLDEN = Path(__file__).resolve().parents[2] / "golden/explain"
CASES = {
    "gpu-off-bus.dmesg": ("GPU at PCI 0000:3b:00, Xid 79: The GPU has fallen off the PCIe bus.", "certain",
                          "operator"),
    "fatal-sxid.dmesg": ("NVSwitch at PCI 0000:c5:00, SXid 20034, link 30: Link fault", "certain",
                         "operator"),
    "application-xids.dmesg": ("GPU at PCI 0000:00:06, Xid 31: GPU memory page fault", "certain", "user"),
    "page-fault.kern.log": ("GPU at PCI 0000:9b:00, Xid 31: GPU memory page fault", "certain", "user"),
    "remap-failed.bug-report.log": ("GPU 1, PCI 0000:43:00.0: row remap failed", "certain", "vendor"),
    "fabric-manager.bug-report.log": ("Fabric Manager is of another version than the driver", "certain",
                                      "operator"),
    "earlier-boot.bug-report.log": ("GPU at PCI 0000:1b:00, Xid 119: ", "likely", "operator"),
    "narrow.nvidia-smi-q.txt": ("GPU 1, PCI 0000:43:00.0: Its PCIe link has 8 lanes of 16.", "certain",
                                "datacentre"),
    "gemm.dcgm.json": ("GPU 5 diagnostic: ", "certain", "vendor"),
    "ib-retry.nccl.log": ("gpu017 (10.20.0.17): Messages to this peer were no longer acknowledged", "likely",
                          "network"),
    "port-error.nccl.log": ("gpu005 mlx5_2:1: A port of the adapter went down", "certain", "network"),
    "shm.nccl.log": ("trainer-0: /dev/shm of the node or container is full", "certain", "user"),
    "no-interface.nccl.log": ("gpu044: NCCL found no network interface", "certain", "user"),
    "over-tcp.nccl.log": ("gpu01: NCCL sees no InfiniBand or RoCE adapter", "likely", "operator"),
    "versions.nccl.log": ("gpu030: Ranks of this job use different versions of NCCL.", "certain", "user"),
    "gpu-ecc.torchrun.log": ("gpu017, rank 3: The GPU's memory or caches held data that could not be "
                             "corrected", "certain", "operator"),
    "late-rank.torchrun.log": ("gpu021, rank 5: It did not come to a collective", "likely", "operator"),
    "missing-file.torchrun.log": ("gpu002, rank 12: The program ended with an exception of its own: "
                                  "FileNotFoundError", "likely", "user"),
    "exception-first.torchrun.log": (
        "gpu012, rank 12: The program ended with an exception of its own: AssertionError", "likely", "user"),
    "node-failure.slurm.out": ("gpu023: Slurm lost this node while the job ran.", "certain", "operator"),
    "out-of-memory.slurm.out": ("gpu008: The kernel killed a process of the job for want of host memory.",
                                "certain", "user"),
    "preempted.slurm.out": ("gpu020: The job was stopped for one of higher priority", "certain", "user"),
    "wrong.nccl-tests.txt": ("all_reduce_perf, 2 nodes (worker-0, ...): Data came out wrong: 16 elements at "
                             "2 of 5 sizes.", "certain", "vendor"),
    "slow.nccl-tests.txt": ("all_reduce_perf, worker-3: Too slow: 39.7 GB/s", "likely", "operator"),
    "cut.nccl-tests.txt": ("all_reduce_perf, 2 nodes (worker-0, ...): The test did not end", "likely",
                           "operator"),
}
NOTHING = ("healthy.dmesg", "healthy.bug-report.log", "healthy.nccl.log", "good.nccl-tests.txt")


@pytest.mark.parametrize("name", CASES)
def test_the_first_line_names_the_culprit(name: str) -> None:
    begins, sure, owner = CASES[name]
    line = first_line(name)
    assert line.startswith(begins)
    assert line.endswith(f"({sure}; owner: {owner})")
    assert explained(name).exit_code == 1


@pytest.mark.parametrize("name", NOTHING)
def test_nothing_found_says_what_was_looked_for_and_what_the_file_cannot_show(name: str) -> None:
    told = explained(name)
    said = page(told)
    assert said.startswith(f"Nothing found in {name} (")
    assert "looked for" in said
    assert "cannot show" in said
    assert told.exit_code == 0, told.unread


def test_every_composed_file_has_a_culprit_or_none() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {"README.md", *CASES, *NOTHING}


@pytest.mark.parametrize("name", [*CASES, *NOTHING])
def test_every_quote_stands_in_the_file_at_its_line(name: str) -> None:
    lines = (FOLDER / name).read_text().split("\n")
    quotes = [quote for cause in explained(name).causes for quote in cause.quotes if quote.line]
    for quote in quotes:
        assert quote.text.removesuffix("…").replace("\\t", "\t")[:60].strip() in lines[quote.line - 1]
    assert quotes or name in NOTHING or name.endswith(".json")


@pytest.mark.parametrize("name", [*CASES, *NOTHING])
def test_a_packed_file_is_explained_as_the_plain_one(name: str) -> None:
    data = (FOLDER / name).read_bytes()
    # nvidia-bug-report.sh packs each section by itself.
    parts = data.split(b"____________________________________________\n")
    packed = b"____________________________________________\n".join(parts[:1]) and gzip.compress(parts[0])
    packed += b"".join(gzip.compress(b"____________________________________________\n" + part)
                       for part in parts[1:])
    assert explained(packed, name) == explained(data, name)


@pytest.mark.parametrize("name", ["gpu-off-bus.dmesg", "remap-failed.bug-report.log", "ib-retry.nccl.log",
                                  "gpu-ecc.torchrun.log", "wrong.nccl-tests.txt", "healthy.nccl.log"])
def test_the_page_is_as_it_was(name: str) -> None:
    path = GOLDEN / f"{name}.txt"
    said = page(explained(name)) + "\n"
    if os.environ.get("MUSTER_GOLDEN") == "update":
        path.write_text(said)
    assert said == path.read_text()


def test_symptoms_stand_behind_their_cause() -> None:
    causes = explained("gpu-ecc.torchrun.log").causes
    assert [cause.by for cause in causes if not cause.symptom] == ["joblog cuda-ecc"]
    assert {"absent", "job-timeout", "exit"} <= {cause.by for cause in causes if cause.symptom}


def test_a_report_that_stops_early_says_so_and_is_no_clean_bill() -> None:
    whole = (FOLDER / "healthy.bug-report.log").read_bytes()
    told = explained(whole[:whole.index(b"/usr/bin/ibstat")], "cut.log")
    assert told.exit_code == 3
    assert any("does not end as such a report does" in reason for reason in told.unread)


def test_a_report_without_nvidia_smi_is_no_clean_bill() -> None:
    whole = (FOLDER / "healthy.bug-report.log").read_text()
    start, end = whole.index("\n==============NVSMI LOG"), whole.index("/usr/bin/ibstat")
    told = explained((whole[:start] + "Failed to initialize NVML: Driver/library version mismatch\n"
                      + whole[end:]).encode(), "x.log")
    assert told.exit_code == 1
    assert told.causes[0].by == "joblog driver-library-mismatch"
    assert any("holds no log of nvidia-smi" in reason for reason in told.unread)


def test_a_link_that_is_narrower_than_its_slot_shows_in_lspci_alone() -> None:
    whole = (FOLDER / "healthy.bug-report.log").read_text()
    told = explained(whole.replace("Width x16\n", "Width x8 (downgraded)\n", 1).encode(), "x.log")
    assert told.causes[0].meaning == "Its PCIe link has 8 lanes of 16"
    assert told.causes[0].subject.startswith("0000:1b:00.0 NVIDIA Corporation GH100")


def test_what_a_terminal_could_act_on_is_shown_as_an_escape() -> None:
    line = b"gpu1:1:2 [0] init.cc:1 NCCL WARN Cuda failure 'out of memory' \x1b]0;title\x07\x1b[2J\n"
    said = page(explained(line * 3, "\x1b[31m.log"))
    assert "\x1b" not in said
    assert "\x07" not in said


def test_the_xml_of_nvidia_smi_is_judged_as_its_text_is() -> None:
    whole = (FOLDER.parent / "nvidia-smi/h100-q-x.xml").read_text()
    assert explained(whole.encode()).exit_code == 0
    told = explained(whole.replace("<remapped_row_failure>No", "<remapped_row_failure>Yes").encode())
    assert (told.causes[0].by, told.causes[0].subject) == ("gpu-row-remap-failed", "GPU 0, PCI 0000:18:00.0")
    assert [quote.text for quote in told.causes[0].quotes] == [
        '<gpu id="00000000:18:00.0">', "<remapped_row_failure>Yes</remapped_row_failure>"]


def test_a_log_of_nvidia_smi_that_broke_off_is_no_clean_bill() -> None:
    told = explained((FOLDER.parent / "nvidia-smi/h100-q-x-crashed.xml").read_bytes())
    assert told.exit_code == 3
    assert any("cannot be read to its end" in reason for reason in told.unread)


def test_a_flight_recorders_dump_says_what_this_rank_waited_in() -> None:
    dump = (
        b'{"version": "2.10", "pg_status": {"0": {"last_enqueued_collective": 12}}, "pg_config": {"0": '
        b'{"ranks": "[0, 1]"}}, "entries":'
        b' [{"process_group": ["0", "default_pg"], "collective_seq_id": 12, "profiling_name": '
        b'"nccl:all_reduce", "state": "started"}]}')
    told = explained(dump, "nccl_trace_rank_1")
    assert (told.causes[0].subject, told.causes[0].by) == ("rank 1", "job-timeout")
    assert "the other ranks" in told.cannot_show[0]
