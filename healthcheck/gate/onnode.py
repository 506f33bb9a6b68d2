"""`muster.pyz gate`: a node that has nothing but the agent judges itself. Only the standard library, Python 3.8."""

from __future__ import annotations

import argparse
import time
import typing

from healthcheck.gate import locate
from healthcheck.gate.decide import Gate, GateDecision, Why, answer
from healthcheck.gate.wording import notices, text

if typing.TYPE_CHECKING:
    from healthcheck.gate.reading import GateSnapshot


def main(words: list[str]) -> int:
    """The answer on standard output, notices before it; returns the exit code, that of `muster gate`."""
    parser = argparse.ArgumentParser(
        prog="muster.pyz gate", description="Say whether this node may start a job, by the signed snapshot that is kept here.",
        epilog="Exit: 0 open, 1 closed, 2 usage, 3 it could not tell. The whole command, for allocations, is `muster gate`.")
    parser.add_argument("--slurm-prolog", action="store_true", required=True, help="this node alone, by its own name")
    parser.add_argument("--folder", metavar="DIR", help="where the snapshot is [MUSTER_GATE, /var/lib/muster/gate]")
    parser.add_argument("--keys", metavar="FILE", help="trusted keys [MUSTER_GATE_KEYS, /etc/muster/gate.pub]")
    options = parser.parse_args(words)
    now = time.time()
    held: GateSnapshot | None = None
    try:
        held = locate.load(locate.folder(options.folder), locate.trusted(options.keys))
        said = answer(held, (locate.own_name(held.names()),), now)
    except locate.Missing as trouble:
        said = GateDecision(Gate.UNSURE, (Why("", Gate.UNSURE, str(trouble), ""),))
    except locate.Forged as trouble:
        said = GateDecision(Gate.CLOSED, (Why("", Gate.CLOSED, str(trouble), ""),))
    for line in notices(said.notices):
        print(f"muster gate: note: {line}")  # noqa: T201
    print(f"muster gate: {text(said, 1, held, now)}")  # noqa: T201
    code: int = said.gate.value
    return code
