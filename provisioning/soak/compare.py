"""What came back differently from restarts, with whose turn it is: the boot before all restarts is what the
others are held against, in what was read there; what was not read afterwards is a difference. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from healthcheck.model.outcome import Owner, Status
from healthcheck.model.trouble import Trouble
from inventory.text import clean
from provisioning.soak.boottimes import LEAST_OTHERS
from provisioning.soak.record import BootRecord, SoakRecord

_KINDS = {"gpu": "gpu", "hca": "nic", "nvme": "drive", "disk": "drive", "dimm": "dimm", "board": "node",
          "chassis": "node"}
_DISPLAY = "0x03"       # GPUs lower their link's speed while they are idle
_MEMORY_SHARE = 0.01    # kernels of one version keep a little more or less for themselves
_MOST_FORMS = 6
Seen = dict[tuple[str, ...], list[int]]


def differences(record: SoakRecord, cohort: Sequence[SoakRecord], place: str) -> list[Trouble]:
    """One for each thing that differs, with the restarts after which it did; `place`: the machine's."""
    first, boots = record.boots[0], record.boots[1:]
    return [*_each(record, first, boots, _parts, _part_trouble, place),
            *_each(record, first, boots, _pci, _pci_trouble, place),
            *_each(record, first, boots, amounts, _amount_trouble, place),
            *_rules(record, first, boots), *_forms(record, first, boots, cohort)]


def when(record: SoakRecord, numbers: Sequence[int]) -> str:
    """After which restarts."""
    kinds = Counter(record.kinds[number - 1] for number in numbers)
    named = ", ".join(f"{number} ({record.kinds[number - 1]})" for number in numbers[:6])
    more = ", ..." if len(numbers) > 6 else ""
    return (f"after {len(numbers)} of {len(record.boots) - 1} restarts ({' and '.join(kinds)}; numbers "
            f"{named}{more})")


def _each(
    record: SoakRecord, first: BootRecord, boots: Sequence[BootRecord],
    find: Callable[[BootRecord, BootRecord], Iterator[tuple[str, ...]]],
    trouble: Callable[[tuple[str, ...], str, str], Trouble], place: str,
) -> Iterator[Trouble]:
    seen: Seen = {}
    for number, boot in enumerate(boots, 1):
        for what in find(first, boot):
            seen.setdefault(what, []).append(number)
    for what, numbers in seen.items():
        yield trouble(what, when(record, numbers), place)


def _parts(first: BootRecord, boot: BootRecord) -> Iterator[tuple[str, ...]]:
    for kind in sorted(set(first.whole) - set(boot.whole)):
        yield "unread", kind, "", ""
    both = set(first.whole) & set(boot.whole)
    before = {name: serial for name, serial in first.parts.items() if name.partition(" ")[0] in both}
    after = {name: serial for name, serial in boot.parts.items() if name.partition(" ")[0] in both}
    gone = Counter(before.values()) - Counter(after.values())
    new = Counter(after.values()) - Counter(before.values())
    for name, serial in before.items():
        kind, _, slot = name.partition(" ")
        if gone[serial] and after.get(name) != serial:
            gone[serial] -= 1
            yield ("exchanged", kind, slot, serial) if name in after and new[after[name]] else (
                "gone", kind, slot, serial)
    for name, serial in after.items():
        kind, _, slot = name.partition(" ")
        if new[serial] and name not in before:
            new[serial] -= 1
            yield "new", kind, slot, serial


def _part_trouble(what: tuple[str, ...], after: str, place: str) -> Trouble:
    how, kind, slot, serial = what
    if how == "unread":
        return Trouble(f"its {kind} parts could not be read {after}, and could before", Owner.OPERATOR,
                       "run muster check there, and see why they cannot be read", "node")
    words = {"gone": "is not there", "new": "is there, and was not before", "exchanged": "is another one"}
    owner = Owner.OPERATOR if how == "exchanged" else Owner.VENDOR
    hand = ("find out who exchanged it meanwhile" if how == "exchanged" else
            f"{place}: reseat it with the power off; if it still is not there at each start, have the vendor "
            "replace it")
    return Trouble(f"{kind} {slot} {words[how]} {after}", owner, hand, _KINDS.get(kind, "node"), slot, serial)


def _pci(first: BootRecord, boot: BootRecord) -> Iterator[tuple[str, ...]]:
    if not first.pci:
        return
    before = Counter(values[:3] for values in first.pci.values())
    now = Counter(values[:3] for values in boot.pci.values())
    for what, number in (before - now).items():
        yield "gone", *what, str(number)
    for what, number in (now - before).items():
        yield "new", *what, str(number)
    yield from pci_links(first, boot)


def pci_links(first: BootRecord, boot: BootRecord) -> Iterator[tuple[str, ...]]:
    """The links of the same functions that are narrower or slower: which of both, address, ids, old, new."""
    for at, values in sorted(first.pci.items()):
        later = boot.pci.get(at)
        if later is None or later[:3] != values[:3]:
            continue
        if _lanes(later[3]) < _lanes(values[3]):
            yield "width", at, f"{values[1]}:{values[2]}", values[3], later[3]
        if not values[0].startswith(_DISPLAY) and _speed(later[4]) < _speed(values[4]):
            yield "speed", at, f"{values[1]}:{values[2]}", values[4], later[4]


def _pci_trouble(what: tuple[str, ...], after: str, place: str) -> Trouble:
    if what[0] in ("gone", "new"):
        how, kind, vendor, device, number = what
        words = "fewer" if how == "gone" else "more"
        return Trouble(f"{number} PCI function {vendor}:{device} (class {kind}) {words} than before {after}",
                       Owner.VENDOR, f"{place}: see which (lspci -nn, and the boots' records), reseat it; "
                       "have the vendor replace what is not there at each start", "node")
    how, at, device, old, new = what
    return Trouble(f"PCI link {how} of {at} ({device}) is {new}, and was {old}, {after}", Owner.VENDOR,
                   f"{place}: reseat the card or its riser with the power off; have the vendor replace it if "
                   "that comes back", "node", at)


def amounts(first: BootRecord, boot: BootRecord) -> Iterator[tuple[str, ...]]:
    """Memory (MiB) and processors, where they are others: which, old, new or "unknown"."""
    if first.memory is not None:
        if boot.memory is None:
            yield "memory", str(first.memory >> 10), "unknown"
        elif abs(boot.memory - first.memory) > first.memory * _MEMORY_SHARE:
            yield "memory", str(first.memory >> 10), str(boot.memory >> 10)
    if first.cpus is not None and boot.cpus != first.cpus:
        yield "processors", str(first.cpus), str(boot.cpus if boot.cpus is not None else "unknown")


def _amount_trouble(what: tuple[str, ...], after: str, place: str) -> Trouble:
    name, old, new = what
    unit = " MiB of" if name == "memory" else ""
    return Trouble(f"{new}{unit} {name} {after}, and {old} before", Owner.VENDOR,
                   f"{place}: read the BMC's log for what was mapped out, and have it replaced",
                   "dimm" if name == "memory" else "node")


def _rules(record: SoakRecord, first: BootRecord, boots: Sequence[BootRecord]) -> Iterator[Trouble]:
    failed: dict[str, list[int]] = {}
    unknown: dict[str, list[int]] = {}
    last: dict[str, tuple[str, str, str]] = {}
    for number, boot in enumerate(boots, 1):
        for rule, (before, _, _) in first.rules.items():
            now = boot.rules.get(rule)
            status = now[0] if now is not None else Status.UNKNOWN.value
            if before != Status.FAIL.value and status == Status.FAIL.value and now is not None:
                failed.setdefault(rule, []).append(number)
                last[rule] = now
            elif before == Status.PASS.value and status != Status.PASS.value:
                unknown.setdefault(rule, []).append(number)
                last.setdefault(rule, now or ("", "", "it was not judged"))
    for rule, numbers in failed.items():
        _, owner, words = last[rule]
        yield Trouble(f"{rule} fails {when(record, numbers)}, and did not before: {words}",
                      owner_of(owner), f"see muster explain {rule}; repair that")
    for rule, numbers in unknown.items():
        yield Trouble(f"{rule} could not be judged {when(record, numbers)}, and passed before: "
                      f"{last[rule][2]}", Owner.OPERATOR, f"see muster explain {rule}")


def _forms(
    record: SoakRecord, first: BootRecord, boots: Sequence[BootRecord], cohort: Sequence[SoakRecord],
) -> Iterator[Trouble]:
    """Errors in the kernel's log that neither the boot before nor most other machines wrote: what one other
    wrote, too, may be its fault as well. Where that boot's log had lost its beginning, the first restart's
    stands in for it."""
    unread = [number for number, one in enumerate(boots, 1) if one.log is None]
    if unread and first.log is not None:
        yield Trouble(f"its kernel log could not be read {when(record, unread)}", Owner.OPERATOR,
                      "run muster check there, and see why it cannot be read")
    wrote = Counter(form for one in cohort for form in {form for boot in one.boots for form in boot.forms})
    usual = {form for form, many in wrote.items() if len(cohort) >= LEAST_OTHERS and 2 * many > len(cohort)}
    known = set(first.forms) | usual
    if not first.log and boots:
        known |= set(boots[0].forms)
    seen: dict[str, list[int]] = {}
    text: dict[str, str] = {}
    for number, boot in enumerate(boots, 1):
        for form, template in boot.forms.items():
            if form not in known:
                seen.setdefault(form, []).append(number)
                text[form] = template
    for form, numbers in sorted(seen.items(), key=lambda each: -len(each[1]))[:_MOST_FORMS]:
        what = f"its kernel writes a new error {when(record, numbers)}: {text[form]}"
        yield Trouble(clean(what, 400), Owner.OPERATOR,
                      "see what it means (muster explain, the vendor's list), and repair that")


def owner_of(name: str) -> Owner:
    """The owner of this name, the operator for any other."""
    return Owner(name) if name in {one.value for one in Owner} else Owner.OPERATOR


def _lanes(text: str) -> float:
    return float(text) if text.isdecimal() else 0.0


def _speed(text: str) -> float:
    number = text.partition(" ")[0]
    return float(number) if number.replace(".", "", 1).isdecimal() else 0.0
