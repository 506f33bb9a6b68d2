"""Takes a part or node through its return to the vendor: the store, then the inventory file. Each operation
is written into the store before the file is changed, and its outcome after. Whoever is killed in between
leaves a line of the ledger without an outcome; the same command again finishes it, and until then every
`muster rma` says what is left."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from healthcheck.store import repairs, rmas
from healthcheck.store.file import Store
from healthcheck.store.history import ComponentLocation
from healthcheck.store.rmas import CHASSIS, Rma, RmaState
from inventory.errors import UsageError
from inventory.model import Lifecycle, LifecycleState
from inventory.text import short

Clock = Callable[[], float]
# changes the inventory file, or finds that it need not; gives words for the ledger
Write = Callable[[], str]


@dataclass(frozen=True)
class ReturnedPart:
    """What goes; `slot` is empty for a whole node, `serial` where it is not known it."""

    node: str
    slot: str
    kind: str
    serial: str

    @property
    def words(self) -> str:
        """What it is, for people."""
        return rmas.words(self.slot, self.kind, self.serial)


def part_at(
    node: str, seats: Sequence[ComponentLocation], known: Sequence[Rma], slot: str | None, gpu: int | None,
    chassis: bool, serial: str | None, trail: Sequence[ComponentLocation] = (), new: str = "",
) -> ReturnedPart:
    """The part that a person means, by what the store knows of where things sit and have sat; UsageError
    names what there is. `trail` is where this serial number sat; `new` is what took its place, which a sweep
    may have met already. NVML counts GPUs by PCI address, so a number is only certain while every GPU that
    was seen is there."""
    _is_here(node, trail)
    newest: dict[str, ComponentLocation] = {}
    out: dict[str, ComponentLocation] = {}
    for seat in sorted(
        (seat for seat in seats if seat.node == node), key=lambda seat: (seat.ended is None, seat.seen)):
        newest[seat.slot] = seat
        if not new or seat.serial.lower() != new.lower():
            out[seat.slot] = seat
    if chassis:
        whole = out.get(CHASSIS)
        return ReturnedPart(node, "", CHASSIS, serial or (whole.serial if whole is not None else ""))
    newest.pop(CHASSIS, None)
    if gpu is not None:
        slot = _gpu(node, newest, gpu)
    elif slot is None and (own := [seat for seat in trail if seat.node == node]):
        if own[-1].slot == CHASSIS:
            return ReturnedPart(node, "", CHASSIS, own[-1].serial)
        return ReturnedPart(node, own[-1].slot, own[-1].kind, own[-1].serial)
    there = ", ".join(f"{one.slot} ({one.kind} {one.serial})"
                      for one in sorted(newest.values(), key=lambda one: one.slot)[:16])
    if slot is None:
        raise UsageError(f"name the part of {node} that goes back: --chassis, --gpu N or --slot SLOT"
                         + (f"; the store knows {there}" if there else "; the store knows no parts of it"))
    held = out.get(slot) or next((seat for at, seat in out.items() if at.lower() == slot.lower()), None)
    if held is not None:
        return ReturnedPart(node, held.slot, held.kind, serial or held.serial)
    open_there = next((rma for rma in known if (rma.node, rma.slot) == (node, slot) and rma.away), None)
    if open_there is not None:
        return ReturnedPart(node, slot, open_there.kind, open_there.serial)
    if serial is None:
        raise UsageError(f"the store knows nothing at {short(slot)} of {node}"
                         f"{f', but {there}' if there else ''}; for any other part also give --serial")
    return ReturnedPart(node, slot, trail[-1].kind if trail else rmas.kind_of(slot), serial)


def _is_here(node: str, trail: Sequence[ComponentLocation]) -> None:
    """Raises UsageError where the part with a given number sits in another node now."""
    now = [seat for seat in trail if seat.ended is None]
    if now and not any(seat.node == node for seat in now):
        at = now[-1]
        place = "--chassis" if at.slot == CHASSIS else f"--slot {shlex.quote(at.slot)}"
        raise UsageError(f"{at.kind} {short(at.serial)} is not in {node}: it sits in {at.node}, slot "
                         f"{at.slot}; for its return: muster rma open {at.node} {place}")


def _gpu(node: str, newest: dict[str, ComponentLocation], number: int) -> str:
    gpus = sorted((seat for seat in newest.values() if seat.kind == "gpu"), key=lambda seat: seat.slot)
    if lost := [seat.slot for seat in gpus if seat.ended is not None]:
        raise UsageError(f"GPU {number} of {node} is not certain: {', '.join(lost)} is not seen any more, "
                         "and numbers shift; give --slot")
    if number >= len(gpus):
        raise UsageError(f"the store knows {len(gpus)} GPUs of {node}, so there is no GPU {number}: give its "
                         "--slot and --serial")
    return gpus[number].slot


def opening(
    store: Store, part: ReturnedPart, why: str, who: str, reference: str, evidence: str, holds: str,
    clock: Clock, write: Write,
) -> Rma:
    """Afterwards the RMA is open and the file says so; what an earlier try left undone is done. `holds` is
    what keeps jobs away, for the ledger."""
    rma, line = rmas.begin(
        store, part.node, part.slot, part.kind, part.serial, why, who, reference, evidence, clock())
    rmas.settle(store, line, f"open, {holds}; {write()}", clock())
    return rma


def exchanging(
    store: Store, part: ReturnedPart, why: str, who: str, reference: str, evidence: str, new: str,
    clock: Clock, write: Write,
) -> Rma:
    """Afterwards a part that was exchanged on site is written down as returned, without having been shipped,
    and the file says so; what kernel logs reported of it has ended by the word of who says so."""
    said = rmas.outcome(same=False, new=new)
    _repaired(store, part.node, part.slot, part.serial, "exchanged on site", who, clock())
    rma, line = rmas.exchange(store, part.node, part.slot, part.kind, part.serial, why, who, reference,
                              evidence, said, clock())
    rmas.settle(store, line, f"exchanged on site ({said}); {write()}", clock())
    return rma


def closing(store: Store, rma: Rma, why: str, who: str, clock: Clock, write: Write) -> None:
    """Afterwards it is closed, and the file says what becomes of the node."""
    line = rmas.close(store, rma, why, who, clock())
    rmas.settle(store, line, f"closed; {write()}", clock())


def again(rma: Rma) -> str:
    """The command that finishes an opening which was cut short."""
    at = f"--slot {shlex.quote(rma.slot)}" if rma.slot else "--chassis"
    return f"muster rma open {rma.node} {at} --reason {shlex.quote(rma.why)}"


def unfinished(found: Sequence[Rma], left: dict[int, str]) -> Iterator[str]:
    """What was begun and not finished, a line each, with the command that finishes it."""
    for rma in found:
        if rma.id in left:
            command = {"rma open": again(rma), "rma return": f"muster rma return {rma.id}"}.get(
                left[rma.id], f"muster rma close {rma.id} --reason {shlex.quote(rma.closed_why)}")
            yield (f"RMA {rma.id} of {rma.node} was cut short, and the inventory file may not say so yet; "
                   f"finish it with: {command}")


def shipping(store: Store, rma: Rma, left: dict[int, str], who: str, clock: Clock) -> bool:
    """Afterwards it is under way; False where it was already."""
    if rma.id in left:
        raise UsageError(next(unfinished([rma], left)))
    if rma.state is RmaState.SHIPPED:
        return False
    if rma.state is not RmaState.OPEN:
        raise _out_of_step(rma, "ship")
    rmas.ship(store, rma, who, clock())
    return True


def may_exchange(rma: Rma, left: dict[int, str], new: str) -> None:
    """Raises UsageError where it cannot be exchanged on site."""
    if rma.id in left:
        raise UsageError(next(unfinished([rma], left)))
    if rma.state is not RmaState.OPEN:
        raise _out_of_step(rma, "exchange on site")
    if new.lower() == rma.serial.lower():
        raise UsageError(f"{short(new)} is the serial number of what was taken out: nothing was exchanged")


def may_close(rma: Rma, left: dict[int, str], alarmed: bool) -> bool:
    """Whether it may be closed, False where it is. Raises UsageError where it came back in order."""
    if rma.state is RmaState.CLOSED:
        return left.get(rma.id) == "rma close"
    if not rma.away and not alarmed and rma.id not in left:
        raise UsageError(f"RMA {rma.id} of {rma.node} came back in order: there is nothing to close; see: "
                         "muster rma list --all")
    return True


def ways_out(rma: Rma, node: str, slot: str) -> str:
    """How a person ends the alarm of a part that came back other than announced and sits there now."""
    at = f"--slot {shlex.quote(slot)}" if slot and slot != CHASSIS else "--chassis"
    return (f"it ends when that part leaves {node}; else send it back: muster rma open {node} {at} --reason "
            f"'RMA {rma.id} came back wrong', or keep it: muster rma close {rma.id} --reason WHY")


def may_return(rma: Rma, *, same: bool, new: str) -> None:
    """Raises UsageError where it cannot be returned so."""
    if rma.state in (RmaState.OPEN, RmaState.CLOSED):
        raise _out_of_step(rma, "return")
    if same and new and new.lower() != rma.serial.lower():
        raise UsageError(f"--same says that it is {rma.serial or 'the same'} again, and --serial names "
                         f"another: {short(new)}")
    if new and new.lower() == rma.serial.lower() and not same:
        raise UsageError(f"{short(new)} is the serial number of what went out: the same {rma.kind} came "
                         "back. Send it back, or give --same if it was repaired")


def returning(store: Store, rma: Rma, outcome: str, who: str, clock: Clock, write: Write) -> None:
    """Afterwards it is back and the file says so, and kernel logs' reports of it have ended."""
    if rma.away:      # the second time, it was said already
        _repaired(store, rma.node, rma.slot, rma.serial, f"RMA {rma.id} is back", who, clock())
    line = rmas.give_back(store, rma, outcome, who, clock())
    rmas.settle(store, line, f"returned ({outcome}); {write()}", clock())


def _repaired(
    store: Store, node: str, slot: str, serial: str, why: str, who: str, now: float,
) -> None:
    """Ends what kernel logs reported of a part, or of a whole node, by a person's word."""
    found: dict[int, repairs.Logged] = {}
    for name in {slot, serial} - {""} if slot else {repairs.ALL}:
        found |= {one.id: one for one in repairs.meant(store, node, name)[0]}
    if found:
        with store.writing() as db:
            repairs.say(db, node, slot or repairs.ALL, list(found.values()), why, who, now)


def known_as(found: Sequence[Rma], trail: Sequence[ComponentLocation], node: str, new: str) -> Iterator[str]:
    """What the store knows already of a part that is said to come, a line each: it may be a slip."""
    for rma in found:
        if new and rma.serial.lower() == new.lower():
            yield f"{short(new)} is what went out as RMA {rma.id} of {rma.node}: {rma.why}"
    now = [seat for seat in trail if seat.ended is None and seat.node != node]
    if now:
        yield f"{short(new)} sat in {now[-1].node}, slot {now[-1].slot}, when that was last looked at"


def next_steps(rma: Rma, message: str, away: Sequence[int]) -> Iterator[str]:
    """What a person does next, a line each; nothing is done by itself: the node is not believed."""
    node = rma.node
    if away:
        yield f"{node} stays as it is in the inventory: RMA {', '.join(map(str, away))} of it is not back"
    expected = rma.serial if message == "same" else message.partition(
        " ")[2] or f"another serial number than {rma.serial}"
    if rma.serial:
        yield (f"expected at {rma.slot or 'the chassis'}: {expected}; muster check {node} --store looks, "
               "muster rma list says if not")
    if rma.kind in (CHASSIS, "nvme"):
        yield ("if it was reinstalled, or is another machine, its host keys are new and checks refuse it: "
               f"compare them and pin them with muster inventory enroll {node} --replace {node}")
    if not away:
        yield (f"then: muster check {node} --profile bringup --store, and muster inventory lifecycle {node} "
               "service; after clean looks triage gives back what it cordoned, and a person what a "
               f"person did (muster uncordon {node})")


def _out_of_step(rma: Rma, command: str) -> UsageError:
    step = {RmaState.OPEN: "ship", RmaState.SHIPPED: "return"}.get(rma.state)
    then = (f"; next is: muster rma {step} {rma.id}" if step is not None
            else f"; for another: muster rma open {rma.node}")
    if command == "return" and rma.state is RmaState.OPEN:
        then += f", or where it was exchanged on site: muster rma exchange {rma.id} --serial NEW"
    return UsageError(
        f"RMA {rma.id} of {rma.node} is {rma.state.value}, so there is nothing to {command}{then}")


def chosen(
    found: Sequence[Rma], left: dict[int, str], text: str, alarmed: Collection[int] = (),
) -> Rma:
    """The RMA that a number or a node's name means: of a node the one that is not back, else one of those
    that came back wrong, else the last. Raises UsageError."""
    if text.isascii() and text.isdigit():
        named = [rma for rma in found if rma.id == int(text)]
        if not named:
            raise UsageError(f"there is no RMA {text}; see: muster rma list --all")
        return named[0]
    of_node = [rma for rma in found if rma.node == text]
    if not of_node:
        raise UsageError(f"there is no RMA of {short(text)}; see: muster rma list --all")
    away = ([rma for rma in of_node if rma.away] or [rma for rma in of_node if rma.id in left]
            or [rma for rma in of_node if rma.id in alarmed] or of_node[-1:])
    if len(away) > 1:
        raise UsageError(f"{text} has {len(away)} RMAs: "
                         f"{', '.join(f'{rma.id} ({rma.part})' for rma in away)}; name one by its number")
    return away[0]


def aim(now: Lifecycle, wanted: Lifecycle) -> Lifecycle:
    """The lifecycle of a node whose part is back: bring-up, as nothing is proven; retired stays so."""
    return now if now.state is LifecycleState.RETIRED else wanted
