"""What `muster burnin run` and `muster burnin screen` do alike: work under a lease, over their launcher's transport, and an exit code."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import click

from provisioning.cli.burninshow import code as code_of

if TYPE_CHECKING:
    from healthcheck.burnin.document import Burnin, Option
    from healthcheck.model.lease import Granted
    from inventory.transport.base import Transport
    from provisioning.burnin.record import BurnInRecord
    from provisioning.burnin.run import Act, BurnInRequest

    Under = Callable[[str], Transport] | None
    Lease = Callable[[Transport, Under], AbstractContextManager[Granted]]


def options(asked: BurnInRequest, launcher: str) -> dict[str, Option]:
    """What both keep in a document of what was asked for."""
    from inventory.nodeset import fold

    return {"nodes": fold(node.name for node in asked.nodes), "launcher": launcher, "max_kw": asked.power.max_kw,
            "domain_kw": asked.power.domain_kw, **{f"params.{name}": value for name, value in asked.work.params.items()}}


def carried_out(asked: BurnInRequest, record: BurnInRecord, launcher: str, lease: Lease, act: Act, *, quiet: bool) -> tuple[Burnin, int]:
    """The burn-in, which is kept, and the exit code of its command.

    `lease` is given the launcher's transport and, where that comes in only under the lease's reservation, what makes it for its name.
    """
    from provisioning.burnin import run as running
    from provisioning.burnin.launch import transport as transport_of
    from provisioning.burnin.progress import progress_report

    transport = transport_of(launcher)
    under = (lambda name: transport_of(launcher, name)) if launcher == "slurm" else None
    try:
        burnt, interrupted = running.run(
            asked, lambda: lease(transport, under), record, lambda steps: progress_report(steps, quiet=quiet), act)
    finally:
        close = getattr(transport, "close", None)
        if close is not None:
            close()
    if record.trouble:
        click.echo(f"muster: it could not be kept: {record.trouble}", err=True)
    return burnt, 130 if interrupted else 2 if record.trouble else code_of(burnt)
