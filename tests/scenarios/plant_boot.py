"""Plants reboots that nobody meant, as a node that came back by itself shows them: another boot_id, a short uptime, a log from its start."""

from __future__ import annotations

from provisioning.demo.machine import DemoMachine
from tests.scenarios.plant import plant
from tests.scenarios.repair import reboot


def _look_after_it(node: DemoMachine) -> None:
    """Somebody has read the old log; the node itself is as it was."""


plant("rebooted-by-itself", "A watchdog, or a lost supply: the node is up again, and nothing in it is wrong.", _look_after_it,
      reboot)
