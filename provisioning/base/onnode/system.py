"""Time service, host name. Python 3.8. adjtimex(2): TIME_ERROR, STA_UNSYNC; hostname(5), hostnamectl(1). The
units are those of chrony, ntpsec, ntp and systemd in Debian, Ubuntu, RHEL and SUSE."""

from __future__ import annotations

import ctypes
import os
import socket

from provisioning.agent.onnode.files import put
from provisioning.base.onnode.answer import LocalHost, Unseen
from provisioning.base.onnode.item import BaseItem

# In the order in which one is chosen, where several are there and none runs.
TIME = ("chrony.service", "chronyd.service", "ntpsec.service", "ntpd.service", "ntp.service",
        "systemd-timesyncd.service")
# They come with a start of the machine: enabled, or by another unit or rule.
COMES = ("enabled", "enabled-runtime", "static", "generated", "alias", "indirect")
TIME_ERROR, STA_UNSYNC = 5, 0x40


def disciplined() -> bool:
    """Whether a time service keeps the kernel's clock."""
    # struct timex begins with modes, offset, freq, maxerror, esterror, status; no mode asked for changes
    # nothing.
    timex = (ctypes.c_long * 64)()
    state: int = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    if state < 0:
        raise Unseen("adjtimex: %s" % os.strerror(ctypes.get_errno()))
    return state != TIME_ERROR and not timex[5] & STA_UNSYNC


def time_service(host: LocalHost, synchronised: bool) -> BaseItem:
    item = BaseItem("time")
    kind = host.container()
    if kind:
        return item.is_("absent", "a container (%s) has its host's clock" % kind)
    if not host.systemd():
        return item.is_("absent", "no systemd here: muster cannot tell which time service starts")
    units = host.units(*TIME)
    sound = {name: unit for name, unit in units.items() if unit.get("LoadState") == "loaded"}
    active = [name for name, unit in sound.items()
              if unit.get("ActiveState") in ("active", "reloading", "activating")]
    if len(active) > 1:
        return item.is_(
            "trouble", "%s both set the clock: systemctl disable --now one of them" % " and ".join(active))
    if not sound:
        masked = "; %s is masked" % ", ".join(units) if units else ""
        return item.is_(
            "trouble",
            "no time service is installed%s: install chrony and give it the site's servers" % masked)
    name = active[0] if active else min(sound, key=TIME.index)
    comes = sound[name].get("UnitFileState") in COMES
    if not comes:
        item.differs(["%s is enabled, so that it starts with the machine" % name],
                     lambda: host.systemctl("--quiet", "enable", name))
    if not active:
        item.differs(["%s is started" % name], lambda: host.systemctl("--quiet", "start", name))
    if item.state == "so":
        item.message = name
        if synchronised and not disciplined():
            return item.is_("wait",
                            "%s runs, and has not set the clock yet: chronyc sources, or timedatectl "
                            "timesync-status, there" % name)
    return item


def host_name(host: LocalHost, wanted: str, rename: bool) -> BaseItem:
    """Names are compared as `host.name` of the checks does: up to the first dot, in whatever case."""
    item = BaseItem("host_name")
    now = (host.read("/proc/sys/kernel/hostname") or "").strip()
    kept = next(iter((host.read("/etc/hostname") or "").split()), "")
    if same(now, wanted) and same(kept, wanted):
        return item.is_("so", now)
    if not rename:
        return item.is_("trouble",
                        "it calls itself %s, and is in service, or may have a job: muster inventory "
                        "lifecycle %s bringup, then again" % (now, wanted))
    if not same(kept, wanted):
        item.differs(["/etc/hostname", "- %s" % (kept or "nothing"), "+ %s" % wanted], lambda: None)
    if not same(now, wanted):
        item.differs(["the kernel's", "- %s" % (now or "nothing"), "+ %s" % wanted], lambda: None)
    item.doing = [lambda: named(host, wanted)]
    return item


def same(one: str, other: str) -> bool:
    return one.partition(".")[0].lower() == other.partition(".")[0].lower()


def named(host: LocalHost, name: str) -> None:
    """Afterwards this is its name, now and at each start."""
    if host.systemd() and not host.root:
        host.ran("hostnamectl", "--no-ask-password", "set-hostname", name)
        return
    put(host.root + "/etc/hostname", name.encode() + b"\n", 0o644)
    if host.root:
        put(host.root + "/proc/sys/kernel/hostname", name.encode() + b"\n", 0o644)
    else:
        socket.sethostname(name)
