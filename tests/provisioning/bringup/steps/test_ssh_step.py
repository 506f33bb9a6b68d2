"""Step ssh without a machine: what each way in which it was not reached means for it."""

from __future__ import annotations

import pytest

from inventory.transport.base import HANGS, Failure, Stage
from provisioning.bringup.engine.model import StepState
from provisioning.bringup.steps.ssh import _unreached
from tests.provisioning.bringup.controllers import machine


@pytest.mark.parametrize("stage", HANGS)
def test_a_machine_that_was_too_slow_is_asked_again_and_nothing_is_called_missing(stage: Stage) -> None:
    found = _unreached(machine(), Failure(stage, "python3 has not started after 15 s", stuck=stage))
    assert found.stand is StepState.WAIT
    (late,) = found.troubles
    assert "load" in late.hand
    assert "install" not in late.hand
    assert "authorized_keys" not in late.hand


def test_a_machine_without_python_is_trouble_at_once() -> None:
    found = _unreached(machine(), Failure(Stage.PYTHON, "there is no python3 on the node"))
    assert found.stand is StepState.TROUBLE
    assert "install python3" in found.troubles[0].hand
