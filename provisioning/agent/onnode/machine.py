"""The node's side of the agent's commands: what lies there, may be changed, and starts it. Python 3.8.
Nothing is switched to before all of it lies there, its checksums hold, and it has been started once; so
whenever this is killed, a whole version is in use, and doing the same again finishes it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
import sys
import zlib
from typing import Any, BinaryIO

from provisioning.agent.onnode.files import InstallError, gone, put, synced

MOST = 64 << 20     # bytes of one file
VERSION = re.compile(r"[0-9a-f]{12}")
# What means nothing to systemd, to a shell or to cron.
PLAIN = re.compile(r"/[A-Za-z0-9_./+-]{1,200}")
TRY_S, SYSTEMCTL_S = 20, 60
# While `current` and `previous` change places, this leads to what was `previous`.
SWAP = ".swap"


class AgentMachine:
    """What is asked, of a machine whose root is `root` (empty but in tests)."""

    def __init__(self, nonce: str, request: dict[str, Any], words: list[str], source: BinaryIO) -> None:
        self.nonce = nonce
        self.request = request
        self.digest, self.own, self.delay = words
        self.source = source
        self.root: str = request["root"]
        self.base: str = self.root + request["base"]
        self.report: dict[str, Any] = {
            "python": "%d.%d.%d" % sys.version_info[:3], "machine": os.uname().machine, "changed": []}
        self.lock = -1

    def want(self, name: str) -> bytes:
        """One of what the head has; an end of input, or what is not the whole, ends this."""
        sys.stdout.write("muster:%s:want %s\n" % (self.nonce, name))
        sys.stdout.flush()
        size = int(self.source.readline() or b"0")
        data = self.source.read(size)
        if not size or len(data) < size:
            raise InstallError("%s did not arrive whole, so nothing was changed" % name)
        machine = zlib.decompressobj()
        found = machine.decompress(data, MOST + 1)
        if len(found) > MOST or not machine.eof:
            raise InstallError("%s is over %d MiB" % (name, MOST >> 20))
        return found

    def changed(self, what: str) -> None:
        self.report["changed"].append(what)

    # What is there

    def linked(self, name: str) -> str | None:
        """The version to which `current` or `previous` leads."""
        try:
            found = os.readlink(os.path.join(self.base, name))
        except OSError:
            return None
        return found if VERSION.fullmatch(found) and os.path.isdir(os.path.join(self.base, found)) else None

    def digest_of(self, version: str) -> str:
        """SHA-256 over a version's files, as `layout.digest` makes it; empty where one is missing."""
        lines = ""
        for name in self.request["names"]:
            try:
                with open(os.path.join(self.base, version, name), "rb") as file:
                    data = file.read()
            except OSError:
                return ""
            lines += "%s %d %s\n" % (hashlib.sha256(data).hexdigest(), len(data), name)
        return hashlib.sha256(lines.encode()).hexdigest()

    def is_whole(self, version: str | None) -> bool:
        return version is not None and self.digest_of(version)[:12] == version

    def systemd(self) -> bool:
        return os.path.isdir(self.root + "/run/systemd/system")

    def systemctl(self, *words: str) -> str:
        argv = ["systemctl", "--no-ask-password", "--quiet", *words]
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=SYSTEMCTL_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InstallError("systemctl %s: %s" % (" ".join(words), error)) from None
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().split("\n")
            raise InstallError(
                "systemctl %s: %s" % (" ".join(words), lines[-1] or "exit %d" % done.returncode))
        return done.stdout.decode("utf-8", "replace")

    def shown(self, unit: str, *names: str) -> dict[str, str]:
        """These properties of a unit."""
        text = self.systemctl("show", unit, *("--property=%s" % name for name in names))
        return dict(line.split("=", 1) for line in text.split("\n") if "=" in line)

    # What may be changed

    def alone(self, *, make: bool) -> bool:
        """Takes the folder for this process alone; False where there is none and none is to be made."""
        if make and not self.request["dry"]:
            os.makedirs(os.path.dirname(self.base), 0o755, exist_ok=True)
            try:
                os.mkdir(self.base, 0o755)
            except FileExistsError:
                pass
        try:
            self.lock = os.open(self.base, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise InstallError("%s: %s" % (self.base, error.strerror)) from None
        found = os.fstat(self.lock)
        if found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise InstallError(
                "%s: others than root may write to it; root is to own it, with mode 0755" % self.base)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(self.base).st_ino != found.st_ino:
                raise BlockingIOError
        except (BlockingIOError, FileNotFoundError):
            raise InstallError(
                "another muster agent command is at work here; try again when it has ended") from None
        self.unswapped()
        return True

    def leave(self) -> None:
        """Others may take the folder again."""
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1

    def swap(self) -> None:
        """Exchanges `current` and `previous`; killed in between, no version is forgotten."""
        now, before = self.linked("current"), self.linked("previous")
        self.link(SWAP, str(before))
        self.link("previous", str(now))
        self.link("current", str(before))
        gone(os.path.join(self.base, SWAP))

    def unswapped(self) -> None:
        """Afterwards a change of places that was cut short has not begun, or has ended."""
        before = self.linked(SWAP)
        if before is not None and not self.request["dry"]:
            if self.linked("current") != before:
                self.link("previous", before)
            gone(os.path.join(self.base, SWAP))

    def link(self, name: str, version: str) -> None:
        """Afterwards the link leads there."""
        new = os.path.join(self.base, ".%s.new" % name)
        gone(new)
        os.symlink(version, new)
        os.rename(new, os.path.join(self.base, name))
        synced(self.base)

    def sweep(self) -> None:
        """Takes away what a killed command has left, and versions that nothing leads to."""
        kept = {self.linked("current"), self.linked("previous"), self.linked(SWAP), self.digest[:12]}
        for name in sorted(os.listdir(self.base)):
            if name.endswith((".tmp", ".new")) or (VERSION.fullmatch(name) and name not in kept):
                gone(os.path.join(self.base, name))

    def fill(self, version: str) -> None:
        """Afterwards the version lies there whole, and has been started once."""
        new = os.path.join(self.base, version + ".tmp")
        os.mkdir(new, 0o755)
        for name in self.request["names"]:
            put(os.path.join(new, name), self.file(name), 0o644)
        if self.digest_of(version + ".tmp") != self.digest:
            gone(new)
            raise InstallError(
                "what arrived is not what was sent: its checksum does not hold; nothing was changed")
        argv = [self.python(), "-I", "-S", os.path.join(new, self.request["names"][0]), "--help"]
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, timeout=TRY_S)
            why = "" if not done.returncode else done.stderr.decode(
                "utf-8", "replace").strip().split("\n")[-1] or str(done.returncode)
        except (OSError, subprocess.TimeoutExpired) as error:
            why = str(error)
        if why:
            gone(new)
            raise InstallError("it does not start with %s, so nothing was changed: %s" % (self.python(), why))
        # What lies there by this name is damaged, or whoever called this had not come here.
        gone(os.path.join(self.base, version))
        os.rename(new, os.path.join(self.base, version))
        synced(self.base)

    def file(self, name: str) -> bytes:
        """One file of the version: from another version here that has the same, else from the head."""
        known = self.request["shared"].get(name)
        for version in {self.linked("current"), self.linked("previous")} - {None} if known else ():
            try:
                with open(os.path.join(self.base, str(version), name), "rb") as file:
                    data = file.read()
            except OSError:
                continue
            if hashlib.sha256(data).hexdigest() == known[1]:
                return data
        return self.want(known[0] if known else self.own)

    def python(self) -> str:
        if not PLAIN.fullmatch(sys.executable or ""):
            raise InstallError("the path of Python here, %s, cannot stand in a unit; name another with "
                               "`python:` in the inventory" % ascii(sys.executable))
        return sys.executable
