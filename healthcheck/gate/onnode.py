"""`muster.pyz gate`: decides for this node with the agent alone. Standard library only, Python 3.8."""

from __future__ import annotations

import argparse
import time
import typing

from healthcheck.gate import locate
from healthcheck.gate.decide import Gate, GateDecision, Why, answer
from healthcheck.gate.messages import notices, text

if typing.TYPE_CHECKING:
    from healthcheck.gate.reading import GateSnapshot


def main(words: list[str]) -> int:
    """Prints notices and the answer; returns the exit code of `muster gate`."""
    parser = argparse.ArgumentParser(prog="muster.pyz gate",
                                     description="Decide whether this node may start a job, by the signed "
                                                 "snapshot kept here.",
                                     epilog="Exit: 0 open, 1 closed, 2 usage, 3 unknown. The whole command, "
                                            "for allocations, is `muster gate`.")
    parser.add_argument("--slurm-prolog", action="store_true", required=True,
                        help="this node only, by its own name")
    parser.add_argument("--folder", metavar="DIR",
                        help="where the snapshot is [MUSTER_GATE, /var/lib/muster/gate]")
    parser.add_argument("--keys", metavar="FILE",
                        help="trusted keys [MUSTER_GATE_KEYS, /etc/muster/gate.pub]")
    options = parser.parse_args(words)
    now = time.time()
    held: GateSnapshot | None = None
    try:
        held = locate.load(locate.folder(options.folder), locate.trusted(options.keys))
        message = answer(held, (locate.own_name(held.names()),), now)
    except locate.Missing as trouble:
        message = GateDecision(Gate.UNSURE, (Why("", Gate.UNSURE, str(trouble), ""),))
    except locate.Forged as trouble:
        message = GateDecision(Gate.CLOSED, (Why("", Gate.CLOSED, str(trouble), ""),))
    for line in (*notices(message.notices), *locate.unfetched()):
        print(f"muster gate: note: {line}")  # noqa: T201
    print(f"muster gate: {text(message, 1, held, now)}")  # noqa: T201
    code: int = message.gate.value
    return code
