"""How often control groups that jobs depend on were stopped because they had used up their quota of CPU time
(cpu.stat in Documentation/admin-guide/cgroup-v2.rst and Documentation/scheduler/sched-bwc.rst).

Read are the groups at the top (slices), the daemons that start jobs, and Slurm's jobs. Limits of single pods
are what their owners asked for.
"""

from __future__ import annotations

import re
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.files import CapturedFiles
from healthcheck.facts.parsing import matched
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, partial_if
from healthcheck.model.probes import Probe, ProbeKind

GROUPS = "/sys/fs/cgroup"
# A file that every kernel has, to distinguish a node without quotas from one that was not read.
ALWAYS = "/proc/loadavg"
_UNITS = ("slurmd", "kubelet", "containerd", "docker", "crio", "pbs")
QUOTA = Probe("cpu.quota", ProbeKind.FILES, paths=(
    ALWAYS, *(f"{GROUPS}/{at}/cpu.stat" for at in (
        "*", "system.slice/*slurmstepd.scope/job_*", *(f"system.slice/{unit}.service" for unit in _UNITS),
        "cpu/*", "cpu/slurm*/uid_*/job_*", *(f"cpu/system.slice/{unit}.service" for unit in _UNITS))),
))

# cgroup v1 has the groups of this controller in a folder of their own, often under the second name.
_NAME = re.compile(re.escape(GROUPS) + r"/(?:cpu/|cpu,cpuacct/)?(.+)/cpu\.stat")
_LINE = re.compile(r"([a-z_.]{1,40}) ([0-9]{1,19})")


class CpuQuota(Fact):
    """A control group ("control group system.slice/slurmd.service"): in how many periods its processes ran
    with a quota since it was made, and in how many of these they had used it up.

    UNSUPPORTED where no group has a quota.
    """

    name: str
    periods: int
    throttled: int


@fact("cpu_quotas", QUOTA, each="cpu_quota")
def cpu_quotas(captures: Captures) -> Any:
    """Every group with a quota, by its path; one that cannot be read costs no other."""
    files = captures.files(QUOTA)
    files.require(ALWAYS)
    found: dict[str, CpuQuota] = {}
    for path in files:
        if (match := _NAME.fullmatch(path)) and files.has(path):
            quota = _quota(files, path, f"control group {match[1]}")
            if quota is not None:
                found[quota.name] = quota
    quotas = tuple(found[name] for name in sorted(found)) or (CpuQuota.absent("control groups", UNSUPPORTED),)
    return partial_if(quotas, files.unreadable())


def _counts(text: str) -> dict[str, int]:
    lines = [matched(_LINE, line) for line in text.splitlines()]
    if not lines:
        raise ValueError(text)
    return {line[1]: int(line[2]) for line in lines}


def _quota(files: CapturedFiles, path: str, name: str) -> CpuQuota | None:
    """None where the group has no quota: then it counts no periods, or the file has no such line."""
    said: Any = files.read(path, _counts)
    if isinstance(said, Unmeasured):
        return CpuQuota.absent(name, said)
    if not said.get("nr_periods"):
        return None
    missing: Any = Unmeasured(f"{path} has no nr_throttled")
    return CpuQuota(name, said["nr_periods"], said.get("nr_throttled", missing))
