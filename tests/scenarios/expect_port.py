"""What muster must say of each fault of ports and adapters, by its name alone."""

from __future__ import annotations

from collections.abc import Mapping

from tests.scenarios.expect import Expected, only, together

EXPECTED: Mapping[str, Expected] = {
    "cable-out": together(
        only("port-state", "mlx5_2/1", "DOWN, Disabled|ACTIVE, LinkUp", "reseat or replace cable",
             owner="network"),
        only("port-link-downed", "mlx5_2/1", "lost its link 1 times", "clean and reseat",
             "warning", "network")),
    "port-stays-down": together(
        only("port-state", "mlx5_6/1", "DOWN, Polling", "reseat or replace cable", owner="network"),
        only("port-down-since", "mlx5_6/1", "for 10 minutes at least", "will not come back|both ends",
             "warning", "network")),
    "no-subnet-manager": only("port-state", "mlx5_1/1", "INIT, LinkUp", "subnet manager", owner="network"),
    "address-lost": only("port-lid", "mlx5_5/1", "no subnet manager (SM LID 0)", "subnet manager",
                         owner="network"),
    "lane-lost": together(
        only("port-rate", "mlx5_4/1", "200 Gb/s|400 Gb/s", "reseat", owner="network"),
        only("port-width", "mlx5_4/1", "2X|4X, as 7 of the node's 8", "a lane is lost|swap the cable",
             owner="network")),
    "link-flaps": together(
        only("port-link-downed", "mlx5_0/1", "lost its link 4 times", "clean and reseat",
             "warning", "network"),
        only("port-flapping", "mlx5_0/1", "lost its link 4 times in 0.2 h|fewer than 3",
             "drain|swap the cable", "warning", "network")),
    "data-lost-on-the-link": together(
        only("port-errors-fatal", "mlx5_3/1", "local_link_integrity_errors grew by 2", "drain|swap the cable",
             owner="network"),
        only("port-errors-rate", "mlx5_3/1", "a |at most", "reseat|switch's counters", "warning", "network")),
    "a-healthy-fabric-at-work": only("port-retries", "mlx5_2/1", "rnr_nak_retry_err grew by 3",
                                     "nothing is done to the node", "info", "user"),
    "symbols-lost-at-400-gbps": only(
        "port-errors-rate", "mlx5_5/1", "symbol_error grew by 60000|of its bits at 400 Gb/s|at most 1e-14",
        "cable and transceiver", "warning", "network"),
    "counter-at-its-ceiling": only(
        "port-counter-full", "mlx5_2/1 (0000:4f:00.0) link_downed", "stands at 255|still counts",
        "perfquery -R", "warning"),
    "left-the-partition": only("port-pkey", "mlx5_7/1", "0x7fff|full membership", "partitions",
                               owner="network"),
    "no-device-for-users": only("port-devices", "mlx5_1 (", "no uverbs device", "modprobe ib_uverbs"),
    "adapter-without-rdma": together(
        only("port-count", "port at 0000:5e:00.0 (rail 3)", "not there|there", "power-cycle|mlx5_core",
             owner="datacentre"),
        only("hca-present", "adapter at 0000:5e:00.0", "driver mlx5_core, no RDMA device",
             "kernel log|power-cycle"), blind=True),
    "adapter-in-half-its-lanes": only("hca-pcie-width", "mlx5_4 (0000:9a:00.0)", "x8|x16", "drain|reseat",
                                      owner="datacentre"),
    "adapter-a-generation-back": only("hca-pcie-speed", "mlx5_0 (0000:18:00.0)", "8 GT/s|32 GT/s",
                                      "drain|power-cycle", owner="datacentre"),
    "adapter-of-other-firmware": together(
        only("hca-firmware", "mlx5_6 (", "28.36.1010|28.39.1002, as 7 of the node's 8", "flint", "warning"),
        only("fleet-hca-firmware", "mlx5_6 (", "28.36.1010|as on 63 of 64", "mlxfwmanager", "warning")),
    "adapter-of-another-board": together(
        only("fleet-hca-psid", "mlx5_2 (", "DEL0000000036|as on 7 of 8 nodes", "asset list",
             "warning", "vendor"),
        only("hca-psid", "mlx5_2 (", "DEL0000000036|as 7 of the node's 8", "asset list",
             "warning", "vendor")),
    "adapter-stopped-answering": only("hca-log-fatal", "adapter at 0000:c0:00.0", "after boot",
                                      "drain|firmware dump|replace", owner="vendor"),
    "module-too-hot": only("hca-log", "adapter at 0000:40:00.0", "module too hot|High Temperature",
                           "temperature|fans", "warning", "datacentre"),
    "slot-gives-too-little-power": only(
        "hca-log", "adapter at 0000:dc:00.0", "insufficient slot power|27W", "slot's power limit", "warning",
        "datacentre"),
    "cable-pulled-and-put-back": Expected((), "healthy"),
}
