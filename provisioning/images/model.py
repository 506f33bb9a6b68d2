"""How images stand on nodes, and what was done about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class ImageState(Enum):
    """How one wanted image stands on one node, the worst first."""

    INCOMPLETE = "incomplete"       # the runtime knows it, and lacks a part of it
    OTHER = "other digest"          # what has the tag, or without a tag the name, has another digest
    ABSENT = "absent"
    UNKNOWN = "unknown"
    PRESENT = "present"


class PullEnd(Enum):
    """What a pull of one image came to on one node."""

    PULLED = "pulled"
    THERE = "there"                 # it was there before
    FAILED = "failed"
    NO_SPACE = "no space"           # not begun, or ended, because of the free space


@dataclass(frozen=True)
class NodeImage:
    """One wanted image on one node. `others` are other digests under its tag, or without one its name; ""
    stands for an image without one, built or loaded there. `seconds` are those of the pull."""

    wanted: str
    state: ImageState
    others: tuple[str, ...] = ()
    why: str = ""
    end: PullEnd | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class NodeImages:
    """All wanted images of one node, by which runtime; `left` is why a pull left it out, or ""."""

    node: str
    images: tuple[NodeImage, ...]
    runtime: str = ""
    left: str = ""

    @property
    def state(self) -> ImageState | None:
        """That of its worst image; None where nothing is wanted."""
        return worst(one.state for one in self.images)


def worst(states: Iterable[ImageState]) -> ImageState | None:
    """The first of these in the order of `ImageState`."""
    found = set(states)
    return next((state for state in ImageState if state in found), None)


def unknown(node: str, wanted: Iterable[str], why: str, left: str = "") -> NodeImages:
    """A node of which nothing is known, and why."""
    return NodeImages(node, tuple(NodeImage(one, ImageState.UNKNOWN, why=why) for one in wanted), left=left)
