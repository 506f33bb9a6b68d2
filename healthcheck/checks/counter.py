"""Checks of the error counters of RDMA ports, always as growth between two snapshots of one boot, never as
absolute values.

`healthcheck.facts.counter.TABLE` has each counter's kind; the rules have the limits, by counter and in the
table's unit. A counter that fell was reset, which is no pass. One that stands at its highest value counts no
more: port.counter_full says so, and no other check judges it.

`symbol_error` counts what a link's error correction could not repair where it has one (200 Gb/s and faster,
PAM4), by NVIDIA's manual of ibdiagnet: "the actual errors seen by the application level after error
correction". So its limit on such links is a bit error ratio, and grows with the speed. What is repaired is in
no counter of sysfs (mlxlink has both).
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
    symbol_ber: float, symbol_ber_from_gbps: float, symbol_at_least: int, link_error_recovery: float,
    port_rcv_errors: float, port_xmit_discards: float, local_ack_timeout_err: float, roce_slow_restart: float,
    sequence_errors: float,
) -> Iterator[Finding]:
    """No error counter of a compute port grows faster than its limit: symbols an hour, recoveries a minute,
    all others a second.

    Symbol errors are judged on active links. From `symbol_ber_from_gbps` on they are compared with a bit
    error ratio, once there are `symbol_at_least` of them: fewer may be chance. Counters of other drivers
    share the limit of the mlx5 counter that counts the same.
    """
    limits = {
        "symbol_error": symbol_error, "link_error_recovery": link_error_recovery,
        "port_rcv_errors": port_rcv_errors, "port_xmit_discards": port_xmit_discards,
        "local_ack_timeout_err": local_ack_timeout_err, "roce_slow_restart": roce_slow_restart,
        "sequence_errors": sequence_errors,
    }
    counter, changed = port_rate_counter.counter, port_rate_counter.value != growth.before.value
    spec = BY_NAME[counter]
    if changed and counter == "symbol_error":
        if port.state != "ACTIVE":
            return
        if (gbps := port.rate_gbps) >= symbol_ber_from_gbps:
            yield from _ratio(growth, gbps, symbol_ber, symbol_at_least)
            return
    limit = limits[spec.like or counter]
    if (events := growth.rate("value", per=spec.per)) > limit:
        expected = f"at most {limit:g} {_UNITS[spec.per]}"
        yield Finding(f"{counter}: {events:.1f} {_UNITS[spec.per]}", expected, port.name)


def _ratio(growth: Growth[PortCounter], gbps: float, most: float, at_least: int) -> Iterator[Finding]:
    """A finding where the symbol errors of a link are more than this ratio of its bits."""
    ratio = growth.rate("value", per=SECOND) / (gbps * 1e9)
    if growth.of("value") >= at_least and ratio > most:
        yield Finding(f"symbol_error grew by {growth.of('value')}, {ratio:.0e} of its bits at {gbps:g} Gb/s",
                      f"at most {most:.0e}")


@check("port.counter_full", over="compute_ports")
def port_counter_full(narrow_counter: PortCounter) -> Iterator[Finding]:
    """No error counter of a compute port stands at its highest value, where it counts no more.

    Until it is reset no one sees whether that error goes on: link_downed stays at 255, symbol_error at 65535.
    On ports whose counters are wider no value is the highest.
    """
    if narrow_counter.value == narrow_counter.most:
        yield Finding(f"stands at {narrow_counter.value}, its highest value, and counts no more",
                      "a counter that still counts")


@check("port.retries", over="compute_ports")
def port_retries(port_job_counter: PortCounter, port: Port, growth: Growth[PortCounter]) -> Iterator[Finding]:
    """No compute port was asked to wait by a receiver that was not ready, or gave a connection up, since the
    earlier snapshot.

    It shows that a job had trouble, not at which end: all peers of a node that dies see it.
    """
    yield from _grew(port_job_counter, port, growth)
