"""A text without a machine's own name and addresses: equal texts can share a line. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from healthcheck.report.findings import Fold

NODE = "NODE"
_IPV4 = re.compile(r"(?<![0-9.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9.]*[0-9])")
_COMMAND = re.compile(r"\bmuster [^;,()]*")


def masked(text: str, node: str) -> str:
    """The text with NODE for the machine's name and ADDRESS for IPv4: equal where only these differ."""
    return _IPV4.sub("ADDRESS", _whole(node).sub(NODE, text))


def named(hand: str, nodes: Sequence[str], fold: Fold) -> str:
    """A masked hand of these machines, all of them in place of NODE; in a command as one word of a shell."""
    folded, open_ = fold(nodes), _whole(NODE)
    typed = _COMMAND.sub(lambda match: open_.sub(lambda _: word(folded), match[0]), hand)
    return open_.sub(lambda _: folded, typed)


def word(folded: str) -> str:
    """A set of nodes as one word of a shell."""
    return f"'{folded}'" if set(folded) & set("[]*?!&,") else folded


def _whole(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9_.-]){re.escape(name)}(?![A-Za-z0-9_-])")
