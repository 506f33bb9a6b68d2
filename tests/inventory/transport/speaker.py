"""A small program that speaks the frame protocol and does what its payload, Python source, says."""

from __future__ import annotations

import textwrap

from inventory.transport.base import Program

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
