"""Leases of DHCP servers, from their files: what is at an address now, and what was.

Forms: dhcpd.leases(5) of ISC DHCP 4.4 (a log: the last declaration of an address holds); dnsmasq 2.90,
src/lease.c (a line each: expiry, MAC, address, name or *, client); Kea's memfile back end (CSV with a header,
a log as well; state 0 is a lease in use, lifetime 0 takes it away, &#x2c is a comma; Kea Administrator
Reference Manual, "memfile").
"""

from __future__ import annotations

import calendar
import csv
import io
import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass

from inventory.errors import InventoryError, Mark
from inventory.text import clean, short
from provisioning.discover.model import DhcpLease, mac

MOST = 200_000          # declarations; a /16 that was renewed some times
_FOREVER = 0xFFFFFFFF
_ISC = re.compile(
    r"^[ \t]*(?:lease\s+\S+\s*\{|authoring-byte-order\b|server-duid\b|ia-[np][ad]\b|failover\s+peer\b"
    r"|#.*dhcpd\.leases)",
    re.MULTILINE)
_DATE = re.compile(r"(?:[0-6]\s+)?(\d{4})/(\d{1,2})/(\d{1,2})\s+(\d{1,2}):(\d{1,2}):(\d{1,2})")
_DNSMASQ = re.compile(r"(\d{1,12})\s+(\S+)\s+(\S+)\s+(\S+)(?:\s+\S.*)?")
# Words, quoted text with escapes, the signs that end things; comments are left out. A quote that nothing
# closes goes to the end: one that did not match there would be looked for from each of the quotes after it.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.|\\\Z)*"?|#[^\n]*|[{};]|[^\s{};"#]+')


@dataclass(frozen=True)
class _Entry:
    lease: DhcpLease
    gone: bool = False


def read(text: str, source: str, now: float) -> tuple[DhcpLease, ...]:
    """The newest lease of each address, in the file's order, of any of the servers. Raises InventoryError."""
    head = next((line for line in text.splitlines() if line.strip()), "")
    if head.startswith("address,"):
        entries = _kea(text, source, now)
    elif _ISC.search(text[: 1 << 16]):
        entries = _isc(text, source, now)
    else:
        entries = _dnsmasq(text, source, now)
    newest: dict[str, _Entry] = {}
    for count, entry in enumerate(entries):
        if count >= MOST:
            raise InventoryError(f"{source}: holds over {MOST} leases")
        newest.pop(entry.lease.address, None)
        newest[entry.lease.address] = entry
    return tuple(entry.lease for entry in newest.values() if not entry.gone)


def _address(text: str) -> str | None:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None


def _name(text: str) -> str:
    return "" if text in ("*", "") else clean(text, 253).lower().rstrip(".")


# ISC dhcpd

def _isc(text: str, source: str, now: float) -> Iterator[_Entry]:
    tokens = _tokens(text)
    for word, line in tokens:
        if word == "lease":
            address = _address(next(tokens, ("", line))[0])
            opened = next(tokens, ("", line))[0]
            if address is None or opened != "{":
                raise InventoryError(
                    "expected lease ADDRESS { ... }, as in dhcpd.leases(5)", Mark(source, line, 1))
            said = _statements(tokens, source, line)
            ends = _isc_time(said.get("ends", ""))
            state = said.get("binding state", "active")
            held = state == "active" and "abandoned" not in said and (ends is None or ends > now)
            name = said.get("client-hostname", "").strip('"')
            hardware = said.get("hardware", "").split()
            ethernet = hardware[1] if len(hardware) > 1 and hardware[0] == "ethernet" else ""
            yield _Entry(DhcpLease(address, mac(ethernet), _name(name), ends, held))
        elif word == "{":       # a declaration of another kind
            _statements(tokens, source, line)


def _statements(tokens: Iterator[tuple[str, int]], source: str, line: int) -> dict[str, str]:
    """What stands within braces: `hardware`, `ends`, `binding state`, ..., with their line's rest."""
    found: dict[str, str] = {}
    words: list[str] = []
    depth = 1
    for word, _ in tokens:
        if word == "{":
            depth += 1
        elif word == "}":
            depth -= 1
            if depth == 0:
                return found
        elif word == ";":
            if depth == 1 and words:
                taken = 2 if words[0] == "binding" else 1
                found[" ".join(words[:taken])] = " ".join(words[taken:])
            words = []
        elif len(words) < 12:
            words.append(word[:1000])
    raise InventoryError(
        "the declaration that begins here does not end: is the file cut off?", Mark(source, line, 1))


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    line, at = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        if not match[0].startswith("#"):
            yield match[0], line


def _isc_time(text: str) -> float | None:
    """`4 2026/11/19 10:00:00` in UTC, `epoch 1795082400`, `never`; what is none of them is never, too."""
    if text.startswith("epoch "):
        digits = text.split()[1]
        return float(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 12 else None
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups())
    if not (1970 <= year <= 9999 and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]):
        return None
    return float(calendar.timegm((year, month, day, hour, minute, second)))


# dnsmasq

def _dnsmasq(text: str, source: str, now: float) -> Iterator[_Entry]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("duid "):        # what follows this one are leases of IPv6
            continue
        match = _DNSMASQ.fullmatch(line.strip())
        address = _address(match[3].strip("[]")) if match is not None else None
        if match is None or address is None:
            raise InventoryError(
                f"{short(line.strip())} is no lease of dnsmasq (TIME MAC ADDRESS NAME CLIENT), and the file "
                "is none of ISC dhcpd's or Kea's", Mark(source, number, 1))
        ends = float(match[1]) or None
        # A kind of hardware other than Ethernet stands before the address: 06-aa:bb:...
        yield _Entry(DhcpLease(address, mac(match[2].rpartition("-")[2]), _name(match[4]), ends,
                               ends is None or ends > now))


# Kea

def _kea(text: str, source: str, now: float) -> Iterator[_Entry]:
    reader = csv.reader(io.StringIO(text, newline=""))
    header: list[str] | None = None
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as problem:
            raise InventoryError(f"is no CSV: {clean(problem, 100)}", Mark(source, line, 1)) from None
        if not any(row):
            continue
        if header is None:
            header = row
            if not {"valid_lifetime", "expire", "hostname"} <= set(header):
                raise InventoryError(
                    "the header is none of Kea's: no valid_lifetime, expire, hostname", Mark(source, line, 1))
            continue
        # older files have fewer columns
        yield _kea_row(dict(zip(header, row)), Mark(source, line, 1), now)  # noqa: B905


def _kea_row(row: dict[str, str], mark: Mark, now: float) -> _Entry:
    address = _address(row.get("address", ""))
    numbers = [row.get(key, "") or "0" for key in ("valid_lifetime", "expire", "state")]
    if address is None or not all(text.isascii() and text.isdigit() and len(text) <= 12 for text in numbers):
        raise InventoryError("this row is no lease of Kea's", mark)
    lifetime, expire, state = map(int, numbers)
    ends = None if lifetime == _FOREVER else float(expire)
    name = row.get("hostname", "").replace("&#x2c", ",")
    return _Entry(DhcpLease(address, mac(row.get("hwaddr", "")), _name(name), ends,
                            state == 0 and (ends is None or ends > now)), gone=lifetime == 0)
