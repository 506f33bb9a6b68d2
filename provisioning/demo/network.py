"""The Ethernet side of a demo node: two 10 Gb/s ports in an LACP bond, and the sensors of its adapters."""

from __future__ import annotations

import random

from provisioning.demo.machine import DemoMachine

INTERFACES = ("eno1", "eno2")
BOND = "bond0"
_PARTNER = "44:38:39:be:ef:aa"
_FIGURES = ("bytes", "packets", "errs", "drop", "fifo", "frame", "compressed", "multicast")


def install(machine: DemoMachine, folders: tuple[str, ...], adapters: tuple[str, ...]) -> None:
    """Adds interfaces to these PCI devices, their bond, and two sensors to each adapter."""
    rng = random.Random(f"{machine.name} network")  # noqa: S311  (looks, not secrets)
    macs = [f"3c:ec:ef:19:{rng.randrange(256):02x}:{rng.randrange(256):02x}" for _ in folders]
    for name, folder, mac in zip(INTERFACES, folders, macs, strict=True):
        at = f"{folder}/net/{name}"
        machine.links[f"/sys/class/net/{name}"] = f"../..{at.removeprefix('/sys')}"
        machine.links[f"{at}/device"] = "../.."
        # The link came once while the node was built and once after its last boot; the count says nothing.
        words = {
            "type": "1", "flags": "0x1803", "operstate": "up", "speed": "10000", "duplex": "full",
            "mtu": "1500", "address": mac, "carrier_up_count": "2", "carrier_down_count": "2"}
        machine.files |= {f"{at}/{file}": f"{text}\n" for file, text in words.items()}
    loop = "/sys/devices/virtual/net/lo"
    machine.links["/sys/class/net/lo"] = "../../devices/virtual/net/lo"
    machine.files |= {
        f"{loop}/{file}": f"{text}\n" for file, text in {
            "type": "772", "flags": "0x9", "operstate": "unknown", "mtu": "65536", "carrier_up_count": "0",
            "carrier_down_count": "0"}.items()}
    counts(machine,
           {name: {"packets": rng.getrandbits(34), "drop": rng.randrange(500, 9000)} for name in INTERFACES})
    bond(machine, macs)
    routes(machine)
    for index, folder in enumerate(adapters):
        sensors = (("asic", rng.randrange(52, 60), 105), ("Module0", rng.randrange(44, 56), 75))
        for number, (label, celsius, critical) in enumerate(sensors, 1):
            at = f"{folder}/hwmon/hwmon{index + 2}/temp{number}"
            machine.files |= {
                f"{at}_label": f"{label}\n", f"{at}_input": f"{celsius}000\n",
                f"{at}_crit": f"{critical}000\n"}


def routes(machine: DemoMachine, lines: tuple[tuple[str, str, str, str, str], ...] = (
    (BOND, "00000000", "0101010A", "0003", "00000000"), (BOND, "0001010A", "00000000", "0001", "00FFFFFF"),
)) -> None:
    """/proc/net/route: interface, destination, gateway, flags and mask, in hexadecimal and little endian; and
    the IPv6 addresses that every interface gives itself."""
    head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT"
    made = [f"{name}\t{to}\t{gateway}\t{flags}\t0\t0\t0\t{mask}\t0\t0\t0"
            for name, to, gateway, flags, mask in lines]
    machine.files["/proc/net/route"] = "".join(f"{line:<127}\n" for line in (head, *made))
    machine.files["/proc/net/if_inet6"] = (
        f"fe80000000000000c288c2fffe000001 04 40 20 80 {BOND:>8}\n"
        f"00000000000000000000000000000001 01 80 10 80 {'lo':>8}\n")


def counts(
    machine: DemoMachine, received: dict[str, dict[str, int]], sent: dict[str, dict[str, int]] | None = None,
) -> None:
    """/proc/net/dev as net/core/net-procfs.c prints it; what is not named is 0."""
    lines = ["Inter-|   Receive                                                |  Transmit",
             " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop "
             "fifo colls carrier compressed"]
    for name, figures in {"lo": {}, **received, BOND: {}}.items():
        out = (sent or {}).get(name, {})
        words = [str(figures.get(figure, 0)) for figure in _FIGURES] + [
            str(out.get(figure, 0)) for figure in _FIGURES]
        lines.append(f"{name:>6}: {' '.join(words)}")
    machine.files["/proc/net/dev"] = "\n".join(lines) + "\n"


def bond(
    machine: DemoMachine, macs: list[str], down: tuple[str, ...] = (), partner: str = _PARTNER,
    astray: tuple[str, ...] = (),
) -> None:
    """/proc/net/bonding/bond0 as root sees it; members without a link, or in an aggregator of their own."""
    parts = ["Ethernet Channel Bonding Driver: v6.5.0\n"
             "\n"
             "Bonding Mode: IEEE 802.3ad Dynamic link aggregation\n"
             "Transmit Hash Policy: layer3+4 (1)\n"
             "MII Status: up\n"
             "MII Polling Interval (ms): 100\n"
             "Up Delay (ms): 0\n"
             "Down Delay (ms): 0\n"
             "Peer Notification Delay (ms): 0\n"
             "\n"
             "802.3ad info\n"
             "LACP active: on\n"
             "LACP rate: fast\n"
             "Min links: 0\n"
             "Aggregator selection policy (ad_select): stable\n"
             "System priority: 65535\n"
             f"System MAC address: {macs[0]}\n"
             "Active Aggregator Info:\n"
             "\tAggregator ID: 1\n"
             "\tNumber of ports: 2\n"
             "\tActor Key: 15\n"
             "\tPartner Key: 9\n"
             f"\tPartner Mac Address: {partner}\n"]
    for number, (name, mac) in enumerate(zip(INTERFACES, macs, strict=True), 1):
        gone = name in down
        parts.append("\n"
                     f"Slave Interface: {name}\n"
                     f"MII Status: {'down' if gone else 'up'}\n"
                     f"Speed: {'Unknown' if gone else '10000 Mbps'}\n"
                     f"Duplex: {'Unknown' if gone else 'full'}\n"
                     f"Link Failure Count: {int(gone)}\n"
                     f"Permanent HW addr: {mac}\n"
                     "Slave queue ID: 0\n"
                     f"Aggregator ID: {number + 1 if name in astray else 1}\n"
                     "Actor Churn State: none\n"
                     "Partner Churn State: none\n"
                     "Actor Churned Count: 0\n"
                     "Partner Churned Count: 0\n"
                     "details actor lacp pdu:\n"
                     "    system priority: 65535\n"
                     f"    system mac address: {macs[0]}\n"
                     "    port key: 15\n"
                     "    port priority: 255\n"
                     f"    port number: {number}\n"
                     "    port state: 63\n"
                     "details partner lacp pdu:\n"
                     "    system priority: 65535\n"
                     f"    system mac address: {partner}\n"
                     "    oper key: 9\n"
                     "    port priority: 255\n"
                     f"    port number: {number}\n"
                     "    port state: 63\n")
    machine.files[f"/proc/net/bonding/{BOND}"] = "".join(parts)
