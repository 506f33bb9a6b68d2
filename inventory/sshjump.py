"""The jump hosts that a ProxyJump names."""

from __future__ import annotations

import re
from dataclasses import dataclass

from inventory.errors import ConfigError

_HOP = re.compile(r"(?:ssh://)?(?:(?P<user>[^@\s]+)@)?"
                  r"(?:\[(?P<v6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\s:@\[\]/-][^\s:@\[\]/]*))"
                  r"(?::(?P<port>[0-9]{1,5}))?/?")


@dataclass(frozen=True)
class Hop:
    """One jump host of a ProxyJump; None where its own ssh_config entry or a default decides."""

    host: str
    user: str | None = None
    port: int | None = None


def parse_jump(text: str) -> tuple[Hop, ...]:
    """The hops of a ProxyJump ([user@]host[:port] or ssh:// forms, joined by commas),
    nearest to us first. Raises ConfigError."""
    hops = []
    for part in text.split(","):
        match = _HOP.fullmatch(part.strip())
        port = int(match["port"]) if match and match["port"] else None
        if match is None or (port is not None and not 1 <= port <= 65535):
            raise ConfigError(f"proxy jump {ascii(part.strip())[:80]} is not [user@]host[:port]")
        hops.append(Hop(match["v6"] or match["host"], match["user"], port))
    return tuple(hops)


def nearest_hop(jump: str | None) -> str:
    """The host of the last hop, for %j."""
    match = _HOP.fullmatch(jump.rpartition(",")[2].strip()) if jump is not None else None
    return (match["v6"] or match["host"]) if match is not None else ""
