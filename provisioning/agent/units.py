"""What starts the agent on a node: a service and a timer of systemd, or a line for cron where there is no
systemd.

The unit has no mount namespace of its own (ProtectSystem=, PrivateTmp=, ProtectKernelLogs= and their like
each make one): what is mounted, and what of it is read-only, is among what the agent judges, and in a
namespace it would see other mounts than jobs do. What it may not do is taken from it by capabilities, address
families and system calls instead. `systemd-analyze security` calls that 5.4 (medium) in systemd 252; most of
the rest is that namespace, and that it is root, which smartctl, NVML and the kernel's log need. The exporter
judges nothing, and so is shut in: 1.5 (OK).

The agent's share is bounded by its quota, not by a low weight. A weight counts among the groups of one
slice, and on each core: beside jobs in another slice CPUWeight=10 restrains nothing, and beside jobs in its
own (Docker's and Slurm's scopes in system.slice) it can come to almost nothing. By
scripts/bench/agentshare, on 2 cores with 4 endless loops a core, each loop in a group of its own beside the
unit, medians of 3 runs at a load average of 20 to 25: a run that takes 0.6 s alone took 31 s with
CPUWeight=10 and CPUQuota=100%; 45 s, and once 52 s, by `nice -n 10` as cron had it, and 8.6 s without; and
4.1 s as below, where it takes 2.4 s alone for its quota. With a run every 10 s the 99th percentile of a
job's steps of 5 ms, in one loop pinned to each core, grew by 12% as below and by 14% with the low weight (N
13,000 each), and beside jobs in another slice by 26% and 47% (N 3,000): a low share spares a job less than
the quota does. Most probes may take 5 s: much less than 25% would make slow tools unknown. The quota's
period is 20 ms and not 100 ms, so that a step of a job is held for 5 ms at a time and not for 25 ms.

Disk: the class `idle` is served only when no other program has asked for a while (ionice(1)), which starves
it likewise; this is the last of best-effort. A line for cron has no quota. It has no nice level either,
which would count against every thread of a job in its group: a run costs a job about a second of one core.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from healthcheck.exporter.serving import where
from inventory.errors import UsageError

SERVICE, TIMER = "/etc/systemd/system/muster-agent.service", "/etc/systemd/system/muster-agent.timer"
EXPORTER = "/etc/systemd/system/muster-exporter.service"
CRON = "/etc/cron.d/muster"
# What means nothing to systemd.
_PLAIN = re.compile(r"[A-Za-z0-9.:\[\]-]{1,80}")
_UNPRIVILEGED = 1024
# The agent gives itself up after 50 s (healthcheck.agent.main).
LIMIT_S = 60
MEMORY = "1G"
EXPOSURE = 5.4
EXPORTER_EXPOSURE = 1.5
_CAPABILITIES = (
    "CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH",      # files of whatever owner, and node_exporter's folder
    # smartctl on NVMe and SATA, dmidecode, PCI configuration space
    "CAP_SYS_ADMIN CAP_SYS_RAWIO",
    "CAP_SYSLOG",                                           # /dev/kmsg
    "CAP_NET_ADMIN",                                        # ethtool -m
    "CAP_SYS_PTRACE",                                       # /proc/PID of others
    "CAP_MKNOD",                                            # NVML makes /dev/nvidia* where nothing has yet
)


def _text(path: str) -> str:
    """What is written there, from the file of that name in `systemd`."""
    return (Path(__file__).parent / "systemd" / Path(path).name).read_text()


def units(period: float) -> dict[str, str]:
    """The service's and the timer's text by path; @COMMAND@ stands for what is started."""
    service = _text(SERVICE).format(limit=LIMIT_S, memory=MEMORY, capabilities=" ".join(_CAPABILITIES))
    return {SERVICE: service, TIMER: _text(TIMER).format(
        period=period, first=min(10.0, period / 10), spread=period / 5, accuracy=min(10.0, period / 10))}


def exporter(listen: str) -> str:
    """The unit that serves there, @EXPORTER@ for what is started. Raises UsageError for a bad place."""
    host, port = where(listen, "--exporter")
    if not _PLAIN.fullmatch(listen):
        raise UsageError(f"--exporter {listen}: the host {host} cannot stand in a unit; name an address")
    if port < _UNPRIVILEGED:
        raise UsageError(f"--exporter {listen}: the unit runs as an unprivileged user, who may only listen "
                         f"on ports from {_UNPRIVILEGED}")
    return _text(EXPORTER).format(listen=listen)


def cron(period: float) -> str:
    """The line for cron, of its longest period within this one; @DELAY@ is for a node's own delay."""
    minutes = max(1, int(period // 60))
    most = max(number for number in (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30) if number <= minutes)
    hours = max((number for number in (1, 2, 3, 4, 6, 8, 12) if number * 60 <= minutes), default=0)
    return _text(CRON).format(when=f"0 */{hours} * * *" if hours else f"*/{most} * * * *", limit=LIMIT_S)


def delay(node: str, period: float) -> int:
    """Seconds after cron's minute when this node looks: its own, within a fifth of the period."""
    number = int.from_bytes(hashlib.sha256(node.encode()).digest()[:4], "big")
    return number % max(1, min(300, int(period / 5)))
