"""What srun starts on a node: runs the program, and carries its output as lines that survive srun's labels.

It is not imported there: its text is sent as an argument, and `relay` is called. srun delivers no standard
input before every node of the step is connected, and none at all where one is dead, so everything that the
program reads comes along as arguments, and the lifeline is a connection of our own to the head: where that
ends, the program's input ends. Python 3.8.

Records on standard output: `.` and base64 of the program's output; `!` and base64 of the end of its error
output; `=NONCE no REASON` where the program was not started. Each ends with `~` and a newline.
"""

from __future__ import annotations

import base64
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Dict, List, Sequence

PIECE = 570             # bytes of output in a line of 762; Slurm cuts lines after 1024
ENDING_S = 6.0          # for the program after its input has ended
CONNECT_S = 4.0
MOST_ERRORS = 4096
WANT = rb"^muster:%s:want ([a-z0-9_.-]{1,40})\r?$"


class Unfit(Exception):
    """The program cannot be run here; the message says why, in one line."""


def leave_step(proc: str = "/proc", groups: str = "/sys/fs/cgroup") -> None:
    """Leaves the step's control groups: Slurm may deny them the GPUs, which would look missing. Raises Unfit
    where that fails, or the step has mounts of its own."""
    def confined() -> List[str]:
        with open(proc + "/self/cgroup", encoding="ascii", errors="replace") as file:
            return [line.strip() for line in file if re.search(r"slurm.*(job|step)_", line)]

    try:
        for line in confined():
            _, names, _ = line.split(":", 2)
            names = names[5:] if names.startswith("name=") else names
            with open("/".join(part for part in (groups, names, "cgroup.procs") if part), "w") as file:
                file.write("0")
        left = confined()
    except OSError as error:
        raise Unfit("the step cannot leave Slurm's control group: %s" % error.strerror) from None
    if left:
        raise Unfit("the step stays in Slurm's control group %s" % left[0][:100])
    try:
        own, first = (os.readlink("%s/%s/ns/mnt" % (proc, who)) for who in ("self", "1"))
    except OSError:
        return
    if own != first:
        raise Unfit("Slurm gives steps mounts of their own (job_container)")


def lifeline(hosts: Sequence[str], port: int, greeting: bytes) -> socket.socket:
    """A connection to the head; raises Unfit without one."""
    why = "Slurm names no address of the head"
    for host in hosts:
        try:
            line = socket.create_connection((host, port), CONNECT_S)
            line.settimeout(None)
            # A head that lost its power closes nothing.
            line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
                line.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
            line.sendall(greeting)
            return line
        except OSError as error:
            why = "no connection back to the head at %s port %d: %s" % (host, port, error.strerror or error)
    raise Unfit(why)


def send(mark: bytes, data: bytes) -> None:
    """Prints bytes as lines."""
    for at in range(0, len(data), PIECE):
        line = memoryview(mark + base64.b64encode(data[at:at + PIECE]) + b"~\n")
        while line:
            line = line[os.write(1, line):]


def watch(line: socket.socket, program: subprocess.Popen[bytes]) -> None:
    """Ends the program once the lifeline has ended: by the end of its input, then by SIGKILL."""
    try:
        while line.recv(64):
            pass
    except OSError:
        pass
    assert program.stdin is not None  # noqa: S101  (narrowing: it is a pipe)
    try:
        os.close(program.stdin.fileno())
    except OSError:
        pass
    time.sleep(ENDING_S)
    try:
        os.killpg(program.pid, signal.SIGKILL)
    except OSError:
        pass
    os._exit(1)


def talk(program: subprocess.Popen[bytes], nonce: str, payload: bytes, extras: Dict[str, bytes]) -> int:
    """Carries the program's output until it ends, and answers its requests. Returns its exit status."""
    assert program.stdin and program.stdout and program.stderr  # noqa: S101  (narrowing: three pipes)
    to = program.stdin.fileno()

    def give(data: bytes) -> None:
        try:
            while data:
                data = data[os.write(to, data):]
        except OSError:
            pass

    want = re.compile(WANT % nonce.encode(), re.MULTILINE)
    frame = b"muster:%s:frame " % nonce.encode()
    head, errors = b"", b""
    scanning = True
    poll = select.poll()
    out, err = program.stdout.fileno(), program.stderr.fileno()
    poll.register(out, select.POLLIN)
    poll.register(err, select.POLLIN)
    threading.Thread(target=give, args=(payload,), daemon=True).start()
    opened = {out, err}
    while opened:
        for fd, _ in poll.poll():
            data = os.read(fd, 1 << 16)
            if not data:
                poll.unregister(fd)
                opened.discard(fd)
            elif fd == err:
                errors = (errors + data)[-MOST_ERRORS:]
            else:
                send(b".", data)
                head += data if scanning else b""
                scanning = scanning and frame not in head and len(head) < 1 << 20
                for found in want.findall(head):
                    extra = extras.pop(found.decode(), None)
                    if extra is not None:
                        give(b"%d\n" % len(extra) + extra)
    send(b"!", errors)
    status = program.wait()
    return 128 - status if status < 0 else status


def relay(document: Dict[str, object], parts: List[bytes]) -> None:
    """Runs the program of the document (`argv`, `nonce`, `port`, `token`, `extras`); it reads `parts`."""
    nonce = str(document["nonce"])
    try:
        hosts = [os.environ[name] for name in ("SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST")
                 if os.environ.get(name)]
        label = "%s %s\n" % (document["token"], os.environ.get("SLURM_PROCID", ""))
        leave_step()
        line = lifeline(hosts, int(str(document["port"])), label.encode())
        argv = [str(word) for word in document["argv"]]  # type: ignore[attr-defined]
        program = subprocess.Popen(argv, bufsize=0, start_new_session=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except Unfit as error:
        os.write(1, ("=%s no %s~\n" % (nonce, error)).encode())
        sys.exit(75)
    except FileNotFoundError as error:
        os.write(1, ("%s: not found\n" % error.filename).encode())
        sys.exit(127)
    threading.Thread(target=watch, args=(line, program), daemon=True).start()
    names = [str(name) for name in document["extras"]]  # type: ignore[attr-defined]
    os._exit(talk(program, nonce, parts[0], dict(zip(names, parts[1:]))))  # noqa: B905  (3.10)
