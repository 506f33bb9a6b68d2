"""The steps of pinning controllers' certificates: what each shows, what to do about it, doing it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from inventory.model import Node
from provisioning.bmc import pins
from provisioning.bmc.base import BmcError
from provisioning.bmc.connect import REDFISH_PORT
from provisioning.bmc.redfish.wire import Deadline, RedfishEndpoint, shows


class PinOutcome(Enum):
    """What is done about one node; the value is for people."""

    PIN = "to pin"
    REPLACE = "to replace"
    KNOWN = "known"
    CHANGED = "refused: changed"
    UNEXPECTED = "refused: not as the list says"
    UNLISTED = "refused: not in the list"
    UNREACHED = "not reached"

    @property
    def writes(self) -> bool:
        """Whether a pin is to be written."""
        return self in (PinOutcome.PIN, PinOutcome.REPLACE)

    @property
    def refused(self) -> bool:
        """Whether a person has to look."""
        return self in (PinOutcome.CHANGED, PinOutcome.UNEXPECTED, PinOutcome.UNLISTED)


@dataclass(frozen=True)
class ControllerEnrolment:
    """What a node's controller shows, what is pinned and decided; `vouched`: a list names the fingerprint."""

    node: str
    outcome: PinOutcome
    shown: str = ""
    pinned: str = ""
    why: str = ""
    vouched: bool = False


def looked(nodes: Sequence[Node], seconds: float, fanout: int) -> dict[str, str | BmcError]:
    """The fingerprint that each controller shows; no login, no request is sent."""
    def one(node: Node) -> str | BmcError:
        assert node.bmc is not None  # noqa: S101  (the caller has chosen those)
        try:
            return shows(RedfishEndpoint(node.name, node.bmc.address, node.bmc.port or REDFISH_PORT, "pin"),
                         Deadline(seconds))
        except BmcError as problem:
            return problem

    with ThreadPoolExecutor(max(1, min(fanout, len(nodes))), thread_name_prefix="bmc") as pool:
        return dict(zip((node.name for node in nodes), pool.map(one, nodes), strict=True))


def decided(seen: Mapping[str, str | BmcError], held: Mapping[str, str], expected: Mapping[str, str] | None,
            replacing: Collection[str]) -> Iterator[ControllerEnrolment]:
    """What is to be done about each."""
    for node, shown in seen.items():
        pinned = held.get(node, "")
        if isinstance(shown, BmcError):
            yield ControllerEnrolment(node, PinOutcome.UNREACHED, "", pinned, shown.message)
        elif expected is not None and expected.get(node) != shown:
            outcome = PinOutcome.UNEXPECTED if node in expected else PinOutcome.UNLISTED
            why = f"it shows {pins.shown(shown)}" + (
                f", and the list says {pins.shown(expected[node])}" if node in expected else "")
            yield ControllerEnrolment(node, outcome, shown, pinned, why)
        elif pinned == shown:
            yield ControllerEnrolment(node, PinOutcome.KNOWN, shown, pinned)
        elif pinned and node not in replacing:
            why = (f"it shows {pins.shown(shown)}, and {pins.shown(pinned)} is pinned; if it was changed on "
                   "purpose: ")
            yield ControllerEnrolment(
                node, PinOutcome.CHANGED, shown, pinned, f"{why}muster bmc enroll {node} --replace {node}")
        else:
            yield ControllerEnrolment(node, PinOutcome.REPLACE if pinned else PinOutcome.PIN, shown, pinned,
                                      vouched=expected is not None)


def written(folder: Path, subjects: Iterable[ControllerEnrolment]) -> None:
    """Pins what was decided. Raises MusterError and pins nothing."""
    writing = [one for one in subjects if one.outcome.writes]
    if writing:
        pins.write(folder, {one.node: one.shown for one in writing},
                   {one.node: one.pinned for one in writing if one.pinned})


def shared(subjects: Iterable[ControllerEnrolment]) -> dict[str, tuple[str, ...]]:
    """The certificates that several show, with the nodes: whoever has the key can pose as all of them."""
    found: dict[str, list[str]] = {}
    for one in subjects:
        if one.shown:
            found.setdefault(one.shown, []).append(one.node)
    return {shown: tuple(nodes) for shown, nodes in found.items() if len(nodes) > 1}
