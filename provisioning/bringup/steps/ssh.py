"""Step ssh: the machine answers over SSH as the inventory says, with a pinned host key, and it is the machine
that is meant.

A host key is pinned by itself only where a list or a console vouches for it, or where it came with the proof
that the operating system is installed: that which step os kept, else one that is asked for here (as where
that step is left out). An installer's key is never pinned. A key that has changed is a person's to judge.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from inventory.enroll import EnrolmentOutcome
from inventory.enrolment import NodeEnrolment, decided, scanned, subject_of, written
from inventory.errors import ConfigError, MusterError
from inventory.expect import read_expected
from inventory.hostkeys import fingerprint, key_type
from inventory.model import Node
from inventory.sshconfig import default_config
from inventory.text import clean
from inventory.transport.base import HANGS, Failure, Stage, Transport
from provisioning.base.identity import NodeIdentity, kept
from provisioning.base.send import identify
from provisioning.bringup.engine.model import (
    BringupStep,
    Machine,
    Observation,
    Operation,
    OperationResult,
    StepEffect,
    StepState,
)
from provisioning.bringup.steps.identity import mixed
from provisioning.bringup.steps.osproof import Proof, proven_keys
from provisioning.bringup.steps.osproof import keep as kept_of
from provisioning.osinstall.base import OsError, OsState

_SCAN_S = 60.0
_PIN = "pin:"
# The store is read once for all machines of a moment.
_FRESH_S = 1.0
# cloud-init puts users' keys in after sshd has started.
_KEYS_S = 180.0
_SLOW = "it answers, and is too slow or hangs: look at its load, its disk and network file systems (home)"
_ADVICE: Mapping[Stage, str] = {
    Stage.CONNECT: "check its console, sshd there, and the route to its address (address:, port:, "
                   "proxy_jump: in the inventory)",
    Stage.AUTH: "put the public key of muster's user there (authorized_keys)",
    Stage.RESOLVE: "give the machine an address in DNS or in the inventory (address:)",
    Stage.LOGIN: "log in by hand: the shell, or a file that it reads, hangs",
    Stage.BECOME: "let the user go through sudo without a password, or log in as root",
    Stage.PYTHON: "install python3 (3.8 or newer) there, or name it in the inventory (python:)"}


class Ssh:
    """`host_keys` lists the keys to expect, or is a folder of consoles' logs; else the keys are pinned that
    came with the `proof` of the installed system, asked for where none was kept. `others` gives what the
    store keeps of all machines; `names` are the inventory's."""

    def __init__(
        self, step: BringupStep, transport: Callable[[], Transport], host_keys: Path | None = None, *,
        proof: Proof, names: Collection[str] = (),
        others: Callable[[], Mapping[str, Mapping[str, str]]] = dict, fanout: int = 64,
    ) -> None:
        self.step = step
        self._transport, self._host_keys, self._names = transport, host_keys, names
        self._proof = proof
        self._others, self._fanout = others, fanout
        self._lock = threading.Lock()
        self._known: dict[str, NodeIdentity] = {}
        self._read: tuple[float, Mapping[str, Mapping[str, str]]] = (float("-inf"), {})

    def observe(self, machines: Sequence[Machine]) -> Iterator[tuple[str, Observation]]:
        """See `Executor.observe`."""
        found = {
            who.node: who for who in identify(
                [machine.node for machine in machines], self._transport(), fanout=self._fanout)}
        with self._lock:
            self._known |= {name: who for name, who in found.items() if who.failure is None}
            known = dict(self._known)
            if time.monotonic() - self._read[0] > _FRESH_S:
                self._read = (time.monotonic(), self._others())
            stored = self._read[1]
        known = {**{name: kept(name, message) for name, message in stored.items()}, **known}
        boards = {**stored, **{machine.name: machine.kept for machine in machines}}
        strange = [
            machine for machine in machines
            if (failure := found[machine.name].failure) is not None and failure.stage is Stage.HOST_KEY]
        keys = self._keys(strange) if strange else {}
        for machine in machines:
            who = found[machine.name]
            if machine.name in keys:
                yield machine.name, keys[machine.name]
            elif who.failure is not None:
                yield machine.name, _unreached(machine, who.failure)
            else:
                yield machine.name, self._met(
                    who, {name: one for name, one in known.items() if name != who.node}, boards)

    def _met(
        self, who: NodeIdentity, others: Mapping[str, NodeIdentity], boards: Mapping[str, Mapping[str, str]],
    ) -> Observation:
        troubles = tuple(mixed(who, others, boards, self._names))
        if troubles:
            return self._doubtful(who, troubles)
        board = boards.get(who.node, {}).get("serial", "")
        if board and not who.serial and "serial" in who.unseen and not who.root:
            advice = "log in as root, or go through sudo (privilege: become in the inventory)"
            what = (f"its controller's serial number is {board}, and it takes root there to compare: "
                    f"{who.unseen['serial']}")
            return self._doubtful(who, (Trouble(clean(what), Owner.OPERATOR, advice),))
        serial = f"serial {who.serial}" if who.serial else who.unseen.get("serial") or "no serial number"
        return Observation(StepState.SO, clean(f"{who.name or 'it'} answers, {serial}"), keep=who.keep)

    def _doubtful(self, who: NodeIdentity, troubles: tuple[Trouble, ...]) -> Observation:
        """No one else is held against a machine that may be another, and be moved before the next look."""
        with self._lock:
            self._known.pop(who.node, None)
        return Observation(
            StepState.TROUBLE, clean(troubles[0].what), troubles=troubles, keep=NodeIdentity(who.node).keep)

    def _keys(self, machines: Sequence[Machine]) -> dict[str, Observation]:
        """How the keys of machines stand that no connection trusts."""
        of = {machine.name: machine for machine in machines}
        try:
            return {each.node.name: self._key(each, of[each.node.name])
                    for each in self._subjects([machine.node for machine in machines])}
        except MusterError as error:
            return {name: _stuck(str(error), f"correct that, then: muster bringup retry {name}")
                    for name in of}

    def _subjects(self, nodes: Sequence[Node]) -> list[NodeEnrolment]:
        """What these machines show, and what is to be done about it; raises ConfigError."""
        config = default_config()
        expected = read_expected(
            self._host_keys, [node.name for node in nodes]) if self._host_keys is not None else None
        subjects = scanned([subject_of(node, config, None) for node in nodes], config, _SCAN_S, self._fanout)
        return decided(subjects, expected, ())

    def _key(self, each: NodeEnrolment, machine: Machine) -> Observation:
        decision, name = each.decision, shlex.quote(each.node.name)
        if decision.outcome in (EnrolmentOutcome.PIN, EnrolmentOutcome.ADD):
            return _pins(each, decision.add, "as the list says") if decision.vouched else self._proven(
                each, machine)
        if decision.outcome is EnrolmentOutcome.KNOWN:       # someone has pinned it meanwhile
            return Observation(StepState.WAIT, "its host key is pinned by now", again_s=1.0)
        if decision.outcome is EnrolmentOutcome.UNREACHED:
            advice = f"{_ADVICE[Stage.CONNECT]}, then: muster bringup retry {name}"
            return replace(_stuck(f"{each.stage}: {decision.reason}", advice), stand=StepState.WAIT)
        if decision.outcome is EnrolmentOutcome.CHANGED:
            command = f"muster inventory enroll {name} --replace {name}; then: muster bringup retry {name}"
            if any(blob in proven_keys(machine.kept) for blob in each.keys):
                return _stuck(
                    f"{decision.reason}; the key that it offers came with the proof of the installed system, "
                    "so the pinned one is an installer's, or of before it was installed",
                    f"if it was installed since that was pinned: {command}")
            return _stuck(decision.reason, f"if it was installed again: {command}")
        return _stuck(
            decision.reason or decision.outcome.value, f"see: muster inventory enroll {name} --dry-run")

    def _proven(self, each: NodeEnrolment, machine: Machine) -> Observation:
        """Of a machine for whose keys nothing vouches but the proof of its installed system."""
        name, new = shlex.quote(machine.name), each.decision.add
        proven, keep = proven_keys(machine.kept), {}
        if not any(blob in proven for blob in new):
            try:
                report = self._proof(machine.node)
            except OsError as error:
                return replace(_stuck(str(error), f"correct that, then: muster bringup retry {name}"),
                               stand=StepState.UNKNOWN)
            if report.state is not OsState.INSTALLED:
                return replace(
                    _stuck(f"no host key is pinned, and what answers is not proven to be the installed "
                           f"system: {report.message}",
                           f"{report.advice or _ADVICE[Stage.CONNECT]}; then: muster bringup retry {name}"),
                    stand=StepState.WAIT)
            keep = kept_of(report)
            proven = proven_keys(keep)
        add = tuple(blob for blob in new if blob in proven)
        if not add:
            what = ("no host key came with the proof of the installed system" if not proven else
                    "it offers other host keys than came with the proof of the installed system: "
                    + ", ".join(f"{key_type(blob)} {fingerprint(blob)}" for blob in new[:4]))
            return replace(
                _stuck(what, f"compare with its console, pin it: muster inventory enroll {name}; then: "
                       f"muster bringup retry {name}"), stand=StepState.WAIT)
        return replace(_pins(each, add, "came with the proof of the installed system: only the network "
                             "vouches for it"), keep=keep)

    def make(self, machine: Machine, operation: Operation) -> OperationResult:
        """Pins the keys that were checked, and no others. See `Executor.make`."""
        wanted = operation.key.removeprefix(_PIN)
        try:
            (subject,) = self._subjects([machine.node])
            decision = subject.decision
            add = tuple(blob for blob in decision.add if fingerprint(blob) in wanted.split(","))
            if decision.outcome not in (
                EnrolmentOutcome.PIN, EnrolmentOutcome.ADD) or _prints(add) != wanted:
                return OperationResult(False, "it shows other host keys than it did")
            (subject,) = written([replace(subject, decision=replace(decision, add=add))])
        except (MusterError, ConfigError) as error:
            return OperationResult(False, clean(str(error)))
        return OperationResult(
            subject.done, clean(f"pinned in {subject.file}" if subject.done else subject.decision.reason))


def _pins(each: NodeEnrolment, add: Sequence[bytes], vouches: str) -> Observation:
    shown = [f"{key_type(blob)} {fingerprint(blob)}" for blob in add]
    change = (f"{each.file}: {each.target.known_hosts_name}", *(f"+ {line}" for line in shown))
    return Observation(
        StepState.NOT_SO, f"no host key is pinned; it shows {shown[0]}",
        Operation(f"pin the host key, {vouches}", f"{_PIN}{_prints(add)}", change, StepEffect.PASSIVE,
                  settle_s=1.0))


def _prints(blobs: Iterable[bytes]) -> str:
    return ",".join(sorted(map(fingerprint, blobs)))


def _unreached(machine: Machine, failure: Failure) -> Observation:
    message = clean(f"{failure.stage.value}: {failure.reason}")
    if failure.stage in (Stage.JUMP, Stage.HEAD):
        return Observation(StepState.UNKNOWN, message)      # nothing is wrong with this machine
    advice = (_SLOW if failure.stuck is not None and failure.stage in HANGS
              else _ADVICE.get(failure.stage, "check its console and its network"))
    stuck = _stuck(message, f"{advice}, then: muster bringup retry {machine.name}")
    # Slow is not missing: a machine that has just booted, or shares its disk, may need a minute.
    if failure.stuck is not None or failure.stage is Stage.CONNECT or (
        failure.stage is Stage.AUTH and machine.now - machine.began < _KEYS_S):
        return replace(stuck, stand=StepState.WAIT)
    return stuck if failure.stage in _ADVICE else replace(stuck, stand=StepState.UNKNOWN)


def _stuck(what: str, advice: str) -> Observation:
    return Observation(
        StepState.TROUBLE, clean(what), troubles=(Trouble(clean(what), Owner.OPERATOR, clean(advice)),))
