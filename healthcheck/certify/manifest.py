"""The manifest of certificates on the head: reads, verifies, changes and signs it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from healthcheck.certify.certificate import (
    NAMESPACE,
    STAGES,
    Certificate,
    CertificateManifest,
    Passed,
    Revoked,
    canonical,
    from_document,
    numbered,
    to_document,
)
from healthcheck.certify.keys import KeyRing, holds, load_keys, signer_of
from healthcheck.certify.pair import CURRENT, SIGNATURE, NoPair, lock_folder, read_pair, write_pair
from healthcheck.certify.requalify import differences
from healthcheck.certify.serial import newest_written, next_serial, written_serial
from healthcheck.config.files import make_folder
from healthcheck.model.hardware import Hardware
from inventory.errors import CertificateError

FOLDER, NAME = "certificates", "certificates.json"


def load_manifest(state: Path, keys: KeyRing | None = None) -> CertificateManifest:
    """This state folder's manifest, empty if there is none yet. CertificateError for an invalid one."""
    keys = keys if keys is not None else load_keys(state)
    folder = state / FOLDER
    try:
        found = checked_manifest(*read_pair(str(folder), NAME), keys, str(folder / NAME))
    except NoPair as error:
        if any((folder / name).exists() for name in (NAME, NAME + SIGNATURE, CURRENT, "serial.json")):
            raise CertificateError(f"{error}; put it back from a copy of the state folder") from None
        return CertificateManifest(keys.cluster)
    if found.serial < newest_written(folder):
        raise CertificateError(
            f"{folder / NAME}: an older one was restored: number {found.serial}, but the newest was "
            f"{newest_written(folder)}")
    return found


def checked_manifest(data: bytes, signature: bytes, keys: KeyRing, where: str) -> CertificateManifest:
    """The manifest in these bytes; raises CertificateError."""
    try:
        holds(keys, data, signature, NAMESPACE)
        found = from_document(json.loads(data))
    except CertificateError as error:
        raise CertificateError(f"{where}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise CertificateError(f"{where}: {error}") from None
    if found.cluster != keys.cluster:
        raise CertificateError(f"{where}: is of the cluster {ascii(found.cluster)[:60]}, but these keys are "
                               f"of {ascii(keys.cluster)[:60]}")
    return found


# The greatest clock difference within a site.
_AHEAD_S = 300


def issue(
    state: Path, passed: Iterable[Passed], hardware: Mapping[str, Hardware], now: float,
) -> dict[str, Certificate]:
    """Certifies nodes for what they passed on their hardware; returns the new certificates. Raises
    CertificateError. A shorter burn-in on the same hardware (quick, after a reboot) keeps the longer stage,
    but does not restore a revoked one."""
    made: dict[str, Certificate] = {}

    def change(held: CertificateManifest) -> CertificateManifest:
        for one in passed:
            if one.stage not in STAGES:
                raise CertificateError(
                    f"{one.node}: {ascii(one.stage)[:40]} is not a stage; there are {', '.join(STAGES)}")
            if one.at > now + _AHEAD_S:
                raise CertificateError(f"{one.node}: this result is in the future; check the clocks")
            if one.at <= max((each.at for each in held.revoked if each.node == one.node), default=-1):
                raise CertificateError(f"{one.node}: its certificate was revoked after this result; only a "
                                       "new burn-in restores it")
            new = Certificate(one.stage, one.at, one.what, one.figures, one.versions, hardware[one.node],
                              one.boot, one.result)
            old = held.nodes.get(one.node)
            if old is not None and held.revocation(one.node) is None:
                if one.at < old.confirmed:
                    raise CertificateError(
                        f"{one.node}: this result is older than the one of its certificate {old.id}")
                if (STAGES.index(one.stage) < STAGES.index(old.stage)
                    and not differences(old.hardware, new.hardware)):
                    new = replace(new, stage=old.stage, at=old.at, renewed=one.at, what=old.what,
                                  burnin=old.burnin, figures={**old.figures, **one.figures})
            made[one.node] = numbered(one.node, new)
        return replace(held, nodes={**held.nodes, **made})

    _changed(state, change, now)
    return made


def revoke(state: Path, nodes: Iterable[str], why: str, who: str, now: float) -> tuple[Revoked, ...]:
    """Revokes these nodes' certificates; the new revocations. CertificateError for a node without one."""
    made: list[Revoked] = []

    def change(held: CertificateManifest) -> CertificateManifest:
        for node in nodes:
            if node not in held.nodes:
                raise CertificateError(f"{node}: has no certificate")
            if held.revocation(node) is None:
                made.append(Revoked(held.nodes[node].id, node, int(now), why, who))
        return replace(held, revoked=(*held.revoked, *made))

    _changed(state, change, now)
    return tuple(made)


def rename(state: Path, old: str, new: str, now: float) -> str:
    """The certificate of the old name is the new one's, with all its revocations; gives its id, "" where
    there is none. Of two the one that was confirmed later stays. Raises CertificateError."""
    made = ""

    def change(held: CertificateManifest) -> CertificateManifest:
        nonlocal made
        nodes = dict(held.nodes)
        ours, theirs = nodes.pop(old, None), nodes.get(new)
        ids: dict[str, str] = {}
        if ours is not None:
            after = numbered(new, ours)
            ids[ours.id] = made = after.id
            if theirs is None or theirs.confirmed <= after.confirmed:
                nodes[new] = after
        revoked = tuple(replace(one, node=new, id=ids.get(one.id, one.id)) if one.node == old else one
                        for one in held.revoked)
        return replace(held, nodes=nodes, revoked=revoked)

    if (state / FOLDER / NAME).exists():
        _changed(state, change, now)
    return made


def sign_again(state: Path, now: float) -> None:
    """Signs the manifest, if any, with the current key, because a retired key's signature is not valid."""
    _changed(state, lambda held: held, now, again=True)


def _changed(
    state: Path, change: Callable[[CertificateManifest], CertificateManifest], now: float, *,
    again: bool = False,
) -> None:
    """Reads, changes, signs and writes under one lock; the serial number always rises."""
    folder = state / FOLDER
    make_folder(folder, "the state folder (--state, MUSTER_STATE)")
    try:
        with lock_folder(str(folder)):
            keys = load_keys(state)
            signer = signer_of(state, keys)
            before = load_manifest(state, keys)
            after = change(before)
            if after == before and not (again and before.serial):
                return
            after = replace(after, serial=next_serial(folder, now, before.serial), made=int(now))
            data = canonical(to_document(after))
            from_document(json.loads(data))     # never write what cannot be read back
            write_pair(str(folder), NAME, after.serial, data, signer.signed(data, NAMESPACE), 0o644)
            written_serial(folder, after.serial)
    except OSError as error:
        raise CertificateError(f"{folder}: {error.strerror}") from None
    except ValueError as error:
        raise CertificateError(f"the certificates cannot be written: {error}") from None
