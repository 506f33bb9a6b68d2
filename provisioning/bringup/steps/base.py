"""Step base: the base configuration is as the policy says; what differs is made so in one deed, with the whole diff."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from inventory.text import clean
from inventory.transport.base import Stage, Transport
from provisioning.base import send
from provisioning.base.told import BaseReport, ItemReport, ItemState
from provisioning.base.wish import BaseSettings
from provisioning.bringup.engine.model import BringupStep, Machine, Made, Observation, Operation, StepEffect, StepState

# Nothing of ours has run there. Of others from which nothing came back, nobody knows.
_NOT_BEGUN = (Stage.RESOLVE, Stage.CONNECT, Stage.HOST_KEY, Stage.AUTH, Stage.LOGIN, Stage.BECOME, Stage.PYTHON, Stage.TURN)
_MOST = 6
# What the node itself said; a deed that was never begun is begun again.
_REFUSED = "it could not be made so: "


class Base:
    """Looks and makes by one program a node."""

    def __init__(self, step: BringupStep, transport: Callable[[], Transport], wish: BaseSettings, *, fanout: int = 64) -> None:
        self.step = step
        self._transport, self._wish, self._fanout = transport, wish, fanout

    def look(self, machines: Sequence[Machine]) -> Iterator[tuple[str, Observation]]:
        """See `Executor.look`."""
        of = {machine.name: machine for machine in machines}
        for told in send.look([machine.node for machine in machines], self._transport(), self._wish, fanout=self._fanout):
            yield told.node, seen(of[told.node], told)

    def make(self, machine: Machine, deed: Operation) -> Made:
        """See `Executor.make`."""
        (told,) = send.make([machine.node], self._transport(), self._wish)
        if not told.answered:
            return Made(False if told.stage in _NOT_BEGUN else None, clean(f"{told.stage.value if told.stage else 'reply'}: {told.said}"))
        if told.failed or not told.ok:
            return Made(False, clean(_REFUSED + ("; ".join(f"{name}: {why}" for name, why in told.failed.items()) or told.said)))
        return Made(True, f"made so: {', '.join(told.changed)}" if told.changed else "nothing was left to do")


def seen(machine: Machine, told: BaseReport) -> Observation:
    """What a node's items mean for its way."""
    if not told.answered:
        return Observation(StepState.UNKNOWN, clean(f"{told.stage.value if told.stage else 'reply'}: {told.said}"))
    # Others' files and services first: what differs besides is made so all the same, and the trouble is still there afterwards.
    if told.of(ItemState.DIFFERS):
        return _differs(machine, told)
    # What is not seen, or on its way, is trouble when the step's time is over.
    for how, stand in ((ItemState.TROUBLE, StepState.TROUBLE), (ItemState.UNSEEN, StepState.UNKNOWN), (ItemState.WAIT, StepState.WAIT)):
        if found := told.of(how):
            return Observation(stand, _all(found), troubles=tuple(_trouble(machine, item) for item in found[:_MOST]))
    return Observation(StepState.SO, _sound(told))


def _differs(machine: Machine, told: BaseReport) -> Observation:
    names = ", ".join(item.name for item in told.of(ItemState.DIFFERS))
    key = "base:" + hashlib.sha256("\n".join(told.change).encode()).hexdigest()[:16]
    renamed = any(item.name == "host_name" for item in told.of(ItemState.DIFFERS))
    deed = Operation(f"make so: {names}", key, told.change, StepEffect.DISRUPTIVE if renamed else StepEffect.PASSIVE, settle_s=5.0)
    before = machine.did(key)
    if before is not None and before.done is False and before.said.startswith(_REFUSED):
        return _stuck(machine, before.said)
    if before is not None and before.done:
        return _stuck(machine, f"it was made so, and does not stay: {names}; something else there writes it")
    return Observation(StepState.NOT_SO, f"differs: {names}", deed)


def _stuck(machine: Machine, what: str) -> Observation:
    return Observation(StepState.TROUBLE, clean(what), troubles=(Trouble(clean(what), Owner.OPERATOR, _hand(machine)),))


def _trouble(machine: Machine, item: ItemReport) -> Trouble:
    return Trouble(f"base: {item.name}: {item.said}", Owner.OPERATOR, _hand(machine))


def _hand(machine: Machine) -> str:
    return f"see: muster bringup base {machine.name}; mend it, then: muster bringup retry {machine.name}"


def _all(items: Sequence[ItemReport]) -> str:
    return clean("; ".join(f"{item.name}: {item.said}" for item in items))


def _sound(told: BaseReport) -> str:
    """What is so, and what is not there to be so, or was left out."""
    parts = [f"so: {', '.join(item.name for item in told.of(ItemState.SO))}"]
    parts += [f"{how.value}: {', '.join(item.name for item in told.of(how))}" for how in (ItemState.ABSENT, ItemState.OUT) if told.of(how)]
    return "; ".join(parts)
