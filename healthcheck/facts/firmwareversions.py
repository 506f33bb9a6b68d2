"""The firmware of a node's components in one snapshot: BIOS, GPUs (VBIOS), RDMA adapters, NVMe drives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from healthcheck.facts.base import BY_BUILDER, Captures, build_fact, subjects_of
from healthcheck.facts.firmware import Firmware, firmware
from healthcheck.facts.gpu import gpus
from healthcheck.facts.hca import hcas
from healthcheck.facts.nvme import nvmes
from healthcheck.facts.values import UNSUPPORTED, Unmeasured, reading
from healthcheck.model.firmware import MOST_COMPONENTS, SWEEP, ComponentVersion, FirmwareReading
from inventory.text import clean

# By kind: the fact, the word before a place, the field that names the place, and that of the version.
_PARTS: tuple[tuple[str, Callable[..., Any], str, str, str], ...] = (
    ("vbios", gpus, "gpu", "pci", "vbios"), ("hca", hcas, "hca", "pci", "firmware"),
    ("nvme", nvmes, "nvme", "device", "firmware"))
_MOST, _LONGEST = 80, 200


def firmware_reading(captures: Captures) -> FirmwareReading:
    """What of it was read. A kind is whole where every component of it was seen in its place, whether or not
    its version was."""
    board = build_fact(BY_BUILDER[firmware], captures)
    maker, versions, whole = "", [], set()
    if isinstance(board, Firmware):
        made_by = reading(board, "maker")
        maker = clean(made_by.strip(), _MOST) if isinstance(made_by, str) else ""
        versions.append(_version("bios", "bios", reading(board, "bios")))
        whole.add("bios")
    for kind, builder, word, place, field in _PARTS:
        subjects, complete = subjects_of(builder, captures)
        found = list(_of_kind(kind, subjects[:MOST_COMPONENTS], word, place, field))
        if complete and None not in found:
            whole.add(kind)
        versions += [one for one in found if one is not None]
    return FirmwareReading(maker, tuple(versions), frozenset(whole))


def _of_kind(
    kind: str, subjects: tuple[Any, ...], word: str, place: str, field: str,
) -> Iterator[ComponentVersion | None]:
    """None for one whose place is not known. Virtual functions, drives of other machines and devices of
    software have no firmware of their own."""
    for subject in subjects:
        at, version = reading(subject, place), reading(subject, field)
        if at is UNSUPPORTED or version is UNSUPPORTED or (
                kind == "hca" and reading(subject, "virtual") is True):
            continue
        yield _version(f"{word} {clean(at.lower(), 40)}", kind, version) if isinstance(at, str) else None


def _version(name: str, kind: str, value: Any) -> ComponentVersion:
    if isinstance(value, str) and value.strip():
        return ComponentVersion(name, kind, clean(value.strip(), _MOST), 0.0, SWEEP)
    why = clean(value.reason, _LONGEST) if isinstance(value, Unmeasured) else "the machine does not say it"
    return ComponentVersion(name, kind, None, 0.0, SWEEP, why)
