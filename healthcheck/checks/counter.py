"""Checks of the error counters of RDMA ports, always as growth between two looks of one boot, never as absolute values.

Which counter is of which kind stands in `healthcheck.facts.counter.TABLE`; limits stand in the rules, under the counters' names and per the
table's unit. A counter that fell was reset, one that stays at its highest value counts no more: neither is health. Links of 400 Gb/s
and faster (PAM4) never run without raw bit errors, which their error correction mends; what got past it shows as recoveries, receive
errors and integrity errors. sysfs does not tell errors before correction from those after it, and its authors' readers disagree on which
of them `symbol_error` counts: it is judged on slower links only. (mlxlink tells both.)
"""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import NotMeasured, check, increase
from healthcheck.checks.port import judged
from healthcheck.checks.trend import rate
from healthcheck.facts.counter import BY_NAME, HOUR, MINUTE, SECOND, PortCounter
from healthcheck.facts.look import Look
from healthcheck.facts.port import Port
from healthcheck.facts.site import PortPlans
from healthcheck.model.outcome import Finding

_UNITS = {SECOND: "a second", MINUTE: "a minute", HOUR: "an hour"}


def _grown(
    ports: tuple[Port, ...], counters: tuple[PortCounter, ...], previous: tuple[PortCounter, ...], port_plans: PortPlans,
) -> Iterator[tuple[Port, PortCounter, PortCounter]]:
    """The counters of the compute ports that differ from the earlier look, each with its port and its earlier self."""
    ours = {(port.pci, port.number): port for port in judged(ports, port_plans)}
    before = {(counter.pci, counter.number, counter.counter): counter for counter in previous}
    for now in counters:
        port = ours.get((now.pci, now.number))
        if port is None:
            continue
        value = now.value
        earlier = before.get((now.pci, now.number, now.counter))
        if earlier is None:
            raise NotMeasured(now, "the earlier look has no such counter")
        if value == BY_NAME[now.counter].full == earlier.value:
            raise NotMeasured(now, f"it is full at {value}, so it counts no more: reset it (perfquery -R)")
        if value != earlier.value:
            yield port, now, earlier


@check("port.errors_fatal")
def port_errors_fatal(
    ports: tuple[Port, ...], port_fatal_counters: tuple[PortCounter, ...], previous_port_fatal_counters: tuple[PortCounter, ...],
    port_plans: PortPlans,
) -> Iterator[Finding]:
    """No compute port has more buffer overruns or integrity errors than at the earlier look: each is data lost on the link."""
    for port, now, earlier in _grown(ports, port_fatal_counters, previous_port_fatal_counters, port_plans):
        yield Finding(port.name, f"{now.counter} grew by {increase(now, earlier, 'value')} since the earlier look", "no growth")


@check("port.errors_rate")
def port_errors_rate(
    ports: tuple[Port, ...], port_rate_counters: tuple[PortCounter, ...], previous_port_rate_counters: tuple[PortCounter, ...],
    port_plans: PortPlans, look: Look, previous_look: Look, *, symbol_error: float, symbol_error_below_gbps: float,
    link_error_recovery: float, port_rcv_errors: float, port_xmit_discards: float, local_ack_timeout_err: float, roce_slow_restart: float,
) -> Iterator[Finding]:
    """No error counter of a compute port grows faster than its limit: symbols an hour, recoveries a minute, all others a second.

    Symbol errors are judged on active links slower than `symbol_error_below_gbps`.
    """
    limits = {
        "symbol_error": symbol_error, "link_error_recovery": link_error_recovery, "port_rcv_errors": port_rcv_errors,
        "port_xmit_discards": port_xmit_discards, "local_ack_timeout_err": local_ack_timeout_err, "roce_slow_restart": roce_slow_restart,
    }
    for port, now, earlier in _grown(ports, port_rate_counters, previous_port_rate_counters, port_plans):
        if now.counter == "symbol_error" and (port.state != "ACTIVE" or port.rate_gbps >= symbol_error_below_gbps):
            continue
        per = BY_NAME[now.counter].per
        if (events := rate(now, earlier, "value", (look, previous_look), per=per)) > limits[now.counter]:
            unit = _UNITS[per]
            yield Finding(port.name, f"{now.counter}: {events:.1f} {unit}", f"at most {limits[now.counter]:g} {unit}")


@check("port.retries")
def port_retries(
    ports: tuple[Port, ...], port_job_counters: tuple[PortCounter, ...], previous_port_job_counters: tuple[PortCounter, ...],
    port_plans: PortPlans,
) -> Iterator[Finding]:
    """No compute port was asked to wait by a receiver that was not ready, or gave a connection up, since the earlier look.

    It says that a job met trouble, and not at which end: a peer that dies is seen so by all others.
    """
    for port, now, earlier in _grown(ports, port_job_counters, previous_port_job_counters, port_plans):
        yield Finding(port.name, f"{now.counter} grew by {increase(now, earlier, 'value')} since the earlier look", "no growth")
