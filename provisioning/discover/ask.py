"""Asks addresses for a controller, without a login: so many a second, each within its time. Over TLS the
certificate is not verified, since nothing secret is sent; its fingerprint is shown."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from inventory.text import clean
from provisioning.bmc.ipmi import rmcp, udp
from provisioning.discover import serviceroot
from provisioning.discover.model import FoundController

WIDTH = 128         # addresses asked at a time


@dataclass(frozen=True)
class ScanSettings:
    """Ports, and seconds until a connection, until its whole answer, until a datagram's answer."""

    port: int = 443
    ipmi_port: int = rmcp.PORT
    connect_s: float = 2.0
    answer_s: float = 8.0
    ipmi_s: float = 1.5


def ask(address: str, how: ScanSettings) -> FoundController | None:
    """What is at an address; None where nothing answers. Never raises for what is there."""
    found = _redfish(address, how)
    said = ""
    try:
        heard = udp.hear(address, how.ipmi_port, how.ipmi_s)
    except (udp.PortClosed, OSError):
        heard = False
    if heard is False:
        return found
    if isinstance(heard, rmcp.Capabilities):
        said = "" if heard.v2 else "IPMI 1.5 only"
        said = "IPMI allows anonymous login" if heard.anonymous else said
    found = found or FoundController(address, ())
    return replace(found, speaks=(*found.speaks, "ipmi"), said="; ".join(filter(None, (found.said, said))))


def _redfish(address: str, how: ScanSettings) -> FoundController | None:
    try:
        link = socket.create_connection((address, how.port), how.connect_s)
    except OSError:
        return None
    end = time.monotonic() + how.answer_s
    fingerprint = ""
    with link:
        try:
            link.settimeout(how.answer_s)
            with _context().wrap_socket(link) as secured:
                fingerprint = hashlib.sha256(secured.getpeercert(binary_form=True) or b"").hexdigest()
                root = serviceroot.parse(_answer(secured, address, end))
        except serviceroot.NotRedfish as problem:
            return FoundController(address, (), fingerprint=fingerprint, said=str(problem))
        except TimeoutError:
            return FoundController(
                address, (), fingerprint=fingerprint, said=f"no whole answer within {how.answer_s:g} s")
        except OSError as problem:
            reason = getattr(problem, "reason", None) or problem.strerror or "the connection ended"
            return FoundController(
                address, (), fingerprint=fingerprint, said=f"no TLS at port {how.port}: {clean(reason, 80)}")
    return FoundController(
        address, ("redfish",), root.vendor, root.product, serial=root.serial, uuid=root.uuid,
        firmware=root.firmware, host=root.host, macs=(root.mac,) if root.mac else (), fingerprint=fingerprint)


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("DEFAULT:@SECLEVEL=0")      # keys of old controllers are short
    return context


def _answer(link: ssl.SSLSocket, address: str, end: float) -> bytes:
    """All that it sends until its end, or its own count. Raises TimeoutError, NotRedfish."""
    link.sendall(serviceroot.request(address))
    data = bytearray()
    while not serviceroot.whole(data):
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        link.settimeout(left)
        with contextlib.suppress(ssl.SSLEOFError, ConnectionResetError):
            piece = link.recv(65536)
            if piece:
                data += piece
                if len(data) > serviceroot.MOST:
                    raise serviceroot.NotRedfish(f"answers with over {serviceroot.MOST} bytes")
                continue
        break
    return bytes(data)


def sweep(
    addresses: Sequence[str], rate: float, how: ScanSettings,
    on_progress: Callable[[int], None] = lambda begun: None,
    one: Callable[[str, ScanSettings], FoundController | None] = ask,
) -> Iterator[FoundController]:
    """What answers, in the order of the addresses; at most `rate` begin in a second, `WIDTH` at a time.
    `on_progress` hears how many began. Whoever stops listening stops it."""
    free = threading.Semaphore(WIDTH)
    begun: list[Future[FoundController | None]] = []
    with ThreadPoolExecutor(min(WIDTH, max(1, len(addresses))), thread_name_prefix="discover") as pool:
        try:
            due = time.monotonic()
            for address in addresses:
                free.acquire()
                time.sleep(max(0.0, due - time.monotonic()))
                due = max(due, time.monotonic() - 1 / rate) + 1 / rate
                begun.append(pool.submit(one, address, how))
                begun[-1].add_done_callback(lambda _: free.release())
                on_progress(len(begun))
            for future in begun:
                found = future.result()
                if found is not None:
                    yield found
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
