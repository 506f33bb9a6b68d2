"""What each step is, as argument lists: nothing that is sent to a node, and no policy, can add to them.
Python 3.8.

systemctl(1), modprobe(8) (-n: only look; -b: what is blacklisted stays out), systemd-run(1). nvidia-smi(1):
--gpu-reset without -i resets all GPUs together, as NVIDIA's Fabric Manager user guide asks for where
NVSwitches join them: the Fabric Manager and all that has them open stop before.
"""

from __future__ import annotations

SERVICES = {
    "restart-fabric-manager": "nvidia-fabricmanager.service",
    "restart-persistenced": "nvidia-persistenced.service",
    "restart-docker": "docker.service",
    "restart-containerd": "containerd.service",
}
MODULES = {
    "load-nvidia": "nvidia", "load-nvidia-uvm": "nvidia_uvm", "load-nvidia-peermem": "nvidia_peermem",
    "load-mlx5-ib": "mlx5_ib"}
RESET, RESET_S = ("nvidia-smi", "--gpu-reset"), 300
# Stopped in this order for a reset, where they run; started in the other.
CLIENTS = ("dcgm-exporter.service", "nvidia-dcgm.service", "nvidia-persistenced.service",
           "nvidia-fabricmanager.service")
# A little later, so that the answer is home before the network goes.
REBOOT = ("systemd-run", "--quiet", "--collect", "--on-active=2s", "--timer-property=AccuracySec=100ms",
          "systemctl", "reboot")
SERVICE_S, MODULE_S, SHORT_S = 90, 60, 15
# A service that was restarted must stay for so long, and may take so long to come.
STAYS_S, COMES_S = 3.0, 20.0


def words(step: str) -> list[tuple[str, ...]]:
    """The argument lists of a step, in their order."""
    if step in SERVICES:
        return [("systemctl", "reset-failed", SERVICES[step]), ("systemctl", "restart", SERVICES[step])]
    if step in MODULES:
        return [("modprobe", "-n", "--", MODULES[step]), ("modprobe", "-b", "--", MODULES[step])]
    if step == "reset-gpu":
        stops = [("systemctl", "stop", unit) for unit in CLIENTS]
        return [*stops, RESET, *(("systemctl", "start", unit) for unit in reversed(CLIENTS))]
    return [REBOOT]


def seconds(step: str) -> float:
    """How long a step may take at most on a node."""
    if step in SERVICES:
        return SERVICE_S + COMES_S + 4 * SHORT_S
    if step in MODULES:
        return MODULE_S + 2 * SHORT_S
    return RESET_S + 2 * len(CLIENTS) * SERVICE_S if step == "reset-gpu" else 2 * SHORT_S
