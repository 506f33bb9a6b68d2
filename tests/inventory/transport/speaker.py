"""A small program that speaks the frame protocol and does what its payload, Python source, says."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from inventory.transport.base import Program
from tests.testbed.processes import alive
from tests.testbed.sshd import wait_until

# One line, and no quote, dollar or exclamation mark that a login shell could take for its own.
LOADER = (
    "import sys;N=sys.argv[1];"
    "sys.stdout.write(\"muster:%s:python %d.%d\\n\"%((N,)+sys.version_info[:2]));sys.stdout.flush();"
    "I=sys.stdin.buffer;S=I.read(int(I.readline()));exec(compile(S,\"payload\",\"exec\"))"
)

_HELPERS = '''
import hashlib, os, sys, time
OUT = sys.stdout.buffer
def line(text):
    OUT.write(("muster:%s:%s\\n" % (N, text)).encode()); OUT.flush()
def answer(body, size=None, digest=None):
    line("frame %d %s" % (len(body) if size is None else size, digest or hashlib.sha256(body).hexdigest()))
    OUT.write(body); OUT.flush()
def want(name):
    line("want " + name)
    return I.read(int(I.readline()))
def until_end():
    I.read()
'''


def speaker(
    source: str = "answer(b'well')", *, nonce: str = "0123456789abcdef",
    extras: dict[str, bytes] | None = None,
) -> Program:
    """A program that runs `source` with the helpers line, answer, want and until_end."""
    text = (_HELPERS + textwrap.dedent(source)).encode()
    return Program(nonce, LOADER, b"%d\n%s" % (len(text), text), extras or {})


def waits(note: Path, how: str = "until_end()") -> str:
    """For a speaker: it writes its process's number there, and waits."""
    return f"open({str(note)!r}, 'w').write(str(os.getpid())); {how}"


def noted(note: Path) -> int:
    """The process that has written its number there."""
    wait_until(lambda: note.exists() and note.read_text(), what="the program at work")
    return int(note.read_text())


def gone(note: Path) -> None:
    pid = noted(note)
    wait_until(lambda: not alive(pid), 20, "the end of the program")


def killed(client: subprocess.Popen[Any], note: Path) -> None:
    """Once its program is at work the client is killed, and the program ends."""
    noted(note)
    client.kill()
    client.communicate(timeout=10)
    gone(note)


def head(transport: str, note: Path) -> subprocess.Popen[bytes]:
    """A process that has that transport, MODULE.CLASS, run what waits on gpu001."""
    module, name = transport.split(".")
    return subprocess.Popen(
        [sys.executable, "-c", f"""import sys
from inventory.model import Node; from inventory.transport.base import Limits
from inventory.transport.{module} import {name}; from tests.inventory.transport.speaker import speaker
list({name}().run([Node('gpu001', python=sys.executable)], speaker({waits(note)!r}), Limits()))"""],
        env={**os.environ, "PYTHONPATH": str(Path.cwd())})
