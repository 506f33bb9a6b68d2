"""The head's server for one burn-in: keys for the ranks' rendezvous, and the line to every node's agent, in
one thread.

Every node has a token of its own, which is good for its name alone. Who does not prove within a few seconds
of connecting that it knows one is hung up on, and so are the oldest of too many (`strangers`); what the
others send is bounded, and data. Keys belong to a task: there are none but those of tasks that are open, and
they go when their task is closed. It is authenticated, not encrypted.
"""

from __future__ import annotations

import contextlib
import hmac
import queue
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from healthcheck.burnin.wire import AGENT, MOST_FRAME, RANK, Garbled, packed, proof, token_of
from inventory.peeraddress import peer_of
from inventory.text import clean
from provisioning.burnin.keys import KeyReply, KeyRequest, RendezvousStore
from provisioning.burnin.peer import GREETING_BYTES, Peer, listening, room_for_files
from provisioning.burnin.strangers import Strangers

GREET_S = 10.0
SILENT_S = 15.0             # an agent says something every second; a node under load may be late with it
MOST_UNREAD = 20_000        # of one agent's messages, that no one has taken yet
_CHUNK = 256 * 1024
_MOST_UNSENT = 4 * 1024 * 1024
_TICK_S = 0.25
_OWNER_S = 1.0              # between two searches for whose token it was: each takes a proof of every node


@dataclass(frozen=True)
class AgentConnected:
    """A node's agent is here."""

    node: str
    address: str


@dataclass(frozen=True)
class AgentMessage:
    """A message of a node's agent, a beat apart: a JSON object, as foreign as any."""

    node: str
    message: dict[str, Any]
    at: float


@dataclass(frozen=True)
class AgentGone:
    """The connection of a node's agent has ended."""

    node: str
    why: str
    at: float


@dataclass(frozen=True)
class TokenOfAnother:
    """A peer at this address has given itself out as `claimed` with the token of the node `owner`."""

    owner: str
    claimed: str
    address: str


class KeyServer:
    """The server. As a context manager it serves meanwhile; `events` is what agents do, as AgentConnected,
    AgentMessage and AgentGone, and TokenOfAnother, in order; others may put theirs there, too. `secret` is
    the head's alone: a node's token is made of it. `nodes` are the names that an agent or rank may have,
    `host` and `port` where to listen: "" is every address, 0 a free port. Who can read the traffic can read
    keys and figures, and who can change it can end the burn-in."""

    def __init__(
        self, secret: str, run: str, nodes: Collection[str], *, host: str = "", port: int = 0,
        silent_s: float = SILENT_S, clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._listener = listening(host, port)
        self.events: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.refused = 0
        self.store = RendezvousStore()
        self._secret = secret
        self._run = run
        self._nodes = frozenset(nodes)
        self._silent_s = silent_s
        self._clock = clock
        self._agents: dict[str, Peer] = {}
        self._peers: set[Peer] = set()
        self._strangers = Strangers()
        self._last_search = -_OWNER_S
        self._operations: deque[Callable[[], None]] = deque()
        self._selector = selectors.DefaultSelector()
        self._awake, self._alarm = socket.socketpair()
        self._awake.setblocking(False)
        self._alarm.setblocking(False)
        self._accepting = True
        self._over = False
        self._last_tick = 0.0
        self._thread = threading.Thread(target=self._serve, name="muster-keys", daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> KeyServer:
        room_for_files()
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._selector.register(self._awake, selectors.EVENT_READ, None)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        def end() -> None:
            self._over = True
        self._do(end)
        self._thread.join()
        # Not in the thread: it may see the operation, and end, before the alarm has been sent.
        self._awake.close()
        self._alarm.close()

    def open(self, task: str) -> None:
        """From now on this task may have keys."""
        self._do(lambda: self.store.open(task))

    def close(self, task: str) -> None:
        """Its keys are gone, and whoever waits for one hears that."""
        self._do(lambda: self._answer(self.store.close(task)))

    def send(self, node: str, message: dict[str, Any]) -> None:
        """Sends it to a node's agent, if that is connected."""
        frame = packed(message)
        self._do(lambda: self._send_to(node, frame))

    def taken(self, event: AgentMessage) -> None:
        """Someone has read this message: its agent may say as much again."""
        peer = self._agents.get(event.node)
        if peer is not None:
            peer.read += 1

    def _do(self, operation: Callable[[], None]) -> None:
        """In the server's thread, so that nothing else needs a lock."""
        self._operations.append(operation)
        with contextlib.suppress(BlockingIOError):      # full of alarms: it will wake
            self._alarm.send(b"!")

    def _serve(self) -> None:
        try:
            while not self._over:
                for key, events in self._selector.select(self._wait()):
                    if key.fileobj is self._listener:
                        self._accept()
                    elif key.data is None:
                        with contextlib.suppress(BlockingIOError):
                            self._awake.recv(4096)
                    else:
                        self._move(key.data, events)
                while self._operations:
                    self._operations.popleft()()
                now = self._clock()
                self._answer(self.store.overdue(now))
                if now - self._last_tick >= _TICK_S:
                    self._last_tick = now
                    self._tick(now)
        finally:
            for peer in list(self._peers):
                self._drop(peer, "the burn-in is over")
            self._selector.close()
            self._listener.close()

    def _wait(self) -> float:
        nearest = self.store.nearest
        return _TICK_S if nearest is None else min(_TICK_S, max(0.0, nearest - self._clock()))

    def _tick(self, now: float) -> None:
        """What only time brings about. All that has arrived has been read by now: a head that was held up
        accuses no one of silence."""
        if not self._accepting:
            self._accepting = True
            self._selector.register(self._listener, selectors.EVENT_READ, None)
        for peer in self._strangers.late(now, GREET_S):
            self._refuse(peer, "no greeting")
        for peer in [peer for peer in self._agents.values() if now - peer.last_heard > self._silent_s]:
            self._drop(peer, f"it has been silent for {now - peer.last_heard:.3g} s")

    def _accept(self) -> None:
        for _ in range(64):
            try:
                sock, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:
                if (oldest := self._strangers.oldest()) is not None:
                    self._refuse(oldest, "no greeting")
                    continue
                # No descriptor is left: those who wait stay in the queue until the next tick.
                self._accepting = False
                self._selector.unregister(self._listener)
                return
            sock.setblocking(False)
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer = Peer(sock, str(address[0]), self._clock(), peer_of(str(address[0])))
            self._peers.add(peer)
            if (oldest := self._strangers.add(peer)) is not None:
                self._refuse(oldest, "too many have connected without a greeting")
            self._selector.register(sock, selectors.EVENT_READ, peer)
            self._send(peer, packed({"challenge": peer.challenge}))

    def _move(self, peer: Peer, events: int) -> None:
        if peer not in self._peers:     # dropped since it was reported ready
            return
        if events & selectors.EVENT_WRITE:
            self._flush(peer)
        if events & selectors.EVENT_READ and peer in self._peers:
            try:
                data = peer.sock.recv(_CHUNK if peer.role is not None else GREETING_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                self._drop(peer, f"its connection broke ({error.strerror})")
                return
            if not data:
                self._drop(peer, "it has hung up")
                return
            peer.last_heard = self._clock()
            try:
                peer.waiting.extend(peer.frames.feed(data))
            except Garbled as error:
                self._refuse(peer, str(error))
                return
        self._go_on(peer)

    def _go_on(self, peer: Peer) -> None:
        """Takes what the peer has said, until it has to wait for an answer, or to read those it has."""
        while peer in self._peers and peer.waiting and peer.request is None and len(
            peer.unsent) < _MOST_UNSENT:
            try:
                self._take(peer, peer.waiting.popleft())
            except Garbled as error:
                self._refuse(peer, str(error))
        if peer in self._peers:
            self._watch(peer)

    def _take(self, peer: Peer, message: dict[str, Any]) -> None:
        if peer.role is None:
            self._greet(peer, message)
        elif "op" in message:
            answer = self.store.ask(peer, message, self._clock())
            if isinstance(answer, KeyRequest):
                peer.request = answer
            else:
                self._answer(answer)
        elif peer.role != AGENT:
            raise Garbled("a rank has nothing else to say")
        elif "beat" not in message:
            peer.received += 1
            if peer.received - peer.read > MOST_UNREAD:
                self._drop(peer, f"it said more than {MOST_UNREAD} things before the first was read")
                return
            self.events.put(AgentMessage(peer.node, message, peer.last_heard))

    def _greet(self, peer: Peer, message: dict[str, Any]) -> None:
        role, node, given, challenge = (message.get(word) for word in ("as", "node", "proof", "challenge"))
        if not (isinstance(role, str) and isinstance(node, str) and isinstance(given, str)):
            raise Garbled("no greeting")
        token = token_of(self._secret, node)
        right = proof(token, peer.challenge, role, node)
        if not hmac.compare_digest(given.encode("utf-8", "replace"), right.encode()):
            raise Garbled(self._wrong(peer, given, role, node))
        if role not in (AGENT, RANK) or node not in self._nodes or message.get("run") != self._run:
            raise Garbled("not of this burn-in")
        if role == AGENT and node in self._agents:
            raise Garbled("an agent of this name is here already")
        peer.role, peer.node = role, node
        self._strangers.remove(peer)
        peer.frames.most = MOST_FRAME
        self._send(peer, packed({"welcome": proof(token, str(challenge)[:256], "head", node)}))
        if role == AGENT and peer in self._peers:
            self._agents[node] = peer
            self._strangers.agent(peer, 1)
            self.events.put(AgentConnected(node, peer.address))

    def _wrong(self, peer: Peer, given: str, role: str, node: str) -> str:
        """What a wrong proof is: of no token, or of another node's, which is reported."""
        now = self._clock()
        if now - self._last_search >= _OWNER_S:
            self._last_search = now
            for owner in self._nodes:
                right = proof(token_of(self._secret, owner), peer.challenge, role, node)
                if hmac.compare_digest(given.encode("utf-8", "replace"), right.encode()):
                    self.events.put(TokenOfAnother(owner, clean(node, 64), peer.address))
                    return f"the token of node {owner}, which is not good for {clean(node, 64)}"
        return "a wrong proof"

    def _answer(self, answers: list[KeyReply]) -> None:
        for answer in answers:
            peer = answer.who
            if isinstance(peer, Peer) and peer in self._peers:
                self._send(peer, packed(answer.message))
                if peer.request is not None:
                    peer.request = None
                    self._do(lambda peer=peer: self._go_on(peer))   # type: ignore[misc]

    def _send_to(self, node: str, frame: bytes) -> None:
        if (peer := self._agents.get(node)) is not None:
            self._send(peer, frame)

    def _send(self, peer: Peer, data: bytes) -> None:
        peer.unsent += data
        self._flush(peer)

    def _flush(self, peer: Peer) -> None:
        try:
            while peer.unsent:
                del peer.unsent[:peer.sock.send(peer.unsent[:_CHUNK])]
        except BlockingIOError:
            pass
        except OSError as error:
            self._drop(peer, f"its connection broke ({error.strerror})")
            return
        self._watch(peer)

    def _watch(self, peer: Peer) -> None:
        """What to be woken for. A peer of whom enough waits is not read: it can fill its own buffers, not
        ours."""
        wanted = selectors.EVENT_WRITE if peer.unsent else 0
        if not peer.waiting:
            wanted |= selectors.EVENT_READ
        if wanted == peer.watched:
            return
        if not wanted:
            self._selector.unregister(peer.sock)
        elif not peer.watched:
            self._selector.register(peer.sock, wanted, peer)
        else:
            self._selector.modify(peer.sock, wanted, peer)
        peer.watched = wanted

    def _refuse(self, peer: Peer, why: str) -> None:
        """Hangs up on it, and says why as far as that can be said at once."""
        self.refused += 1
        with contextlib.suppress(OSError):
            peer.sock.send(packed({"error": why}))
        self._drop(peer, f"its message was not understood: {clean(why)}")

    def _drop(self, peer: Peer, why: str) -> None:
        if peer not in self._peers:
            return
        self._peers.discard(peer)
        self._strangers.remove(peer)
        if peer.watched:
            self._selector.unregister(peer.sock)
        peer.sock.close()
        self.store.forget(peer)
        if self._agents.get(peer.node) is peer:
            del self._agents[peer.node]
            self._strangers.agent(peer, -1)
            self.events.put(AgentGone(peer.node, why, self._clock()))
