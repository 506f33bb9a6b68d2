"""Stand-ins: for each thing that tells who someone is, another of the same form,
the same one wherever the thing occurs.

Names and addresses are counted through (`user2`, 192.0.2.7); identifiers are drawn from a keyed hash, so that
without the key, which no one keeps, no stand-in leads back to what it stands for.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Callable, Container

_TRIES = 64
_NUMBERED = re.compile(r"(?<![a-z0-9])[a-z]*[0-9][a-z0-9]*")
_WORD = re.compile(r"[^\W_]+")
_LEAST = 4      # letters of a stand-in for a word
_HEX = "0123456789abcdef"
# RFC 5737 and RFC 2544; RFC 7042 and, past its 256 addresses, locally administered ones.
_IPV4 = tuple(ipaddress.ip_network(name)
              for name in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "198.18.0.0/15"))
_IPV6 = int(ipaddress.IPv6Address("2001:db8::"))

Kind = str


class StandIns:
    """Gives stand-ins and counts them by kind. `avoid` is all the raw text:
    no stand-in is made that occurs in it already."""

    def __init__(self, key: bytes, avoid: str) -> None:
        self._key = key
        low = avoid.lower()
        self._avoid = frozenset(_NUMBERED.findall(low))
        self._raw = frozenset(_WORD.findall(low))
        self.words: set[str] = set()        # of all stand-ins, in small letters
        self._given: dict[tuple[str, str], str] = {}
        self._taken: set[tuple[str, str]] = set()
        self._counted: set[tuple[str, str]] = set()
        self.counts: dict[Kind, int] = {}

    def name(self, kind: Kind, value: str, form: str) -> str:
        """`form` with the first free number: node{}, site{}.example."""
        return self._once(kind, "name", value, lambda n: form.format(n))

    def preset(self, kind: Kind, value: str, given: str) -> None:
        """From now on `value` has this stand-in."""
        if ("name", value) not in self._given:
            self.count(kind, value)
            self._given["name", value] = given
            self._taken.add(("name", given))
            self._issued(given)

    def count(self, kind: Kind, value: str) -> None:
        """One more of this kind, unless it was counted before: for what is replaced in pieces."""
        if (kind, value) not in self._counted:
            self._counted.add((kind, value))
            self.counts[kind] = self.counts.get(kind, 0) + 1

    def like(self, kind: Kind, value: str) -> str:
        """A text of the same length whose characters are each of the same class: digits,
        small and capital letters; others stay."""
        return self._once(kind, "like", value, lambda n: _same_classes(value, self._draw(kind, value, n)))

    def word(self, word: str, known: Container[str]) -> str:
        """Letters for letters and digits for digits, at least four; no known word, none of the raw text."""
        padded = word + "x" * (_LEAST - len(word))
        return self._once("word", "word", word,
                          lambda n: _same_classes(padded, self._draw("word", padded, n)),
                          lambda made: made in known or made in self._raw)

    def hexadecimal(self, kind: Kind, digits: str) -> str:
        """As many hexadecimal digits; of 32 those that say which version of UUID it is stay."""

        def make(n: int) -> str:
            drawn = self._draw(kind, digits, n)
            made = [_HEX[drawn[at % len(drawn)] >> 4 * (at // len(drawn) % 2) & 15]
                    for at in range(len(digits))]
            if len(digits) == 32:
                made[12], made[16] = digits[12], digits[16]
            return "".join(made)

        return self._once(kind, "hex", digits, make)

    def mac(self, digits: str) -> str:
        """Twelve hexadecimal digits of the range for documentation."""
        return self._once("MAC address", "hex", digits,
                          lambda n: f"00005e0053{n - 1:02x}" if n <= 256 else f"02005e{n:06x}")

    def ipv4(self, address: str) -> str:
        """An address of the ranges for documentation."""

        def make(n: int) -> str:
            for network in _IPV4:
                if n < network.num_addresses - 1:
                    return str(network[n])
                n -= network.num_addresses - 2
            return "0.0.0.0"  # noqa: S104  (an address to show, after 132,000 others, and not one to listen on)

        return self._once("IP address", "ipv4", address, make)

    def ipv6(self, address: str) -> str:
        """An address of the range for documentation, compressed."""
        return self._once("IP address", "ipv6", address, lambda n: str(ipaddress.IPv6Address(_IPV6 + n)))

    def _once(
        self, kind: Kind, space: str, value: str, make: Callable[[int], str],
        refused: Callable[[str], bool] = lambda made: False,
    ) -> str:
        given = self._given.get((space, value))
        if given is None and (space, value) in self._taken:
            return value
        if given is None:
            counted = space in ("name", "ipv4", "ipv6") or kind == "MAC address"
            self.counts[kind] = at = self.counts.get(kind, 0) + 1
            if not counted:
                at = 1
            given = make(at)
            for _ in range(_TRIES if not counted else 100_000):
                raw = (space not in ("ipv4", "ipv6")
                       and not self._avoid.isdisjoint(_NUMBERED.findall(given.lower())))
                if ((space, given) not in self._taken and not raw and given != value
                    and not refused(given)):
                    break
                at += 1
                given = make(at)
            self._taken.add((space, given))
            self._given[space, value] = given
            self._issued(given)
        return given

    def _issued(self, given: str) -> None:
        low = given.lower()
        self.words.update(_WORD.findall(low))
        self.words.add(re.sub(r"[^0-9a-z]", "", low))

    def _draw(self, kind: Kind, value: str, number: int) -> bytes:
        text = f"{kind}\0{number}\0{value}".encode("utf-8", "surrogatepass")
        block = hashlib.blake2b(text, key=self._key).digest()
        while len(block) < len(value):
            block += hashlib.blake2b(block[-64:], key=self._key).digest()
        return block


def _same_classes(value: str, drawn: bytes) -> str:
    made = []
    for at, character in enumerate(value):
        number = drawn[at]
        if character.isdigit():
            made.append("123456789"[number % 9])
        elif character.isalpha():
            letter = "abcdefghijklmnopqrstuvwxyz"[number % 26]
            made.append(letter.upper() if character.isupper() else letter)
        else:
            made.append(character)
    return "".join(made)
