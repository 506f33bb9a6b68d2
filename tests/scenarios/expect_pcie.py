"""What muster must say of each fault of PCI Express settings, by its name alone."""

from __future__ import annotations

from collections.abc import Mapping

from tests.scenarios.expect import Expected, only, together

EXPECTED: Mapping[str, Expected] = {
    "acs-on-everywhere": only(
        "pcie-acs", "above nvidia 0000:1b:00.0 and 15 more",
        "requests and completions|root complex|no redirection", "firmware|disable_acs_redir", "warning"),
    "acs-on-one-port": only("pcie-acs", "above nvidia 0000:52:00.0", "requests and completions",
                            "setpci", "warning"),
    "read-requests-small": together(
        only("pcie-max-read-request", "mlx5_core 0000:18:00.0 and 7 more", "256 bytes|at least 512",
             "pcie_bus_perf", "warning"),
        only("fleet-pcie-config", "mlx5_core 0000:18:00.0 and 7 more",
             "reads of 256|reads of 4096|7 of 8 nodes", "compare", "warning")),
    "read-requests-unlike-the-fleets": only(
        "fleet-pcie-config", "mlx5_core 0000:c0:00.0", "reads of 512|reads of 4096|7 of 8 nodes",
        "lspci", "warning"),
    "relaxed-ordering-off": together(
        only("pcie-relaxed-ordering", "mlx5_core 0000:18:00.0 and 7 more", "relaxed ordering is off|on",
             "bios|setpci", "warning"),
        only("fleet-pcie-config", "mlx5_core 0000:18:00.0 and 7 more", "no relaxed ordering|7 of 8 nodes",
             "compare", "warning")),
    "payload-does-not-fit": together(
        only("pcie-max-payload", "nvidia 0000:d1:00.0", "128 bytes|512 bytes, as port",
             "drain and reboot", "warning"),
        only("fleet-pcie-config", "nvidia 0000:d1:00.0", "payloads of 128|payloads of 512",
             "compare", "warning")),
    "adapter-beside-the-wrong-socket": only(
        "numa-rails", "NUMA node 0", "3 compute ports beside 4 GPUs|4", "wrong slot|nvidia-smi topo",
        "warning", "datacentre"),
}
