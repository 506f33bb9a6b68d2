"""Error counters, as what was added between two samples.

Thresholds and their sources:
- Bit errors. Symbol errors of a link divided by the bits that it carries in the time, at its lanes'
  signalling rate. Beyond 1e-14 for FDR and faster, whose symbol errors are those that error correction left;
  1e-12 for QDR and slower. Sources: NVIDIA, InfiniBand Cluster Bring-up Procedure, UFM Telemetry (symbol BER
  of NDR: normal 1e-15, error 1e-14); InfiniBand Architecture Specification (1e-12), which is ibdiagnet's
  --ber_thresh. A few errors in a short time prove no rate: one is reported where chance gives so many at the
  threshold less often than once in a million.
- Flapping. A link that went down once since the earlier sample is reported, and twice or more within a day is
  critical (the same page: at least 2 link-down occurrences within 24 hours need investigation).
- Errors that a sound link never has: LinkErrorRecoveryCounter, LocalLinkIntegrityErrors,
  ExcessiveBufferOverrunErrors (InfiniBand Architecture Specification, volume 1, 7.12 and PortCounters).
- PortRcvErrors: more than 10 an hour; packets with an error that this link's receiver met.
- PortXmitDiscards: more than 100 a second is a warning (congestion, or a receiver that stands still).
PortRcvRemotePhysicalErrors, PortRcvSwitchRelayErrors and VL15Dropped are side effects of other faults or of
normal work (ibqueryerrors --suppress-common) and are not judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from healthcheck.model.outcome import Owner, Severity
from healthcheck.subnet.check.findings import FabricFinding, FabricRule
from healthcheck.subnet.check.seen import SeenSubnet
from healthcheck.subnet.model import FabricEnd, FabricPort, LinkState
from healthcheck.subnet.readers.toolwords import LANE_SPEEDS
from inventory.text import many

_LANE: Mapping[str, float] = {**{name: float(rate) * 1e9 for rate, name in LANE_SPEEDS.items()},
                              "FDR10": 10.3125e9}
_SLOW = frozenset({"SDR", "DDR", "QDR", "FDR10"})
_CHANCE = 1e-6
_DAY, _HOUR = 86400.0, 3600.0
_NEVER = ("LinkErrorRecoveryCounter", "LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors")
JUDGED = ("SymbolErrorCounter", "LinkDownedCounter", "PortRcvErrors", "PortXmitDiscards", *_NEVER)


def threshold(speed: str) -> float:
    """The bit-error rate beyond which a link of this rate is reported."""
    return 1e-12 if speed in _SLOW else 1e-14


def beyond_chance(count: int, usual: float) -> bool:
    """Whether chance gives so many less often than once in a million where `usual` are expected (Poisson)."""
    if count <= usual:
        return False
    # The tail is at most its first term times a geometric series, as the ratio of terms is usual/(count+1).
    first = math.exp(-usual + count * math.log(usual) - math.lgamma(count + 1)) if usual > 0 else 0.0
    return first / (1.0 - usual / (count + 1)) < _CHANCE


def counted(seen: SeenSubnet) -> Iterator[FabricFinding]:
    """Ports whose counters grew beyond what is allowed; and what could not be compared."""
    now, before = seen.subnet.counters, seen.before
    if seen.subnet.ethernet:
        yield seen.unknown(FabricRule.ERRORS, seen.whole(),
                           "LLDP shows no counters: muster check reads those of nodes", Severity.INFO)
        return
    reason = ("no source shows counters (ibqueryerrors)" if now is None else
              "there is no earlier sample of counters; check again later" if before is None else
              "the time of a sample is not known" if seen.at is None else
              "the earlier sample is not earlier" if seen.at <= before.time else
              "the samples are less than a second apart" if seen.at < before.time + 1 else "")
    if reason or now is None or before is None or seen.at is None:
        yield seen.unknown(FabricRule.ERRORS, seen.whole(), reason)
        return
    seconds = seen.at - before.time
    unknown: dict[str, list[FabricEnd]] = {}
    for port in seen.subnet.ports():
        if (port.peer is None and port.state is not LinkState.ACTIVE
                and not now.values.get(port.end, {}).keys() & set(JUDGED)):
            continue        # nothing is joined to it
        added: dict[str, int] = {}
        for name in JUDGED:
            first, second = before.count(port.end, name), now.count(port.end, name)
            if first is not None and second is not None:
                added[name] = second - first
        if len(added) < len(JUDGED):
            names = f" ({', '.join(name for name in JUDGED if name not in added)})" if added else ""
            unknown.setdefault(f"counters were not read at both samples{names}", []).append(port.end)
        if now.full.get(port.end, frozenset()) & set(JUDGED):
            unknown.setdefault("a counter stands at its highest value", []).append(port.end)
        if any(value < 0 for value in added.values()):
            unknown.setdefault("counters were reset between the samples", []).append(port.end)
            continue
        yield from _port(seen, port, added, seconds)
    for words, ends in unknown.items():
        shown = ", ".join(seen.port_name(end) for end in ends[:3]) + (" ..." if len(ends) > 3 else "")
        yield seen.unknown(FabricRule.ERRORS, seen.whole(ends),
                           f"{words}: {many(len(ends), 'port')} ({shown})")


def _port(seen: SeenSubnet, port: FabricPort, added: Mapping[str, int],
          seconds: float) -> Iterator[FabricFinding]:
    """By how much counters grew; one that is not in `added` was reported as not read."""
    place = seen.at_link(port.end, port.peer) if port.peer is not None else seen.at_port(port.end)
    at = f"at {seen.port_name(port.end)}"
    if symbols := added.get("SymbolErrorCounter"):
        peer = seen.subnet.port(port.peer) if port.peer is not None else None
        width = port.width or (peer.width if peer is not None else None)
        speed = port.speed or (peer.speed if peer is not None else None)
        if width is not None and speed is not None and speed in _LANE:
            bits = seconds * width * _LANE[speed]
            if beyond_chance(symbols, threshold(speed) * bits):
                yield seen.finding(
                    FabricRule.ERRORS, place,
                    f"{symbols} symbol errors in {_span(seconds)} {at}: bit-error rate {symbols / bits:.1e}",
                    f"at most {threshold(speed):.0e} for {speed}", owner=Owner.DATACENTRE)
        else:
            yield seen.unknown(FabricRule.ERRORS, place,
                               f"{symbols} symbol errors {at}, and its width and rate are not known")
    if downs := added.get("LinkDownedCounter"):
        often = downs > 1 and seconds <= _DAY * max(1.0, downs / 2)
        yield seen.finding(
            FabricRule.FLAPPING, place, f"went down {many(downs, 'time')} in {_span(seconds)} ({at[3:]})",
            "not", Severity.CRITICAL if often else Severity.WARNING, Owner.DATACENTRE)
    found = {name: added[name] for name in _NEVER if added.get(name)}
    if (received := added.get("PortRcvErrors", 0)) > max(1.0, 10 * seconds / _HOUR):
        found["PortRcvErrors"] = received
    if found:
        words = ", ".join(f"{name} +{value}" for name, value in found.items())
        yield seen.finding(FabricRule.ERRORS, place, f"{words} in {_span(seconds)} {at}", "none",
                           Severity.WARNING, Owner.DATACENTRE)
    if (discards := added.get("PortXmitDiscards", 0)) > 100 * seconds:
        yield seen.finding(FabricRule.DISCARDS, place, f"{discards} packets discarded in {_span(seconds)} "
                           f"{at}", "at most 100 a second", Severity.WARNING)


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7200 else \
        f"{seconds / 3600:.0f} h"
