"""For GPUs and RDMA: persistence, no nouveau, peer memory. Python 3.8. NVIDIA driver installation guide
(Disable Nouveau), NVIDIA driver README (nvidia-persistenced, GPUDirect RDMA Peer Memory Client);
modprobe.d(5), modules-load.d(5), kernel-command-line(7)."""

from __future__ import annotations

import re

from provisioning.agent.onnode.files import InstallError
from provisioning.base.onnode.answer import LocalHost, plain
from provisioning.base.onnode.item import BaseItem, own
from provisioning.base.onnode.system import COMES

UNIT = "nvidia-persistenced.service"
BLACKLIST, LOADED = "/etc/modprobe.d/muster-nouveau.conf", "/etc/modules-load.d/muster.conf"
MODPROBE = ("/etc/modprobe.d/*.conf", "/run/modprobe.d/*.conf", "/usr/lib/modprobe.d/*.conf",
            "/lib/modprobe.d/*.conf")
MODULES_LOAD = ("/etc/modules-load.d/*.conf", "/run/modules-load.d/*.conf", "/usr/lib/modules-load.d/*.conf",
                "/etc/modules")
NVIDIA = "0x10de"
MODULES_DEP = 16 << 20
PEER = ("nvidia_peermem", "nv_peer_mem")
KEPT_OUT = re.compile(r"(?:^|[\s.])(?:module_blacklist|modprobe\.blacklist)=(?:\S*,)?nouveau(?:,|\s|$)")


def gpus(host: LocalHost) -> bool:
    """Whether an NVIDIA GPU is here, with a driver or without."""
    if host.found("/proc/driver/nvidia/gpus/*"):
        return True
    for path in host.found("/sys/bus/pci/devices/*/vendor"):
        kind = host.read(path[:-len("vendor")] + "class") or ""
        if (host.read(path) or "").strip() == NVIDIA and kind.startswith("0x03"):
            return True
    return False


def module(host: LocalHost, name: str) -> bool:
    """Whether the running kernel can load it."""
    release = (host.read("/proc/sys/kernel/osrelease") or "").strip()
    found = host.read("/lib/modules/%s/modules.dep" % release, MODULES_DEP) if release else None
    return re.search(r"(?:^|/)%s\.ko" % name.replace("_", "[-_]"), found or "", re.MULTILINE) is not None


def persistence(host: LocalHost) -> BaseItem:
    item = BaseItem("persistence")
    if not gpus(host):
        return item.is_("absent", "no NVIDIA GPU here")
    if not host.there("/proc/driver/nvidia/version"):
        return item.is_(
            "trouble", "a GPU is here, and no NVIDIA driver is loaded: install it, and start the node again")
    if not host.systemd():
        return item.is_("absent", "no systemd here to start nvidia-persistenced")
    unit = host.units(UNIT).get(UNIT)
    if unit is None:
        return item.is_(
            "trouble",
            "a GPU is here, and %s is not installed: install the driver's package nvidia-persistenced" % UNIT)
    if unit.get("LoadState") != "loaded":
        return item.is_("trouble",
                        "yours says that %s is %s: systemctl unmask it, or leave the item out (base: in "
                        "muster's rules)" % (UNIT, unit.get("LoadState")))
    if unit.get("UnitFileState") not in COMES:
        item.differs(["%s is enabled, so that it starts with the machine" % UNIT],
                     lambda: host.systemctl("--quiet", "enable", UNIT))
    if unit.get("ActiveState") != "active":
        item.differs(["%s is started" % UNIT], lambda: host.systemctl("--quiet", "start", UNIT))
    return item


def nouveau(host: LocalHost) -> BaseItem:
    item = BaseItem("nouveau")
    if not host.there("/proc/driver/nvidia/version") and not module(host, "nvidia"):
        return item.is_("absent", "no NVIDIA driver is installed")
    by = keeper(host)
    if by:
        item.message = "kept out by %s" % by
    else:
        own(host, item, BLACKLIST, "blacklist nouveau\noptions nouveau modeset=0\n")
    if item.state == "so" and host.there("/sys/module/nouveau"):
        item.trouble("nouveau is loaded: rebuild the initramfs (update-initramfs -u, or dracut -f), and "
                     "start the node again")
    return item


def keeper(host: LocalHost) -> str:
    """What keeps nouveau out already, without muster."""
    if KEPT_OUT.search(host.read("/proc/cmdline") or ""):
        return "the kernel's command line"
    for path in host.found(*MODPROBE):
        lines = plain(host.read(path)) if path != BLACKLIST else []
        if any(line.split()[:2] in (["blacklist", "nouveau"], ["install", "nouveau"]) for line in lines):
            return path
    return ""


def peermem(host: LocalHost) -> BaseItem:
    item = BaseItem("peermem")
    if not gpus(host):
        return item.is_("absent", "no NVIDIA GPU here")
    if not host.found("/sys/class/infiniband/*"):
        return item.is_("absent", "no RDMA device here")
    loaded = [name for name in PEER if host.there("/sys/module/" + name)]
    if not loaded and not module(host, PEER[0]):
        return item.is_("absent", "this kernel has no nvidia_peermem")
    named = [path for path in host.found(*MODULES_LOAD)
             if path != LOADED and any(line.replace("-", "_") in PEER for line in plain(host.read(path)))]
    if named:
        item.message = "loaded at the start by %s" % named[0]
    elif loaded == [PEER[1]]:
        item.message = "nv_peer_mem is loaded in its place"
    else:
        own(host, item, LOADED, "nvidia_peermem\n")
    if not loaded:
        item.differs(["nvidia_peermem is loaded"], lambda: peered(host))
    return item


def peered(host: LocalHost) -> None:
    """Afterwards GPUs' memory is within reach of RDMA devices."""
    try:
        host.ran("modprobe", "-b", "--", PEER[0])
    except InstallError as error:
        raise InstallError("%s; where jobs use DMA-BUF leave it out (base: peermem: false in muster's rules)"
                           % error) from None
