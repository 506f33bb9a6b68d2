"""The closed vocabulary of free text: what `vocabulary.txt` beside this module holds, and that of `words`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from healthcheck.scrub.words import AUTHORITIES, ENGINE, KERNEL, STANDARD

_LISTED = Path(__file__).with_name("vocabulary.txt")
_WORD = re.compile(r"[^\W_]+")


@cache
def vocabulary() -> frozenset[str]:
    """The words that stay, in small letters; `mds#` stands for mds0 and its like."""
    lines = _LISTED.read_text(encoding="utf-8").splitlines()
    own = (_WORD.findall(word) for word in STANDARD | ENGINE | AUTHORITIES | KERNEL)
    return frozenset({line for line in lines if not line.startswith("#")}.union(*own))


def known(name: str) -> bool:
    """Whether the vocabulary has every word of it: a field of a tool's output, whoever is called so."""
    words = _WORD.findall(name.lower())
    return bool(words) and vocabulary().issuperset(words)
