"""Host files of launchers: one host per line, followed by the launcher's options.

    gpu001 slots=8          Open MPI (mpirun --hostfile), DeepSpeed
    gpu001:8                MPICH and Intel MPI (-f)
    gpu001                  torchrun's own wrappers, pdsh
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from inventory.errors import UsageError
from inventory.nodeset import NAME, expand
from inventory.text import short

_LARGEST = 16 * 1024 * 1024


def read_hosts(path: Path) -> dict[str, str]:
    """Its hosts in order, each once, with the rest of the line. Raises UsageError with file and line."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as trouble:
        raise UsageError(f"--hostfile {path}: {trouble.strerror}") from None
    if len(data) > _LARGEST:
        raise UsageError(f"--hostfile {path}: over {_LARGEST} bytes, too large for a host file")
    found: dict[str, str] = {}
    for number, line in enumerate(data.decode("utf-8-sig", "replace").split("\n"), 1):
        words = line.partition("#")[0].split(None, 1)
        if not words:
            continue
        name, colon, slots = words[0].partition(":")
        rest = f"{colon}{slots}" + (f" {words[1].rstrip()}" if len(words) > 1 else "")
        for each in [name] if NAME.fullmatch(name) else _names(name, path, number):
            found.setdefault(each, rest)
    return found


def write_hosts(
    path: Path, nodes: Sequence[str], rests: Mapping[str, str], instead: Mapping[str, str],
) -> None:
    """Writes these nodes; a spare gets the options of the host that it replaces."""
    from healthcheck.config.files import write_whole

    usual = next(iter(rests.values()), "")
    lines = [f"{name}{rests.get(name, rests.get(instead.get(name, ''), usual))}\n" for name in nodes]
    try:
        write_whole(path, "".join(lines).encode(), 0o644)
    except OSError as trouble:
        raise UsageError(f"--write-hostfile {path}: {trouble.strerror}") from None


def _names(text: str, path: Path, number: int) -> Sequence[str]:
    from inventory.errors import InventoryError

    try:
        return expand(text)
    except InventoryError:
        raise UsageError(f"--hostfile {path}:{number}: expected a host's name, got {short(text)}") from None
