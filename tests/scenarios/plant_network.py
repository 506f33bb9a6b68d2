"""Plants the commonest faults of Ethernet, RoCE and optics, as the kernel's files and ethtool show them.

Forms: Documentation/ABI/testing/sysfs-class-net, /proc/net/dev, /proc/net/bonding
(drivers/net/bonding/bond_procfs.c), mlx5's hw_counters and ethtool counters, hwmon.
"""

from __future__ import annotations

import re

from healthcheck.facts.roce import COUNTERS
from provisioning.demo import network
from provisioning.demo.h100 import ETHERNET, HCAS, device_folder, hca_folder
from provisioning.demo.machine import DemoMachine
from tests.scenarios import node as scenario
from tests.scenarios.plant import files, plant, planted, without

_MACS = ["3c:ec:ef:19:00:01", "3c:ec:ef:19:00:02"]


def _mend(node: DemoMachine) -> None:
    """Cable, switch or setting is as it should be, and counters count on from where they are."""
    healthy = scenario.machine(node.name)
    counted = {path: text for path, text in node.files.items() if path.endswith("_count")}
    node.files |= {path: text for path, text in healthy.files.items()
                   if ("/net/" in path and path != "/proc/net/dev") or "/hwmon/" in path
                   or path.endswith("/uevent")}
    node.files |= counted


def _interface(node: DemoMachine, index: int, **texts: str) -> None:
    for name, text in texts.items():
        node.files[f"{device_folder(ETHERNET[index])}/net/{network.INTERFACES[index]}/{name}"] = f"{text}\n"


def _figures(node: DemoMachine, name: str, **more: int) -> None:
    """Counts of received packets of one interface go on."""
    columns = ("bytes", "packets", "errs", "drop", "fifo", "frame")

    def grown(match: re.Match[str]) -> str:
        values = match[2].split()
        for column, number in more.items():
            values[columns.index(column)] = str(int(values[columns.index(column)]) + number)
        return match[1] + " ".join(values)

    node.files["/proc/net/dev"] = re.sub(rf"(?m)^( *{name}: )(.*)$", grown, node.files["/proc/net/dev"])


plant("ethernet-cable-out", "The cable of eno2 was pulled: the bond runs on eno1 alone.", _mend,
      lambda node: _interface(node, 1, operstate="down", speed="-1", duplex="unknown",
                              carrier_down_count="3"),
      lambda node: network.bond(node, _MACS, down=("eno2",)))
plant("bond-gone",
      "The bond was not set up at the last boot: eno1 has the node's address, and eno2 is "
      "administratively down.", _mend,
      without("/proc/net/bonding/bond0"),
      lambda node: _interface(node, 1, flags="0x1002", operstate="down", speed="-1", duplex="unknown"))
plant("address-not-given",
      "DHCP gave bond0 no address at the last boot: it has no subnet, and no default route leads out.", _mend,
      lambda node: network.routes(node, ()))


@planted(_mend)
def other_driver_for_one_function(node: DemoMachine) -> None:
    """Somebody tried DPDK and left the second Ethernet port with vfio-pci."""
    path = f"{device_folder(ETHERNET[1])}/uevent"
    node.files[path] = node.files[path].replace("DRIVER=ixgbe", "DRIVER=vfio-pci")


plant("ethernet-at-a-tenth",
      "A bad pair in the cable of eno1: the link came up at 1 Gb/s, and LACP keeps it out of the aggregator.",
      _mend,
      lambda node: _interface(node, 0, speed="1000"),
      lambda node: network.bond(node, _MACS, astray=("eno1",)))
plant("ethernet-flaps", "A module that is not quite in: the link of eno2 went and came three times.", _mend,
      lambda node: _interface(node, 1, carrier_up_count="5", carrier_down_count="5"))
plant("ethernet-damages-frames", "A dirty fibre: one frame a second arrives damaged on eno1.", _mend,
      lambda node: _figures(node, "eno1", packets=4_000_000, errs=600, frame=600))
plant("ethernet-half-duplex",
      "The switch's port was set to full duplex without negotiation, so the node's end fell back to half.",
      _mend,
      lambda node: _interface(node, 0, duplex="half"))
plant("switch-forgot-the-bond",
      "The switch's port channel was removed: nobody answers the node's LACP.", _mend,
      lambda node: network.bond(node, _MACS, partner="00:00:00:00:00:00"))


@planted(_mend)
def odd_packet_size(node: DemoMachine) -> None:
    """The node was set up with jumbo frames, and the fleet was not."""
    for index in range(2):
        _interface(node, index, mtu="9000")


plant("hot-air-at-the-cage", "A missing blanking plate: air from behind heats the module of mlx5_5.", _mend,
      files({f"{device_folder(HCAS[5])}/hwmon/hwmon7/temp2_input": "73000\n"}))
plant("adapter-overheats", "A fan failed: the adapter mlx5_1 is near where it turns itself off.", _mend,
      files({f"{device_folder(HCAS[1])}/hwmon/hwmon3/temp1_input": "103000\n"}))


# ---- RoCE: the same board with its ports on Ethernet

_LINK_LOCAL = "fe80:0000:0000:0000:a288:c2ff:fe00:0001"


def _pauses(node: DemoMachine, index: int, stalls: int = 0) -> None:
    """What ethtool says of the interface of mlx5_INDEX."""
    node.files[f"/.muster/ethtool-rail{index}"] = (
        "NIC statistics:\n     rx_packets: 91\n     rx_prio3_pause: 12\n     rx_prio3_pause_duration: 40\n   "
        "  tx_prio3_pause: 0\n"
        f"     tx_prio3_pause_duration: 0\n     tx_pause_storm_warning_events: {stalls}\n     "
        f"tx_pause_storm_error_events: {stalls}\n")


def _with_roce(node: DemoMachine) -> None:
    """All ports speak Ethernet, with an IPv4 address each."""
    node.tools["ethtool"] = '[ "$1" = -S ] && exec cat "$MUSTER_ROOT/.muster/ethtool-$2"\nexit 1\n'
    for index, address in enumerate(HCAS):
        port = f"{hca_folder(index)}/ports/1"
        routable = f"0000:0000:0000:0000:0000:ffff:0a{index:02x}:0002"
        texts = {"link_layer": "Ethernet", "lid": "0x0", "sm_lid": "0x0", "gids/0": _LINK_LOCAL,
                 "gids/1": _LINK_LOCAL, "gids/2": routable,
                 "gids/3": routable, **{f"gid_attrs/types/{entry}": "RoCE v2" if entry % 2 else "IB/RoCE v1"
                                        for entry in range(4)},
                 **{f"hw_counters/{name}": "0" for name in COUNTERS}}
        node.files |= {f"{port}/{name}": f"{text}\n" for name, text in texts.items()}
        node.files[f"{device_folder(address)}/net/rail{index}/mtu"] = "4200\n"
        _pauses(node, index)


def _mend_roce(node: DemoMachine) -> None:
    """The interface has its address and its size again; what was counted stays."""
    counted = {path: text
               for path, text in node.files.items()
               if "/hw_counters/" in path or path.startswith("/.muster/ethtool-")}
    _with_roce(node)
    node.files |= counted


@planted(_mend_roce, before=_with_roce)
def rail_without_address(node: DemoMachine) -> None:
    """The interface of mlx5_3 lost its IPv4 address: what is left in the GID table is link-local."""
    for entry in (2, 3):
        del node.files[f"{hca_folder(3)}/ports/1/gids/{entry}"]
        del node.files[f"{hca_folder(3)}/ports/1/gid_attrs/types/{entry}"]


plant("rail-of-odd-packet-size",
      "One rail was forgotten when the others were set to jumbo frames.", _mend_roce,
      files({f"{device_folder(HCAS[6])}/net/rail6/mtu": "1500\n"}), before=_with_roce)
plant("rail-loses-packets",
      "PFC is off at the leaf of mlx5_2: under load packets are dropped and sent again, twenty a second.",
      _mend_roce,
      files({f"{hca_folder(2)}/ports/1/hw_counters/packet_seq_err": "12000\n"}), before=_with_roce)
plant("adapter-stops-its-leaf",
      "mlx5_4 could not deliver to memory and paused its leaf until it gave up, twice.", _mend_roce,
      lambda node: _pauses(node, 4, stalls=2), before=_with_roce)
