"""The steps: to which rung of repair each belongs, what must hold before it, what it runs and for how long at
most.

What runs is a table in code (`onnode.table`): whoever may edit a policy can name a step, and nothing else. It
needs root on the node, for which the root-owned helper is no way: that one reads, and takes ids of probes
only. So a step goes as the login root, or by `become`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from healthcheck.model.outcome import Repair
from healthcheck.triage.remediation import RemediationStep
from inventory.model import Node, Privilege
from provisioning.remediate.onnode import table


class IdleProof(Enum):
    """What must show, beside the lease, that nothing computes on the node."""

    JOBS = "jobs"           # that its scheduler knows of no job
    GPUS = "gpus"           # and that no process is on a GPU, by NVML
    # that, or where NVML cannot say it (a dead driver is why one restarts), a scheduler that knows of no job
    EITHER = "either"


@dataclass(frozen=True)
class Spec:
    """One step. `about` is the unit or module, as a rule's finding names it; empty for none."""

    step: RemediationStep
    rung: Repair
    proof: IdleProof
    about: str = ""

    @property
    def runs(self) -> tuple[str, ...]:
        """The commands, as a person would type them."""
        return tuple(" ".join(argv) for argv in table.words(self.step.value))

    @property
    def seconds(self) -> float:
        """At most, on a node."""
        return float(table.seconds(self.step.value))


def _spec(step: RemediationStep) -> Spec:
    name = step.value
    if name in table.SERVICES:
        return Spec(
            step, Repair.RESTART_SERVICE, IdleProof.GPUS, table.SERVICES[name].removesuffix(".service"))
    if name in table.MODULES:
        return Spec(step, Repair.RESTART_SERVICE, IdleProof.JOBS, table.MODULES[name])
    if step is RemediationStep.RESET_GPU:
        return Spec(step, Repair.RESET_GPU, IdleProof.GPUS)
    return Spec(step, Repair.REBOOT, IdleProof.EITHER)


SPECS = {step: _spec(step) for step in RemediationStep}


def rootless(node: Node) -> str:
    """Why a step cannot be taken there, as far as the inventory says so."""
    if node.privilege is Privilege.BECOME or node.user in (None, "root"):
        return ""
    return (f"a step needs root there, and {node.user} is not: --become, or `privilege: become` in the "
            "inventory")
