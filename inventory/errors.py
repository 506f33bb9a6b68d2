"""The tree of errors that a user can meet; any other exception that reaches the top is a bug in muster.

    MusterError                      a person can fix it; shown as one line, never as a traceback
    ├── UsageError                   the command line asks for something impossible (exit 2)
    ├── StoreError                   the store of sweeps cannot be opened, read or written (exit 2)
    │   └── StoreMoved               another head has it by now; this one no longer acts (exit 2)
    ├── CertificateError             a key, certificate or snapshot cannot be made or trusted (exit 2)
    └── ConfigError                  a given file is wrong (exit 2)
        ├── InventoryError           the inventory file, a node set, a group
        └── RulesError               a rule, SKU or policy file

What happens on a node is never an exception: it is a value (a `Reply` with a failed stage, a `Capture` with
an outcome).
"""

from __future__ import annotations

import errno
from typing import NamedTuple

# What the machine that muster runs on lacks for a moment, and may have again: descriptors, memory, buffers.
LACKING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)


class Mark(NamedTuple):
    """A place in a file; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class MusterError(Exception):
    """Something a person can fix; the text is one line: what is wrong and, where it helps, what to type."""

    exit_code = 2


class UsageError(MusterError):
    """The command line asks for something impossible."""


class StoreError(MusterError):
    """The store of sweeps cannot be opened, read or written; its content is unchanged."""


class StoreMoved(StoreError):
    """The store was moved to another head, and this one must not act any more."""


class CertificateError(MusterError):
    """A key, the manifest of certificates or the snapshot cannot be made or trusted; nothing changed."""


class ConfigError(MusterError):
    """A file we were given is wrong: where, which key, and what was expected."""

    def __init__(self, message: str, mark: Mark | None = None) -> None:
        super().__init__(message if mark is None else f"{mark}: {message}")
        self.mark = mark


class InventoryError(ConfigError):
    """The inventory file, a node set or a group is wrong."""


class RulesError(ConfigError):
    """A rule, SKU or policy file is wrong."""
