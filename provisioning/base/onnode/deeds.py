"""Looks at the base configuration of this machine, makes it so where asked to, and looks again. Python 3.8."""

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


def looked(host: LocalHost, wish: dict[str, Any], name: str, rename: bool) -> list[BaseItem]:
    """All items, in their order."""
    items: dict[str, Callable[[], BaseItem]] = {
        "time": lambda: time_service(host, wish["synchronised"]), "host_name": lambda: host_name(host, name, rename),
        "memlock": lambda: memlock(host), "persistence": lambda: persistence(host), "nouveau": lambda: nouveau(host),
        "peermem": lambda: peermem(host), "sysctl": lambda: sysctl(host, wish["sysctl"]),
    }
    return [seen(one, look) if wish[one] else BaseItem(one).is_("out", "by base: of muster's rules") for one, look in items.items()]


def seen(name: str, look: Callable[[], BaseItem]) -> BaseItem:
    try:
        return look()
    except (Unseen, InstallError, OSError, ValueError) as error:
        return BaseItem(name).is_("unseen", str(error))


def made(host: LocalHost, items: list[BaseItem], told: dict[str, Any]) -> None:
    """Makes so what differs; one item that cannot be does not keep the others from it."""
    lock = os.open(host.root + NOTE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InstallError("another muster bringup base is at work here; try again when it has ended") from None
    for item in items:
        if item.stand != "differs":
            continue
        try:
            for do in item.doing:
                do()
            told["changed"].append(item.name)
        except (InstallError, OSError) as error:
            told["failed"][item.name] = str(error)


def main(nonce: str, asked: bytes, source: BinaryIO) -> None:
    """Does what is asked; the last words on the command line say whether the host name may be changed, and what it is to be."""
    clean_environment()
    wish = json.loads(asked)
    host, (may, name) = LocalHost(wish["root"]), sys.argv[-2:]
    told: dict[str, Any] = {"ok": True, "said": "", "root": os.geteuid() == 0, "changed": [], "failed": {}}
    items = looked(host, wish["wish"], name, may == "free")
    if wish["make"] and any(item.stand == "differs" for item in items):
        try:
            if os.geteuid() and not host.root:
                raise InstallError("this needs root here: log in as root, or go through sudo with --become or `privilege: become` in the "
                                   "inventory")
            made(host, items, told)
        except (InstallError, OSError) as error:
            told.update(ok=False, said=str(error))
        items = looked(host, wish["wish"], name, may == "free")
    told.update(items=[item.told() for item in items], time=time.time())
    answered(nonce, told)
