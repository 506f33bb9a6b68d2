"""What `muster burnin run` and `screen` share: a run under a lease, and its exit code."""

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


def options(request: BurnInRequest, launcher: str) -> dict[str, Option]:
    """The options that both store in the document."""
    from inventory.nodeset import fold

    return {
        "nodes": fold(node.name for node in request.nodes), "launcher": launcher,
        "max_kw": request.power.max_kw, "domain_kw": request.power.domain_kw,
        **{f"params.{name}": value for name, value in request.work.params.items()}}


def carried_out(
    request: BurnInRequest, record: BurnInRecord, launcher: str, lease: Lease, act: Act, *, quiet: bool,
) -> tuple[Burnin, int]:
    """The stored burn-in and its exit code. `lease` gets the launcher's transport and, if that needs the
    lease's reservation, a function that makes it for the lease's name."""
    from inventory.transport.choose import transport_of
    from provisioning.burnin import run as running
    from provisioning.burnin.progress import progress_report

    transport = transport_of(launcher)
    under = (lambda name: transport_of(launcher, name)) if launcher == "slurm" else None
    try:
        burnt, interrupted = running.run(request, lambda: lease(transport, under), record,
                                         lambda steps: progress_report(steps, quiet=quiet), act)
    finally:
        close = getattr(transport, "close", None)
        if close is not None:
            close()
    if record.trouble:
        click.echo(f"muster: the burn-in could not be stored: {record.trouble}", err=True)
    return burnt, 130 if interrupted else 2 if record.trouble else code_of(burnt)
