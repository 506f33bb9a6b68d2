"""Checks of what runs on each GPU: memory without a process, processes that no longer exist, and, where
required, idleness."""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import check
from healthcheck.facts.gpu_process import GpuLoad
from healthcheck.model.outcome import Finding


@check("gpu.memory_leaked")
def gpu_memory_leaked(gpu_load: GpuLoad, *, allow_mib: int) -> Iterator[Finding]:
    """No GPU without a process has more memory in use than allowed: what a dead process left behind, the next
    one lacks."""
    if not gpu_load.processes and gpu_load.memory_used_bytes > allow_mib * 2**20:
        yield Finding(f"{gpu_load.memory_used_bytes / 2**20:.0f} MiB in use without a process",
                      f"at most {allow_mib} MiB")


_GONE = "The driver still lists it: drain the node and reset the GPU, or reboot."
_ZOMBIE = ("End its parent (in a container often the shim), so that init reaps it; if that does not help, "
           "drain the node and reboot.")


@check("gpu.processes_gone")
def gpu_processes_gone(gpu_load: GpuLoad) -> Iterator[Finding]:
    """Every process that the driver lists on a GPU exists, and has not ended."""
    for process in gpu_load.gone:
        yield Finding(f"process {process} is listed and does not exist", "processes that exist", remedy=_GONE)
    for process in gpu_load.zombies:
        yield Finding(f"process {process} has ended and was not waited for", "processes that run",
                      remedy=_ZOMBIE)


@check("gpu.idle")
def gpu_idle(gpu_load: GpuLoad) -> Iterator[Finding]:
    """No process runs on any GPU."""
    if gpu_load.processes:
        named = [f"{process} ({command})" if command else str(process)
                 for process, command in zip(gpu_load.processes, gpu_load.commands, strict=True)]
        yield Finding(f"{len(named)} running: {', '.join(named[:5])}", "no process")
