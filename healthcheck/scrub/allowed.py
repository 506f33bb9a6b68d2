"""The last pass: of free text only words of the vocabulary and shapes that facts need stay as they are.

The vocabulary (`vocabulary.txt`) is closed: it holds words of muster's rules, fact parsers and recorded tool
outputs, and no dictionary. Any other word gives way to one of the same shape, the same one throughout.
Whatever the passes before have put in a name's place is known by its words and stays.
"""

from __future__ import annotations

import json
import re
from typing import Any

from healthcheck.scrub.replacements import StandIns
from healthcheck.scrub.vocabulary import vocabulary

_WORD = re.compile(r"[^\W_]+")

# Parts of machines by the names that kernels give them; numbers of at most four digits.
_PART = re.compile(
    r"(?:(?:en|ib|wl|ww|roce|rdma|eth)(?:[opsfndvcbiux]{1,2}\d{1,5}){1,5}"
    r"|nvme\d{1,3}(?:c\d{1,3})?(?:n\d{1,3}(?:p\d{1,3})?)?|(?:sd|vd|xvd|hd)[a-z]{1,2}\d{0,3}"
    r"|mmcblk\d(?:p\d{1,2})?|id[0-9a-f]{4}|mt\d{3,5}|ttys?\d{1,3}|ttyusb\d{1,2}|connectx\d{1,2}|[gr]?dimm[a-p]?\d{1,2}"
    r"|(?:mlx|bnxt|hfi|rxe|siw|irdma|efa|cxi|hns|qib|eth|eno|ens|ib|bond|team|br|veth|docker|lo|vlan|tap|tun|wlan|"
    r"md|dm|loop|zram|sr|sg|st|ram|nbd|rbd|scsi|host|target|ata|usb|pci|bus|slot|port|lane|link|phy|"
    r"cpu|core|socket|package|node|numa|thread|policy|cpufreq|state|index|bank|mc|mce|ce|ue|csrow|channel|ch|rank|memory|"
    r"gpu|card|renderd|nvidia|nvswitch|nvlink|xid|sxid|hwmon|temp|fan|in|curr|power|pwm|thermal|zone|cooling|device|"
    r"umad|uverbs|issm|rdmacm|ipmi|mei|rtc|ptp|pps|watchdog|event|input|kbd|mouse|hpet|tpm|fb|raid|level|"
    r"queue|irq|vec|tx|rx|qp|vl|vf|pf|vs|gen|type|mode|group|gid|uid|pid|part|disk|psu|ps|pdu|dmar|iommu|"
    r"kworker|ksoftirqd|migration|cpuhp|kswapd|rcu|u|el|fc|rc|deb|ubuntu|python|libc|so|hbm|ddr|prio|tc|o2ib|tcp|ext|inet|ip|layer|sha|md|rev|lpc|thm)"
    r"\d{1,4}(?:[a-z]\d{1,3})?)"
)
# A word of the vocabulary that has a number in its sources (`mds#`: mds0), and that number.
_NUMBERED = re.compile(r"([a-z][a-z0-9]*[a-z])\d{1,4}")
# A letter and a number (x16, v5, p2, t10), and a number and a unit or a letter (80gb, 4x, 1st, 300s).
_LETTERED = re.compile(r"[a-z]\d{1,4}(?:\.\d)?|\d{1,3}[a-z]\d{0,2}")
_MEASURED = re.compile(
    r"\d{1,12}(?:[kmgtpe]i?b?|[kmgt]?bps|gbit|mbit|bits?|bytes?|[numc]?s|msecs?|secs?|min|h|d|w|mw|c|v|mv|a|ma|"
    r"[kmg]?hz|mt|gt|rpm|pages?|st|nd|rd|th|rc\d|ubuntu\d{0,2}|n8|lts|px|lu|ld|x|f|p|u|ull)"
)
_HEX = re.compile(r"[0-9a-f]+")
_PREFIXED = re.compile(r"0x[0-9a-f]{1,16}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?")
_DATE = re.compile(r"20[0-3]\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")
_MODALIAS = re.compile(
    r"pci:v[0-9A-F]{8}d[0-9A-F]{8}sv[0-9A-F]{8}sd[0-9A-F]{8}bc[0-9A-F]{2}sc[0-9A-F]{2}i[0-9A-F]{2}"
)
# Escapes of letters and digits hide a word from any search, and no tool writes them.
_ESCAPED = re.compile(
    r"\\x(?:3[0-9]|[46][1-9a-fA-F]|[57][0-9aA])|\\(?:06[0-7]|07[01]|1[0134567][1-7]|1[1256]0|1[37][0-2])"
    r"|%(?:3[0-9]|[46][1-9a-fA-F]|[57][0-9aA])(?=[%\w])|&#x?[0-9a-fA-F]{1,6};"
)
# Groups of hexadecimal digits: an address of any spelling, an identifier, a key. Alone each were a number.
_GROUPED = re.compile(
    r"(?<![0-9A-Za-z])[0-9A-Fa-f]{1,12}(?P<sep>[:._-]|\\x2d)[0-9A-Fa-f]{1,12}"
    r"(?:(?P=sep)[0-9A-Fa-f]{1,12})+(?![0-9A-Za-z])"
    r"|(?<![0-9A-Za-z])[0-9A-Fa-f]{2}(?: [0-9A-Fa-f]{2}){5,}(?![0-9A-Za-z])"
)
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?")
_PCI_ID = re.compile(r"(?<![\w:])[0-9a-fA-F]{4}:[0-9a-fA-F]{4}(?![\w:])")
_PREFIXED_ID = re.compile(r"(?:veth|cali|azv|lxc|tap|qvo|qvb|qbr|enx|wlx|vol)([0-9a-f]{6,17})")
_PHONE = re.compile(
    r"(?<![\w.+-])(?:\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d{1,4}(?:[ .-]?\d{2,4}){2,5}"
    r"|(?:1[ .-])?\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}|\d{3}-\d{2}-\d{4}"
    r"|\d{4}([ -])\d{4}\1\d{4}\1\d{1,4})(?![\w-]|\.\d)"
)
# Behind these a long number is a measure, whatever else the line holds.
_MEASURE = re.compile(
    r"(?i)(?:sectors?|blocks?|inodes?|offset|size|bytes|addr(?:ess)?|page|pfn|lba|len(?:gth)?|seq|epoch|time(?:stamp)?|tsc|"
    r"monotonic|usec|nsec|count|total|limit|memory|mem|rss|vm|free|used|length|ip|sp)[ =:(#]{1,4}$"
)
# A long number in a line that holds one of these may tell who somebody is.
_IDENTITY = frozenset(
    [
        "serial",
        "sn",
        "id",
        "uid",
        "account",
        "acct",
        "card",
        "phone",
        "tel",
        "mobile",
        "fax",
        "pin",
        "ssn",
        "token",
        "key",
        "secret",
        "password",
        "user",
        "number",
        "no",
        "asset",
        "tag",
        "uuid",
        "guid",
        "wwn",
        "naa",
        "eui",
        "license",
        "contact",
        "customer",
        "order",
        "ticket",
    ]
)
# Beside these one of digits alone may be an address of a port, except in tables of counters.
_ADDRESSED = frozenset(["mac", "lladdr", "hwaddr", "ether", "wwpn", "wwnn", "lladdress"])
# What stands before a hexadecimal number that is an address, a register or a state, in a kernel's line.
_REGISTER = re.compile(
    r"(?i)(?:status|addr|address|misc|synd|ipid|bar|page|pfn|offset|bank \d{1,3}|ctl|base|size|mask|"
    r"[re]?[abcds][xip]|[re][sd]i|r\d{1,2}|rip|rsp|rbp|cr\d|[cdefgs]s|gs|error|code|flags|tsc|ip|sp|pc|lr|at|ch|"
    r"eflags)[ :=(]{1,3}(?:0010:|0018:)?(?:0x)?$|[\[(<+-]$|\+0x$"
)
_LOGS = ("/dev/kmsg", "/pstore/", "journal", "kernel.log")
_TABLES = ("/proc/", "/sys/")
_FREE_FILES = ("/proc/cmdline",)
_MOST_WORDS = 8
_CACHED = 20_000


class Allowance:
    """Replaces what is not allowed, and counts what stays, by kind."""

    def __init__(self, replacements: StandIns) -> None:
        self._replacements = replacements
        self._words = vocabulary()
        self._cache: dict[tuple[str, str], str] = {}
        self.kept: dict[str, dict[str, int]] = {}

    def place(self, capture: str, path: str = "") -> str:
        """The kind of text: `log`, `table` or `text`."""
        name = path or capture
        if any(part in name for part in _LOGS) or (not path and capture.startswith("kernel.")):
            return "log"
        return "table" if name.startswith(_TABLES) and name not in _FREE_FILES else "text"

    def text(self, text: str, place: str = "text") -> str:
        """Every line of it, JSON or not."""
        return "\n".join(self._line(line, place) for line in text.split("\n"))

    def _line(self, line: str, place: str) -> str:
        if not line:
            return line
        if line[0] in "{[" and line[-1] in "}]":
            try:
                document = json.loads(line)
            except (ValueError, RecursionError):
                return self._cached(line, place)
            compact = '": ' not in line[:200]
            return json.dumps(self._value(document, "", place), separators=(",", ":") if compact else None)
        return self._cached(line, place)

    def _cached(self, line: str, place: str) -> str:
        found = self._cache.get((line, place))
        if found is None:
            prefix = _record(line)
            found = line[:prefix] + self._words_of(line[prefix:], place)
            if len(self._cache) < _CACHED:
                self._cache[line, place] = found
        return found

    def _value(self, value: Any, key: str, place: str) -> Any:
        if isinstance(value, dict):
            return {
                self._cached(str(k), "text"): self._value(v, key if k == "ok" else str(k), place)
                for k, v in value.items()
            }
        if isinstance(value, list):
            return [self._value(each, key, place) for each in value]
        if isinstance(value, str):
            return "\n".join(
                self._cached(part, "text" if place == "table" else place) if part else part
                for part in value.split("\n")
            )
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 9_999_999:
            words = _WORD.findall(key.lower())
            if not words or not all(self._stays(word) for word in words) or not _IDENTITY.isdisjoint(words):
                digits = str(abs(value))
                return int(self._digits(digits)) * (-1 if value < 0 else 1)
            self._keep("numbers", str(value))
        return value

    def _words_of(self, line: str, place: str) -> str:
        line = _ESCAPED.sub("?", line)
        line = _GROUPED.sub(self._group, line)
        counted = self._counted(line, place, _WORD.findall(line.lower()))
        numbers = counted and (place == "table" or re.search("[A-Za-z]", line) is None)     # of statvfs(3)
        line = _PHONE.sub(
            lambda match: (
                match[0]
                if numbers and match[0].replace(" ", "").isdigit()
                else self._shaped("phone or card number", match[0])
            ),
            line,
        )
        times = [match.span() for pattern in (_TIME, _MODALIAS) for match in pattern.finditer(line)]
        whole = times + [match.span() for match in _GROUPED.finditer(line) if self._known(match)]
        whole += [match.span() for match in _PCI_ID.finditer(line)]
        tokens = list(_WORD.finditer(line))
        made, end = [], 0
        for token in tokens:
            if any(begin <= token.start() < stop for begin, stop in whole):
                continue
            new = self._token(token[0], line, token.start(), token.end(), place, counted)
            if new != token[0]:
                made += [line[end : token.start()], new]
                end = token.end()
        for begin, stop in times:
            self._keep("PCI ids" if line.startswith("pci", begin) else "times", line[begin:stop])
        return "".join([*made, line[end:]])

    def _token(self, word: str, line: str, begin: int, end: int, place: str, counted: bool) -> str:
        low = word.lower()
        if low in self._replacements.words:
            return word
        if low in self._words:
            return self._keep("words of the vocabulary", word, low)
        if (numbered := _NUMBERED.fullmatch(low)) and f"{numbered[1]}#" in self._words:
            return self._keep("names of parts", word, low)
        if len(word) == 1 and word.isascii():
            return word
        if word.isascii() and word.isdigit():
            if _DATE.fullmatch(word):
                return self._keep("times", word)
            if (
                len(word) <= 6
                or set(word) == {"0"}
                or counted
                or (
                    place == "log"
                    and len(word) in (8, 16)
                    and (word.startswith("000") or "TLP Header" in line)
                )
                or (place != "text" and len(word) <= 20 and _MEASURE.search(line, 0, begin))
            ):
                return self._keep("numbers", word)
            return self._digits(word)
        if not word.isascii():
            return self._replaced(word)
        if line[begin - 1 : begin] == "\\" and re.fullmatch(r"x[0-9a-f]{2}", low):
            return word  # of no letter or digit: those are gone by now
        made = _PREFIXED_ID.fullmatch(low)
        if made and made[1] in self._replacements.words:
            return word
        if _PART.fullmatch(low):
            return self._keep("names of parts", word, low)
        if _LETTERED.fullmatch(low) or _MEASURED.fullmatch(low):
            return self._keep("numbers with units", word, low)
        if _PREFIXED.fullmatch(low):
            if len(low) <= 12 or place != "text":
                return self._keep("hexadecimal numbers", word, low)
            return word[:2] + self._hexadecimal(word[2:])
        if _HEX.fullmatch(low) and (any(c.isdigit() for c in low) or len(low) <= 2):
            if len(low) <= 4 or self._is_register(low, line, begin, end, place, counted):
                return self._keep("hexadecimal numbers", word, low)
            return self._hexadecimal(word)
        return self._part_of_escape(word, line, begin) or self._replaced(word)

    def _stays(self, low: str) -> bool:
        return (
            low in self._words
            or low in self._replacements.words
            or len(low) == 1
            or _PART.fullmatch(low) is not None
            or _LETTERED.fullmatch(low) is not None
        )

    def _counted(self, line: str, place: str, tokens: list[str]) -> bool:
        """Whether long numbers of the line are counters: known words name them, and none that may name
        somebody."""
        words = [
            token
            for token in tokens
            if not token.isdigit()
            and not _PREFIXED.fullmatch(token)
            and not _MEASURED.fullmatch(token)
            and not (place == "table" and _HEX.fullmatch(token))
        ]
        if (
            len(words) > _MOST_WORDS
            or not _IDENTITY.isdisjoint(words)
            or (place != "table" and not _ADDRESSED.isdisjoint(words))
            or max(map(len, tokens), default=0) > 20
        ):
            return False
        if not words:
            return place == "table" or (len(tokens) >= 8 and re.fullmatch(r"[\d\s.-]+", line) is not None)
        return all(self._stays(word) for word in words) and (
            place == "table" or bool(re.match(r"\W*[A-Za-z]", line))
        )

    def _is_register(self, low: str, line: str, begin: int, end: int, place: str, counted: bool) -> bool:
        if place == "table":
            return counted and len(low) <= 8
        if place != "log" or len(low) > 16:
            return False
        return (
            low.startswith(("0000", "ffff"))
            or "[Hardware Error]" in line
            or "TLP Header" in line
            or line[end : end + 1] == "-"
            or _REGISTER.search(line, max(0, begin - 24), begin) is not None
        )

    def _part_of_escape(self, word: str, line: str, begin: int) -> str | None:
        r"""A word behind \n or \t, whose letter belongs to the escape."""
        if line[begin - 1 : begin] == "\\" and word[0] in "nrtbf" and word[1:].lower() in self._words:
            return word
        return None

    def _group(self, match: re.Match[str]) -> str:
        text = match[0]
        digits = re.sub(r"\\x2d|[^0-9A-Fa-f]", "", text).lower()
        groups = re.findall(r"[0-9A-Fa-f]+", text.replace("\\x2d", "-"))
        letters = any(c in "abcdef" for c in digits)
        if self._known(match) or len(set(digits)) == 1 or _PCI.fullmatch(text.lower()):
            return text
        address = len(groups) == 6 and all(len(each) <= 2 for each in groups)
        address = address or (match["sep"] == "." and [len(each) for each in groups] == [4, 4, 4])
        if match["sep"] == "." and not address:  # a version
            return text
        if (
            (len(digits) >= 9 and letters and (any(c.isdigit() for c in digits) or address))
            or (address and match["sep"] == ":")
            or match["sep"] is None
        ):
            return self._shaped("hexadecimal id", text, digits)
        return text

    def _known(self, match: re.Match[str]) -> bool:
        """Whether the group is a stand-in, or ends in one: an address of IPv6 or InfiniBand."""
        digits = re.sub(r"\\x2d|[^0-9A-Fa-f]", "", match[0]).lower()
        return (
            digits in self._replacements.words
            or digits.startswith("20010db8")
            or digits[-16:] in self._replacements.words
        )

    def _shaped(self, kind: str, text: str, digits: str | None = None) -> str:
        """Other digits between the same separators."""
        plain = digits if digits is not None else re.sub(r"\D", "", text)
        made = iter(self._hexadecimal(plain) if digits is not None else self._digits(plain, kind))
        return "".join(
            re.split(r"(\\x2d)", text)[at]
            if at % 2
            else re.sub(r"[0-9A-Fa-f]", lambda one: _case(one[0], next(made)), piece)
            for at, piece in enumerate(re.split(r"(\\x2d)", text))
        )

    def _replaced(self, word: str) -> str:
        made = self._replacements.word(word.lower(), self._words)
        return "".join(_case(old, new) for old, new in zip(word.ljust(len(made), "x"), made, strict=False))

    def _hexadecimal(self, word: str) -> str:
        made = self._replacements.hexadecimal("hexadecimal id", word.lower())
        return made.upper() if word.isupper() else made

    def _digits(self, word: str, kind: str = "long number") -> str:
        return self._replacements.like(kind, word)

    def _keep(self, kind: str, word: str, low: str | None = None) -> str:
        counts = self.kept.setdefault(kind, {})
        value = low if low is not None else word
        counts[value] = counts.get(value, 0) + 1
        return word


def _case(old: str, new: str) -> str:
    return new.upper() if old.isupper() else new


_RECORD = re.compile(r"\d{1,6},\d{1,20},\d{1,20},[-c+](?:,caller=[TC]\d{1,10})?;")


def _record(line: str) -> int:
    """Where the text begins in a line of /dev/kmsg."""
    found = _RECORD.match(line)
    return found.end() if found else 0
