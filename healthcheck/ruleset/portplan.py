"""Reads a SKU's `ports:`: the role of each port by PCI address, and the rail of each compute port."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inventory.entry import ROLES, pci_address
from inventory.errors import Mark, RulesError
from inventory.located import LocatedMap
from inventory.model import PortPlan


def read_ports(found: Any, mark: Mark) -> Mapping[str, PortPlan]:
    """Reads the value under `ports`, at `mark`. Leaf switches differ by node: the inventory has them."""
    if not isinstance(found, dict):
        raise RulesError("ports: expected a map from PCI addresses to {role, rail}", mark)
    plans: dict[str, PortPlan] = {}
    for key, value in found.items():
        at = found.key_marks[key] if isinstance(found, LocatedMap) else mark
        address = pci_address(key)
        if address is None:
            raise RulesError(f"ports: {ascii(key)[:60]} is no PCI address, expected one such as 0000:18:00.0",
                             at)
        if address in plans:
            raise RulesError(f"ports: {address} is given twice", at)
        plans[address] = _plan(address, value, at)
    return plans


def _plan(address: str, value: Any, mark: Mark) -> PortPlan:
    role, rail = (value.get("role", "compute"),
                  value.get("rail")) if isinstance(value, dict) else (None, None)
    if not isinstance(value, dict) or value.keys() - {"role", "rail"}:
        raise RulesError(f"ports: {address}: expected a map with role and rail", mark)
    if role not in ROLES:
        raise RulesError(f"ports: {address}: role: expected one of {', '.join(ROLES)}", mark)
    if rail is not None and (type(rail) is not int or not 0 <= rail <= 1023):
        raise RulesError(f"ports: {address}: rail: expected a number from 0 to 1023", mark)
    return PortPlan(role, rail)
