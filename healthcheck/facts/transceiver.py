"""A module's readings by `ethtool -m`, as text: JSON exists only in ethtool 6.14 and newer, and has one key
twice (a temperature, and its thresholds).

Lines of ethtool's qsfp.c, sfpid.c and sfpdiag.c, cmis.c and module-common.c, each a name and a value:

    Rcvr signal avg optical power(Channel 1)  : 0.9603 mW / -0.18 dBm
    Laser rx power low alarm    (Channel 1)   : Off
    Rx loss of signal                         : [ Yes, No, No, No ]           (or None)
    Module temperature high alarm threshold   : 80.00 degrees C / 176.00 degrees F

A copper cable has none of them. Only alarms are read, which mean that the module is beyond its own limits;
warnings are not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from healthcheck.facts.values import UNSUPPORTED, Unmeasured, first_unread
from inventory.text import clean

_LINE = re.compile(r"^\s+(\S[^\n]{0,80}?)\s*: (\S[^\n]{0,400})$", re.MULTILINE)
_POWER = re.compile(r"-?[0-9]{1,3}\.[0-9]{4} mW / (-?[0-9]{1,3}\.[0-9]{2}|-inf) dBm")
_CELSIUS = re.compile(r"(-?[0-9]{1,3}\.[0-9]{2}) degrees C / -?[0-9]{1,3}\.[0-9]{2} degrees F")
_CHANNEL = re.compile(r"(.{1,60}?)\s*\((?:Channel|Chan) ([0-9]{1,2})\)")
# dBm of 0.1 microwatt, the least light that a module can measure.
_DARK = -40.0
_RX = ("Rcvr signal avg optical power", "Receiver signal average optical power", "Receiver signal OMA")
_TX = ("Transmit avg optical power", "Laser output power")
_LOST = ("Rx loss of signal", "Tx loss of signal", "Rx loss of lock", "Tx loss of lock", "Tx fault",
         "Tx adaptive eq fault")
_BY_LANE = re.compile(r"\[ (?:Yes|No)(?:, (?:Yes|No))* \]")
_STATE = "Module State"


def read_module(text: str) -> dict[str, Any]:
    """The readings of `facts.optics.Optics` that ethtool has, by name; raises ValueError for another
    format."""
    rows = [(clean(name), value.strip()) for name, value in _LINE.findall(text)]
    if not rows or rows[0][0] != "Identifier" or not text.endswith("\n"):
        raise ValueError("the answer has no Identifier, or is truncated")
    fields = dict(rows)
    rx_low, rx_high = _limits(fields, "Laser rx power")
    tx_low, tx_high = _limits(fields, "Laser output power")
    high = fields.get("Module temperature high alarm threshold")
    celsius_high = UNSUPPORTED if high is None else _celsius(high)
    return {
        "celsius": _celsius(fields["Module temperature"]) if "Module temperature" in fields else UNSUPPORTED,
        "celsius_high": UNSUPPORTED if celsius_high == 0.0 else celsius_high,
        "rx_dbm": _lanes(rows, _RX), "rx_low": rx_low, "rx_high": rx_high,
        "tx_dbm": _lanes(rows, _TX), "tx_low": tx_low, "tx_high": tx_high,
        "faults": _faults(rows), "effective_ber": UNSUPPORTED, "raw_ber": UNSUPPORTED,
    }


def _dbm(text: str) -> Any:
    found = _POWER.fullmatch(text)
    if found is None:
        return Unmeasured(f"ethtool's power is {clean(text, 60)}, which is not in the known format")
    return _DARK if found[1] == "-inf" else float(found[1])


def _celsius(text: str) -> Any:
    found = _CELSIUS.fullmatch(text)
    return (float(found[1]) if found
            else Unmeasured(f"ethtool's temperature is {clean(text, 60)}, which is not in the known format"))


def _limits(fields: Mapping[str, str], what: str) -> tuple[Any, Any]:
    """The alarm thresholds of a power; a module without any reports 0 mW for all."""
    texts = [fields.get(f"{what} {side} alarm threshold") for side in ("low", "high")]
    low, high = (UNSUPPORTED if text is None else _dbm(text) for text in texts)
    return (UNSUPPORTED, UNSUPPORTED) if high == _DARK else (low, high)


def _lanes(rows: list[tuple[str, str]], names: tuple[str, ...]) -> Any:
    """Light by lane; Unmeasured if one lane cannot be read."""
    values = [_dbm(value) for name, value in rows if _of(name)[0] in names]
    return first_unread(values) or tuple(values) or UNSUPPORTED


def _of(name: str) -> tuple[str, str]:
    """A name without its channel, and the channel: ("Laser rx power low alarm", " channel 1")."""
    found = _CHANNEL.fullmatch(name)
    return (" ".join(found[1].split()), f" channel {found[2]}") if found else (name, "")


def _faults(rows: list[tuple[str, str]]) -> Any:
    """Alarms and losses, by channel from 1 as ethtool counts; UNSUPPORTED where the module reports
    neither, Unmeasured if one of them is in another format."""
    found: list[str] = []
    known = False
    for name, value in rows:
        what, channel = _of(name)
        if what == _STATE:
            found += [clean(value, 60)] if "Fault" in value else []
        elif what in _LOST and (value == "None" or _BY_LANE.fullmatch(value)):
            words = re.findall("Yes|No", value)
            found += [f"{what} channel {lane}" for lane, word in enumerate(words, 1) if word == "Yes"]
        elif what.endswith(" alarm") and value in ("On", "Off"):
            found += [what + channel] if value == "On" else []
        elif what in _LOST or what.endswith(" alarm"):
            return Unmeasured(f"ethtool's {what}{channel} is {clean(value, 60)}, which is not in the known "
                              "format")
        else:
            continue
        known = True
    return tuple(found) if known else UNSUPPORTED
