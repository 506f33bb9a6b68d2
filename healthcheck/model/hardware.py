"""The components that a node has, as its certificate holds them and as its newest snapshot shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# By component ("gpu 0000:18:00.0", "nic 0000:1a:00.0", "board"): its serial number, UUID and firmware, as far
# as it has them.
Hardware = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Now:
    """What the newest look at a node found. `hardware` has the components that it read; `whole` are the kinds
    of which it read all.
    """

    hardware: Hardware
    whole: frozenset[str]
    boot: str
    versions: Mapping[str, str]
