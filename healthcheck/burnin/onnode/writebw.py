"""Runs a node's part of a round of ib_write_bw, all its sides at once, each on a core beside its adapter.

Python 3.8. A side that connects tries until the other one listens. The end of standard input ends everything.
"""

from __future__ import annotations

import hashlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
import zlib
from typing import Any, BinaryIO, NoReturn

SIDES = "sides"
CPUS = "/sys/class/infiniband/%s/device/local_cpulist"
AGAIN_S = 0.3
# What perftest says where no one listens yet (src/perftest_communication.c).
NOT_YET = "Couldn't connect to "
MOST = 65536        # characters of a side's output that are sent back
KEPT = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH")


def cpus_of(text: str) -> list[int]:
    """The numbers of a list of CPUs such as 0-3,8."""
    found: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            found += range(int(first), int(last or first) + 1)
    return found


class Sides:
    """The sides of this node; `results` are those that are over."""

    def __init__(self, sides: Any) -> None:
        self.sides = sides
        self.results: list[dict[str, Any]] = []
        self.running: dict[int, Any] = {}
        self.lock = threading.Lock()
        self.ended = False
        self.reader, self.writer = os.pipe()
        self.taken: dict[str, int] = {}

    def core(self, device: str) -> int | None:
        """A core beside this device that no other side has, while there are any; None where none is known."""
        try:
            with open(CPUS % os.path.basename(device)) as file:
                text = file.read(4096)
        except OSError:
            return None
        cpus = [cpu for cpu in cpus_of(text) if cpu in os.sched_getaffinity(0)]
        turn = self.taken[text] = self.taken.get(text, -1) + 1
        return cpus[turn % len(cpus)] if cpus else None

    def run(self, number: int, core: int | None) -> None:
        """One side, to its end."""
        side, until = self.sides[number], time.monotonic() + self.sides[number]["connect_s"]
        while True:
            began = time.monotonic()
            code, text = self.once(number, core)
            again = side["connects"] and code and NOT_YET in text and time.monotonic() < until
            if not again or self.ended:
                break
            time.sleep(AGAIN_S)
        with self.lock:
            self.results.append({"id": side["id"], "side": side["side"], "code": code, "text": text[-MOST:],
                                 "core": core, "began": began, "over": time.monotonic()})
            if len(self.results) == len(self.sides):
                os.write(self.writer, b".")

    def once(self, number: int, core: int | None) -> tuple[int, str]:
        """Its exit code and what it printed."""
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        try:
            with self.lock:
                if self.ended:
                    return 1, "it was ended"
                process = self.running[number] = subprocess.Popen(
                    self.sides[number]["words"], env=kept, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, start_new_session=True)
            if core is not None:
                os.sched_setaffinity(process.pid, {core})
        except OSError as error:
            return 127, "%s: %s" % (self.sides[number]["words"][0], error.strerror)
        data = b""
        while process.stdout is not None and (piece := process.stdout.read(MOST)):
            data = (data + piece)[-MOST:]
        return process.wait(), data.decode("utf-8", "replace")

    def wait(self, lifeline: int) -> bool:
        """Returns when all are over: whether the transport still waits for an answer."""
        for number, side in enumerate(self.sides):
            threading.Thread(target=self.run, args=(number, self.core(side["device"])), daemon=True).start()
        with selectors.DefaultSelector() as selector:
            selector.register(lifeline, selectors.EVENT_READ)
            selector.register(self.reader, selectors.EVENT_READ)
            while self.sides:
                for key, _ in selector.select():
                    if key.fd == self.reader:
                        return True
                    if not os.read(lifeline, 4096):
                        return False
        return True

    def end(self) -> None:
        """Kills what still runs."""
        with self.lock:
            self.ended = True
            for process in self.running.values():
                if process.poll() is None:
                    try:
                        os.killpg(process.pid, signal.SIGKILL)
                    except OSError:
                        pass


def main(nonce: str, document: bytes, stdin: BinaryIO) -> NoReturn:
    """Asks for this node's sides, runs them, and answers with what each printed."""
    sys.stdout.buffer.write(("muster:%s:want %s\n" % (nonce, SIDES)).encode())
    sys.stdout.buffer.flush()
    sides = Sides(json.loads(stdin.read(int(stdin.readline() or os._exit(1))).decode()))
    for name in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(name, signal.SIG_IGN)
    os.chdir("/")
    wanted = sides.wait(stdin.fileno())
    sides.end()
    if not wanted:
        os._exit(1)
    body = zlib.compress(json.dumps({"now": time.monotonic(), "sides": sides.results}).encode())
    sys.stdout.buffer.write(
        ("muster:%s:frame %d %s\n" % (nonce, len(body), hashlib.sha256(body).hexdigest())).encode() + body)
    sys.stdout.buffer.flush()
    os._exit(0)
