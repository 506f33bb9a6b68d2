"""paramiko, imported so that neither its warnings nor its log ever reach the user's terminal, and without what nobody here asks of it."""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def _absent(name: str) -> Iterator[None]:
    """Whoever imports that module inside is told that it is not installed."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


# paramiko takes invoke where it is there, for `Match exec` of its own reader of ssh_config, which ours stands in for; loading it takes
# two fifths of the time that paramiko takes to load.
with warnings.catch_warnings(), _absent("invoke"):
    # Older pairs of paramiko and cryptography warn about TripleDES at import; nobody here can do anything about it.
    warnings.simplefilter("ignore")
    import paramiko
    from paramiko.packet import Packetizer

# Without a handler, Python prints a library's errors to standard error. A level also spares formatting them.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)
logging.getLogger("paramiko").propagate = False

__all__ = ["Packetizer", "paramiko"]
