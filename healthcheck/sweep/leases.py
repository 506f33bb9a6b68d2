"""What a sweep of disruptive rules asks for: leases of its nodes."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from healthcheck.model.lease import Granted
from healthcheck.sweep.sweep import SweepPlan
from inventory.transport.base import Transport


class LeaseSource(Protocol):
    """Takes leases of a plan's nodes for one sweep, and gives them back (`provisioning.lease.check`)."""

    def __call__(self, plan: SweepPlan, transport: Transport) -> AbstractContextManager[Granted]: ...
