"""What to type after `muster init`, by what it found."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from inventory.nodeset import fold

if TYPE_CHECKING:
    from healthcheck.ruleset.ruleset import Ruleset
    from inventory.model import Inventory

_MANY = 8       # nodes from which an agent on each is worth more than a timer on the head
NOT_REACHED = "not reached"


def next_steps(
    found: Inventory, ruleset: Ruleset, states: Mapping[str, str], file: str, state: str,
) -> Iterator[tuple[str, str]]:
    """Commands, each with what it is for. `states` are the newest ones by node, where there are any;
    `file` names the inventory where commands would not find it by themselves, and `state` is the option for
    another state folder."""
    here = f" -i {file}" if file else ""
    mine = {name: states[name] for name in found.nodes if name in states}
    unreached = [name for name, state in mine.items() if state == NOT_REACHED]
    missing = [name for name in found.nodes if name not in mine]
    ailing = [name for name, state in mine.items() if state in ("unhealthy", "degraded", "unknown")]
    again = f"muster init{f' -o {file}' if file else ''}{state}"
    if missing:
        yield again, f"again, to go on with {_few(missing)}"
    if unreached:
        yield again, f"again, once {_few(unreached)} can be reached: it tries what is left"
    if bare := [node.name for node in found if node.sku is None and node.name in mine
                and node.name not in unreached]:
        yield f"{again} --accept-skus", f"give {_few(bare)} the SKU that they are like, where one is"
    if ailing:
        yield f"muster nodes{here}{state}", f"who does what about {_few(ailing)}; muster history: since when"
    if not mine:
        return
    yield f"muster check --store{here}{state}", "sweep again and remember it; --every 5m goes on by itself"
    if len(mine) >= _MANY:
        yield f"muster agent install @all{here}", "or let each node sweep itself, on a timer"
    yield f"muster triage{here}{state}", "what it would do about sick nodes; only --apply changes anything"
    if found.cordon is None:
        yield "muster help cordon", "say in the inventory how jobs are kept away: triage --apply needs it"
    with_gpus = [node.name for node in found if node.sku is not None and node.sku in ruleset.skus
                 and ruleset.skus[node.sku].numbers.get("gpu_count") != 0]
    if with_gpus:
        yield (f"muster burnin plan {shlex.quote(fold(with_gpus))}{here}",
               "what burning in the GPUs would take; a pass is a certificate")
        yield "muster help gate", "let only certified, healthy nodes start jobs"


def _few(names: Sequence[str]) -> str:
    text = fold(names)
    return text if len(text) <= 60 else f"{len(names)} nodes"
