"""Runs the installed `muster` command as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from tests import forked

MUSTER = Path(sys.executable).parent / "muster"
# One for all tests, as a user has one for all commands: what is kept there is named by the digest of all that
# it was made of.
CACHE = Path(sys.prefix) / "muster-tests-cache"

# What Python and libraries read when they start, and muster as it is loaded: a command with such a variable
# is not forked.
AT_START = ("PYTHON", "LANG", "LC_", "LD_", "OPENSSL_", "MUSTER_ROOT")


def environment(home: Path, **more: str) -> dict[str, str]:
    """A clean environment: nothing of the developer's own configuration, state, cache or agent is seen."""
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "LANG", "TMPDIR")}
    return {**kept, "HOME": str(home), "MUSTER_STATE": str(home / "state"),
            "XDG_CACHE_HOME": str(CACHE), **more}


def muster(
    *words: str, home: Path, timeout: float = 60, code: int | None = None, **more: str,
) -> subprocess.CompletedProcess[str]:
    """The finished command, with its output as text; it must have ended with `code`, where that is given."""
    # the locale C is UTF-8 to Python, as here
    if any(name.startswith(AT_START) and value != "C" for name, value in more.items()):
        done = started(*words, home=home, timeout=timeout, **more)
    else:
        done = forked.run([str(MUSTER), *words], cwd=home, env=environment(home, **more), timeout=timeout)
    assert code in (None, done.returncode), (done.returncode, done.stdout, done.stderr)
    return done


def started(*words: str, home: Path, timeout: float = 60, **more: str) -> subprocess.CompletedProcess[str]:
    """The same, of a process that was started as a shell starts it: for what other processes see of it, and
    for what starting it takes."""
    return subprocess.run(
        [str(MUSTER), *words], cwd=home, env=environment(home, **more), text=True, capture_output=True,
        timeout=timeout, check=False,
        stdin=subprocess.DEVNULL,
    )


def running(
    *words: str, home: Path, out: int | IO[Any] = subprocess.DEVNULL, err: int | IO[Any] = subprocess.DEVNULL,
    **more: str,
) -> subprocess.Popen[str]:
    """The command at work, which its test ends."""
    return subprocess.Popen([str(MUSTER), *words], cwd=home, env=environment(home, **more), text=True,
                            stdin=subprocess.DEVNULL, stdout=out, stderr=err)


def unread(*words: str, home: Path, timeout: float = 60) -> int:
    """How the command ends whose standard output no one reads, as after `| head`."""
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        return subprocess.run([str(MUSTER), *words], cwd=home, env=environment(home),
                              timeout=timeout, check=False,
                              stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL).returncode
    finally:
        os.close(theirs)
