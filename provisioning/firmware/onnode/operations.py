"""Reads firmware with the tools that this machine has, and has one of them write a payload, once. Python 3.8.

/var/lib/muster-firmware holds a note of each update that was begun here, under the head's name for it, and
its lock is held while one is at work. The note is written before the tool starts, and what has a note is
never begun: not by a head that was cut off and asks again, and not by a program that comes late, since a head
that settles writes a note, too. The tool runs in a session of its own and is never killed: half a flash is
worse than a late one.

fwupdmgr(1): `install FILE DEVICE-ID`; exit 0 done, 1 failed, 2 nothing to do, 3 not found. mlxfwmanager -h:
-d takes a PCI address, -i an image, -u updates, -y answers its questions.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zlib
from typing import Any, BinaryIO

NOTES = "/var/lib/muster-firmware"
MELLANOX, NETWORK = "0x15b3", ("0x0200", "0x0207")      # PCI vendor; classes Ethernet and InfiniBand
PROGRAMS = {"fwupd": ("fwupdmgr",), "mlxfwmanager": ("mlxfwmanager", "mstfwmanager", "mlxup")}
BIN = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
QUIET = ("--json", "--no-reboot-check", "--no-unreported-check", "--no-metadata-check", "--no-remote-check",
         "--assume-yes")
KEY = re.compile(r"[0-9a-z-]{1,64}")
DEVICE = re.compile(r"[0-9a-f]{40}|[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
MOST_TEXT, MOST_PAYLOAD, MOST_NOTES, MOST_DEVICES = 1 << 20, 1 << 30, 32, 64
LOOK_S, LOCK_S = 60, 5


class NotWritten(Exception):
    """Nothing was written, for certain; one line for a person."""


class BandMachine:
    """This machine; `root` is another root folder, in tests."""

    def __init__(self, root: str, nonce: str, source: BinaryIO) -> None:
        self.root, self.nonce, self.source = root, nonce, source
        self.path = ":".join(root + folder for folder in BIN)
        self.notes = root + NOTES

    # What is there

    def program(self, tool: str) -> str:
        """Where the tool lies, "" where it is not installed."""
        found = [shutil.which(name, path=self.path) for name in PROGRAMS[tool]]
        return next((one for one in found if one), "")

    def asked(self, argv: Any) -> Any:
        """What a command prints that only reads: it is killed at its limit."""
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=LOOK_S)
        except OSError as error:
            return {"why": "%s: %s" % (os.path.basename(argv[0]), error.strerror)}
        except subprocess.TimeoutExpired:
            return {"why": "%s did not end within %d s" % (os.path.basename(argv[0]), LOOK_S)}
        last = done.stderr[-2000:].decode("utf-8", "replace").strip().split("\n")[-1]
        return {"code": done.returncode, "text": done.stdout[:MOST_TEXT].decode("utf-8", "replace"),
                "why": last[:300]}

    def read(self, tools: Any) -> Any:
        """What each tool says, raw: the head reads it."""
        found: Any = {}
        for tool in tools:
            program = self.program(tool)
            if not program:
                found[tool] = {"missing": "%s is not installed there" % " or ".join(PROGRAMS[tool])}
            elif tool == "fwupd":
                found[tool] = {"outputs": {"": self.asked((program, "get-devices", *QUIET[:1]))}}
            else:
                found[tool] = {"outputs": {pci: self.adapter(program, pci) for pci in self.adapters()}}
        return found

    def adapters(self) -> Any:
        """The PCI addresses of adapters' first functions; other functions have the same flash."""
        found = []
        for folder in sorted(glob.glob(glob.escape(self.root) + "/sys/bus/pci/devices/*.0")):
            vendor, kind = (line(os.path.join(folder, name)) for name in ("vendor", "class"))
            if (vendor == MELLANOX and kind[:6] in NETWORK
                    and not os.path.lexists(os.path.join(folder, "physfn"))):
                found.append(os.path.basename(folder))
        return found[:MOST_DEVICES]

    def adapter(self, program: str, pci: str) -> Any:
        said = self.asked((program, "-d", pci, "--query", "--query-format", "XML"))
        if "<Devices>" in said.get("text", "") or "code" not in said:
            return said
        return self.asked((program, "-d", pci, "--query"))      # an older one has text alone

    # Notes

    def locked(self) -> int:
        """The lock of the notes, -1 where another update is at work here."""
        os.makedirs(self.notes, 0o700, exist_ok=True)
        there = os.lstat(self.notes)
        if not os.path.isdir(self.notes) or os.path.islink(self.notes) or there.st_uid != os.geteuid():
            raise NotWritten("%s is not a folder of ours" % NOTES)
        os.chmod(self.notes, 0o700)
        fd = os.open(self.notes + "/lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        until = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return fd
            except OSError:
                if time.monotonic() >= until:
                    os.close(fd)
                    return -1
                time.sleep(0.1)

    def note(self, key: str) -> Any:
        """The note of an update, None where there is none. Earlier versions wrote its message as `said`."""
        try:
            with open("%s/%s.json" % (self.notes, key), "rb") as file:
                found = json.loads(file.read(MOST_TEXT))
            if not isinstance(found, dict):
                return {}
            return {"message" if name == "said" else name: value for name, value in found.items()}
        except FileNotFoundError:
            return None
        except ValueError:
            return {}

    def write(self, key: str, note: Any) -> None:
        """Afterwards the note is on the disk, whole."""
        path = "%s/%s.json" % (self.notes, key)
        with open(path + ".new", "wb") as file:
            file.write(json.dumps(note).encode())
            file.flush()
            os.fsync(file.fileno())
        os.rename(path + ".new", path)
        folder = os.open(self.notes, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def tidy(self) -> None:
        """Removes payloads that a killed program left, and all but the newest notes; under the lock."""
        for left in glob.glob(glob.escape(self.notes) + "/payload-*"):
            shutil.rmtree(left, ignore_errors=True)
        notes = sorted(glob.glob(glob.escape(self.notes) + "/*.json"), key=os.path.getmtime)
        for old in notes[:-MOST_NOTES]:
            os.unlink(old)

    # What is done

    def settle(self, key: str) -> Any:
        """What became of an update that someone may have begun. One that has not begun by now never will."""
        lock = self.locked()
        note = self.note(key)
        if note is not None and "ok" in note:
            return note
        if lock < 0:
            return {"ok": None, "running": True, "message": "a tool is at work there"}
        if note is not None:
            return {"ok": None, "message": "it was cut short there while the tool wrote"}
        self.write(key, {"ok": False, "never": True, "message": "it never began there"})
        return self.note(key)

    def install(self, request: Any) -> Any:
        """Has the tool write the payload to the devices in turn; the answer may come before the tool ends."""
        key, tool, named = request["key"], request["tool"], request["devices"]
        if KEY.fullmatch(key) is None or not named or any(DEVICE.fullmatch(one) is None for one in named):
            raise NotWritten("the request is not in its form")
        program = self.program(tool)
        if not program:
            raise NotWritten("%s is not installed there" % " or ".join(PROGRAMS[tool]))
        lock = self.locked()
        if lock < 0:
            raise NotWritten("another update is at work there")
        note = self.note(key)
        if note is not None:
            return note if "ok" in note else {"ok": None, "message": "it was begun there before"}
        self.tidy()
        folder = "%s/payload-%s" % (self.notes, key)
        try:
            path = self.placed(folder, request["name"], request["sha256"])
            self.write(key, {"tool": tool, "devices": named})
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        child = os.fork()
        if not child:
            self.worked(key, tool, program, path, named)
        until = time.monotonic() + request["limit"]
        while time.monotonic() < until:
            if os.waitpid(child, os.WNOHANG)[0]:
                return self.note(key)
            time.sleep(0.05)
        return {"ok": None, "running": True, "message": "the tool is at work there still"}

    def placed(self, folder: str, name: str, digest: str) -> str:
        """The payload in a folder that only we can read, compared with its digest as it lies there."""
        data = self.want("payload")
        os.mkdir(folder, 0o700)
        path = "%s/%s" % (folder, re.sub(r"[^A-Za-z0-9._-]", "_", name)[-80:].lstrip(".-") or "payload")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with open(path, "rb") as file:
            there = hashlib.sha256(file.read()).hexdigest()
        if there != digest:
            raise NotWritten("the payload there has the digest %s, and not %s" % (there, digest))
        return path

    def want(self, name: str) -> bytes:
        """What the head has under this name."""
        sys.stdout.write("muster:%s:want %s\n" % (self.nonce, name))
        sys.stdout.flush()
        size = int(self.source.readline() or b"0")
        data = self.source.read(size)
        if not size or len(data) < size:
            raise NotWritten("the payload did not arrive whole")
        machine = zlib.decompressobj()
        found = machine.decompress(data, MOST_PAYLOAD + 1)
        if len(found) > MOST_PAYLOAD or not machine.eof:
            raise NotWritten("the payload is over %d MiB" % (MOST_PAYLOAD >> 20))
        return found

    def worked(self, key: str, tool: str, program: str, path: str, named: Any) -> None:
        """In a child of its own, which outlives its parent: the tool, the note, and nothing left behind."""
        try:
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
            note = {"ok": True, "message": "written"}
            for at, one in enumerate(named):
                ok, message = written(tool, program, path, one)
                note = {"ok": ok, "message": message}
                if not ok:
                    before = "; %d before it were written" % at if at else ""
                    note["message"] = "%s: %s%s" % (one, message, before)
                    break
            self.write(key, note)
            shutil.rmtree(os.path.dirname(path), ignore_errors=True)
        finally:
            os._exit(0)


def line(path: str) -> str:
    """A line of a file, "" where it cannot be read."""
    try:
        with open(path) as file:
            return file.read(100).strip()
    except (OSError, ValueError):
        return ""


def written(tool: str, program: str, path: str, device: str) -> Any:
    """Whether the tool wrote it, and what it said. It is waited for, however long it takes."""
    argv: Any = ((program, "install", path, device, *QUIET) if tool == "fwupd"
                 else (program, "-d", device, "-i", path, "-u", "-y"))
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
    except OSError as error:
        return False, "%s: %s" % (os.path.basename(program), error.strerror)
    text = done.stdout[-MOST_TEXT:].decode("utf-8", "replace")
    last = ([one.strip() for one in text.split("\n") if one.strip()] or ["it said nothing"])[-1][:300]
    if tool == "fwupd":
        return not done.returncode, "written" if not done.returncode else said_of(text) or last
    if not done.returncode and "Restart needed for updates to take effect" in text:
        return True, "written"
    return False, last if done.returncode else "it wrote nothing: %s" % last


def said_of(text: str) -> str:
    """The message of an error of fwupdmgr, "" where there is none."""
    try:
        return str(json.loads(text)["Error"]["Message"])[:300]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""


def main(nonce: str, asked: bytes, source: BinaryIO) -> None:
    """Does what is asked of it, and answers in one frame."""
    os.umask(0o077)
    request = json.loads(asked)
    os.environ.clear()
    machine = BandMachine(request["root"], nonce, source)
    os.environ.update(PATH=machine.path, LC_ALL="C.UTF-8", NO_COLOR="1", **request["environment"])
    report: Any = {"root": os.geteuid() == 0 or bool(request["root"])}
    try:
        if not report["root"]:
            raise NotWritten("this needs root there: log in as root, or go through sudo with `privilege: "
                           "become` in the inventory")
        if request["do"] == "read":
            report["tools"] = machine.read(request["tools"])
            report["up"] = float(line(machine.root + "/proc/uptime").split()[0])
        elif request["do"] == "settle":
            report.update(machine.settle(request["key"]))
        else:
            report.update(machine.install(request))
    except NotWritten as error:
        report.update(ok=False, never=True, message=str(error))
    except (OSError, ValueError, IndexError) as error:
        report.update(ok=None, message="%s: %s" % (type(error).__name__, error))
    body = zlib.compress(json.dumps(report).encode())
    sys.stdout.write("muster:%s:frame %d %s\n" % (nonce, len(body), hashlib.sha256(body).hexdigest()))
    sys.stdout.flush()
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()
