"""What an on-call operator would expect of each node, from what sweeps showed and people did; it asks nothing
of muster, and imports nothing of it.

`Operator` is told what happens, in the order in which it happens: clocks may lie, order does not. Of a node
it says whether triage must hold it, must not, or may, why, whose the next action is, and which serial sits
where.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from itertools import pairwise

HOUR = 3600.0
# By the packaged policy, as its text says: two clean looks, ten minutes apart; what is older than a day
# decides nothing.
CLEAN, APART, FRESH = 2, 600.0, 24 * HOUR
# What flaps is held until it was well for half a day, and an incident until its nodes were for an hour: with
# a margin.
CALM = 14 * HOUR
# What came three times within a day flaps.
FLAPS, OFTEN = 3, 24 * HOUR
LASTING = frozenset({"gpu-row-remap-failed"})
WARNINGS = frozenset({"fleet-driver"})
OWNERS: Mapping[str, frozenset[str]] = {
    "gpu-row-remap-failed": frozenset({"vendor"}), "gpu-ecc-uncorrected": frozenset({"operator", "vendor"}),
    "host-memory": frozenset({"vendor", "operator"}), "port-state": frozenset({"network"}),
    "disk-nvme-state": frozenset({"operator", "vendor"}),
    "gpu-temperature": frozenset({"datacentre", "operator"}),
    "": frozenset({"datacentre", "network", "operator"})}


class Expect(Enum):
    """What triage owes a node."""

    MUST = "must be held"
    MUST_NOT = "must not be held"
    MAY = "may be held"


@dataclass(frozen=True)
class Expectation:
    """With why, and whose the next action is: empty where nothing is to be done."""

    expect: Expect
    why: str
    owners: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Look:
    """What one sweep showed of one node. `wrong` are rules with subjects, ("", "") where it was not reached,
    and then it shows no parts. `strict` says by which form of the rules it was judged."""

    order: int
    time: float
    wrong: frozenset[tuple[str, str]]
    parts: Mapping[str, str]
    boot: str
    strict: bool

    @property
    def reached(self) -> bool:
        return ("", "") not in self.wrong

    @property
    def critical(self) -> frozenset[tuple[str, str]]:
        """What keeps jobs away."""
        return frozenset(one for one in self.wrong if one[0] not in WARNINGS)


@dataclass
class Return:
    """A part that went to the vendor, or was exchanged on site. `outcome`: "" while it is away, "same", or
    the announced serial ("?" for none); `order` of that. `closed`: a person said that it is settled.
    `forgotten`: a copy was restored since, in which it may be at the vendor still. `number` is muster's."""

    node: str
    slot: str
    serial: str
    outcome: str = ""
    order: int = 0
    closed: bool = False
    forgotten: bool = False
    number: int = 0


@dataclass
class Quiet:
    nodes: frozenset[str]
    rule: str
    until: float
    order: int
    ended: bool = False


@dataclass
class Lent:
    """A node that a burn-in has for itself from and until then by the head's clock. `dead`: its process is
    gone. `order` is that of its beginning, `ended` that of its end, if it gave the node back."""

    node: str
    name: str
    began: float
    until: float
    dead: bool
    order: int
    ended: int = 0


@dataclass
class Page:
    """What is known of one node by its name."""

    looks: list[Look] = field(default_factory=list)
    serving: bool = True
    # in the order of things: when triage's newest hold of it began, a person repaired it, a person ended our
    # hold
    held: int = 0
    repaired: int = 0
    freed: int = 0
    # when the machine of this name was last another one than before; `anew` until it was clean often enough,
    # by the clock at `proven`
    came: int = 0
    anew: int = 0
    clean: list[float] = field(default_factory=list)
    proven: float = 0.0


class Operator:
    """The books of a careful person."""

    def __init__(self, names: Iterable[str]) -> None:
        self.order = 0
        self.pages = {name: Page() for name in names}
        self.returns: list[Return] = []
        self.silences: list[Quiet] = []
        self.lent: list[Lent] = []
        self.marks: dict[str, str] = {}
        # when the rules, the store or the clock were last not what they were before
        self.rules_changed = self.restored = self.jumped = 0
        # by place the order of the last look at which half of it had one symptom
        self.shared: dict[str, int] = {}
        self._seats: dict[str, tuple[str, str]] | None = None       # since the newest look

    def tick(self) -> int:
        self.order += 1
        return self.order

    # ---- what happens

    def look(self, node: str, look: Look) -> None:
        """A sweep saw it."""
        page = self.pages.setdefault(node, Page())
        before = next((one for one in reversed(page.looks) if one.reached), None)
        if before is not None and look.reached and _another(before, look):
            page.came = page.anew = look.order
            page.clean = []
        elif page.anew and not look.wrong and (not page.clean or abs(look.time - page.clean[-1]) >= APART):
            page.clean.append(look.time)
            if len(page.clean) == CLEAN:
                page.anew, page.proven = 0, look.time
        page.looks.append(look)
        del page.looks[:-200]
        self._seats = None

    def unseen(self, order: int) -> None:
        """No look counts that is newer than this."""
        for page in self.pages.values():
            page.looks = [look for look in page.looks if look.order < order]
        self._seats = None

    def renamed(self, old: str, new: str) -> None:
        """The node has another name, with all that is known of it."""
        self.pages[new] = self.pages.pop(old)
        self._seats = None
        for one in self.returns:
            one.node = new if one.node == old else one.node
        for quiet in self.silences:
            quiet.nodes = frozenset(new if name == old else name for name in quiet.nodes)
        for lent in self.lent:
            lent.node = new if lent.node == old else lent.node
        self.marks = {mark: new if name == old else name for mark, name in self.marks.items()}

    # ---- what is so

    def newest(self, node: str) -> Look | None:
        return self.pages[node].looks[-1] if self.pages[node].looks else None

    def seats(self) -> dict[str, tuple[str, str]]:
        """By serial where it sits, by the newest look that showed it."""
        if self._seats is None:
            self._seats = self._found()
        return self._seats

    def _found(self) -> dict[str, tuple[str, str]]:
        found: dict[str, tuple[int, str, str]] = {}
        for name, page in self.pages.items():
            look = next((one for one in reversed(page.looks) if one.reached), None)
            if look is None:
                continue
            for slot, serial in look.parts.items():
                if serial not in found or found[serial][0] < look.order:
                    found[serial] = (look.order, name, slot)
        return {serial: (name, slot) for serial, (_, name, slot) in found.items()}

    def silenced(self, node: str, rule: str, now: float) -> bool:
        """Whether a person does not want to hear of it."""
        return any(node in one.nodes and fnmatchcase(rule, one.rule) and not one.ended and now < one.until
                   for one in self.silences)

    def leased(self, node: str, now: float) -> bool:
        """Whether a burn-in has it, by all that the store knows: one that is older than a restored copy of it
        may be there again."""
        return any(one.node == node and not one.dead and now <= one.until
                   and (not one.ended or one.ended < self.restored)
                   for one in self.lent)

    def alarm(self, node: str) -> str:
        """What came back to this node, or sits in it, and is not what was announced."""
        seats = self.seats()
        for one in self.returns:
            at = seats.get(one.serial)
            if (not one.outcome and not one.closed and at is not None
                and node == at[0] != one.node and not any(
                        later.number > one.number and later.serial == one.serial for later in self.returns)):
                return f"{one.serial} is to be at the vendor's, and sits in {node}"
            if not one.outcome or one.closed or not one.serial or any(
                    later.order > one.order and later.serial == one.serial for later in self.returns):
                continue
            if (one.outcome != "same" and at is not None and at[0] == node
                and self._after(one.serial, one.order)):
                return f"{one.serial} was said to be exchanged, and sits in {node}"
            page = self.pages.get(one.node, Page())
            seen = next((look for look in reversed(page.looks) if look.reached), None)
            here = seen.parts.get(one.slot, "") if seen is not None and seen.order > one.order else ""
            # What is announced for a slot counts until something else is announced for it.
            if one.node != node or not here or here == one.serial or any(
                    later.order > one.order and (later.node, later.slot) == (one.node, one.slot)
                    for later in self.returns):
                continue
            # What was announced, and did sit there, is another matter when it leaves.
            came = one.serial if one.outcome == "same" else one.outcome
            if any(look.order > one.order and look.parts.get(one.slot) == came for look in page.looks):
                continue
            if one.outcome == "same" or one.outcome not in ("?", here):
                return f"{here} sits where {one.outcome} was announced for {one.serial}"
        return ""

    def _after(self, serial: str, order: int) -> bool:
        """Whether it was seen since; a node that is dark keeps what it had."""
        return any(serial in look.parts.values() for page in self.pages.values()
                   for look in [one for one in page.looks if one.reached][-3:] if look.order > order)

    def away(self, node: str) -> bool:
        """Whether a part of it is at the vendor."""
        return any(one.node == node and not one.outcome and not one.closed for one in self.returns)

    def forgotten(self, node: str) -> bool:
        """Whether by the copy that took the store's place a part of it, or one that sits in it now, may be at
        the vendor."""
        seats = self.seats()
        return any(one.forgotten and node in (one.node, seats.get(one.serial, ("", ""))[0])
                   for one in self.returns)

    # ---- what follows

    def cause(self, node: str, now: float) -> str:
        """Why triage may begin to hold a node now; empty where it may not."""
        page, look = self.pages[node], self.newest(node)
        if look is None:
            return ""
        loud = [rule for rule, _ in look.critical if not self.silenced(node, rule, now)]
        if loud:
            return f"its newest look shows {', '.join(sorted(loud)) or 'nothing'}"
        if why := self.alarm(node):
            return why
        if self.away(node) or self.forgotten(node):
            return "a part of it is at the vendor's, or was by the copy that took the store's place"
        if page.anew or (page.came and (self.restored > page.came or page.proven > now)):
            return "it is another machine than it was, and nothing that counts now has proven it"
        if self.restored > look.order:
            return "the store was restored since, and knows what was then"
        return ""

    def healthy_since_hold(self, node: str, now: float, incident: bool) -> str:
        """Why a node that triage releases now has not been measured to be well; empty where it has."""
        page = self.pages[node]
        lasting = {serial for look in page.looks if look.order >= page.held - 1
                   for rule, subject in look.wrong
                   if rule in LASTING and (serial := _at(look, subject))}
        newest = next((look for look in reversed(page.looks) if look.reached), None)
        if newest is None:
            return "no sweep has ever seen it"
        returned = max((one.order for one in self.returns if one.node == node
                        and (one.outcome or one.closed)), default=0)
        if lasting & set(newest.parts.values()) and max(page.repaired, returned) < page.held:
            return f"{', '.join(sorted(lasting))} failed for good, and is there still"
        if self.away(node):
            return "a part of it is away"
        if why := self.alarm(node):
            return why
        at = next((look for look in reversed(page.looks) if look.order < page.held), newest)
        # What is held as another machine was not ill when it was held.
        held = page.came + 1 if page.came and not at.critical else page.held
        since = max(held, page.repaired, returned)
        clean: list[Look] = []
        for look in reversed(page.looks):
            # With an incident that is over its nodes go back as they were before, a warning of their own
            # included.
            if look.order < since or (look.critical if incident else look.wrong) or len(clean) == CLEAN:
                break
            if not clean or clean[-1].time - look.time >= APART or look.time > clean[-1].time:
                clean.append(look)
        wanted = 1 if incident else CLEAN
        if len(clean) < wanted:
            return f"{len(clean)} of {wanted} clean looks since it was held"
        return "" if now - clean[0].time <= FRESH else "its newest clean look is over a day old"

    def expectation(self, node: str, now: float) -> Expectation:
        """What triage owes it, by its newest looks."""
        page = self.pages[node]
        if not page.looks or not page.serving:
            return Expectation(Expect.MAY, "it is not in service, or no sweep has seen it")
        if self.leased(node, now):
            return Expectation(Expect.MAY, "a burn-in has it")
        if (self.jumped > page.looks[max(-4, -len(page.looks))].order
            or self.restored > page.looks[-CLEAN:][0].order):
            return Expectation(Expect.MAY, "the clock or the store was not itself")
        if (why := self.alarm(node)) and page.looks[-1].reached and not any(
                one.order > page.looks[-1].order for one in self.returns):
            return Expectation(Expect.MUST, why,
                               frozenset({"vendor", "operator", "datacentre"}) | self._owners(page, now))
        last = page.looks[-CLEAN:]
        both = frozenset.intersection(*(look.critical
                                        for look in last)) if len(last) == CLEAN else frozenset()
        loud = {rule for rule, _ in both if not self.silenced(node, rule, now)}
        if loud and last[0].order > max(page.freed, self.rules_changed) and now - last[-1].time <= FRESH \
                and ("" not in loud
                     or (len(page.looks) > CLEAN and all(not one.reached for one in page.looks[-3:]))):
            alarmed = frozenset({"vendor"}) if self.alarm(node) or self.forgotten(node) else frozenset()
            return Expectation(Expect.MUST,
                               f"two looks show {', '.join(sorted(rule or 'no answer' for rule in loud))}",
                               alarmed | self._owners(page, now))
        if why := self.well(node, now):
            return Expectation(Expect.MAY, why)
        return Expectation(Expect.MUST_NOT,
                           "it was well for long, and nothing of it has a history that counts")

    def _owners(self, page: Page, now: float) -> frozenset[str]:
        """Of several faults that a node has, the one that is named may be any; what its last answer showed is
        not over because it does not answer."""
        answered = [one for one in page.looks if one.reached][-1:]
        shown = {rule for look in (*page.looks[-3:], *answered) for rule, _ in look.critical}
        return frozenset[str]().union(*(OWNERS[rule] for rule in shown | self._flapped(page, now)))

    def _flapped(self, page: Page, now: float) -> frozenset[str]:
        """The rules of what flapped, and is held for it also while it is up."""
        answered = [look for look in page.looks if look.reached and now - look.time <= CALM + OFTEN]
        came = [one for before, look in pairwise([None, *answered]) for one in look.critical
                if before is None or one not in before.critical]
        return frozenset(rule for rule, subject in came if came.count((rule, subject)) >= FLAPS)

    def well(self, node: str, now: float) -> str:
        """What still speaks against a node; empty where it was well for so long that no one may hold it."""
        page = self.pages[node]
        if page.anew or self.away(node) or self.forgotten(node) or self.alarm(node):
            return "another machine, a part that is away, or one that is not what was announced"
        since = now
        count = 0
        lasting: set[str] = set()
        for look in reversed(page.looks):
            if look.wrong or not look.reached:
                break
            since, count = look.time, count + 1
        for look in page.looks:
            lasting |= {_at(look, subject) for rule, subject in look.wrong if rule in LASTING}
        if lasting & set(page.looks[-1].parts.values()):
            return "a part that failed for good is there"
        if count <= CLEAN or now - since < CALM or now - page.looks[-1].time > FRESH or since > now:
            return "it was not well for long"
        if any(not one.ended and node in one.nodes for one in self.silences):
            return "a silence"
        return ""


def _at(look: Look, subject: str) -> str:
    """The serial of what findings call so ("GPU 2": the third slot of a GPU), or ""."""
    kind, _, number = subject.partition(" ")
    gpus = sorted(slot for slot in look.parts if slot[0] == "0")
    return look.parts[gpus[int(number)]] if kind == "GPU" and int(number) < len(
        gpus) else look.parts.get(subject, "")


def _another(before: Look, look: Look) -> bool:
    """Whether most serials changed at once, or the chassis did: another machine answers to the name."""
    same = sum(before.parts.get(slot) == serial for slot, serial in look.parts.items())
    return before.parts.get("chassis") != look.parts.get("chassis") or 2 * same < len(look.parts)
