"""How a burn-in's program comes to nodes: over SSH, by srun, or on this machine."""

from __future__ import annotations

from inventory.transport.base import Transport


def transport(launcher: str, reservation: str | None = None) -> Transport:
    """The transport of ssh, slurm or local; that of Slurm takes nodes in this reservation."""
    if launcher == "local":
        from inventory.transport.local import LocalTransport

        return LocalTransport()
    if launcher == "slurm":
        from inventory.transport.srun import SrunTransport

        return SrunTransport(reservation)
    from inventory.transport.remote import RemoteTransport

    return RemoteTransport()
