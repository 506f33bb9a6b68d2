"""Whether a certificate is still valid for its node, what it requires if not, which nodes are due. Pure."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from healthcheck.certify.certificate import NONE, STAGES, Certificate, CertificateManifest, CertificatePolicy
from healthcheck.model.hardware import Hardware, Now
from inventory.text import clean
from inventory.times import day

_DAY = 86400.0
_IDENTITY, _SOFTWARE = ("serial", "uuid"), ("firmware",)
_LEAST_OTHERS = 2


class CertificateState(Enum):
    """The state of a certificate."""

    OK = "ok"
    REQUALIFY = "requalify"     # a burn-in must be repeated; the gate's policy decides on jobs meanwhile
    REVOKED = "revoked"


class RequalifyReason(Enum):
    """Why a burn-in must be repeated, gravest first."""

    CHANGED = "changed"
    REBOOTED = "rebooted"
    AGE = "age"


@dataclass(frozen=True)
class CertificateStatus:
    """A certificate's status: `asks` is the stage that is due, and `why` one line for people."""

    kind: CertificateState
    cause: RequalifyReason | None = None
    asks: str | None = None
    why: str = ""


@dataclass(frozen=True)
class Due:
    """A node that must repeat a burn-in."""

    node: str
    stage: str
    cause: RequalifyReason
    why: str


def stand(
    node: str, held: Certificate, manifest: CertificateManifest, seen: Now | None, policy: CertificatePolicy,
    now: float, accused: str = "",
) -> CertificateStatus:
    """The status of a node's certificate at `now`; unmeasured hardware is no change, as the node's state
    covers it. `accused` is a burn-in's finding that no later one has cleared, or "": until then none is
    valid, revoked or not. A certificate is void for another machine, whatever the policy says of a
    component."""
    if (revoked := manifest.revocation(node)) is not None:
        return CertificateStatus(CertificateState.REVOKED,
                                 why=f"{clean(revoked.why, 200)} ({clean(revoked.who, 60)}, "
                                     f"{day(revoked.at)})")
    if accused:
        return CertificateStatus(CertificateState.REVOKED, why=clean(accused, 200))
    if seen is not None and (another := another_machine(held.hardware, seen)):
        return CertificateStatus(CertificateState.REVOKED, RequalifyReason.CHANGED, held.stage, another)
    if seen is not None:
        for keys, asks, what in ((_IDENTITY, policy.component, "another component"),
                                 (_SOFTWARE, policy.firmware, "other firmware")):
            found = differences(held.hardware, seen.hardware, keys, seen.whole)
            if found and asks != NONE:
                more = f", and {len(found) - 1} more" if len(found) > 1 else ""
                return CertificateStatus(CertificateState.REQUALIFY, RequalifyReason.CHANGED, asks,
                                         f"{what} than was proven: {found[0]}{more}")
        if held.boot and seen.boot and held.boot != seen.boot and policy.rebooted != NONE:
            return CertificateStatus(CertificateState.REQUALIFY, RequalifyReason.REBOOTED, policy.rebooted,
                                     f"booted since it was last proven, {day(held.confirmed)}")
    if now >= due_at(node, held, policy) and policy.age != NONE:
        days = (now - held.confirmed) / _DAY
        return CertificateStatus(CertificateState.REQUALIFY, RequalifyReason.AGE, policy.age,
                                 f"last proven {day(held.confirmed)}, {days:.0f} days ago")
    return CertificateStatus(CertificateState.OK)


def another_machine(proven: Hardware, seen: Now) -> str:
    """Why what is there is another machine than was proven, or "": of most kinds of components that both
    know by number, most are others, wherever they sit, and at least two in all."""
    there = {(name.partition(" ")[0], key, part[key]) for name, part in seen.hardware.items()
             for key in _IDENTITY if key in part}
    read = {(kind, key) for kind, key, _ in there}
    known: Counter[str] = Counter()
    gone: Counter[str] = Counter()
    for name, part in proven.items():
        kind = name.partition(" ")[0]
        numbers = {(kind, key, part[key]) for key in _IDENTITY if key in part and (kind, key) in read}
        known[kind] += bool(numbers)
        gone[kind] += bool(numbers) and not numbers & there
    kinds = [kind for kind, number in known.items() if number]
    most = [kind for kind in kinds if 2 * gone[kind] > known[kind]]
    if gone.total() < _LEAST_OTHERS or 2 * len(most) <= len(kinds):
        return ""
    return (f"it is another machine than was proven: {gone.total()} of {known.total()} components with a "
            "number are others; bring it up again")


def differences(
    proven: Hardware, there: Hardware, keys: Iterable[str] = (*_IDENTITY, *_SOFTWARE),
    whole: Iterable[str] = (),
) -> list[str]:
    """The differences from the certified hardware, as text. Unread values are none; a missing component is
    one if all of its kind (the word before its address) were read."""
    keys, whole = tuple(keys), frozenset(whole)
    found = []
    for name in sorted({*proven, *there}):
        before, after = proven.get(name), there.get(name)
        kind = name.partition(" ")[0]
        if before is None or after is None:
            # A kind without certified components could not be read then.
            if "serial" in keys and kind in whole and any(one.partition(" ")[0] == kind for one in proven):
                found.append(f"{clean(name, 60)} was {'not there' if before is None else 'there'}")
            continue
        for key in keys:
            if key in before and key in after and before[key] != after[key]:
                found.append(
                    f"{clean(name, 60)} had {key} {clean(before[key], 60)}, has {clean(after[key], 60)}")
                break
    return found


def due_at(node: str, held: Certificate, policy: CertificatePolicy) -> float:
    """When it is too old: spread per node, so that nodes of one day do not all come due on one day."""
    number = int.from_bytes(hashlib.sha256(f"{node} {held.confirmed}".encode()).digest()[:8], "big") / 2.0**64
    return held.confirmed + (policy.days - policy.jitter_days * number) * _DAY


def queue(
    stands: Mapping[str, tuple[Certificate, CertificateStatus]], idle: Iterable[str] | None,
    policy: CertificatePolicy,
) -> list[Due]:
    """The nodes that are due, gravest cause and oldest first; at most the policy's number by age. `idle` are
    the nodes without jobs; None: all count as idle, and the lease decides."""
    free = None if idle is None else frozenset(idle)
    order = list(RequalifyReason)
    found = [(order.index(one.cause), -STAGES.index(one.asks), held.confirmed,
              Due(node, one.asks, one.cause, one.why)) for node, (held, one) in stands.items()
             if one.cause is not None and one.asks is not None and (free is None or node in free)]
    listed = [due for *_, due in sorted(found, key=lambda each: (*each[:3], each[3].node))]
    old = [due for due in listed if due.cause is RequalifyReason.AGE][:policy.at_once]
    return [due for due in listed if due.cause is not RequalifyReason.AGE or due in old]
