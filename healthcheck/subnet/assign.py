"""Which cable is to serve which planned link, so that as few ends as possible change ports; pure.

The cost of a repair is the number of ends that are plugged in: an end that changes its port is one, a cable
that is newly laid two. Cables that fit a link are exchangeable. A cable has two ends and a link two ports, so
those that meet at ports form chains and circles only; in each, a best assignment is found end by end (dynamic
programming), in linear time. What shares no port costs two plugs whether it is an old cable or a new one, so
nothing outside a chain can make it cheaper. Among equally few plugs those win, in this order: few links that
need a new cable, cables where their serial numbers are planned, ends that stay at their device, or rack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from healthcheck.subnet.cabled import SeenCable, fits, joins
from healthcheck.subnet.cabling import PlannedCable, PlannedEnd

_PLUG, _NEW, _SERIAL = 10**12, 10**9, 10**6  # one of each outweighs all below it, within a chain


@dataclass(frozen=True)
class CableChain:
    """Planned links and cables that meet at ports, as far as these lead; `pairs` says which cable serves
    which link. The others need another cable, or are left over. A circle leads back to its beginning."""

    links: tuple[PlannedCable, ...]
    cables: tuple[SeenCable, ...]
    pairs: tuple[tuple[PlannedCable, SeenCable], ...]
    circle: bool

    @property
    def unserved(self) -> tuple[PlannedCable, ...]:
        """Links without a cable."""
        served = {id(link) for link, _ in self.pairs}
        return tuple(link for link in self.links if id(link) not in served)

    @property
    def left(self) -> tuple[SeenCable, ...]:
        """Cables without a link."""
        serving = {id(cable) for _, cable in self.pairs}
        return tuple(cable for cable in self.cables if id(cable) not in serving)


Rack = Callable[[str], object]


def chains(links: Sequence[PlannedCable], cables: Sequence[SeenCable], rack: Rack,
           wanted: Callable[[PlannedCable], bool]) -> Iterator[CableChain]:
    """Every chain and circle, those of one link with its own fitting cable too. `rack` gives a device's
    rack; `wanted` says whether a link that is left without a cable is known to have none."""
    at_link = {end: link for link in links for end in (link.a, link.b)}
    at_cable = {end: cable for cable in cables for end in cable.ends}
    done: set[int] = set()
    for link in links:
        if id(link) not in done:
            yield _solved(_walk(link, at_link, at_cable), done, rack, wanted)
    for cable in cables:
        if id(cable) not in done:
            done.add(id(cable))
            yield CableChain((), (cable,), (), False)


Item = PlannedCable | SeenCable


def _walk(start: PlannedCable, at_link: Mapping[PlannedEnd, PlannedCable],
          at_cable: Mapping[PlannedEnd, SeenCable]) -> tuple[list[Item], bool]:
    """The links and cables of a chain in order, from one end of it to the other; of a circle from `start`."""
    forth = [*_from(start, start.b, at_link, at_cable)]
    if forth and forth[-1] is start:
        return [start, *forth[:-1]], True
    back = [*_from(start, start.a, at_link, at_cable)]
    return [*reversed(back), start, *forth], False


def _from(start: PlannedCable, end: PlannedEnd, at_link: Mapping[PlannedEnd, PlannedCable],
          at_cable: Mapping[PlannedEnd, SeenCable]) -> Iterator[Item]:
    """What follows at a port of `start`, up to the chain's end, or to `start` itself."""
    while (cable := at_cable.get(end)) is not None:
        yield cable
        end = cable.b if end == cable.a else cable.a
        link = at_link.get(end)
        if link is None:
            return
        yield link
        if link is start:
            return
        end = link.b if end == link.a else link.a


def _solved(walked: tuple[list[Item], bool], done: set[int], rack: Rack,
            wanted: Callable[[PlannedCable], bool]) -> CableChain:
    items, circle = walked
    done.update(map(id, items))
    links = tuple(item for item in items if isinstance(item, PlannedCable))
    cables = tuple(item for item in items if isinstance(item, SeenCable))
    if circle and len(items) == 2:
        pairs = ((links[0], cables[0]),) if fits(cables[0], links[0]) else ()
        return CableChain(links, cables, pairs, True)
    gains = [_gain(items[at], items[(at + 1) % len(items)], rack) for at in range(len(items) - (not circle))]
    losses = [-_NEW if isinstance(item, PlannedCable) and wanted(item) else 0 for item in items]
    chosen, best = _chosen(gains[: len(items) - 1], losses)
    if circle and (last := gains[-1]) is not None:
        inner, value = _chosen(gains[1:-2], losses[1:-1])
        if value + last > best:
            chosen = [len(items) - 1, *(at + 1 for at in inner)]
    return CableChain(links, cables, tuple(_pair(items[at], items[(at + 1) % len(items)])
                                           for at in sorted(chosen)), circle)


def _chosen(gains: Sequence[int | None], losses: Sequence[int]) -> tuple[list[int], int]:
    """Which gains to take, no two of them beside each other, and their value: gain i joins the items i and
    i + 1, and an item that is in none has its loss. None: may not be joined."""
    best = [0, losses[0] if losses else 0]  # of the first 0, 1, ... items
    taken = [False, False]
    for at in range(1, len(losses)):
        without = best[-1] + losses[at]
        gain = gains[at - 1]
        within = None if gain is None else best[-2] + gain
        taken.append(within is not None and within > without)
        best.append(within if within is not None and within > without else without)
    chosen = []
    at = len(losses)
    while at > 0:
        if taken[at]:
            chosen.append(at - 2)
            at -= 2
        else:
            at -= 1
    return chosen, best[-1]


def _pair(one: Item, other: Item) -> tuple[PlannedCable, SeenCable]:
    if isinstance(one, PlannedCable) and isinstance(other, SeenCable):
        return one, other
    assert isinstance(one, SeenCable) and isinstance(other, PlannedCable)  # noqa: S101  (a chain alternates)
    return other, one


def _gain(one: Item, other: Item, rack: Rack) -> int | None:
    """What it is worth that this cable serves this link, which share a port; None where it does not fit."""
    link, cable = _pair(one, other)
    if not fits(cable, link):
        return None
    if joins(cable, link):
        return 2 * _PLUG
    source, target = moved(cable, link)
    here = rack(source.device)
    far = (0 if source.device == target.device
           else 1 if here is not None and here == rack(target.device) else 2)
    other_serial = link.serial is not None and cable.serial is not None and link.serial != cable.serial
    longer = cable.metres is not None and link.metres is not None and cable.metres > link.metres
    return _PLUG - other_serial * _SERIAL - far * 2 - longer


def moved(cable: SeenCable, link: PlannedCable) -> tuple[PlannedEnd, PlannedEnd]:
    """Of a cable and a link that share one port: where its other end is, and where it belongs."""
    for here, there in ((cable.a, cable.b), (cable.b, cable.a)):
        if here == link.a:
            return there, link.b
        if here == link.b:
            return there, link.a
    raise ValueError("they share no port")
