"""Checks of the error counters of RDMA ports, always as growth between two snapshots of one boot, never as
absolute values.

`healthcheck.facts.counter.TABLE` has each counter's kind; the rules have the limits, by counter and in the
table's unit. A counter that fell was reset, and one at its highest value counts no more: neither is a pass.
Links of 400 Gb/s and faster (PAM4) always have raw bit errors, which their error correction repairs; the rest
shows as recoveries, receive errors and integrity errors. sysfs does not separate errors before correction
from those after it, and sources disagree on which of them `symbol_error` counts, so it is judged on slower
links only. (mlxlink has both.)
"""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import check
from healthcheck.checks.growth import Growth
from healthcheck.facts.counter import BY_NAME, HOUR, MINUTE, SECOND, PortCounter
from healthcheck.facts.port import Port
from healthcheck.model.outcome import Finding

_UNITS = {SECOND: "a second", MINUTE: "a minute", HOUR: "an hour"}


def _grew(counter: PortCounter, port: Port, growth: Growth[PortCounter]) -> Iterator[Finding]:
    if grown := growth.of("value"):
        yield Finding(f"{counter.counter} grew by {grown} since the earlier snapshot", "no growth", port.name)


@check("port.errors_fatal", over="compute_ports")
def port_errors_fatal(
    port_fatal_counter: PortCounter, port: Port, growth: Growth[PortCounter],
) -> Iterator[Finding]:
    """No compute port has more buffer overruns or integrity errors than in the earlier snapshot.

    Each is data lost on the link.
    """
    yield from _grew(port_fatal_counter, port, growth)


@check("port.errors_rate", over="compute_ports")
def port_errors_rate(
    port_rate_counter: PortCounter, port: Port, growth: Growth[PortCounter], *, symbol_error: float,
    symbol_error_below_gbps: float, link_error_recovery: float, port_rcv_errors: float,
    port_xmit_discards: float, local_ack_timeout_err: float, roce_slow_restart: float,
) -> Iterator[Finding]:
    """No error counter of a compute port grows faster than its limit: symbols an hour, recoveries a minute,
    all others a second.

    Symbol errors are judged on active links slower than `symbol_error_below_gbps`.
    """
    limits = {
        "symbol_error": symbol_error, "link_error_recovery": link_error_recovery,
        "port_rcv_errors": port_rcv_errors, "port_xmit_discards": port_xmit_discards,
        "local_ack_timeout_err": local_ack_timeout_err, "roce_slow_restart": roce_slow_restart,
    }
    counter, changed = port_rate_counter.counter, port_rate_counter.value != growth.before.value
    of_symbols = changed and counter == "symbol_error"
    if of_symbols and (port.state != "ACTIVE" or port.rate_gbps >= symbol_error_below_gbps):
        return
    per = BY_NAME[counter].per
    if (events := growth.rate("value", per=per)) > limits[counter]:
        expected = f"at most {limits[counter]:g} {_UNITS[per]}"
        yield Finding(f"{counter}: {events:.1f} {_UNITS[per]}", expected, port.name)


@check("port.retries", over="compute_ports")
def port_retries(port_job_counter: PortCounter, port: Port, growth: Growth[PortCounter]) -> Iterator[Finding]:
    """No compute port was asked to wait by a receiver that was not ready, or gave a connection up, since the
    earlier snapshot.

    It shows that a job had trouble, not at which end: all peers of a node that dies see it.
    """
    yield from _grew(port_job_counter, port, growth)
