"""What a simulated node's Docker client says, and files that give GPUs and jobs containers."""

from __future__ import annotations

import json
from hashlib import sha256

from provisioning.demo.machine import DemoMachine

INFO = "/.muster/docker-info.json"
PS = "/.muster/docker-ps.json"
IMAGES = "/.muster/docker-images.json"
CDI = "/etc/cdi/nvidia.yaml"
TOOLKIT = "/etc/nvidia-container-runtime/config.toml"
DAEMON = "/etc/docker/daemon.json"
PROGRAMS = tuple(f"/usr/bin/{name}" for name in ("nvidia-container-runtime", "nvidia-container-runtime-hook"))
PLUGSTACK = "/etc/slurm/plugstack.conf"
TOOLKIT_VERSION = "1.14.6"
EXPORTER = ("nvcr.io/nvidia/k8s/dcgm-exporter", "3.3.5-3.4.1-ubuntu22.04")

# What a client does whose daemon is well, called with the socket first; a fault replaces the whole of it, or
# what it prints.
_DOCKER = """\
[ "$1" = --host ] && shift 2
case "$1" in
info | ps | images) exec cat "$MUSTER_ROOT/.muster/docker-$1.json" ;;
*) echo "docker: '$1' is not a docker command." >&2; exit 1 ;;
esac
"""
_LIBRARIES = "/usr/lib/x86_64-linux-gnu"


def install(machine: DemoMachine, info: dict[str, object], gpus: int, driver: str) -> None:
    """A Docker daemon that says this of itself, its exporter, two images, CDI, pyxis and enroot."""
    machine.tools["docker"] = _DOCKER
    machine.files[INFO] = _line(info)
    machine.files[PS] = container(machine.name, "dcgm-exporter", ":".join(EXPORTER), "running", "Up 5 weeks")
    machine.files[IMAGES] = image("nvcr.io/nvidia/pytorch", "24.03-py3") + image(*EXPORTER)
    machine.files[CDI] = cdi(gpus, driver)
    machine.files[TOOLKIT] = '[nvidia-container-runtime]\nmode = "auto"\n'
    machine.files[DAEMON] = _line({"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}})
    machine.tools["nvidia-ctk"] = f"echo 'NVIDIA Container Toolkit CLI version {TOOLKIT_VERSION}'\n"
    # Of these only that they are there is looked at.
    machine.files |= dict.fromkeys((*PROGRAMS, *needed(gpus, driver)), "")
    machine.files[PLUGSTACK] = "required /usr/local/lib/slurm/spank_pyxis.so\n"
    machine.files["/etc/enroot/enroot.conf"] = "ENROOT_RUNTIME_PATH /run/enroot/user-$(id -u)\n"


def container(node: str, name: str, of: str, state: str, status: str) -> str:
    """One line of `docker ps`, in the format that is asked for."""
    key = sha256(f"{node} {name}".encode()).hexdigest()[:12]
    return _line({"id": key, "container": name, "image": of, "state": state, "status": status})


def image(repository: str, tag: str) -> str:
    """One line of `docker images`: one tag is one image on every node."""
    digest, key = (sha256(f"{repository}:{tag} {what}".encode()).hexdigest() for what in ("digest", "id"))
    return _line({"repository": repository, "tag": tag, "digest": f"sha256:{digest}", "id": f"sha256:{key}"})


def cdi(gpus: int, driver: str) -> str:
    """What `nvidia-ctk cdi generate` writes, but for most of its mounts and its hooks."""
    one = "".join(f'- containerEdits:\n    deviceNodes:\n    - path: /dev/nvidia{n}\n  name: "{n}"\n'
                  for n in range(gpus))
    every = "".join(f"    - path: /dev/nvidia{n}\n" for n in range(gpus))
    paths = [f"{_LIBRARIES}/{name}.so.{driver}" for name in ("libcuda", "libnvidia-ml")]
    mounts = "".join(f"  - containerPath: {path}\n    hostPath: {path}\n" for path in paths)
    nodes = "  - path: /dev/nvidiactl\n  - path: /dev/nvidia-uvm\n"
    return (
        f"---\ncdiVersion: 0.5.0\ncontainerEdits:\n  deviceNodes:\n{nodes}  mounts:\n{mounts}devices:\n{one}"
        f"- containerEdits:\n    deviceNodes:\n{every}  name: all\nkind: nvidia.com/gpu\n"
    )


def needed(gpus: int, driver: str) -> tuple[str, ...]:
    """The device files and libraries that the specification names."""
    files = (*(f"nvidia{n}" for n in range(gpus)), "nvidiactl", "nvidia-uvm")
    libraries = (f"{_LIBRARIES}/{name}.so.{driver}" for name in ("libcuda", "libnvidia-ml"))
    return (*(f"/dev/{name}" for name in files), *libraries)


def _line(value: dict[str, object]) -> str:
    return json.dumps(value, separators=(",", ":")) + "\n"
