"""Decides from shown, known and expected keys which host keys to pin for a node, or why not."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

from inventory.expect import Expected
from inventory.hostkeys import KnownHost, KnownKey, RevokedKeys, fingerprint, key_type
from inventory.model import Via


class EnrolmentOutcome(Enum):
    """The outcome for one node."""

    PIN = "pin"                      # no key is known yet
    ADD = "add"                      # more key types of a host that has proven a known key
    REPLACE = "replace"              # its keys have changed, and --replace names it
    KNOWN = "known"
    AUTHORITY = "by authority"
    CHANGED = "changed"
    REVOKED = "revoked"
    MISMATCH = "mismatch"            # another key than --expect names
    UNLISTED = "not listed"          # --expect does not list it
    BLOCKED = "cannot be written"
    DECLINED = "declined"
    UNREACHED = "not reached"

    @property
    def refused(self) -> bool:
        """Whether a person must look at it."""
        return self in (EnrolmentOutcome.CHANGED, EnrolmentOutcome.REVOKED, EnrolmentOutcome.MISMATCH,
                        EnrolmentOutcome.UNLISTED, EnrolmentOutcome.BLOCKED, EnrolmentOutcome.DECLINED)

    @property
    def writes(self) -> bool:
        """Whether keys are to be written."""
        return self in (EnrolmentOutcome.PIN, EnrolmentOutcome.ADD, EnrolmentOutcome.REPLACE)


@dataclass(frozen=True)
class Decision:
    """`add` are keys to pin, in wire form, `drop` known ones that give way to them, `left_out` shown and not
    pinned. `vouched`: --expect names every key of `add`, so there is no question to ask. `elsewhere` are old
    keys in files that muster does not write: they stay trusted."""

    outcome: EnrolmentOutcome
    add: tuple[bytes, ...] = ()
    drop: tuple[KnownKey, ...] = ()
    left_out: tuple[bytes, ...] = ()
    elsewhere: tuple[KnownKey, ...] = ()
    vouched: bool = False
    reason: str = ""


def decide(
    keys: tuple[bytes, ...], known: KnownHost, ours: Collection[str], *, revoked: RevokedKeys | None = None,
    expected: Collection[Expected] | None = None,
    replace: bool = False, certified: bool = False, via: Via = Via.PARAMIKO,
) -> Decision:
    """What to do about a host that has proven `keys`; `ours` are files that may be written, `expected` None
    means without --expect, `certified` that it has host certificates, which only `via` openssh can check. A
    known key vouches for no other, as each is shown on a connection of its own: a person must approve what is
    neither known nor expected."""
    if reason := _revoked(keys, known, revoked):
        return Decision(EnrolmentOutcome.REVOKED, reason=reason)
    if expected is not None and (reason := _mismatch(keys, known, expected)):
        return Decision(EnrolmentOutcome.MISMATCH,
                        reason=f"REFUSED: {reason}; this is another node, or the list predates its "
                               "installation")
    held = {key.blob for key in (*known.keys, *known.portless)}
    missing = tuple(blob for blob in keys if blob not in held)
    old = tuple(key for key in known.keys if key.blob not in keys) if replace else ()
    drop = tuple(key for key in old if key.file in ours)
    elsewhere = tuple(key for key in old if key.file not in ours)
    nothing_new = Decision(EnrolmentOutcome.REPLACE if drop else EnrolmentOutcome.KNOWN, drop=drop,
                           elsewhere=elsewhere, vouched=bool(drop))
    if not missing:
        return nothing_new
    rival = _rival(keys, missing, known)
    if rival is None and not known.keys and known.authorities and certified and via is not Via.PARAMIKO:
        return Decision(EnrolmentOutcome.AUTHORITY, reason=f"{known.name} is trusted through the certificate "
                                                  f"authority in {known.authorities[0].where}; the system's "
                                                  "ssh checks that, so there is nothing to pin")
    if rival is not None and not replace:
        return Decision(EnrolmentOutcome.CHANGED, reason=_changed(keys, known, rival))
    add = missing
    if expected is not None:
        prints = {each.fingerprint for each in expected}
        add = tuple(blob for blob in missing if fingerprint(blob) in prints)
        if not add and (rival is not None or not any(blob in held for blob in keys)):
            return Decision(EnrolmentOutcome.UNLISTED,
                            reason=f"--expect does not list the new keys of {known.name}: "
                                   f"{_keys_text(missing)}")
        if not add:
            return dataclasses.replace(nothing_new, left_out=missing)
    left_out = tuple(blob for blob in missing if blob not in add)
    outcome = (EnrolmentOutcome.REPLACE if rival is not None or drop
               else EnrolmentOutcome.ADD if known.keys else EnrolmentOutcome.PIN)
    return Decision(outcome, add, drop, left_out, elsewhere, vouched=expected is not None,
                    reason=_why_not_authority(known, via))


def _revoked(keys: Iterable[bytes], known: KnownHost, revoked: RevokedKeys | None) -> str:
    if revoked is not None and revoked.problem:
        return f"no host key is trusted while RevokedHostKeys cannot be read: {revoked.problem}"
    for blob in keys:
        if bad := [key for key in known.revoked if key.blob == blob]:
            return f"{known.name} offers {_key_text(blob)}, which {bad[0].where} marks as revoked"
        if revoked is not None and blob in revoked:
            return f"{known.name} offers {_key_text(blob)}, which RevokedHostKeys revokes"
    return ""


def _mismatch(keys: tuple[bytes, ...], known: KnownHost, expected: Collection[Expected]) -> str:
    """Why these are not the expected keys; an unlisted type beside a matching key is no mismatch."""
    prints = {each.fingerprint for each in expected}
    for blob in keys:
        rivals = [each for each in expected if each.type == key_type(blob)]
        if rivals and fingerprint(blob) not in prints:
            return (f"{known.name} offers {_key_text(blob)}, and {rivals[0].where} expects "
                    f"{rivals[0].fingerprint}")
    if expected and not any(fingerprint(blob) in prints for blob in keys):
        first = next(iter(expected))
        return f"{known.name} offers {_keys_text(keys)}, and {first.where} expects {first.fingerprint}"
    return ""


def _rival(keys: tuple[bytes, ...], missing: tuple[bytes, ...], known: KnownHost) -> KnownKey | None:
    """The known key that the missing ones contradict: of one type, or any where the host has proven none."""
    types = {key_type(blob) for blob in missing}
    for key in known.keys:
        if key.type in types:
            return key
    return known.keys[0] if known.keys and not any(key.blob in keys for key in known.keys) else None


def _changed(keys: tuple[bytes, ...], known: KnownHost, rival: KnownKey) -> str:
    same_type = [blob for blob in keys if key_type(blob) == rival.type]
    if same_type:
        return f"{known.name} offers {_key_text(same_type[0])}, {rival.where} holds {fingerprint(rival.blob)}"
    return (f"{known.name} offers {_keys_text(keys)}, and no longer the key that {rival.where} holds, "
            f"{_key_text(rival.blob)}")


def _why_not_authority(known: KnownHost, via: Via) -> str:
    if known.keys or not known.authorities:
        return ""
    why = ("the node shows no host certificate" if via is not Via.PARAMIKO
           else "transport paramiko cannot check certificates")
    return (f"{known.name} is trusted through the certificate authority in {known.authorities[0].where}, but "
            f"{why}")


def _key_text(blob: bytes) -> str:
    return f"{key_type(blob)} {fingerprint(blob)}"


def _keys_text(keys: Iterable[bytes]) -> str:
    return ", ".join(map(_key_text, keys))


def shared(shown: Iterable[tuple[str, str, tuple[bytes, ...]]]) -> dict[bytes, tuple[str, ...]]:
    """The keys that several hosts show, with their nodes, from (node, name in known_hosts, keys).
    Nodes of one name are one host."""
    seen: dict[bytes, dict[str, str]] = {}
    for node, name, keys in shown:
        for blob in keys:
            seen.setdefault(blob, {}).setdefault(name, node)
    return {blob: tuple(nodes.values()) for blob, nodes in seen.items() if len(nodes) > 1}
