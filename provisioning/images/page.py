"""Images of nodes as lines for people and as a document (`muster.images/1`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from inventory.nodeset import fold
from inventory.reasons import fold_reasons
from inventory.times import second
from provisioning.images.model import ImageState, NodeImages, PullEnd
from provisioning.images.progress import pull_seconds
from provisioning.images.turns import stragglers
from provisioning.images.wanted import WantedImage

SCHEMA = "muster.images/1"
_STATES = (ImageState.INCOMPLETE, ImageState.OTHER, ImageState.ABSENT, ImageState.UNKNOWN, ImageState.PRESENT)
_SHORT = len("sha256:") + 12


@dataclass(frozen=True)
class ImageGroup:
    """Nodes on which one wanted image stands in one way. `others` are the digests that its tag has there."""

    wanted: str
    state: ImageState
    others: tuple[str, ...]
    why: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class ImagesReport:
    """What is wanted, how it stands at `now` (epoch seconds), and by node why a pull left it out."""

    wanted: tuple[WantedImage, ...]
    nodes: tuple[NodeImages, ...]
    now: float
    left: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def groups(self) -> tuple[ImageGroup, ...]:
        """By image, the worst state first, then by first node; addresses in reasons make no difference."""
        found: dict[tuple[str, ImageState, tuple[str, ...]], list[tuple[str, str]]] = {}
        for node in self.nodes:
            for one in node.images:
                found.setdefault((one.wanted, one.state, one.others), []).append((node.node, one.why))
        order = {one.id: at for at, one in enumerate(self.wanted)}
        groups = [ImageGroup(*key, each.text, each.nodes)
                  for key, reasons in found.items() for each in fold_reasons(reasons)]
        return tuple(sorted(groups, key=lambda one: (order[one.wanted], _STATES.index(one.state))))

    @property
    def code(self) -> int:
        """The exit code: 1 where a node lacks one, 3 where something is not known or nothing is wanted."""
        states = {one.state for one in self.nodes} - {None}
        if states & {ImageState.INCOMPLETE, ImageState.OTHER, ImageState.ABSENT}:
            return 1
        return 0 if states == {ImageState.PRESENT} else 3

    def slow(self) -> tuple[float, dict[str, float]]:
        """The median of the pulls in seconds, and those that took far longer."""
        return stragglers({one.node: took for one in self.nodes if (took := pull_seconds(one)) > 0}, {})


def lines(report: ImagesReport) -> Iterator[str]:
    """Image by image how it stands, who was left out, who was slow, and a recap."""
    groups = report.groups
    for image in report.wanted:
        mine = [one for one in groups if one.wanted == image.id]
        if mine:
            yield image.reference if image.id == image.reference else f"{image.id}: {image.reference}"
            yield from (_group(one, image) for one in mine)
    if idle := [one.node for one in report.nodes if one.state is None]:
        yield f"nothing wanted  {fold(idle)}"
    for each in fold_reasons(report.left.items()):
        yield f"left out  {each.names}  {each.text}"
    median, slow = report.slow()
    if slow:
        yield f"slow, where the median is {median:.0f} s: " + ", ".join(
            f"{name} {took:.0f} s" for name, took in list(slow.items())[:20])
    yield recap(report)


def recap(report: ImagesReport) -> str:
    """Nodes by their worst image, and what was pulled."""
    counts = [f"{count} {state.value}" for state in _STATES
              if (count := sum(one.state is state for one in report.nodes))]
    pulled = sum(image.end is PullEnd.PULLED for one in report.nodes for image in one.images)
    total = len(report.nodes)
    images = f"; pulled: {pulled}" if any(image.end for one in report.nodes for image in one.images) else ""
    return f"{total} {'node' if total == 1 else 'nodes'}: {', '.join(counts) or 'nothing wanted'}{images}"


def _group(group: ImageGroup, image: WantedImage) -> str:
    said = [_others(group.others, image)] if group.others else []
    words = "; ".join([*said, *([group.why] if group.why else [])])
    return f"  {group.state.value:12} {len(group.nodes):5}  {fold(group.nodes)}  {words}".rstrip()


def _others(others: Sequence[str], image: WantedImage) -> str:
    digests = ", ".join(one[:_SHORT] or "an image without a digest, built or loaded there" for one in others)
    return f"{image.tag or 'its name'} is {digests}"


def document(report: ImagesReport) -> dict[str, Any]:
    """The document; times in UTC, durations in seconds."""
    median, slow = report.slow()
    return {
        "schema": SCHEMA, "time": second(report.now),
        "wanted": [{"id": one.id, "image": one.reference, "repository": one.repository,
                    "tag": one.tag or None, "digest": one.digest, "skus": list(one.skus),
                    "profiles": list(one.profiles),
                    "labels": dict(one.labels)} for one in report.wanted],
        "groups": [{"wanted": one.wanted, "state": one.state.value, "others": list(one.others),
                    "why": one.why, "nodes": list(one.nodes)} for one in report.groups],
        "nodes": [_node(one, report.left) for one in report.nodes],
        "median_seconds": median if slow else None,
        "slow": [{"node": name, "seconds": took} for name, took in slow.items()]}


def _node(one: NodeImages, left: Mapping[str, str]) -> dict[str, Any]:
    return {
        "node": one.node, "state": "nothing wanted" if one.state is None else one.state.value,
        "runtime": one.runtime or None, "left_out": one.left or left.get(one.node) or None,
        "images": [{"wanted": image.wanted, "state": image.state.value, "others": list(image.others),
                    "why": image.why, "pull": image.end.value if image.end is not None else None,
                    "seconds": image.seconds} for image in one.images]}
