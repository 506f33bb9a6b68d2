"""Elements of nvidia-smi's XML log as readings in the NVML reader's format.

The elements and words are those of `nvidia-smi -q -x` (DTDs nvsmi_device_v11 to v13) and of nvidia-smi's
manual page. Where nvidia-smi has no value, it prints one of three things: the device has no such thing
("N/A", "[Not Supported]"), the value could not be read ("[Unknown Error]", "ERR!"), or the GPU is gone ("[GPU
is lost]"). They stay distinct here. Such a word may stand in place of a whole block. An element that is there
twice is no measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from healthcheck.facts.parsing import whole
from inventory.text import clean

# NVML's words for its statuses (nvmlErrorString) that nvidia-smi prints in place of a value.
NVML_WORDS: Mapping[str, int] = {
    "success": 0, "uninitialized": 1, "invalid argument": 2, "not supported": 3,
    "insufficient permissions": 4, "already initialized": 5, "not found": 6, "insufficient size": 7,
    "insufficient external power": 8, "driver not loaded": 9, "timeout": 10,
    "interrupt request issue": 11, "nvml shared library not found": 12, "function not found": 13,
    "corrupted inforom": 14, "gpu is lost": 15, "gpu requires reset": 16, "gpu requires restart": 16,
    "the operating system has blocked the request": 17, "driver/library version mismatch": 18,
    "in use by another client": 19, "insufficient memory": 20, "no data": 21,
    "insufficient resources": 23, "requested functionality has been deprecated": 26, "not ready": 27,
    "gpu not found": 28, "invalid state": 29, "unknown error": 999, "err!": 999,
}
NOTHING = ("n/a", "not supported", "not available")

Texts = Mapping[str, str]
# {"ok": value}, {"na": True} or {"error": [code, message]} as the NVML reader has them, or {"absent": path}
# where the log has no such element.
Reading = dict[str, Any]
Read = Callable[[Texts], Reading]

# What `smi` writes in place of an element's text that the log holds twice. No log has this character.
TWICE = "\0twice"
# Where it puts the release of the driver among the texts of each GPU.
RELEASE = "@release"


def value_at(gpu: Texts, paths: tuple[str, ...], convert: Callable[[str], Any]) -> Reading:
    """The value at the first of these paths that the log has, in the NVML reader's format."""
    for path in paths:
        found = gpu.get(path)
        if found is not None:
            return _reading(found, convert, path)
        above = path
        while "/" in above:
            above = above.rpartition("/")[0]
            if text := gpu.get(above):
                return _in_place(text, above)
    return {"absent": paths[0]}


def word_of(text: str) -> str:
    """A word in place of a value, in small letters."""
    return text.strip().strip("[]").strip().rstrip(".").lower()


def _wordless(text: str, what: str) -> Reading | None:
    """What a word in place of a value says; None if the text is none of these words."""
    word = word_of(text)
    if word in NOTHING:
        return {"na": True}
    if NVML_WORDS.get(word):
        return {"error": [NVML_WORDS[word], text.strip("[] ")]}
    return {"error": [-1, f"it prints {what} twice"]} if text == TWICE else None


def _in_place(text: str, what: str) -> Reading:
    """What this text says in place of a block of elements."""
    return _wordless(text, what) or _malformed(text, what)


def _malformed(text: str, what: str) -> Reading:
    return {"error": [-1, f"{what} is {clean(text, 40)!r}, which is not in the documented format"]}


def _reading(text: str, convert: Callable[[str], Any], what: str) -> Reading:
    if not text:
        # Names that a board was not given are empty; numbers and states never are.
        return {"na": True} if convert is str else _malformed(text, what)
    said = _wordless(text, what)
    if said is not None:
        return said
    try:
        return {"ok": convert(text.strip())}
    except (ValueError, KeyError, OverflowError):
        return _malformed(text, what)


def in_unit(unit: str, factor: int = 1, number: Callable[[str], int] = whole) -> Callable[[str], int]:
    """What converts a number with this unit."""
    def convert(text: str) -> int:
        digits, _, word = text.partition(" ")
        if word.strip() != unit:
            raise ValueError(text)
        return number(digits) * factor

    return convert


def choice(**words: Any) -> Callable[[str], Any]:
    """What converts these words."""
    table = {name.replace("_", " "): value for name, value in words.items()}
    return lambda text: table[text.lower().replace("_", " ")]


ON = choice(enabled=1, disabled=0)


def added(values: list[Reading]) -> Reading:
    """The sum of counters. Those that the device lacks count as nothing; without any, the sum is missing
    too."""
    for why in ("error", "absent"):
        for value in values:
            if why in value:
                return value
    known = [value["ok"] for value in values if "ok" in value]
    return {"ok": sum(known)} if known else {"na": True}


def sum_at(*paths: str) -> Read:
    """The sum of the counters at these paths."""
    return lambda gpu: added([value_at(gpu, (path,), whole) for path in paths])


def either(first: Read, second: Read) -> Read:
    """The first, or the second where this nvidia-smi does not print the first."""

    def read(gpu: Texts) -> Reading:
        value = first(gpu)
        other = second(gpu) if "absent" in value else value
        return value if "absent" in other else other

    return read


def read_at(convert: Callable[[str], Any], *paths: str) -> Read:
    """The reading at the first of these paths that the log has."""
    return lambda gpu: value_at(gpu, paths, convert)


def lacking(read: Read, *instead: str) -> Read:
    """The reading, which a GPU does not have whose log holds one of these elements in its place."""

    def found(gpu: Texts) -> Reading:
        value = read(gpu)
        return {"na": True} if "absent" in value and any(path in gpu for path in instead) else value

    return found


def release_in(gpu: Texts) -> int | None:
    """The release of the driver, None where it is not known."""
    release = gpu.get(RELEASE, "")
    return int(release) if release else None
