"""How a program comes to nodes: over SSH, by Slurm, or on this machine; what is not chosen is not loaded."""

from __future__ import annotations

from inventory.transport.base import Transport


def transport_of(launcher: str, reservation: str | None = None) -> Transport:
    """The transport of ssh, slurm or local; that of Slurm takes nodes in this reservation."""
    if launcher == "local":
        from inventory.transport.local import LocalTransport

        return LocalTransport()
    if launcher == "slurm":
        from inventory.transport.srun import SrunTransport

        return SrunTransport(reservation)
    from inventory.transport.remote import RemoteTransport

    return RemoteTransport()
