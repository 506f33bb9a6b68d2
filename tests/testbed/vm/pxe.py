"""A machine that has no system of its own and boots over the network: qemu's iPXE, dnsmasq for DHCP and TFTP,
chronyd for the time.

All of it lives in a network and process namespace that no one named: when the test is gone, however it ended,
the kernel takes everything in it away. From here one veth leads there. Needs root.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.testbed.require import require
from tests.testbed.sshd import wait_until
from tests.testbed.vm.netimage import NetImage, own

_OVMF = Path("/usr/share/OVMF")
_TOOLS = ("qemu-system-x86_64", "dnsmasq", "mmdebstrap", "cpio", "zstd", "depmod", "setpriv", "unshare",
          "nsenter", "ip")
# Emulated clocks are as exact as this host has time for: what cannot be measured there is given.
_SCRIPT = """#!ipxe
kernel vmlinuz initrd=system initrd=own rdinit=/sbin/init console=ttyS0 net.ifnames=0 systemd.show_status=0 random.trust_cpu=on tsc=reliable lpj=10800000
initrd --name system system
initrd --name own own
boot
"""  # noqa: E501


def require_pxe() -> None:
    """What a machine of this module needs."""
    require(os.geteuid() == 0, "only root can make network namespaces")
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    require(not missing, f"no {', '.join(missing)} on this machine: scripts/test --slow installs them")


def require_uefi() -> None:
    """What a machine with UEFI needs beside that."""
    require((_OVMF / "OVMF_CODE_4M.fd").is_file() and Path("/usr/lib/ipxe/ipxe.efi").is_file(),
            "no ovmf and ipxe: scripts/test --slow installs them")


@dataclass
class Lab:
    """The network, and one machine on it, which is off at first. `booted` counts how often it was powered
    on."""

    folder: Path
    holder: int
    subnet: str
    serial: str
    uuid: str
    memory: int
    # OVMF with a network driver of its own, in place of a BIOS with iPXE in the port
    uefi: bool = False
    http: bool = False          # UEFI boots over HTTP, not over TFTP
    disk_next: bool = False     # whether firmware goes on to the disk where the network boots nothing
    booted: int = 0
    _qemu: subprocess.Popen[bytes] | None = field(default=None)
    _all: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        """The machine's, by DHCP."""
        return f"{self.subnet}.10"

    @property
    def mac(self) -> str:
        return f"52:54:00:{self.uuid[:2]}:{self.uuid[2:4]}:{self.uuid[4:6]}"

    @property
    def on(self) -> bool:
        return self._qemu is not None and self._qemu.poll() is None

    def turn(self, on: bool, network: bool = False) -> None:
        """Powers the machine on, or off at once. With `network` its firmware tries the network and nothing
        else, without it its empty disk."""
        if on and not self.on:
            self._start(network)
        if not on and self._qemu is not None:
            for child in _children(self._qemu.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            self._qemu.wait(30)

    def _start(self, network: bool) -> None:
        self.booted += 1
        disk_order = (",bootindex=2" if self.disk_next else "") if network else ",bootindex=1"
        argv = ["qemu-system-x86_64", "-machine", "q35,graphics=off", "-accel", "tcg,thread=multi", "-cpu",
                "max", "-smp", "2",
                "-m", str(self.memory), "-nodefaults", "-no-user-config", "-display", "none",
                "-uuid", self.uuid,
                "-smbios", f"type=1,manufacturer=Contoso,product=VM1,serial={self.serial}",
                "-boot", "strict=on",
                "-drive", f"if=none,id=disk,file={self.folder}/disk,format=raw,cache=unsafe", "-device",
                f"virtio-blk-pci,drive=disk{disk_order}",
                "-netdev", "tap,id=lan,ifname=vm,script=no,downscript=no",
                "-device", f"virtio-net-pci,netdev=lan,mac={self.mac}{',bootindex=1' if network else ''}",
                "-device", "virtio-rng-pci",
                "-serial", f"file:{self.folder}/console-{self.booted}"]
        if self.uefi:
            argv = self._with_uefi(argv)
        self._qemu = self.start("qemu", *argv)

    def _with_uefi(self, argv: list[str]) -> list[str]:
        variables = self.folder / "variables"
        shutil.copy(_OVMF / "OVMF_VARS_4M.fd", variables)
        port = next(at for at, word in enumerate(argv) if word.startswith("virtio-net-pci"))
        return [*argv[:port], f"{argv[port]},romfile=", *argv[port + 1:], "-drive",
                f"if=pflash,format=raw,readonly=on,file={_OVMF}/OVMF_CODE_4M.fd",
                "-drive", f"if=pflash,format=raw,file={variables}",
                "-fw_cfg", f"name=opt/org.tianocore/IPv4PXESupport,string={'n' if self.http else 'y'}",
                "-fw_cfg", "name=opt/org.tianocore/IPv6PXESupport,string=n"]

    def start(self, name: str, *argv: str) -> subprocess.Popen[bytes]:
        """Starts a command in the lab's namespaces, with which it ends; it writes to `name`.log."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self._all.append(subprocess.Popen(self.inside(*argv), stdin=subprocess.DEVNULL,
                                              stdout=log, stderr=log))
        return self._all[-1]

    def ended(self) -> None:
        """Returns when all that was started has ended."""
        for process in self._all:
            process.wait(30)

    def inside(self, *argv: str) -> list[str]:
        """A command in the lab's namespaces."""
        return ["nsenter", f"--net=/proc/{self.holder}/ns/net", f"--pid=/proc/{self.holder}/ns/pid", *argv]

    def console(self) -> str:
        """What the machine's serial console showed since it was last powered on."""
        path = self.folder / f"console-{self.booted}"
        return path.read_bytes().decode(errors="replace") if path.exists() else ""

    def network(self) -> str:
        """What dnsmasq did."""
        return (self.folder / "dnsmasq.log").read_text(errors="replace")


@contextlib.contextmanager
def lab(folder: Path, image: NetImage, files: Mapping[str, str], *, serial: str = "", uuid: str = "",
        memory: int = 1024,
        disk_bytes: int = 64 << 20, uefi: bool = False, http: bool = False,
        dnsmasq: Callable[[Lab], list[str]] | None = None) -> Iterator[Lab]:
    """The network with its daemons, and the machine, off. Of the image it gets `files` anew. `dnsmasq` gives
    the words of another configuration of it, where firmware goes on to the disk. All gone afterwards."""
    tftp = folder / "tftp"
    tftp.mkdir(parents=True)
    (tftp / "vmlinuz").symlink_to(image.kernel)
    (tftp / "system").symlink_to(image.initrd)
    (tftp / "boot.ipxe").write_text(_SCRIPT)
    with (folder / "disk").open("wb") as disk:
        disk.truncate(disk_bytes)
    with contextlib.ExitStack() as stack:
        holding = stack.enter_context(contextlib.ExitStack())
        made = Lab(folder, _holder(holding), f"10.214.{secrets.randbelow(254)}",
                   serial or secrets.token_hex(4).upper(),
                   uuid or f"{secrets.token_hex(4)}-0000-4000-8000-{secrets.token_hex(6)}", memory, uefi,
                   http, dnsmasq is not None)
        stack.callback(made.ended)
        stack.callback(holding.close)
        here = f"mu{secrets.token_hex(3)}"
        _run("ip", "link", "add", here, "type", "veth", "peer", "name", "head", "netns", str(made.holder))
        # It would go with the namespace, but some time later.
        stack.callback(subprocess.run, ["ip", "link", "delete", here], check=False, capture_output=True)
        _run("ip", "address", "add", f"{made.subnet}.254/24", "dev", here)
        _run("ip", "link", "set", here, "up")
        for words in ("link add lan type bridge", f"address add {made.subnet}.1/24 dev lan",
                      "tuntap add dev vm mode tap", "link set vm master lan",
                      "link set head master lan", "link set lo up", "link set vm up", "link set head up",
                      "link set lan up"):
            _run(*made.inside("ip", *words.split()))
        (tftp / "own").write_bytes(
            own({**files, "etc/chrony/sources.d/lab.sources": f"server {made.subnet}.1 iburst\n"}))
        made.start("dnsmasq", *(dnsmasq(made) if dnsmasq is not None else _dnsmasq(made, tftp)))
        made.start("chronyd", *_chronyd(image))
        wait_until(lambda: "TFTP root" in made.network(), 30, f"dnsmasq: {made.network()}")
        yield made


def _holder(stack: contextlib.ExitStack) -> int:
    """The first process of namespaces of its own: with it all that is in them dies, and it dies with whoever
    called this."""
    process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--pid", "--fork",
                                "--kill-child", "sleep", "infinity"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.kill)
    wait_until(lambda: _children(process.pid), 10, "namespaces")
    return _children(process.pid)[0]


def _dnsmasq(made: Lab, tftp: Path) -> list[str]:
    return ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--group=root",
            "--pid-file=", "--port=0",
            "--interface=lan", "--bind-interfaces", f"--dhcp-range={made.subnet}.10,{made.subnet}.20,1h",
            "--no-ping", "--log-dhcp",
            f"--dhcp-host={made.mac},{made.address}", "--dhcp-boot=boot.ipxe", "--enable-tftp",
            f"--tftp-root={tftp}",
            f"--dhcp-leasefile={made.folder}/leases", "--log-facility=-"]


def _chronyd(image: NetImage) -> list[str]:
    """The image's own chronyd: tells the time that is here, and leaves this clock alone. What it writes goes
    to memory, not to the image."""
    return ["unshare", "--mount", "sh", "-c",
            'mount -t tmpfs run "$0/run" && exec chroot "$0" /usr/sbin/chronyd "$@"', str(image.tree),
            "-x", "-d", "-u", "root", "local stratum 8", "allow", "cmdport 0", "pidfile /run/chronyd.pid",
            "bindcmdaddress /"]


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True)
