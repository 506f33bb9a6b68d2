"""Compiles the agent's code once with this machine's Python, instead of in each run. Python 3.8.

Python does not cache compiled modules of a zip file, and compiling is most of a run's cost. So the first run
writes a second zip file of compiled modules into the state folder, and later runs use it. If that file is
bad, the original is still there.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import marshal
import os
import sys
import zipfile
from pathlib import Path

from healthcheck.agent.keep import Unkept, whole

CODE = "code"
# Compiled, and never compared with a source (PEP 552).
_FLAGS = (1).to_bytes(4, "little") + bytes(8)


def use(archive: Path, state: Path) -> None:
    """Loads further modules from the compiled copy, which it makes if missing."""
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    copy = state / CODE / f"{digest[:16]}-{sys.implementation.cache_tag}.zip"
    # Path.is_file() raises where the folder cannot be read.
    if not os.path.isfile(copy):  # noqa: PTH113
        with contextlib.suppress(OSError, Unkept, SyntaxError, ValueError, zipfile.BadZipFile):
            _make(archive, copy)
    if os.path.isfile(copy):  # noqa: PTH113
        sys.path.insert(0, str(copy))
        for package in ("healthcheck", "healthcheck.agent"):
            sys.modules[package].__path__.insert(0, str(copy / package.replace(".", "/")))


def _make(archive: Path, copy: Path) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(made, "w") as target:
        for name in source.namelist():
            if name.endswith(".py") and name != "__main__.py":
                code = compile(source.read(name), name, "exec", dont_inherit=True)
                target.writestr(f"{name}c", importlib.util.MAGIC_NUMBER + _FLAGS + marshal.dumps(code))
    copy.parent.mkdir(0o700, exist_ok=True)
    for old in copy.parent.glob("*.zip"):
        old.unlink()
    whole(copy, made.getvalue(), 0o600)
