"""The components that a node has, as in its certificate and in its newest snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

# By component ("gpu 0000:18:00.0", "nic 0000:1a:00.0", "board") its serial number, UUID and firmware, if any.
Hardware = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Now:
    """The components in a node's newest snapshot; `whole` are the kinds that were read completely. `parts`
    are of each adapter ("mlx5_0") what its lot is known by: "adapter" (its board's identity), "guid",
    "adapter_part" and "adapter_serial" (where root could read them), and what the module in its port states
    ("vendor", "part", "serial", "revision", "date")."""

    hardware: Hardware
    whole: frozenset[str]
    boot: str
    versions: Mapping[str, str]
    parts: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))
