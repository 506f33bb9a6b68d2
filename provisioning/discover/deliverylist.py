"""The list of what was delivered: a table in which only serial numbers have to be."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from inventory.errors import InventoryError, Mark, UsageError
from inventory.importers.base import check_size
from inventory.importers.csv_ import _rows, _simple
from inventory.nodeset import did_you_mean
from inventory.text import clean, short
from provisioning.discover.model import Delivered, mac, number

KEYS = ("serial", "name", "rack", "slot", "mac", "model", "address")
# What such columns are called, in small letters with _ for spaces and hyphens.
_CALLED = {
    "serial": (
        "serial", "serial_number", "serialnumber", "serial_no", "sn", "s/n", "service_tag", "servicetag"),
    "name": ("name", "node", "hostname", "host", "host_name"), "rack": ("rack", "rack_name", "cabinet"),
    "slot": ("slot", "u", "ru", "rack_unit", "position", "unit"),
    "mac": ("mac", "mac_address", "bmc_mac", "ipmi_mac", "mgmt_mac"),
    "model": ("model", "product", "product_name"),
    "address": ("address", "bmc", "bmc_address", "ip", "ip_address", "bmc_ip", "ipmi_ip")}
_BY_NAME = {called: key for key, names in _CALLED.items() for called in names}
_MOST = 100_000


def parse(text: str, source: str, mapping: Mapping[str, str] | None = None) -> tuple[Delivered, ...]:
    """Its rows; columns not ours are passed over. `mapping` gives a column's key, or `-` for none. Raises
    InventoryError with file and line, UsageError for a wrong mapping."""
    check_size(text, source)
    rows = _rows(text.removeprefix("\ufeff"), source)
    line, header = next(rows, (1, []))
    keys = _keys(header, mapping or {}, Mark(source, line, 1))
    found = []
    for line, cells in rows:
        said: dict[str, str] = {}
        for key, cell in zip(keys, cells):  # noqa: B905  (a short row has empty cells at its end)
            if key is not None and cell.strip():
                said[key] = _value(key, clean(cell.strip(), 200), Mark(source, line, 1))
        if not said.get("serial"):
            raise InventoryError("the row has no serial number", Mark(source, line, 1))
        found.append(Delivered(line, **said))
        if len(found) > _MOST:
            raise InventoryError(f"{source}: has over {_MOST} rows")
    if not found:
        raise InventoryError(f"{source}: names nothing that was delivered")
    return tuple(found)


def _keys(header: list[str], mapping: Mapping[str, str], mark: Mark) -> list[str | None]:
    wanted = {_simple(name): key for name, key in mapping.items()}
    there = {_simple(cell) for cell in header}
    for name, key in mapping.items():
        if key != "-" and key not in KEYS:
            raise UsageError(f"--map {short(name)}: {short(key)} is none of {', '.join(KEYS)} or "
                             f"-{did_you_mean(key, KEYS)}")
        if _simple(name) not in there:
            raise UsageError(f"--map {short(name)}: the list has no such "
                             f"column{did_you_mean(name, [cell.strip() for cell in header])}")
    keys: list[str | None] = []
    for at, cell in enumerate(header, 1):
        called = wanted.get(_simple(cell), _BY_NAME.get(_simple(cell), "-"))
        if called != "-" and called in keys:
            raise InventoryError(f"two columns are {called}, the second is {short(cell)}: pass one over with "
                                 f"--map {short(cell.strip())}=-", mark._replace(column=at))
        keys.append(None if called == "-" else called)
    if "serial" not in keys:
        raise InventoryError("no column has serial numbers: expected one called serial, serial number, sn or "
                             "service tag, or --map COLUMN=serial", mark)
    return keys


def _value(key: str, text: str, mark: Mark) -> str:
    if key == "mac":
        found = mac(text)
        if not found:
            raise InventoryError(f"{short(text)} is no MAC address", mark)
        return found
    if key == "address":
        try:
            return str(ipaddress.ip_address(text))
        except ValueError:
            return text.lower()
    return number(text) if key == "serial" else text
