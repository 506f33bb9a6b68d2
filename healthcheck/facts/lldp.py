"""The probe of a node's neighbours by lldpd. No rule needs it: `muster inventory labels` sends it."""

from __future__ import annotations

from healthcheck.model.probes import MIB, Probe, ProbeKind

# lldpd's socket is for root and the group _lldpd. The form json0 always has the same shape.
LLDP = Probe("lldp.neighbours", ProbeKind.COMMAND, argv=("lldpctl", "-f", "json0"), limit=1 * MIB, root=True,
             seconds=10.0)
