"""Who may start steps without a job, and which nodes Slurm knows to be out of its reach."""

from __future__ import annotations

import getpass
import os
import shutil
from collections.abc import Callable, Mapping

from inventory.discover import Run, output
from inventory.errors import UsageError

# Without its answer the sweep goes on, so it gets less than the 30 s that others have.
_NODES = ("timeout", "10", "sinfo", "--all", "--noheader", "--Node", "--format=%N|%T")
_CONFIG = ("scontrol", "show", "config")
# sinfo(1): suffixes of a node's state that mean that no slurmd can be there.
_OFF = {"*": "does not respond", "~": "is powered off", "#": "is being powered up",
        "%": "is being powered down", "!": "is to be powered down"}


def require_srun(run: Run | None) -> None:
    """Raises UsageError, with what to type, unless srun is here and this user may use it so."""
    if shutil.which("srun") is None:
        raise UsageError("--via slurm: srun was not found; run this where Slurm's commands are")
    if os.geteuid() == 0:
        return
    try:
        me = getpass.getuser()
    except (KeyError, OSError):
        me = f"uid {os.geteuid()}"
    try:
        owner = slurm_user(run)
    except UsageError as error:
        raise UsageError(f"--via slurm: only root and SlurmUser may run srun --no-allocate, and you are {me} "
                         f"({error}); type: sudo muster check --via slurm ...") from None
    if owner != me:
        raise UsageError(
            f"--via slurm: only root and SlurmUser ({owner}) may run srun --no-allocate, and you are {me}; "
            f"type: sudo -u {owner} muster check --via slurm ..., or: sudo muster check --via slurm ...")


def slurm_user(run: Run | None) -> str:
    """The name of SlurmUser. Raises UsageError when slurmctld does not answer."""
    for line in output(_CONFIG, run).decode("utf-8", "backslashreplace").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "SlurmUser":
            return value.strip().partition("(")[0]
    raise UsageError("scontrol show config names no SlurmUser")


def nodes_of_slurm(run: Run | None) -> Mapping[str, str] | None:
    """The state of each node, as sinfo has it; None when slurmctld does not answer: srun can do without."""
    try:
        lines = output(_NODES, run).decode("utf-8", "backslashreplace").splitlines()
    except UsageError:
        return None
    return {name: state for name, bar, state in (line.strip().partition("|") for line in lines) if bar}


def elsewhere(states: Mapping[str, str] | None) -> Callable[[str], str]:
    """A function: why srun cannot reach this node by what Slurm knows; empty where it may."""
    def why(name: str) -> str:
        if states is None:
            return ""
        if name not in states:
            return "Slurm does not know it"
        return f"Slurm says it {_OFF[states[name][-1:]]}" if states[name][-1:] in _OFF else ""

    return why
