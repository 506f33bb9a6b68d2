"""What of a node's inventory entry its agent judges by: nothing about how it is reached."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from healthcheck.config.codec import to_plain
from inventory.model import Lifecycle, Node


def plain_entry(node: Node) -> dict[str, Any]:
    """The entry as an agent gets it, as JSON."""
    sent = Node(node.name, sku=node.sku, profile=node.profile, lifecycle=Lifecycle(node.lifecycle.state),
                rack=node.rack, leaf=node.leaf, ports=node.ports, nvlink_domain=node.nvlink_domain,
                power=node.power, unread=node.unread)
    found: dict[str, Any] = to_plain(sent)
    return found


def entry_digest(plain: Any) -> str:
    """Twelve hexadecimal digits that differ where entries (as `plain_entry` gives them) do."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
