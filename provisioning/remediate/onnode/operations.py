"""Takes one step on this node, alone and once; the answer is a frame. Python 3.8. /run/muster-remediate holds
the name of the newest step's line in the head's ledger and its end; its lock is held while a step is at work.
The same line is never done twice, by whatever head."""

from __future__ import annotations

import fcntl
import glob
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import zlib
from typing import Any, BinaryIO

from provisioning.remediate.onnode.table import (
    CLIENTS,
    COMES_S,
    MODULE_S,
    MODULES,
    REBOOT,
    RESET,
    RESET_S,
    SERVICE_S,
    SERVICES,
    SHORT_S,
    STAYS_S,
    words,
)

NOTE = "/run/muster-remediate"
KMSG = "/dev/kmsg"
GPU = re.compile(r"/dev/nvidia[0-9]+")


class StepError(Exception):
    """It was not done, or did not work; one line for a person. `touched`: something may have been changed."""

    def __init__(self, why: str, touched: bool = False) -> None:
        Exception.__init__(self, why)
        self.touched = touched


def ran(argv: Any, limit: float, touched: bool = True) -> str:
    """What a command prints that ends well within its limit; it and what it started are killed there."""
    try:
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, start_new_session=True)
    except OSError as error:
        raise StepError("%s: %s" % (argv[0], error.strerror), touched) from None
    try:
        message = child.communicate(timeout=limit)[0][-4096:].decode("utf-8", "replace").strip()
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        raise StepError("%s did not end within %g s" % (" ".join(argv), limit), touched) from None
    if child.returncode:
        raise StepError(
            "%s: %s" % (" ".join(argv), message.split("\n")[-1][:300] or "exit %d" % child.returncode),
            touched)
    return message


def shown(unit: str) -> Any:
    """What systemd says of a unit."""
    names = ("LoadState", "ActiveState", "SubState", "Result", "InvocationID", "UnitFileState")
    text = ran(("systemctl", "show", "--no-pager", *("--property=" + name for name in names), "--", unit),
               SHORT_S, False)
    return dict(line.split("=", 1) for line in text.split("\n") if "=" in line)


def restart(step: str) -> str:
    """Afterwards the service runs, and has stayed for a while."""
    unit = SERVICES[step]
    before = shown(unit)
    if before.get("LoadState") != "loaded":
        raise StepError("%s is %s" % (unit,
                                      {"masked": "masked: someone wants it not to run"}.get(
                                          before.get("LoadState"), "not installed")))
    reset, again = words(step)
    try:
        ran(reset, SHORT_S)
    except StepError:
        pass        # it had not failed
    ran(again, SERVICE_S)
    since, held, until = time.monotonic(), "", time.monotonic() + COMES_S
    while True:
        now = shown(unit)
        up = now.get("InvocationID", "") if now.get("ActiveState") == "active" else ""
        if not up or up != held:
            since, held = time.monotonic(), up
        elif time.monotonic() - since >= STAYS_S:
            off = now.get("UnitFileState") == "disabled"
            return "%s was restarted%s" % (
                unit, "; it is disabled, and does not come by itself after a reboot" if off else "")
        if now.get("ActiveState") == "failed" or time.monotonic() > until:
            raise StepError(
                "%s does not stay: %s (%s), %s"
                    % (unit, now.get("ActiveState"), now.get("SubState"), now.get("Result")), True)
        time.sleep(0.5)


def loaded(module: str) -> bool:
    """Whether it has come up; what is built into the kernel has no such file."""
    try:
        with open("/sys/module/%s/initstate" % module) as file:
            return file.read().strip() == "live"
    except FileNotFoundError:
        return False


def load(step: str) -> str:
    """Afterwards the module is loaded."""
    module = MODULES[step]
    if loaded(module):
        raise StepError("%s is loaded already" % module)
    look, do = words(step)
    ran(look, SHORT_S, False)
    ran(do, MODULE_S)
    if not loaded(module):
        raise StepError("%s is not loaded anyway: is it blacklisted, or built in?" % module, True)
    return "%s was loaded" % module


def users() -> Any:
    """The numbers of processes that have a GPU open."""
    found = []
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            if GPU.fullmatch(os.readlink(path)):
                found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return sorted(set(found))


def proven() -> str:
    """Writes to the kernel's log that all GPUs were reset, as the driver does not: what it reported before is
    over then (healthcheck.facts.xid). Gives words for a log that does not take it."""
    try:
        fd = os.open(KMSG, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(fd, b"muster: all GPUs were reset\n")
        finally:
            os.close(fd)
    except OSError as error:
        return "; %s does not take it (%s), so that Xids before it still count" % (KMSG, error.strerror)
    return ""


def reset() -> str:
    """Afterwards all GPUs were reset together, and what had been stopped for it runs again."""
    stopped = []
    try:
        for unit in CLIENTS:
            if shown(unit).get("ActiveState") == "active":
                stopped.append(unit)
                ran(("systemctl", "stop", unit), SERVICE_S)
        left = users()
        if left:
            raise StepError("process %d has a GPU open; nothing was reset" % left[0], bool(stopped))
        ran(RESET, RESET_S)
        noted_there = proven()
    finally:
        for unit in reversed(stopped):
            ran(("systemctl", "start", unit), SERVICE_S)
    return "all GPUs were reset" + noted_there


def done(step: str) -> str:
    if step in SERVICES:
        return restart(step)
    if step in MODULES:
        return load(step)
    if step == "reset-gpu":
        return reset()
    ran(REBOOT, SHORT_S)
    return "it restarts"


def locked(fd: int, wait: float) -> bool:
    """Whether the note is held alone, within so long."""
    until = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.2)


def note_of(fd: int) -> Any:
    """The note; earlier versions wrote its message as `said`."""
    try:
        note = json.loads(os.pread(fd, 8192, 0))
    except ValueError:
        return {}
    return {"message" if name == "said" else name: value for name, value in note.items()}


def noted(fd: int, note: Any) -> None:
    data = json.dumps(note).encode()
    os.pwrite(fd, data, 0)
    os.ftruncate(fd, len(data))


def taken(step: str, line: str, wait: float) -> Any:
    """What became of this line's step, taken now if asked and not yet. `ok` None: unknown end."""
    fd = os.open(NOTE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if not locked(fd, wait):
        ours = note_of(fd).get("line") == line
        message = "it is at work here still" if ours else "another step is at work here"
        return {"ok": None if ours else False, "touched": ours, "message": message}
    before = note_of(fd)
    if before.get("line") == line:
        cut = dict(before, ok=None, touched=True, message="it was cut short here")
        return before if "ok" in before else cut
    if not step:
        return {"ok": False, "touched": False, "message": "it never began here"}
    note: Any = {"line": line, "step": step}
    noted(fd, note)
    try:
        note.update(message=done(step), ok=True, touched=True)
    except StepError as error:
        note.update(message=str(error), ok=False, touched=error.touched)
    noted(fd, note)
    return note


def main(nonce: str, asked: bytes, source: BinaryIO) -> None:
    """Does what is asked of it, and answers."""
    os.environ.clear()
    os.environ.update(PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL="C")
    request = json.loads(asked)
    asks = not request["step"]
    if os.geteuid():
        why = ("this needs root here: log in as root, or go through sudo with --become or `privilege: "
               "become` in the inventory")
        report = {"ok": None if asks else False, "touched": asks, "message": why}
    else:
        try:
            report = taken(request["step"], sys.argv[2], request["wait"])
        except (OSError, ValueError) as error:
            report = {"ok": None, "touched": True, "message": "%s: %s" % (type(error).__name__, error)}
    body = zlib.compress(json.dumps(report).encode())
    sys.stdout.write("muster:%s:frame %d %s\n" % (nonce, len(body), hashlib.sha256(body).hexdigest()))
    sys.stdout.flush()
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()
