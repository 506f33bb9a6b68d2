"""Which agents are here, and why the others are not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from healthcheck.burnin.messages import AgentReady
from inventory.text import clean
from inventory.transport import answer
from inventory.transport.base import Reply

_MOST_LEAVING = 64 * 1024


@dataclass(frozen=True)
class ReadyNodes:
    """The nodes on which ranks can be started, with their reports; of every other one why not, in a line."""

    here: Mapping[str, AgentReady]
    missing: Mapping[str, str]

    @property
    def whole(self) -> bool:
        """Whether all are here."""
        return not self.missing


class Roster:
    """Tracks which nodes are ready."""

    def __init__(self, nodes: Iterable[str]) -> None:
        self._nodes = tuple(nodes)
        self._connected: set[str] = set()
        self._here: dict[str, AgentReady] = {}
        self._missing: dict[str, str] = {}
        self._left: set[str] = set()

    def connect(self, node: str) -> None:
        """Its agent has connected; PyTorch is still to be imported there."""
        self._connected.add(node)

    def ready(self, ready: AgentReady) -> None:
        """Its agent has reported what there is."""
        if ready.torch is None:
            why = ready.why or "and no reason given"
            self._missing[ready.node] = (f"no PyTorch: {why}; name a Python that has it with `burnin: "
                                         f"{{python: ...}}` in the inventory")
        else:
            self._here[ready.node] = ready

    def gone(self, node: str, why: str) -> None:
        """Its agent's connection has ended."""
        self._connected.discard(node)
        self._here.pop(node, None)
        self._missing.setdefault(node, why)

    def left(self, reply: Reply) -> None:
        """Its program has ended, or never began."""
        self._left.add(reply.node)
        self._here.pop(reply.node, None)
        if reply.failure is not None:
            self._missing[reply.node] = f"{reply.failure.stage.value}: {reply.failure.reason}"
        else:
            self._missing.setdefault(reply.node, _leaving(reply.body or b""))

    def why(self, node: str) -> str | None:
        """Why nothing can be run on a node; None where it can."""
        return None if node in self._here else self._missing.get(node, "its agent is not here")

    @property
    def connected(self) -> frozenset[str]:
        """Nodes whose agents have a connection."""
        return frozenset(self._connected)

    @property
    def known(self) -> bool:
        """Whether of every node it is known that it is here, or that it will not be."""
        return all(node in self._here or node in self._missing for node in self._nodes)

    def left_all(self, nodes: Iterable[str]) -> bool:
        """Whether the program has ended on all of these nodes."""
        return self._left.issuperset(nodes)

    def ready_nodes(self, otherwise: str) -> ReadyNodes:
        """As it stands; `otherwise` is why those are missing of whom nothing is known."""
        missing = {}
        for node in self._nodes:
            if node not in self._here:
                why = ("its agent is here, and PyTorch is not imported yet" if node in self._connected
                       else otherwise)
                missing[node] = self._missing.get(node, why)
        return ReadyNodes({node: self._here[node] for node in self._nodes if node in self._here}, missing)


def _leaving(body: bytes) -> str:
    """Why an agent left, by its last reply: compressed JSON of a node, and as foreign as that."""
    try:
        document = answer.document(body, _MOST_LEAVING)
    except answer.UNREADABLE:
        return "its agent left, and its reason was not understood"
    why = document.get("left") if isinstance(document, dict) else None
    return f"its agent left: {clean(why)}" if isinstance(why, str) and why else "its agent left"
