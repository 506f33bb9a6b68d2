"""paramiko, imported so that neither its warnings nor its log ever reach the user's terminal."""

from __future__ import annotations

import logging
import warnings

with warnings.catch_warnings():
    # Older pairs of paramiko and cryptography warn about TripleDES at import; nobody here can do anything about it.
    warnings.simplefilter("ignore")
    import paramiko
    from paramiko.packet import Packetizer

# Without a handler, Python prints a library's errors to standard error. A level also spares formatting them.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)
logging.getLogger("paramiko").propagate = False

__all__ = ["Packetizer", "paramiko"]
