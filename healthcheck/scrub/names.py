"""The sensitive words of a recording: learned one by one, then searched everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable

from healthcheck.scrub import patterns as forms
from healthcheck.scrub.classify import is_ip, is_public, is_volume
from healthcheck.scrub.vocabulary import vocabulary
from healthcheck.scrub.words import ENGINE, ORDINARY, TLDS

_SIBLINGS = 100


class SensitiveNames:
    """Words by kind. `kinds` has them in small letters, `digits` the hexadecimal
    digits of identifiers that were seen as such."""

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {}
        self.digits: set[str] = set()
        self.sibling: re.Pattern[str] | None = None
        self._siblings: list[str] = []
        self._variants: dict[str, str] = {}
        self._lengths: dict[str, list[int]] = {}

    def learn(self, kind: str, word: str) -> None:
        """A word to replace wherever it stands alone, unless it is one that machines use themselves."""
        word = word.strip().strip(".,'\"")
        low = word.lower()
        least = 8 if word.isdigit() else 3 if kind in ("user name", "host name") else 4
        if (len(word) < least or len(word) > 400 or low in ORDINARY
            or (kind == "plug-in name" and low in ENGINE)
            or low in self.kinds or not any(c.isalnum() for c in word)):
            return
        if (is_ip(word)
            or re.fullmatch(r"[0-9a-fA-F]{2,4}(?::[0-9a-fA-F]{2})*(?:\.\d)?|v?[\d.]+|/dev/[a-z]+\d*\w*",
                            word)):
            return
        self.kinds[low] = kind

    def learn_host(self, name: str) -> None:
        """A host with its domain, its siblings by number, and the site that both may be called after."""
        name = name.strip().strip("[]<>.").lower()
        if not name or is_ip(name) or name in ORDINARY or is_public(name):
            return
        first, _, domain = name.partition(".")
        if forms.UNIT.search(name):
            return
        if (domain and re.fullmatch(rf"(?i)[\w-]+(?:\.[\w-]+)*|{TLDS}", domain)
            and not domain.replace(".", "").isdigit()):
            if "." in domain:
                self.learn("domain name", domain)
            else:
                self.learn("domain name", name)
            for label in name.split(".")[1 if "." in domain else 0:-1]:
                self._learn_site(label)
        if not domain or "." in domain:
            self.learn("host name", first)
            stem = first.rstrip("0123456789")
            digits = len(first) - len(stem)
            if digits >= (3 if stem.strip("-_") in ORDINARY else 2) and len(stem) >= 2:
                self._siblings.append(rf"{re.escape(stem)}\d{{{digits}}}")
            if "-" in stem or "_" in stem:
                for part in re.split(r"[-_]", stem):
                    self._learn_site(part)

    def _learn_site(self, label: str) -> None:
        label = label.strip("0123456789")
        if len(label) >= 4 and label.isalpha() and label not in vocabulary():
            self.learn("site name", label)

    def learn_path(self, path: str) -> None:
        """Whose home it is in, and the words of its parts."""
        if (path.startswith(forms.KERNEL_TREES) and not path.startswith(forms.NAMED_VOLUMES)
            and not is_volume(path)):
            return
        parts = path.split("/")
        for parent, part in zip(["", *parts], parts, strict=False):
            if not part or part.lower() in ORDINARY:
                continue
            if parent in forms.HOME:
                self.learn("user name", part)
                continue
            for piece in forms.PARTS.split(part)[::2]:
                stem = piece.lower().rstrip("0123456789")
                if (stem not in ORDINARY and piece.lower() not in ORDINARY and len(piece) >= 4
                    and forms.NAMES.fullmatch(piece)):
                    self.learn("path name", piece)

    def index(self) -> None:
        """Words by how they begin, so that a long log costs as much with ten thousand of them as with ten."""
        self._variants = {variant: word for word in self.kinds for variant in _variants(word)}
        lengths: dict[str, set[int]] = {}
        for variant in self._variants:
            lengths.setdefault(variant[:2], set()).add(len(variant))
        self._lengths = {begin: sorted(found, reverse=True) for begin, found in lengths.items()}
        siblings = "|".join(dict.fromkeys(self._siblings[:_SIBLINGS]))
        self.sibling = re.compile(rf"(?i)(?<![a-z0-9])(?:{siblings})(?![a-z0-9])") if siblings else None

    def found(self, line: str) -> Iterable[tuple[int, int]]:
        """Where learned words stand, from left to right; a word of letters may touch digits,
        but no letters."""
        low = line.lower()
        low = low if len(low) == len(line) else line
        end = 0
        for match in forms.BEGIN.finditer(low):
            at = match.start()
            for length in self._lengths.get(low[at: at + 2], ()) if at >= end else ():
                word = low[at: at + length]
                if word in self._variants and not _touches(word[-1], low[at + length: at + length + 1]):
                    end = at + length
                    yield at, end
                    break

    def plain(self, word: str) -> str:
        """The learned word that this is a way to write, in small letters."""
        low = word.lower()
        return self._variants.get(low, low)


def _touches(last: str, following: str) -> bool:
    return following.isascii() and (following.isalpha() if last.isalpha() else following.isalnum())


def _variants(word: str) -> Iterable[str]:
    """A word as the kernel's log, mountinfo, device mapper and systemd write it."""
    yield word
    if "-" in word:
        yield word.replace("-", "--")
        yield word.replace("-", "\\x2d")
    if any(ord(c) > 126 or ord(c) < 33 for c in word):
        raw = word.encode("utf-8", "surrogateescape" if not any(0xD800 <= ord(c) < 0xDC80 for c in word)
                          else "replace")
        yield "".join(chr(b) if 32 < b < 127 else f"\\x{b:02x}" for b in raw)
        yield "".join(chr(b) if 32 < b < 127 else f"\\{b:03o}" for b in raw)
