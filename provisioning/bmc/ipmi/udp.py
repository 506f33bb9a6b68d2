"""Asks an address over UDP for an IPMI controller, without a login; what is lost is asked again."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from provisioning.bmc.ipmi import rmcp

_AGAIN_S = (0.0, 0.4, 1.2, 2.8, 6.0, 12.4)      # when a question is asked, from its beginning
# how long a controller that answered the ping has for the other question
_MORE_S = 0.4
_Answer = TypeVar("_Answer")


class PortClosed(Exception):
    """The machine at this address says that nothing listens at the port."""


def hear(address: str, port: int, seconds: float) -> rmcp.Capabilities | bool:
    """What the controller says before a login; True for a ping's answer alone, False for silence. Raises
    Refused, and OSError where the address leads nowhere."""
    ponged: list[float] = []
    number = int(time.monotonic() * 10) & 0x3F

    def read(data: bytes) -> rmcp.Capabilities | None:
        if rmcp.pong(data) and not ponged:
            ponged.append(time.monotonic())
        return rmcp.capabilities(data, number)

    with _connected(address, port) as link:
        found = _ask(link, (rmcp.ping(), rmcp.ask_capabilities(number)), read, time.monotonic() + seconds,
                     lambda: ponged[0] + _MORE_S if ponged else None)
    return found if found is not None else bool(ponged)


def suites(address: str, port: int, seconds: float) -> tuple[int, ...]:
    """The cipher suites that the controller offers, () where it does not say. Raises Refused, OSError."""
    listed = b""
    end = time.monotonic() + seconds
    with _connected(address, port) as link:
        for part in range(rmcp.MOST_ANSWERS):
            number = part & 0x3F
            found = _ask(link, (rmcp.ask_suites(number, part),), partial(rmcp.suites_part, number=number),
                         min(end, time.monotonic() + 1.5))
            listed += found or b""
            if found is None or len(found) < rmcp.SUITE_BYTES:
                break
    return rmcp.suites(listed)


def _ask(
    link: socket.socket, questions: tuple[bytes, ...], read: Callable[[bytes], _Answer | None], end: float,
    sooner: Callable[[], float | None] = lambda: None,
) -> _Answer | None:
    """The first answer that `read` takes for one. What does not is passed over, however much of it comes."""
    began = time.monotonic()
    asked = 0
    while True:
        now = time.monotonic()
        last = min(end, sooner() or end)
        if now >= last:
            return None
        try:
            if asked < len(_AGAIN_S) and now >= began + _AGAIN_S[asked]:
                asked += 1
                for question in questions:
                    link.send(question)
            again = began + _AGAIN_S[asked] if asked < len(_AGAIN_S) else last
            link.settimeout(max(0.001, min(again, last) - now))
            found = read(link.recv(1024))
            if found is not None:
                return found
        except TimeoutError:
            continue
        except ConnectionRefusedError:
            # A controller that restarts refuses for a moment.
            if asked > 2:
                raise PortClosed from None


@contextmanager
def _connected(address: str, port: int) -> Iterator[socket.socket]:
    family, kind, protocol, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as link:
        link.connect(where)
        yield link
