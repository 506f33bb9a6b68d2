"""Makes one finding of ranks that are slow together: all those of a host, all hosts of a place; and finds the
places that are slower than others in one window: a rack with warm air slows all its hosts by less than any of
them would be accused for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from healthcheck.watch.late import LateWindow
from healthcheck.watch.model import WatchLevel
from healthcheck.watch.robust import measured, median_of, spread

_MOST_OF = 2 / 3        # of a host's ranks, or a place's hosts
_LEAST_HOSTS = 3        # of a place: with fewer, nothing tells the place from its hosts
PLACE_EFFECT = 0.03     # of the job's step, by which a place is slower
_PLACE_SIGMAS, _PLACE_FLOOR = 6.0, 0.003
_LEAST_PLACES = 4
_MOST_APART = 2.0       # how many times slower than its fellows a rank may be, to be one of them


@dataclass(frozen=True)
class Accused:
    """A rank that stays late, by `excess` seconds a step."""

    slot: int
    rank: int
    host: str
    place: str
    excess: float


@dataclass(frozen=True)
class Group:
    """Ranks that one finding is about."""

    level: WatchLevel
    subject: str
    accused: tuple[Accused, ...]
    hosts: tuple[str, ...]


def grouped(accused: Sequence[Accused], everyone: Iterable[tuple[str, str]]) -> list[Group]:
    """The findings that these ranks make; `everyone` is host and place of each rank that reports."""
    if not accused:
        return []
    ranks_of: Counter[str] = Counter()
    hosts_of: dict[str, set[str]] = defaultdict(set)
    for host, place in everyone:
        ranks_of[host] += 1
        hosts_of[place].add(host)
    by_host: dict[str, list[Accused]] = defaultdict(list)
    for one in accused:
        by_host[one.host].append(one)
    whole = {host: tuple(ones) for host, ones in by_host.items() if host and ranks_of[host] > 1
             and len(ones) >= _MOST_OF * ranks_of[host] and _equally_slow(ones)}
    found: list[Group] = []
    taken: set[str] = set()
    for place in dict.fromkeys(one.place for one in accused):
        hosts = [host for host in hosts_of[place]
                 if host in whole or (host in by_host and ranks_of[host] == 1)]
        if place and len(hosts_of[place]) >= _LEAST_HOSTS and len(hosts) >= _MOST_OF * len(hosts_of[place]):
            ones = tuple(one for host in sorted(hosts) for one in by_host[host])
            found.append(Group(WatchLevel.PLACE, f"ranks of {place}", ones, tuple(sorted(hosts))))
            taken |= set(hosts)
    for host, own in by_host.items():
        if host in taken:
            continue
        if host in whole:
            found.append(Group(WatchLevel.HOST, f"host {host}", whole[host], (host,)))
        else:
            found += [Group(WatchLevel.RANK, f"rank {one.rank}", (one,), (host,) if host else ())
                      for one in own]
    return found


def _equally_slow(ones: Sequence[Accused]) -> bool:
    """Whether they are about equally slow; else one of them is, and the others wait for it."""
    return max(one.excess for one in ones) <= _MOST_APART * min(one.excess for one in ones)


def late_places(of: Mapping[int, str], hosts: Sequence[str], seen: LateWindow) -> dict[str, float]:
    """The places that are slower, with how many seconds a step; `of` gives the place of each slot that
    reported, "" where it is not known."""
    excess: dict[str, list[float]] = defaultdict(list)
    members: dict[str, set[str]] = defaultdict(set)
    for slot, place in of.items():
        if place:
            excess[place].append(seen.excess[slot])
            members[place].add(hosts[slot])
    middles = {place: median_of(measured(values)) for place, values in excess.items()
               if len(members[place]) >= _LEAST_HOSTS}
    ordered = measured(list(middles.values()))
    if len(ordered) < _LEAST_PLACES:
        return {}
    middle = median_of(ordered)
    sigma = max(spread(ordered, middle), _PLACE_FLOOR * seen.seconds)
    limit = max(PLACE_EFFECT * seen.seconds, _PLACE_SIGMAS * sigma)
    return {place: value - middle for place, value in middles.items() if value - middle > limit}
