"""Compiles the demo's two small C libraries, once, into a cache folder keyed by their source."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from inventory.errors import MusterError

_HERE = Path(__file__).parent
_FLAGS = ("-std=gnu11", "-O1", "-fPIC", "-shared", "-pthread", "-Wall", "-Wextra")
NVML = "libnvidia-ml.so.1"
SYSCALLS = "libmuster-syscalls.so"
_SOURCES = {NVML: "nvml.c", SYSCALLS: "syscalls.c"}


@dataclass(frozen=True)
class Libraries:
    """Where the compiled libraries are: `folder` goes into LD_LIBRARY_PATH, `syscalls` into LD_PRELOAD."""

    folder: Path

    @property
    def nvml(self) -> Path:
        """The stand-in for NVIDIA's management library."""
        return self.folder / NVML

    @property
    def syscalls(self) -> Path:
        """The shim that answers statvfs and adjtimex from a node's tree."""
        return self.folder / SYSCALLS


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/muster/demo, or ~/.cache/muster/demo."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "muster" / "demo"


def build(cache: Path | None = None) -> Libraries:
    """The libraries, compiled unless this source was with this compiler; the folder appears whole, by a
    rename, so builds do not disturb each other. Raises MusterError without a compiler, or when it refuses."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise MusterError("the demo needs a C compiler; type: apt-get install -y gcc libc6-dev")
    digest = hashlib.sha256("\0".join((os.path.realpath(compiler), *_FLAGS)).encode())
    for source in _SOURCES.values():
        digest.update((_HERE / source).read_bytes())
    cache = cache_folder() if cache is None else cache
    libraries = Libraries(cache / digest.hexdigest()[:16])
    if libraries.nvml.exists() and libraries.syscalls.exists():
        return libraries
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            fresh = Path(folder, "built")
            fresh.mkdir()
            for library, source in _SOURCES.items():
                _compile(compiler, _HERE / source, fresh / library)
            try:
                fresh.rename(libraries.folder)
            except OSError:
                if not libraries.nvml.exists():
                    raise
    except OSError as error:
        raise MusterError(f"cannot keep compiled files in {cache}: {error.strerror}") from error
    return libraries


def _compile(compiler: str, source: Path, library: Path) -> None:
    command = [compiler, *_FLAGS, f"-Wl,-soname,{library.name}", "-o", str(library), str(source), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        lines = ([line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
                 or ["no message"])
        hint = "; type: apt-get install -y gcc libc6-dev" if "No such file" in done.stderr else ""
        raise MusterError(f"{compiler} cannot compile {source.name}: {lines[0][:200]}{hint}")
