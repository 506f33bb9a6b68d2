"""The images that nodes are to have: `images:` of images.yaml in rules folders, or typed references."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from healthcheck.config.entry import Entry, entry_of, kind_of, known_keys, overlay
from healthcheck.config.valuetypes import FLAG, NAME, ValueType, list_of, number, parse_value
from inventory.errors import Mark, RulesError, UsageError
from inventory.located import LocatedList, LocatedMap, load_yaml
from inventory.model import Node
from inventory.text import clean, short
from provisioning.images.onnode.reference import split

FILE = "images.yaml"
_KEYS = ("id", "image", "size_gib", "skus", "profiles", "labels", "enabled")
_GIB = 1 << 30
_HOW = ("a digest is shown by `docker buildx imagetools inspect NAME:TAG`, `skopeo inspect "
        "docker://NAME:TAG`, and after a push")


@dataclass(frozen=True)
class WantedImage:
    """An image that nodes are to have. `repository` is its full name, `tag` "" for none; `size` its bytes on
    a disk, 0 if unknown. Empty `skus`, `profiles` and `labels` hold for every node."""

    id: str
    repository: str
    tag: str
    digest: str
    size: int = 0
    skus: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def reference(self) -> str:
        """The whole of it: HOST/REPOSITORY:TAG@sha256:DIGEST."""
        return f"{self.repository}{self.tag and ':'}{self.tag}@{self.digest}"

    def of(self, node: Node) -> bool:
        """Whether this node is to have it."""
        return ((not self.skus or node.sku in self.skus)
                and (not self.profiles or node.profile in self.profiles)
                and all(node.labels.get(key) == value for key, value in self.labels.items()))


def from_words(references: Sequence[str]) -> tuple[WantedImage, ...]:
    """The images that these references name, for every node; raises UsageError for one without a digest."""
    found: dict[str, WantedImage] = {}
    for text in references:
        parts = _parts(text)
        if isinstance(parts, str):
            raise UsageError(f"--image {short(text)}: {parts}")
        reference = WantedImage("", *parts).reference
        found[reference] = WantedImage(reference, *parts)
    return tuple(found.values())


def load(folders: Iterable[Path]) -> tuple[WantedImage, ...]:
    """What images.yaml of these folders want, by id; nothing without one. Raises RulesError."""
    entries: dict[str, Entry] = {}
    for folder in folders:
        if (path := folder / FILE).is_file():
            _read(entries, path)
    made = [_image(entry) for entry in entries.values()]
    return tuple(one for one in made if one is not None)


def _read(entries: dict[str, Entry], path: Path) -> None:
    top = load_yaml(path, error=RulesError)
    if not isinstance(top, LocatedMap):
        raise RulesError(f"expected a map with images, got {kind_of(top)}", Mark(str(path), 1, 1))
    known_keys(top, ("images",), "")
    items = top.get("images")
    if items is None:
        return
    if not isinstance(items, LocatedList):
        raise RulesError(f"images: expected a list, got {kind_of(items)}", top.value_marks["images"])
    for at, item in enumerate(items):
        new = entry_of(item, _KEYS, "id", items.value_marks[at])
        new.values = {key: _value(new, key) for key in new.values}
        overlay(entries, new, "id")


def _value(entry: Entry, key: str) -> Any:
    given, mark = entry.values[key], entry.marks[key]
    where = f"images: {clean(entry.name, 60)}: {key}"
    if key == "image":
        parts = _parts(given) if isinstance(given, str) else f"expected a reference, got {kind_of(given)}"
        if isinstance(parts, str):
            raise RulesError(f"{where}: {parts}", mark)
        return parts
    if key == "labels":
        if not isinstance(given, LocatedMap) or not all(isinstance(one, str) for one in given.values()):
            raise RulesError(f"{where}: expected a map of names and texts, got {kind_of(given)}", mark)
        return dict(given)
    return parse_value(where, given, mark, _FORMS[key])


def _image(entry: Entry) -> WantedImage | None:
    held = entry.values
    if not held.get("enabled", True):
        return None
    if "image" not in held:
        raise RulesError(f"images: {clean(entry.name, 60)}: image is missing: expected NAME@sha256:DIGEST",
                         entry.mark)
    repository, tag, digest = held["image"]
    return WantedImage(entry.name, repository, tag, digest, int(held.get("size_gib", 0) * _GIB),
                       held.get("skus", ()), held.get("profiles", ()), held.get("labels", {}))


def _parts(text: str) -> tuple[str, str, str] | str:
    """Repository, tag and digest, or what is wrong."""
    found = split(text)
    if found is None:
        if "@" in text.partition("/")[0] or "://" in text:
            return ("no image's name: expected HOST/NAME:TAG@sha256:DIGEST without a scheme and a password; "
                    "each node's runtime has its own")
        return f"no image's name: expected HOST/NAME:TAG@sha256:DIGEST (64 digits); {_HOW}"
    if not found[2]:
        return ("it has no digest, and a tag may mean another image tomorrow: expected NAME@sha256:DIGEST; "
                f"{_HOW}")
    return found


_FORMS: Mapping[str, ValueType] = {
    "id": NAME, "size_gib": number(0, 4096), "skus": list_of("names of SKUs", NAME),
    "profiles": list_of("names of profiles", NAME), "enabled": FLAG}
