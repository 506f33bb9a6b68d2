"""The topic that compares rules with other checkers is complete and names only what there is."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest

from tests.healthcheck.help.pages import FOLDER
from tests.packagedrules import RULES

PAGE = FOLDER / "other-checkers.md"
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.read_text().splitlines()
        if line.startswith("|") and not line.startswith(("| ---", "| check |", "| component |"))]
NAMES = re.compile(r"`([^`]+)`(?! is )( \(off\))?")

# All checks of the four, by their sources: functions of NHC's scripts/*.nhc and Azure's customTests/*.nhc,
# GCM's commands and the sub-checks of those that have some, gpud's components/all/all.go.
NHC = (
    "hw_cpuinfo hw_physmem hw_swap hw_mem hw_physmem_free hw_swap_free hw_mem_free hw_ib hw_gm hw_eth "
    "hw_mcelog dmi_data_match "
    "dmi_raw_data_match fs_mount fs_mount_rw fs_mount_ro fs_size fs_free fs_used fs_inodes fs_ifree fs_iused "
    "file_contents file_test "
    "file_stat cmd_output cmd_status cmd_dmesg ps_daemon ps_blacklist ps_service ps_cpu ps_mem ps_physmem "
    "ps_time ps_unauth_users "
    "ps_userproc_lineage ps_kswapd ps_loadavg moab_sched moab_rm moab_torque net_socket net_ping "
    "nv_healthmon nvsmi_healthmon")
AZURE = (
    "cpu_stream gpu_xgmi app_gpu_clocks gpu_bw gpu_clock_throttling gpu_count gpu_ecc nvlink_status "
    "gpu_persistence vbios_version "
    "gpu_xid hw_topology ib_link_flapping ib_bw_gdr ib_bw_non_gdr nccl_allreduce nccl_allreduce_ib_loopback "
    "nvme_count rccl_allreduce")
GCM = (
    "check-airstore check-authentication check-blockdev check-dcgmi check-ethlink check-hca check-ib "
    "check-ipmitool check-nccl check-node "
    "check-nvidia-smi check-pci check-process check-processor check-sensors check-service check-ssh-certs "
    "check-storage check-syslogs "
    "check-telemetry memtest gpu_num running_procs running_procs_and_kill clock_freq gpu_temperature "
    "gpu_mem_usage gpu_retired_pages "
    "ecc_uncorrected_volatile_total ecc_corrected_volatile_total row_remap row_remap_pending "
    "row_remap_failed vbios_mismatch diag nvlink "
    "xid link-flaps io-errors check-ibstat check-iblink check-ib-interfaces disk-usage disk-size "
    "check-mountpoint mounted-directory "
    "file-exists directory-exists processor-freq cpufreq-governor check-mem-size check-buddyinfo "
    "check-clocksource check-zombie "
    "check-dstate check-running-process service-status package-version slurmctld-count node-slurm-state "
    "cluster-availability "
    "ssh-connection uptime module dnf-repos")
GPUD = (
    "clock-speed ecc fabric-manager gpm gpu-counts hw-slowdown infiniband memory nccl nvlink peermem "
    "persistence-mode power processes "
    "remapped-rows error-sxid temperature utilization error-xid")
GPUD_BESIDE = ("containerd cpu disk docker fuse kernel-module library memory network-latency nfs os pci "
               "tailscale")
CHECKS = {*(f"check_{name}" for name in f"{NHC} {AZURE}".split()), *GCM.split(),
          *(f"accelerator-nvidia-{name}" for name in GPUD.split()),
          *GPUD_BESIDE.split()}


def test_every_check_of_the_four_has_a_row() -> None:
    named = {word.strip("`") for row in ROWS for word in re.split(r",? ", row[0])}
    assert named == CHECKS


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_names_rules_that_there_are_or_a_topic_or_says_why_there_is_none(row: list[str]) -> None:
    ours = {rule.id: rule for rule in RULES.rules}
    _, looks_at, muster = row
    assert looks_at
    found = NAMES.findall(muster)
    for name, off in found:
        assert name in ours, name
        assert bool(off) is bool(ours[name].left_out), f"{name} is {ours[name].left_out or 'on'}"
    assert found or "](" in muster or muster.startswith("none: ") or "none, as of" in muster


def test_what_is_named_beside_the_tables_is_there() -> None:
    text = "\n".join(line for line in PAGE.read_text().splitlines() if not line.startswith("|"))
    for name in re.findall(r"`((?:fleet|gpu|port)-[\w*-]+)`", text):
        assert any(fnmatchcase(rule.id, name) for rule in RULES.rules), name
