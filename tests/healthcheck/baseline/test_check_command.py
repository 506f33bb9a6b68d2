"""`muster baseline check`: saved logs in any form, without inventory or baseline, in a document with every
line of an event."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.command import MUSTER, environment, muster

BOOT = """\
[    0.000000] Linux version 6.5.0-1007-nvidia (b@h) (gcc 12) #7 SMP Tue Nov 7 01:45:42 UTC 2023
[    1.000000] Run /init as init process
[    4.000000] systemd[1]: systemd 249.11-0ubuntu3.11 running in system mode (+PAM)
[    5.000000] mlx5_core 0000:0c:00.0: Port module event: module 0, Cable plugged
[  400.000000] nfs: a quiet hour
"""
XID = ("[  500.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off "
       "the bus.")
OOM = """\
[  600.000000] python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[  600.000001] CPU: 3 PID: 77 Comm: python3 Not tainted 6.5.0-1007-nvidia #7
[  600.000002] Call Trace:
[  600.000003]  <TASK>
[  600.000004]  dump_header+0x4a/0x220
[  600.000005]  </TASK>
[  600.000006] Mem-Info:
[  600.000007] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,task=python3,pid=77,uid=1000
[  600.000008] Out of memory: Killed process 77 (python3) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:1000
"""  # noqa: E501


def checked(home: Path, *words: str) -> tuple[int, dict[str, Any]]:
    done = muster("baseline", "check", *words, "--format", "json", home=home)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def findings(document: dict[str, Any], node: int = 0) -> list[dict[str, Any]]:
    return [{"rule": result["rule"], **finding} for result in document["nodes"][node]["results"]
            for finding in result["findings"]]


def test_a_clean_log_has_no_finding_and_says_that_no_baseline_judged_what_is_new(tmp_path: Path) -> None:
    (tmp_path / "gpu007.dmesg").write_text(BOOT)
    code, document = checked(tmp_path, "gpu007.dmesg")
    assert (code, document["schema"], document["nodes"][0]["node"], findings(document)) == (
        3, "muster.check/2", "gpu007.dmesg", [])
    unknown = [result for result in document["nodes"][0]["results"] if result["status"] == "unknown"]
    assert [(one["rule"], one["origin"]) for one in unknown] == [("kernel-baseline", "muster")]


def test_a_log_whose_oldest_records_the_kernel_overwrote_is_judged_by_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "saved").write_text(
        "6,120,5000000,-;nfs: a quiet hour\n6,121,6000000,-;nfs: another\n6,130,7000000,-;nfs: a third\n")
    code, document = checked(tmp_path, "saved")
    results = {result["rule"]: result for result in document["nodes"][0]["results"]}
    assert (code, findings(document), results["kernel-fault"]["status"]) == (3, [], "pass")
    assert results["kernel-fault"]["reason"] == (
        "of this boot, the 120 oldest records are gone from the kernel's buffer; "
        "8 records are missing, in 1 places")
    (tmp_path / "saved").write_text(
        f"6,120,5000000,-;nfs: a quiet hour\n4,121,6000000,-;{XID.split('] ')[1]}\n")
    assert [finding["rule"] for finding in findings(checked(tmp_path, "saved")[1])] == ["kernel-xid"]


@pytest.mark.parametrize("pack", [False, True])
def test_a_bad_line_is_found_by_name_and_quoted_as_it_stands_in_the_file(tmp_path: Path, pack: bool) -> None:
    data = f"{BOOT}{XID}\n".encode()
    (tmp_path / "one.log").write_bytes(gzip.compress(data) if pack else data)
    code, document = checked(tmp_path, "one.log")
    (finding,) = findings(document)
    assert (code, finding["rule"], finding["lines"]) == (1, "kernel-xid", [XID])


def test_a_report_of_many_lines_is_one_finding_with_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "one.log").write_text(BOOT + OOM)
    code, document = checked(tmp_path, "one.log")
    (finding,) = findings(document)
    assert code == 1 and finding["lines"] == OOM.splitlines()


def test_repeats_fold_into_one_finding_with_the_first_twenty_distinct_lines(tmp_path: Path) -> None:
    repeats = [f"[{500 + n / 100:12.6f}] nvme nvme{n % 50}: I/O {n} QID 3 timeout, reset controller"
               for n in range(5000)]
    (tmp_path / "one.log").write_text(BOOT + "\n".join(repeats) + "\n")
    code, document = checked(tmp_path, "one.log")
    (finding,) = findings(document)
    assert code == 1 and finding["lines"] == repeats[:20] and finding["observed"].startswith("5000 times")


def test_several_boots_of_one_file_are_reported_apart_in_one_node(tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_text(f"{BOOT}{XID}\n{BOOT}")
    code, document = checked(tmp_path, "kern.log")
    (finding,) = findings(document)
    assert code == 1 and len(document["nodes"]) == 1 and finding["observed"].startswith("boot 1 of 2: ")


def test_a_baseline_that_was_learned_and_approved_finds_what_is_new(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"n{number}.log").write_text(BOOT.replace("0000:0c", f"0000:{number}c"))
    logs = [f"n{number}.log" for number in range(3)]
    assert muster("baseline", "learn", *[word for log in logs for word in ("--from", log)], "-o", "b.yaml",
                  home=tmp_path).returncode == 0
    done = muster("baseline", "approve", "b.yaml", "--seen-on", "95%", "--boots", "3",
                  "--reason", "acceptance",
                  "--by", "ops", home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert checked(tmp_path, "n0.log", "--baseline", "b.yaml")[0] == 0
    (tmp_path / "new.log").write_text(
        BOOT + "[  700.000000] frobnicator 0000:0c:00.0: something nobody has seen\n")
    code, document = checked(tmp_path, "new.log", "--baseline", "b.yaml")
    (finding,) = findings(document)
    (rule,) = [result for result in document["nodes"][0]["results"] if result["rule"] == "kernel-novel"]
    assert (code, rule["severity"], finding["rule"], finding["subject"]) == (
        0, "info", "kernel-novel", "frobnicator <*>: something nobody has seen")
    (tmp_path / "less.log").write_text(BOOT.replace(
        "[    5.000000] mlx5_core 0000:0c:00.0: Port module event: module 0, Cable plugged\n", ""))
    assert [found["rule"]
            for found in findings(checked(tmp_path, "less.log", "--baseline", "b.yaml")[1])] == [
                "kernel-missing"]


def test_standard_input_is_read(tmp_path: Path) -> None:
    done = subprocess.run([str(MUSTER), "baseline", "check", "-", "--format", "json"], cwd=tmp_path,
                          env=environment(tmp_path), timeout=60, input=f"{BOOT}{XID}\n".encode(),
                          capture_output=True, check=False)
    assert done.returncode == 1 and json.loads(done.stdout)["nodes"][0]["node"] == "standard input"


@pytest.mark.parametrize(("made", "words", "said"), [
    (None, ("gone.log",), "cannot be read: No such file"), (b"", ("x.log",), "has no kernel log line"),
    (BOOT.encode(), ("x.log", "--baseline", "gone.yaml"), "gone.yaml"),
    (BOOT.encode(), ("x.log", "--sku", "gpu9"), "no such SKU"),
    (b"\x1f\x8b\x08\x00broken", ("x.log",), "x.log")])
def test_a_mistake_is_one_line(tmp_path: Path, made: bytes | None, words: tuple[str, ...], said: str) -> None:
    if made is not None:
        (tmp_path / "x.log").write_bytes(made)
    done = muster("baseline", "check", *words, home=tmp_path)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_hostile_lines_are_shown_escaped_and_end_in_time(tmp_path: Path) -> None:
    hostile = b"[  500.000000] NVRM: Xid (PCI:0000:3b:00): 79, \x1b[2J\x00\xff" + b"A" * (1 << 20)
    (tmp_path / "one.log").write_bytes(BOOT.encode() + hostile)
    code, document = checked(tmp_path, "one.log")
    (line,) = findings(document)[0]["lines"]
    assert code == 1 and line.isprintable() and len(line) <= 8192


def test_a_line_without_a_time_is_quoted_as_it_stands_and_no_time_is_made_up(tmp_path: Path) -> None:
    (tmp_path / "one.log").write_text(XID.partition("] ")[2] + "\n")
    (finding,) = findings(checked(tmp_path, "one.log")[1])
    assert finding["lines"] == [XID.partition("] ")[2]] and "after boot" not in finding["observed"]
