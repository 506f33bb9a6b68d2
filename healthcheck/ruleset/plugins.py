"""Completes the registries of checks and facts with those of plug-ins (entry point group `muster.checks`)."""

from __future__ import annotations

from healthcheck.baseline.kernelrules import KERNEL_BASELINE, KERNEL_CATALOGUE
from healthcheck.checks import catalogue  # noqa: F401  (registers ours)
from healthcheck.checks.base import CHECKS, missing_facts
from healthcheck.config import entrypoints
from healthcheck.facts.boot import EARLIER_BOOT
from healthcheck.facts.nvlink_place import NVLINK_PLACE
from healthcheck.facts.seen_before import SEEN_BEFORE
from healthcheck.facts.site import PORT_PLANS
from healthcheck.facts.unanswered import UNANSWERED
from healthcheck.xid.xidtable import XID_TABLE
from inventory.errors import UsageError

# Facts that the sweep provides; no machine is read for them.
SWEEP_FACTS = (EARLIER_BOOT, SEEN_BEFORE, UNANSWERED, PORT_PLANS, NVLINK_PLACE, XID_TABLE,
               KERNEL_CATALOGUE, KERNEL_BASELINE)


def load() -> None:
    """Completes CHECKS and FACTS; raises UsageError for a broken plug-in or a check of an unknown fact."""
    for entry in entrypoints.entries():
        try:
            entry.load()
        except Exception as error:
            raise UsageError(f"the plug-in {entry.name} ({entry.value}) cannot be loaded: "
                             f"{type(error).__name__}: {error}") from error
    for check in CHECKS.values():
        for name in missing_facts(check, SWEEP_FACTS):
            raise UsageError(f"the check {check.name} asks for the fact {name}, which does not exist")
