"""A pretend Slurm at the lowest seam: what `scontrol` would print and do, in this process, with a person's
hands."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Collection, Sequence

from inventory.discover import CommandOutput


class PretendSlurm:
    """One hold a node: who wrote which reason when. `nodes` are those of slurm.conf."""

    def __init__(self, nodes: Collection[str], clock: Callable[[], float]) -> None:
        self.nodes = list(nodes)
        self.holds: dict[str, tuple[str, str, float]] = {}
        self._clock = clock
        self._started = clock()

    def run(self, argv: Sequence[str]) -> CommandOutput:
        """As a command of Slurm ends."""
        words = [word for word in argv if not word.startswith("--")]
        if words[:3] == ["scontrol", "show", "node"]:
            asked = words[3:] or self.nodes
            if lost := [name for name in asked if name not in self.nodes]:
                return CommandOutput(1, b"", f"Node {lost[0]} not found".encode())
            return CommandOutput(0, "".join(map(self._line, asked)).encode(), b"")
        if words[:3] == ["scontrol", "show", "config"]:
            return CommandOutput(0, f"BOOT_TIME = {_date(self._started)}\n".encode(), b"")
        if words[:3] == ["scontrol", "show", "reservation"]:
            return CommandOutput(0, b"No reservations in the system\n", b"")
        if words[:2] == ["scontrol", "update"]:
            return self._update(dict(word.split("=", 1) for word in words[2:]))
        return CommandOutput(0, b"", b"") if words[0] in ("squeue",
                                                          "sinfo") else CommandOutput(1, b"", b"not here")

    def _update(self, given: dict[str, str]) -> CommandOutput:
        name = given["NodeName"]
        if name not in self.nodes:
            return CommandOutput(1, b"", b"Invalid node name specified")
        if given["State"] == "DRAIN":
            self.holds[name] = (given["Reason"], "root", self._clock())
        else:
            self.holds.pop(name, None)
        return CommandOutput(0, b"", b"")

    def _line(self, name: str) -> str:
        if name not in self.holds:
            return f"NodeName={name} State=IDLE\n"
        reason, user, since = self.holds[name]
        return f"NodeName={name} State=IDLE+DRAIN Reason={reason} [{user}@{_date(since)}]\n"

    def hold(self, node: str, words: str) -> None:
        self.holds[node] = (words, "alice", self._clock())

    def free(self, node: str) -> None:
        """A person resumes it, whoever held it."""
        self.holds.pop(node, None)

    def rename(self, old: str, new: str) -> None:
        """A person renames it in slurm.conf: the drain stays with the machine's state."""
        self.nodes[self.nodes.index(old)] = new
        if old in self.holds:
            self.holds[new] = self.holds.pop(old)

    def reasons(self) -> dict[str, str]:
        """By node the words with which it is held."""
        return {node: hold[0] for node, hold in self.holds.items()}


def _date(time: float) -> str:
    return dt.datetime.fromtimestamp(time, dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")


MARK = re.compile(r"muster(?::[0-9a-f]+)?#([0-9]+)")
