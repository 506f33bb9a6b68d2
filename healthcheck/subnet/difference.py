"""How the cabling that is there differs from the plan, in words of whoever plugs cables, and the steps that
repair it; pure.

A link is missing where both its devices were seen without one, in a subnet that was read to its end. A link
that is down looks the same as one without a cable, and is named so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from healthcheck.subnet.assign import CableChain, chains
from healthcheck.subnet.cabled import CabledFabric, SeenCable, joins, known_to_fit
from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedEnd
from healthcheck.subnet.exchanged import exchanged
from healthcheck.subnet.misplugged import Misplugged, describe
from healthcheck.subnet.moves import CableAction, CableStep, laid, steps
from healthcheck.subnet.plancheck import named
from inventory.nodeset import natural


class DifferenceKind(Enum):
    """What a difference is; the order is that of a report."""

    CROSSED = "crossed rails"
    SWAPPED = "swapped"
    SHIFTED = "shifted"
    CIRCLE = "in a circle"
    MISPLACED = "misplaced"
    WRONG_CABLE = "wrong cable"
    MISSING = "missing"
    EXTRA = "extra"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class CablingDifference:
    """One thing that differs. `what` is it in a line; `planned` are the links concerned, `seen` the cables;
    `steps` repair it. `harmless`: every cable still joins the two devices that it should, at other ports."""

    kind: DifferenceKind
    what: str
    planned: tuple[PlannedCable, ...] = ()
    seen: tuple[SeenCable, ...] = ()
    steps: tuple[CableStep, ...] = ()
    harmless: bool = False


@dataclass(frozen=True)
class CablingComparison:
    """All that differs, in the order of its kinds; `same` is how many links are as planned, `planned` of how
    many. `notes` are what could not be joined or read; `exchanged` circles of devices, each in the place of
    the next."""

    differences: tuple[CablingDifference, ...]
    same: int
    planned: int
    notes: tuple[str, ...] = ()
    exchanged: tuple[tuple[str, ...], ...] = ()

    @property
    def plugs(self) -> int:
        """How many ends the repair plugs in."""
        return sum(step.plugs for one in self.differences for step in one.steps)


def compare(plan: CablingPlan, there: CabledFabric) -> CablingComparison:
    """The plan against what is there. The steps plug in as few ends as any repair does."""
    state = _States(plan, there)
    found: list[CablingDifference] = []
    same = 0
    odd: list[CableChain] = []
    for chain in chains(plan.cables, there.cables, state.rack, state.missing):
        if chain.circle and len(chain.links) == 1 and chain.pairs:
            if (unsure := state.unsure(chain.links[0])) is None:
                same += 1
            else:
                found.append(CablingDifference(DifferenceKind.UNKNOWN, unsure, tuple(chain.links)))
        else:
            odd.append(chain)
    reuse = _reuse(odd, state)
    reused = frozenset(id(cable) for cable in reuse.values())
    for chain in odd:
        found += _of_chain(chain, plan, state, reuse, reused)
    order = {kind: at for at, kind in enumerate(DifferenceKind)}
    merged = [*_unknown([one for one in found if one.kind is DifferenceKind.UNKNOWN]),
              *_shifted([one for one in found if one.kind is not DifferenceKind.UNKNOWN])]
    merged.sort(key=lambda one: (order[one.kind], natural(one.what)))
    return CablingComparison(tuple(merged), same, len(plan.cables), there.notes,
                             exchanged(plan, there.cables))


class _States:
    """What is known of planned links that no cable joins."""

    def __init__(self, plan: CablingPlan, there: CabledFabric) -> None:
        self._plan = plan
        self._there = there
        self._used = frozenset(end for cable in there.cables for end in cable.ends)

    def rack(self, device: str) -> str | None:
        """Where a device stands."""
        known = self._plan.devices.get(device)
        return known.rack if known is not None else None

    def empty(self, end: PlannedEnd, plane: str) -> bool:
        """Whether a port is known to have no link."""
        return end not in self._used and self._there.shows(end, plane)

    def missing(self, link: PlannedCable) -> bool:
        """Whether a link is known not to be there: either end is seen without one, or with another."""
        return all(end in self._used or self._there.shows(end, link.plane) for end in (link.a, link.b))

    def unsure(self, link: PlannedCable) -> str | None:
        """Why a link that seems to be as planned is not known to be; None where it is."""
        return self._there.assumed.get(link.a) or self._there.assumed.get(link.b)

    def why_unknown(self, link: PlannedCable) -> str:
        """Why nothing is known of a link."""
        unseen = [end.device for end in (link.a, link.b)
                  if end not in self._used and end.device not in self._there.devices]
        return f"{' and '.join(unseen)} not seen" if unseen else "the subnet was not read to its end"


def _reuse(odd: Sequence[CableChain], state: _States) -> Mapping[int, SeenCable]:
    """For links (by id) that lack a cable, one that is left over elsewhere: by its serial number, else one at
    one of the link's devices that is known to fit."""
    spare = {id(cable): cable for chain in odd for cable in chain.left}
    by_serial = {cable.serial: cable for cable in spare.values() if cable.serial is not None}
    by_device: dict[str, list[SeenCable]] = defaultdict(list)
    for cable in spare.values():
        for end in cable.ends:
            by_device[end.device].append(cable)
    found: dict[int, SeenCable] = {}
    wanting = [link for chain in odd for link in chain.unserved if state.missing(link)]
    for exact in (True, False):
        for link in wanting:
            if id(link) in found:
                continue
            if exact:
                near = [by_serial[link.serial]] if link.serial in by_serial else []
            else:
                near = sorted((*by_device.get(link.a.device, ()), *by_device.get(link.b.device, ())),
                              key=lambda cable: -_devices(cable, link))
            match = next((cable for cable in near if id(cable) in spare and known_to_fit(cable, link)
                          and not joins(cable, link)), None)
            if match is not None:
                found[id(link)] = match
                del spare[id(match)]
    return found


def _devices(cable: SeenCable, link: PlannedCable) -> int:
    """How many of a link's devices a cable is at."""
    return len({cable.a.device, cable.b.device} & {link.a.device, link.b.device})


def _of_chain(chain: CableChain, plan: CablingPlan, state: _States, reuse: Mapping[int, SeenCable],
              reused: frozenset[int]) -> list[CablingDifference]:
    unserved = chain.unserved
    wanted = [link for link in unserved if state.missing(link) and id(link) not in reuse]
    unknown = [link for link in unserved if not state.missing(link)]
    found = [CablingDifference(DifferenceKind.UNKNOWN, state.why_unknown(link), (link,)) for link in unknown]
    moved = [step for step in steps(chain, (), reused) if step.action in (CableAction.MOVE, CableAction.HOLD)]
    if chain.circle and len(chain.links) == 1:
        return [*found, _wrong_cable(chain)]
    if moved:
        links = tuple(link for link, cable in chain.pairs if not joins(cable, link))
        cables = tuple(cable for link, cable in chain.pairs if not joins(cable, link))
        how = describe(moved, links, cables, plan, chain.circle)
        found.append(CablingDifference(_KINDS[how.form], how.what, links, cables, tuple(moved), how.harmless))
    for link in unserved:
        if id(link) in reuse:
            cable = reuse[id(link)]
            what = (f"the cable of {named(link.a)} and {named(link.b)} joins {named(cable.a)} and "
                    f"{named(cable.b)}")
            found.append(CablingDifference(DifferenceKind.MISPLACED, what, (link,), (cable,),
                                           laid(cable, link)))
    found += [_missing(link, state) for link in wanted]
    found += [CablingDifference(DifferenceKind.EXTRA, f"{named(cable.a)} to {named(cable.b)} is not planned",
                                (), (cable,), (CableStep(CableAction.PULL, cable),))
              for cable in chain.left if id(cable) not in reused]
    return found


_KINDS = {form: DifferenceKind[form.name] for form in Misplugged}


def _missing(link: PlannedCable, state: _States) -> CablingDifference:
    taken = [end for end in (link.a, link.b) if not state.empty(end, link.plane)]
    why = (f", {' and '.join(map(named, taken))} has another cable" if taken
           else " is seen: no cable, an end unplugged, or down")
    return CablingDifference(DifferenceKind.MISSING, f"{named(link.a)} to {named(link.b)}: no link{why}",
                             (link,), (), (CableStep(CableAction.CONNECT, planned=link),))


def _wrong_cable(chain: CableChain) -> CablingDifference:
    link, cable = chain.links[0], chain.cables[0]
    said = []
    if cable.part is not None and link.part is not None and cable.part.lower() != link.part.lower():
        said.append(f"part {cable.part}, planned {link.part}")
    if cable.metres is not None and link.metres is not None and cable.metres < link.metres:
        said.append(f"{cable.metres:g} m, planned {link.metres:g} m")
    return CablingDifference(
        DifferenceKind.WRONG_CABLE, f"{named(link.a)} to {named(link.b)}: {' and '.join(said)}", (link,),
        (cable,), (CableStep(CableAction.REPLACE, cable, planned=link),))


def _unknown(found: Sequence[CablingDifference]) -> list[CablingDifference]:
    """One line for each reason: a host that is off has as many links as ports."""
    by_reason: dict[str, list[PlannedCable]] = defaultdict(list)
    for one in found:
        by_reason[one.what] += one.planned
    return [CablingDifference(DifferenceKind.UNKNOWN, reason, tuple(links))
            for reason, links in by_reason.items()]


def _shifted(found: Sequence[CablingDifference]) -> list[CablingDifference]:
    """Shifts of one device by the same number of ports become one: by two ports, it is two chains."""
    shifts: dict[str, list[CablingDifference]] = defaultdict(list)
    others = []
    for one in found:
        if one.kind is DifferenceKind.SHIFTED:
            shifts[one.what].append(one)
        else:
            others.append(one)
    for what, parts in shifts.items():
        planned = tuple(link for part in parts for link in part.planned)
        others.append(replace(
            parts[0], what=f"{what} ({len(planned)} cables)", planned=planned,
            seen=tuple(cable for part in parts for cable in part.seen),
            steps=tuple(step for part in parts for step in part.steps)))
    return others
