"""Whether the boot before all restarts is fit to compare with: a fault that is there already is not what a
machine was like. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from healthcheck.model.outcome import Owner, Status
from healthcheck.model.trouble import Trouble
from provisioning.soak.compare import amounts, owner_of, pci_links
from provisioning.soak.record import BootRecord

_KINDS = ("gpu", "hca", "nvme", "dimm")


def unfit(first: BootRecord, earlier: BootRecord | None, hand: str) -> Iterator[Trouble]:
    """Why no restart is made: what fails in the boot before, and what it has less of than `earlier`, with
    which an earlier try began; `hand` is what to do about the latter."""
    for rule, (status, owner, words) in first.rules.items():
        if status == Status.FAIL.value:
            yield Trouble(f"{rule} fails before any restart: {words}", owner_of(owner),
                          f"see muster explain {rule}; repair that")
    if earlier is not None:
        for what in _less(earlier, first):
            yield Trouble(f"{what}, when an earlier try began", Owner.VENDOR, hand, "node")


def uncompared(first: BootRecord) -> list[str]:
    """What was not read in the boot before, so that nothing can be said of it afterwards."""
    there = {"PCI functions": bool(first.pci), "memory": first.memory is not None,
             "processors": first.cpus is not None, "kernel log": first.log is not None}
    return [*sorted(set(_KINDS) - set(first.whole)), *(name for name, read in there.items() if not read),
            *(rule for rule, one in first.rules.items() if one[0] == Status.UNKNOWN.value)]


def _less(old: BootRecord, new: BootRecord) -> Iterator[str]:
    """Another part in place of one is a repair, and as good; more of something is not our business."""
    for kind in sorted(set(old.whole) - set(new.whole)):
        yield f"its {kind} parts cannot be read, and could before"
    both = set(old.whole) & set(new.whole)
    had, has = (Counter(name.partition(" ")[0] for name in one.parts) for one in (old, new))
    for kind in sorted(both):
        if has[kind] < had[kind]:
            yield f"{has[kind]} {kind}, and {had[kind]} before"
    before, now = _classes(old.pci), _classes(new.pci)
    for kind, number in (before - now).items():
        yield f"{before[kind] - number} PCI functions of class {kind}, and {before[kind]} before"
    for name, at, _, was, now_is in pci_links(old, new):
        yield f"PCI link {name} of {at} is {now_is}, and was {was} before"
    for name, was, now_is in amounts(old, new):
        if now_is == "unknown" or int(now_is) < int(was):
            yield f"{now_is}{' MiB of' if name == 'memory' else ''} {name}, and {was} before"


def _classes(pci: Mapping[str, tuple[str, ...]]) -> Counter[str]:
    """Functions by base class and subclass: the same work, whoever made the part."""
    return Counter(values[0][:6] for values in pci.values())
