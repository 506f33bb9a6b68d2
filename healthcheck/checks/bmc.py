"""Checks of the management controller: its event log, how full that is, sensors, power supplies and fans.

Events are recognised by ipmitool's words (lib/ipmi_sel.c after IPMI 2.0, table 42-3): a part of the sensor's
name or type, and a part of the event. The remedy and the owner depend on that, so the finding has them.
"""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import check
from healthcheck.facts.bmc import BmcEvent, BmcLog, BmcLogUse, BmcSensors
from healthcheck.model.outcome import Finding, Owner

_DAY = 86400.0

# Events after which a job fails or should not start.
_CRITICAL = (
    ("uncorrectable ecc", "Drain. The log names the module: reseat it, then replace it.", Owner.VENDOR),
    ("memory device disabled", "Drain. Firmware runs without this module: reseat it, then replace it.",
     Owner.VENDOR),
    ("ierr", "Drain, and give the log to the vendor: the processor stopped on an internal error.",
     Owner.VENDOR),
    ("catastrophic error",
     "Drain, and give the log to the vendor: the processor stopped on an internal error.", Owner.VENDOR),
    ("uncorrectable cpu-complex", "Drain, and give the log to the vendor.", Owner.VENDOR),
    ("uncorrectable machine check", "Drain, and give the log to the vendor.", Owner.VENDOR),
    ("thermal trip", "Drain. A processor was shut off by heat: look at its heat sink, the fans and the "
     "inlet.", Owner.DATACENTRE),
    ("frb", "Drain, and give the log to the vendor: a processor did not start.", Owner.VENDOR),
    ("pci serr", "Drain. Find the device by its bus number in the log; reseat it.", Owner.VENDOR),
    ("pci perr", "Drain. Find the device by its bus number in the log; reseat it.", Owner.VENDOR),
    ("bus fatal error", "Drain. Find the device by its bus number in the log; reseat it.", Owner.VENDOR),
    ("bus uncorrectable error", "Drain. Find the device by its bus number in the log; reseat it.",
     Owner.VENDOR),
    ("fatal nmi", "Drain, and give the log to the vendor.", Owner.VENDOR),
)
_POWER_SENSORS = ("power supply", "psu", "power unit", "redundancy")
_POWER_EVENTS = ("failure detected", "predictive failure", "ac lost", "ac out-of-range", "redundancy lost",
                 "non-redundant")


def _recent(log: BmcLog, days: float) -> Iterator[BmcEvent]:
    """Events of so many days, and those without a date, which may be recent."""
    for event in log.events:
        if event.time is None or event.time >= log.now - days * _DAY:
            yield event


@check("bmc.sel_critical")
def bmc_sel_critical(bmc_log: BmcLog, *, days: float) -> Iterator[Finding]:
    """Within so many days the controller logged no uncorrectable memory error, no processor error and no
    fatal error of a bus."""
    for event in _recent(bmc_log, days):
        text = event.text.casefold()
        known = next(((remedy, owner) for word, remedy, owner in _CRITICAL if word in text), None)
        if known is not None:
            yield Finding(event.description, f"none in {days:g} days", event.sensor, *known)


@check("bmc.power_supply")
def bmc_power_supply(bmc_log: BmcLog) -> Iterator[Finding]:
    """No power supply has failed or lost its input, and redundancy holds: what the log asserts and does not
    deassert still holds."""
    for event in bmc_log.events:
        sensor, text = event.sensor.casefold(), event.text.casefold()
        if any(word in sensor for word in _POWER_SENSORS) and any(word in text for word in _POWER_EVENTS):
            yield Finding(event.description, "supplied, and redundant", event.sensor)


@check("bmc.sel_full")
def bmc_sel_full(bmc_log_use: BmcLogUse, *, most_percent: int) -> Iterator[Finding]:
    """The event log has room: a full one takes no new event, and then its silence means nothing."""
    if bmc_log_use.used_percent >= most_percent:
        yield Finding(f"{bmc_log_use.used_percent} % full", f"below {most_percent} %", "event log")


@check("bmc.sensors")
def bmc_sensors(bmc_sensors: BmcSensors) -> Iterator[Finding]:
    """No temperature, voltage or power is beyond its critical threshold; fans have a rule of their own."""
    yield from _critical(bmc_sensors, fans=False)


@check("bmc.fan")
def bmc_fan(bmc_sensors: BmcSensors) -> Iterator[Finding]:
    """No fan turns slower, or faster, than its critical threshold."""
    yield from _critical(bmc_sensors, fans=True)


def _critical(bmc_sensors: BmcSensors, *, fans: bool) -> Iterator[Finding]:
    for sensor in bmc_sensors.sensors:
        if sensor.critical and fans == (sensor.reading.endswith("RPM") or "fan" in sensor.name.casefold()):
            yield Finding(f"{sensor.reading} ({sensor.state})", "within its critical thresholds", sensor.name)
