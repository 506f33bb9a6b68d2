"""The process of a rack: a listener for each machine, TLS, the log of requests, and the troubles that are a
connection's.

Run by `tests.testbed.bmcs.rack` as `python -m tests.testbed.bmc.serve FOLDER`; what it serves stands in
FOLDER/rack.json. It says a line of JSON for each power that comes or goes, takes a line for each trouble that
is to come or go, and ends when its input does.
"""

from __future__ import annotations

import json
import selectors
import socket
import ssl
import struct
import sys
import threading
import time
from contextlib import suppress
from http.client import responses
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.testbed.bmc import resources
from tests.testbed.bmc.door import Answer, Door, Request, emulator
from tests.testbed.bmc.driver import Rack
from tests.testbed.bmc.machine import ELSEWHERE, Machine, Wrong

_ABORT = struct.pack("ii", 1, 0)


class Log:
    """One line for each request; it is written before the answer is."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)
        self._lock = threading.Lock()

    def write(self, machine: str, request: Request, answer: Answer) -> None:
        said = request.document
        line = json.dumps({
            "machine": machine, "time": time.time(), "method": request.method, "path": request.path,
            "query": request.query, "status": answer.status, "keys": sorted(said.get("Attributes", said)),
            "what": said.get("ResetType", ""), "bytes": len(answer.body), "login": next(
                (name for name in ("x-auth-token", "authorization") if name in request.headers), "")})
        with self._lock:
            self._file.write(f"{line}\n")


class Served:
    """One machine as it is served now."""

    def __init__(self, machine: Machine, door: Door, certificates: tuple[str, str], address: tuple[str, int],
                 log: Log, elsewhere: str) -> None:
        self.machine = machine
        self.door = door
        self.address = address
        self.log = log
        self.elsewhere = elsewhere
        self.answers = 0
        self._contexts = [_context(path) for path in certificates]

    @property
    def context(self) -> ssl.SSLContext:
        return self._contexts[self.machine.wrong is Wrong.CERTIFICATE]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: Served

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._do
        raise AttributeError(name)

    def _do(self) -> None:
        length = self.headers.get("Content-Length", "0")
        body = self.rfile.read(min(int(length), 1 << 20)) if length.isdecimal() else b""
        path, _, query = self.path.partition("?")
        request = Request(self.command, path, query,
                          {name.lower(): value for name, value in self.headers.items()}, body)
        served, wrong = self.served, self.served.machine.wrong
        served.answers += 1
        answer = self._answered(request)
        served.log.write(served.machine.name, request, answer)
        if wrong is Wrong.SLOW:
            time.sleep(served.machine.seconds)
        if wrong is Wrong.FLOODS:
            self._flood()
        elif wrong is Wrong.LOSES_ANSWERS and request.method in (
                "POST", "PATCH") and not path.rstrip("/").endswith("/Sessions"):
            self._abort()
        else:
            self._say(answer, half=wrong is Wrong.DROPS)

    def _answered(self, request: Request) -> Answer:
        served, wrong = self.served, self.served.machine.wrong
        if served.machine.name == ELSEWHERE:
            return Answer(200, b"{}", (("Content-Type", "application/json"),))
        if wrong is Wrong.SICK:
            return _ill(500)
        if wrong is Wrong.SICK_AT_FIRST and served.answers <= served.machine.sick:
            return _ill(503, ("Retry-After", "1"))
        if wrong is Wrong.REDIRECTS:
            return Answer(307, b"", (("Location", f"https://{served.elsewhere}{request.path}"),))
        return served.door.answer(request)

    def _say(self, answer: Answer, half: bool) -> None:
        head = [
            f"HTTP/1.1 {answer.status} {responses.get(answer.status, '')}",
            *(f"{name}: {value}" for name, value in answer.headers)]
        head += [f"Content-Length: {len(answer.body)}"] * (answer.status != 204)
        whole = "\r\n".join((*head, "", "")).encode() + (answer.body if self.command != "HEAD" else b"")
        self.wfile.write(whole[:len(whole) - len(answer.body) // 2 - 1] if half else whole)
        if half:
            self._abort()

    def _flood(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
                         b"{\"Name\": \"")
        while True:
            self.wfile.write(b"A" * 65536)

    def _abort(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
        with suppress(OSError):
            self.connection.close()

    def log_message(self, format: str, *args: Any) -> None:
        """The log is ours."""


class Listeners:
    """All machines' listening sockets; who listens no more has a socket still, so that no one else gets its
    address."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._sockets: dict[str, socket.socket] = {}
        self._lock = threading.Lock()

    def open(self, served: Served) -> None:
        """Listens, or only keeps the address, as the machine's trouble says."""
        name = served.machine.name
        with self._lock:
            if name in self._sockets:
                with suppress(KeyError):
                    self._selector.unregister(self._sockets[name])
                self._sockets[name].close()
            self._sockets[name] = one = socket.socket()
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(served.address)
            if served.machine.wrong is not Wrong.NO_ONE:
                one.listen(128)
                self._selector.register(one, selectors.EVENT_READ, served)

    def accept(self) -> None:
        """For ever: a thread for each connection."""
        while True:
            for key, _ in self._selector.select(0.1):
                with suppress(OSError):
                    connection, address = key.fileobj.accept()  # type: ignore[union-attr]
                    threading.Thread(target=_connection, args=(key.data, connection, address),
                                     daemon=True).start()


def _connection(served: Served, plain: socket.socket, address: tuple[str, int]) -> None:
    with plain:
        if served.machine.wrong is Wrong.SILENT:
            with suppress(OSError):
                while plain.recv(4096):
                    pass
            return
        with suppress(OSError):
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.settimeout(60)
            with served.context.wrap_socket(plain, server_side=True) as wrapped:
                type("Here", (Handler,), {"served": served})(wrapped, address, None)


def _context(path: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


def _ill(status: int, *headers: tuple[str, str]) -> Answer:
    return Answer(status,
                  json.dumps(resources.error("Internal trouble.")).encode(),
                  (("Content-Type", "application/json"), *headers))


def main(folder: Path) -> None:
    """Serves until the input ends."""
    plan = json.loads((folder / "rack.json").read_text())
    lock = threading.Lock()

    def say(line: dict[str, Any]) -> None:
        with lock:
            print(json.dumps(line), flush=True)

    machines = {one["name"]: Machine.read(one) for one in plan["machines"]}
    log = Log(folder / "requests.jsonl")
    rack = Rack(machines, plan["power_s"], plan["post_s"],
                lambda name, on, boots: say({"power": name, "on": on, "boots": boots}))
    emulator(machines, rack, str(folder))
    served = {
        name: Served(machine, Door(machine, plan["user"], plan["password"], plan["lockout"]),
                     tuple(plan["certificates"][name]), (plan["addresses"][name], plan["port"]), log,
                     f"{plan['addresses'][ELSEWHERE]}:{plan['port']}")
        for name, machine in {**machines, ELSEWHERE: Machine(ELSEWHERE)}.items()}
    listeners = Listeners()
    for one in served.values():
        listeners.open(one)
    threading.Thread(target=listeners.accept, daemon=True).start()
    say({"ready": True})
    for line in sys.stdin:
        told = Machine.read(json.loads(line))
        one, before = served[told.name], machines[told.name]
        machines[told.name] = one.machine = told
        one.door = Door(told, plan["user"], plan["password"], plan["lockout"], tokens=one.door.tokens)
        if Wrong.NO_ONE in (before.wrong, told.wrong):
            listeners.open(one)
        say({"set": told.name})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
