"""What muster must say of each fault of Docker, containers and what gives them GPUs, by its name alone."""

from __future__ import annotations

from collections.abc import Mapping

from tests.scenarios.expect import Expected, only, together

EXPECTED: Mapping[str, Expected] = {
    "docker-gone": only("docker-answers", "docker", "Cannot connect|an answer", "systemctl status docker"),
    "storage-fell-back": only("docker-storage-driver", "storage driver", "vfs|overlay2",
                              "daemon.json|when no job runs", "warning"),
    "no-way-to-gpus": only("docker-gpu-runtime", "GPUs in containers", "runc|no toolkit|no CDI",
                           "nvidia-ctk runtime configure"),
    "toolkit-program-gone": together(
        only("docker-gpu-runtime", "GPUs in containers", "nvidia-container-runtime is not on the node",
             "nvidia-ctk runtime configure"),
        only("container-runtime-there", "nvidia of /etc/docker/daemon.json",
             "nvidia-container-runtime is not on the node", "Install the package",
             "warning")),
    "docker-not-started-since": only("docker-config", "log-driver", "json-file|local|/etc/docker/daemon.json",
                                     "restart Docker", "warning"),
    "cdi-names-what-is-gone": only("cdi-paths", "/etc/cdi/nvidia.yaml", "/dev/nvidia3",
                                   "nvidia-ctk cdi generate", "warning"),
    "docker-older-than-the-fleets": only("fleet-docker-version", "Docker version", "20.10.24|24.0.7|7 of 8",
                                         "fleet's version", "warning"),
    "no-room-for-images": only("docker-disk", "/run/lock/docker on /run/lock", "0.0 GiB left|at least 30 GiB",
                               "docker system df", "warning"),
    "container-loops": only("container-restarting", "node-exporter", "restarting|exit status 1",
                            "docker logs", "warning"),
    "container-ends-after-a-while": only(
        "container-restarts-again", "node-exporter", "up for 7 s|11 s in the earlier snapshot",
        "RestartCount", "warning"),
    "container-dead": only("container-dead", "job-4711", "dead|removed", "docker rm -f", "warning"),
    "container-ill": only("container-unhealthy", "cache", "unhealthy", "docker inspect", "warning"),
    "cdi-from-before-the-upgrade": together(
        only("cdi-driver", "CDI", "525.147.05|535.161.08", "nvidia-ctk cdi generate", "warning"),
        only("cdi-gpus", "CDI", "7 GPUs|8", "nvidia-ctk cdi generate", "warning")),
    "pyxis-forgotten": only("pyxis-configured", "pyxis", "spank_pyxis.so", "plugstack.conf", "warning"),
}
