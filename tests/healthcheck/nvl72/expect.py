"""What muster must say of each state of an NVL72, by its name alone: whom it accuses and of what, whom it
cannot judge, and no one else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

R3 = tuple(f"r3-{tray:02d}" for tray in range(18))
ODD = ("r3-07",)
OTHERS = tuple(node for node in R3 if node not in ODD)
WHERE = "Where: rack r3, tray 7 of chassis 1821325191344, GPU module"


@dataclass(frozen=True)
class Says:
    """On these nodes the rule has this status, and its findings or its reason hold these words."""

    rule: str
    nodes: tuple[str, ...]
    words: tuple[str, ...] = ()
    status: str = "fail"
    severity: str = "critical"
    owner: str = "operator"


def accused(rule: str, words: str, nodes: tuple[str, ...] = ODD, severity: str = "critical",
            owner: str = "operator") -> Says:
    """Words that are all there are divided by a bar."""
    return Says(rule, nodes, tuple(words.split("|")), "fail", severity, owner)


def unjudged(rule: str, words: str, nodes: tuple[str, ...] = OTHERS, status: str = "skipped") -> Says:
    return Says(rule, nodes, tuple(words.split("|")), status)


ALL = "GPU 0, GPU 1, GPU 2, GPU 3|"

EXPECTED: Mapping[str, tuple[Says, ...]] = {
    "odd-uuid": (accused("fleet-nvlink-cluster",
                         ALL
                         + f"-0000000000ff, expected cluster 5cd3|as 68 of 72 GPUs of NVLink domain "
                           f"r3|{WHERE}s 1, 2, 3, 4", severity="warning"),),
    "zero-uuid": (
        accused("nvlink-fabric-cluster", f"GPU 0: no cluster UUID (all zeros)|fabric manager|{WHERE} 1"),
        unjudged("fleet-nvlink-cluster", "joined no NVLink cluster", ODD),
        unjudged("fleet-nvlink-domains", "no GPU was seen", ODD)),
    "odd-clique": (accused("fleet-nvlink-cluster",
                           ALL + f"clique 4026, expected clique 1|NVLink partition|{WHERE}s 1, 2, 3, 4",
                           severity="warning"),),
    "odd-clique-of-one-gpu": (accused("nvlink-fabric-clique",
                                      f"GPU 2: clique 4026|expected clique 1|{WHERE} 3"),),
    "imex-down-on-one-node": (
        accused("nvlink-fabric-imex", "nvidia-imex: failed (failed), expected active", severity="warning"),
        unjudged("nvlink-imex-state", "does not run", ODD),
        unjudged("fleet-nvlink-imex-domain", "the IMEX domain is DEGRADED: r3-07 (UNAVAILABLE)", R3)),
    "imex-versions-differ": (
        accused("fleet-nvlink-imex-domain",
                "nvidia-imex: version 570.172.08, expected version 580.95.05, as 17 of 18 IMEX services",
                severity="warning"),
        unjudged("fleet-nvlink-imex-domain", "DEGRADED: r3-07 (version 570.172.08)")),
    "nodes-config-differs": (
        accused("fleet-nvlink-imex-nodes",
                "nodes_config.cfg: 17 nodes (|without 10.0.3.27, expected 18 nodes (|as 17 of 18 lists",
                severity="warning"),
        unjudged("fleet-nvlink-imex-domain", "DEGRADED: r3-07 (another list of nodes)", R3)),
    "nodes-config-in-another-order": (
        accused("fleet-nvlink-imex-nodes", "18 nodes (|in another order, expected 18 nodes (",
                severity="warning"),
        unjudged("fleet-nvlink-imex-domain", "DEGRADED: r3-07 (another list of nodes)", R3)),
    "imex-firewalled": (
        accused("fleet-nvlink-imex-domain", "not connected with 17 of 17 nodes: r3-00 DISCONNECTED|ports",
                severity="warning"),
        unjudged("fleet-nvlink-imex-domain", "DEGRADED: r3-07 (not connected)")),
    "imex-seen-away": (
        accused("fleet-nvlink-imex-domain", "UNAVAILABLE, as 17 of 18 nodes see it, and READY by itself",
                severity="warning"),
        unjudged("fleet-nvlink-imex-domain", "DEGRADED: r3-07 (UNAVAILABLE)")),
    "imex-cannot-be-asked": (
        unjudged("fleet-nvlink-imex-domain", "nvidia-imex-ctl|timeout", ODD, "unknown"),
        unjudged("nvlink-imex-state", "nvidia-imex-ctl|timeout", ODD, "unknown")),
    "imex-waits-for-peers": (
        accused("nvlink-imex-state", "nvidia-imex: WAITING_FOR_PEERS, expected READY", severity="warning"),
        unjudged("fleet-nvlink-imex-domain", "DEGRADED: r3-07 (WAITING_FOR_PEERS)", R3)),
    "imex-member-in-no-sweep": (
        unjudged("fleet-nvlink-imex-domain", "DEGRADED: 10.0.3.17 (UNAVAILABLE)", OTHERS),),
    "switch-tray-fault": (
        accused("fleet-nvlink-switch",
                "NVLink 4, 5 of NVLink domain r3: down on 72 GPUs of 18 trays|do not reset", R3, "warning",
                "datacentre"),
        accused("nvlink-active",
                "GPU 0 NVLink 4: inactive|GPU 3 NVLink 5: inactive|switch trays|do not reset", R3,
                owner="datacentre")),
    "switch-port-faults": (
        accused("fleet-nvlink-switch",
                "NVLink 4 of NVLink domain r3: down on 4 GPUs of 4 trays: r3-03, r3-05, r3-07 and 1 more",
                ("r3-03", "r3-05", "r3-07", "r3-11"), "warning", "datacentre"),
        accused("nvlink-active", "GPU 1 NVLink 4: inactive|do not reset",
                ("r3-03", "r3-05", "r3-07", "r3-11"), owner="datacentre"),
        accused("fleet-nvlink", "GPU 1: 17 of 18 links up|do not reset", ("r3-03", "r3-05", "r3-07", "r3-11"),
                "warning", "datacentre")),
    "one-gpu-lost-links": (
        accused("nvlink-active",
                f"GPU 2 NVLink 4: inactive|GPU 2 NVLink 11: inactive|reset the GPUs|{WHERE} 3"),
        accused("fleet-nvlink", f"GPU 2: 15 of 18 links up|{WHERE} 3", severity="warning")),
    "three-gpus-lost-all-links": (
        accused("nvlink-active", "GPU 2 NVLink 0: inactive|GPU 2 NVLink 17: inactive|reset the GPUs",
                ("r3-03", "r3-05", "r3-07")),
        accused("fleet-nvlink", "GPU 2: 0 of 18 links up", ("r3-03", "r3-05", "r3-07"), "warning")),
    "swapped-trays": (
        accused("fleet-nvlink-cluster",
                "-000000000004, that of NVLink domain r4, expected|-000000000003, as 68 of 72 GPUs of NVLink "
                "domain r3|tray 5 of"
                " chassis 1821325191345", ("r3-02",), "warning"),
        accused("fleet-nvlink-cluster",
                "-000000000003, that of NVLink domain r3, expected|-000000000004, as 68 of 72 GPUs of NVLink "
                "domain r4|tray 2 of"
                " chassis 1821325191344", ("r4-05",), "warning"),
        accused("fleet-nvlink-place",
                "chassis 1821325191345, expected chassis 1821325191344, as 17 of 18 nodes of NVLink "
                "domain r3", ("r3-02",),
                "warning", "datacentre"),
        accused("fleet-nvlink-place",
                "chassis 1821325191344, expected chassis 1821325191345, as 17 of 18 nodes of NVLink "
                "domain r4", ("r4-05",),
                "warning", "datacentre")),
    "one-place-twice": (
        accused("fleet-nvlink-place",
                "chassis 1821325191344, slot 9, tray 8, host 1: r3-08 as well, expected one node", ODD,
                "warning", "datacentre"),
        accused("fleet-nvlink-place", "r3-07 as well", ("r3-08",), "warning", "datacentre")),
    "board-of-another-tray": (
        accused("fleet-nvlink-place",
                "GPU 2: chassis 1821325191344, slot 19, tray 9, host 1, expected|tray 7, host 1, as 3 of the "
                "node's 4 GPUs|Where: rack"
                " r3, tray 9", ODD, "warning", "datacentre"),),
    "two-domains-in-one-cluster": (
        accused("fleet-nvlink-domains", "-000000000003, as NVLink domain r4, expected one cluster for each",
                R3[:9], "warning"),
        accused("fleet-nvlink-domains", "-000000000003, as NVLink domain r3, expected one cluster for each",
                R3[9:], "warning")),
    "halves-of-two-uuids": (
        unjudged("fleet-nvlink-cluster", "36 have cluster 5cd30dc8|no cluster has a majority",
                 R3, "unknown"),),
    "divided-undeclared": (
        unjudged("fleet-nvlink-cluster",
                 "48 have clique 1, 24 have clique 2|declare it: labels: {nvlink_partition: NAME}", R3),),
    "divided-on-purpose": (),
    "divided-on-purpose-with-an-odd-tray": (
        accused("fleet-nvlink-cluster",
                ALL
                + "clique 1, expected clique 2, as 20 of 24 GPUs of partition tenant-a of NVLink domain r3",
                ("r3-03",), "warning"),),
    "no-domain-in-the-inventory": (
        unjudged("fleet-nvlink-cluster",
                 "the inventory gives no nvlink_domain; seen in cluster 5cd3|68 GPUs in clique 1, 4 GPUs in "
                 "clique 4026", R3),
        unjudged("fleet-nvlink-domains",
                 "the inventory gives no nvlink_domain; its GPUs are in cluster 5cd3", R3)),
    "one-node-left-out-of-the-inventory": (
        unjudged("fleet-nvlink-cluster", "the inventory gives no nvlink_domain; seen in cluster", ODD),
        unjudged("fleet-nvlink-domains",
                 "the inventory gives no nvlink_domain|which is that of NVLink domain r3", ODD),
        unjudged("fleet-nvlink-imex-nodes", "no other node of cluster", ODD),
        unjudged("fleet-nvlink-imex-domain", "no other node of cluster", ODD)),
    "one-node-of-another-domain": tuple(
        unjudged(rule, words, ("r4-00",)) for rule, words in (
            ("fleet-nvlink-cluster", "no other node of NVLink domain r4 was measured"),
            ("fleet-nvlink-imex-nodes", "no other node of NVLink domain r4 was measured"),
            ("fleet-nvlink-imex-domain", "no other node of NVLink domain r4 was measured"))),
    "unread": tuple(unjudged(rule, words, ODD, "unknown") for rule, words in (
        ("fleet-nvlink-place", "GPU 2: NVML: chassis_serial: Unknown Error"),
        ("fleet-nvlink-switch", "GPU 2: NVML: error 999"),
        ("fleet-nvlink", "GPU 2: NVML: error 999"), ("nvlink-active", "GPU 2 NVLink 3: NVML: error 999"),
        ("nvlink-speed", "GPU 2 NVLink 3: NVML: error 999"),
        ("fleet-nvlink-imex-nodes", "permission denied"), ("fleet-nvlink-imex-domain", "permission denied"))),
    "all-healthy": (),
    "two-healthy-racks": (),
}
