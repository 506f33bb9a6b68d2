"""Starts one virtual machine, runs commands in it, and reads its kernel log as /dev/kmsg gives it, record by
record."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.testbed.sshd import wait_until
from tests.testbed.vm import wire
from tests.testbed.vm.hardware import Hardware
from tests.testbed.vm.images import Images

BOOT_SECONDS = 600
_RECORD = re.compile(rb"\d+,(\d+),")
_LAST = "dd if=/dev/kmsg bs=8192 iflag=nonblock 2>/dev/null | grep -a '^[0-9]' | tail -n 1"


@dataclass
class Machine:
    """A machine that is up. `boot_seconds` is how long it took, on this host, from qemu's start to the first
    answer of its shell."""

    folder: Path
    release: str
    process: subprocess.Popen[bytes]
    shell: socket.socket
    boot_seconds: float = 0.0
    _asked: int = field(default=0)

    def run(self, command: str, seconds: float = 120, check: bool = True) -> str:
        """What a command of its shell prints."""
        self._asked += 1
        mark = f"answer-{self._asked}:"
        self.shell.settimeout(seconds)
        self.shell.sendall(f"{{ {command}\n}} </dev/null 2>&1; echo {mark}$?.\n".encode())
        got = b""
        while not (end := re.search(rf"{mark}(\d+)\.\n".encode(), got)):
            piece = self.shell.recv(65536)
            assert piece, f"the machine is gone: {self.console()[-400:]}"
            got += piece
        assert not check or end[1] == b"0", f"{command}: {got.decode(errors='replace')}"
        return got[:end.start()].decode(errors="replace")

    def send(self, command: str) -> None:
        """Starts a command, and waits for nothing: the machine may die of it, or its shell."""
        self.shell.sendall(f"{{ {command}\n}} </dev/null >/dev/null 2>&1 &\n".encode())

    def monitor(self, line: str) -> str:
        """What qemu's monitor prints for a line."""
        return wire.monitor(self.folder / "qmp", line)

    def poke(self, symbol: str, code: str) -> None:
        """Writes machine code (hex) over the beginning of a function of the kernel."""
        line = self.run(f"grep -w {symbol} /proc/kallsyms").split()
        wire.poke(self.folder / "gdb", int(line[0], 16), bytes.fromhex(code))

    def newest(self) -> int:
        """The sequence number of the newest record."""
        return int(self.run(_LAST).split(",")[1])

    def records(self) -> bytes:
        """All records since the boot, exactly as /dev/kmsg gave them."""
        newest = self.newest()
        wait_until(lambda: newest in numbers((self.folder / "kmsg").read_bytes()), 60, f"record {newest}")
        return _once((self.folder / "kmsg").read_bytes())

    def said(self, text: str, seconds: float = 60, where: str = "kmsg", since: int = 0) -> None:
        """Returns once the kernel log, or the console, holds this text (a regular expression) after its first
        `since` bytes."""
        wanted = re.compile(text.encode())
        wait_until(lambda: wanted.search((self.folder / where).read_bytes(), since), seconds,
                   f"{text!r} in {where}")

    def settle(self, quiet: float = 3) -> None:
        """Returns once the kernel has said nothing for so many seconds."""
        size, since = -1, time.monotonic()

        def silent() -> bool:
            nonlocal size, since
            if (now := self.size()) != size:
                size, since = now, time.monotonic()
            return time.monotonic() - since > quiet

        wait_until(silent, 120, "a kernel that says nothing")

    def size(self, where: str = "kmsg") -> int:
        """How many bytes of the log, or of the console, have come so far."""
        return (self.folder / where).stat().st_size

    def console(self) -> str:
        """What its serial console showed."""
        return (self.folder / "console").read_bytes().decode(errors="replace")


def numbers(records: bytes) -> list[int]:
    """The sequence numbers of these records."""
    return [int(found[1]) for line in records.splitlines() if (found := _RECORD.match(line))]


def _once(data: bytes) -> bytes:
    """The records of `data`, each once: a reader that was overtaken starts again with the oldest."""
    out: list[bytes] = []
    seen = -1
    keep = False
    for line in data[:data.rfind(b"\n") + 1].splitlines(keepends=True):
        if found := _RECORD.match(line):
            keep = int(found[1]) > seen
            seen = max(seen, int(found[1]))
        if keep:
            out.append(line)
    return b"".join(out)


@contextlib.contextmanager
def machine(folder: Path, images: Images, hardware: Hardware, *words: str) -> Iterator[Machine]:
    """This machine once its shell answers and its services have started; `words` go to the kernel's command
    line. Gone afterwards."""
    argv = ["qemu-system-x86_64", *hardware.argv(folder, images.root), "-kernel", str(images.kernel),
            "-initrd", str(images.initrd),
            "-append",
            " ".join(("console=ttyS0 log_buf_len=4M net.ifnames=0 systemd.show_status=0 random.trust_cpu=on",
                      *words)),
            "-display", "none", "-vga", "none", "-no-reboot", "-serial", f"file:{folder}/console",
            "-serial", f"unix:{folder}/shell,server=on,wait=off", "-serial", f"file:{folder}/kmsg",
            "-qmp", f"unix:{folder}/qmp,server=on,wait=off", "-gdb", f"unix:{folder}/gdb,server=on,wait=off"]
    started = time.monotonic()
    with (folder / "qemu.log").open("wb") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        with socket.socket(socket.AF_UNIX) as shell:
            wait_until(lambda: _connected(process, shell, folder), 30,
                       f"qemu: {(folder / 'qemu.log').read_text()}")
            up = Machine(folder, images.release, process, shell)
            wait_until(lambda: _answers(up), BOOT_SECONDS, "a shell in the machine")
            up.boot_seconds = time.monotonic() - started
            up.run("systemctl is-system-running --wait", BOOT_SECONDS, check=False)
            up.run(f"udevadm settle --timeout={BOOT_SECONDS}", BOOT_SECONDS + 60)
            yield up
    finally:
        process.kill()
        process.wait()


def _connected(process: subprocess.Popen[bytes], shell: socket.socket, folder: Path) -> bool:
    assert process.poll() is None, (folder / "qemu.log").read_text()
    try:
        shell.connect(str(folder / "shell"))
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    return True


def _answers(up: Machine) -> bool:
    """Asks for its shell. What is sent before one is there may be lost, or come twice: hence one line that
    stands for itself."""
    assert up.process.poll() is None, (up.folder / "qemu.log").read_text() + up.console()[-2000:]
    up.shell.settimeout(2)
    with contextlib.suppress(TimeoutError):
        up.shell.sendall(b"\necho up-$((40 + 2))\n")
        got = b""
        while b"up-42\n" not in got:
            got += up.shell.recv(4096)
        with contextlib.suppress(TimeoutError):
            while up.shell.recv(4096):
                up.shell.settimeout(1)
        return True
    return False
