"""The Ethernet, RoCE and optics side of the healthy machine, made by hand from the documented formats."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from healthcheck.facts.roce import COUNTERS
from healthcheck.model.recording import Capture, FileCapture, Outcome

NET, RDMA = "/sys/class/net", "/sys/class/infiniband"
EINVAL = FileCapture(Outcome.CRASHED, "EINVAL")

BOND = """\
Ethernet Channel Bonding Driver: v6.5.0

Bonding Mode: IEEE 802.3ad Dynamic link aggregation
Transmit Hash Policy: layer3+4 (1)
MII Status: up
MII Polling Interval (ms): 100
Up Delay (ms): 0
Down Delay (ms): 0
Peer Notification Delay (ms): 0

802.3ad info
LACP active: on
LACP rate: fast
Min links: 0
Aggregator selection policy (ad_select): stable
System priority: 65535
System MAC address: 82:23:80:a1:a9:d3
Active Aggregator Info:
\tAggregator ID: 1
\tNumber of ports: 2
\tActor Key: 15
\tPartner Key: 201
\tPartner Mac Address: 02:01:00:00:01:01

Slave Interface: eno1
MII Status: up
Speed: 10000 Mbps
Duplex: full
Link Failure Count: 0
Permanent HW addr: 3c:ec:ef:19:eb:30
Slave queue ID: 0
Aggregator ID: 1
Actor Churn State: none
Partner Churn State: none
Actor Churned Count: 0
Partner Churned Count: 0
details actor lacp pdu:
    system priority: 65535
    system mac address: 82:23:80:a1:a9:d3
    port key: 15
    port state: 63
details partner lacp pdu:
    system priority: 65534
    system mac address: 02:01:00:00:01:01
    oper key: 201
    port state: 63

Slave Interface: eno2
MII Status: up
Speed: 10000 Mbps
Duplex: full
Link Failure Count: 0
Permanent HW addr: 3c:ec:ef:19:eb:2e
Slave queue ID: 0
Aggregator ID: 1
Actor Churn State: none
Partner Churn State: none
Actor Churned Count: 0
Partner Churned Count: 0
"""


def capture(files: Mapping[str, str | FileCapture]) -> Capture:
    """A FILES capture that ended well."""
    return Capture(Outcome.DONE, seconds=0.01, bytes=1, files={
        path: found if isinstance(found, FileCapture) else FileCapture(Outcome.DONE, found)
        for path, found in files.items()})


def interface(name: str, pci: str, **changes: Any) -> dict[str, str | FileCapture]:
    """The files of one interface; `changes` by file replace some."""
    texts: dict[str, str | FileCapture] = {
        "device/uevent": f"DRIVER=ixgbe\nPCI_ID=8086:1563\nPCI_SLOT_NAME={pci}\n", "type": "1\n",
        "flags": "0x1003\n",
        "operstate": "up\n", "speed": "10000\n", "duplex": "full\n", "mtu": "1500\n",
        "carrier_up_count": "2\n", "carrier_down_count": "2\n",
        **changes}
    return {f"{NET}/{name}/{file}": text for file, text in texts.items()}


def counts(**rows: str) -> str:
    """/proc/net/dev; a row has received bytes, packets, errs, drop, fifo, frame, compressed, multicast, and
    eight of sent ones."""
    head = ("Inter-|   Receive                                                |  Transmit\n"
            " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop "
            "fifo colls carrier compressed\n")
    held = dict.fromkeys(("lo", "eno1", "eno2", "eno3", "bond0"),
                         "1000 1000 0 0 0 0 0 0 1000 1000 0 0 0 0 0 0") | rows
    return head + "".join(f"{name:>6}: {row}\n" for name, row in held.items())


def netdev(bond: str = BOND, rows: Mapping[str, str] | None = None,
           **changes: Mapping[str, str | FileCapture]) -> Capture:
    """Two interfaces in a bond, one beside it, and the loopback; `changes` by interface replace some of its
    files."""
    files: dict[str, str | FileCapture] = {"/proc/net/dev": counts(**(rows or {}))}
    if bond:
        files["/proc/net/bonding/bond0"] = bond
    for name, pci in (("eno1", "0000:0b:00.0"), ("eno2", "0000:0b:00.1"), ("eno3", "0000:0c:00.0")):
        files |= interface(name, pci, **changes.get(name, {}))
    files |= {f"{NET}/lo/{file}": text for file,
              text in (("type", "772\n"), ("flags", "0x9\n"), ("operstate", "unknown\n"), ("mtu", "65536\n"))}
    return capture(files)


def infiniband() -> Capture:
    """What roce.sysfs brings where all ports are InfiniBand."""
    return capture({f"{RDMA}/mlx5_{n}/ports/1/gid_attrs/types/0": "IB/RoCE v1\n" for n in range(8)})


LINK_LOCAL, ROUTABLE = ("fe80:0000:0000:0000:a288:c2ff:fe00:0001\n",
                        "0000:0000:0000:0000:0000:ffff:0a01:0203\n")


def roce(**changes: str | FileCapture) -> Capture:
    """Eight RoCE ports; `changes` by "mlx5_3.packet_seq_err", "mlx5_3.gids/3" or "mlx5_3.mtu" replace one
    file."""
    files: dict[str, str | FileCapture] = {}
    for n in range(8):
        at = f"{RDMA}/mlx5_{n}"
        texts: dict[str, str | FileCapture] = {f"ports/1/hw_counters/{name}": "0\n" for name in COUNTERS}
        for entry in range(8):
            texts[f"ports/1/gid_attrs/types/{entry}"] = (EINVAL if entry > 3 else "RoCE v2\n" if entry % 2
                                                         else "IB/RoCE v1\n")
            texts[f"ports/1/gids/{entry}"] = (LINK_LOCAL, LINK_LOCAL, ROUTABLE,
                                              ROUTABLE)[entry] if entry < 4 else "0000:" * 7 + "0000\n"
        texts[f"device/net/rail{n}/mtu"] = "4200\n"
        for name, text in texts.items():
            short = "mtu" if name.endswith("/mtu") else name.partition("hw_counters/")[2] or name.partition(
                "ports/1/")[2]
            files[f"{at}/{name}"] = changes.get(f"mlx5_{n}.{short}", text)
    return capture(files)


def statistics(**values: int) -> str:
    """`ethtool -S` of mlx5, as far as it matters."""
    held = {"rx_packets": 10, "rx_prio3_pause": 0, "rx_prio3_pause_duration": 0, "tx_prio3_pause": 0,
            "tx_prio3_pause_duration": 0,
            "tx_pause_storm_warning_events": 0, "tx_pause_storm_error_events": 0, **values}
    return "NIC statistics:\n" + "".join(f"     {name}: {value}\n" for name, value in held.items())


def ethtool(**texts: str) -> Capture:
    """What was said of each interface; by name."""
    return capture({f"{RDMA}/mlx5_{n}/device/net/{name}": f"exit 0\n{text}"
                    for n, (name, text) in enumerate(texts.items())})


def hwmon(**changes: str) -> Capture:
    """Two sensors on each of eight adapters; `changes` by "mlx5_3.temp2_input" replace one file."""
    files: dict[str, str | FileCapture] = {}
    for n in range(8):
        files[f"{RDMA}/mlx5_{n}/device/uevent"] = (
            f"DRIVER=mlx5_core\nPCI_SLOT_NAME=0000:{0x40 + n:02x}:00.0\n")
        for name, text in {"temp1_label": "asic\n", "temp1_input": "56000\n", "temp1_crit": "105000\n",
                           "temp2_label": "Module0\n",
                           "temp2_input": "48000\n", "temp2_crit": "75000\n"}.items():
            files[f"{RDMA}/mlx5_{n}/device/hwmon/hwmon{n}/{name}"] = changes.get(f"mlx5_{n}.{name}", text)
    return capture(files)


# The form of mlxlink 4.34 for a 400G module of four lanes.
MODULE: dict[str, Any] = {
    "Temperature [C]": "54 [-5..75]", "Voltage [mV]": "3261.2 [2970..3630]",
    "Bias Current [mA]": "8.380,8.380,8.380,8.380 [2..15]",
    "Rx Power Current [dBm]": "1.886,1.989,2.281,1.976 [-10.41..6]",
    "Tx Power Current [dBm]": "1.562,1.427,1.559,1.761 [-8.508..5]",
    "Identifier": "OSFP", "Module FW Fault": "0", "DataPath FW Fault": "0",
    **{f"{name} [per lane]": {"values": ["0", "0", "0", "0"]}
       for name in ("Tx Fault", "Tx LOS", "Rx LOS", "Tx CDR LOL", "Rx CDR LOL")},
}
COPPER: dict[str, Any] = {"Temperature [C]": "0 [0..0]", "Rx Power Current [dBm]": "0,0,0,0 [0..0]",
                          "Tx Power Current [dBm]": "N/A"}


def link(module: Mapping[str, Any] = MODULE, physical: str = "LinkUp", **counters: str) -> str:
    """mlxlink's JSON; `counters` are effective and raw."""
    return json.dumps({
        "result": {"output": {
            "Operational Info": {"State": "Active" if physical == "LinkUp" else "Down",
                                 "Physical state": physical, "FEC": "Standard_RS-FEC"},
            "Module Info": module, "Physical Counters and BER Info": {
                "Effective Physical Errors": "0",
                "Effective Physical BER": counters.get("effective", "15E-255"),
                "Raw Physical BER": counters.get("raw", "2E-9")},
        }}, "status": {"code": 0, "message": "success"},
    })


def mlxlink(**texts: str) -> Capture:
    """What was said of each of eight adapters; by device."""
    return capture({f"{RDMA}/mlx5_{n}": texts.get(f"mlx5_{n}", f"exit 0\n{link()}") for n in range(8)})


def transceiver(lanes: int = 4, **changes: str) -> str:
    """`ethtool -m` of a QSFP28 module (SFF-8636) as qsfp.c prints it; `changes` by a name's words joined by
    "_" replace a value."""
    rows: list[tuple[str, str]] = [
        ("Identifier", "0x11 (QSFP28)"), ("Extended identifier", "0xcc"), ("Vendor name", "FINISAR CORP"),
        ("Vendor SN", "XYH0RPZ"),
        ("Rx loss of signal", "None"), ("Tx loss of signal", "None"), ("Rx loss of lock", "None"),
        ("Tx loss of lock", "None"), ("Tx fault", "None"),
        ("Module temperature", "45.22 degrees C / 113.39 degrees F"), ("Module voltage", "3.3359 V"),
        ("Alarm/warning flags implemented", "Yes"),
    ]
    channels = range(1, lanes + 1)
    rows += [(f"Laser tx bias current (Channel {n})", "8.162 mA") for n in channels]
    rows += [(f"Transmit avg optical power (Channel {n})", "1.0391 mW / 0.17 dBm") for n in channels]
    rows += [(f"Rcvr signal avg optical power(Channel {n})", "0.9603 mW / -0.18 dBm") for n in channels]
    rows += [(f"Laser bias current {side} (Chan {n})", "Off") for n in channels
             for side in ("high alarm  ", "low alarm   ", "high warning")]
    rows += [(f"Module {what} {side} alarm", "Off") for what in ("temperature", "voltage")
             for side in ("high", "low")]
    rows += [(f"Laser {way} power {side}(Channel {n})", "Off") for n in channels for way in ("tx", "rx")
             for side in ("high alarm   ", "low alarm    ")]
    for what, high, low in (("Laser output power", "3.4673 mW / 5.40 dBm", "0.0724 mW / -11.40 dBm"),
                            ("Module temperature", "80.00 degrees C / 176.00 degrees F",
                             "-10.00 degrees C / 14.00 degrees F"),
                            ("Laser rx power", "3.4673 mW / 5.40 dBm", "0.0467 mW / -13.31 dBm")):
        rows += [(f"{what} high alarm threshold", high), (f"{what} low alarm threshold", low)]
    replaced = {name: changes.get("_".join(name.replace("(", " ").replace(")", "").split()), value)
                for name, value in rows}
    return "".join(f"\t{name:<41} : {value}\n" for name, value in replaced.items())


def modules(**texts: str) -> Capture:
    """What ethtool said of the interface of each of eight adapters; by device."""
    return capture({f"{RDMA}/mlx5_{n}/device/net/eth{n}": texts.get(f"mlx5_{n}", f"exit 0\n{transceiver()}")
                    for n in range(8)})


ROUTE_HEAD = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"


def route(name: str, destination: str, gateway: str = "00000000", mask: str = "00FFFFFF",
          flags: str = "0001") -> str:
    """A line of /proc/net/route, in hexadecimal and little endian as on x86."""
    return f"{name}\t{destination}\t{gateway}\t{flags}\t0\t0\t0\t{mask}\t0\t0\t0\n"


ROUTES = (route("bond0", "00000000", "0101010A", "00000000", "0003") + route("bond0", "0001010A")
          + route("eno3", "0002010A") + route("docker0", "000011AC", mask="0000FFFF"))
ADDRESSES6 = ("fe80000000000000c288c2fffe000001 04 40 20 80    bond0\n"
              "00000000000000000000000000000001 01 80 10 80       lo\n")


def routes(text: str = ROUTES, addresses6: str = ADDRESSES6) -> Capture:
    """The tables of routes and of IPv6 addresses."""
    return capture({"/proc/net/route": ROUTE_HEAD + text, "/proc/net/if_inet6": addresses6})


def captures() -> dict[str, Capture]:
    """The healthy machine: a bond, InfiniBand, and no mlxlink."""
    return {"netdev.sysfs": netdev(), "netdev.lacp": capture({"/proc/net/bonding/bond0": BOND}),
            "netdev.teamd": capture({}), "netdev.routes": routes(), "roce.sysfs": infiniband(),
            "roce.ethtool": ethtool(), "optics.hwmon": hwmon(),
            "optics.mlxlink": Capture(Outcome.MISSING), "optics.ethtool": Capture(Outcome.MISSING)}
