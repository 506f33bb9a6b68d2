"""A ticket, ready to be pasted: what is wrong with a node, for those who are to repair it. Pure.

The form is Markdown that reads as plain text, too. Whatever is not our own wording stands in code spans on
one line each, so that no serial number, kernel message or mount point forges a line, a link or a mention
(CommonMark 0.31, sections 6.1 and 2.4).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from healthcheck.model.outcome import Owner, Repair
from healthcheck.model.problem import Problem
from healthcheck.model.verdict import RMA, Fault, Verdict
from healthcheck.store.history import ComponentLocation
from healthcheck.store.ledger import RECONCILE, LedgerEntry
from healthcheck.triage.past import NodeHistory
from inventory.model import Node
from inventory.text import clean
from inventory.times import minute

_PEOPLE = {Owner.USER: "the job's user", Owner.OPERATOR: "the cluster's operators",
           Owner.NETWORK: "the network's people", Owner.DATACENTRE: "the data centre",
           Owner.VENDOR: "the vendor"}
_ASKED = {
    Repair.WATCH: "Nothing is urgent, and jobs go on. Please do what helps (below) when it fits, and say "
    "what was done.",
    Repair.RESTART_SERVICE: "Please restart the service, or load the module, that is named below, and say "
    "when it is done.",
    Repair.RESET_GPU: "Please reset the GPU while no job runs on the node, and say when it is done.",
    Repair.REBOOT: "Please restart the node while no job runs on it, and say when it is up again.",
    Repair.INSPECT: "Please look at it, find the cause, and say what was done.",
    Repair.REPLACE: "Please replace it, and give the serial number of the new one.",
}
# The same repair in the words of those who do it.
_INSPECT = {
    Owner.NETWORK: "Please look at both ends of the link (cable, transceiver, switch port), and say what was "
    "changed.",
    Owner.DATACENTRE: "Please go to the machine (power, cabling, what its console and BMC show), and say "
    "what was found.",
}
# How many lines of each: with all of them a ticket has some 60.
_PARTS = _PORTS = _REMEDIES = 3
_EVIDENCE, _BECAUSE, _ELSEWHERE, _TRIED = 6, 4, 4, 8
_PCI = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
_REPAIRS = tuple(Repair)
_PAPER = ("rma ", "silence", "unsilence", RECONCILE)      # actions that touch no node
_TEXT = 160     # characters of one foreign text
# Words that no reader of Markdown takes for more: no emphasis, code, link, mention,
# number of an issue or tag, and no bare address.
_HARMLESS = re.compile(r"(?:[A-Za-z0-9 ,;:()%+'-]|\.(?![A-Za-z])|/(?!/)|(?<=[A-Za-z0-9])_(?=[A-Za-z0-9]))*")


@dataclass(frozen=True)
class Ticket:
    """The ticket's content in order; lists are (label, text) or texts, foreign ones not yet escaped."""

    node: str
    owner: Owner
    repair: Repair
    title: str
    asked: str
    where: tuple[tuple[str, str], ...]
    evidence: tuple[tuple[str, str], ...]
    because: tuple[str, ...]
    elsewhere: tuple[str, ...]
    tried: tuple[str, ...]
    remedies: tuple[str, ...]
    others: tuple[str, ...]
    bundle: str


def ticket(
    verdict: Verdict, past: NodeHistory, seats: Sequence[ComponentLocation], lines: Sequence[LedgerEntry],
    node: Node | None, *, bundle: str = "", shared: Sequence[str] = (), part: str = "",
) -> Ticket:
    """What there is to say to the owner of a verdict.

    `seats` say where the components of this node sit and have sat, on other nodes, too; `lines` are the
    ledger's on this node. `bundle` is where the evidence is kept, empty where there is none; `shared` says of
    which incidents the node is part. `part` is what an RMA is of, in words, where the verdict is on one.
    """
    owner = verdict.owner or Owner.OPERATOR
    # What an incident made of the node is its owner's, whoever would mend the node by itself.
    mine = [fault for fault in verdict.faults if fault.owner is owner or verdict.incident]
    asked_for = [] if verdict.incident or verdict.fault == RMA else [fault.repair for fault in mine]
    repair = (verdict.repair if not asked_for or verdict.repair in asked_for
              else max(asked_for, key=_REPAIRS.index))
    problems = [problem for fault in mine for problem in fault.problems]
    began = min((fault.began for fault in mine), default=past.verdict.began if past.verdict is not None
                else 0.0)
    place = part or (_place(mine[0], seats, past.node) if mine else "")
    of_rma = [verdict.why] if verdict.fault == RMA else []
    asked = _INSPECT.get(owner, _ASKED[Repair.INSPECT]) if repair is Repair.INSPECT else _ASKED[repair]
    return Ticket(
        past.node, owner, repair,
        f"{past.node}: {verdict.fault}" + (f", {place}" if place else ""),
        asked,
        (*_where(mine, past.node, seats, node), *((("RMA", part),) if part else ())),
        tuple(_evidence(problems)),
        tuple(dict.fromkeys([*of_rma, *shared, *(fault.kind.why for fault in mine),
                             *(said for fault in mine for said in fault.because)]
                            or [verdict.why])),
        tuple(_elsewhere(mine, past, seats)),
        tuple(_tried(past, lines, began)),
        tuple(dict.fromkeys(problem.remedy for problem in problems if problem.remedy)),
        tuple(f"{fault.kind.id}{f' at {fault.place}' if fault.place else ''}" for fault in verdict.faults
              if fault not in mine),
        bundle,
    )


def markdown(said: Ticket) -> str:
    """The ticket as text of at most some 60 lines, with one that names it first."""
    out = [f"# {_words(said.title)}", "", f"To {_PEOPLE[said.owner]}. {said.asked}", ""]
    out += [f"- {label}: {_words(text)}" for label, text in said.where]
    out += _section("What was seen", [f"{_words(rule)}: {text}" for rule, text in said.evidence], _EVIDENCE)
    out += _section("Why this is asked", [_words(text) for text in said.because], _BECAUSE)
    out += _section("The same component before", [_words(text) for text in said.elsewhere], _ELSEWHERE)
    out += _section("What was tried", [_words(text) for text in said.tried], _TRIED, last=True)
    out += _section("What helps", [_words(text, 400) for text in said.remedies], _REMEDIES)
    if said.others:
        out += ["", f"Also wrong, and not asked for here: {_words(', '.join(said.others))}"]
    kept = (_code(said.bundle, 300) if said.bundle
            else f"none since this began; `muster evidence {_plain(said.node)}` makes one")
    return "\n".join([*out, "", f"Evidence: {kept}", ""])


def document(said: Ticket) -> dict[str, object]:
    """The same as muster.ticket/1, with the text."""
    return {
        "schema": "muster.ticket/1", "node": said.node, "owner": said.owner.value,
        "repair": said.repair.value, "title": clean(said.title), "asked": said.asked,
        "where": {label: clean(text) for label, text in said.where},
        "because": [clean(text) for text in said.because],
        "elsewhere": [clean(text) for text in said.elsewhere], "tried": [clean(text) for text in said.tried],
        "remedies": [clean(text) for text in said.remedies], "others": [clean(text) for text in said.others],
        "bundle": said.bundle, "text": markdown(said),
    }


def _section(name: str, items: Sequence[str], most: int, *, last: bool = False) -> list[str]:
    if not items:
        return []
    left = len(items) - most
    more = [f"- and {left} {'before' if last else 'more'}"] if left > 0 else []
    shown = [f"- {item}" for item in (items[-most:] if last else items[:most])]
    return ["", f"{name}:", *((*more, *shown) if last else (*shown, *more))]


def _place(fault: Fault, seats: Iterable[ComponentLocation], node: str) -> str:
    """The part in words: what findings call it, its slot, its serial number."""
    subject = next((problem.subject.partition(",")[0] for problem in fault.problems), "") or fault.place
    seat = _seat(fault, seats, node)
    if seat is None:
        return clean(subject, 80)
    slot = "" if seat.slot in subject else f" at {seat.slot}"
    return clean(f"{subject or seat.kind}{slot}, serial {seat.serial}", 120)


def _seat(fault: Fault, seats: Iterable[ComponentLocation], node: str) -> ComponentLocation | None:
    """Where the component at fault sits on this node, or sat last."""
    known = {(problem.kind, problem.serial) for problem in fault.problems if problem.serial is not None}
    here = [seat for seat in seats if seat.node == node and (seat.kind, seat.serial) in known]
    return max(here, key=lambda seat: (seat.ended is None, seat.seen), default=None)


def _where(
    faults: Sequence[Fault], name: str, seats: Sequence[ComponentLocation], node: Node | None,
) -> Iterable[tuple[str, str]]:
    chassis = [seat for seat in seats if seat.node == name and seat.kind == "chassis" and seat.ended is None]
    yield "Node", name
    yield "Rack", (node.rack if node is not None else None) or "not known"
    yield "BMC", node.bmc.address if node is not None and node.bmc is not None else "not known"
    yield "Chassis serial", chassis[0].serial if chassis else "not known"
    ports: dict[str, str] = {}
    for fault in faults[:_PARTS]:
        seat = _seat(fault, seats, name)
        subjects = sorted({problem.subject.partition(",")[0] for problem in fault.problems
                           if problem.subject})
        if seat is not None:
            called = f", {subjects[0]}" if subjects and subjects[0] != seat.slot else ""
            yield "Part", f"{seat.kind}, serial {seat.serial}, slot {seat.slot}{called}"
        elif subjects:
            more = f" and {len(subjects) - 3} more" if len(subjects) > 3 else ""
            yield "Part", f"{', '.join(subjects[:3])}{more} (no serial number known)"
        elif fault.place:
            yield "Part", fault.place
        for pci in (found.lower() for subject in subjects[:_PORTS] for found in _PCI.findall(subject)):
            plan = node.ports.get(pci) if node is not None else None
            if plan is not None:
                ports[pci] = ", ".join(f"{key} {value}" for key, value in vars(plan).items()
                                       if value is not None)
    if len(faults) > _PARTS:
        yield "Parts", f"and {len(faults) - _PARTS} more like these"
    for pci, planned in list(ports.items())[:_PORTS]:
        yield "Port", f"{pci}: {planned}" if planned else pci


def _evidence(problems: Iterable[Problem]) -> Iterable[tuple[str, str]]:
    """(rules, text); what one tool that does not answer leaves unmeasured is one line."""
    groups: dict[str, list[str]] = {}
    for problem in problems:
        if problem.status == "fail":
            said = (f"{_code(problem.subject)} showed {_code(problem.observed)}, expected "
                    f"{_code(problem.expected)}")
        else:
            said = f"{'not measured, ' if problem.rule else ''}{_code(problem.reason)}"
        span = (f"first {minute(problem.began)}, last {minute(problem.seen)}, {problem.sweeps} "
                f"sweep{'' if problem.sweeps == 1 else 's'}")
        over = "" if problem.ended is None else f", gone {minute(problem.ended)}"
        groups.setdefault(f"{said}; {span}{over}", []).append(problem.rule or "not reached")
    for text, rules in groups.items():
        more = f" and {len(rules) - 3} more rules" if len(rules) > 3 else ""
        yield ", ".join(rules[:3]) + more, text


def _elsewhere(
    faults: Sequence[Fault], past: NodeHistory, seats: Iterable[ComponentLocation],
) -> Iterable[str]:
    known = {(problem.kind, problem.serial) for fault in faults for problem in fault.problems
             if problem.serial is not None}
    for problem in past.moved:
        if (problem.kind, problem.serial) in known:
            span = f"{minute(problem.began)} to {minute(problem.ended or problem.seen)}"
            yield f"failed {problem.rule} in {problem.node}, {span}: {problem.observed}"
    for seat in seats:
        if seat.node != past.node and (seat.kind, seat.serial) in known:
            span = f"{minute(seat.began)} to {minute(seat.ended or seat.seen)}"
            yield f"sat in {seat.node}, slot {seat.slot}, {span}"


def _tried(past: NodeHistory, lines: Iterable[LedgerEntry], began: float) -> Iterable[str]:
    """Actions since it began, and what became of them, in the order of their times."""
    actions = [(line.time, f"{line.action} by {line.who} ({line.why}): {line.outcome or 'outcome not known'}")
            for line in lines if line.node == past.node and line.time >= began
            and not line.action.startswith(_PAPER)]
    known = {line.action for line in lines}
    actions += [(boot, "the node had been restarted, and was looked at again") for boot in past.boots[1:]
             if boot >= began]
    actions += [(done.time, f"done: {done.what}{f' at {done.slot}' if done.slot else ''}")
             for done in past.repaired if done.time >= began and done.what not in known]
    for time, said in sorted(actions):
        yield f"{minute(time)} {said}"


def _words(text: str, most: int = _TEXT) -> str:
    """Prose as it is where nothing in it could be taken for more than words, else in a code span."""
    return clean(text, most) if text.strip() and _HARMLESS.fullmatch(text) else _code(text, most)


def _code(text: str, most: int = _TEXT) -> str:
    """Foreign text in a code span, on one line and bounded; a backtick, which alone could end it,
    becomes an apostrophe."""
    return f"`{_plain(text, most)}`"


def _plain(text: str, most: int = _TEXT) -> str:
    """Never empty: two backticks side by side would open a span of another kind."""
    shown = "".join(each if each.isprintable() else "·" for each in clean(text, most)).replace(
        "`", "'").strip()
    return shown or "(nothing)"
