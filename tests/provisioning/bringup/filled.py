"""Stores with machines in every stand of a bring-up, written as the engine writes them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from healthcheck.store import bringupnotes as notes
from healthcheck.store import bringups
from healthcheck.store.file import Store, opened
from inventory.model import Bmc, Lifecycle, LifecycleState, Node
from provisioning.bringup.engine.model import ORDER
from provisioning.bringup.pages.progress import SERIAL, BringupStatus, progress

NOW = 1_795_327_200.0       # 2026-11-22T06:00Z
OWNERS = dict.fromkeys(
    ORDER, Owner.OPERATOR) | {"bmc": Owner.DATACENTRE, "hardware": Owner.DATACENTRE, "burnin": Owner.VENDOR}
PSU = Trouble("PSU 2 has no input voltage", Owner.DATACENTRE,
              "reseat the cable of PSU 2, or take its PDU outlet", "psu", "PSU 2", "PS-77")
GPU = Trouble("7 of 8 GPUs enumerate; 0000:9b:00.0 is missing", Owner.VENDOR, "RMA the GPU; reseat it first",
              "gpu", "GPU 5", "1650123000777")
PORT = Trouble("mlx5_3 has no link", Owner.NETWORK, "look at switch port leaf02/17 and its transceiver",
               "port", "0000:5d:00.0")
DIMM = Trouble("DIMM A1 is not seen", Owner.DATACENTRE, "reseat DIMM A1", "dimm", "A1")
LOGIN = Trouble("the controller refuses the login", Owner.OPERATOR,
                "mend the password, then: muster bringup retry gpu005")


def walked(
    store: Store, node: str, step: str, *, began: float, since: float, stand: str = notes.QUEUED,
    message: str = "", troubles: tuple[Trouble, ...] = (), serial: str = "", skipped: tuple[str, ...] = (),
    again: float | None = None,
) -> None:
    """Has a machine come to this step; with stand done, through the last one."""
    bringups.begin(store, [node], ORDER[0], "ops", began)
    for name in skipped:
        bringups.skip(store, [node], name, "ops", "no way to look at it", began, order=ORDER)
    with store.writing() as db:
        _walk(db, node, step, began, since, stand, message, troubles, serial, skipped, again)


def _walk(
    db: sqlite3.Connection, node: str, step: str, began: float, since: float, stand: str, message: str,
    troubles: tuple[Trouble, ...], serial: str, skipped: tuple[str, ...], again: float | None,
) -> None:
    for at, name in enumerate(ORDER[:ORDER.index(step) + (stand == notes.DONE)]):
        onward = ORDER[at + 1] if at + 1 < len(ORDER) else None
        notes.entered(db, node, name, began + at)
        notes.left(db, node, name, notes.SKIPPED if name in skipped else notes.SO, onward,
                   since if onward in (step, None) else began + at)
    if stand == notes.DONE:
        return
    if stand != notes.QUEUED:
        notes.entered(db, node, step, since)
    notes.stood(
        db, node, stand, message, again=again, looked=since + 30, kept={SERIAL: serial} if serial else {})
    notes.troubled(db, node, step,
                   [(one.what, one.owner.value, one.hand, one.part, one.slot, one.serial)
                    for one in troubles], since + 30)
    if stand == notes.LEFT:
        db.execute("UPDATE bringup SET ended = ? WHERE node = ?", (since + 60, node))


def small(folder: Path) -> None:
    """A dozen machines of one rack and a half, with troubles of every owner."""
    with opened(folder, make=True) as store:
        hour = NOW - 3600
        walked(store, "gpu001", "service", began=hour, since=NOW - 600, stand=notes.DONE)
        walked(store, "gpu002", "service", began=hour, since=NOW - 500, stand=notes.DONE, skipped=("bios",))
        walked(store, "gpu003", "hardware", began=hour, since=NOW - 3000, stand=notes.TROUBLE,
               message=PSU.what, troubles=(PSU, DIMM), serial="SN-3")
        walked(store, "gpu004", "checks", began=hour, since=NOW - 900, stand=notes.TROUBLE, message=GPU.what,
               troubles=(GPU,), serial="SN-4")
        walked(store, "gpu005", "credentials", began=hour, since=NOW - 3500, stand=notes.TROUBLE,
               message=LOGIN.what, troubles=(LOGIN,))
        walked(store, "gpu006", "checks", began=hour, since=NOW - 800, stand=notes.TROUBLE, message=PORT.what,
               troubles=(PORT,))
        for name in ("gpu007", "gpu008", "gpu009"):
            walked(store, name, "os", began=hour, since=NOW - 1500 + int(name[-1]), stand=notes.WAITING,
                   message="waits for the installer of others", again=NOW + 15)
        walked(store, "gpu010", "burnin", began=hour, since=NOW - 20)
        walked(store, "gpu011", "bmc", began=hour, since=hour)
        walked(store, "gpu012", "hardware", began=hour, since=NOW - 2900, stand=notes.TROUBLE,
               message=PSU.what, troubles=(PSU,), serial="SN-12")


def shown(folder: Path, now: float = NOW, running: bool | None = True) -> BringupStatus:
    """How it stands."""
    with opened(folder) as store:
        return progress(bringups.progress(store), bringups.troubles(store), bringups.skips(store),
                        bringups.steps(store), now, owners=OWNERS, running=running)


def many(folder: Path, number: int, now: float = NOW) -> None:
    """So many machines, of which one in ten is in trouble, and the others are everywhere."""
    troubles, began = (PSU, GPU, PORT, DIMM, LOGIN), now - 7200
    with opened(folder, make=True) as store:
        bringups.begin(store, [f"gpu{at:05d}" for at in range(number)], ORDER[0], "ops", began)
        with store.writing() as db:
            for at in range(number):
                step, stand, message = ORDER[at % len(ORDER)], notes.QUEUED, ""
                if at % 10 == 0:
                    stand, message = notes.TROUBLE, "see its trouble"
                elif at % 10 < 4:
                    step, stand = ORDER[-1], notes.DONE
                elif at % 10 < 7:
                    stand, message = notes.WAITING, f"look {at % 3} of 3"
                _walk(db, f"gpu{at:05d}", step, began, now - 60 - at, stand, message,
                      (troubles[at // 10 % len(troubles)],) if stand == notes.TROUBLE else (), f"SN-{at}", (),
                      now + 15 if stand == notes.WAITING else None)


def place(name: str, **more: object) -> Node:
    """An inventory entry in bring-up."""
    values: dict[str, object] = {
        "bmc": Bmc(f"10.1.0.{int(name[-3:])}"), "lifecycle": Lifecycle(LifecycleState.BRINGUP),
        "power": "pdu-a", "rack": "r01" if int(name[-3:]) < 9 else "r02",
        "labels": {"unit": f"U{int(name[-3:]):02d}"}}
    return Node(name, **{**values, **more})  # type: ignore[arg-type]
