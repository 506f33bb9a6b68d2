"""Step certificate: one stands, of a burn-in that the machine passed in this bring-up."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from healthcheck.burnin.document import FOLDER, SUFFIX
from healthcheck.certify.certificate import Certificate, Passed
from healthcheck.certify.manifest import issue, load_manifest
from healthcheck.certify.policyload import load_certificate_policy
from healthcheck.certify.requalify import CertificateState
from healthcheck.certify.requalify import CertificateStatus as Stands
from healthcheck.certify.results import load_passed, seen_of
from healthcheck.gate.entries import stands
from healthcheck.model.hardware import Hardware
from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from healthcheck.store.file import opened
from inventory.errors import CertificateError, MusterError
from inventory.text import clean
from provisioning.bringup.engine.model import (
    BringupStep,
    Machine,
    Observation,
    Operation,
    OperationResult,
    StepEffect,
    StepState,
)
from provisioning.bringup.steps.bmcstep import skip
from provisioning.bringup.steps.context import StepContext

RUN, ENDED = "burnin.run", "burnin.ended"      # kept by the step before


class Certify:
    """Looks at the signed manifest; makes a certificate of the burn-in that the machine passed."""

    def __init__(self, step: BringupStep, context: StepContext) -> None:
        self.step = step
        self._context = context

    def observe(self, machines: Sequence[Machine]) -> Iterator[tuple[str, Observation]]:
        """See `Executor.observe`."""
        context = self._context
        try:
            manifest = load_manifest(context.folder)
            with opened(context.folder, make=True) as store:
                found = stands(store, manifest, load_certificate_policy(context.rules), time.time())
        except MusterError as error:
            for machine in machines:
                yield machine.name, _trouble(
                    str(error),
                    "mend that, or make a key: muster certificate key new; then: muster bringup retry "
                    f"{machine.name}")
            return
        for machine in machines:
            yield machine.name, self._of(machine, manifest.nodes.get(machine.name), found.get(machine.name))

    def _of(self, machine: Machine, held: Certificate | None, stand: Stands | None) -> Observation:
        run, ended = machine.kept.get(RUN), machine.kept.get(ENDED)
        if run is None or ended is None:
            return _trouble("it passed no burn-in in this bring-up",
                            f"if it is to have none: {skip(machine.name, 'certificate')}")
        if (held is not None and stand is not None and stand.kind is CertificateState.OK
                and held.confirmed >= int(ended)):
            return Observation(StepState.SO, f"certified: {held.stage}, {held.id}")
        past = machine.did(_key(run))
        if past is not None and past.done is not None:
            why = (past.message if not past.done else stand.why if stand is not None
                   else "the manifest has none of it")
            return _trouble(
                why, f"muster certificate show {machine.name}; then: muster bringup retry {machine.name}")
        return Observation(
            StepState.NOT_SO, "not certified",
            operation=Operation("certify", _key(run), (f"certificate by burn-in {clean(run, 80)}",),
                                StepEffect.PASSIVE, settle_s=0.0))

    def make(self, machine: Machine, operation: Operation) -> OperationResult:
        """One machine alone."""
        return self.make_together([machine])[machine.name]

    def make_together(self, machines: Sequence[Machine]) -> Mapping[str, OperationResult]:
        """Certifies them, by the burn-in that each passed."""
        made: dict[str, OperationResult] = {}
        runs: dict[str, list[str]] = {}
        for machine in machines:
            runs.setdefault(machine.kept.get(RUN, ""), []).append(machine.name)
        for run, names in runs.items():
            made |= self._certified(run, names)
        return made

    def _certified(self, run: str, names: Sequence[str]) -> dict[str, OperationResult]:
        context = self._context
        try:
            passed, others = load_passed(context.folder / FOLDER / f"{run}{SUFFIX}", frozenset(names))
            with opened(context.folder) as store:
                ready, hardware, missing = seen_of(store, passed)
            done, refused = self._issued(ready, hardware) if ready else ({}, {})
        except MusterError as error:
            return {name: OperationResult(False, clean(str(error), 300)) for name in names}
        why = {**dict.fromkeys(names, "it took no part in that burn-in"), **others, **missing, **refused}
        return {
            name: OperationResult(True, f"certified, {done[name].id}") if name in done
                else OperationResult(False, clean(why[name], 300)) for name in names}

    def _issued(
        self, ready: Sequence[Passed], hardware: Mapping[str, Hardware],
    ) -> tuple[Mapping[str, Certificate], Mapping[str, str]]:
        """The certificates, and why others may have none: a revoked one is no one else's trouble."""
        try:
            return issue(self._context.folder, ready, hardware, time.time()), {}
        except CertificateError as error:
            if len(ready) == 1:
                return {}, {ready[0].node: str(error)}
        done: dict[str, Certificate] = {}
        refused: dict[str, str] = {}
        for one in ready:
            made, why = self._issued([one], hardware)
            done.update(made)
            refused.update(why)
        return done, refused


def _key(run: str) -> str:
    return f"certify:{clean(run, 80)}"


def _trouble(why: str, advice: str) -> Observation:
    why = clean(why, 300)
    return Observation(
        StepState.TROUBLE, why, troubles=(Trouble(f"no certificate: {why}", Owner.OPERATOR, advice, "node"),))
