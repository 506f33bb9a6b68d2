"""The formats by which the kernel prints what someone else chose (tests/recordings/kernel/quoting), filled in
as printk would."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

FORMATS = Path(__file__).resolve().parents[2] / "recordings/kernel/quoting/formats.yaml"
# Bytes that each kind of text may have, and what cannot stand in it; a record of the log ends after RECORD.
RECORD = 976
_KINDS = {
    "COMM": (15, "\0"), "IF": (15, "\0/: \t\n"), "FILE": (255, "\0/"), "FILE4": (1023, "\0"),
    "DENT": (511, "\0"), "PATH": (4095, "\0"), "CG": (4095, "\0\n"), "OPT": (4094, "\0,="),
    "VAL": (4094, "\0,"), "TEXT": (4094, "\0"), "PREFIX": (127, "\0"), "HOST": (255, "\0 \t\n"),
    "B": (15, "\0"),
}
_PLACE = re.compile(r"\{(\w+)(?::[^}]*)?\}")
_DIRECTIVE = re.compile(r"%(?P<flags>[-#0 "
                                                 r"+]*)(?P<width>\d*)(?:\.[\d*]+|\*)*"
                         r"(?P<kind>p[A-Za-z0-9]*|(?:hh|ll|h|l|z|L)?[diuxXcs]|h|z|L|pV)")


@dataclass(frozen=True)
class Format:
    """One of them, with real lines that it printed."""

    name: str
    format: str
    source: str
    examples: tuple[str, ...]

    def filled(self, text: str) -> str:
        """What the kernel would print with this text in each place that someone chooses, as much of it as
        fits there."""
        def place(found: re.Match[str]) -> str:
            most, never = _KINDS[found[1]]
            return "".join(sign for sign in text if sign not in never).encode()[:most].decode(errors="ignore")

        parts, at = [], 0
        for found in _PLACE.finditer(self.format):
            parts += [_DIRECTIVE.sub(_printed, self.format[at:found.start()]), place(found)]
            at = found.end()
        return "".join([*parts, _DIRECTIVE.sub(_printed, self.format[at:])])[:RECORD]


def _printed(found: re.Match[str]) -> str:
    kind = found["kind"]
    if kind[0] == "p":
        return {"pV": "word", "pGg": "GFP_KERNEL", "pg": "sda1", "pbl": "0-1", "pI4": "192.0.2.1",
                "pM": "02:00:00:00:00:01", "ps": "do_it", "pE": "word", "ptTd": "2026-11-23"}.get(
                    kind, "00007f00a1b2c3d4")
    if kind[-1] in "xX":
        return ("0x" if "#" in found["flags"] else "") + "7f00a1b2"[:int(found["width"] or 8)]
    return "word" if kind[-1] == "s" else "D" if kind[-1] == "c" else "12".rjust(int(found["width"] or 0))


@cache
def formats() -> tuple[Format, ...]:
    return tuple(Format(one["name"], one["format"], one["source"], tuple(one["examples"]))
                 for one in yaml.safe_load(FORMATS.read_text()))
