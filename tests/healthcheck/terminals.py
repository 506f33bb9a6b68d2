"""What a command shows on a terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
from pathlib import Path

from tests.command import MUSTER, environment


def on_terminal(*words: str, home: Path, **more: str) -> str:
    """What the command prints on a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([str(MUSTER), *words], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
                          cwd=home,
                          env=environment(home, TERM="xterm-256color", COLUMNS="100", **more)) as child:
        os.close(theirs)
        read = b""
        with contextlib.suppress(OSError):      # Linux says so that the other end is closed
            while chunk := os.read(ours, 65536):
                read += chunk
        os.close(ours)
    assert child.returncode == 0, read.decode()
    return read.decode().replace("\r\n", "\n")
