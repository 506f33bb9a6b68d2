"""The components that a node has, as in its certificate and in its newest snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# By component ("gpu 0000:18:00.0", "nic 0000:1a:00.0", "board") its serial number, UUID and firmware, if any.
Hardware = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Now:
    """The components in a node's newest snapshot; `whole` are the kinds that were read completely."""

    hardware: Hardware
    whole: frozenset[str]
    boot: str
    versions: Mapping[str, str]
