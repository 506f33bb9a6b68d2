"""Which firmware each machine's components run: what sweeps and management controllers reported last, each
with the time of its own reading."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from healthcheck.model.firmware import (
    BMC,
    LISTS_ALL,
    MOST_COMPONENTS,
    ComponentVersion,
    FirmwareReading,
    MachineFirmware,
)
from healthcheck.store.clock import AHEAD_S
from healthcheck.store.file import Store
from healthcheck.store.rows import node_number


def write_reading(
    db: sqlite3.Connection, node: int, source: str, time: float, reading: FirmwareReading, latest: float,
) -> None:
    """Adds what one look reported to what is kept, inside a transaction.

    A version that this look could not read stays, with the time of its own reading. A component that was not
    seen is gone where all of its kind were seen, or where a controller or tool listed all that it has. A look
    that is older than the one kept changes nothing, unless that is later than `latest`: a clock was ahead.
    """
    row = db.execute("SELECT read FROM firmware WHERE node = ?", (node,)).fetchone()
    before = _from_document(json.loads(row[0])) if row is not None else MachineFirmware()
    if time < before.looked.get(source, 0.0) <= latest:
        return
    text = json.dumps(_to_document(merged(before, source, time, reading)), separators=(",", ":"))
    db.execute("INSERT INTO firmware (node, time, read) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET "
               "time = excluded.time, read = excluded.read", (node, time, text))


def write_controller(
    store: Store, node: str, time: float, reading: FirmwareReading, source: str = BMC,
) -> None:
    """Keeps what a node's management controller, or another `source` that lists all it has, reported. Raises
    StoreError."""
    with store.writing() as db:
        write_reading(db, node_number(db, node), source, time, reading, time + AHEAD_S)


def merged(before: MachineFirmware, source: str, time: float, reading: FirmwareReading) -> MachineFirmware:
    """What is known after this look; nothing in it is later than `time`, whatever a clock said before."""
    kept = {(one.source, one.name): replace(one, time=min(one.time, time)) for one in before.versions}
    for key in [key for key, one in kept.items() if one.source == source
                and (source in LISTS_ALL or one.kind in reading.whole)]:
        if key[1] not in {one.name for one in reading.versions}:
            del kept[key]
    for one in reading.versions[:MOST_COMPONENTS]:
        key = (source, one.name)
        known = kept.get(key)
        if one.version is not None or known is None or known.version is None:
            kept[key] = replace(one, source=source, time=time)
    whole = {**before.whole, **{(source, kind): time for kind in reading.whole}}
    return MachineFirmware(reading.maker or before.maker, tuple(kept.values()),
                           MappingProxyType({**before.looked, source: time}), MappingProxyType(whole))


def known_firmware(store: Store) -> dict[str, MachineFirmware]:
    """By node what is known of its firmware. Raises StoreError."""
    return {name: _from_document(json.loads(read)) for name, read in store.rows(
        "SELECT name, read FROM firmware JOIN node ON node.id = firmware.node")}


def recognised_skus(store: Store, nodes: Collection[str]) -> dict[str, str]:
    """By node, of these, the SKU that its newest sweep took it for. Raises StoreError."""
    found = {}
    for name, reading in store.rows("SELECT name, snapshot FROM newest JOIN node ON node.id = newest.node"):
        if name in nodes and (sku := json.loads(zlib.decompress(reading)).get("sku")):
            found[name] = sku
    return found


def _to_document(known: MachineFirmware) -> dict[str, Any]:
    return {
        "maker": known.maker, "looked": dict(known.looked),
        "whole": [[source, kind, time] for (source, kind), time in known.whole.items()],
        "versions": [[one.name, one.kind, one.version, one.time, one.source, one.why]
                     for one in known.versions]}


def _from_document(document: Mapping[str, Any]) -> MachineFirmware:
    return MachineFirmware(
        document["maker"], tuple(ComponentVersion(*one) for one in document["versions"]), document["looked"],
        {(source, kind): time for source, kind, time in document["whole"]})
