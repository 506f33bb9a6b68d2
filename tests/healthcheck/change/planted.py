"""Makes fleets before and after a change, with the noise of real ones, and plants what a change can do to a
canary.

Nothing here knows how a change is judged.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from healthcheck.change.model import FigureSeries, LogForm, LoggedForms, NodeStanding, SiteChange, Stood

BEGAN = 1_795_000_000.0
HOUR = 3600.0
FIGURES = tuple(f"{figure}, {stage}, H100, {size}" for figure, stage in
                (("busbw_gb_s", "node"), ("busbw_gb_s", "leaf_pairs"), ("tflops_bf16", "node"),
                 ("memory_gb_s", "node"))
                for size in ("1 MiB", "32 MiB", "1 GiB", "8 GiB"))
SEEN = {f"f{number:03}": LogForm(f"mlx5_core <*>: line {number} of a healthy start", 6)
        for number in range(60)}
NEW_LINE = LogForm("NVRM: a line of the new driver: <*>", 4)


def names(first: int, count: int) -> tuple[str, ...]:
    return tuple(f"gpu{number:03}" for number in range(first, first + count))


@dataclass(frozen=True)
class Fleet:
    """A change as it stood, and what stands since."""

    change: SiteChange
    after: Stood


def fleet(seed: int, canary: int = 8, controls: int = 8, *, noise: float = 0.004, strays: float = 0.05,
          everyone: float = 1.0, without: Sequence[str] = ()) -> Fleet:
    """A change that does nothing. Every node has its own speed and `noise` in each run; a node logs, with the
    probability `strays`, a warning that no node has logged before. All run at the share `everyone` of
    before."""
    chance = random.Random(seed)
    ours, theirs = names(1, canary), names(101, controls)
    every = (*ours, *theirs)
    speed = {(figure, node): chance.uniform(300, 500) for figure in FIGURES for node in every}

    def figures(share: float) -> tuple[FigureSeries, ...]:
        found = []
        for figure in FIGURES:
            if "pairs" in figure:
                sides = [(left, right) for group in (ours, theirs)
                         for left, right in zip(group, group[1:] + group[:1], strict=True)
                         if left < right]
                found += [FigureSeries(figure, f"{left}-{right}", (left, right), (
                    min(speed[figure, left], speed[figure, right]) * share * (1 + chance.gauss(0, noise)),))
                    for left, right in sides]
            else:
                found += [FigureSeries(figure, node, (node,),
                                       (speed[figure, node] * share * (1 + chance.gauss(0, noise)),))
                          for node in every]
        return tuple(found)

    forms = dict(SEEN)

    def node(time: float, driver: str, boot: str, stray: bool) -> NodeStanding:
        ids = set(chance.sample(sorted(SEEN), 55)) if not stray else set(SEEN)
        if stray and chance.random() < strays:
            form = f"s{len(forms):03}"
            forms[form] = LogForm(f"{form}: something happened once <*>", 4)
            ids.add(form)
        return NodeStanding(time,
                            frozenset({"host-uptime"}) if chance.random() < 0.1 else frozenset(), frozenset(),
                            {"driver": driver, "kernel": "6.8.0"}, boot,
                            LoggedForms(frozenset(ids), frozenset(), True))

    old = {name: node(BEGAN - HOUR, "570", f"{name}-1", False) for name in every}
    before = Stood("a saved sweep", "rules",
                   {name: replace(one, log=LoggedForms(frozenset(SEEN), frozenset(SEEN), True))
                    for name, one in old.items()}, dict(SEEN), figures(1.0), ("run-1",))
    new = {name: replace(node(BEGAN + HOUR, "575" if name in ours else "570",
                              f"{name}-{2 if name in ours else 1}", True),
                         failing=old[name].failing) for name in every}
    change = SiteChange("driver-575", "ann", BEGAN, ours, theirs, "as given", (names(201, 16), names(301, 8)),
                        tuple(without), before)
    return Fleet(change, Stood("another sweep", "rules", new, forms, figures(everyone), ("run-2",)))


def slower(fleet: Fleet, figure: str, share: float, nodes: Iterable[str] | None = None) -> Fleet:
    """One figure of the canary (or of these nodes) runs at this share."""
    there = set(fleet.change.canary if nodes is None else nodes)
    return _after(fleet, figures=tuple(
        replace(one, values=tuple(value * share for value in one.values)) if one.figure == figure
        and set(one.nodes) <= there else one
        for one in fleet.after.figures))


def new_line(fleet: Fleet, nodes: Iterable[str] | None = None, line: LogForm = NEW_LINE,
             key: str = "new") -> Fleet:
    """The canary (or these nodes) logs a line that no one has logged before."""
    for name in fleet.change.canary if nodes is None else nodes:
        one = fleet.after.nodes[name]
        assert one.log is not None
        log = replace(one.log, ids=one.log.ids | {key})
        fleet = _nodes(fleet, {name: replace(one, log=log)})
    return _after(fleet, forms={**fleet.after.forms, key: line})


def failing(fleet: Fleet, rule: str, nodes: Iterable[str]) -> Fleet:
    """A rule fails on these nodes since."""
    return _nodes(fleet,
                  {name: replace(fleet.after.nodes[name], failing=fleet.after.nodes[name].failing | {rule})
                   for name in nodes})


def unmeasured(fleet: Fleet, rule: str, nodes: Iterable[str]) -> Fleet:
    """A rule cannot be measured on these nodes any more."""
    return _nodes(fleet,
                  {name: replace(fleet.after.nodes[name],
                                 unmeasured=fleet.after.nodes[name].unmeasured | {rule})
                   for name in nodes})


def skipping(fleet: Fleet, nodes: Iterable[str], before: Iterable[str] = (), since: Iterable[str] = (),
             count: int = 0) -> Fleet:
    """These nodes leave these rules out, before and since, or so many more of which no one says which."""
    names = tuple(nodes)
    old = {name: replace(fleet.change.before.nodes[name], skipped=frozenset(before), skips=len(tuple(before)))
           for name in names}
    stood = replace(fleet.change.before, nodes={**fleet.change.before.nodes, **old})
    return _nodes(replace(fleet, change=replace(fleet.change, before=stood)), {
        name: replace(fleet.after.nodes[name], skipped=frozenset(since), skips=len(tuple(since)) + count)
        for name in names})


def flapping(fleet: Fleet, rule: str, often: float, seed: int) -> Fleet:
    """A rule that fails on each node with this probability, before and since, whatever is changed."""
    chance = random.Random(seed)

    def with_it(nodes: Mapping[str, NodeStanding]) -> dict[str, NodeStanding]:
        return {name: replace(one, failing=one.failing | {rule}) if chance.random() < often else one
                for name, one in nodes.items()}

    stood = replace(fleet.change.before, nodes=with_it(fleet.change.before.nodes))
    return _nodes(replace(fleet, change=replace(fleet.change, before=stood)), with_it(fleet.after.nodes))


def away(fleet: Fleet, nodes: Iterable[str]) -> Fleet:
    """These nodes were not reached since."""
    return _nodes(fleet, {name: NodeStanding(BEGAN + HOUR, missing="connect: refused") for name in nodes})


def as_before(fleet: Fleet, nodes: Iterable[str]) -> Fleet:
    """The newest snapshot of these nodes is the one from before the change."""
    return _nodes(fleet, {name: fleet.change.before.nodes[name] for name in nodes})


def not_burnt_in(fleet: Fleet, figure: str | None = None, nodes: Iterable[str] | None = None) -> Fleet:
    """No burn-in has measured it since: all figures, or one, on all nodes, or on these."""
    there = None if nodes is None else set(nodes)
    return _after(fleet, figures=tuple(
        one for one in fleet.after.figures
        if (figure is not None and one.figure != figure)
        or (there is not None and not set(one.nodes) & there)))


def never_burnt_in(fleet: Fleet, figure: str, nodes: Iterable[str]) -> Fleet:
    """No burn-in has measured this figure on these nodes, neither before nor since."""
    there = set(nodes)

    def left(series: Iterable[FigureSeries]) -> tuple[FigureSeries, ...]:
        return tuple(one for one in series if one.figure != figure or not set(one.nodes) & there)

    before = replace(fleet.change.before, figures=left(fleet.change.before.figures))
    return _after(replace(fleet, change=replace(fleet.change, before=before)),
                  figures=left(fleet.after.figures))


def together(fleet: Fleet, figure: str, share: float) -> Fleet:
    """A figure of canary and controls together, three runs before, and since at this share."""
    every = (*fleet.change.canary, *fleet.change.controls)
    old, new = (FigureSeries(figure, "all", every, tuple(value * of for value in (385.0, 386.0, 384.0)))
                for of in (1.0, share))
    before = replace(fleet.change.before, figures=(*fleet.change.before.figures, old))
    return _after(replace(fleet, change=replace(fleet.change, before=before)),
                  figures=(*fleet.after.figures, new))


def _nodes(fleet: Fleet, nodes: Mapping[str, NodeStanding]) -> Fleet:
    return _after(fleet, nodes={**fleet.after.nodes, **nodes})


def _after(fleet: Fleet, **more: object) -> Fleet:
    return replace(fleet, after=replace(fleet.after, **more))      # type: ignore[arg-type]
