"""Configuration space of the demo's PCI Express devices and ports: 4096 bytes each, of which the header, the
lists of capabilities and the registers that are settings hold what real ones hold (PCI Express Base
Specification; include/uapi/linux/pci_regs.h)."""

from __future__ import annotations

from provisioning.demo.machine import DemoMachine

SIZE = 4096
ENDPOINT, ROOT, UPSTREAM, DOWNSTREAM = 0, 4, 5, 6
_POWER, _EXPRESS, _ERRORS, _ACS = 0x40, 0x60, 0x100, 0x150
_BRIDGE = 0x060400


def space(
    kind: int, ident: str, number: int, *, buses: tuple[int, int, int] = (0, 0, 0), payload: int = 512,
    read_request: int = 512, acs: int = 0,
) -> bytes:
    """One function's space: `ident` is vendor:device, `number` the class, `buses` a port's own, first and
    last below it. Payloads of 512 bytes are possible; a port that looks down has ACS as Linux sets it."""
    made = bytearray(SIZE)

    def put(at: int, size: int, value: int) -> None:
        made[at:at + size] = value.to_bytes(size, "little")

    for at, word in zip((0x00, 0x02), ident.split(":"), strict=True):
        put(at, 2, int(word, 16))
    put(0x04, 2, 0x0406)        # bus master, memory, no INTx
    put(0x06, 2, 0x0010)        # a list of capabilities
    put(0x09, 3, number)
    put(0x0E, 1, int(kind != ENDPOINT))
    for at, bus in enumerate(buses, 0x18):
        put(at, 1, bus)
    put(0x34, 1, _POWER)
    put(_POWER, 4, 0x0003_0001 | _EXPRESS << 8)
    put(_EXPRESS, 2, 0x10)
    put(_EXPRESS + 2, 2, kind << 4 | 2)
    put(_EXPRESS + 4, 4, 0x0000_8022)       # 512 bytes, extended tags, role-based errors
    put(_EXPRESS + 8, 2, 0x011F | _code(payload) << 5 | _code(read_request) << 12)
    looks_down = kind in (ROOT, DOWNSTREAM)
    put(_ERRORS, 4, 0x0001 | 2 << 16 | (_ACS if looks_down else 0) << 20)
    if looks_down:
        put(_ACS, 4, 0x000D | 1 << 16)
        put(_ACS + 4, 2, 0x005F)
        put(_ACS + 6, 2, acs)
    return bytes(made)


def _code(size: int) -> int:
    return (size // 128).bit_length() - 1


def install(machine: DemoMachine, folder: str, ident: str, number: int) -> None:
    """The device in this folder and every port above it, once: a root port, then a switch's by turns."""
    machine.blobs[f"{folder}/config"] = space(ENDPOINT, ident, number, read_request=4096)
    parts = folder.split("/")
    ports = [at for at in range(1, len(parts) - 1) if parts[at].count(":") == 2]
    for level, at in enumerate(ports):
        own, below, last = (int(part.split(":")[1], 16) for part in (parts[at], parts[at + 1], parts[-1]))
        path = "/".join(parts[:at + 1]) + "/config"
        if level == 0:
            machine.blobs.setdefault(
                path, space(ROOT, "8086:352A", _BRIDGE, buses=(own, below, last), acs=0x1D))
        else:
            kind = UPSTREAM if level % 2 else DOWNSTREAM
            machine.blobs.setdefault(path, space(kind, "1000:C030", _BRIDGE, buses=(own, below, last)))
