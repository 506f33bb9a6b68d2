"""Checks of a node's installation and boot: clock against the head's, names, kernel parameters and settings,
crash records, memory modules."""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import GIB, NotMeasured, and_more, check
from healthcheck.facts.firmware import Dimms, Firmware
from healthcheck.facts.resolver import OwnName, Resolver
from healthcheck.facts.snapshot_time import SnapshotTime
from healthcheck.facts.system import Crash, HostName, Sysctls, System
from healthcheck.model.outcome import Finding


@check("host.clock_offset")
def host_clock_offset(snapshot_time: SnapshotTime, *, most_seconds: float) -> Iterator[Finding]:
    """The node's clock agrees with the head's: logs, certificates and job limits depend on it.

    The difference includes the transfer time of the answer, so this finds minutes, not milliseconds.
    """
    off = snapshot_time.time - snapshot_time.received
    if abs(off) > most_seconds:
        yield Finding(f"{abs(off):.0f} s {'ahead of' if off > 0 else 'behind'} the head's",
                      f"at most {most_seconds:g} s apart", "clock")


@check("host.resolver")
def host_resolver(resolver: Resolver) -> Iterator[Finding]:
    """/etc/resolv.conf names a server to ask. Without one every name outside /etc/hosts fails, and storage
    and logins with it."""
    if not resolver.servers:
        yield Finding("no nameserver in /etc/resolv.conf", "one at least", "resolver")


@check("host.own_name")
def host_own_name(own_name: OwnName) -> Iterator[Finding]:
    """The node finds an address for its own host name in time, as launchers of distributed jobs ask for
    it."""
    if not own_name.resolves:
        yield Finding(own_name.trouble, "an address (hostname -i)", "host name")


@check("host.name")
def host_name(host_name: HostName) -> Iterator[Finding]:
    """The node's own name is that of the inventory, up to the first dot: logs use one name, drains the
    other."""
    if host_name.own.partition(".")[0].casefold() != host_name.inventory.partition(".")[0].casefold():
        yield Finding(host_name.own, f"{host_name.inventory}, as in the inventory", "host name")


@check("host.crash")
def host_crash(crash: Crash) -> Iterator[Finding]:
    """No kernel crash record is in pstore, or where systemd-pstore moved it: read it and remove it."""
    if crash.records:
        yield Finding(f"left a crash record: {and_more(crash.records)}", "none", "kernel")


@check("host.cmdline")
def host_cmdline(system: System, *, expected: tuple[str, ...],
                 forbidden: tuple[str, ...] = ()) -> Iterator[Finding]:
    """The kernel was booted with these parameters, each as a whole word, and with none of those."""
    for word in expected:
        if word not in system.parameters:
            yield Finding(f"no {word}", word, "kernel parameters")
    for word in forbidden:
        if word in system.parameters:
            yield Finding(word, f"no {word}", "kernel parameters")


@check("host.sysctl")
def host_sysctl(sysctls: Sysctls, *, expected: tuple[str, ...]) -> Iterator[Finding]:
    """Kernel settings have these values, each given as `name=value`; facts/system.py lists the names that are
    read."""
    unread = ""
    for setting in expected:
        name, equals, value = setting.partition("=")
        if not equals or name not in sysctls.values:
            unread = name
        elif sysctls.values[name] != value:
            yield Finding(sysctls.values[name], value, name)
    if unread:
        raise NotMeasured(sysctls, f"{unread} is not read, or this kernel has no such setting")


@check("host.bios")
def host_bios(firmware: Firmware, *, versions: tuple[str, ...]) -> Iterator[Finding]:
    """The BIOS is of a version that the site has approved."""
    if firmware.bios not in versions:
        yield Finding(f"{firmware.bios} of {firmware.bios_date}", " or ".join(versions), "BIOS")


@check("host.dimm_count", counts=True)
def host_dimm_count(dimms: Dimms, *, expected: int) -> Iterator[Finding]:
    """There are as many memory modules as the SKU has; findings name the empty slots. A slot that may hold a
    module is not counted as empty."""
    if len(dimms.modules) < expected <= len(dimms.modules) + len(dimms.unread):
        raise NotMeasured(dimms, f"not read: {dimms.unread[0]}")
    if len(dimms.modules) < expected:
        empty = f"; empty: {', '.join(dimms.empty[:4])}" if dimms.empty else ""
        yield Finding(f"{len(dimms.modules)} modules{empty}", str(expected), "memory")


@check("host.dimm_alike")
def host_dimm_alike(dimms: Dimms) -> Iterator[Finding]:
    """All memory modules are of one size and run at one rate: all channels run at the slowest. Where the
    firmware says the rate of some, the others' is not measured."""
    sizes = [dimm.size for dimm in dimms.modules]
    speeds = [dimm.speed for dimm in dimms.modules if dimm.speed]
    usual, rate = max(sorted(sizes), key=sizes.count), max(sorted(speeds), key=speeds.count) if speeds else 0
    for dimm in dimms.modules:
        if dimm.size != usual:
            yield Finding(f"{dimm.size / GIB:g} GiB", f"{usual / GIB:g} GiB, as most", dimm.slot)
        if dimm.speed and dimm.speed != rate:
            yield Finding(f"{dimm.speed} MT/s", f"{rate} MT/s, as most", dimm.slot)
    unrated = [f"{dimm.slot}, which says no rate" for dimm in dimms.modules if rate and not dimm.speed]
    if unread := [*dimms.unread, *unrated]:
        raise NotMeasured(dimms, f"not read: {unread[0]}")
