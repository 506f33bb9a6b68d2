"""Counters of ports: `ibqueryerrors` (also with --data, --counters, -r and --details) and `perfquery` (also
with -x).

Forms (infiniband-diags/ibqueryerrors.c and perfquery.c in rdma-core). ibqueryerrors leaves out counters that
are 0, and those within a threshold or suppressed, which its summary names; the summary stands at the end.
Counters that it shows with a second figure in parentheses are of 64 bits; the others are as wide as
PortCounters has them (InfiniBand Architecture Specification, volume 1, PortCounters), and stay at their
highest value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from healthcheck.subnet.model import FabricEnd, PortCounters
from healthcheck.subnet.readers.building import SubnetReading, UnreadLines
from healthcheck.subnet.readers.toolwords import cut_short, guid_of, numbered, pair

ERRORS, PERFQUERY = "ibqueryerrors", "perfquery"
_16, _8, _4, _32 = 0xFFFF, 0xFF, 0xF, 0xFFFFFFFF
# The highest value of each counter of PortCounters (libibmad/fields.c)
HIGHEST: Mapping[str, int] = {
    "SymbolErrorCounter": _16, "LinkErrorRecoveryCounter": _8, "LinkDownedCounter": _8,
    "PortRcvErrors": _16, "PortRcvRemotePhysicalErrors": _16, "PortRcvSwitchRelayErrors": _16,
    "PortXmitDiscards": _16, "PortXmitConstraintErrors": _8, "PortRcvConstraintErrors": _8,
    "LocalLinkIntegrityErrors": _4, "ExcessiveBufferOverrunErrors": _4, "VL15Dropped": _16,
    "QP1Dropped": _16, "PortXmitWait": _32, "PortXmitData": _32, "PortRcvData": _32, "PortXmitPkts": _32,
    "PortRcvPkts": _32,
}
_PORT = re.compile(r"\s+GUID 0x([0-9a-f]{1,16}) port ([0-9]{1,3}|ALL):(.*)")
_COUNTER = re.compile(r"\[(\w{1,64}) == ([0-9]{1,20})( \([^)\]]*\))?\]")
_HEADER = re.compile(r'(?:Errors|Data Counters) for .*')
_CHECKED = re.compile(r"##\s+([0-9]+) ports checked,.*")
_NODES = re.compile(r"## Summary: ([0-9]{1,9}) nodes checked,.*")
_FAILED = re.compile(r"##\s+([0-9]+) PMA query failures")
_LIST = re.compile(r"## (Thresholds|Suppressed):\s*(.*)")
_QUERY = re.compile(r"# Port (extended )?counters: Lid ([0-9]{1,5}) port ([0-9]{1,3})\b.*")
# More than any port has; an address that is not a port's
_ALL = 255


def read_errors(text: str, cut: bool = False) -> SubnetReading:
    """The counters in ibqueryerrors' output; `cut`: whether whoever captured it dropped its end."""
    values: dict[FabricEnd, dict[str, int]] = {}
    full: dict[FabricEnd, set[str]] = {}
    unread = UnreadLines(ERRORS)
    ended, failures, bounded, data_only = False, 0, "", False
    nodes: int | None = None
    for number, line in numbered(text):
        if (found := _PORT.fullmatch(line)) is not None:
            guid = guid_of(found[1])
            if guid is None:
                unread.add(number, line)
            elif found[2] != "ALL":
                end = FabricEnd(guid, int(found[2]))
                for name, value, wide in _COUNTER.findall(found[3]):
                    values.setdefault(end, {})[name] = int(value)
                    if not wide and int(value) >= HIGHEST.get(name, int(value) + 1):
                        full.setdefault(end, set()).add(name)
        elif line.startswith("## "):
            ended = ended or _CHECKED.fullmatch(line) is not None
            if (asked := _NODES.fullmatch(line)) is not None:
                nodes = int(asked[1])
            if (failed := _FAILED.fullmatch(line)) is not None:
                failures = int(failed[1])
            if (listed := _LIST.fullmatch(line)) is not None:
                bounded = bounded or listed[2]
                # Newer versions end their summary so, older ones with the line of ports.
                ended = listed[1] == "Suppressed"
        elif _HEADER.fullmatch(line):
            data_only = data_only or line.startswith("Data")
        elif not line.startswith("   "):       # with -r each port has a line of its link beside it
            unread.add(number, line)
    if failures:
        unread.note(f"{failures} queries of counters failed, so counters that it does not show are not known")
    if bounded:
        unread.note("it was run with thresholds, so counters that it does not show are not known")
    cut = cut or not ended or cut_short(text)
    return SubnetReading(
        ERRORS, counters=PortCounters(
            values, zeros=not cut and not failures and not bounded and not data_only,
            full={end: frozenset(names) for end, names in full.items()}, nodes=nodes),
        unread=unread.lines(), partial=cut)


def read_perfquery(text: str, cut: bool = False) -> SubnetReading:
    """The counters in one or more outputs of perfquery; it knows ports by LID."""
    values: dict[tuple[int, int], dict[str, int]] = {}
    unread = UnreadLines(PERFQUERY)
    at: tuple[int, int] | None = None
    for number, line in numbered(text):
        if (found := _QUERY.fullmatch(line)) is not None:
            at = (int(found[2]), int(found[3]))
            if at[1] == _ALL:
                at = None
                unread.note(f"line {number}: the sum of all ports is not read")
            elif at is not None:
                values.setdefault(at, {})
        elif (parts := pair(line)) is None:
            unread.add(number, line)
        elif at is not None and parts[1].isascii() and parts[1].isdigit() and len(parts[1]) <= 20 \
                and parts[0] not in ("PortSelect", "CounterSelect", "CounterSelect2"):
            values[at][parts[0]] = int(parts[1])
    return SubnetReading(PERFQUERY, by_lid=values, unread=unread.lines(),
                         partial=cut or cut_short(text))
