"""The kernel-xid and kernel-sxid rules: each number under its rule, repeats as logs, NVLink words decoded,
and windows."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from healthcheck.facts.values import changed
from healthcheck.kernellog.ending import EndKind
from healthcheck.model.outcome import LogEvidence, Owner, Result, Status
from healthcheck.model.probes import MIB
from healthcheck.model.recording import Capture, FileCapture, Outcome
from healthcheck.xid.xidtable import SERIOUS, WATCHED, Action
from tests import packagedrules
from tests.healthcheck import machine
from tests.healthcheck.assessing import by_rule

RULES = packagedrules.RULES.select(only=("kernel-xid*", "kernel-sxid*"))
TABLE = RULES.xids
assert TABLE is not None
OURS = ("kernel-sxid", "kernel-sxid-watch", "kernel-xid", "kernel-xid-job", "kernel-xid-nvlink",
        "kernel-xid-recovery", "kernel-xid-repeat", "kernel-xid-watch")
HOUR = 3600
A, B, C = "0000:18:00", "0000:19:00", "0000:1a:00"


def kmsg(*lines: tuple[float, str], newest: float = 0) -> Capture:
    """A log of (seconds since boot, text), in the order of time, with a last record at `newest`."""
    held = [*lines, *([(newest, "systemd[1]: Started Daily tasks.")] if newest else [])]
    return machine.done(**{"/dev/kmsg": machine.KMSG + "".join(f"2,{100 + n},{int(at * 1e6)},-;{text}\n"
                                                               for n, (at, text) in enumerate(held))})


def judged(log: Capture, **more: Capture) -> dict[str, Result]:
    found = by_rule(machine.recording(kernel_log=log, **more), rules=RULES)
    return {rule: result for rule, result in found.items() if rule in OURS}


def failing(log: Capture, **more: Capture) -> dict[str, Result]:
    return {rule: result for rule, result in judged(log, **more).items() if result.status is Status.FAIL}


def xid(number: int, gpu: str = A, pid: object = 1, rest: str = "something", name: str = "python") -> str:
    return f"NVRM: Xid (PCI:{gpu}): {number}, pid={pid}, name={name}, {rest}"


def tpc(gpu: str, pid: int, gpc: int = 2, tpc: int = 0) -> str:
    return xid(13, gpu, pid,
               f"Graphics SM Warp Exception on (GPC {gpc}, TPC {tpc}, SM 1): Out Of Range Address")


def link(registers: dict[int, int], number: int = 14, gpu: str = A) -> str:
    words = ", ".join(hex(registers.get(at, 0)) for at in range(7))
    return (f"NVRM: Xid (PCI:{gpu}): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on "
            f"link {number}({words})")


def nvlink5(number: int, unit: str, status: int | None = 0, *, subcode: int = 0, fatal: str = "Fatal") -> str:
    words = f"0x{subcode << 20 | 6:08x}" + ("" if status is None else f" 0x{status:08x}")
    return f"NVRM: Xid (PCI:{A}): {number}, {unit}  {fatal}   XC0 i0 Link 09 ({words})"


def blackwell() -> Capture:
    held = machine.pci()
    return machine.done(**{path: file.text.replace("10DE:2330", "10DE:2901")
                           for path, file in held.files.items()})


def test_a_healthy_log_passes_every_rule() -> None:
    assert {result.status for result in judged(kmsg(newest=60)).values()} == {Status.PASS}
    assert tuple(sorted(judged(kmsg()))) == OURS


@pytest.mark.parametrize("number", [n for n in TABLE.xids
                                    if TABLE.xid(n, "hopper").action not in (Action.DECODE, Action.OBEY)])
def test_each_number_fails_under_its_own_rule_with_its_own_remedy_and_owner(number: int) -> None:
    entry = TABLE.xid(number, "hopper")
    rule = ("kernel-xid" if entry.action in SERIOUS else "kernel-xid-watch"
            if entry.action in WATCHED else "kernel-xid-job")
    found = judged(kmsg((50, xid(number))))
    if entry.action is Action.IGNORE:
        assert all(result.status is Status.PASS for result in found.values())
        assert f"ignored, as the table says: GPU at PCI {A}, Xid {number}" in found["kernel-xid-job"].reason
        return
    assert {name for name, result in found.items() if result.status is Status.FAIL} == {rule}
    (finding,) = found[rule].findings
    assert finding.subject == f"GPU at PCI {A}, Xid {number}" and finding.owner is entry.owner
    assert (entry.remedy or TABLE.remedy(entry.action)).rstrip(".") in finding.remedy


def test_a_number_in_no_table_fails_critically_and_says_so() -> None:
    (finding,) = failing(kmsg((50, xid(999))))["kernel-xid"].findings
    assert (finding.remedy.startswith(f"Not in the table of {TABLE.dated}. Drain the node and ask the vendor")
            and finding.owner is Owner.VENDOR)


def test_all_reports_are_read_and_not_the_newest_only() -> None:
    """dcgm-exporter's DCGM_FI_DEV_XID_ERRORS holds the last Xid only (DCGM issues 112, 235, 277)."""
    found = failing(kmsg((50, xid(48)), (51, xid(63)), (52, xid(13)), (53, xid(79, B)), (54, xid(43))))
    assert [f.subject for f in found["kernel-xid"].findings] == [f"GPU at PCI {A}, Xid 48",
                                                                 f"GPU at PCI {B}, Xid 79"]
    assert set(found) == {"kernel-xid", "kernel-xid-watch", "kernel-xid-job"}


@pytest.mark.parametrize("log", [machine.denied("/dev/kmsg"), machine.done(**{"/dev/kmsg": ""}),
                                 Capture(Outcome.MISSING), Capture(Outcome.TIMEOUT)])
def test_a_log_that_was_not_read_is_unknown_to_every_rule(log: Capture) -> None:
    assert {result.status for result in judged(log).values()} == {Status.UNKNOWN}


def test_a_cut_log_fails_for_what_it_holds_and_is_unknown_for_the_rest() -> None:
    text = kmsg((50, xid(79))).files["/dev/kmsg"].text
    found = judged(Capture(Outcome.TRUNCATED, files={"/dev/kmsg": FileCapture(Outcome.TRUNCATED, text)}))
    assert found["kernel-xid"].status is Status.FAIL and "dropped" in found["kernel-xid"].reason
    assert {result.status for rule, result in found.items() if rule != "kernel-xid"} == {Status.UNKNOWN}


def test_without_a_pci_bus_the_rules_are_judged_all_the_same() -> None:
    found = judged(kmsg((50, xid(79))), gpu_pci=Capture(Outcome.MISSING))
    assert found["kernel-xid"].status is Status.FAIL and found["kernel-xid-watch"].status is Status.PASS


_SAID: dict[str | None, dict[str, object]] = {None: {"na": True}, "unread": {"error": [999, "Unknown Error"]}}


def wanting(**actions: str | None) -> Capture:
    """NVML's answer in which the driver wants this of some GPUs (gpu0 is A, gpu1 B); None: the driver knows
    no such thing."""
    return machine.nvml(**{gpu: {"recovery_action": _SAID.get(action) or {"ok": action}}
                           for gpu, action in actions.items()})


# A driver that cannot be asked what it wants.
SILENT = wanting(gpu0=None, gpu1=None)
SWITCH = "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
NOISY = "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20009, Non-fatal, Link 3 x"
YEAR = 365 * 24 * HOUR
# What is over once it was quiet for a day, and what time does not end, with how it ends.
QUIET = [
    ("kernel-xid-watch", xid(94), "Xid 94 at PCI 0000:18:00"),
    ("kernel-xid-watch", xid(92), "Xid 92 at PCI 0000:18:00"),
    ("kernel-xid-job", xid(13), ""), ("kernel-xid-job", xid(31), ""),
    ("kernel-sxid-watch", NOISY, "SXid 20009 at PCI 0000:05:00"),
]
LASTING = [
    ("kernel-xid", xid(48), "reset"), ("kernel-xid", xid(119), "reset"), ("kernel-xid", xid(79), "boot"),
    ("kernel-xid", xid(999), "boot"),
    ("kernel-xid", xid(54), "repair"), ("kernel-xid-watch", xid(63), "reset"),
    ("kernel-xid-nvlink", link({2: 1 << 16}), "reset"),
    ("kernel-sxid", SWITCH, "reset"), ("kernel-sxid", SWITCH.replace("20034", "55555"), "boot"),
    ("kernel-xid-recovery", f"NVRM: Xid (PCI:{A}): 154, GPU recovery action changed from 0x0 (None) to 0x1 "
     "(GPU Reset Required)", "reset"),
]


@pytest.mark.parametrize(("rule", "line", "what"), QUIET)
def test_what_ends_by_quiet_is_accused_for_its_hours_and_then_said_to_be_over(
    rule: str, line: str, what: str,
) -> None:
    within = judged(kmsg((50, line), newest=50 + 24 * HOUR), gpu_nvml=SILENT)[rule]
    (finding,) = within.findings
    assert within.status is Status.FAIL and finding.log is not None and finding.log.ends == "quiet 24h"
    later = judged(kmsg((50, line), newest=51 + 24 * HOUR), gpu_nvml=SILENT)[rule]
    assert later.status is Status.PASS
    assert not what or later.reason == f"over, quiet for long enough: {what}, 24 h ago"
    again = judged(kmsg((50, line), (20 * HOUR, line), newest=50 + 30 * HOUR), gpu_nvml=SILENT)[rule]
    assert again.status is Status.FAIL


@pytest.mark.parametrize(("rule", "line", "ends"), LASTING)
def test_a_fault_that_a_boot_a_reset_or_a_repair_ends_is_not_ended_by_time(
    rule: str, line: str, ends: str,
) -> None:
    found = judged(kmsg((50, line), newest=50 + YEAR), gpu_nvml=SILENT)[rule]
    (finding,) = found.findings
    assert found.status is Status.FAIL and not found.reason
    emitter = "nvswitch" if "nvswitch" in line else "nvrm"
    assert finding.log == LogEvidence(emitter, ends, 1, 50.0, 50.0)


@pytest.mark.parametrize("number", [n for n in TABLE.xids if TABLE.xid(n, "hopper").action not in (
                                        Action.DECODE, Action.OBEY, Action.IGNORE)])
def test_each_number_ends_as_the_table_says(number: int) -> None:
    entry = TABLE.xid(number, "hopper")
    ends = TABLE.ending(entry.action, entry.ends)
    quiet = ends.ends is EndKind.QUIET
    # Hardware faults never end by time; what a job did always does.
    assert (not quiet) if entry.action in SERIOUS else quiet or entry.action is not Action.APP
    (result,) = failing(kmsg((50, xid(number))), gpu_nvml=SILENT).values()
    assert [one.log.ends for one in result.findings if one.log is not None] == [str(ends)]
    assert bool(failing(kmsg((50, xid(number)), newest=50 + YEAR), gpu_nvml=SILENT)) is not quiet


def test_the_evidence_counts_all_reports_of_a_number_and_names_the_first_and_the_last() -> None:
    (finding,) = failing(kmsg((50, xid(119)), (60, xid(119)), (7200, xid(119)),
                              newest=50 + YEAR), gpu_nvml=SILENT)["kernel-xid"].findings
    assert finding.log == LogEvidence("nvrm", "reset", 3, 50.0, 7200.0)


def test_what_was_asked_for_everything_is_reported_though_it_is_over() -> None:
    rules = replace(RULES, rules=tuple(replace(rule, parameters={"everything": True})
                                       if rule.id == "kernel-xid-watch" else rule for rule in RULES.rules))
    found = by_rule(machine.recording(kernel_log=kmsg((50, xid(94)), newest=50 + YEAR)), rules=rules)
    assert found["kernel-xid-watch"].status is Status.FAIL


# name, lines (seconds, text), whether kernel-xid-repeat fails, a word of what it says
REPEATS: list[tuple[str, list[tuple[float, str]], str]] = [
    ("one 13", [(50, tpc(A, 1))], ""),
    ("13 on one TPC in two jobs", [(50, tpc(A, 1)), (5000, tpc(A, 2))], "GPC 2 TPC 0, Xid 13"),
    ("13 on one TPC twice in one burst", [(50, tpc(A, 1)), (60, tpc(A, 2))], ""),
    ("13 on one TPC twice in one job", [(50, tpc(A, 1)), (500, tpc(A, 1))], ""),
    ("13 on one TPC by jobs that are not named",
     [(50, tpc(A, 0).replace("pid=0, name=python, ", "")),
      (5000, tpc(A, 0).replace("pid=0, name=python, ", ""))],
     "GPC 2 TPC 0"),
    ("13 on two TPCs", [(50, tpc(A, 1)), (500, tpc(A, 2, tpc=1))], ""),
    ("13 on two GPCs", [(50, tpc(A, 1)), (500, tpc(A, 2, gpc=3))], ""),
    ("13 on two GPUs", [(50, tpc(A, 1)), (500, tpc(B, 2))], ""),
    ("13 on one TPC of two GPUs at once, twice",
     [(50, tpc(A, 1)), (51, tpc(B, 2)), (500, tpc(A, 3)), (501, tpc(B, 4))], ""),
    ("13 on one TPC, a day apart", [(50, tpc(A, 1)), (51 + 24 * HOUR, tpc(A, 2))], ""),
    ("13 by processes that are not named, in quick succession",
     [(n * 300, tpc(A, 0).replace("pid=0, name=python, ", "")) for n in range(1, 9)], ""),
    ("31 on one GPU in two jobs", [(50, xid(31, A, 1)), (650, xid(31, A, 2))],
     "2 bursts in 24 h (python 1, python 2), the first 50 s"),
    ("31 on one GPU in one job that was started again",
     [(50, xid(31, A, 1)), (649, xid(31, A, 2)), (1248, xid(31, A, 3))], ""),
    ("31 on one GPU in one job that went on", [(50, xid(31, A, 1)), (5000, xid(31, A, 1))], ""),
    ("31 on one GPU in one job by threads of other names",
     [(50, xid(31, A, 1)), (5000, xid(31, A, 1, name="pt_main_thread"))], ""),
    ("31 on one GPU in two jobs, the pid of the first come back",
     [(50, xid(31, A, 1)), (5000, xid(31, A, 2)), (9999, xid(31, A, 1))], "3 bursts"),
    ("31 on one GPU in one job", [(50, xid(31, A, 1)), (500, xid(31, A, 1))], ""),
    ("31 on two GPUs", [(50, xid(31, A, 1)), (500, xid(31, A, 2)), (5000, xid(31, B, 3))], ""),
    ("31 once", [(50, xid(31, A, 1))], ""),
    ("31 on one GPU, a day apart", [(50, xid(31, A, 1)), (51 + 24 * HOUR, xid(31, A, 2))], ""),
    ("five bursts of 119", [(n * 4 * HOUR, xid(119)) for n in range(1, 6)], "5 bursts in 24 h"),
    ("four bursts of 119", [(n * 4 * HOUR, xid(119)) for n in range(1, 5)], ""),
    ("five reports of 119 within 3 h of each other", [(n * 2 * HOUR, xid(119)) for n in range(1, 6)], ""),
    ("sticky numbers joined with each other",
     [(n * 2 * HOUR, xid((74, 79, 95, 109, 119)[n % 5])) for n in range(1, 9)], ""),
    ("five bursts of 63, 180 s apart", [(n * 180, xid(63)) for n in range(1, 6)], "5 bursts"),
    ("one burst of 63, 179 s apart", [(n * 179, xid(63)) for n in range(1, 9)], ""),
    ("five bursts of different numbers", [(n * 300, xid((62, 63, 92, 46, 94)[n - 1])) for n in range(1, 6)],
     "Xid 46, 62, 63, 92, 94"),
    ("five bursts on different GPUs", [(n * 300, xid(62, (A, B, C)[n % 3])) for n in range(1, 6)], ""),
    ("five bursts of 45", [(n * 300, xid(45, pid=n)) for n in range(1, 9)], ""),
    ("five bursts of 43 in one job", [(n * 300, xid(43)) for n in range(1, 9)], ""),
    ("five bursts of 43 in five jobs", [(n * 900, xid(43, pid=n)) for n in range(1, 6)], "Xid 43"),
    ("five bursts of 43 in a job that is started again and again",
     [(n * 300, xid(43, pid=n)) for n in range(1, 9)], ""),
    ("five bursts of 43 on two GPUs alike",
     [(n * 300 + m, xid(43, g, pid=n)) for n in range(1, 9) for m, g in enumerate((A, B))], ""),
    ("five bursts of 79 on two GPUs alike",
     [(n * 4 * HOUR + m, xid(79, g)) for n in range(1, 6) for m, g in enumerate((A, B))], "Xid 79"),
    ("test messages", [(n * 300, xid(106)) for n in range(1, 9)], ""),
    ("five bursts, the first over a day ago", [(n * 7 * HOUR, xid(62)) for n in range(1, 6)], ""),
]


@pytest.mark.parametrize(("lines", "words"), [case[1:] for case in REPEATS],
                         ids=[case[0] for case in REPEATS])
def test_what_comes_again_is_a_finding_where_it_says_more_than_one_of_it_does(
    lines: list[tuple[float, str]], words: str,
) -> None:
    result = judged(kmsg(*lines))["kernel-xid-repeat"]
    assert result.status is (Status.FAIL if words else Status.PASS), result.findings
    assert not words or words in f"{result.findings[0].subject} {result.findings[0].observed}"


def test_a_repeat_rule_that_a_site_disabled_is_not_judged_and_said() -> None:
    bursts = kmsg(*((n * 4 * HOUR, xid(119)) for n in range(1, 6)))

    def under(*disabled: str) -> Result:
        repeats = {name: replace(repeat, enabled=name not in disabled)
                   for name, repeat in TABLE.repeats.items()}
        rules = replace(RULES, xids_from=lambda: changed(TABLE, repeats=repeats))
        return by_rule(machine.recording(kernel_log=bursts), rules=rules)["kernel-xid-repeat"]

    assert under().status is Status.FAIL
    assert (under("five-bursts").status, under("five-bursts").reason) == (Status.PASS,
                                                                          "disabled in xid.yaml: five-bursts")
    assert (under(*TABLE.repeats).status is Status.SKIPPED
            and "no rule of repeats that is enabled" in under(*TABLE.repeats).reason)


def test_a_crash_loop_of_a_job_on_all_gpus_accuses_its_user_only() -> None:
    lines = [(n * 300 + m / 10, tpc(f"0000:{0x18 + m:02x}:00", n * 10 + m)) for n in range(1, 30)
             for m in range(8)]
    found = failing(kmsg(*lines))
    assert (set(found) == {"kernel-xid-job"} and found["kernel-xid-job"].owner is Owner.USER
            and len(found["kernel-xid-job"].findings) == 8)


def test_a_45_names_the_xid_that_it_follows() -> None:
    (finding,) = [f for f in failing(kmsg((50, xid(95)), (51, xid(45))))["kernel-xid-job"].findings
                  if f.subject.endswith("45")]
    assert "It follows Xid 95 of this GPU" in finding.remedy
    (told,) = failing(kmsg((51, xid(45, rest="Ch 1, caused by previous Xid 149"))))["kernel-xid-job"].findings
    assert "It follows Xid 149" in told.remedy and told.owner is Owner.USER     # no 149 is in the log
    (alone,) = failing(kmsg((500, xid(45))))["kernel-xid-job"].findings
    assert "Fabric Manager" in alone.remedy


@pytest.mark.parametrize("cause", [48, 74, 79, 94, 119])
@pytest.mark.parametrize("number", [13, 31, 43, 45])
def test_what_a_job_reports_within_a_minute_of_its_gpus_own_failure_is_not_its_users(
    number: int, cause: int,
) -> None:
    def owners(*lines: tuple[float, str]) -> list[tuple[Owner | None, bool]]:
        found = failing(kmsg(*lines, (50, xid(cause))))["kernel-xid-job"].findings
        return [(each.owner, f"It follows Xid {cause} of this GPU" in str(each.remedy)) for each in found
                if f"Xid {number}" in str(each.subject)]

    assert owners((50.5, xid(number)), (109, xid(number))) == [(Owner.OPERATOR, True)]
    for else_where in ((111, xid(number)), (49, xid(number)), (51, xid(number, B))):
        assert owners(else_where) == [(Owner.USER, False)]
    assert owners((51, xid(number)), (900, xid(number))) == [(Owner.USER, False)]


def test_under_mig_a_job_follows_the_failure_of_its_own_instance_or_of_the_whole_gpu() -> None:
    def owner(cause: str, where: str) -> Owner | None:
        log = kmsg((50, xid(95, f"{A}{cause}")), (51, xid(13, f"{A}{where}")))
        (found,) = failing(log)["kernel-xid-job"].findings
        return found.owner

    assert owner(" GPU-I:05 GPU-CI:00", " GPU-I:05 GPU-CI:01") is owner("", " GPU-I:05") is Owner.OPERATOR
    assert owner(" GPU-I:05 GPU-CI:00", " GPU-I:07 GPU-CI:00") is owner(" GPU-I:05", "") is Owner.USER


def wants(code: int, words: str, gpu: str = A) -> str:
    return (f"NVRM: Xid (PCI:{gpu}): 154, pid='<unknown>', name=<unknown>, GPU recovery action changed from "
            f"0x0 (None) to 0x{code:x} ({words})")


RECOVERIES = [
    (1, "GPU Reset Required", "GPU reset"), (1, "PF FLR", "GPU reset"),
    (2, "Node Reboot Required", "node reboot"), (2, "OS Reboot", "node reboot"),
    (3, "Drain P2P", "peer-to-peer"), (4, "Drain and Reset", "drain and reset"), (5, "x", "IMEX"),
    (6, "x", "bus reset"), (7, "x", "system reboot"),
    (9, "Dance", "no table holds"),
]


@pytest.mark.parametrize(("code", "words", "remedy"), RECOVERIES)
def test_the_drivers_word_is_obeyed_whatever_it_calls_it(code: int, words: str, remedy: str) -> None:
    (finding,) = failing(kmsg((50, wants(code, words))), gpu_nvml=SILENT)["kernel-xid-recovery"].findings
    assert remedy in finding.remedy and finding.subject == f"GPU at PCI {A}, Xid 154"


def test_the_newest_word_for_each_gpu_counts_and_none_clears_it() -> None:
    assert not failing(kmsg((50, wants(1, "GPU Reset Required")), (60, wants(0, "None"))), gpu_nvml=SILENT)
    found = failing(kmsg((50, wants(0, "None")), (55, wants(2, "Node Reboot Required", B)),
                         (60, wants(1, "GPU Reset Required"))), gpu_nvml=SILENT)
    assert [f.subject for f in found["kernel-xid-recovery"].findings] == [f"GPU at PCI {A}, Xid 154",
                                                                          f"GPU at PCI {B}, Xid 154"]


ASKED = wants(1, "GPU Reset Required")
WRITTEN = "muster: GPU 0000:18:00.0 was reset"
LINK = link({2: 1 << 16})
# lines, what NVML has the driver want of A now, and which rules fail
RESETS: list[tuple[str, list[tuple[float, str]], str | None, set[str]]] = [
    ("a fault, nothing asked", [(50, xid(119))], "none", {"kernel-xid"}),
    ("asked, and not reset", [(50, xid(119)), (51, ASKED)], "gpu_reset",
     {"kernel-xid", "kernel-xid-recovery"}),
    ("asked, and nothing is wanted now", [(50, xid(119)), (51, ASKED)], "none", set()),
    ("asked long ago, and still wanted", [(50, xid(119)), (51, ASKED), (YEAR, "a quiet year ends")],
     "gpu_reset", {"kernel-xid", "kernel-xid-recovery"}),
    ("a remapping that waits for a reset", [(50, xid(63)), (YEAR, "a quiet year ends")], "none",
     {"kernel-xid-watch"}),
    ("a remapping, and the GPU was reset", [(50, xid(63)), (51, WRITTEN)], "none", set()),
    ("an error that was contained, which no reset ends", [(50, xid(94)), (51, WRITTEN)], "none",
     {"kernel-xid-watch"}),
    ("asked by a driver that cannot be asked", [(50, xid(119)), (51, ASKED)], None,
     {"kernel-xid", "kernel-xid-recovery"}),
    ("asked, and a fault after it", [(50, xid(119)), (51, ASKED), (52, xid(119))], "none", {"kernel-xid"}),
    ("drained and reset", [(50, xid(119)), (51, wants(4, "Drain and Reset"))], "none", set()),
    ("peer-to-peer drained, which is no reset", [(50, xid(119)), (51, wants(3, "Drain P2P"))], "none",
     {"kernel-xid"}),
    ("a reboot asked", [(50, xid(119)), (51, wants(2, "Node Reboot Required"))], "none",
     {"kernel-xid", "kernel-xid-recovery"}),
    ("a reset of the bus asked, and nothing is wanted now", [(50, xid(119)), (51, wants(6, "Bus Reset"))],
     "none", set()),
    ("a word that nobody knows", [(50, xid(119)), (51, wants(9, "Dance"))], "none",
     {"kernel-xid", "kernel-xid-recovery"}),
    ("another GPU asked", [(50, xid(119)), (51, wants(1, "GPU Reset Required", B))], "none", {"kernel-xid"}),
    ("a fault that wants more than a reset", [(50, xid(79)), (51, ASKED)], "none", {"kernel-xid"}),
    ("written", [(50, xid(119)), (51, WRITTEN)], "none", set()),
    ("written, on an older driver", [(50, xid(119)), (51, WRITTEN)], None, set()),
    ("written, and the driver asks all the same", [(50, xid(119)), (51, WRITTEN)], "gpu_reset",
     {"kernel-xid"}),
    ("written, and a fault after it", [(50, xid(119)), (51, WRITTEN), (52, xid(119))], "none",
     {"kernel-xid"}),
    ("written, and the driver's wish could not be read", [(50, xid(119)), (51, WRITTEN)], "unread",
     {"kernel-xid"}),
    ("written of another GPU", [(50, xid(119)), (51, WRITTEN.replace(":18:", ":19:"))], "none",
     {"kernel-xid"}),
    ("written of all", [(50, xid(119)), (50, xid(119, B)), (51, "muster: all GPUs were reset")], "none",
     set()),
    ("written of all, and the driver asks all the same",
     [(50, xid(119)), (50, SWITCH), (51, "muster: all GPUs were reset")], "gpu_reset",
     {"kernel-xid", "kernel-sxid"}),
    ("written by a process of that name", [(50, xid(119)), (51, xid(43, name=WRITTEN))], "none",
     {"kernel-xid", "kernel-xid-job"}),
    ("written with more than that", [(50, xid(119)), (51, f"{WRITTEN} not")], "none", {"kernel-xid"}),
    ("a fault that wants more, written", [(50, xid(79)), (51, WRITTEN)], "none", {"kernel-xid"}),
    ("an NVLink error that wants a reset", [(50, LINK), (51, WRITTEN)], "none", set()),
    ("an NVLink error after it", [(50, LINK), (51, WRITTEN), (52, LINK)], "none", {"kernel-xid-nvlink"}),
    ("an NVLink error that wants the vendor", [(50, link({0: 1 << 1})), (51, WRITTEN)], "none",
     {"kernel-xid-nvlink"}),
    ("a switch, with all GPUs", [(50, SWITCH), (51, "muster: all GPUs were reset")], "none", set()),
    ("a switch, with one GPU", [(50, SWITCH), (51, WRITTEN)], "none", {"kernel-sxid"}),
]


@pytest.mark.parametrize(("lines", "wanted", "rules"), [case[1:] for case in RESETS],
                         ids=[case[0] for case in RESETS])
def test_a_reset_that_was_shown_ends_what_it_ends_and_no_more(
    lines: list[tuple[float, str]], wanted: str | None, rules: set[str],
) -> None:
    assert set(failing(kmsg(*lines, newest=max(600, lines[-1][0])),
                       gpu_nvml=wanting(gpu0=wanted, gpu1="none"))) == rules


def test_what_a_reset_ended_is_said_beside_the_pass() -> None:
    found = judged(kmsg((50, xid(119)), (51, ASKED)), gpu_nvml=wanting(gpu0="none"))
    assert found["kernel-xid"].reason == f"over, since the GPU was reset: Xid 119 at PCI {A}"
    assert found["kernel-xid-recovery"].reason == f"no longer asked for, by NVML: GPU at PCI {A}, Xid 154"
    both = judged(kmsg((50, LINK), (50, SWITCH), (51, "muster: all GPUs were reset")))
    assert both["kernel-xid-nvlink"].reason == f"over, since the GPU was reset: Xid 74 at PCI {A}"
    assert both["kernel-sxid"].reason == "over, since the GPU was reset: SXid 20034 at PCI 0000:05:00"


@pytest.mark.parametrize("silent", [Capture(Outcome.MISSING), Capture(Outcome.TIMEOUT),
                                    machine.lines({"count": {"error": [999, "x"]}}), machine.lines(3)])
def test_without_nvml_the_log_is_judged_by_itself(silent: Capture) -> None:
    assert set(failing(kmsg((50, xid(119)), (51, ASKED)), gpu_nvml=silent)) == {"kernel-xid",
                                                                                "kernel-xid-recovery"}
    assert set(failing(kmsg((50, xid(119)), (51, WRITTEN)), gpu_nvml=silent)) == {"kernel-xid"}
    assert set(failing(kmsg((50, SWITCH), (51, "muster: all GPUs were reset")),
                       gpu_nvml=silent)) == {"kernel-sxid"}


def test_a_154_without_the_drivers_words_is_said_and_not_guessed() -> None:
    (finding,) = failing(kmsg((50, f"NVRM: Xid (PCI:{A}): 154, hm")))["kernel-xid-recovery"].findings
    assert "no table holds" in finding.remedy


# registers of the lines, the rule that fails ("": none), a word of the remedy
REGISTERS: list[tuple[list[dict[int, int]], str, str]] = [
    ([{0: 1 << 0 | 1 << 23 | 1 << 30}], "", ""), ([{0: 1 << 1}], "kernel-xid-nvlink", "ask the vendor"),
    ([{0: 1 << 20 | 1 << 27}], "kernel-xid-nvlink", "seen 1 of 2"),
    ([{0: 1 << 4}], "kernel-xid-nvlink", "seen 1 of 2"),
    ([{0: 1 << 4}, {0: 1 << 5}], "kernel-xid-nvlink", "ask the vendor"),
    ([{0: 1 << 8}], "kernel-xid-nvlink", "seen 1 of 2"),
    ([{0: 1 << 8}, {0: 1 << 28}], "kernel-xid-nvlink", "vendor's diagnostics"),
    ([{0: 1 << 21}], "kernel-xid-nvlink", "signal integrity"),
    ([{2: 1 << 13}], "kernel-xid-nvlink", "not expected in production"),
    ([{2: 1 << 16}], "kernel-xid-nvlink", "reset"),
    ([{2: 1 << 16}] * 2, "kernel-xid-nvlink", "field diagnostic"),
    ([{2: 1 << 17}] * 2, "kernel-xid-nvlink", "ask the vendor"),
    ([{3: 1 << 16}], "kernel-xid-nvlink", "ask the vendor"),
    ([{3: 1 << 18}], "kernel-xid-nvlink", "fabric must be reset"),
    ([{4: 1 << 18}] * 2, "kernel-xid-nvlink", "ECC or parity"),
    ([{4: 1 << 20}], "kernel-xid-watch", "corrected ECC"),
    ([{0: 1 << 15}], "kernel-xid-nvlink", "Bit 15 of register 0: not in the table"),
    ([{1: 1 << 4}], "kernel-xid-nvlink", "no bit is set"),
    ([{}], "kernel-xid-nvlink", "no bit is set"),
]


@pytest.mark.parametrize(("lines", "rule", "words"), REGISTERS)
def test_xid_74_is_what_its_registers_say(lines: list[dict[int, int]], rule: str, words: str) -> None:
    found = failing(kmsg(*((50 + n * 300, link(registers)) for n, registers in enumerate(lines))))
    assert set(found) == ({rule} if rule else set())
    assert not rule or words in found[rule].findings[0].remedy


def test_registers_are_counted_link_by_link() -> None:
    found = failing(kmsg((50, link({0: 1 << 4}, 3)),
                         (500, link({0: 1 << 4}, 4))))["kernel-xid-nvlink"].findings
    assert ([f.subject[-6:] for f in found] == ["link 3", "link 4"]
            and all("seen 1 of 2" in f.remedy for f in found))


def test_a_secondary_link_error_is_excused_by_what_it_follows() -> None:
    assert set(failing(kmsg((45, xid(79)), (50, link({0: 1 << 1}))))) == {"kernel-xid"}


def test_registers_that_cannot_be_decoded_want_a_reset_and_say_why() -> None:
    ampere = machine.done(**{path: file.text.replace("10DE:2330", "10DE:20B2")
                             for path, file in machine.pci().files.items()})
    for log, more, word in (
        (kmsg((50, link({0: 1 << 1}))), {"gpu_pci": ampere}, "for Hopper only"),
        (kmsg((50, link({0: 1 << 1}))), {"gpu_pci": Capture(Outcome.MISSING)}, "generation is not known"),
        (kmsg((50, xid(74, rest="NVLink: fatal error detected on link 2"))), {}, "holds no registers")):
        (finding,) = failing(log, **more)["kernel-xid-nvlink"].findings
        assert word in finding.remedy and "reset the GPU" in finding.remedy


WORDS: list[tuple[str, str, str]] = [
    (nvlink5(144, "SAW_MVB", 1, fatal="Nonfatal"), "", ""),
    (nvlink5(144, "SAW_MVB", 2), "kernel-xid-nvlink", "uncorrectable"),
    (nvlink5(144, "SAW_MVB", 3), "kernel-xid-nvlink", "uncorrectable"),
    (nvlink5(144, "SAW_MVB", 0x40), "kernel-xid-nvlink", "not in the table"),
    (nvlink5(144, "SAW_MVB", 0x40, fatal="Nonfatal"), "kernel-xid-watch", "not in the table"),
    (nvlink5(146, "NEW_UNIT", 1, fatal="Nonfatal"), "kernel-xid-watch", "unit NEW_UNIT"),
    (nvlink5(145, "RLW_REMAP", 1, fatal="Nonfatal"), "kernel-xid-job", "job"),
    (nvlink5(145, "RLW_RXPIPE", 1, fatal="Nonfatal"), "", ""),
    (nvlink5(145, "RLW_RXPIPE", 1), "kernel-xid-nvlink", "reset"),
    (nvlink5(145, "RLW_TAGSTATE", 0x100000), "kernel-xid-nvlink", "uncorrectable"),
    (nvlink5(146, "TLW_RX/TLW_RX_PIPE0", 4), "kernel-xid-nvlink", "uncorrectable"),
    (nvlink5(146, "TLW_CTRL", 1, fatal="Nonfatal"), "", ""),
    (nvlink5(147, "TREX", 1, fatal="Nonfatal"), "", ""),
    (nvlink5(148, "NVLPW", 0x80000000, fatal="Nonfatal"), "", ""),
    (nvlink5(149, "NETIR_BER_EVENT", 1, fatal="Nonfatal"), "kernel-xid-watch", "cables"),
    (nvlink5(149, "NETIR/NETIR_INT"), "kernel-xid-nvlink", "controller"),
    (nvlink5(149, "NETIR_LINK_EVT", 0, subcode=0b000010), "kernel-xid-nvlink", "signal integrity"),
    (nvlink5(149, "NETIR_LINK_DOWN", 0, subcode=0b100101), "kernel-xid-nvlink", "other end"),
    (nvlink5(149, "NETIR_LINK_EVT", 0, subcode=0b010101), "kernel-xid-nvlink", "other end"),
    (nvlink5(149, "NETIR_LINK_EVT", 0, subcode=0b101010), "kernel-xid-nvlink", "cables"),
    (nvlink5(149, "NETIR_LINK_EVT", 0, subcode=0b100110), "", ""),
    (nvlink5(149, "NETIR_LINK_EVT", 0, subcode=0b101000), "", ""),
    (nvlink5(149, "NETIR_LINK_EVT", 0, subcode=0b111111), "kernel-xid-nvlink",
     "subcode 0x3f is not in the table"),
    (nvlink5(149, "NETIR_MFDE_EVENT", 1), "kernel-xid-nvlink", "firmware"),
    (nvlink5(149, "NETIR_MFDE_EVENT", 3, fatal="Nonfatal"), "", ""),
    (nvlink5(149, "NETIR_MFDE_EVENT", 6), "kernel-xid-nvlink", "not in the table"),
    (nvlink5(149, "NETIR_MFDE_EVENT", None), "kernel-xid-nvlink", "status none"),
    (nvlink5(150, "MSE_WATCHDOG"), "kernel-xid-nvlink", "management engine"),
    (f"NVRM: Xid (PCI:{A}): 150, MSE Degraded", "kernel-xid-nvlink", "management engine"),
    (nvlink5(144, "NEW_UNIT", 1), "kernel-xid-nvlink", "unit NEW_UNIT"),
    (f"NVRM: Xid (PCI:{A}): 144, hm", "kernel-xid-nvlink", "not of the documented form"),
]


@pytest.mark.parametrize(("line", "rule", "words"), WORDS)
def test_nvlink_5_is_what_its_words_say(line: str, rule: str, words: str) -> None:
    found = failing(kmsg((50, line)), gpu_pci=blackwell())
    assert set(found) == ({rule} if rule else set())
    assert not rule or words in found[rule].findings[0].remedy


@pytest.mark.parametrize(("number", "captured"), [(74, blackwell()), (149, machine.pci())])
def test_an_nvlink_xid_of_another_generation_is_a_case_for_support(number: int, captured: Capture) -> None:
    assert set(failing(kmsg((50, xid(number))), gpu_pci=captured)) == {"kernel-xid"}


def sxid(number: int, rest: str, switch: str = "0000:05:00.0") -> str:
    return f"nvidia-nvswitch0: SXid (PCI:{switch}): {number}, {rest}"


SWITCHES = [
    (sxid(12020, "Fatal, Link 3 egress"), "kernel-sxid", "every partition"),
    (sxid(20034, "Fatal, Link 30 LTSSM Fault Up"), "kernel-sxid", "the log does not say which"),
    (sxid(20034, "Severity 1 Engine instance 30"), "kernel-sxid", "LTSSM"),
    (sxid(20034, "Non-fatal, Link 3"), "kernel-sxid-watch", "LTSSM"),
    (sxid(11021, "Non-fatal, Link 3 x"), "kernel-sxid-watch", "corrected"),
    (sxid(20009, "Fatal, Link 3 x"), "kernel-sxid", "short error rate"),
    (sxid(10003, "Data {0x0}"), "kernel-sxid", "no one handled"),
    (sxid(12028, "Non-fatal, Link 32 egress non-posted PRIV error (First)"), "kernel-sxid-watch",
     "its job ends"),
    (sxid(55555, "Correctable, Link 1"), "kernel-sxid-watch", "by the driver's word"),
    (sxid(55555, "Fatal, Link 1"), "kernel-sxid", "Not in the table"),
    (sxid(55555, "hm"), "kernel-sxid", "Not in the table"),
    (sxid(55555, "Non-fatal, Link 46 MC TS crumbstore"), "kernel-sxid-watch", "by the driver's word"),
]


@pytest.mark.parametrize(("line", "rule", "words"), SWITCHES)
def test_an_sxid_is_as_bad_as_the_driver_and_then_the_table_say(line: str, rule: str, words: str) -> None:
    found = failing(kmsg((50, line)))
    assert set(found) == {rule} and words in found[rule].findings[0].remedy


@pytest.mark.parametrize("number", sorted(TABLE.sxids))
def test_each_sxid_fails_under_its_kinds_rule_where_the_line_has_no_word(number: int) -> None:
    fatal = (TABLE.sxids[number].kind.value.endswith("_fatal")
             and TABLE.sxids[number].kind.value != "non_fatal")
    assert set(failing(kmsg((50, sxid(number, "x"))))) == {"kernel-sxid" if fatal else "kernel-sxid-watch"}


def test_an_access_port_is_reported_from_a_trunk_port_by_the_gpus_that_report_with_it() -> None:
    fault = (50, sxid(20034, "Fatal, Link 30 LTSSM Fault Up"))
    (one,) = failing(kmsg(fault, (51, link({2: 1 << 13}))))["kernel-sxid"].findings
    (two,) = failing(kmsg(fault, (51, link({2: 1 << 13})),
                          (52, link({2: 1 << 13}, gpu=B))))["kernel-sxid"].findings
    (far,) = failing(kmsg(fault, (70, link({2: 1 << 13}))))["kernel-sxid"].findings
    assert (f"GPU at PCI {A} reports Xid 74 with it: by that an access port" in one.remedy
            and "a trunk port" in two.remedy)
    assert "the log does not say which" in far.remedy


def test_without_a_table_the_rules_are_unknown_and_it_is_our_fault() -> None:
    found = by_rule(machine.recording(), rules=replace(RULES, xids_from=None))
    assert {(found[rule].status, found[rule].reason) for rule in OURS} == {
        (Status.UNKNOWN, "Xid table: no rules folder holds an xid.yaml")}


@pytest.mark.parametrize(("line", "mib"),
                         [("NVRM: Xid (PCI:{n:04x}:3b:00): 74, pid={n}, name=x", 0.5),
                          *(pytest.param(line, 4, marks=pytest.mark.slow)
                            for line in ("NVRM: Xid (PCI:{n:04x}:3b:00): 74, pid={n}, name=x",
                                         "NVRM: Xid (PCI:0000:3b:00): 13, pid={n}, name=x, (GPC 1, TPC 2, SM "
                                         "0)", "NVRM: Xid (PCI:{n:04x}:3b:00): 45, pid={n}, name=x",
                                         "nvidia-nvswitch0: SXid (PCI:{n:04x}:00:00.0): 20034, Fatal"))])
def test_mebibytes_of_reports_are_judged_in_bounded_time(line: str, mib: float) -> None:
    lines = [(n / 100, line.format(n=n % 65536)) for n in range(int(mib * MIB) // (len(line) + 20))]
    log = kmsg(*lines)
    before = time.process_time()
    judged(log)
    assert time.process_time() - before < 1 + 3.5 * mib


def test_what_a_quiet_node_logged_last_does_not_stay_its_newest_trouble_for_ever() -> None:
    two_days = machine.done(**{"/proc/uptime": f"{50 + 48 * HOUR}.00 99.0\n"})
    found = judged(kmsg((50, xid(94))), host_uptime=two_days)["kernel-xid-watch"]
    assert (found.status is Status.PASS
            and found.reason == "over, quiet for long enough: Xid 94 at PCI 0000:18:00, 48 h ago")
    assert judged(kmsg((50, xid(94))),
                  host_uptime=Capture(Outcome.MISSING))["kernel-xid-watch"].status is Status.FAIL
    # A container's own uptime is shorter than the kernel's.
    assert judged(kmsg((50, xid(94)), newest=50 + 48 * HOUR))["kernel-xid-watch"].status is Status.PASS


@pytest.mark.parametrize(("uptime", "words"),
                         [(machine.done(**{"/proc/uptime": f"{50 + 48 * HOUR}.00 99.0\n"}),
                           "50 s after boot, 2 d ago: "), (Capture(Outcome.MISSING), "50 s after boot: ")])
def test_a_finding_says_how_long_ago_it_was_where_the_uptime_is_known(uptime: Capture, words: str) -> None:
    (finding,) = failing(kmsg((50, xid(48))), host_uptime=uptime)["kernel-xid"].findings
    assert finding.observed == words + xid(48)
