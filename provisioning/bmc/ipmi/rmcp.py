"""The datagrams that an IPMI controller answers before a login; pure. Forms: ASF 2.0 (DSP0136) 3.2.2 to 3.2.4
for the presence ping and pong, IPMI 2.0 section 13.6 for messages outside a session, 22.13 for Get Channel
Authentication Capabilities and 22.15 for Get Channel Cipher Suites."""

from __future__ import annotations

from dataclasses import dataclass

PORT = 623
# RMCP version 1.0, no acknowledgement, class ASF (6) or IPMI (7).
_ASF, _IPMI = bytes((6, 0, 0xFF, 6)), bytes((6, 0, 0xFF, 7))
_ENTERPRISE = bytes((0, 0, 0x11, 0xBE))
_PONG = 0x40
_CONTROLLER, _SOFTWARE = 0x20, 0x81
_APP = 6 << 2
_CAPABILITIES, _SUITES = 0x38, 0x54
_THIS_CHANNEL, _OPERATOR = 0x0E, 3
_V2 = 0x80                      # give IPMI 2.0's answer
_BY_SUITE = 0x80
SUITE_BYTES = 16                # of one answer; a shorter one is the last
MOST_ANSWERS = 64


@dataclass(frozen=True)
class Capabilities:
    """What a controller says before a login. `anonymous`: it lets in without name and password."""

    v2: bool
    anonymous: bool


def ping() -> bytes:
    """A presence ping, which every RMCP device answers."""
    return _ASF + _ENTERPRISE + bytes((0x80, 0x4D, 0, 0))


def pong(data: bytes) -> bool:
    """Whether this answers a ping and says that IPMI is spoken."""
    return (data[:4] == _ASF and data[4:8] == _ENTERPRISE
            and len(data) >= 21 and data[8] == _PONG and bool(data[20] & 0x80))


def ask_capabilities(number: int) -> bytes:
    """The question how this channel lets people in; `number` (0 to 63) comes back with the answer."""
    return _message(number, _CAPABILITIES, bytes((_V2 | _THIS_CHANNEL, _OPERATOR)))


def capabilities(data: bytes, number: int) -> Capabilities | None:
    """The answer, or None for what is none."""
    message = _answer(data, number, _CAPABILITIES)
    if message is None or len(message) < 4:
        return None
    # Bit 7 of the second byte: the fourth tells of 2.0 in its bit 1; the third's low bits are names without
    # password, and the anonymous login.
    return Capabilities(
        v2=bool(message[1] & 0x80) and bool(message[3] & 0x02), anonymous=bool(message[2] & 0x01))


def ask_suites(number: int, part: int) -> bytes:
    """The question which cipher suites a session may have, 16 bytes of the list at a time."""
    return _message(number, _SUITES, bytes((_THIS_CHANNEL, 0, _BY_SUITE | part)))


def suites_part(data: bytes, number: int) -> bytes | None:
    """The answer's piece of the list, None for no answer; b"" where it will not say."""
    message = _answer(data, number, _SUITES, errors=True)
    return None if message is None else message[1:1 + SUITE_BYTES]


def suites(listed: bytes) -> tuple[int, ...]:
    """The numbers of the standard suites in a whole list; a maker's own are left out."""
    found: list[int] = []
    at = 0
    while at + 1 < len(listed):
        if listed[at] == 0xC0:
            found.append(listed[at + 1])
            at += 2
        else:
            # a maker's, with three bytes of its number; or an algorithm
            at += 5 if listed[at] == 0xC1 else 1
    return tuple(dict.fromkeys(found))


def _message(number: int, command: int, data: bytes) -> bytes:
    head = bytes((_CONTROLLER, _APP))
    body = bytes((_SOFTWARE, (number & 0x3F) << 2, command)) + data
    message = head + _check(head) + body + _check(body)
    return _IPMI + bytes(9) + bytes((len(message),)) + message


def _answer(data: bytes, number: int, command: int, *, errors: bool = False) -> bytes | None:
    """What follows the completion code of the answer; with `errors` also of a failed one."""
    if data[:4] != _IPMI or len(data) < 22 or data[4] != 0 or len(data) < 14 + data[13]:
        return None
    message = data[14:14 + data[13]]
    if len(message) < 8 or _check(message[:2]) != message[2:3] or _check(message[3:-1]) != message[-1:]:
        return None
    if (message[0] != _SOFTWARE or message[1] != _APP | 4
            or message[4] != (number & 0x3F) << 2 or message[5] != command):
        return None
    if message[6] != 0:
        return b"" if errors else None
    return message[7:-1]


def _check(data: bytes) -> bytes:
    return bytes((-sum(data) & 0xFF,))
