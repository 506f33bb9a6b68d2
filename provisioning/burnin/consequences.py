"""Carries out a burn-in's consequences: findings are stored, and accused nodes' certificates revoked."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from healthcheck.burnin.consequences import consequences
from healthcheck.burnin.document import Burnin
from healthcheck.certify import manifest
from healthcheck.certify.certificate import CertificateManifest
from healthcheck.certify.keys import load_keys
from healthcheck.model.outcome import Severity
from healthcheck.store import accused
from healthcheck.store.accused import SHARED, FinishedBurnIn
from healthcheck.store.file import opened
from healthcheck.store.screened import FOUND
from inventory.errors import MusterError
from inventory.nodeset import fold
from inventory.text import clean


def carry_out(
    state: Path, burnin: Burnin, doubted: Collection[str], who: str, now: float, *, given_back: bool,
) -> list[str]:
    """Afterwards the store holds what the burn-in found, and no certificate stands of whom it accuses; gives
    a line for people on each, also on what could not be done: what was measured is shown whatever becomes of
    this. `given_back` is whether jobs may start on the accused as soon as its lease is over: then it is said
    what keeps them away. Where the certificates cannot be signed again, the store alone keeps those of the
    accused from standing."""
    found = consequences(burnin, doubted)
    message: list[str] = []
    try:
        with opened(state, make=True) as store:
            passed = accused.write(store, found, who, now)
        message += _lines(found, passed, given_back)
    except MusterError as error:
        message.append(f"what it found is NOT in the store, and triage does not know of it: {error}")
    blamed = {
        one.node: f"burn-in {found.run} found {one.observed}" for one in reversed(found.accused)
        if one.rule != SHARED}
    try:
        made = _revoked(state, blamed, found, who, now) if blamed else ()
        if made:
            message.append(f"certificates of {fold(made)} are revoked; gates close on them with the next: "
                           "muster gate publish")
    except MusterError as error:
        message.append(
            f"certificates of the accused are NOT revoked, and do not stand by what the store says: {error}")
    return message


def certain(burnin: Burnin, doubted: Collection[str]) -> dict[str, str]:
    """By node of which it accuses for certain, why jobs are to be kept from it."""
    return {
        one.node: clean(
            f"{FOUND} {f'of {one.subject} ' if one.subject else ''}{one.observed} ({burnin.run})", 200)
        for one in reversed(consequences(burnin, doubted).accused) if one.severity is Severity.CRITICAL}


def _lines(found: FinishedBurnIn, passed: list[str], given_back: bool) -> Iterator[str]:
    sure = {one.node for one in found.accused if one.severity is Severity.CRITICAL}
    likely = {one.node for one in found.accused} - sure
    if sure:
        yield f"accused for certain: {fold(sorted(sure))}; muster triage shows what is done about them"
    if sure and given_back:
        yield ("they are given back as the others are, and jobs may start on those in service until triage "
               "has isolated them, within its bound; next: muster triage --apply")
    if likely:
        yield f"noted as a warning, because it may be something else: {fold(sorted(likely))}"
    if passed:
        yield f"passed where an earlier burn-in had failed: {fold(sorted(passed))}"


def _revoked(state: Path, why: dict[str, str], found: FinishedBurnIn, who: str, now: float) -> list[str]:
    """The nodes whose certificates were taken back now."""
    if not (state / manifest.FOLDER).is_dir():
        return []
    held = manifest.load_manifest(state, load_keys(state))
    return [one.node for node in sorted(why) if _older(held, node, found.at)
            for one in manifest.revoke(state, [node], why[node][:200], who, now)]


def _older(held: CertificateManifest, node: str, at: float) -> bool:
    return node in held.nodes and held.revocation(node) is None and held.nodes[node].confirmed <= at
