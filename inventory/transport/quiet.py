"""paramiko, imported without warnings and log output on the terminal, and without invoke."""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def _absent(name: str) -> Iterator[None]:
    """Makes imports of that module fail inside."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


# paramiko loads invoke if installed, for `Match exec` in its own ssh_config reader, which we do not use.
# Loading it takes two fifths of paramiko's load time.
with warnings.catch_warnings(), _absent("invoke"):
    # Older pairs of paramiko and cryptography warn about TripleDES at import;
    # users cannot do anything about it.
    warnings.simplefilter("ignore")
    import paramiko
    from paramiko.packet import Packetizer
    from paramiko.ssh_exception import IncompatiblePeer

# Without a handler, Python prints a library's errors to standard error. A level also spares formatting them.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)
logging.getLogger("paramiko").propagate = False

__all__ = ["IncompatiblePeer", "Packetizer", "paramiko"]
