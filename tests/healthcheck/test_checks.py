"""Each packaged rule over recordings: passes the healthy one, names the fault, and says what it could not
see."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from healthcheck.model.outcome import NodeState, Origin, Result, Status, origin_of
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.sweep import assess, judgednode
from healthcheck.sweep.assess import Assessed, Assessment
from inventory.model import Node, PortPlan
from tests import packagedrules
from tests.healthcheck import machine
from tests.healthcheck.assessing import assessed, by_rule
from tests.healthcheck.servers import SITE, with_site

RULES = with_site(packagedrules.RULES)


# Those that these tests ask, and the ones that import `results`.
ASKED = RULES.select(only=("gpu-*", "port-*", "kernel-*", "filesystem-*", "docker-*", "host-*", "driver-*",
                           "nvlink-*"))


def results(node: Node | None = None, rules: Ruleset = ASKED, **changes: Capture) -> dict[str, Result]:
    return by_rule(machine.recording(**changes), nodes=[node or Node(name="gpu001", sku=SITE)], rules=rules)


def said(result: Result) -> str:
    return "; ".join(f"{f.subject}: {f.observed}, expected {f.expected}" for f in result.findings)


def log(*texts: str) -> Capture:
    lines = "".join(f"2,{100 + n},{(n + 50) * 1_000_000},-;{text}\n" for n, text in enumerate(texts))
    return machine.done(**{"/dev/kmsg": machine.KMSG + lines})


def mounts(**texts: str) -> Capture:
    held = machine.captures()["filesystem.mounts"]
    return replace(held, files={**held.files,
                                **{path: FileCapture(Outcome.DONE, text) for path, text in texts.items()}})


FAULTS = [
    ("port-count", {"port_sysfs": machine.ports(7)}, "ports: 7, expected at least 8"),
    ("port-state",
     {"port_sysfs": machine.ports(**{"mlx5_2.state": "1: DOWN", "mlx5_2.phys_state": "3: Disabled"})},
     "mlx5_2/1 (0000:42:00.0): DOWN, Disabled, expected ACTIVE, LinkUp"),
    ("port-rate", {"port_sysfs": machine.ports(**{"mlx5_5.rate": "200 Gb/sec (4X HDR)"})},
     "mlx5_5/1 (0000:45:00.0): 200 Gb/s, expected at least 400 Gb/s"),
    ("filesystem-space",
     {"filesystem_mounts": mounts(
         **{"/raid": "4096 4096 1000000000 20000000 10000000 500000 400000 400000 4096 255"})},
     "/raid: 99.0% used, 38.1 GiB left, expected at most 95%"),
    ("filesystem-inodes",
     {"filesystem_mounts": mounts(**{"/": "4096 4096 1000000 700000 650000 500000 1 1 4096 255"})},
     "/: 100.0% of inodes used, expected at most 95%"),
    ("filesystem-read-only",
     {"filesystem_mounts": mounts(
         **{"/proc/self/mountinfo": machine.MOUNTINFO.replace("/dev/md0 rw", "/dev/md0 ro")})},
     "/raid: read-only (xfs on /dev/md0), expected writable"),
    ("docker-answers",
     {"docker_info": Capture(Outcome.DONE, exit=1,
                             stderr="Cannot connect to the Docker daemon at unix:///x.")},
     "docker: Cannot connect to the Docker daemon at unix:///x., expected an answer from the daemon"),
    ("kernel-xid", {"kernel_log": log("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.")},
     "GPU at PCI 0000:3b:00, Xid 79: 50 s after boot, 70 s ago: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU "
     "has fallen off the bus., expected no such Xid"),
    ("kernel-xid", {"kernel_log": log("NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.")},
     "GPU at PCI 0000:3b:00, Xid 79: 50 s after boot, 70 s ago: NVRM: GPU 0000:3b:00.0: GPU has fallen off "
     "the bus., expected no such Xid"),
    ("kernel-hardware-error",
     {"kernel_log": log("mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: be00000000800400")},
     "mce-uncorrected: 50 s after boot, 70 s ago: mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: "
     "be00000000800400, expected no such message"),
    ("host-clock-synchronised",
     {"host_clock": Capture(Outcome.DONE, text=json.dumps({"state": 5, "status": 64, "maxerror": 16000000}))},
     "clock: not synchronised, expected disciplined by a time service (chrony, ntpd, systemd-timesyncd)"),
    ("host-memory", {"host_memory": machine.done(**{"/proc/meminfo": "MemTotal:       1980000000 kB\n"})},
     "memory: 1888 GiB, expected at least 1987 GiB (of 2048 GiB)"),
    ("host-swap",
     {"host_swap": machine.done(
         **{"/proc/swaps": "Filename Type Size Used Priority\n/swap.img file 8388604 0 -2\n"})},
     "swap: 8.0 GiB on /swap.img, expected at most 0 GiB"),
]


@pytest.mark.parametrize(("rule", "changes", "words"), FAULTS,
                         ids=[f"{n}-{fault[0]}" for n, fault in enumerate(FAULTS)])
def test_a_fault_is_named_by_its_rule_and_by_no_other(rule: str, changes: dict[str, Capture],
                                                      words: str) -> None:
    found = results(rules=RULES, **changes)
    assert said(found[rule]) == words
    assert found[rule].remedy
    others = {r.rule for r in found.values() if r.status is Status.FAIL} - {rule}
    assert not others


def test_every_rule_of_these_subjects_but_the_trend_ones_has_a_fault_here() -> None:
    """Those of other subjects have theirs in files of their own."""
    here = {"docker-answers", "filesystem-space", "filesystem-inodes", "filesystem-read-only",
            "host-clock-synchronised", "host-memory", "host-swap"}
    assert {"port-count", "port-state", "port-rate",
            *here} <= {fault[0] for fault in FAULTS} & {rule.id for rule in RULES.rules}


def test_a_line_that_imitates_a_record_inside_its_text_accuses_no_one() -> None:
    found = results(kernel_log=log("innocent 2,1,1,-;NVRM: Xid (PCI:0000:3b:00): 79, forged"))
    assert found["kernel-xid"].status is Status.PASS


def test_ten_thousand_equal_xids_are_one_finding_with_a_count() -> None:
    many = log(*(["NVRM: Xid (PCI:0000:3b:00): 63, pid=1, Row Remapper: New row marked"] * 10_000))
    (finding,) = results(kernel_log=many)["kernel-xid-watch"].findings
    assert str(finding.observed).startswith("10000 lines, the first 50 s after boot, 3 h ago: ")


@pytest.mark.parametrize("line", [
    "EDAC MC1: 1 UE memory read error on CPU_SrcID#1_MC#0_Chan#0_DIMM#0",
    "pcieport 0000:00:01.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer",
    "pcieport 0000:00:01.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer",
    "{2}[Hardware Error]: event severity: fatal",
    "Memory failure: 0x12345: recovery action for dirty LRU page: Recovered",
    "[Hardware Error]: Uncorrected, software restartable error.", "[Hardware Error]: System Fatal error.",
    "[Hardware Error]: CPU:2 (19:1:1) MC17_STATUS[Over|UE|MiscV|AddrV|-|-|UECC|-|-|-]: 0xbc2041000000011b",
])
def test_uncorrected_errors_of_every_reporter_are_found(line: str) -> None:
    assert results(kernel_log=log(line))["kernel-hardware-error"].status is Status.FAIL


def test_a_planned_port_that_is_missing_is_named_with_its_rail_and_unplanned_ports_are_not_judged() -> None:
    plans = {f"0000:{0x40 + n:02x}:00.0": PortPlan(rail=n)
             for n in range(7)} | {"0000:99:00.0": PortPlan(rail=7)}
    node = Node(name="gpu001", sku="hgx-h100", ports={**plans, "0000:47:00.0": PortPlan(role="storage")})
    found = results(node, port_sysfs=machine.ports(**{"mlx5_7.state": "1: DOWN"}))
    assert said(found["port-count"]) == "port at 0000:99:00.0 (rail 7): not there, expected there"
    assert found["port-state"].status is Status.PASS


def test_a_machine_without_gpus_is_measured_so_and_not_passed_by_default() -> None:
    node = Node(name="gpu001", sku="cpu-only")
    none = {"gpu_nvml": Capture(Outcome.MISSING, note="no NVIDIA device"), "gpu_pci": machine.pci(0),
            "port_sysfs": Capture(Outcome.DONE)}
    found = results(node, **none)
    assert found["gpu-count"].status is Status.PASS
    assert {found[r].status for r in ("gpu-ecc-uncorrected", "gpu-answers", "gpu-ecc-enabled", "port-state",
                                      "host-memory", "docker-answers")} == {Status.SKIPPED}
    blind = results(node, **{**none, "gpu_pci": Capture(Outcome.DENIED)})
    assert blind["gpu-count"].status is Status.UNKNOWN


def test_a_gpu_machine_called_cpu_only_is_found_out() -> None:
    assert results(Node(name="gpu001", sku="cpu-only"))["gpu-count"].status is Status.FAIL


# Trend

@pytest.mark.parametrize(("before", "boot", "status"), [
    ("3", "b00t", Status.PASS), ("1", "b00t", Status.FAIL), ("7", "b00t", Status.UNKNOWN),
    ("1", "0ther", Status.SKIPPED),
    ("1", "", Status.SKIPPED),
])
def test_links_lost_are_counted_since_the_earlier_look_of_the_same_boot(before: str, boot: str,
                                                                        status: Status) -> None:
    earlier, now = (machine.recording(port_sysfs=machine.ports(**{"mlx5_4.link_downed": downed}))
                    for downed in (before, "3"))
    assert by_rule(now, machine.on_host(earlier, boot_id=boot))["port-link-downed"].status is status


# Without a SKU

def strangers(count: int, **odd: Capture) -> Assessed:
    seen = [machine.recording(f"n{i}", **(odd if i == count - 1 else {})) for i in range(count)]
    return assessed(*seen, sku=None, rules=RULES)


def test_without_a_sku_the_one_that_differs_from_most_is_named() -> None:
    found = strangers(5, gpu_nvml=machine.nvml(7), gpu_pci=machine.pci(7))
    assert [report.state for report in found.reports] == [NodeState.HEALTHY] * 4 + [NodeState.UNHEALTHY]
    assert found.provisional is not None and found.provisional.numbers["gpu_count"] == 8
    assert "GPUs on PCI: 7, expected 8" in found.reports[-1].reason


def test_one_node_without_a_sku_is_unknown_and_says_what_to_name() -> None:
    (report,) = strangers(1).reports
    assert report.state is NodeState.UNKNOWN
    assert "no SKU is named for this node" in report.reason


def test_a_provisional_sku_ignores_what_could_not_be_measured() -> None:
    found = strangers(4, docker_info=Capture(Outcome.TIMEOUT))
    assert [report.state for report in found.reports] == [NodeState.HEALTHY] * 3 + [NodeState.UNKNOWN]


def test_nodes_that_all_show_no_gpus_do_not_make_each_other_healthy() -> None:
    """Hosts whose GPUs have all left the bus agree on that as well."""
    none = {"gpu_nvml": Capture(Outcome.MISSING), "gpu_pci": machine.pci(0),
            "port_sysfs": Capture(Outcome.DONE)}
    for report in assessed(*(machine.recording(f"n{i}", **none) for i in range(3)), sku=None,
                           rules=RULES).reports:
        assert {result.rule: result.status for result in report.results}["gpu-count"] is Status.UNKNOWN
        assert report.state is NodeState.UNKNOWN


# What a review of real machines taught

@pytest.mark.parametrize("line", [
    "mce: [Hardware Error]: Machine check events logged", "{1}[Hardware Error]: event severity: corrected",
    "{1}[Hardware Error]:  Error 0, type: corrected",
    "[Hardware Error]: Corrected error, no action required.",
    "[Hardware Error]: CPU:2 (19:1:1) MC17_STATUS[-|CE|MiscV|AddrV|-|-|CECC|-|-|-]: 0x9c2041000000011b",
    "EDAC MC0: 1 CE memory read error on CPU_SrcID#0",
    "pcieport 0000:00:01.0: AER: PCIe Bus Error: severity=Corrected, type=Physical Layer",
    "BERT: [Hardware Error]: Skipped 1 error records",
    "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: 8c00004000010090",
])
def test_blocks_that_report_corrected_errors_accuse_no_one(line: str) -> None:
    assert results(kernel_log=log(line))["kernel-hardware-error"].status is Status.PASS


def test_an_xid_of_a_mig_instance_is_an_xid() -> None:
    line = "NVRM: Xid (PCI:0000:31:00 GPU-I:05): 95, pid=9, Uncontained ECC error"
    assert said(results(kernel_log=log(line))["kernel-xid"]).startswith("GPU at PCI 0000:31:00, Xid 95:")


@pytest.mark.parametrize(("reading", "status"), [
    ({"error": [999, "Unknown Error"]}, Status.FAIL),
    ({"error": [4, "Insufficient Permissions"]}, Status.UNKNOWN)])
def test_a_gpu_that_refused_everything_fails_unless_we_were_not_allowed_to_ask(reading: dict[str, object],
                                                                               status: Status) -> None:
    silent = dict.fromkeys(json.loads(machine.nvml().text.splitlines()[4]).keys() - {"index"}, reading)
    assert results(gpu_nvml=machine.nvml(gpu3=silent))["gpu-answers"].status is status


def test_a_handle_that_may_not_be_had_is_unknown_and_one_that_is_refused_is_a_fault() -> None:
    for error, status in ((4, Status.UNKNOWN), (-1, Status.UNKNOWN), (10, Status.FAIL), (15, Status.FAIL)):
        lines = machine.nvml().text.splitlines()
        lines[3] = json.dumps({"index": 2, "error": [error, "x"]})
        found = results(gpu_nvml=replace(machine.nvml(), text="\n".join(lines)))
        assert found["gpu-answers"].status is status


def test_what_could_not_be_read_is_not_missing() -> None:
    plans = {f"0000:{0x40 + n:02x}:00.0": PortPlan(rail=n) for n in range(8)}
    node = Node(name="gpu001", sku="hgx-h100", ports=plans)
    held = machine.ports()
    path = "/sys/class/infiniband/mlx5_3/device/uevent"
    hung = replace(held, files={**held.files, path: FileCapture(Outcome.TIMEOUT)})
    assert results(node, port_sysfs=hung)["port-count"].status is Status.UNKNOWN
    few = {p: f for p, f in held.files.items() if "mlx5_0" in p}
    assert results(port_sysfs=Capture(Outcome.TIMEOUT, files=few))["port-count"].status is Status.UNKNOWN


def test_a_port_that_is_down_is_named_even_where_its_address_cannot_be_read() -> None:
    held = machine.ports(**{"mlx5_3.state": "1: DOWN"})
    path = "/sys/class/infiniband/mlx5_3/device/uevent"
    found = results(port_sysfs=replace(held, files={**held.files, path: FileCapture(Outcome.DENIED)}))
    assert said(found["port-state"]) == "mlx5_3/1: DOWN, LinkUp, expected ACTIVE, LinkUp"


def test_a_driver_without_link_counters_is_not_judged_by_them() -> None:
    def without(capture: Capture) -> Capture:
        return replace(capture, files={p: f for p, f in capture.files.items() if "counters" not in p})

    bare = machine.recording(port_sysfs=without(machine.ports()))
    assert by_rule(bare, bare)["port-link-downed"].status is Status.SKIPPED


@pytest.mark.parametrize(("before", "after", "down", "full"), [
    (machine.ports(7), machine.ports(8), Status.UNKNOWN, Status.PASS),
    # What it counts no further is said of the counter, once.
    (*(machine.ports(**{"mlx5_0.link_downed": "255"}),) * 2, Status.PASS, Status.FAIL)])
def test_a_port_without_an_earlier_look_is_not_compared_and_a_full_counter_is_named(
    before: Capture, after: Capture, down: Status, full: Status,
) -> None:
    found = by_rule(machine.recording(port_sysfs=after), machine.recording(port_sysfs=before))
    assert (found["port-link-downed"].status, found["port-counter-full"].status) == (down, full)


@pytest.mark.parametrize("mount", [
    "40 22 0:50 / /datasets ro - lustre mgs@o2ib:/data ro", "40 22 0:50 / /mnt/c rw - 9p drvfs rw",
    "40 22 8:9 / /backup ro,relatime - ext4 /dev/sdb1 ro", "40 22 0:50 / /media/x ro - udf /dev/sr0 ro",
])
def test_what_somebody_mounted_read_only_or_over_a_network_accuses_no_one(mount: str) -> None:
    point = mount.split()[4]
    full = "4096 4096 1000000 0 0 500000 1 1 4096 255" if "ext4" not in mount else machine.STATVFS
    found = results(filesystem_mounts=mounts(**{"/proc/self/mountinfo": f"{machine.MOUNTINFO}{mount}\n",
                                                point: full}))
    assert {found[r].status
            for r in ("filesystem-space", "filesystem-inodes", "filesystem-read-only")} == {Status.PASS}


def test_a_users_mount_that_root_may_not_look_at_blinds_no_one() -> None:
    odd = "41 22 0:60 / /home/u/a\x0cb rw - fuse.rclone remote rw,user_id=1000\n"
    held = mounts(**{"/proc/self/mountinfo": machine.MOUNTINFO + odd})
    found = results(filesystem_mounts=replace(held, files={**held.files,
                                                           "/home/u/a\x0cb": FileCapture(Outcome.DENIED)}))
    assert found["filesystem-space"].status is Status.PASS


def test_a_root_that_came_up_read_only_is_a_fault_however_it_is_mounted() -> None:
    text = machine.MOUNTINFO.replace("/ / rw,", "/ / ro,").replace("/dev/nvme0n1p2 rw,", "/dev/nvme0n1p2 ro,")
    assert said(
        results(filesystem_mounts=mounts(
            **{"/proc/self/mountinfo": text}))["filesystem-read-only"]).startswith("/: read-only")


def test_two_names_for_one_machine_make_neither_stand_for_the_other() -> None:
    one = machine.recording("gpu001")
    first, second = assessed(one, replace(one, node="gpu002")).reports
    assert (first.state, second.state) == (NodeState.HEALTHY, NodeState.UNKNOWN)
    assert second.reason == "one machine, which calls itself gpu001, answers as gpu[001-002]: wrong address?"


def test_a_node_that_muster_fails_to_judge_is_accused_of_nothing_and_the_others_are_judged(
        monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(recording: Recording, *rest: object) -> object:
        if recording.node == "gpu001":
            raise ValueError("a defect of ours")
        return facts_of(recording, *rest)

    facts_of: Any = judgednode.facts_of
    monkeypatch.setattr(assess, "facts_of", broken)
    first, second = assessed(machine.recording("gpu001"), machine.recording("gpu002")).reports
    # By this stage the store, triage and the gate know that the node was not asked anything that it failed to
    # answer.
    assert (first.state, first.stage, origin_of(first)) == (NodeState.UNKNOWN, "head", Origin.MUSTER)
    assert ("judging this node failed: ValueError: a defect of ours" in first.reason
            and second.state is NodeState.HEALTHY)


def test_dead_daemons_on_most_nodes_do_not_become_what_is_expected() -> None:
    dead = Capture(Outcome.DONE, exit=1, stderr="Cannot connect to the Docker daemon at unix:///x.")
    seen = [*(machine.recording(f"n{i}", docker_info=dead) for i in range(3)), machine.recording("n3")]
    assert {report.state for report in assessed(*seen, sku=None, rules=RULES).reports} == {NodeState.UNKNOWN}


def test_a_defect_that_one_answer_brings_to_light_costs_that_node_only(
        monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = tuple(Node(name=f"gpu00{n}", sku="hgx-h100") for n in (1, 2))
    assessment = Assessment(nodes, RULES)
    with monkeypatch.context() as patch:
        patch.setattr("healthcheck.sweep.judgednode.Captures", lambda recording, cache: 1 // 0)
        assessment.add(machine.recording("gpu001"))
    assessment.add(machine.recording("gpu002"))
    first, second = assessment.finish().reports
    assert (first.state, second.state) == (NodeState.UNKNOWN, NodeState.HEALTHY)
    assert "ZeroDivisionError" in first.reason


def test_thousands_of_unreadable_subjects_are_judged_in_time_and_never_pass() -> None:
    held = machine.ports(1000)
    denied = {p: FileCapture(Outcome.DENIED) if p.endswith("/state") else f for p, f in held.files.items()}
    assert results(port_sysfs=replace(held, files=denied))["port-state"].status is Status.UNKNOWN


def test_a_rule_that_found_nothing_to_judge_does_not_pass() -> None:
    diskless = "22 1 0:1 / / ro - overlay overlay ro\n31 22 0:40 / /home rw - nfs4 files:/home rw\n"
    found = results(filesystem_mounts=mounts(**{"/proc/self/mountinfo": diskless}))
    assert {found[r].status
            for r in ("filesystem-space", "filesystem-inodes", "filesystem-read-only")} == {Status.UNKNOWN}
    down = results(port_sysfs=machine.ports(**{f"mlx5_{n}.state": "1: DOWN" for n in range(8)}))
    assert (down["port-state"].status, down["port-rate"].status) == (Status.FAIL, Status.UNKNOWN)
    node = Node(name="gpu001", sku="hgx-h100", ports={"0000:ff:00.0": PortPlan(rail=0)})
    elsewhere = results(node)
    assert (elsewhere["port-count"].status, elsewhere["port-state"].status) == (Status.FAIL, Status.UNKNOWN)
