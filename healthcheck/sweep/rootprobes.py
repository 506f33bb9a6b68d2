"""The probes that the root-owned helper knows: all that need root."""

from __future__ import annotations

from healthcheck.facts.base import FACTS
from healthcheck.facts.lldp import LLDP
from healthcheck.model.probes import Effect, Probe, ProbeKind, ProbeSet
from healthcheck.ruleset import plugins
from healthcheck.sweep.agents import PROBE


def root_probes() -> tuple[Probe, ...]:
    """Every passive probe that needs root, plug-ins' included, and those that no fact is made of: of the
    agent's recording and of lldpd's neighbours; by id.

    None is disruptive: the helper cannot know whether a node is idle.
    """
    plugins.load()
    known = {PROBE.id: PROBE, LLDP.id: LLDP} | {probe.id: probe for spec in FACTS.values()
                                 for probe in (*spec.probes, *spec.besides)}
    rooted = [probe for probe in known.values() if probe.root and probe.kind is not ProbeKind.NVML
              and probe.effect is Effect.PASSIVE]
    return ProbeSet.of(rooted).probes
