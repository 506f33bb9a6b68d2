"""Checks the base configuration of this machine, applies it if asked to, and checks again. Python 3.8."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from typing import Any, BinaryIO, Callable

from provisioning.agent.onnode.files import InstallError
from provisioning.base.onnode.answer import LocalHost, Unseen, answered, clean_environment
from provisioning.base.onnode.devices import nouveau, peermem, persistence
from provisioning.base.onnode.item import BaseItem
from provisioning.base.onnode.settings import memlock, sysctl
from provisioning.base.onnode.system import host_name, time_service

NOTE = "/run/muster-base"


def looked(host: LocalHost, desired: dict[str, Any], name: str, rename: bool) -> list[BaseItem]:
    """All items, in their order."""
    items: dict[str, Callable[[], BaseItem]] = {
        "time": lambda: time_service(host, desired["synchronised"]),
        "host_name": lambda: host_name(host, name, rename), "memlock": lambda: memlock(host),
        "persistence": lambda: persistence(host), "nouveau": lambda: nouveau(host),
        "peermem": lambda: peermem(host), "sysctl": lambda: sysctl(host, desired["sysctl"])}
    return [seen(one, look) if desired[one] else BaseItem(one).is_("out", "by base: of muster's rules")
                for one, look in items.items()]


def seen(name: str, look: Callable[[], BaseItem]) -> BaseItem:
    try:
        return look()
    except (Unseen, InstallError, OSError, ValueError) as error:
        return BaseItem(name).is_("unseen", str(error))


def made(host: LocalHost, items: list[BaseItem], report: dict[str, Any]) -> None:
    """Makes so what differs; one item that cannot be does not keep the others from it."""
    lock = os.open(host.root + NOTE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InstallError(
                "another muster bringup base is at work here; try again when it has ended") from None
        for item in items:
            if item.state != "differs":
                continue
            try:
                for do in item.doing:
                    do()
                report["changed"].append(item.name)
            except (InstallError, OSError) as error:
                report["failed"][item.name] = str(error)
    finally:
        os.close(lock)      # who has the answer may begin the next


def main(nonce: str, request: bytes, source: BinaryIO) -> None:
    """Does what is asked; last words: whether the host name may be changed, and to what."""
    clean_environment()
    desired = json.loads(request)
    host, (may, name) = LocalHost(desired["root"]), sys.argv[-2:]
    report: dict[str, Any] = {
        "ok": True, "message": "", "root": os.geteuid() == 0, "changed": [], "failed": {}}
    items = looked(host, desired["desired"], name, may == "free")
    if desired["make"] and any(item.state == "differs" for item in items):
        try:
            if os.geteuid() and not host.root:
                raise InstallError("this needs root here: log in as root, or go through sudo with --become "
                                   "or `privilege: become` in the inventory")
            made(host, items, report)
        except (InstallError, OSError) as error:
            report.update(ok=False, message=str(error))
        items = looked(host, desired["desired"], name, may == "free")
    report.update(items=[item.report() for item in items], time=time.time())
    answered(nonce, report)
