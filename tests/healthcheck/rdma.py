"""Nodes with the RDMA adapters of each maker, as their drivers show them in sysfs.

Names of devices and forms of values: drivers/infiniband/hw of Linux 6.16 (bnxt_re, irdma, ionic, efa, hfi1,
mana), their counters as `healthcheck.facts.counter` lists them with its sources. A driver without a
performance agent (no process_mad) has no folder `counters` (drivers/infiniband/core/sysfs.c); EFA's port has
no link layer; hfi1 has one of InfiniBand.
"""

from __future__ import annotations

from dataclasses import dataclass

from healthcheck.model.recording import Capture, FileCapture, Recording
from tests.healthcheck import machine, network
from tests.healthcheck.network import RDMA, capture

ZERO_GID = "0000:0000:0000:0000:0000:0000:0000:0000\n"
GID = "0000:0000:0000:0000:0000:ffff:0a01:0203\n"
PCI = "/sys/bus/pci/devices"


@dataclass(frozen=True)
class Kind:
    """One kind of adapter: its RDMA devices' names, PCI driver, vendor and device, port and counters;
    `interface` is empty where the device has no network interface of its own."""

    name: str
    driver: str
    pci_id: str
    rate: str
    layer: str
    firmware: str
    interface: str
    counters: tuple[str, ...]
    classic: bool = False       # it answers the performance agent's questions
    sensor: bool = False        # hwmon without a label


BNXT = Kind("bnxt_re{}", "bnxt_en", "14E4:1760", "400 Gb/sec (4X NDR)", "Ethernet",
            "231.2.63.0", "ens{}np0", (
                "to_retransmits", "seq_err_naks_rcvd", "max_retry_exceeded", "unrecoverable_err",
                "rx_roce_errors", "rx_roce_discards",
                "res_tx_pci_err", "res_rx_pci_err"), sensor=True)
IRDMA = Kind("rocep{}s0", "ice", "8086:1592", "100 Gb/sec (4X EDR)", "Ethernet", "1.74", "ens{}", (
    "RetransSegs", "InProtoErrors"), sensor=True)
IDPF = Kind("irdma{}", "idpf", "8086:1452", "200 Gb/sec (4X HDR)", "Ethernet", "2.0", "ens{}",
            ("RetransSegs", "InProtoErrors"))
IONIC = Kind("ionic_{}", "ionic", "1DD8:1002", "400 Gb/sec (4X NDR)", "Ethernet", "1.117.1-a-63",
             "benic{}p1", (
                 "tx_rdma_ack_timeout", "req_rx_pkt_seq_err", "req_rx_impl_nak_seq_err",
                 "req_tx_retry_excd_err"))
EFA = Kind("rdmap{}s0", "efa", "1D0F:EFA2", "100 Gb/sec (4X EDR)", "Unknown", "", "", (
    "rx_drops", "retrans_timeout_events", "unresponsive_remote_events", "impaired_remote_conn_events"))
HFI1 = Kind("hfi1_{}", "hfi1", "8086:24F0", "100 Gb/sec (4X EDR)", "InfiniBand", "1.27.0", "", (
    "symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_xmit_discards",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors"), classic=True)
MANA = Kind("mana_{}", "mana", "1414:00BA", "200 Gb/sec (4X HDR)", "Ethernet", "0.0.0", "eth{}",
            ("requester_timeout", "requester_oos_nak"))
KINDS = (BNXT, IRDMA, IDPF, IONIC, EFA, HFI1, MANA)


def node(kind: Kind, count: int = 8, counted: dict[str, int] | None = None,
         **changes: str | FileCapture | None) -> Recording:
    """A node with so many of them; `changes` by "3 ports/1/state" (a number and a file) replace a file of one
    device, None takes it away, and `counted` by "3 rx_drops" are counters that are not 0."""
    files: dict[str, str | FileCapture] = {}
    bus: dict[str, str | FileCapture] = {}
    users: dict[str, str | FileCapture] = {}
    for number in range(count):
        name, address = kind.name.format(number), f"0000:{0x40 + number:02x}:00.0"
        at = f"{RDMA}/{name}"
        folder = "counters" if kind.classic else "hw_counters"
        texts: dict[str, str | FileCapture | None] = {
            "ports/1/state": "4: ACTIVE\n", "ports/1/phys_state": "5: LinkUp\n",
            "ports/1/rate": f"{kind.rate}\n",
            "ports/1/link_layer": f"{kind.layer}\n", "ports/1/lid": "0x5\n" if kind.classic else "0x0\n",
            "ports/1/sm_lid": "0x1\n" if kind.classic else "0x0\n", "ports/1/gids/0": GID,
            "ports/1/pkeys/0": "0xffff\n",
            "device/uevent": f"DRIVER={kind.driver}\nPCI_CLASS=20000\nPCI_ID={kind.pci_id}\n"
                             f"PCI_SLOT_NAME={address}\n",
            "fw_ver": f"{kind.firmware}\n",
            **{f"ports/1/{folder}/{counter}": f"{(counted or {}).get(f'{number} {counter}', 0)}\n"
               for counter in kind.counters}}
        if kind.layer == "Ethernet":
            texts |= {"ports/1/gids/1": ZERO_GID, "ports/1/gid_attrs/types/0": "RoCE v2\n",
                      "ports/1/gid_attrs/types/1": network.EINVAL}
        # A function of a virtual machine shows no link of its own.
        seen = ("0\n", "Unknown\n") if kind in (EFA, MANA) else ("16\n", "32.0 GT/s PCIe\n")
        for which in ("current", "max"):
            texts |= {f"device/{which}_link_width": seen[0], f"device/{which}_link_speed": seen[1]}
        if kind.interface:
            texts[f"device/net/{kind.interface.format(number)}/mtu"] = "9000\n"
        if kind.sensor:
            texts |= {"device/hwmon/hwmon3/temp1_input": "61000\n",
                      "device/hwmon/hwmon3/temp1_crit": "105000\n"}
        for file, text in {**texts, **{key.partition(" ")[2]: value for key, value in changes.items()
                                       if key.partition(" ")[0] == str(number)}}.items():
            if text is not None:
                files[f"{at}/{file}"] = text
        uevent = files.get(f"{at}/device/uevent")
        if uevent is not None:
            bus[f"{PCI}/{address}/uevent"] = uevent
        users[f"/sys/class/infiniband_verbs/uverbs{number}/ibdev"] = f"{name}\n"
        if kind.classic:
            users[f"/sys/class/infiniband_mad/umad{number}/ibdev"] = f"{name}\n"
    held = capture({**files, **users})
    gpus = machine.pci().files
    return machine.recording(
        port_sysfs=_only(held, "/ports/1/", "device/uevent", but=("hw_counters", "gid_attrs")),
        port_counters=_only(held, "counters/"),
        hca_sysfs=_only(held, "fw_ver", "_link_", "device/uevent", "ibdev"),
        roce_sysfs=_only(held, "gid_attrs", "gids", "/mtu"),
        optics_hwmon=_only(held, "hwmon", "device/uevent"),
        gpu_pci=capture({**{path: entry for path, entry in gpus.items() if "DRIVER=nvidia" in entry.text},
                         **bus}),
        roce_ethtool=capture(
            {f"{RDMA}/{kind.name.format(n)}/device/net/{kind.interface.format(n)}": "exit 0\n" + STATISTICS
             for n in range(count) if kind.interface}))


STATISTICS = ("NIC statistics:\n     [0]: rx_ucast_packets: 12\n     rx_total_discard_pkts: 0\n     "
              "rx_dropped.nic: 0\n")


def _only(held: Capture, *parts: str, but: tuple[str, ...] = ()) -> Capture:
    return capture({path: entry for path, entry in held.files.items()
                    if any(part in path for part in parts) and not any(part in path for part in but)})
