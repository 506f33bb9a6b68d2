"""What muster must say of each fault of Ethernet, RoCE and optics, by its name alone."""

from __future__ import annotations

from collections.abc import Mapping

from tests.scenarios.expect import Expected, only, together

EXPECTED: Mapping[str, Expected] = {
    "ethernet-cable-out": only("bond-members", "bond0 eno2", "no link|a link",
                               "cable, module|cuts the node off", "warning", "network"),
    "bond-gone": together(
        only("fleet-bond",
             "bonds",
             "no bond|bond0, IEEE 802.3ad Dynamic link aggregation, of 0000:0b:00.0 and 0000:0b:00.1, as "
             "on 7 of 8", "bond",
             "warning"),
        only("fleet-netdev-state", "eno2 (0000:0b:00.1)", "administratively down|set up, as on 7 of 8",
             "ip link set dev", "warning")),
    "address-not-given": only(
        "fleet-addressing", "bond0", "no address|an IPv4 subnet of /24, the default route, as on 7 of 8",
        "ip addr|dhcp", "warning"),
    "other-driver-for-one-function": only(
        "fleet-pci-driver", "network 0000:0b:00.1", "driver vfio-pci|driver ixgbe, as on 7 of 8 nodes",
        "driverctl", "warning"),
    "ethernet-at-a-tenth": together(
        only("netdev-speed", "eno1 (0000:0b:00.0)", "1000 Mb/s|10000 Mb/s, as another of bond0",
             "cable|both ends", "warning", "network"),
        only("bond-lacp", "bond0 eno1", "in aggregator 2|the active one, 1", "port channel",
             "warning", "network"),
        only("fleet-netdev-speed", "eno1 (0000:0b:00.0)", "1000 Mb/s|7 of 8", "cable", "warning", "network")),
    "ethernet-flaps": only(
        "netdev-carrier-changes", "eno2 (0000:0b:00.1)", "changed 6 times|at most 2",
        "reseat cable|replace the cable", "warning", "network"),
    "ethernet-damages-frames": only("netdev-errors", "eno1 (0000:0b:00.0)", "a second|at most",
                                    "clean or replace", "warning", "network"),
    "ethernet-half-duplex": only("netdev-duplex", "eno1 (0000:0b:00.0)", "half duplex|full", "negotiate",
                                 "warning", "network"),
    "switch-forgot-the-bond": only("bond-lacp", "bond0", "no LACP partner", "port channel|LACP on",
                                   "warning", "network"),
    "odd-packet-size": only("fleet-netdev-mtu", "eno", "MTU 9000|7 of 8", "set the fleet's mtu", "warning"),
    "hot-air-at-the-cage": only("optics-temperature", "mlx5_5 (0000:c0:00.0) Module0", "73 C|70 C", "hot air",
                                "warning", "datacentre"),
    "adapter-overheats": only(
        "optics-adapter-temperature", "mlx5_1 (0000:40:00.0) asic", "103 C|100 C, 5 below critical", "fans",
        "warning", "datacentre"),
    "rail-without-address": only(
        "roce-gid", "mlx5_3/1 (0000:5e:00.0)", "no RoCE v2 GID but link-local", "ip addr|NCCL_IB_GID_INDEX"),
    "rail-of-odd-packet-size": only("roce-mtu", "mlx5_6/1 (0000:ce:00.0)", "MTU 1500|MTU 4200, as 7 of",
                                    "MTU to the same value", "warning"),
    "rail-loses-packets": only("roce-retransmits", "mlx5_2/1 (0000:4f:00.0)", "packet_seq_err|a second",
                               "leaf|PFC", "warning", "network"),
    "adapter-stops-its-leaf": only(
        "roce-pfc-storm", "mlx5_4 rail4", "tx_pause_storm_error_events grew by 2", "drain|PCIe", "warning"),
}
