"""A boot's kernel log made by hand, the baseline of healthy boots like it, and what rules say of one snapshot
after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from healthcheck.baseline.catalogue import Catalogue
from healthcheck.baseline.kernelrules import KernelRules
from healthcheck.kernellog.emitter import Emitter
from healthcheck.kernellog.ending import ending
from healthcheck.kernellog.fold import fold
from healthcheck.kernellog.model import Baseline, CatalogueEntry, KnownTemplate, LogLine, Scope
from healthcheck.model.outcome import NodeReport, Owner, Repair, Result, Severity
from healthcheck.model.recording import Recording
from healthcheck.sweep.assess import Assessment
from healthcheck.sweep.snapshots import KeptSnapshots
from inventory.model import Node
from tests.healthcheck import machine
from tests.healthcheck.assessing import assessed
from tests.healthcheck.checks.verdicts import only

# seconds since boot, and the text: behind it, in lines of their own, the record's properties
Pairs = Sequence[tuple[float, str]]

DOWN = "nvme nvme3: frozen state error detected, reset controller 3"
LOST = "EDAC MC0: 1 UE memory read error on CPU_SrcID#0"
SLOW = "pci 0000:0c:00.0: 126.0 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x8 link"
CRASHED = "python3[77]: segfault at 0 ip 0000000000401126 sp 00007ffd5e4e5a30 error 6 in a.out[401000+1000]"
NVME = Emitter("nvme", r"nvme nvme\d{1,5}: ", "core.c", ("nvme",))
EDAC = Emitter("edac", r"EDAC MC\d{1,3}: ", "edac_mc.c")
PCI = Emitter("pci", r"pci [0-9a-f:.]{7,16}: ", "pci.c", ("pci",))
CATALOGUE = Catalogue((
    CatalogueEntry("nvme-down", "frozen state error detected, reset controller", Severity.CRITICAL,
                   "The drive stopped answering.",
                   "Replace it.",
                   Owner.VENDOR, "pci.c", (DOWN,), "nvme", repair=Repair.REPLACE,
                   needs=(("frozen state error",),), emitters=(NVME,),
                   ending=ending("repair")),
    CatalogueEntry("edac-ue", r"\d{1,6} UE memory ", Severity.CRITICAL, "Memory was lost.",
                   "Replace the DIMM.", Owner.VENDOR, "edac",
                   (LOST,), "edac",
                   needs=(("edac",),), emitters=(EDAC,), ending=ending("boot")),
    CatalogueEntry("link-slow", r"[\d.]{1,8} Gb/s available PCIe bandwidth, limited by", Severity.WARNING,
                   "A slot is slow.", "Reseat it.",
                   Owner.DATACENTRE, "pci.c", (SLOW,), "pcie", needs=(("limited by",),), emitters=(PCI,),
                   ending=ending("quiet 24h")),
    CatalogueEntry("job-crashed", r"<user>\[\d{1,10}\]: segfault at ", Severity.INFO, "A program crashed.",
                   "Its user looks.", Owner.USER,
                   "traps.c",
                   (CRASHED,), "segfault", needs=(("segfault",),), ending=ending("quiet 24h")),
))
CABLES = [f"mlx5_core 0000:{bus:02x}:00.0: Port module event: module 0, Cable plugged" for bus in range(8)]
BOOT: list[tuple[float, str]] = [
    (0.0, "Linux version 6.5.0-1007-nvidia (b@h) (gcc 12) #7 SMP Tue Nov 7 01:45:42 UTC 2023"),
    (1.0, "Run /init as init process"),
    (4.0, "systemd[1]: systemd 249.11-0ubuntu3.11 running in system mode (+PAM)"),
    *[(5.0 + number, text) for number, text in enumerate(CABLES)], (30.0, "nfs: a share is mounted"),
    (400.0, "a quiet hour begins"),
]
SCOPE = Scope("hgx-h100", "6.5.0-1007-nvidia")


def snapshot(pairs: Pairs, node: str = "gpu001", *, priorities: Mapping[str, int] | None = None,
             boot: str = "b00t") -> Recording:
    """A snapshot whose log holds these; `priorities` by text are those that are not informational. It was
    taken as the last was said."""
    text = "".join(f"{(priorities or {}).get(message, 6)},{number},{int(seconds * 1e6)},-;{message}\n"
                   for number, (seconds, message) in enumerate(pairs))
    versions = machine.done(**{"/proc/sys/kernel/osrelease": "6.5.0-1007-nvidia\n"})
    seen = machine.recording(node, kernel_log=machine.done(**{"/dev/kmsg": text}), host_versions=versions,
                             host_uptime=machine.done(**{"/proc/uptime": f"{pairs[-1][0]:.2f} 99.0\n"}))
    return machine.on_host(seen, boot_id=boot)


def baseline(pairs: Pairs = BOOT, boots: int = 5, scope: Scope = SCOPE) -> Baseline:
    """What `pairs` hold is what each of so many healthy boots said."""
    digest = fold([LogLine(message, seconds, 6, number) for number, (seconds, message) in enumerate(pairs)])
    known = {message.template: KnownTemplate(message.template, (message.phase,), boots, boots, message.count,
                                             message.count, message.head, "2026-11-01", "2026-11-20", "ops",
                                             "acceptance", message.busiest) for message in digest.messages}
    return Baseline("ours", scope, boots, boots, known,
                    {phase: (began, began + 2) for phase, began in digest.began.items()})


def judged(*snapshots: Recording, by: Sequence[Baseline] = (),
           catalogue: Catalogue = CATALOGUE) -> list[NodeReport]:
    """One sweep of nodes that were never seen before."""
    rules = replace(only("kernel-*"), kernel_from=lambda: KernelRules(catalogue, tuple(by)))
    return list(assessed(*snapshots, rules=rules).reports)


def result(rule: str, pairs: Pairs, by: Sequence[Baseline] = (), catalogue: Catalogue = CATALOGUE) -> Result:
    """What the rule says of the first snapshot of a node."""
    (report,) = judged(snapshot(pairs), by=by, catalogue=catalogue)
    return next(one for one in report.results if one.rule == rule)


def swept(folder: Path, *snapshots: Recording, by: Sequence[Baseline]) -> list[dict[str, Result]]:
    """What each of some sweeps says of one node, by rule, with a state folder between them as `muster check`
    has it."""
    kept = KeptSnapshots(folder)
    kept.prepare()
    rules = replace(only("kernel-*"), kernel_from=lambda: KernelRules(CATALOGUE, tuple(by)))
    found = []
    for seen in snapshots:
        previous = kept.read(seen.node)
        assessment = Assessment([Node(name=seen.node, sku="hgx-h100")], rules)
        assessment.add(seen, previous)
        (report,) = assessment.finish().reports
        found.append({one.rule: one for one in report.results})
        kept.write(seen, previous, unusual=assessment.unusual(seen.node))
    return found
