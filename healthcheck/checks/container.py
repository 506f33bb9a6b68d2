"""Container checks: Docker's containers, how GPUs get into containers, and the runtimes beside Docker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from healthcheck.checks.base import NotJudged, check, fleet_check, listed
from healthcheck.checks.fleet import Comparison, outliers
from healthcheck.checks.growth import Growth
from healthcheck.facts.container import TOOLKIT_CONFIG, Cdi, ContainerGpus, Containers, Pyxis
from healthcheck.facts.container_config import CdiSpec, ContainerRuntime, Toolkit, ToolkitVersion
from healthcheck.facts.container_run import ContainerRun
from healthcheck.facts.containerd import Containerd, CriReady, TaskNamespace
from healthcheck.facts.gpu import Gpu, GpuPresence
from healthcheck.facts.host import Versions
from healthcheck.facts.pci import PciBus
from healthcheck.model.outcome import Finding, Owner


@check("container.dead")
def container_dead(containers: Containers) -> Iterator[Finding]:
    """No container is dead or stuck in removal, mostly because something still uses its mounts."""
    for container in containers.listed:
        if container.state in ("dead", "removing"):
            yield Finding(f"{container.state} ({container.image})", "removed", container.name)


@check("container.restarting")
def container_restarting(containers: Containers) -> Iterator[Finding]:
    """No container waits to be restarted: one that ends by itself is restarted without end by its policy."""
    for container in containers.listed:
        if container.state == "restarting":
            observed = f"restarting ({container.image}), ended with exit status {container.exit}"
            yield Finding(observed, "running", container.name)


@check("container.restarts_again")
def container_restarts_again(
    containers: Containers, growth: Growth[Containers], *, young_s: int,
) -> Iterator[Finding]:
    """No container was just started in two snapshots: it would end soon after each start."""
    running = [container for container in containers.listed if container.state == "running"]
    before = {container.id: container for container in growth.before.listed if container.state == "running"}
    for container in running:
        earlier = before.get(container.id)
        if earlier is not None and container.up_s < young_s and earlier.up_s < young_s:
            young = f"up for {container.up_s} s, and for {earlier.up_s} s in the earlier snapshot"
            yield Finding(f"{young} ({container.image})", "up since the earlier snapshot", container.name)


@check("container.unhealthy")
def container_unhealthy(containers: Containers) -> Iterator[Finding]:
    """No running container fails its own health check."""
    for container in containers.listed:
        if container.health == "unhealthy":
            yield Finding(f"unhealthy ({container.image})", "healthy", container.name)


@check("container.stopped")
def container_stopped(containers: Containers, *, at_most: int) -> Iterator[Finding]:
    """Ended containers do not pile up: each keeps its layer and its log, and they slow `docker ps -a`."""
    ended = [container for container in containers.listed if container.state in ("exited", "created")]
    if len(ended) > at_most:
        failed = [container for container in ended if container.state == "exited" and container.exit != 0]
        yield Finding(f"{len(ended)} have ended, {len(failed)} of them not with 0", f"at most {at_most}")


@check("container.left_over")
def container_left_over(containers: Containers, *, known: tuple[str, ...]) -> Iterator[Finding]:
    """No container runs on a node that should be idle, except those that the rule names by name or image
    (patterns with * and ?)."""
    for container in containers.listed:
        if container.state not in ("running", "paused"):
            continue
        if not any(fnmatchcase(container.name, p) or fnmatchcase(container.image, p) for p in known):
            observed = f"{container.state} ({container.image})"
            yield Finding(observed, "no container but the site's own", container.name, owner=Owner.USER)


@check("container.gpus")
def container_gpus(container_gpus: ContainerGpus, gpu_presence: GpuPresence) -> Iterator[Finding]:
    """NVIDIA's container library finds every GPU that the driver lists."""
    seen = len(set(container_gpus.uuids))
    if seen != gpu_presence.listed:
        yield Finding(f"{seen} GPUs for nvidia-container-cli", f"{gpu_presence.listed}, as the driver lists")


@check("container.all_gpus")
def container_all_gpus(container_run: ContainerRun, gpu_presence: GpuPresence) -> Iterator[Finding]:
    """A container that is given all GPUs sees every GPU that the driver lists, and may open their device
    files.

    It runs the image that root on the node has tagged `muster/gpu-check`; any with a shell works:
    `docker tag nvcr.io/nvidia/cuda:12.4.1-base-ubuntu22.04 muster/gpu-check`. Without such a tag nothing
    runs, and nothing is pulled.
    """
    seen = len(set(container_run.uuids))
    if seen != gpu_presence.listed:
        trouble = f": {container_run.trouble}" if container_run.trouble else ""
        yield Finding(f"{seen} GPUs in a container ({container_run.how}){trouble}",
                      f"{gpu_presence.listed}, as the driver lists")
        return
    for path in sorted(set(container_run.node_opened) - set(container_run.opened)):
        if path.startswith("/dev/nvidia"):
            yield Finding(f"cannot be opened in a container ({container_run.how})", "opened, as on the node",
                          path)


@check("container.all_rdma")
def container_all_rdma(container_run: ContainerRun) -> Iterator[Finding]:
    """A container that is given the node's RDMA devices has each of them, and may open its device file."""
    files = [path for path in container_run.node_opened if path.startswith("/dev/infiniband/")]
    if not container_run.node_adapters and files in ([], ["/dev/infiniband/rdma_cm"]):
        raise NotJudged("there are no RDMA devices on the node")
    for name in sorted(set(container_run.node_adapters) - set(container_run.adapters)):
        yield Finding(f"not in a container ({container_run.how})", "in it, as on the node", name)
    for path in sorted(set(files) - set(container_run.opened)):
        yield Finding(f"cannot be opened in a container ({container_run.how})", "opened, as on the node",
                      path)


@check("cdi.gpus")
def cdi_gpus(cdi: Cdi, pci_bus: PciBus) -> Iterator[Finding]:
    """The CDI specification names every GPU of the node: containers do not get the others."""
    if cdi.gpus < len(pci_bus.gpus):
        yield Finding(f"{cdi.gpus} GPUs in {cdi.file}", f"{len(pci_bus.gpus)}, as on the PCI bus")


@check("cdi.driver")
def cdi_driver(cdi: Cdi, versions: Versions) -> Iterator[Finding]:
    """The CDI specification mounts the libraries of the loaded driver: one from before an upgrade names files
    that are gone."""
    if cdi.driver != versions.driver:
        expected = f"{versions.driver}, the driver that is loaded"
        yield Finding(f"libraries of {cdi.driver} in {cdi.file}", expected)


@check("cdi.paths")
def cdi_paths(cdi_spec: CdiSpec, versions: Versions) -> Iterator[Finding]:
    """Whatever a CDI specification gives to containers is on the node: they do not start without it.

    Libraries of another driver than the loaded one are left to `cdi.driver`.
    """
    gone, version = cdi_spec.gone, cdi_spec.libraries
    old = [path for path in gone if version and path.endswith(f".so.{version}")]
    if old and version != versions.driver:
        gone = tuple(path for path in gone if path not in old)
    if gone:
        yield Finding(f"not on the node: {listed(gone)}", "there, as the specification names them")


@check("cdi.devices")
def cdi_devices(cdi_specs: tuple[CdiSpec, ...], gpus: tuple[Gpu, ...]) -> Iterator[Finding]:
    """Each device of the CDI specifications is defined once in a folder, and each that is named by a GPU's
    UUID is a GPU of the node."""
    held: dict[tuple[str, str], list[str]] = {}
    for spec in cdi_specs:
        for device in spec.devices:
            held.setdefault((spec.name.rpartition("/")[0], f"{spec.kind}={device}"), []).append(spec.name)
    twice = {device: files for (_, device), files in sorted(held.items()) if len(files) > 1}
    if twice:
        files = sorted({file for named in twice.values() for file in named})
        yield Finding(f"defined in {' and in '.join(files)}: no container gets it", "in one file of a folder",
                      listed(sorted(twice)))
    named = {device: spec.name for spec in cdi_specs if spec.kind.endswith("nvidia.com/gpu")
             for device in spec.devices if device.startswith("GPU-")}
    ours = {gpu.uuid for gpu in gpus} if named else set()
    for uuid in sorted(named.keys() - ours):
        yield Finding(f"named in {named[uuid]}, and no GPU of the node", "a GPU of the node", uuid)


@check("container.runtime_there")
def container_runtime_there(container_runtime: ContainerRuntime) -> Iterator[Finding]:
    """Each runtime that a configuration names has its program."""
    if not container_runtime.there:
        yield Finding(f"{container_runtime.program} is not on the node",
                      "there, as the configuration names it")


@check("container.toolkit")
def container_toolkit(toolkit: Toolkit) -> Iterator[Finding]:
    """Where NVIDIA's container toolkit is configured, it is installed: its configuration outlives it."""
    if not toolkit.configured:
        raise NotJudged("there are no files of NVIDIA's container toolkit")
    if not toolkit.programs:
        yield Finding(f"{TOOLKIT_CONFIG} is left over: none of the toolkit's programs is on the node",
                      "the toolkit, or no configuration of it")


@check("containerd.answers", answers=True)
def containerd_answers(containerd: Containerd) -> Iterator[Finding]:
    """The containerd daemon answers its client, where a kubelet or nerdctl uses it."""
    if not containerd.used:
        raise NotJudged("neither a kubelet nor nerdctl uses containerd here")
    if not containerd.answers:
        yield Finding(containerd.trouble, "an answer from the daemon")


@check("containerd.ready")
def containerd_ready(cri_ready: CriReady, containerd: Containerd) -> Iterator[Finding]:
    """The runtime reports itself and its network ready to the kubelet that uses it, in time. A containerd
    that does not answer at all is left to `containerd.answers`."""
    if not cri_ready.used:
        raise NotJudged("no kubelet uses containerd here")
    if not cri_ready.answers and containerd.answers:
        yield Finding("no answer to crictl info in time, though containerd answers ctr", "an answer")
        return
    words = "; ".join(cri_ready.words) or "no reason given"
    if not (cri_ready.runtime and cri_ready.network):
        yield Finding(f"not ready: {words}", "RuntimeReady and NetworkReady")


@check("container.shim_hangs")
def container_shim_hangs(task_namespace: TaskNamespace) -> Iterator[Finding]:
    """The shim of each container answers containerd: one that does not can be neither stopped nor entered."""
    for name in task_namespace.silent:
        yield Finding("its shim does not answer containerd", "an answer",
                      f"{name[:24]} of {task_namespace.name.rpartition(' ')[2]}")


@check("pyxis.configured")
def pyxis_configured(pyxis: Pyxis) -> Iterator[Finding]:
    """Slurm's plug-in stack names pyxis where enroot is set up, and enroot is set up where it names pyxis."""
    if not pyxis.configured:
        yield Finding("plugstack.conf does not name spank_pyxis.so", "named, since enroot is set up")
    elif not pyxis.enroot:
        yield Finding("no /etc/enroot/enroot.conf", "set up, since plugstack.conf names pyxis", "enroot")


@fleet_check("fleet.containerd_version")
def fleet_containerd_version(containerd: Mapping[str, Containerd]) -> Comparison:
    """Every node on which a kubelet or nerdctl uses containerd runs the version that the majority of its
    cohort runs."""
    yield from outliers(containerd, lambda fact: fact.version, "containerd version")


@fleet_check("fleet.container_toolkit")
def fleet_container_toolkit(toolkit_version: Mapping[str, ToolkitVersion]) -> Comparison:
    """Every node has the version of NVIDIA's container toolkit that the majority of its cohort has."""
    yield from outliers(toolkit_version, lambda fact: fact.version, "container toolkit version")
