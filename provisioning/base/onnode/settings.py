"""Limits and kernel parameters. Python 3.8. limits.conf(5): `*` does not mention root; of what is said twice
the later file's word counts. systemd-system.conf(5), DefaultLimitMEMLOCK; main.c of systemd reads it again at
daemon-reload. sysctl.d(5): files by name, whatever their folder, and /etc/sysctl.conf last."""

from __future__ import annotations

import fnmatch
import functools
import os

from provisioning.agent.onnode.files import InstallError
from provisioning.base.onnode.answer import LocalHost, plain
from provisioning.base.onnode.item import BaseItem, own

LIMITS, SYSTEM = "/etc/security/limits.d/muster.conf", "/etc/systemd/system.conf.d/90-muster.conf"
SYSCTL = "/etc/sysctl.d/90-muster.conf"
YOURS = "%s: yours says `%s`; take that out, or leave the item out (base: in muster's rules)"
UNBOUND = ("unlimited", "infinity", "-1")
LONGEST = 200       # of a parameter's name or pattern; the kernel has none as long
# What systemctl shows for no limit: the word, or all bits by an older one.
INFINITE = ("infinity", "18446744073709551615")


def memlock(host: LocalHost) -> BaseItem:
    item = BaseItem("memlock")
    pam, systemd = host.there("/etc/security"), host.systemd()
    if not pam and not systemd:
        return item.is_("absent", "neither PAM's limits nor systemd here")
    if pam:
        for path in host.found("/etc/security/limits.conf", "/etc/security/limits.d/*.conf"):
            for line in plain(host.read(path)) if path != LIMITS else ():
                words = line.split()
                if len(words) == 4 and words[0] in (
                    "*", "root") and words[2] == "memlock" and words[3].lower() not in UNBOUND:
                    item.trouble(YOURS % (path, " ".join(words)))
        own(host, item, LIMITS, "* - memlock unlimited\nroot - memlock unlimited\n")
    if systemd:
        manager(host, item)
    else:
        item.message = item.message or "no systemd here, only PAM's limits"
    return item


def manager(host: LocalHost, item: BaseItem) -> None:
    """What systemd gives those that it starts."""
    for path in host.found(
        "/etc/systemd/system.conf", "/etc/systemd/system.conf.d/*.conf", "/run/systemd/system.conf.d/*.conf"):
        for line in plain(host.read(path)) if path != SYSTEM else ():
            name, _, value = (word.strip() for word in line.partition("="))
            if name == "DefaultLimitMEMLOCK" and value.lower() != "infinity":
                item.trouble(YOURS % (path, line))
    before = len(item.doing)
    own(host, item, SYSTEM, "[Manager]\nDefaultLimitMEMLOCK=infinity\n")
    if host.root:
        return
    message = host.systemctl("show", "--property=DefaultLimitMEMLOCK").strip().rpartition("=")[2]
    if message not in INFINITE:
        item.differs(["systemd's DefaultLimitMEMLOCK (what runs keeps its own until it is restarted)",
                      "- %s" % message, "+ infinity"], lambda: host.systemctl("daemon-reload"))
    elif len(item.doing) > before:
        item.doing.append(lambda: host.systemctl("daemon-reload"))


def sysctl(host: LocalHost, wanted: dict[str, str]) -> BaseItem:
    item = BaseItem("sysctl")
    kind = host.container()
    if kind:
        return item.is_("absent", "a container (%s) has its host's kernel" % kind)
    here = {name: value for name, value in sorted(wanted.items()) if host.there(place(name))}
    missing = [name for name in sorted(wanted) if name not in here]
    if missing:
        item.message = "this kernel has no %s" % ", ".join(missing)
    if not here:
        item.state = "absent"
        return item
    for path, name, value in others(host):
        for ours, word in here.items():
            if fnmatch.fnmatchcase(ours, name) and value != word:
                item.trouble(YOURS % (path, "%s = %s" % (name, value)))
    own(host, item, SYSCTL, "".join("%s = %s\n" % pair for pair in here.items()))
    for name, value in here.items():
        now = (host.read(place(name)) or "").split()
        if now != value.split():
            item.differs(
                [name, "- %s" % " ".join(now), "+ %s" % value], functools.partial(turned, host, name, value))
    return item


def place(name: str) -> str:
    return "/proc/sys/" + name.replace(".", "/")


def others(host: LocalHost) -> list[tuple[str, str, str]]:
    """Kernel parameters in the site's files, and in packages' read after ours: file, name, value."""
    paths = host.found("/etc/sysctl.d/*.conf", "/run/sysctl.d/*.conf", "/etc/sysctl.conf")
    mine = os.path.basename(SYSCTL)
    paths += [path for path in host.found("/usr/lib/sysctl.d/*.conf", "/lib/sysctl.d/*.conf",
                                          "/usr/local/lib/sysctl.d/*.conf") if os.path.basename(path) > mine]
    found = []
    for path in paths:
        for line in plain(host.read(path)) if path != SYSCTL else ():
            name, equals, value = line.lstrip("-").partition("=")
            if equals and len(name) <= LONGEST:
                found.append((path, name.strip().replace("/", "."), " ".join(value.split())))
    return found


def turned(host: LocalHost, name: str, value: str) -> None:
    """Afterwards the kernel goes by it."""
    try:
        with open(host.root + place(name), "r+" if not host.root else "w") as file:
            file.write(value + "\n")
    except OSError as error:
        raise InstallError("%s cannot be set to %s: %s" % (name, value, error.strerror)) from None
