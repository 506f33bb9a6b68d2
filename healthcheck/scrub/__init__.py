"""Makes a recording fit to be shown to anyone: what tells whose machine it is gives way to stand-ins,
and facts stay as they are.

Three passes. The first learns the names in use (hosts, users, domains, secrets of the kernel's command line,
parts of paths) from places whose form is known and from phrases that name one; the second replaces those
words wherever they occur, and besides them all that looks like an address, an identifier, a key or a secret.
The third leaves, of what remains, only words of a closed vocabulary and shapes that facts need: PCI
addresses, versions, counters, sizes, times, names of parts. Any other word gives way to one of its shape.

`learning` is the first pass, over `names`; `engine` the second, by the tables of `handlers`, with `paths` and
`objects` for what has a form of its own; `allowed` the third, by the `vocabulary`. `patterns` and `words` are
what all know, and `replacements` makes what is put in a name's place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from healthcheck.model.recording import Recording
from healthcheck.scrub import records
from healthcheck.scrub.allowed import Allowance
from healthcheck.scrub.engine import Scrubber
from healthcheck.scrub.handlers import LATE, TABLE
from healthcheck.scrub.learning import learned
from healthcheck.scrub.replacements import StandIns
from inventory.model import Node


@dataclass(frozen=True)
class Scrubbed:
    """A recording, its earlier look and its node's place in the inventory, scrubbed together,
    how many of each kind were replaced, and by kind what stayed verbatim, each value with its occurrences."""

    recording: Recording
    previous: Recording | None
    node: Node
    counts: Mapping[str, int]
    kept: Mapping[str, Mapping[str, int]]


def scrub(
    recording: Recording, node: Node, *, previous: Recording | None = None, key: bytes,
    hosts: Iterable[str] = (), users: Iterable[str] = (),
) -> Scrubbed:
    """The same thing has the same stand-in throughout. `hosts` and `users` are names known beforehand;
    `key` is random, and not kept."""
    both = [recording, *([previous] if previous is not None else [])]
    haystack = "\n".join(text for snapshot in both for text in records.texts(snapshot))
    replacements = StandIns(key, haystack)
    scrubber = Scrubber(learned(both, node, hosts, users, haystack), replacements, records.own_name(node),
                        TABLE, LATE)
    allowance = Allowance(replacements)
    made = [records.recording(scrubber, snapshot) for snapshot in both]
    shown = [records.allowed(allowance, snapshot) for snapshot in made]
    return Scrubbed(shown[0], shown[1] if previous is not None else None, records.node(scrubber, node),
                    dict(replacements.counts), allowance.kept)


def replaced(counts: Mapping[str, int]) -> str:
    """'3 host names, 8 GPU UUIDs', the most numerous first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return (", ".join(f"{n} {kind if n == 1 else kind + ('es' if kind.endswith('s') else 's')}"
                      for kind, n in ordered) or "nothing")


def stayed(kept: Mapping[str, Mapping[str, int]]) -> str:
    """'612 words of the vocabulary, 41 numbers': different values by kind, the most numerous first."""
    ordered = sorted(kept.items(), key=lambda item: (-len(item[1]), item[0]))
    return ", ".join(f"{len(values)} {kind}" for kind, values in ordered) or "nothing"


def listed(kept: Mapping[str, Mapping[str, int]]) -> str:
    """One line for each value that stayed: kind, how often, the value, tab-separated; rare values first."""
    return "".join(f"{kind}\t{count}\t{value}\n" for kind, values in sorted(kept.items())
                   for value, count in sorted(values.items(), key=lambda item: (item[1], item[0])))
