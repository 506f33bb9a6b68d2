"""Reads `pxe.yaml` of the rules folders into PxeOptions; every mistake is one line with its place. A later
folder's file is laid over the earlier ones: top keys one by one, images by name and then key by key. It is
data: nothing in it is ever executed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from healthcheck.config.entry import kind_of, known_keys
from healthcheck.config.valuetypes import ValueType, parse_value
from inventory.errors import Mark, RulesError
from inventory.located import LocatedMap, load_yaml
from inventory.nodeset import expand
from inventory.text import short
from provisioning.osinstall.pxe import settingfields as fields
from provisioning.osinstall.pxe.options import (
    FILE,
    DhcpMode,
    DhcpOptions,
    ImageKind,
    Loaders,
    MediaOptions,
    OsImage,
    PxeOptions,
)

TEMPLATES = "pxe"       # the folder of templates beside the file
_KINDS = frozenset(kind.value for kind in ImageKind)
_SECTIONS = ("images", "nodes", "dhcp", "media")


class _Found:
    """What the files say together: top keys, images key by key, node sets and dhcp, each with its places."""

    def __init__(self) -> None:
        self.top: dict[str, Any] = {}
        self.marks: dict[str, Mark] = {}
        self.images: dict[str, dict[str, Any]] = {}
        self.image_marks: dict[str, Mark] = {}
        self.nodes: LocatedMap | None = None
        self.dhcp: dict[str, Any] = {}
        self.dhcp_mark: Mark | None = None
        self.media: dict[str, Any] = {}
        self.files: list[str] = []


def load(folders: Iterable[Path]) -> PxeOptions:
    """What the files of all folders say. Raises RulesError, also without a server or an image."""
    found, templates, looked = _Found(), [], []
    for folder in folders:
        looked.append(str(folder))
        if (folder / FILE).is_file():
            _read(found, folder / FILE)
        if (folder / TEMPLATES).is_dir():
            templates.append((folder / TEMPLATES).absolute())
    if not found.files:
        raise RulesError(f"no rules folder holds a {FILE}: looked in {', '.join(looked)}")
    for key in ("server", "image"):
        if key not in found.top:
            raise RulesError(f"no {FILE} has the key {key}; put one into a folder of site rules (muster help "
                             f"pxe), read: {', '.join(found.files)}")
    images = {name: _image(name, values, found.image_marks[name]) for name, values in found.images.items()}
    _known(found.top["image"], images, found.marks["image"])
    top = dict(found.top)
    return PxeOptions(
        top.pop("server"), top.pop("image"), MappingProxyType(images), tuple(templates),
        _by_node(found.nodes, images), _dhcp(found), **top,
        media=MediaOptions(**found.media) if found.media else None)


def _read(found: _Found, path: Path) -> None:
    document = load_yaml(path, error=RulesError)
    keys = (*fields.TOP, *_SECTIONS)
    if not isinstance(document, LocatedMap):
        raise RulesError(f"expected a map of {', '.join(keys)}; got {kind_of(document)}",
                         Mark(str(path), 1, 1))
    known_keys(document, keys, "")
    found.files.append(str(path))
    found.top |= _values(document, fields.TOP, "", _SECTIONS)
    found.marks |= document.value_marks
    for name, given in _map(document, "images").items():
        mark = document["images"].key_marks[name]
        if fields.IMAGE_NAME.fullmatch(name) is None:
            raise RulesError(f"{short(name)} is no name of an image: expected letters, digits, '.', '-', '_'",
                             mark)
        if not isinstance(given, LocatedMap):
            raise RulesError(f"images: {name}: expected a map, got {kind_of(given)}",
                             document["images"].value_marks[name])
        known_keys(given, tuple(fields.IMAGE), f"images: {name}: ")
        found.images.setdefault(name, {}).update(_values(given, fields.IMAGE, f"images: {name}: "))
        found.image_marks[name] = mark
    if document.get("media") is not None:
        given = _map(document, "media")
        known_keys(given, tuple(fields.MEDIA), "media: ")
        found.media |= _values(given, fields.MEDIA, "media: ")
        if "image" not in found.media:
            raise RulesError("media: no image", document.key_marks["media"])
    if document.get("nodes") is not None:
        found.nodes = _map(document, "nodes")
    if document.get("dhcp") is not None:
        given = _map(document, "dhcp")
        known_keys(given, tuple(fields.DHCP), "dhcp: ")
        found.dhcp |= _values(given, fields.DHCP, "dhcp: ")
        found.dhcp_mark = document.key_marks["dhcp"]


def _map(document: LocatedMap, key: str) -> LocatedMap:
    given = document.get(key)
    if given is None:
        return LocatedMap(document.mark)
    if not isinstance(given, LocatedMap):
        raise RulesError(f"{key}: expected a map, got {kind_of(given)}", document.value_marks[key])
    return given


def _values(
    given: LocatedMap, forms: Mapping[str, ValueType], where: str, without: tuple[str, ...] = (),
) -> dict[str, Any]:
    return {key: parse_value(f"{where}{key}", value, given.value_marks[key], forms[key])
            for key, value in given.items() if key not in without}


def _image(name: str, values: dict[str, Any], mark: Mark) -> OsImage:
    for key in ("kind", "kernel", "initrd"):
        if key not in values:
            raise RulesError(f"images: {name}: no {key}", mark)
    if name in _KINDS and name != values["kind"].value:
        raise RulesError(f"images: {name}: an image of kind {values['kind'].value} cannot have this name: "
                         "its templates would be those of another kind", mark)
    if values["kind"] is ImageKind.UBUNTU and not values.get("iso"):
        raise RulesError(f"images: {name}: no iso, which Ubuntu's installer is run from", mark)
    return OsImage(name, **values)


def _known(name: str, images: Mapping[str, OsImage], mark: Mark) -> None:
    if name not in images:
        raise RulesError(f"no image {short(name)}; there are: {', '.join(sorted(images)) or 'none'}", mark)


def _by_node(nodes: LocatedMap | None, images: Mapping[str, OsImage]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for text, image in (nodes or {}).items():
        assert nodes is not None  # noqa: S101  (there is something in it)
        if not isinstance(image, str):
            raise RulesError(f"nodes: {text}: expected the name of an image, got {kind_of(image)}",
                             nodes.value_marks[text])
        _known(image, images, nodes.value_marks[text])
        for name in expand(text, mark=nodes.key_marks[text]):
            if found.setdefault(name, image) != image:
                raise RulesError(f"nodes: {name} has two images, {found[name]} and {image}",
                                 nodes.key_marks[text])
    return MappingProxyType(found)


def _dhcp(found: _Found) -> DhcpOptions | None:
    if found.dhcp_mark is None:
        return None
    values, mark = dict(found.dhcp), found.dhcp_mark
    for key in ("interface", "network"):
        if key not in values:
            raise RulesError(f"dhcp: no {key}", mark)
    pair = values.pop("range", None)
    loaders = Loaders(**{key: values.pop(key) for key in ("bios", "x64", "arm64") if key in values})
    options = DhcpOptions(loaders=loaders, first=pair[0] if pair else None, last=pair[-1] if pair else None,
                          **values)
    if options.mode is DhcpMode.FULL:
        if pair is None:
            raise RulesError("dhcp: no range, which full DHCP gives addresses of", mark)
        outside = [one for one in (*pair, options.router) if one and one not in options.network]
        if len(pair) != 2 or outside or pair[0] > pair[1]:
            raise RulesError("dhcp: range has to be the first and the last address, and they and the router "
                             f"have to be in {options.network}", mark)
    return options
