"""What each boot of a machine showed, kept in the state folder as one whole file for each machine, so that a
killed run goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from healthcheck.config.files import make_folder, write_whole

FOLDER = "soak"
SCHEMA = "muster.soak/1"
BEFORE = "before"       # the kind of the first boot, which muster did not begin
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class BootRecord:
    """One boot. `restarted` is when its restart was accepted, `up` when its kernel began, `answered` when it
    first answered, None where no one was watching; epoch seconds of this head. `parts` are serial numbers by
    kind and slot, `whole` the kinds that were read completely; `pci` by address class, ids, link width and
    speed; `rules` by id status, owner and words; `forms` lines of the kernel's log that are errors, by id;
    `log`: whether it had its beginning, None where it was not read."""

    kind: str
    boot: str
    restarted: float | None
    up: float
    answered: float | None
    parts: Mapping[str, str]
    whole: tuple[str, ...]
    pci: Mapping[str, tuple[str, ...]]
    memory: int | None
    cpus: int | None
    rules: Mapping[str, tuple[str, str, str]]
    forms: Mapping[str, str]
    log: bool | None

    @property
    def seconds(self) -> float | None:
        """From the restart to the first answer, None where that was not measured."""
        if self.restarted is None or self.answered is None:
            return None
        return max(0.0, self.answered - self.restarted)


@dataclass(frozen=True)
class SoakRecord:
    """All boots of one try, the one before all restarts first. `coming` is the boot that is up and not judged
    yet, with when it first answered; `earlier` the boot with which the try before this one began, so that a
    fault that stayed is not taken for what the machine was like."""

    node: str
    sku: str
    tried: str
    kinds: tuple[str, ...]
    boots: tuple[BootRecord, ...] = ()
    coming: tuple[str, float | None] | None = None
    earlier: BootRecord | None = None


def path_of(folder: Path, node: str) -> Path:
    """Where the record of this machine lies."""
    return folder / FOLDER / f"{node}.json"


def write(folder: Path, record: SoakRecord) -> None:
    """Keeps it. Raises UsageError, OSError."""
    make_folder(folder / FOLDER, "records of restarts")
    document = {"schema": SCHEMA, **asdict(record)}
    write_whole(path_of(folder, record.node), json.dumps(document).encode())


def read(folder: Path, node: str) -> SoakRecord | None:
    """The newest of this machine; None where there is none that can be read."""
    return _read(path_of(folder, node))


def others(folder: Path, node: str, sku: str) -> Iterator[SoakRecord]:
    """Those of other machines of the same SKU."""
    with suppress(OSError):
        for path in sorted((folder / FOLDER).glob("*.json")):
            found = _read(path) if path.stem != node else None
            if found is not None and found.sku == sku:
                yield found


def _read(path: Path) -> SoakRecord | None:
    try:
        with path.open("rb") as file:
            document = json.loads(file.read(_MOST_BYTES))
        if document["schema"] != SCHEMA:
            return None
        coming, earlier = document["coming"], document.get("earlier")
        return SoakRecord(
            str(document["node"]), str(document["sku"]), str(document["tried"]), tuple(document["kinds"]),
            tuple(_boot(one) for one in document["boots"]),
            (str(coming[0]), coming[1]) if coming is not None else None,
            _boot(earlier) if earlier is not None else None)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
        return None


def _boot(held: Any) -> BootRecord:
    return BootRecord(
        held["kind"], held["boot"], held["restarted"], held["up"], held["answered"], held["parts"],
        tuple(held["whole"]), {at: tuple(values) for at, values in held["pci"].items()}, held["memory"],
        held["cpus"], {rule: (one[0], one[1], one[2]) for rule, one in held["rules"].items()}, held["forms"],
        held["log"])
