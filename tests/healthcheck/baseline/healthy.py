"""Reads the kernel logs of real machines that tests/recordings/kernel/healthy names, and which of their lines
are truly faults."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

import yaml

HEALTHY = Path(__file__).resolve().parents[2] / "recordings" / "kernel" / "healthy"
ELSEWHERE = "MUSTER_KERNEL_LOGS"        # a folder with the published logs, which are not ours to copy
NEEDED = frozenset({"name", "machine", "form", "lines", "truly_bad"})
RANGE = re.compile(r"(\d+)(?:-(\d+))?")


@dataclass(frozen=True)
class Healthy:
    """A log, whole: `truly_bad` are the numbers of its lines (from 1) that tell of a fault, each with the
    reason. `url` is empty for ours."""

    name: str
    machine: str
    form: str
    length: int
    truly_bad: dict[int, str]
    url: str = ""
    sha256: str = ""

    def path(self) -> Path | None:
        """Where it lies, plain or as .gz; None for a published log that no one put into the folder."""
        folders = ([HEALTHY] if not self.url else [Path(os.environ[ELSEWHERE])] if os.environ.get(ELSEWHERE)
                   else [])
        files = [folder / (self.name + end) for folder in folders for end in ("", ".gz")]
        return next((file for file in files if file.is_file()), None)

    def data(self) -> bytes:
        """Its bytes as they were published. Raises ValueError when it is not there, or is another."""
        path = self.path()
        if path is None:
            raise ValueError(f"{self.name}: not there: put {self.url} into the folder that {ELSEWHERE} "
                             f"names, as {self.name}")
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        if self.sha256 and hashlib.sha256(data).hexdigest() != self.sha256:
            raise ValueError(
                f"{path}: not the log that was looked through: its SHA-256 differs; fetch {self.url} again")
        return data


def healthy(folder: Path = HEALTHY) -> tuple[Healthy, ...]:
    """Every log that logs.yaml names. Raises ValueError, one line, for an entry that is not of the form."""
    file = folder / "logs.yaml"
    return tuple(_log(f"{file}: log {number}", entry)
                 for number, entry in enumerate(yaml.safe_load(file.read_text(encoding="utf-8"))["logs"], 1))


def there() -> tuple[Healthy, ...]:
    """Those logs that can be read here: ours, and the published ones that someone fetched."""
    return tuple(log for log in healthy() if log.path())


def _log(where: str, entry: object) -> Healthy:
    if not isinstance(entry, dict) or not NEEDED <= set(entry) <= NEEDED | {"url", "sha256"}:
        raise ValueError(
            f"{where}: expected the keys {', '.join(sorted(NEEDED))}, and url and sha256 for a published log")
    if ("url" in entry) != ("sha256" in entry):
        raise ValueError(f"{where}: url and sha256 go together")
    bad: dict[int, str] = {}
    for item in entry["truly_bad"]:
        found = RANGE.fullmatch(str(item["lines"]))
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= first <= last <= entry["lines"]:
            raise ValueError(
                f"{where}: truly_bad: expected lines of the log, such as 12 or 12-14, not {item['lines']}")
        bad.update(dict.fromkeys(range(first, last + 1), item["why"]))
    return Healthy(entry["name"], entry["machine"], entry["form"], entry["lines"], bad, entry.get("url", ""),
                   entry.get("sha256", ""))
