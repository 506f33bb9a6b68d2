"""What fails in the simulated fleet, how often, and how people mend it: each figure with its source, or named
as an assumption.

Published: the table of causes of "The Llama 3 Herd of Models" (Meta, 2024): 419 unexpected interruptions of
16,384 GPUs in 54 days; without the 54 of software, the 32 of host maintenance and the 2 of dependencies, 331
of hardware on 2,048 nodes are 2.1% of the nodes a week. "Revisiting Reliability in Large-Scale Machine
Learning Research Clusters" (Kokolis et al., HPCA 2025, arXiv 2410.21680): 6.50 and 2.34 failures in 1,000
node-days on two clusters, 4.6% and 1.6% a week; about 1.2% of the nodes are lemons. Imbue (2024) and others:
about 3% of machines a week, most of them again and again. "Surviving switch failures in cloud datacenters"
(Singh et al., CCR 51(2), 2021): 2% of switches fail within three months. Dean (2008): in a cluster's first
year, of some 1,800 machines, about 20 racks fail for 1 to 6 h, one power distribution unit for 6 h, and 4
network maintenances lose connections for 30 minutes.
"""

from __future__ import annotations

from dataclasses import dataclass

from healthcheck.model.outcome import Repair

MINUTES = 5                     # between two sweeps
HOUR = 60 // MINUTES            # in sweeps, as all times here are
DAY = 24 * HOUR
WEEK = 7 * DAY

WEEKLY = 0.03                   # of the nodes fail in a week; see above
LEMONS = 0.012                  # of the nodes are lemons; Kokolis et al.
# of all failures are theirs; assumption: above Kokolis et al. (13% of a day's jobs), below Imbue (most)
LEMON_SHARE = 0.3
# the chance that an inspection or a new part finds what makes a lemon; assumption
CURED = 0.5
LEAF_QUARTER = 0.02             # of the leaf switches fail in 90 days; Singh et al.
RACKS_YEAR, POWER_YEAR, LINKS_YEAR, PER_MACHINES = 20, 1, 4, 1800       # Dean
# lose their connection to the head, not to each other, in a maintenance: a tenth of Dean's; assumption
LINK_NODES = 192
FIRMWARE_DAYS = 30              # between two roll-outs of something bad; assumption
# nodes that get it, and the share that shows it within 12 h; rolled back after 24 h; assumption
FIRMWARE_NODES, FIRMWARE_BAD = 256, 0.4
# in 1,000 node-days; assumption: Kokolis et al. tuned theirs until under 1% of good jobs saw a failed check
FALSE_ALARMS = 1.0

# nodes in each; every node has a port on each of the 8 rails of its leaf group
RACK, LEAF, POWER, RAILS = 8, 32, 64, 8

# Assumptions about people: mean delays and durations in hours, exponential with the least in second place.
TAKE = (2.0, 0.25)              # until somebody takes a ticket
LASTS = {Repair.RESTART_SERVICE: (0.25, 0.25), Repair.RESET_GPU: (0.25, 0.25), Repair.REBOOT: (0.5, 0.25),
         Repair.INSPECT: (8.0, 1.0), Repair.REPLACE: (120.0, 24.0)}
# people without triage remember their visits to a node for so long; assumption
REMEMBERED = WEEK
AGAIN = 12.0                    # until a fault that the repair did not reach shows again
UNTIL_CLOSED = (1.0, 0.25)      # until a person closes the breaker
LEAF_LASTS = (4.0, 0.5)         # a leaf switch's outage; assumption
# Jobs: nodes and how many of a hundred jobs have so many; assumption after Kokolis et al.: most jobs are
# small, most time is large.
SIZES = {1: 50, 2: 15, 4: 12, 8: 10, 16: 6, 32: 4, 64: 2, 128: 1}
JOB_LASTS = (10.0, 0.5)
DIES_AFTER = 0.5                # hours after which a job that started on a broken node has failed


@dataclass(frozen=True)
class Kind:
    """One kind of failure: how often (of the table's 331), what a sweep says of it, and which repair ends it
    (chances in per cent).

    `fatal`: a job dies of it; else it is slow. `part`: it is of a GPU, known by its serial number. `flaps`:
    it comes and goes. `heals`: the chance that it goes by itself, within 3 h in the mean. `lag`: hours in the
    mean until a check can see it.
    """

    name: str
    weight: float
    rule: str
    subject: str
    needs: dict[Repair, int]
    fatal: bool = True
    part: bool = False
    flaps: float = 0.0
    heals: float = 0.0
    lag: float = 0.0


_GPU = {Repair.RESET_GPU: 60, Repair.REBOOT: 15, Repair.REPLACE: 25}
_SITE = {Repair.INSPECT: 100}
# What rules/xid.yaml asks for where a kernel's line has this number.
ASKED = {"Xid 79": Repair.REBOOT.value, "Xid 119": Repair.RESET_GPU.value}
KINDS = (
    Kind("faulty GPU, Xid", 74, "kernel-xid", "GPU {}, Xid 79", _GPU, part=True),
    Kind("faulty GPU, lost", 74, "gpu-count", "",
         {Repair.REBOOT: 60, Repair.INSPECT: 15, Repair.REPLACE: 25}),
    Kind("HBM3, uncorrectable", 54, "gpu-ecc-uncorrected", "GPU {}",
         {Repair.RESET_GPU: 75, Repair.REPLACE: 25}, part=True),
    Kind("HBM3, worn out", 18, "gpu-row-remap-failed", "GPU {}", {Repair.REPLACE: 100}, part=True),
    Kind("SRAM", 19, "gpu-sram-threshold", "GPU {}", {Repair.REPLACE: 100}, part=True),
    Kind("GPU system processor", 17, "kernel-xid", "GPU {}, Xid 119",
         {Repair.RESET_GPU: 40, Repair.REBOOT: 60}, part=True),
    Kind("cable", 35, "port-state", "mlx5_{0}/1 (0000:{0}8:00.0)", _SITE, flaps=0.6, heals=0.3),
    Kind("NIC", 7, "port-state", "mlx5_{0}/1 (0000:{0}8:00.0)", _SITE),
    Kind("watchdog, host hangs", 7, "", "", {Repair.REBOOT: 70, Repair.INSPECT: 30}),
    Kind("silent corruption", 6, "dcgm-diag-memory", "GPU {}", {Repair.REPLACE: 100}, fatal=False, part=True,
         lag=7 * 24),
    Kind("thermal interface", 6, "gpu-slowdown-thermal", "GPU {}", _SITE, fatal=False, flaps=0.3),
    Kind("SSD", 3, "disk-health", "nvme{}n1", _SITE, fatal=False),
    Kind("power supply", 3, "bmc-sensors", "PSU{}", _SITE, fatal=False),
    Kind("chassis, boards, CPU, memory", 8, "host-memory", "", _SITE),
)
# What checks say of healthy nodes: rule, subject, share; how many sweeps it lasts: one of 70%, two of 15%,
# else up to twelve. Assumption.
FALSE = (("kernel-xid", "GPU {}, Xid 31", 30), ("port-state", "mlx5_{0}/1 (0000:{0}8:00.0)", 30),
         ("gpu-slowdown-thermal", "GPU {}", 20), ("disk-health", "nvme{}n1", 10), ("", "", 10))
