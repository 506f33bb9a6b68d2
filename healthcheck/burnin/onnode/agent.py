"""Connects the head with this node's ranks: starts the nursery, forwards messages, ends when no one waits.

Python 3.8. Each of three ends everything: the end of standard input (the transport's lifeline), of the
connection to the head, and of the nursery.
"""

from __future__ import annotations

import hashlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from typing import Any, BinaryIO, NoReturn

from healthcheck.burnin.wire import (
    AGENT,
    BEAT_S,
    NODE_WORD,
    PYTHON_WORD,
    TOKEN,
    Frames,
    HeadConnection,
    connected,
    greeted,
    packed,
)

# Reads the nursery's program from standard input, and leaves the rest to it.
BOOT = ('import sys;i=sys.stdin.buffer;g={"__name__":"muster"};'
        'exec(compile(i.read(int(i.readline())),"muster","exec"),g);g["nursery"](i)')
NO_ANSWER_S = 30.0      # without an acknowledgement of the head's machine
END_S = 3.0             # time for the nursery to end its ranks


def last_line(file: int) -> str:
    """The last printed line that is not empty."""
    text = os.pread(file, 4096, max(0, os.fstat(file).st_size - 4096)).decode("utf-8", "replace")
    return next((line.strip()[:300] for line in reversed(text.split("\n")) if line.strip()), "")


class BurnInAgent:
    """The agent's state: the connection to the head, and the nursery."""

    def __init__(self, document: dict[str, Any], node: str) -> None:
        self.document, self.node = document, node
        self.over = threading.Event()
        self.why = ""
        self.heard = time.monotonic()
        self.writing = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.wake_reader, self.wake_writer = os.pipe()      # wakes the main thread
        sock = connected(document["hosts"], document["port"])
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(NO_ANSWER_S * 1000))
        self.address, self.head = sock.getsockname()[0], sock.getpeername()[0]
        self.link: HeadConnection = greeted(sock, AGENT, node, document["run"], document["token"])

    def finish(self, why: str) -> None:
        """Ends the agent; the first reason counts. Waits for no lock, as its holder may hang."""
        self.why = self.why or why
        self.over.set()
        os.write(self.wake_writer, b"x")

    def start_nursery(self) -> None:
        """Starts the nursery, reports this node to the head, then forwards messages. Runs in a thread."""
        words = [*self.document["python"], "-I", "-c", BOOT]
        here: dict[str, Any] = {"node": self.node, "python": "%d.%d.%d" % sys.version_info[:3],
                                "host": os.uname().nodename, "gpus": 0, "torch": None, "facts": {}}
        output = os.memfd_create("nursery")
        try:
            process = self.process = subprocess.Popen(words, bufsize=0, stdin=subprocess.PIPE,
                                                      stdout=subprocess.PIPE, stderr=output,
                                                      start_new_session=True)
        except OSError as error:
            self.link.send({"here": {**here, "why": "%s: %s" % (words[0], error.strerror)}})
            return
        source = self.document["nursery"].encode()
        try:
            self.write(b"%d\n%b" % (len(source), source))
        except OSError:
            pass    # it has ended; the end of its output shows it
        frames = Frames()
        while True:
            data = os.read(process.stdout.fileno() if process.stdout else -1, 1 << 16)
            if not data:
                break
            self.heard = time.monotonic()
            for message in frames.feed(data):
                if "up" in message:
                    settings = {key: self.document[key] for key in ("run", "token", "port")}
                    settings.update(node=self.node, address=self.address, hosts=[self.head])
                    self.forward({"settings": settings})
                    here.update(message["up"])
                    self.link.send({"here": here})
                elif message.get("ranks") != []:
                    self.link.send(message)
        code = process.wait()
        why = "%s ended with %d, and printed %s" % (words[0], code, last_line(output) or "nothing")
        if here["torch"] is None and "why" not in here:
            self.link.send({"here": {**here, "why": why}})
        else:
            self.finish(why)

    def forward(self, message: dict[str, Any]) -> None:
        """Sends a message to the nursery; without one, ranks end before they begin."""
        process = self.process
        if process is None or process.poll() is not None:
            for rank, _ in message.get("task", {}).get("seats", ()):
                self.link.send({"ended": {"task": message["task"]["id"], "rank": rank, "code": 127,
                                          "signal": None, "output": "there is no PyTorch on this node"}})
            return
        self.write(packed(message))

    def write(self, data: bytes) -> None:
        """Writes all of it to the nursery."""
        if self.process is not None and self.process.stdin is not None:
            with self.writing:
                while data:
                    data = data[self.process.stdin.write(data):]

    def listen(self) -> None:
        """Forwards the head's messages. Runs in a thread."""
        while True:
            message = self.link.receive()
            if "leave" in message:
                self.finish("the head ended it")
                return
            self.forward(message)

    def beat(self) -> None:
        """Reports that the agent lives, and how old the nursery's last message is. Runs in a thread."""
        number = 0
        while not self.over.wait(BEAT_S / 2):
            number += 1
            self.link.send({"beat": number, "nursery": round(time.monotonic() - self.heard, 3)})

    def run_part(self, part: Any, name: str) -> None:
        """A thread whose exception ends the agent."""
        try:
            part()
        except Exception as error:
            self.finish("%s: %s" % (name, str(error) or type(error).__name__))

    def wait(self, lifeline: int) -> bool:
        """Returns when the agent is to end: whether the transport still waits for an answer."""
        for part, name in ((self.start_nursery, "nursery"), (self.listen, "head"), (self.beat, "head")):
            threading.Thread(target=self.run_part, args=(part, name), daemon=True).start()
        with selectors.DefaultSelector() as selector:
            selector.register(lifeline, selectors.EVENT_READ)
            selector.register(self.wake_reader, selectors.EVENT_READ)
            while not self.over.is_set():
                for key, _ in selector.select():
                    if key.fd == lifeline and not os.read(lifeline, 4096):
                        return False
        return True

    def end(self) -> None:
        """Ends the nursery and all ranks. A container's get no signal: they see their input end."""
        process = self.process
        if process is None:
            return
        try:
            if process.stdin is not None:
                process.stdin.close()
        except OSError:
            pass
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            pass


def main(nonce: str, document: bytes, stdin: BinaryIO) -> NoReturn:
    """The agent's main function: `document` is JSON (`healthcheck.burnin.program`), `stdin` the lifeline."""
    settings = json.loads(document.decode())
    names = [word[len(NODE_WORD):] for word in sys.argv[2:] if word.startswith(NODE_WORD)]
    node = names[0] if names else ""
    sys.stdout.buffer.write(("muster:%s:want %s\n" % (nonce, TOKEN)).encode())
    sys.stdout.buffer.flush()
    settings["token"] = stdin.read(int(stdin.readline() or os._exit(1))).decode()
    settings["python"] = ([word[len(PYTHON_WORD):] for word in sys.argv[2:] if word.startswith(PYTHON_WORD)]
                      or settings["python"])
    for name in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(name, signal.SIG_IGN)
    os.chdir("/")
    agent = None
    try:
        agent = BurnInAgent(settings, node)
    except Exception as error:
        why = str(error) or type(error).__name__
    else:
        wanted = agent.wait(stdin.fileno())
        agent.end()
        if not wanted:
            os._exit(1)
        why = agent.why
    body = zlib.compress(json.dumps({"node": node, "left": why}).encode())
    sys.stdout.buffer.write(
        ("muster:%s:frame %d %s\n" % (nonce, len(body), hashlib.sha256(body).hexdigest())).encode() + body)
    sys.stdout.buffer.flush()
    os._exit(0)
