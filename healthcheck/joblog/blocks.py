"""What dshbak and `clush -b` put before the output of a node, or of several that printed the same:

    ----------------                    ---------------
    gpu[001-002]                        gpu[001-002] (2)
    ----------------                    ---------------

dshbak draws 16 dashes, clush 15 (chaos/pdsh scripts/dshbak.in; cea-hpc/clustershell
lib/ClusterShell/CLI/Display.py). Tables of programs are wider, and name no node between two such lines.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from healthcheck.joblog.prefix import short

_RULES = ("-" * 15, "-" * 16)
_NAMED = re.compile(r"([A-Za-z0-9][\w.,\[\]-]{0,252})(?: \(\d{1,6}\))?")
_NUMBERED = re.compile(r"[A-Za-z][\w.-]{0,200}\d[\w.-]{0,50}")


def blocks(rows: Sequence[str], nodes: Collection[str] = ()) -> dict[int, str]:
    """By number of a line, from 1, the node whose block it stands in; none before the first, and of several
    nodes. A name that is none of the job's `nodes` is one only if it holds a digit."""
    if not any(rule in rows for rule in _RULES):
        return {}
    known = {short(node) for node in nodes}
    of: dict[int, str] = {}
    node = ""
    for number, row in enumerate(rows, 1):
        heads = row in _RULES and rows[number + 1:number + 2] == [row]
        if heads and (named := _NAMED.fullmatch(rows[number])) is not None:
            one = short(named[1]) in known or _NUMBERED.fullmatch(named[1]) is not None
            node = named[1] if one else ""
        if node:
            of[number] = node
    return of
