"""What a gate reads on its machine: the snapshot, verified again, and the machine's node name."""

from __future__ import annotations

import os
from collections.abc import Collection

from healthcheck.certify.pair import NoPair, read_pair
from healthcheck.config import agentnote
from healthcheck.gate.reading import GateSnapshot
from healthcheck.gate.snapshot import (
    FOLDER,
    NAME,
    TRUSTED,
    SnapshotRefused,
    checked,
    keys_in,
    not_older,
    seen,
)
from healthcheck.model import agentfault


class Missing(Exception):
    """The gate's data is missing or unreadable. The text says what, and what to type."""


class Forged(Exception):
    """The snapshot is not what the head signed (altered, cut, foreign key), or an older one restored."""


def folder(option: str | None) -> str:
    """The snapshot's folder: the option, MUSTER_GATE, else the agent's."""
    return option or os.environ.get("MUSTER_GATE") or FOLDER


def trusted(option: str | None) -> str:
    """The file of trusted keys: the option, MUSTER_GATE_KEYS, else the agent's."""
    return option or os.environ.get("MUSTER_GATE_KEYS") or TRUSTED


def load(folder: str, trusted: str) -> GateSnapshot:
    """The verified snapshot, not older than earlier ones here. Raises Missing or Forged."""
    try:
        data, signature = read_pair(folder, NAME)
        keys = keys_in(trusted)
        known = seen(folder)
    except NoPair as trouble:
        raise Missing(f"no snapshot: {trouble}; muster gate fetch") from None
    except SnapshotRefused as trouble:
        raise Missing(str(trouble)) from None
    try:
        snapshot, _ = checked(data, signature, keys)
        not_older(snapshot, known)
    except SnapshotRefused as trouble:
        raise Forged(str(trouble)) from None
    return snapshot


def unfetched() -> tuple[str, ...]:
    """A line where this node's agent reports that it could not keep the newest snapshot."""
    fault = agentnote.read(agentfault.NOTE).get(agentfault.GATE)
    return () if fault is None else (f"this node's agent could not keep the newest snapshot: {fault}",)


def own_name(known: Collection[str]) -> str:
    """This machine's name in the snapshot: SLURMD_NODENAME, else its host name,
    whole or up to the first dot, as the snapshot knows it."""
    given = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    short = given.partition(".")[0]
    if given in known:
        return given
    if short in known:
        return short
    longer = [name for name in known if name.partition(".")[0] == given]
    return longer[0] if len(longer) == 1 else given
