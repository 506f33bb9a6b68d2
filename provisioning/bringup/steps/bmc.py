"""Step bmc: the controller answers at its address, with the known certificate; no login."""

from __future__ import annotations

from inventory.text import clean
from provisioning.bmc.base import Controller
from provisioning.bringup.engine.model import Machine, Observation, StepState
from provisioning.bringup.steps.bmcstep import OfBmc


class BmcReachable(OfBmc):
    """Looks; there is nothing that could be made."""

    logs_in = False

    def _observe(self, machine: Machine, controller: Controller) -> Observation:
        return Observation(StepState.SO, clean(controller.reachable(), 200))
