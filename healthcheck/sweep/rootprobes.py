"""The probes that the root-owned helper knows: all that need root."""

from __future__ import annotations

from healthcheck.facts.base import FACTS
from healthcheck.facts.lldp import LLDP
from healthcheck.model.probes import Effect, Probe, ProbeKind, ProbeSet
from healthcheck.ruleset import plugins
from healthcheck.sweep import fabricoutput
from healthcheck.sweep.agents import PROBE


def root_probes() -> tuple[Probe, ...]:
    """Every passive probe that needs root, plug-ins' included, and those that no fact is made of: of the
    agent's recording, of lldpd's neighbours and of the fabric; by id.

    None is disruptive: the helper cannot know whether a node is idle.
    """
    plugins.load()
    of_facts = (probe for spec in FACTS.values() for probe in (*spec.probes, *spec.besides))
    of_fabrics = [*fabricoutput.probes().values(), *fabricoutput.probes(tools=fabricoutput.TABLES).values()]
    known = {probe.id: probe for probe in (PROBE, LLDP, *of_fabrics, *of_facts)}
    rooted = [probe for probe in known.values() if probe.root and probe.kind is not ProbeKind.NVML
              and probe.effect is Effect.PASSIVE]
    return ProbeSet.of(rooted).probes
