"""Docker checks: the daemon, its settings, and its images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from healthcheck.checks.base import GIB, NotMeasured, check, fleet_check
from healthcheck.checks.fleet import Comparison, Split, odd_ones, outliers, read_all
from healthcheck.facts.container import TOOLKIT_CONFIG, Cdi
from healthcheck.facts.container_config import DAEMON, HOOKS, DockerConfig, Toolkit
from healthcheck.facts.docker import Docker, DockerSilence, Images
from healthcheck.facts.filesystem import Filesystem
from healthcheck.facts.pci import PciBus
from healthcheck.model.outcome import Finding, Note

_REGISTRIES = ("docker.io/library/", "docker.io/", "index.docker.io/library/", "index.docker.io/")


@check("docker.answers", answers=True)
def docker_answers(docker: Docker, *, required: bool) -> Iterator[Finding]:
    """The Docker daemon answers its client, where the SKU runs containers."""
    if required and not docker.answers:
        yield Finding(docker.trouble, "an answer from the daemon")


@check("docker.hangs", answers=True)
def docker_hangs(docker_silence: DockerSilence) -> Iterator[Finding]:
    """The Docker daemon, where there is one, answers in time."""
    if docker_silence.commands:
        yield Finding(f"no answer in time to {' and '.join(docker_silence.commands)}",
                      "an answer from the daemon")


@check("docker.storage_driver")
def docker_storage_driver(docker: Docker, *, allowed: tuple[str, ...]) -> Iterator[Finding]:
    """The storage driver is one that the rule allows; vfs copies every layer, and others are withdrawn."""
    if docker.storage_driver not in allowed:
        yield Finding(docker.storage_driver, " or ".join(allowed), "storage driver")


@check("docker.cgroup_driver")
def docker_cgroup_driver(docker: Docker, *, on_version_2: str) -> Iterator[Finding]:
    """On a host with cgroup v2, Docker uses the manager that the rule names, so that only one manages the
    tree."""
    if docker.cgroup_version == "2" and docker.cgroup_driver != on_version_2:
        yield Finding(docker.cgroup_driver, f"{on_version_2}, on a host with cgroup v2", "cgroup driver")


@check("docker.gpu_runtime")
def docker_gpu_runtime(docker: Docker, pci_bus: PciBus, cdi: Cdi, toolkit: Toolkit) -> Iterator[Finding]:
    """A node with GPUs can give them to a container: by NVIDIA's runtime, its toolkit's hook (`--gpus`), or a
    CDI specification that the daemon reads. A runtime or a file without its program is no way."""
    if not pci_bus.gpus:
        return
    known = f"runtimes {', '.join(docker.runtimes)}"
    if any(hook in toolkit.programs for hook in HOOKS) or (docker.cdi and cdi.found):
        return
    if "nvidia" in docker.runtimes:
        program = dict(docker.programs).get("nvidia", "nvidia-container-runtime")
        by_name = program == "nvidia-container-runtime"
        if program in toolkit.missing or (by_name and program not in toolkit.programs):
            yield Finding(f"no way: {known}, but {program} is not on the node, no hook, no CDI",
                          "NVIDIA's runtime, its toolkit or CDI", "GPUs in containers")
        return
    left = f"only {TOOLKIT_CONFIG} is left of the toolkit" if toolkit.configured else "no toolkit"
    yield Finding(f"no way: {known}, {left}, no CDI", "NVIDIA's runtime, its toolkit or CDI",
                  "GPUs in containers")


@check("docker.config")
def docker_config(docker_config: DockerConfig, docker: Docker) -> Iterator[Finding]:
    """The daemon runs as daemon.json says, and could read it if it were started again."""
    if docker_config.trouble:
        yield Finding(f"{DAEMON} cannot be read: {docker_config.trouble}",
                      "JSON: the daemon will not start again")
        return
    for key, wanted in docker_config.settings:
        current = _current(docker, key, wanted)
        if current != wanted:
            yield Finding(current, f"{wanted}, as {DAEMON} says: it was not started since", key)


def _current(docker: Docker, key: str, wanted: str) -> str:
    """What the daemon reports in place of this setting, in the same words."""
    if key == "runtime":
        return wanted if wanted in docker.runtimes else f"no {wanted} among {', '.join(docker.runtimes)}"
    if key == "storage-driver":
        # With containerd's image store the daemon names the snapshotter.
        driver = docker.storage_driver
        return wanted if {driver, wanted} == {"overlay2", "overlayfs"} else driver
    if key == "data-root":
        # With userns-remap a folder below it.
        return wanted if f"{docker.root}/".startswith(f"{wanted.rstrip('/')}/") else docker.root
    if key == "live-restore":
        return str(docker.live_restore).lower()
    return {"cgroup driver": lambda: docker.cgroup_driver, "default-runtime": lambda: docker.default_runtime,
            "log-driver": lambda: docker.log_driver}[key]()


@check("docker.warnings")
def docker_warnings(docker: Docker, *, ignore: tuple[str, ...]) -> Iterator[Finding]:
    """The daemon warns of nothing, except what the rule ignores (patterns with * and ?)."""
    for words in docker.warnings:
        if not any(fnmatchcase(words.lower(), pattern.lower()) for pattern in ignore):
            yield Finding(words, "no warning")


@check("docker.disk")
def docker_disk(docker: Docker, filesystems: tuple[Filesystem, ...], *,
                at_least_gib: float) -> Iterator[Finding | Note]:
    """The file system of Docker's data root has room for one more image. Where containerd holds the images,
    its own root does, too: its usual place is looked at, as the root itself is not read, and a pass says so.
    """
    root = docker.root.rstrip("/") or "/"
    where, free = _room(root, filesystems)
    if free < at_least_gib:
        yield Finding(f"{free:.1f} GiB left", f"at least {at_least_gib:g} GiB", where)
    elif docker.storage_driver == "overlayfs":      # the snapshotter's name, of the containerd image store
        where, free = _room("/var/lib/containerd", filesystems)
        if free < at_least_gib:
            raise NotMeasured(None, f"containerd holds the images: {where} has {free:.1f} GiB left, and "
                              "whether its root is elsewhere (config.toml) is not known")
        yield Note(f"containerd holds the images: looked at {where}; that its root is there is not known")


def _room(root: str, filesystems: tuple[Filesystem, ...]) -> tuple[str, float]:
    """A folder with the mount that holds it, in words, and the GiB that are left there."""
    holding = [f for f in filesystems if f.name == "/" or f"{root}/".startswith(f"{f.name}/")]
    if not holding:
        raise NotMeasured(None, f"no mounted file system holds {root}")
    filesystem = max(holding, key=lambda f: len(f.name))
    return f"{root} on {filesystem.name}", filesystem.available_bytes / GIB


@check("docker.live_restore")
def docker_live_restore(docker: Docker) -> Iterator[Finding]:
    """Containers keep running while the daemon restarts."""
    if not docker.live_restore:
        yield Finding("off: a restart of the daemon ends every container", "on", "live-restore")


def wanted(named: str) -> tuple[str, str]:
    """An image as `docker images` names it, "repository:tag" (latest where no tag is given), and the required
    digest, or ""."""
    name, _, digest = named.partition("@")
    for registry in _REGISTRIES:
        name = name.removeprefix(registry)
    return name if ":" in name.rpartition("/")[2] or digest else f"{name}:latest", digest


@check("docker.images", counts=True)
def docker_images(docker_images: Images, *, images: tuple[str, ...]) -> Iterator[Finding]:
    """Every image that the rule names is on the node: `repository:tag`, with `@sha256:...` to require a
    digest.

    An image that was built or loaded on the node has no digest of a registry; name its id instead.
    """
    if not images:
        raise NotMeasured(None, "no image is named: set `with: {images: [...]}` of docker-images in the "
                          "site's rules")
    for named in images:
        name, digest = wanted(named)
        held = [image for image in docker_images.listed
                if name in (image.name, image.name.rpartition(":")[0])]
        if not held:
            yield Finding("not on the node", "pulled", name)
        elif digest and not any(digest in (image.digest, image.id) for image in held):
            yield Finding(held[0].digest or f"no digest, id {held[0].id}", digest, name)


@fleet_check("fleet.docker_version")
def fleet_docker_version(docker: Mapping[str, Docker]) -> Comparison:
    """Every node runs the version of the Docker daemon that the majority of its cohort runs."""
    yield from outliers(docker, lambda fact: fact.version, "Docker version")


@fleet_check("fleet.docker_parts")
def fleet_docker_parts(docker: Mapping[str, Docker]) -> Comparison:
    """Every node's Docker daemon works with the builds of containerd and runc that the majority of its cohort
    has."""
    yield from outliers(docker, lambda fact: f"containerd {fact.containerd[:12]}, runc {fact.runc[:24]}",
                        "Docker's parts")


@fleet_check("fleet.docker_image")
def fleet_docker_image(
    docker_images: Mapping[str, Images], *, images: tuple[str, ...], at_least: int,
) -> Comparison:
    """A tag that the rule's patterns choose is the same image everywhere: it has the digest that most nodes
    with it have.

    A tag on fewer than `at_least` nodes is not compared. Digests are compared where every such node has one,
    ids otherwise.
    """
    holders: dict[str, list[tuple[str, str, str]]] = {}
    for node, listed in read_all(docker_images, lambda fact: fact.listed).items():
        for image in listed:
            if any(fnmatchcase(image.name, pattern) for pattern in images):
                holders.setdefault(image.name, []).append((node, image.digest, image.id))
    for name, held in sorted(holders.items()):
        if len({node for node, _, _ in held}) < at_least:
            continue
        digests = all(digest for _, digest, _ in held)
        given = [(node, name, digest if digests else key) for node, digest, key in held]
        yield from odd_ones(given, f"digest of {name}", "nodes", Split.ALONE)
