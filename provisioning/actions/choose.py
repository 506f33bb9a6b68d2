"""Chooses the back end that keeps jobs away: from the command line, else from the inventory, else Slurm."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from inventory.errors import UsageError
from inventory.model import Inventory, IsolationBackend
from provisioning.actions.base import Backend
from provisioning.actions.command import CommandBackend, ListingCommand
from provisioning.actions.golden import GoldenSet
from provisioning.actions.hostfile import HostFile
from provisioning.actions.kubeapi import Api
from provisioning.actions.kubernetes import Kubernetes
from provisioning.actions.slurm import SlurmBackend


@dataclass(frozen=True)
class Options:
    """What the command line names: a file of one of two kinds."""

    hostfile: str | None = None
    golden: str | None = None


def _silent(line: str) -> None:
    """For commands that report no progress."""


def backend(
    inventory: Inventory | None, options: Options = Options(), report: Callable[[str], None] = _silent,
) -> Backend:
    """The one back end of a command; `report` gets progress lines. Raises UsageError for none or several."""
    if options.hostfile is not None and options.golden is not None:
        raise UsageError("--hostfile and --golden exclude each other: give one")
    if options.hostfile is not None:
        return HostFile(Path(options.hostfile))
    if options.golden is not None:
        return GoldenSet(Path(options.golden))
    chosen = inventory.cordon if inventory is not None else None
    if chosen is not None and chosen.by is IsolationBackend.COMMAND:
        return (ListingCommand(chosen.argv, chosen.seconds, chosen.lists) if chosen.lists
                else CommandBackend(chosen.argv, chosen.seconds))
    if chosen is not None and chosen.kubernetes is not None:
        there = chosen.kubernetes
        return Kubernetes(there, Api(there.config, there.context, chosen.seconds), report)
    if chosen is not None and chosen.path is not None:
        return HostFile(
            Path(chosen.path)) if chosen.by is IsolationBackend.HOSTFILE else GoldenSet(Path(chosen.path))
    if shutil.which("scontrol") is None:
        raise UsageError(
            "scontrol was not found: run this where Slurm's commands are, set `cordon:` in the inventory "
            "(see: muster inventory --help), or give --hostfile FILE or --golden FILE")
    return SlurmBackend()
