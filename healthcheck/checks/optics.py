"""Checks of optics: heat of adapters and modules, light below or above the module's own thresholds, its
alarms, and bit errors.

Light and bit errors are judged where the link is up; the port's own rules report one that is down.
"""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import check
from healthcheck.facts.optics import AdapterTemperature, Optics
from healthcheck.model.outcome import Finding


@check("optics.temperature")
def optics_temperature(sensor: AdapterTemperature, *, at_most_c: float) -> Iterator[Finding]:
    """No module (transceiver) of an RDMA adapter is hotter than this, by the adapter's sensor."""
    if sensor.module and sensor.celsius > at_most_c:
        yield Finding(f"{sensor.celsius:g} C", f"at most {at_most_c:g} C")


@check("optics.adapter_temperature")
def optics_adapter_temperature(sensor: AdapterTemperature, *, margin_c: float) -> Iterator[Finding]:
    """No sensor of an RDMA adapter itself is within so many degrees of its critical temperature."""
    if not sensor.module and sensor.celsius > (most := sensor.critical_c - margin_c):
        yield Finding(f"{sensor.celsius:g} C", f"at most {most:g} C, {margin_c:g} below critical")


def _light(name: str, way: str, lanes: tuple[float, ...], low: float, high: float) -> Iterator[Finding]:
    for lane, dbm in enumerate(lanes):
        if not low <= dbm <= high:
            yield Finding(f"{way} {dbm:g} dBm", f"{low:g} to {high:g} dBm", f"{name} lane {lane}")


@check("optics.rx_power")
def optics_rx_power(module_optics: Optics) -> Iterator[Finding]:
    """Every lane of a link that is up receives light within the module's own thresholds."""
    if module_optics.up:
        lanes, low, high = module_optics.rx_dbm, module_optics.rx_low, module_optics.rx_high
        yield from _light(module_optics.name, "receives", lanes, low, high)


@check("optics.tx_power")
def optics_tx_power(module_optics: Optics) -> Iterator[Finding]:
    """Every lane of a link that is up sends light within the module's own thresholds."""
    if module_optics.up:
        lanes, low, high = module_optics.tx_dbm, module_optics.tx_low, module_optics.tx_high
        yield from _light(module_optics.name, "sends", lanes, low, high)


@check("optics.alarm")
def optics_alarm(module_optics: Optics) -> Iterator[Finding]:
    """No module of a link that is up flags lost light, a lost lock or a fault, or is hotter than its own
    threshold."""
    if not module_optics.up:
        return
    for fault in module_optics.faults:
        yield Finding(fault, "no such flag")
    if module_optics.celsius > module_optics.celsius_high:
        expected = f"at most {module_optics.celsius_high:g} C, its own threshold"
        yield Finding(f"module at {module_optics.celsius:g} C", expected)


@check("port.ber")
def port_ber(module_optics: Optics, *, at_most: float) -> Iterator[Finding]:
    """No link that is up has more bit errors than this after error correction (effective BER)."""
    if module_optics.up and module_optics.effective_ber > at_most:
        yield Finding(f"effective BER {module_optics.effective_ber:.0e}", f"at most {at_most:.0e}")
