"""`--via`: how a sweep reaches the nodes, and a line that says which way each went."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from inventory.errors import UsageError

if TYPE_CHECKING:
    from inventory.transport.base import Transport

SSH, SLURM = "ssh", "slurm"
VIA = click.option("--via", type=click.Choice((SSH, SLURM)), default=SSH, show_default=True,
                   help="How to reach nodes; slurm: srun, and SSH for what it does not reach.")


def refuse_with(via: str, **given: bool) -> None:
    """Raises UsageError where one of these options is given beside --via slurm."""
    for name, used in given.items():
        if used and via == SLURM:
            raise UsageError(f"--{name.replace('_', '-')} does not go with --via slurm")


def remote_transport(via: str, keep: float | None) -> Transport:
    """The transport to other machines; `keep` as for `RemoteTransport`, and srun keeps no connection."""
    if via == SLURM:
        from inventory.transport.sruntree import SlurmTransport

        return SlurmTransport(every=keep)
    from inventory.transport.remote import RemoteTransport

    return RemoteTransport(keep=keep)


def ways(transport: Transport) -> tuple[str, ...]:
    """What to report of the ways that the nodes of the last sweep went; nothing where there is one way."""
    summary = getattr(transport, "summary", None)
    return tuple(summary()) if summary is not None else ()
