"""Checks of optics: heat of adapters and modules, light below or above the module's own thresholds, its alarms, and bit errors.

Light and bit errors are judged where the link is up; one that is down is named by the port's own rules.
"""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import check
from healthcheck.facts.optics import Optics, Sensor
from healthcheck.model.outcome import Finding


def _hot(sensors: tuple[Sensor, ...], module: bool, at_most_c: float) -> Iterator[Finding]:
    for sensor in sensors:
        if sensor.module == module and sensor.celsius > at_most_c:
            yield Finding(sensor.name, f"{sensor.celsius:g} C", f"at most {at_most_c:g} C")


@check("optics.temperature")
def optics_temperature(sensors: tuple[Sensor, ...], *, at_most_c: float) -> Iterator[Finding]:
    """No module (transceiver) of an RDMA adapter is hotter than this, by the adapter's sensor."""
    yield from _hot(sensors, True, at_most_c)


@check("optics.adapter_temperature")
def optics_adapter_temperature(sensors: tuple[Sensor, ...], *, margin_c: float) -> Iterator[Finding]:
    """No sensor of an RDMA adapter's own is within so many degrees of its critical temperature."""
    for sensor in sensors:
        if not sensor.module and sensor.celsius > sensor.critical_c - margin_c:
            yield Finding(sensor.name, f"{sensor.celsius:g} C", f"at most {sensor.critical_c - margin_c:g} C, {margin_c:g} below critical")


def _light(name: str, lanes: tuple[float, ...], low: float, high: float, way: str) -> Iterator[Finding]:
    for lane, dbm in enumerate(lanes):
        if not low <= dbm <= high:
            yield Finding(f"{name} lane {lane}", f"{way} {dbm:g} dBm", f"{low:g} to {high:g} dBm")


@check("optics.rx_power")
def optics_rx_power(optics: tuple[Optics, ...]) -> Iterator[Finding]:
    """Every lane of a link that is up receives light within the module's own thresholds."""
    for port in optics:
        if port.up:
            yield from _light(port.name, port.rx_dbm, port.rx_low, port.rx_high, "receives")


@check("optics.tx_power")
def optics_tx_power(optics: tuple[Optics, ...]) -> Iterator[Finding]:
    """Every lane of a link that is up sends light within the module's own thresholds."""
    for port in optics:
        if port.up:
            yield from _light(port.name, port.tx_dbm, port.tx_low, port.tx_high, "sends")


@check("optics.alarm")
def optics_alarm(optics: tuple[Optics, ...]) -> Iterator[Finding]:
    """No module of a link that is up flags lost light, a lost lock or a fault, or is hotter than its own threshold."""
    for port in optics:
        if port.up:
            for fault in port.faults:
                yield Finding(port.name, fault, "no such flag")
            if port.celsius > port.celsius_high:
                yield Finding(port.name, f"module at {port.celsius:g} C", f"at most {port.celsius_high:g} C, its own threshold")


@check("port.ber")
def port_ber(optics: tuple[Optics, ...], *, at_most: float) -> Iterator[Finding]:
    """No link that is up has more bit errors than this after error correction (effective BER)."""
    for port in optics:
        if port.up and port.effective_ber > at_most:
            yield Finding(port.name, f"effective BER {port.effective_ber:.0e}", f"at most {at_most:.0e}")
