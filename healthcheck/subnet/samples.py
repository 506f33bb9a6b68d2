"""Samples of a subnet's counters, as they are kept for the next check: one document a subnet
(`muster.fabric.samples/1`), the newest last."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from healthcheck.subnet.check.congestion import SENT, WAIT
from healthcheck.subnet.check.counted import JUDGED
from healthcheck.subnet.check.seen import CountedBefore
from healthcheck.subnet.model import LEFT_OUT, FabricEnd, FabricLink, Subnet

SCHEMA = "muster.fabric.samples/1"
MOST = 8
_KEPT = frozenset({*JUDGED, WAIT, SENT})


def sample(subnet: Subnet, at: float) -> CountedBefore | None:
    """What a later check needs of this one; None where no counters were read."""
    counters = subnet.counters
    if counters is None:
        return None
    # A 0 is kept, too, but for those that a reader of the sample knows to be 0 where they are not in it.
    kept = {end: {name: value for name, value in named.items()
                  if name in _KEPT and (value or not counters.zeros or name not in LEFT_OUT)}
            for end, named in counters.values.items()}
    return CountedBefore(at, kept, counters.zeros, counters.full, counters.unasked, subnet.links)


def write(samples: Sequence[CountedBefore]) -> bytes:
    """The document of the newest of these."""
    document = {"schema": SCHEMA, "samples": [_to_json(one) for one in samples[-MOST:]]}
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def read(data: bytes) -> tuple[CountedBefore, ...]:
    """The samples of a document; raises ValueError for what is no such document."""
    try:
        document = json.loads(data)
        if document.get("schema") != SCHEMA:
            raise ValueError(f"schema is not {SCHEMA}")
        return tuple(sorted((_from_json(one) for one in document["samples"]), key=lambda one: one.time))
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"is no {SCHEMA}: {type(error).__name__}") from None


def before(samples: Sequence[CountedBefore], at: float) -> CountedBefore | None:
    """The newest sample that is earlier; one of the future is none."""
    return max((one for one in samples if one.time < at), key=lambda one: one.time, default=None)


def _key(end: FabricEnd) -> str:
    return f"{end.guid}/{end.number}"


def _end(key: Any) -> FabricEnd:
    guid, slash, number = str(key).partition("/")
    if not slash:
        raise ValueError("a port is no GUID/number")
    return FabricEnd(guid, int(number))


def _to_json(one: CountedBefore) -> dict[str, Any]:
    return {"time": one.time, "zeros": one.zeros,
            "ports": {_key(end): dict(named) for end, named in sorted(one.values.items())},
            "full": {_key(end): sorted(names) for end, names in sorted(one.full.items())},
            "unasked": [_key(end) for end in sorted(one.unasked)],
            "links": [[_key(link.a), _key(link.b)] for link in sorted(one.links)]}


def _from_json(one: Any) -> CountedBefore:
    return CountedBefore(
        float(one["time"]),
        {_end(key): {str(name): int(value) for name, value in named.items()}
         for key, named in one["ports"].items()},
        one["zeros"] is True, {_end(key): frozenset(map(str, names)) for key, names in one["full"].items()},
        frozenset(map(_end, one["unasked"])),
        frozenset(FabricLink.of(_end(a), _end(b)) for a, b in one["links"]))
