"""Paths and what is written with them: mountinfo, what is mounted,
swap areas and the kernel's command line."""

from __future__ import annotations

import re

from healthcheck.facts.filesystem import PSEUDO
from healthcheck.scrub import patterns as forms
from healthcheck.scrub.classify import (
    escape,
    fstab_fields,
    is_secret,
    is_volume,
    mount_fields,
    servers,
    unescape,
)
from healthcheck.scrub.engine import Scrubber
from healthcheck.scrub.words import ORDINARY, STANDARD

_COMMON = ORDINARY | STANDARD


def scrubbed(scrubber: Scrubber, path: str) -> str:
    """A path, whose parts give way unless they are what paths are made of everywhere."""
    if (path.startswith(forms.KERNEL_TREES) and not path.startswith(forms.NAMED_VOLUMES)
        and not is_volume(path)):
        return scrubber.text(path)
    parts = path.split("/")
    return "/".join(_component(scrubber, part, parent)
                    for parent, part in zip(["", *parts], parts, strict=False))


def _component(scrubber: Scrubber, part: str, parent: str) -> str:
    if not part or part.lower() in ORDINARY:
        return part
    if parent in forms.HOME:
        return scrubber.user(part)
    return scrubber.text(part) if scrubber.worked(part, words=False) != part else pieces(scrubber, part)


def pieces(scrubber: Scrubber, part: str) -> str:
    """One part of a path, whose words give way."""
    if part.lower() in scrubber.names.kinds:
        return scrubber.word(part)
    return "".join(piece if at % 2 else _piece(scrubber, piece)
                   for at, piece in enumerate(forms.PARTS.split(part)))


def _piece(scrubber: Scrubber, piece: str) -> str:
    low = piece.lower()
    stem = low.rstrip("0123456789")
    if not stem or len(piece) < 2 or not _COMMON.isdisjoint((stem, low)):
        return piece
    return scrubber.word(piece) if low in scrubber.names.kinds else scrubber.named("path name", piece)


def mountinfo(scrubber: Scrubber, text: str) -> str:
    """The lines of mountinfo (proc(5)), whose mount points and sources stay one word each."""
    lines = []
    for line in text.split("\n"):
        fields = mount_fields(line)
        if fields is None:
            lines.append(scrubber.text(line))
            continue
        left, right = fields
        left[3], left[4] = (escape(scrubbed(scrubber, unescape(path))) for path in (left[3], left[4]))
        if right[0] not in PSEUDO:
            right[1] = escape(source(scrubber, unescape(right[1])))
        right[2] = ",".join(escape(_option(scrubber, unescape(option)))
                            for option in " ".join(right[2:]).split(","))
        lines.append(" - ".join((" ".join(left), " ".join(right[:3]))))
    return "\n".join(lines)


def fstab(scrubber: Scrubber, text: str) -> str:
    """The lines of fstab(5): source, mount point and options give way as those of mountinfo do,
    lest one name the other."""
    lines = []
    for line in text.split("\n"):
        fields = fstab_fields(line)
        if fields is None:
            lines.append(scrubber.text(line))
            continue
        if unescape(fields[5]) not in PSEUDO:
            fields[1] = escape(source(scrubber, unescape(fields[1])))
        fields[3] = escape(scrubbed(scrubber, unescape(fields[3])))
        if len(fields) > 7:
            fields[7] = ",".join(escape(_option(scrubber, unescape(option)))
                                 for option in fields[7].split(","))
        lines.append("".join(fields))
    return "\n".join(lines)


def source(scrubber: Scrubber, source: str) -> str:
    """What is mounted: a device, server:/export, //server/share, a data set,
    or a word of the file system's own."""
    if source.startswith("//"):
        server, slash, share = source[2:].partition("/")
        return f"//{scrubber.host(server)}{slash}{scrubbed(scrubber, share)}"
    server, colon, path = source.partition(":/")
    if forms.BY_MARK.match(source):
        return scrubber.text(source)
    if served := servers(source):
        named = ""
        for login, host, network, separator in served:
            user = scrubber.user(login[:-1]) + "@" if login else ""
            named += user + (host if host.isdigit() else scrubber.host(host)) + network + separator
        return f"{named}:{scrubbed(scrubber, '/' + path)}"
    if colon and "/" not in server:
        user, at, name = server.rpartition("@")
        named = (scrubber.host(name) if forms.NAMES.fullmatch(name) and "," not in name
                 else scrubber.text(name))
        return f"{scrubber.user(user) + at if at else ''}{named}:{scrubbed(scrubber, '/' + path)}"
    return scrubbed(scrubber, source)


def _option(scrubber: Scrubber, option: str) -> str:
    key, equals, value = option.partition("=")
    if key in forms.HOST_OPTIONS:
        return key + equals + scrubber.host(value)
    if value.startswith("/") or "/" in value:
        return key + equals + ":".join(scrubbed(scrubber, part) for part in value.split(":"))
    if key in ("user", "username", "domain", "fsname", "name", "mds_namespace", "clientname"):
        return key + equals + (scrubber.user(value) if value.lower() not in ORDINARY else value)
    return scrubber.text(option)


def swap(scrubber: Scrubber, line: str) -> str:
    """A line of /proc/swaps."""
    path = line.split()[0] if line.startswith("/") else ""
    return escape(scrubbed(scrubber, unescape(path))) + line[len(path):] if path else scrubber.text(line)


def command_line(scrubber: Scrubber, text: str) -> str:
    """The kernel's command line: values that are none of the kernel's own common words give way."""
    words = []
    for word in re.split(r"(\s+|\"$)", text):
        key, equals, value = word.partition("=")
        if value.startswith("/"):
            words.append(key + equals + scrubbed(scrubber, value))
        elif ":/" in value and "://" not in value:
            words.append(key + equals + source(scrubber, value))
        elif forms.VOLUMES.fullmatch(key) and not re.match(r"(?:PART)?(?:UUID|LABEL)=", value):
            words.append(key + equals + scrubbed(scrubber, value))
        elif is_secret(key, value):
            words.append(key + equals + scrubber.opaque("secret", value))
        else:
            words.append(scrubber.text(word))
    return "".join(words)
