"""dnsmasq's configuration: addresses, or proxy-DHCP beside another server, and firmware to iPXE to `muster os
serve`. Pure. Sources: dnsmasq(8); client architectures: RFC 4578 and IANA's registry (0 BIOS, 7 and 9 x64
UEFI, 11 arm64 UEFI, 16 and 19 the same two over HTTP); option 175 marks iPXE (ipxe.org, DHCP). A proxy
answers PXE clients only, and no HTTP boot: that needs full DHCP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provisioning.osinstall.base import OsError
from provisioning.osinstall.pxe.machines import PxeMachine
from provisioning.osinstall.pxe.options import DhcpMode, DhcpOptions, PxeOptions

_X64, _ARM64 = (7, 9), (11,)
_X64_HTTP, _ARM64_HTTP = 16, 19


def configuration(options: PxeOptions, machines: Sequence[PxeMachine]) -> str:
    """The file. Only these machines are answered. Raises OsError without `dhcp` in pxe.yaml."""
    if options.dhcp is None:
        raise OsError("pxe.yaml has no dhcp section, without which there is nothing to say to dnsmasq")
    return "".join(f"{line}\n" for line in _lines(options, options.dhcp, machines))


def _lines(options: PxeOptions, dhcp: DhcpOptions, machines: Sequence[PxeMachine]) -> Iterator[str]:
    script = f"{options.server}/boot.ipxe"
    yield from ("# Rendered by muster os render; change pxe.yaml or the inventory, and render again.",
                "port=0", f"interface={dhcp.interface}", "bind-dynamic", "log-dhcp")
    yield from _scope(dhcp)
    yield from ("", "# Only machines of the inventory are answered.", "dhcp-ignore=tag:!known")
    for machine in machines:
        fixed = dhcp.mode is DhcpMode.FULL and machine.address is not None and machine.address in dhcp.network
        yield (f"dhcp-host={','.join(machine.macs)},set:muster,{machine.name}"
               f"{f',{machine.address}' if fixed else ''}")
    yield from ("", "# Firmware loads iPXE, and iPXE its script.", "dhcp-match=set:ipxe,175")
    yield from _chain_proxy(dhcp, script) if dhcp.mode is DhcpMode.PROXY else _chain_full(
        dhcp, options.server, script)
    yield from ("", "enable-tftp", "tftp-no-blocksize", f"tftp-root={dhcp.tftp}")


def _scope(dhcp: DhcpOptions) -> Iterator[str]:
    if dhcp.mode is DhcpMode.PROXY:
        yield f"dhcp-range={dhcp.network.network_address},proxy,{dhcp.network.netmask}"
        return
    yield f"dhcp-range={dhcp.first},{dhcp.last},{dhcp.network.netmask},{dhcp.lease}m"
    # Without an address these options are taken away, where dnsmasq would name itself.
    yield f"dhcp-option=option:router{f',{dhcp.router}' if dhcp.router else ''}"
    yield f"dhcp-option=option:dns-server{''.join(f',{one}' for one in dhcp.dns)}"


def _chain_proxy(dhcp: DhcpOptions, script: str) -> Iterator[str]:
    loaders = ((0, dhcp.loaders.bios), *((arch, dhcp.loaders.x64) for arch in _X64),
               *((arch, dhcp.loaders.arm64) for arch in _ARM64))
    for arch, file in loaders:
        if file:
            yield f'pxe-service=tag:!ipxe,{arch},"iPXE",{file}'
        yield f'pxe-service=tag:ipxe,{arch},"muster",{script}'


def _chain_full(dhcp: DhcpOptions, server: str, script: str) -> Iterator[str]:
    matches = (("bios", (0,), dhcp.loaders.bios), ("x64", _X64, dhcp.loaders.x64),
               ("arm64", _ARM64, dhcp.loaders.arm64))
    for tag, archs, file in matches:
        if file:
            yield from (f"dhcp-match=set:{tag},option:client-arch,{arch}" for arch in archs)
            yield f"dhcp-boot=tag:!ipxe,tag:{tag},{file}"
    for tag, arch, file in (("x64-http", _X64_HTTP, dhcp.loaders.x64),
                            ("arm64-http", _ARM64_HTTP, dhcp.loaders.arm64)):
        if file:
            yield f"dhcp-match=set:{tag},option:client-arch,{arch}"
            # UEFI 2.10, 24.7: an HTTP boot client takes only offers that name this class.
            yield f"dhcp-option-force=tag:{tag},tag:!ipxe,option:vendor-class,HTTPClient"
            yield f"dhcp-boot=tag:!ipxe,tag:{tag},{server}/loader/{file}"
    yield f"dhcp-boot=tag:ipxe,{script}"
