"""Passwords that muster makes for controllers, and where they are kept: a file for each machine, its owner's
alone, or the site's keyring, by a program that reads it on standard input. A new password has a place of its
own, beside the one that works, until the controller has been seen to take it."""

from __future__ import annotations

import contextlib
import os
import secrets
import string
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from healthcheck.config.files import make_folder, write_whole
from healthcheck.config.synced import sync_folder
from inventory.errors import MusterError
from inventory.model import Node, Secret, SecretFrom
from inventory.text import clean, short
from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.bmc.credentials import COMMAND_S, Hidden, NoSuchPassword, run_hidden, secret

NEXT, OPERATOR = ".next", ".operator"
# IPMI 2.0 (22.30) keeps 20 bytes, many of its tools 16; below eight no maker takes one.
LEAST, MOST, USUAL = 8, 20, 16
# What all makers' rules take and no tool reads as something else (ipmitool's exec: quotes, spaces, #).
_MARKS = "-_."
_KINDS = (string.ascii_lowercase, string.ascii_uppercase, string.digits, _MARKS)
# Characters that look like another are left out: somebody may have to type it at a console.
_LIKE = frozenset("0O1lI")
_ALL = "".join(sorted(set("".join(_KINDS)) - _LIKE))


@dataclass(frozen=True)
class PasswordRules:
    """How many characters a controller takes (Redfish: AccountService, MinPasswordLength and
    MaxPasswordLength; 0 where it does not say)."""

    least: int = 0
    most: int = 0


def random_password(length: int, rules: PasswordRules) -> Hidden:
    """A password of so many characters, or as near as the rules let it: of each kind one at least, none twice
    in a row, and it begins with a letter. Raises BmcError(REFUSED) for rules that leave no room."""
    count = max(length, rules.least)
    if rules.most:
        count = min(count, rules.most)
    if not max(LEAST, rules.least) <= count <= MOST:
        raise BmcError(
            BmcErrorReason.REFUSED, f"it takes passwords of {rules.least} to {rules.most or 'any number of'} "
            f"characters, and muster makes them of {LEAST} to {MOST}, which IPMI has room for", False)
    while True:
        text = "".join(secrets.choice(_ALL) for _ in range(count))
        if (text[0] in string.ascii_letters and all(set(text) & set(kind) for kind in _KINDS)
                and not any(one == other for one, other in pairwise(text))):
            return Hidden(text)


class PasswordStore(Protocol):
    """Passwords by entry: a node's name, or that with NEXT, OPERATOR behind it."""

    def get(self, entry: str) -> Hidden | None:
        """The password; None where there is none. Raises BmcError for one that cannot be read."""

    def put(self, entry: str, password: Hidden) -> None:
        """Keeps it, beyond a crash. Raises BmcError(NO_SECRET)."""

    def forget(self, entry: str) -> None:
        """It is kept under another name by now."""


class FolderStore:
    """A file for each entry, mode 0600, written whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, entry: str) -> Hidden | None:
        """See PasswordStore."""
        path = self._folder / entry
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as problem:
            raise BmcError(
                BmcErrorReason.NO_SECRET, f"{clean(path)} cannot be read: {problem.strerror}") from None
        return secret(Secret(SecretFrom.FILE, (str(path),)), entry)

    def put(self, entry: str, password: Hidden) -> None:
        """See PasswordStore."""
        try:
            make_folder(self._folder, "passwords")
            write_whole(self._folder / entry, f"{password.text}\n".encode())
            sync_folder(str(self._folder))
        except (OSError, MusterError) as problem:
            why = getattr(problem, "strerror", None) or problem
            raise BmcError(
                BmcErrorReason.NO_SECRET, f"a new password cannot be kept in {clean(self._folder)}: "
                f"{clean(why, 120)}") from None

    def forget(self, entry: str) -> None:
        """See PasswordStore."""
        with contextlib.suppress(OSError):
            (self._folder / entry).unlink()


class KeyringStore:
    """The site's own keeper of passwords. `words` is a program that keeps what comes on its standard input
    (one line), `read` is the inventory's way to read one; `{node}` in both is the entry."""

    def __init__(self, words: tuple[str, ...], read: Secret) -> None:
        self._words = words
        self._read = read

    def get(self, entry: str) -> Hidden | None:
        """See PasswordStore; a program that says so by its exit code, or prints nothing, has none. One that
        does not start or end has said nothing."""
        try:
            return secret(self._read, entry)
        except NoSuchPassword:
            return None

    def put(self, entry: str, password: Hidden) -> None:
        """See PasswordStore."""
        words = tuple(word.replace("{node}", entry) for word in self._words)
        _handed(words, f"{password.text}\n".encode())

    def forget(self, entry: str) -> None:
        """It stays there: it is the same as the one that counts, or one that the controller did not take."""


def _handed(words: tuple[str, ...], data: bytes) -> None:
    """Runs a program with this on its standard input."""
    _, status = run_hidden(words, data, f"did not keep a password within {COMMAND_S:g} s")
    if status != 0:
        raise BmcError(BmcErrorReason.NO_SECRET, f"{short(words[0])} kept no password: it ended with exit "
                       f"code {status}; run it by hand to see why")


def store_of(node: Node, folder: Path | None, words: tuple[str, ...] | None) -> tuple[PasswordStore, str]:
    """Where a node's password is kept, and the entry that the inventory reads: what is written must be what
    every other command reads. Raises BmcError(NO_SECRET), in one line that says what to do."""
    read = node.bmc.secret if node.bmc is not None else None
    if folder is not None:
        wanted = f'bmc: {{password: {{file: "{clean(folder)}/{{node}}"}}}}'
        path = (Path(os.path.abspath(read.words[0].replace("{node}", node.name)))      # noqa: PTH100
                if read is not None and read.source is SecretFrom.FILE else None)
        if path is None or path.parent != folder or path.name not in (node.name, node.name + OPERATOR):
            raise BmcError(
                BmcErrorReason.NO_SECRET, f"the inventory does not read the password of {node.name} from "
                f"where it would be kept; say there: {wanted}")
        return FolderStore(folder), path.name
    assert words is not None  # noqa: S101  (the policy has one of the two)
    if (read is None or read.source is not SecretFrom.COMMAND
            or not any("{node}" in word for word in read.words)):
        raise BmcError(
            BmcErrorReason.NO_SECRET, f"the inventory does not read the password of {node.name} from the "
            "keyring; say there: bmc: {password: {command: [PROGRAM, ..., \"{node}\"]}}")
    return KeyringStore(words, read), node.name
