"""What the policy may say of remediation: it names steps, of a fixed list, for kinds of fault;
what a step does is not for it to say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType


class RemediationStep(Enum):
    """The steps that there are (`provisioning.remediate.steps` says what each does),
    in the order in which they are considered."""

    RESTART_FABRIC_MANAGER = "restart-fabric-manager"
    RESTART_PERSISTENCED = "restart-persistenced"
    RESTART_DOCKER = "restart-docker"
    RESTART_CONTAINERD = "restart-containerd"
    LOAD_NVIDIA = "load-nvidia"
    LOAD_NVIDIA_UVM = "load-nvidia-uvm"
    LOAD_NVIDIA_PEERMEM = "load-nvidia-peermem"
    LOAD_MLX5_IB = "load-mlx5-ib"
    RESET_GPU = "reset-gpu"
    REBOOT = "reboot"


# These are of no one service or module, so that the repair that is asked for names the step.
WHOLE_NODE = frozenset({RemediationStep.RESET_GPU, RemediationStep.REBOOT})


@dataclass(frozen=True)
class Use:
    """For which faults, by their ids (None: any), and which of their rules, by globs, a step is.

    Without rules it is for whatever asks for its repair, and for nothing else. One that is not `enabled` a
    person must name.
    """

    faults: tuple[str, ...] | None = None
    rules: tuple[str, ...] | None = None
    enabled: bool = False


@dataclass(frozen=True)
class Remediation:
    """A step is taken `attempts` times on a node within `days`, at `at_once` nodes at a time;
    then a person inspects it.

    Its check may take `settle_seconds` to pass, and a node that restarts `back_minutes` to answer.
    """

    attempts: int = 2
    days: float = 7.0
    at_once: int = 4
    settle_seconds: float = 60.0
    back_minutes: float = 20.0
    uses: Mapping[RemediationStep, Use] = field(default_factory=lambda: MappingProxyType({}))
