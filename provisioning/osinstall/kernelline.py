"""What on a kernel's command line says that an installer or live system was booted, or that the root file
system is on no disk. An installer keeps words behind `---` for the installed system's own command line, and
drops the `---` (Debian installation guide, 5.3.3). A system that was left one of these words so cannot be
distinguished from an installer by its command line, and needs a marker."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase

from inventory.text import clean

MOST_WORDS = 512


class Booted(Enum):
    """What a word on the command line says."""

    INSTALLER = "an installer or a live system"
    STATELESS = "a root file system that is not on a disk of the machine"


@dataclass(frozen=True)
class Sign:
    """A glob over a whole word, what it says, and who documents it."""

    glob: str
    booted: Booted
    source: str


@dataclass(frozen=True)
class Token:
    """A word that was found, clean, with what it says."""

    word: str
    sign: Sign


SIGNS = (
    Sign("boot=casper", Booted.INSTALLER, "casper(7): Ubuntu's live system, in which its installer runs"),
    Sign("autoinstall", Booted.INSTALLER, "Ubuntu, Autoinstall: consent to an installation"),
    Sign("boot=live", Booted.INSTALLER, "live-boot(7): Debian's live system"),
    Sign("preseed/*", Booted.INSTALLER, "Debian installation guide, B.2: a preconfiguration file"),
    Sign("preseed=*", Booted.INSTALLER, "Debian installation guide, B.2"),
    Sign("auto-install/*", Booted.INSTALLER, "Debian installation guide, B.2.3"),
    Sign("debian-installer/*", Booted.INSTALLER, "Debian installation guide, 5.3"),
    Sign("inst.*", Booted.INSTALLER, "Anaconda, boot-options.rst: each of the installer's own begins so"),
    Sign("ks=*", Booted.INSTALLER, "Anaconda, boot-options.rst: a kickstart file, before inst.ks"),
    Sign("rd.live.*", Booted.INSTALLER, "dracut.cmdline(7), Booting live images"),
    Sign("root=live:*", Booted.INSTALLER, "dracut.cmdline(7), Booting live images"),
    Sign("autoyast=*", Booted.INSTALLER, "SUSE, AutoYaST guide: invoking the installation"),
    Sign("coreos.inst.*", Booted.INSTALLER, "coreos-installer: its options in a live system"),
    Sign("root=squash:*", Booted.STATELESS, "MAAS, kernel options of its ephemeral system"),
    Sign("overlayroot=tmpfs*", Booted.STATELESS, "overlayroot(8): what is written is lost"),
    Sign("root=/dev/nfs", Booted.STATELESS, "Linux, admin-guide/nfs/nfsroot"),
    Sign("nfsroot=*", Booted.STATELESS, "Linux, admin-guide/nfs/nfsroot"),
    Sign("root=nfs:*", Booted.STATELESS, "dracut.cmdline(7), NFS"),
    Sign("root=nfs4:*", Booted.STATELESS, "dracut.cmdline(7), NFS"),
    Sign("wwinit.*", Booted.STATELESS, "Warewulf 4, dracut/modules.d/90wwinit: its image is the root"),
)


def words(line: str) -> tuple[str, ...]:
    """The words for the kernel and the system that it booted, at most so many: quotes hold spaces, as
    in the kernel's parser (Linux, lib/cmdline.c), and are dropped."""
    found: list[str] = []
    word, quoted, begun = "", False, False
    for letter in f"{line} ":
        if letter == '"':
            quoted, begun = not quoted, True
        elif letter.isspace() and not quoted:
            if begun:
                found.append(word)
            word, begun = "", False
        else:
            word, begun = word + letter, True
    if begun:
        found.append(word.rstrip())
    return tuple(found[:MOST_WORDS])


def tokens(line: str) -> tuple[Token, ...]:
    """The words that say who was booted, in their order."""
    return tuple(Token(clean(word, 80), sign) for word in words(line) for sign in SIGNS
                 if fnmatchcase(word, sign.glob))
