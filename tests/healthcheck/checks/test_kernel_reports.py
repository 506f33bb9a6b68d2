"""Reports of many lines by the packaged catalogue: how bad one is may stand in any of its lines."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from healthcheck.kernellog.model import MOST_DISTINCT, MOST_LINES
from healthcheck.model.outcome import Finding, Owner, Repair, Status
from tests import packagedrules
from tests.healthcheck import machine
from tests.healthcheck.assessing import by_rule

RULES = packagedrules.RULES.select(only=("kernel-fault", "kernel-hardware-error", "kernel-t*"))


def found(*reports: Sequence[str]) -> dict[str, dict[str, Finding]]:
    """By rule and entry what is found in a log with these reports, a minute apart."""
    texts = [(500 + 60 * minute, text) for minute, report in enumerate(reports) for text in report]
    log = machine.KMSG + "".join(f"4,{number},{at * 1_000_000},-;{text}\n"
                                 for number, (at, text) in enumerate(texts, 100))
    results = by_rule(machine.recording(kernel_log=machine.done(**{"/dev/kmsg": log})), rules=RULES)
    return {rule: {str(one.subject): one for one in result.findings}
            for rule, result in results.items() if result.status is Status.FAIL}


def firmware(number: int, severity: str) -> list[str]:
    """What the firmware reports of a memory error (drivers/acpi/apei/ghes.c, drivers/firmware/efi/cper.c)."""
    said = ["Hardware error from APEI Generic Hardware Error Source: 514", f"event severity: {severity}",
            f" Error 0, type: {severity}", "  fru_text: A1", "  section_type: memory error",
            "   error_status: Storage error in DRAM memory (0x0000000000000400)",
            "  physical_address: 0x0000003a2b1c0000", "  node:0 card:1 module:0 rank:1 bank:1028 row:1234",
            "  error_type: 2, single-bit ECC", "  DIMM location: not present. DMI handle: 0x0000"]
    return [f"{{{number}}}[Hardware Error]: {text}" for text in said]


def out_of_memory(constraint: str, processes: int = 5) -> list[str]:
    """What the kernel reports before it kills a process (mm/oom_kill.c)."""
    return ["python3 invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0",
            "CPU: 3 PID: 77 Comm: python3 Not tainted 6.8.0-1019-nvidia #20", "Call Trace:", " <TASK>",
            *[f" step_{chr(97 + step)}+0x11/0x22" for step in range(MOST_DISTINCT)], " </TASK>",
            "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
            *[f"[{pid:7d}]  1000 {pid:5d}     1000     1000    61440        0             0 python3"
              for pid in range(processes)],
            f"oom-kill:constraint={constraint},nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,"
            "task_memcg=/slurm/job_12,task=python3,pid=77,uid=1000"]


@pytest.mark.parametrize("severity", ["recoverable", "fatal"])
def test_what_could_not_be_corrected_is_found_behind_any_number_of_corrected_errors(severity: str) -> None:
    seen = found(*[firmware(number, "corrected") for number in range(1, 6)], firmware(6, severity))
    worst, others = seen["kernel-hardware-error"][f"cper-{severity}"], seen["kernel-trouble"]["cper-ghes"]
    assert worst.log is not None and (worst.log.count, worst.log.first) == (1, 800.0)
    assert others.log is not None and (others.log.count, others.log.last) == (5, 740.0)


def test_of_many_reports_the_first_is_shown_whole_and_the_records_of_the_latest_are_kept_longest() -> None:
    plain = out_of_memory("CONSTRAINT_NONE")
    reports = [[*plain[:4], f" way_{name}+0x11/0x22", *plain[4:]] for name in ("one", "other", "third")]
    finding = found(*reports)["kernel-trouble"]["oom-node"]
    assert len(finding.lines) == len(reports[0]) + 2 and finding.log is not None
    newest = [100 + 2 * len(reports[0]) + number for number in range(len(reports[0]))]
    assert finding.log.count == 3 and set(newest) <= set(finding.log.records[:len(newest) + 2])


@pytest.mark.parametrize(("constraint", "entry"), [("MEMCG", "oom-job"), ("MEMORY_POLICY", "oom-bound")])
def test_a_report_is_named_by_the_line_that_says_more_of_it_than_its_first(
    constraint: str, entry: str,
) -> None:
    assert set(found(out_of_memory(f"CONSTRAINT_{constraint}"))["kernel-told"]) == {entry}


@pytest.mark.parametrize("order", [1, -1])
def test_a_node_that_ran_out_of_memory_is_told_from_jobs_that_met_their_limit(order: int) -> None:
    seen = found(*[out_of_memory("CONSTRAINT_MEMCG"), out_of_memory("CONSTRAINT_NONE")][::order])
    assert set(seen["kernel-trouble"]) == {"oom-node"} and set(seen["kernel-told"]) == {"oom-job"}
    assert [each.log.count for each in (*seen["kernel-trouble"].values(), *seen["kernel-told"].values())
            if each.log is not None] == [1, 1]


def test_the_last_line_of_a_report_counts_however_long_the_report() -> None:
    assert set(found(out_of_memory("CONSTRAINT_NONE", 3 * MOST_LINES))["kernel-trouble"]) == {"oom-node"}


@pytest.mark.parametrize("worse", [
    "[Hardware Error]: CPU:44 (19:11:1) MC17_STATUS[Over|UE|MiscV|AddrV|PCC|TCC|SyndV|UECC|-|-|-]: "
    "0xfe00000000070f0f",
    "mce: [Hardware Error]: Some CPUs didn't answer in synchronization",
    "[Hardware Error]: GHES: python3:4132: synchronous unrecoverable error (SIGBUS)",
])
def test_what_is_critical_counts_in_a_report_that_begins_with_a_corrected_error(worse: str) -> None:
    corrected = ["[Hardware Error]: Corrected error, no action required.",
                 "[Hardware Error]: CPU:2 (19:11:1) MC21_STATUS[Over|CE|MiscV|AddrV|-|-|SyndV|CECC|-|-|-]: "
                 "0xdc2040000400011b"]
    alone, beside = (found(lines)["kernel-hardware-error"] for lines in ([worse], [*corrected, worse]))
    assert "kernel-hardware-error" not in found(corrected) and set(beside) == set(alone)


@pytest.mark.parametrize(("text", "repair"), [
    ("nvGpuOpsReportFatalError: uvm encountered global fatal error 0x60, requiring os reboot to recover.",
     Repair.REBOOT),
    ("GPU3 kgspWaitForGfwBootOk_TU102: (the GPU may be in a bad state and may need to be reset)",
     Repair.RESET_GPU),
    ("GPU0 confComputeSetErrorState_KERNEL: ConfCompute: Fatal error hit!", Repair.RESET_GPU),
])
def test_what_the_gpu_driver_itself_calls_fatal_or_wants_a_reset_for_is_a_fault_of_the_node(
    text: str, repair: Repair,
) -> None:
    (finding,) = found([f"NVRM: {text}"])["kernel-fault"].values()
    assert (finding.owner, finding.repair) == (Owner.OPERATOR, repair)
