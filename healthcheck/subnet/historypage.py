"""What became of links over time, in lines for a terminal and as the document muster.fabric.history/1."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from healthcheck.subnet.check.seen import SeenSubnet
from healthcheck.subnet.linkhistory import DeviceRestart, LinkHistory, LinkOutage
from healthcheck.subnet.model import FabricEnd, FabricLink
from inventory.text import clean, many

SCHEMA = "muster.fabric.history/1"


@dataclass(frozen=True)
class HistoryShown:
    """A history with the names of its places, the number of events and the times of the first and the last
    (None where there is none), and what is not known, a line each."""

    history: LinkHistory
    seen: SeenSubnet
    events: int
    first: float | None
    last: float | None
    unknown: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 where a link was down by itself, 3 where something is not known, else 0."""
        if self.history.outages:
            return 1
        return 3 if self.unknown or not self.events else 0

    def link_name(self, link: FabricLink) -> str:
        """ "leaf01 port 3 to gpu004 mlx5_0"."""
        return self.seen.at_link(link.a, link.b).name

    def who_name(self, restart: DeviceRestart) -> str:
        """The host, or the switch by its name."""
        return self.seen.device_name(restart.who) if restart.who in self.seen.subnet.devices else restart.who

    def of_node(self, name: str) -> HistoryShown:
        """Only what concerns a node, or a switch by its name or GUID."""
        return self._only(lambda link: name in self._names(link),
                          lambda one: name in (one.who, self.who_name(one)))

    def of_links(self, words: str) -> HistoryShown:
        """Only links whose names hold these words."""
        return self._only(lambda link: words in self.link_name(link),
                          lambda one: any(words in self.link_name(link) for link in one.links))

    def links(self) -> frozenset[FabricLink]:
        """Every link that the outputs or the events show."""
        return self.seen.subnet.links | {one.link for one in self.history.outages}

    def knows_node(self, name: str) -> bool:
        """Whether a link of a node or switch of this name is shown."""
        return any(name in self._names(link) for link in self.links())

    def _names(self, link: FabricLink) -> set[str]:
        names = {self.seen.device_name(end.guid) for end in (link.a, link.b)}
        return names | {link.a.guid, link.b.guid, *self.seen.at_link(link.a, link.b).nodes}

    def _only(self, links: Callable[[FabricLink], bool],
              restarts: Callable[[DeviceRestart], bool]) -> HistoryShown:
        return replace(self, history=LinkHistory(
            tuple(one for one in self.history.restarts if restarts(one)),
            tuple(one for one in self.history.outages if links(one.link))))


def lines(shown: HistoryShown) -> Iterator[str]:
    """A line for each link that was down by itself, the most often first; restarts; and a line in sum."""
    for link, outages in _by_link(shown.history):
        yield clean(f"{shown.link_name(link)}: {_words(outages)}", 500)
    for one in shown.history.restarts:
        yield clean(f"restarted: {shown.who_name(one)} at {_clock(one.began)}, "
                    f"{many(len(one.links), 'link')} down for {_seconds(one.ended - one.began)}", 500)
    for line in shown.unknown:
        yield f"unknown: {clean(line, 500)}"
    if shown.first is None or shown.last is None:
        yield "no event was read"
        return
    yield (f"{many(shown.events, 'event')} from {_clock(shown.first)} to {_clock(shown.last)} (UFM's clock): "
           f"{many(len(shown.history.outages), 'outage')} that no restart explains, "
           f"{many(len(shown.history.restarts), 'restart')}")


def document(shown: HistoryShown) -> dict[str, Any]:
    """The document; times are those of UFM's clock, without a zone."""
    return {
        "schema": SCHEMA, "exit": shown.exit_code, "events": shown.events,
        "first": _iso(shown.first), "last": _iso(shown.last),
        "links": [{
            "link": clean(shown.link_name(link), 300), "a": _end(shown, link.a), "b": _end(shown, link.b),
            "nodes": [clean(node, 200) for node in shown.seen.at_link(link.a, link.b).nodes],
            "outages": [{"began": _iso(one.began), "ended": _iso(one.ended),
                         "seconds": None if one.ended is None else round(one.ended - one.began, 3)}
                        for one in outages],
        } for link, outages in _by_link(shown.history)],
        "restarts": [{"who": clean(shown.who_name(one), 200), "began": _iso(one.began),
                      "ended": _iso(one.ended), "seconds": round(one.ended - one.began, 3),
                      "links": [clean(shown.link_name(link), 300) for link in one.links]}
                     for one in shown.history.restarts],
        "unknown": [clean(line, 500) for line in shown.unknown],
    }


def _by_link(history: LinkHistory) -> Sequence[tuple[FabricLink, Sequence[LinkOutage]]]:
    found: dict[FabricLink, list[LinkOutage]] = {}
    for one in history.outages:
        found.setdefault(one.link, []).append(one)
    return sorted(found.items(), key=lambda each: (-len(each[1]), each[0]))


def _words(outages: Sequence[LinkOutage]) -> str:
    last = outages[-1]
    whole = sum(one.ended - one.began for one in outages if one.ended is not None)
    often = f"down {many(len(outages), 'time')}"
    if last.ended is None:
        return f"{often}, since {_clock(last.began)} and not up again"
    return f"{often}, {_seconds(whole)} in all, last at {_clock(last.began)}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 1 or not seconds else f"{seconds:.3f} s"


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def _iso(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, timezone.utc).replace(tzinfo=None).isoformat()


def _end(shown: HistoryShown, end: FabricEnd) -> Mapping[str, object]:
    return {"device": clean(shown.seen.device_name(end.guid), 200), "guid": end.guid, "port": end.number}
