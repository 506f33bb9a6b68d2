"""Judges whether the signs that a machine shows prove that its operating system is installed; pure.

An installer's own sshd, a live system and a rescue system answer like any other, so a login proves nothing.
Proof is the site's sign, where one is configured: a marker file, or an image's name in os-release(5). Where
none is, it is all of these together: the root file system is one for disks, on a block device; no word of an
installer or of a stateless system on the kernel's command line; no installer runs; systemd has come up; and
cloud-init, if it is there, is done. What runs and what starts is waited for in either case.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from inventory.text import clean
from provisioning.osinstall.base import OsReport, OsState
from provisioning.osinstall.kernelline import Booted, tokens
from provisioning.osinstall.signs import OsSigns, image_names

# Programs of installers, by the name under which they run, and where that is from.
INSTALLERS = {
    "subiquity": "Ubuntu Server's installer, runs as python3 -m subiquity.cmd.server",
    "curtin": "what subiquity and MAAS write the system with, python3 -m curtin",
    "anaconda": "the installer of Fedora, RHEL and their kin",
    "debian-installer": "Debian's, /sbin/debian-installer",
    "main-menu": "Debian's, udpkg main-menu",
    "y2start": "SUSE's YaST, /usr/lib/YaST2/bin/y2start",
    "agama-web-server": "SUSE's Agama",
    "coreos-installer": "Fedora CoreOS's",
}
# Of a disk: Linux, Documentation/filesystems; ZFS is of no block device that mountinfo names.
DISK_TYPES = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "jfs", "bcachefs", "zfs")
# Block devices that are memory, a file, a disc, or a live system's (dracut, dmsquash-live).
_NO_DISK = ("/dev/loop", "/dev/ram", "/dev/zram", "/dev/sr", "/dev/mapper/live-")
_NUMBER = re.compile(r"[1-9][0-9]*:[0-9]+")
_STARTING = ("initializing", "starting")
_UP = ("running", "degraded")
_MOST = 300


@dataclass(frozen=True)
class MarkerFile:
    """A file that only the installed system has; `holds` is a text in it, None where any will do."""

    file: str
    holds: str | None = None


@dataclass(frozen=True)
class WantedSigns:
    """The site's own signs; with none, see above."""

    marker: MarkerFile | None = None
    image: str | None = None

    @property
    def configured(self) -> bool:
        """Whether there is one."""
        return self.marker is not None or self.image is not None


def judged(signs: OsSigns, wanted: WantedSigns) -> OsReport:
    """How a machine stands that shows these signs."""
    if signs.systemd in (*_STARTING, "stopping"):
        how = "starts" if signs.systemd in _STARTING else "goes down"
        return _report(OsState.INSTALLING, signs, f"its system still {how} (systemctl is-system-running: "
                       f"{signs.systemd})", "see which unit is waited for: systemctl list-jobs, there")
    if signs.running:
        return _report(OsState.INSTALLING, signs, f"an installer runs there: {', '.join(signs.running)}",
                       "see its console")
    if signs.systemd == "maintenance":
        return _report(OsState.UNKNOWN, signs, "it has come up in rescue or emergency mode only",
                       "see its console, and systemctl --failed there")
    booted = _booted(signs)
    if wanted.configured:
        lacking = _lacking(signs, wanted)
        if not lacking:
            return _done(signs, _proof(signs, wanted))
        state = OsState.INSTALLING if booted is not None and booted.state is OsState.INSTALLING \
            else OsState.UNKNOWN
        also = f"; {booted.message}" if booted is not None else ""
        return _report(state, signs, f"{lacking}{also}",
                       "if it is the installed system, correct `os: marker:` or `image:` in bringup.yaml; if "
                       "not, have it installed")
    return booted if booted is not None else _by_disk(signs)


def _done(signs: OsSigns, proof: str) -> OsReport:
    if signs.cloud_init:
        return _report(OsState.INSTALLING, signs, f"{proof}; cloud-init is still in {signs.cloud_init}",
                       "see what it waits for: cloud-init status --long, there")
    return _report(OsState.INSTALLED, signs, proof)


def _booted(signs: OsSigns) -> OsReport | None:
    """What the kernel's command line says against an installed system; None where it says nothing."""
    found = tokens(signs.cmdline.text or "")
    for booted in Booted:
        if words := [one.word for one in found if one.sign.booted is booted]:
            message = f"the kernel's command line says {booted.value}: {' '.join(words[:4])}"
            if booted is Booted.INSTALLER:
                return _report(OsState.INSTALLING, signs, message, "if it is the installed system all the "
                               "same, name a sign of it: `os: {marker: {file: ...}}` in bringup.yaml")
            return _needs_marker(signs, message)
    return None


def _by_disk(signs: OsSigns) -> OsReport:
    kind, source, number = signs.root
    if signs.cmdline.text is None or not kind:
        return _needs_marker(signs, "; ".join(signs.notes) or "it does not show what it was booted with")
    if not _on_disk(kind, source, number):
        return _needs_marker(signs, f"its root file system is {kind} on {source}, as an installer's or a "
                             "stateless system's is")
    if signs.systemd not in _UP:
        why = signs.systemd.removeprefix(": ") or "it says nothing"
        return _needs_marker(signs, f"whether its system has come up is not known: systemctl: {why}")
    if not signs.release:
        return _needs_marker(signs, "it has no /etc/os-release")
    return _done(signs, f"its root file system is {kind} on {source}, and its system has come up "
                 f"({signs.systemd})")


def _on_disk(kind: str, source: str, number: str) -> bool:
    """Whether a root file system is on a disk: of a kind for disks, and on a block device. Those of several
    devices have no device number, which shows as 0:N, and ZFS names its pool."""
    if kind not in DISK_TYPES or source.startswith(_NO_DISK):
        return False
    if kind == "zfs":
        return bool(source)
    return source.startswith("/dev/") if kind in ("btrfs", "bcachefs") else (
        _NUMBER.fullmatch(number) is not None)


def _needs_marker(signs: OsSigns, message: str) -> OsReport:
    return _report(OsState.UNKNOWN, signs, message, "name a sign of your installed system: `os: {marker: "
                   "{file: /etc/site-image}}` or `os: {image: NAME}` in bringup.yaml")


def _lacking(signs: OsSigns, wanted: WantedSigns) -> str:
    """Which of the site's signs is not there; "" where all are."""
    if (marker := wanted.marker) is not None:
        seen = signs.marker
        if seen is None or seen.text is None:
            why = f" ({seen.unseen})" if seen is not None and seen.unseen else ""
            return f"it has no {clean(marker.file, 120)}{why}"
        if marker.holds is not None and marker.holds not in seen.text:
            return f"{clean(marker.file, 120)} does not hold {clean(marker.holds, 80)}"
    if wanted.image is not None and wanted.image not in image_names(signs.release):
        return f"its os-release names {_named(signs)}, not the image {clean(wanted.image, 80)}"
    return ""


def _proof(signs: OsSigns, wanted: WantedSigns) -> str:
    parts = [] if wanted.marker is None else [
        f"{clean(wanted.marker.file, 120)} is there" if wanted.marker.holds is None
        else f"{clean(wanted.marker.file, 120)} holds {clean(wanted.marker.holds, 80)}"]
    return "; ".join([*parts, *([] if wanted.image is None else [f"its os-release names {_named(signs)}"])])


def _named(signs: OsSigns) -> str:
    names = image_names(signs.release)
    return f"the image {names[-1]}" if names else "no IMAGE_ID"


def _report(state: OsState, signs: OsSigns, message: str, advice: str = "") -> OsReport:
    return OsReport(state, clean(message, _MOST), signs.image, advice=advice)
