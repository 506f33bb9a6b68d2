"""The inventory as Prometheus' HTTP service discovery:
https://prometheus.io/docs/prometheus/latest/http_sd/."""

from __future__ import annotations

import json
from collections.abc import Iterable

from inventory.model import Node


def discovery(nodes: Iterable[Node], port: int) -> str:
    """One group per node, with labels for its location; without labels that the inventory lacks."""
    return json.dumps([{"targets": [_target(node, port)], "labels": _labels(node)} for node in nodes])


def _target(node: Node, port: int) -> str:
    host = node.address or node.name
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _labels(node: Node) -> dict[str, str]:
    known = {"node": node.name, "rack": node.rack, "leaf": ",".join(node.leaf), "sku": node.sku,
             "lifecycle": node.lifecycle.state.value, "power": node.power,
             "nvlink_domain": node.nvlink_domain}
    return {name: value for name, value in known.items() if value}
