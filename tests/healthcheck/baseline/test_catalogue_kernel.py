"""The catalogue's entries on processors, memory, the kernel, user space and remote storage: what they say,
and what they leave alone.

`healthy.txt` holds lines of healthy machines with their sources. What an entry of severity warning matches
there is a false alarm on every boot of the fleet.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from healthcheck.baseline.catalogue import CompiledEntry
from healthcheck.kernellog.model import CatalogueEntry
from healthcheck.kernellog.quoting import blanked
from healthcheck.model.outcome import Owner, Severity
from tests.healthcheck.baseline.numbers import others
from tests.healthcheck.baseline.packaged import catalogue

GROUPS = frozenset({
    "clocksource", "cper", "cpu", "edac", "firmware", "ipmi", "kernel", "limits", "lockup", "lustre", "mce",
    "memory", "network", "nfs", "nmi", "oom", "oops", "panic", "platform", "segfault", "storageclient",
    "systemd", "thermal",
})
HEALTHY = [line for line in (Path(__file__).parent / "healthy.txt").read_text().splitlines()
           if not line.startswith("#")]


def own() -> list[CatalogueEntry]:
    return [entry for entry in catalogue().entries if entry.group in GROUPS]


def test_lines_of_healthy_boots_raise_no_alarm() -> None:
    alarms = {line: found.id for line in HEALTHY if (found := catalogue().find(line))
              and found.severity is not Severity.INFO}
    assert len(HEALTHY) >= 300
    assert alarms == {}


def test_no_entry_depends_on_a_value_that_the_masks_hide() -> None:
    chance = Random(8)
    lines = [(entry, other) for entry in own() for example in entry.examples
             for other in others(example, chance, 3)]
    assert len(lines) > 600
    assert [(entry.id, other) for entry, other in lines
            if not CompiledEntry(entry).knows(blanked(other))] == []


OOM = "oom-kill:constraint={},nodemask=(null),cpuset=/,mems_allowed=0-1,task=python3,pid=1,uid=0"
CRASHED = ": Main process exited, code=dumped, status=11/SEGV"


@pytest.mark.parametrize(("line", "severity", "owner"), [
    # What was corrected is kept apart from what was not.
    ("EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0)",
     Severity.WARNING, Owner.VENDOR),
    ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0)",
     Severity.CRITICAL, Owner.VENDOR),
    ("{1}[Hardware Error]: event severity: corrected", Severity.WARNING, Owner.VENDOR),
    ("{1}[Hardware Error]: event severity: recoverable", Severity.CRITICAL, Owner.VENDOR),
    ("{1}[Hardware Error]: event severity: info", Severity.INFO, Owner.OPERATOR),
    ("[Hardware Error]: CPU:2 (19:11:1) MC17_STATUS[Over|CE|MiscV|AddrV|-|-|SyndV|CECC|-|-|-]: 0xdc20",
     Severity.WARNING, Owner.VENDOR),
    ("[Hardware Error]: CPU:2 (19:11:1) MC17_STATUS[Over|UE|MiscV|AddrV|PCC|-|SyndV|UECC|-|-|-]: 0xfea0",
     Severity.CRITICAL, Owner.VENDOR),
    # Memory that ran out for what a job is bound to is its user's matter, and the node's the operator's.
    (OOM.format("CONSTRAINT_MEMCG"), Severity.INFO, Owner.USER),
    (OOM.format("CONSTRAINT_NONE"), Severity.WARNING, Owner.OPERATOR),
    (OOM.format("CONSTRAINT_CPUSET"), Severity.INFO, Owner.USER),
    (OOM.format("CONSTRAINT_MEMORY_POLICY"), Severity.INFO, Owner.USER),
    # A service that crashed, and a user's own service.
    ("systemd[1]: slurmd.service" + CRASHED, Severity.WARNING, Owner.OPERATOR),
    ("systemd[1]: user@1000.service" + CRASHED, Severity.INFO, Owner.USER),
])
def test_how_bad_a_line_is_and_whose(line: str, severity: Severity, owner: Owner) -> None:
    found = catalogue().find(line)
    assert found is not None
    assert (found.severity, found.owner) == (severity, owner)


@pytest.mark.parametrize("name", ["python3", "slurmd", "systemd", "nvidia-persiste", "kubelet",
                                  "NVRM: Xid (PCI:", "mce: [Hardware ", "systemd[1]: a b", ""])
@pytest.mark.parametrize("told", [
    "{}[2211]: segfault at 18 ip 00007f21c8a1b2c3 sp 00007ffd1a2b3c40 error 4 in {}[7f21c8900000+1e0000]",
    "traps: {}[2211] general protection fault ip:7f21c8a1b2c3 sp:7ffd1a2b3c40 error:0 in "
    "{}[7f21c8900000+195000]",
])
def test_a_crash_is_its_users_whatever_the_program_calls_itself(told: str, name: str) -> None:
    for file in ("libc.so.6", "slurmd", "x: Kernel panic - not syncing: Fatal exception",
                 "a\nNVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."):
        found = catalogue().find(told.format(name, file))
        assert found is not None or not name
        assert found is None or (found.severity, found.owner) == (Severity.INFO, Owner.USER)


@pytest.mark.parametrize("line", [
    "systemd[4711]: slurmd.service: Main process exited, code=dumped, status=11/SEGV",
    "written by user space: systemd[1]: slurmd.service: Main process exited, code=dumped, status=11/SEGV",
    "systemd: slurmd.service: Main process exited, code=dumped, status=11/SEGV",
    "python3[1]: systemd[1]: slurmd.service: Main process exited, code=dumped, status=11/SEGV",
])
def test_another_process_than_the_first_says_nothing_of_the_nodes_services(line: str) -> None:
    assert catalogue().find(line) is None


@pytest.mark.parametrize("line", [
    "EDAC MC0: Giving out device to module i10nm_edac controller Intel_10nm Socket#0 IMC#0: DEV 0000:7e:0c.0 "
    "(INTERRUPT)",
    "mce: CPU0: Thermal monitoring enabled (TM1)",
    "MCE: In-kernel MCE decoding enabled.",
    "HEST: Table parsing has been initialized.",
    "nfs: server 10.0.0.5 OK",
    "clocksource: Switched to clocksource tsc",
    "NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.",
    "ACPI Error: No handler for Region [SYSI] (00000000f1a2b3c4) [IPMI] (20230331/evregion-130)",
])
def test_words_of_trouble_alone_are_no_fault(line: str) -> None:
    found = catalogue().find(line)
    assert found is None or found.severity is Severity.INFO


def test_each_of_these_classes_has_entries() -> None:
    assert {entry.group for entry in own()} == GROUPS
