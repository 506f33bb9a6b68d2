"""Plants the commonest faults of Docker and of what gives GPUs to containers, as the daemon, its client and
files on the node show them."""

from __future__ import annotations

import json
from typing import Any

from provisioning.demo import containers
from provisioning.demo.h100 import DRIVER, GPUS
from provisioning.demo.machine import DemoMachine
from tests.scenarios import node as scenario
from tests.scenarios.plant import files, plant, planted, without

_OURS = ("/.muster/docker-", "/etc/docker/", "/usr/bin/nvidia-container-", "/dev/nvidia", "/etc/cdi/",
         "/etc/nvidia-container-runtime/", "/etc/slurm/", "/etc/enroot/")


def _mend(node: DemoMachine) -> None:
    """Containers are removed, the daemon and the files are set up as they should be."""
    healthy = scenario.machine(node.name)
    node.files = {path: text for path, text in node.files.items() if not path.startswith(_OURS)}
    node.files |= {path: text for path, text in healthy.files.items() if path.startswith(_OURS)}
    node.mounts = healthy.mounts
    node.tools["docker"] = healthy.tools["docker"]


def _says(node: DemoMachine, **changes: Any) -> None:
    node.files[containers.INFO] = json.dumps({**json.loads(node.files[containers.INFO]), **changes}) + "\n"


def _runs(node: DemoMachine, name: str, state: str, status: str) -> None:
    node.files[containers.PS] += containers.container(node.name, name, "site/tool:7", state, status)


@planted(_mend)
def docker_gone(node: DemoMachine) -> None:
    """The daemon does not run; its client says so to whatever it is asked."""
    said = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
    node.tools["docker"] = f"echo '{said}' >&2\nexit 1\n"


plant("storage-fell-back",
      "After a reinstallation overlay2 could not be used, and Docker fell back to copying layers.", _mend,
      lambda node: _says(node, Driver="vfs", DriverStatus=None))


@planted(_mend)
def no_way_to_gpus(node: DemoMachine) -> None:
    """The container toolkit went with an upgrade, and its configuration of Docker with it."""
    _says(node, Runtimes={"io.containerd.runc.v2": {"path": "runc"}, "runc": {"path": "runc"}})
    for path in (containers.TOOLKIT, containers.CDI, containers.DAEMON, *containers.PROGRAMS):
        del node.files[path]


@planted(_mend)
def toolkit_program_gone(node: DemoMachine) -> None:
    """An upgrade took the toolkit's programs away; Docker still has NVIDIA's runtime by its name."""
    for path in (containers.CDI, *containers.PROGRAMS):
        del node.files[path]


plant("docker-not-started-since", "daemon.json was written anew, and the daemon not started again.", _mend,
      files({containers.DAEMON: json.dumps({"log-driver": "local", "storage-driver": "overlay2"})}))
plant("cdi-names-what-is-gone", "The CDI specification names a GPU's device file that is no more.", _mend,
      without("/dev/nvidia3"))
plant("docker-older-than-the-fleets", "The node was installed from another repository.", _mend,
      lambda node: _says(node, ServerVersion="20.10.24"))
plant("no-room-for-images",
      "The data root lies on a small partition of its own, with room left, but for no image.", _mend,
      lambda node: _says(node, DockerRootDir="/run/lock/docker"))
plant("container-loops", "An exporter ends as soon as it is started, and is started again.", _mend,
      lambda node: _runs(node, "node-exporter", "restarting", "Restarting (1) 41 seconds ago"))
plant("container-ends-after-a-while",
      "An exporter ends half a minute after each start: at no look is it seen to wait.", _mend,
      _mend,
      lambda node: _runs(node, "node-exporter", "running", "Up 7 seconds"),
      before=lambda node: _runs(node, "node-exporter", "running", "Up 11 seconds"))
plant("container-dead", "A container could not be removed, for its mounts are held.", _mend,
      lambda node: _runs(node, "job-4711", "dead", "Dead"))
plant("container-ill", "A container's own health check fails.", _mend,
      lambda node: _runs(node, "cache", "running", "Up 3 hours (unhealthy)"))


@planted(_mend)
def cdi_from_before_the_upgrade(node: DemoMachine) -> None:
    """The driver was upgraded, and the CDI specification not written again; it was written when a GPU was
    missing, too."""
    node.files[containers.CDI] = containers.cdi(len(GPUS) - 1, "525.147.05")
    assert DRIVER != "525.147.05"


plant("pyxis-forgotten", "A new plugstack.conf does not name pyxis.", _mend,
      files({containers.PLUGSTACK: "# plug-ins of this cluster\noptional /usr/lib64/slurm/spank_auks.so\n"}))
