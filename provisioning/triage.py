"""Carries out a plan of triage: verdicts into the store, cordons and releases through a back end, each with its line in the ledger.

What the plan says is what is done, in its order; nobody decides here. Whoever is killed between two steps leaves the rest to the next
run, whose plan has what is left. One triage at a time acts on a store.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from healthcheck.store import cordons
from healthcheck.store.cordons import State, open_cordons
from healthcheck.store.file import Store
from healthcheck.store.verdicts import write
from healthcheck.triage.plan import Act, Plan
from inventory.errors import UsageError
from provisioning.actions.base import Backend, Held, Holder, Reboots
from provisioning.cordon import Clock, Done, cordon, settle_meant, uncordon
from provisioning.lease.check import settle_all
from provisioning.reboot import settle_reboots

LOCK = "triage.lock"


@contextmanager
def alone(folder: Path, lock: str = LOCK, what: str = "triage") -> Iterator[None]:
    """Only one triage (or what else has a lock of this name) acts in a state folder; raises UsageError for the second. The lock goes with
    the process."""
    descriptor = os.open(folder / lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"another muster {what} --apply is at work (see: fuser {folder / lock})") from None
        yield
    finally:
        os.close(descriptor)


def shown(store: Store, backend: Backend, nodes: Collection[str]) -> Mapping[str, Held]:
    """Who holds the nodes that a plan may be about: these, and those that we hold by the store. Raises ActionError."""
    asked = {one.node for one in open_cordons(store, backend=backend.name)} | set(nodes)
    return backend.held(sorted(asked)) if asked else {}


def lost(seen: Mapping[str, Held], backend: str) -> Callable[[str, str, int], str]:
    """For `gather`: who holds a node instead of our cordon, by what the back end shows."""
    def ask(node: str, where: str, number: int) -> str:
        if where != backend or node not in seen or seen[node].number == number:
            return ""
        return _instead(seen[node])
    return ask


def others(seen: Mapping[str, Held]) -> Callable[[str], str]:
    """For `gather`: who but us keeps jobs away from a node, by what the back end shows."""
    def ask(node: str) -> str:
        held = seen.get(node)
        if held is None or held.holder not in (Holder.OTHERS, Holder.ABSENT):
            return ""
        return "it is not known to the back end" if held.holder is Holder.ABSENT else f"others hold it: {held.reason}"
    return ask


def _instead(held: Held) -> str:
    if held.holder is Holder.NOBODY:
        return "somebody gave it back"
    return "it is not known there any more" if held.holder is Holder.ABSENT else f"others hold it now: {held.reason}"


def settle_lost(store: Store, backend: Backend, who: str, clock: Clock) -> None:
    """Writes down which of our cordons people have ended, or taken over, behind our back."""
    seen = shown(store, backend, ())
    for one in open_cordons(store, backend=backend.name):
        if one.state is State.HELD and one.node in seen and seen[one.node].number != one.id:
            cordons.lost(store, one, _instead(seen[one.node]), who, clock())


def settle(store: Store, backend: Backend, who: str, clock: Clock) -> None:
    """Writes down what became of every deed of which nobody knows the end, gives back leases that a dead process left, and writes down what
    people did meanwhile. Raises ActionError.
    """
    settle_meant(store, backend, clock)
    settle_all(store, backend, who, clock)
    if isinstance(backend, Reboots):
        settle_reboots(store, backend, clock)
    settle_lost(store, backend, who, clock)


def apply(store: Store, backend: Backend, plan: Plan, who: str, clock: Clock, told: Callable[[Done], None]) -> list[Done]:
    """Writes the plan's verdicts down, then does its steps; tells of each as it is done. Raises ActionError, StoreError.

    A step whose node changed hands since the plan was made is not taken: the back end is looked at before each deed.
    """
    verdicts = write(store, plan)
    done: list[Done] = []
    for step in plan.steps:
        if step.act is Act.RELEASE:
            if step.backend != backend.name:
                found = [Done(step.node, f"NOT released: it is held in {step.backend}, and this is {backend.name}", held=True, failed=True)]
            else:
                found = uncordon(store, backend, [step.node], step.why, who, clock)
        else:
            found = cordon(store, backend, [step.node], step.why, who, clock, verdict=verdicts[step.node])
        for one in found:
            told(one)
        done += found
    return done
