"""Temperatures of adapters and their modules, and mlxlink's readings of a port's optics and bit errors.

Temperatures are files: mlx5 registers the sensors "asic" and "Module0" with hwmon (Linux 6.6,
mellanox/mlx5/core/hwmon.c; millidegrees, Documentation/hwmon/sysfs-interface.rst), bnxt_en and ice one sensor
without a label (broadcom/bnxt/bnxt_hwmon.c, intel/ice/ice_hwmon.c). All else needs root and
one command for each port: `mlxlink -d DEV -m -c --json`, with the keys and formats of Mellanox/mstflint,
mlxlink/modules/mlxlink_commander.cpp: "1.9,2.0,2.3,2.0 [-10.4..6]" for lanes and their thresholds, "54
[-5..75]" for a temperature, {"values": ["0", ...]} for flags, "15E-255" for an error ratio of zero. Copper
cables show "N/A", or 0 with the thresholds [0..0]. A node without mlxlink is read by `ethtool -m`
(`healthcheck.facts.transceiver`), which has no bit errors; whether the link is up then comes from the port.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from itertools import chain
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.files import CapturedFiles, DeviceOutput
from healthcheck.facts.parsing import member, milli, natural
from healthcheck.facts.port import BASE, SYSFS, numbered, pci_of, phys_state, shares_port
from healthcheck.facts.transceiver import read_module
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, first_unread, partial_if
from healthcheck.model.probes import MIB, Probe, ProbeKind
from healthcheck.model.recording import Outcome
from inventory.text import clean

_SENSORS = 2
HWMON = Probe(
    "optics.hwmon", ProbeKind.FILES,
    paths=(
        f"{BASE}/*/device/uevent", f"{BASE}/*/device/physfn/uevent",
        *(f"{BASE}/*/device/hwmon/*/temp{sensor}_{what}" for sensor in range(1, _SENSORS + 1)
          for what in ("label", "input", "crit")),
    ),
)
MLXLINK = Probe(
    "optics.mlxlink", ProbeKind.COMMAND, argv=("mlxlink", "-d", "{name}", "-m", "-c", "--json"),
    each=(f"{BASE}/mlx5_*",), most=32,
    each_s=10.0, seconds=60.0, limit=2 * MIB, root=True,
)
# A module answers slowly: some tenths of a second for each of its pages.
MODULES = Probe(
    "optics.ethtool", ProbeKind.COMMAND, argv=("ethtool", "-m", "{name}"), each=(f"{BASE}/*/device/net/*",),
    most=32, each_s=5.0,
    seconds=40.0,
    limit=1 * MIB, root=True,
)


class AdapterTemperature(Fact):
    """One temperature of an RDMA device in degrees Celsius: "mlx5_0 (0000:18:00.0) Module0". `critical_c` is
    the device's own threshold.

    `module`: it is the plugged-in module's. A node without any has one entry, all UNSUPPORTED.
    """

    name: str
    module: bool
    celsius: float
    critical_c: float


class Optics(Fact):
    """mlxlink's readings of one port, "mlx5_0", or ethtool's of its interface, "mlx5_0 eth2".

    Lanes are in dBm, `_low` and `_high` are the module's own alarm thresholds. `faults` are the module's
    words for its faults ("Rx LOS lane 2"). `effective_ber` is the bit error ratio after error correction,
    which ethtool does not have. A copper cable's powers are UNSUPPORTED, and on a node without either tool
    everything is.
    """

    name: str
    up: bool
    celsius: float
    celsius_high: float
    rx_dbm: tuple[float, ...]
    rx_low: float
    rx_high: float
    tx_dbm: tuple[float, ...]
    tx_low: float
    tx_high: float
    faults: tuple[str, ...]
    effective_ber: float
    raw_ber: float


_INPUT = re.compile(re.escape(BASE) + r"/([^/]+)/device/hwmon/[^/]+/temp[0-9]+_input")


@fact("sensors", HWMON, each="sensor")
def sensors(captures: Captures) -> Any:
    """Every temperature of every RDMA device that is no virtual function, in natural order."""
    files = captures.files(HWMON)
    if files.has(BASE):
        files.text(BASE)
    found = tuple(chain.from_iterable([_of_device(files, device, paths) for device, paths in _found(files)]))
    return partial_if(found or (AdapterTemperature.absent("sensors of adapters"),), files.unreadable())


def _found(files: CapturedFiles) -> list[tuple[str, list[str]]]:
    """Each device with the files of its temperatures, without virtual functions, in natural order."""
    found: dict[str, list[str]] = {}
    for path in files:
        if path.endswith("_input") and (match := _INPUT.fullmatch(path)):
            found.setdefault(match[1], []).append(path)
    return sorted([at for at in found.items() if not files.has(f"{BASE}/{at[0]}/device/physfn/uevent")],
                  key=lambda at: (natural(at[0]), at[0]))


def _of_device(files: CapturedFiles, device: str, paths: list[str]) -> list[AdapterTemperature]:
    pci = pci_of(files, device)
    return [_sensor(files, device, pci, path.removesuffix("input")) for path in sorted(paths)]


def _sensor(files: CapturedFiles, device: str, pci: Any, stem: str) -> AdapterTemperature:
    # mlx5 names its sensors; those of bnxt_en and ice have no label, and are the adapter's own.
    label: Any = files.read(stem + "label", str) if files.has(stem + "label") else ""
    words = clean(label, 40) if isinstance(label, str) and label else stem.rpartition("/")[2].rstrip("_")
    return AdapterTemperature(
        name=f"{device} ({pci}) {words}" if isinstance(pci, str) else f"{device} {words}",
        module=label.lower().startswith("module") if isinstance(label, str) else label,
        critical_c=files.optional(stem + "crit", milli),
        celsius=files.read(stem + "input", milli),
    )


@fact("optics", MLXLINK, besides=(MODULES, SYSFS), each="module_optics")
def optics(captures: Captures) -> tuple[Optics, ...]:
    """mlxlink's readings of each mlx5 device that has a module of its own, or, where it is not installed,
    ethtool's of each one's interface, in natural order."""
    if captures.outcome(MLXLINK) is Outcome.MISSING:
        return _modules(captures)
    answers = sorted(_own(captures, MLXLINK), key=lambda at: natural(at[0].rpartition("/")[2]))
    return (tuple(_optics(path.rpartition("/")[2], answer) for path, answer in answers)
            or (Optics.absent("mlx5 adapters"),))


def _own(captures: Captures, probe: Probe) -> list[tuple[str, DeviceOutput | Unmeasured]]:
    """The answers of devices that are no part of another one's port, which mlxlink refuses."""
    files = captures.files_if_any(SYSFS)
    return [(path, answer) for path, answer in captures.devices(probe).items()
            if not shares_port(files, path[len(BASE) + 1:].partition("/")[0])]


def _modules(captures: Captures) -> tuple[Optics, ...]:
    capture = captures.capture(MODULES)
    if capture is None or capture.outcome is Outcome.MISSING:
        return (Optics.absent("mlxlink and ethtool"),)
    answers = sorted(_own(captures, MODULES), key=lambda at: natural(at[0]))
    links = _links(captures)
    return (tuple(_module(path, answer, links) for path, answer in answers)
            or (Optics.absent("interfaces of adapters"),))


def _links(captures: Captures) -> Mapping[str, Any]:
    """Whether a port of each RDMA device has a link; Unmeasured where none is known to have one, and one was
    not read."""
    files = captures.files_if_any(SYSFS)
    states: dict[str, list[Any]] = {}
    for device, number in numbered(files):
        states.setdefault(device, []).append(phys_state(files, device, number))
    return {device: "LinkUp" in of_ports or first_unread(of_ports) or False
            for device, of_ports in states.items()}


def _module(path: str, answer: DeviceOutput | Unmeasured, links: Mapping[str, Any]) -> Optics:
    device, interface = path.removeprefix(f"{BASE}/").partition("/")[0], path.rpartition("/")[2]
    name = f"{device} {interface}"
    if isinstance(answer, Unmeasured):
        return Optics.absent(name, answer)
    if answer.exit:
        # A virtual function, an interface that has no module, or a driver that cannot ask it.
        if "not supported" in answer.complaint:
            return Optics.absent(name)
        return Optics.absent(name, Unmeasured(
            f"ethtool -m {interface}: exit status {answer.exit}, {clean(answer.complaint, 150)}"))
    try:
        readings = read_module(answer.text)
    except ValueError as error:
        return Optics.absent(name, Unmeasured(f"ethtool -m {interface}: {error}"))
    up: Any = links.get(device, Unmeasured(f"{device} has no port whose state was read"))
    return Optics(name=name, up=up, **readings)


def _optics(name: str, answer: DeviceOutput | Unmeasured) -> Optics:
    if isinstance(answer, Unmeasured):
        return Optics.absent(name, answer)
    try:
        return parse_link(name, answer.text)
    except ValueError as error:
        why = f"exit status {answer.exit}, {answer.complaint}" if answer.exit else str(error)
        return Optics.absent(name, Unmeasured(f"mlxlink -d {name}: {clean(why, 200)}"))


def parse_link(name: str, text: str) -> Optics:
    """mlxlink's JSON; raises ValueError for another format, and with mlxlink's own message where it
    failed."""
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("the answer is nested too deeply") from None
    except ValueError:
        raise ValueError("the answer is not JSON") from None
    if member(document, "status", "code") not in (0, "0", None):
        raise ValueError(str(member(document, "status", "message")))
    output = member(document, "result", "output")
    if not isinstance(output, dict):
        raise ValueError("the answer has no result.output")
    state, module = _section(output, "Operational Info"), _section(output, "Module Info")
    counters = _section(output, "Physical Counters and BER Info")
    celsius, _, celsius_high = _lanes(module.get("Temperature [C]"), "temperature")
    rx, rx_low, rx_high = _lanes(module.get("Rx Power Current [dBm]"), "Rx power")
    tx, tx_low, tx_high = _lanes(module.get("Tx Power Current [dBm]"), "Tx power")
    return Optics(
        name, _up(state), celsius[0] if isinstance(celsius, tuple) else celsius, celsius_high,
        rx, rx_low, rx_high, tx, tx_low, tx_high, _faults(module),
        _ratio(counters.get("Effective Physical BER")), _ratio(counters.get("Raw Physical BER")),
    )


_UP = ("Active", "Physical LinkUp", "LinkUp")


def _up(state: Mapping[str, Any]) -> Any:
    """Whether the link is up: by its state, else by its physical one, which on Ethernet is the state of the
    negotiation (mlxlink_maps.cpp, _pmFsmState and _ethANFsmState): ETH_AN_FSM_ENABLE where that never began,
    with a cable and without one."""
    words = [word for word in (state.get("State"), state.get("Physical state"))
             if isinstance(word, str) and word not in _NOTHING and not word.startswith("ETH_AN_FSM")]
    return words[0] in _UP if words else Unmeasured("mlxlink reports no state of the link")


def _section(output: dict[str, Any], key: str) -> dict[str, Any]:
    value = output.get(key)
    return value if isinstance(value, dict) else {}


_NOTHING = (None, "N/A", "")      # what mlxlink shows of what a module does not have
_NUMBER = r"-?\d{1,9}(?:\.\d{1,9})?"
_LANES = re.compile(rf"({_NUMBER}(?:,{_NUMBER}){{0,15}})(?: \[({_NUMBER})\.\.({_NUMBER})\])?")


def _lanes(text: object, what: str) -> tuple[Any, Any, Any]:
    """Values, lower and upper threshold of "1.9,2.0 [-10.4..6]"."""
    if text in _NOTHING:
        return UNSUPPORTED, UNSUPPORTED, UNSUPPORTED
    found = _LANES.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None:
        wrong = Unmeasured(f"mlxlink's {what} is {clean(str(text), 60)}, which is not in the known format")
        return wrong, wrong, wrong
    limits = [float(word) for word in found.group(2, 3) if word is not None]
    if limits == [0, 0]:
        return UNSUPPORTED, UNSUPPORTED, UNSUPPORTED
    low, high = limits or (UNSUPPORTED, UNSUPPORTED)
    return tuple(float(word) for word in found[1].split(",")), low, high


_FLAGS = ("Rx LOS", "Tx LOS", "Tx Fault", "Rx CDR LOL", "Tx CDR LOL")
_WHOLE_MODULE = ("Module FW Fault", "DataPath FW Fault")


def _faults(module: dict[str, Any]) -> Any:
    """The flags that are set, lanes counted from 0; UNSUPPORTED where the module has none, Unmeasured if one
    is in another format."""
    flags = [(f"{name} lane {lane}", value) for name in _FLAGS
             for lane, value in enumerate(_by_lane(module.get(f"{name} [per lane]")))]
    flags += [(name, module.get(name)) for name in _WHOLE_MODULE]
    for name, value in flags:
        if value not in ("0", "1", *_NOTHING):
            return Unmeasured(f"mlxlink's {name} is {clean(value, 40)}, which is not in the known format")
    known = [(name, value) for name, value in flags if value not in _NOTHING]
    return tuple(name for name, value in known if value == "1") if known else UNSUPPORTED


def _by_lane(held: object) -> list[object]:
    """The values of all lanes; that of a single one may stand alone."""
    values = held.get("values") if isinstance(held, dict) else held
    return values if isinstance(values, list) else [values]


def _ratio(text: object) -> Any:
    """mlxlink prints 15E-255 for no errors at all."""
    if text in _NOTHING:
        return UNSUPPORTED
    if not isinstance(text, str) or not re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]{1,3})?E-?[0-9]{1,3}", text):
        return Unmeasured(f"mlxlink's ratio of bit errors is {clean(str(text), 40)}, which is not in the "
                          "known format")
    value = float(text)
    return value if math.isfinite(value) else Unmeasured(f"mlxlink's ratio of bit errors is {text}")
