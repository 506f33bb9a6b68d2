"""Has nodes look at images, or pull them: one program a node, over the usual transport. An answer may be
anything; what cannot be read of it is unknown."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from healthcheck.collector import joined
from healthcheck.collector.loader import LOADER, payload
from inventory.model import Node
from inventory.text import clean
from inventory.transport import answer
from inventory.transport.base import Limits, Program, Reply, Stage, Transport
from inventory.transport.deadline import bounded
from provisioning.images.model import ImageState, NodeImage, NodeImages, PullEnd, unknown
from provisioning.images.onnode.reference import DIGEST
from provisioning.images.turns import PlaceTurns, interleaved
from provisioning.images.wanted import WantedImage

_PARTS = tuple(Path(__file__).with_name("onnode") / f"{name}.py"
               for name in ("reference", "children", "runtimes", "operations"))
_MOST = 1 << 20
_WAY_S = 45.0           # for connecting, logging in and coming back
_LOOK_S = 60.0
_STATES = {"present": ImageState.PRESENT, "other": ImageState.OTHER, "absent": ImageState.ABSENT,
           "incomplete": ImageState.INCOMPLETE}
_ENDS = {one.value: one for one in PullEnd}
_MOST_WHY, _MOST_OTHERS, _MOST_S = 300, 8, 1e7


@dataclass(frozen=True)
class RuntimeChoice:
    """Which runtime is asked: `kind` is auto, docker, containerd or cri; of the others "" is what is usual on
    the node: socket, containerd's namespace and mirrors, programs, the locked file."""

    kind: str = "auto"
    address: str = ""
    namespace: str = ""
    hosts: str = ""
    path: str = ""
    lock: str = ""


@dataclass(frozen=True)
class PullBounds:
    """Seconds for an image on a node, per cent of disk kept free, nodes at a time: all, rack or leaf."""

    seconds: float = 1800.0
    keep_percent: int = 10
    fanout: int = 64
    in_place: int = 4


def look(
    nodes: Sequence[Node], wanted: Sequence[WantedImage], transport: Transport,
    choice: RuntimeChoice = RuntimeChoice(), *, fanout: int = 64, seconds: float | None = None,
) -> Iterator[NodeImages]:
    """How the wanted images stand on each node, each as soon as it is known; changes nothing."""
    limits = Limits(node_s=_WAY_S + _LOOK_S, reply_bytes=_MOST, fanout=fanout)
    yield from _sent(nodes, wanted, transport, choice, {"pull": False}, limits, seconds)


def pull(
    nodes: Sequence[Node], wanted: Sequence[WantedImage], transport: Transport,
    choice: RuntimeChoice = RuntimeChoice(), *, bounds: PullBounds = PullBounds(),
    turns: PlaceTurns | None = None, seconds: float | None = None,
) -> Iterator[NodeImages]:
    """Has each node pull what it lacks, and yields how its images stand then, by what is read of its runtime
    afterwards. What is at work when the line to a node is lost is ended there."""
    turns = turns if turns is not None else PlaceTurns(nodes, bounds.in_place)
    most = max((sum(one.of(node) for one in wanted) for node in nodes), default=0)
    # Looks before and after each pull are bounded on the node by 30 s a question.
    node_s = _WAY_S + most * (bounds.seconds + _LOOK_S)
    limits = Limits(node_s=node_s, reply_bytes=_MOST, fanout=bounds.fanout, turns=turns)
    asked = {"pull": True, "seconds": bounds.seconds, "keep": bounds.keep_percent}
    rounds = turns.rounds(bounds.fanout)
    yield from _sent(interleaved(nodes), wanted, transport, choice, asked, limits,
                     seconds if seconds is not None else node_s * (rounds + 1))


def _sent(
    nodes: Sequence[Node], wanted: Sequence[WantedImage], transport: Transport, choice: RuntimeChoice,
    asked: Mapping[str, Any], limits: Limits, seconds: float | None,
) -> Iterator[NodeImages]:
    numbers = {node.name: [at for at, one in enumerate(wanted) if one.of(node)] for node in nodes}
    request = {
        **asked, "runtime": choice.kind, "address": choice.address, "namespace": choice.namespace,
        "hosts": choice.hosts, "path": choice.path, "lock": choice.lock,
        "images": [{"repository": one.repository, "tag": one.tag, "digest": one.digest, "size": one.size}
                   for one in wanted]}
    words = {name: (",".join(map(str, each)),) for name, each in numbers.items()}
    program = Program(secrets.token_hex(8), LOADER,
                      payload(joined.joined(_PARTS).encode(), json.dumps(request).encode()), words=words,
                      repeatable=not asked["pull"])
    idle = [node for node in nodes if not numbers[node.name]]
    yield from (NodeImages(node.name, ()) for node in idle)
    busy = [node for node in nodes if numbers[node.name]]
    for reply in transport.run(busy, program, bounded(busy, limits, seconds)) if busy else ():
        yield read(reply, [wanted[at].id for at in numbers[reply.node]], pulling=bool(asked["pull"]))


def read(reply: Reply, wanted: Sequence[str], *, pulling: bool) -> NodeImages:
    """What a node answered about these images."""
    if reply.failure is not None:
        why = clean(f"{reply.failure.stage.value}: {reply.failure.reason}", _MOST_WHY)
        began = pulling and reply.failure.stage in (Stage.DEADLINE, Stage.REPLY)
        return unknown(reply.node, wanted, f"{why}; a pull that was at work there is ended" if began else why)
    try:
        found = answer.document(reply.body, _MOST)
        runtime, why = clean(str(found["runtime"]), 40), clean(str(found["why"]), _MOST_WHY)
        images, refused = list(found["images"]), bool(found.get("refused"))
    except answer.UNREADABLE:
        return unknown(reply.node, wanted, "its answer cannot be read")
    seen = [_image(name, one) for name, one in zip(wanted, images)]  # noqa: B905  (one that failed has fewer)
    seen += [NodeImage(name, ImageState.UNKNOWN, why=why or "its answer says nothing of it")
              for name in wanted[len(seen):]]
    return NodeImages(reply.node, tuple(seen), runtime, why if refused else "")


def _image(name: str, given: Any) -> NodeImage:
    """What a node says of one image, which may be anything."""
    state = _STATES.get(str(given.get("state"))) if isinstance(given, dict) else None
    if state is None:
        return NodeImage(name, ImageState.UNKNOWN, why="its answer cannot be read")
    others, seconds = given.get("others"), given.get("seconds")
    kept = [one for one in (others if isinstance(others, list) else ())
            if isinstance(one, str) and (not one or DIGEST.fullmatch(one))]
    took = float(seconds) if type(seconds) in (int, float) and 0 <= seconds < _MOST_S else 0.0
    return NodeImage(name, state, tuple(kept[:_MOST_OTHERS]), clean(str(given.get("why") or ""), _MOST_WHY),
                     _ENDS.get(str(given.get("did"))), took)
