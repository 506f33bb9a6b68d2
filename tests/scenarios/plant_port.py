"""Plants the commonest faults of InfiniBand ports and adapters, as the kernel's files and log lines show
them.

In the run of Llama 3 405B (table 5 of its paper) 35 of 419 unplanned stops were network switch or cable, 7 a
host's network card; NVSentinel's and gpud's patterns name the forms. Forms of files:
Documentation/ABI/stable/sysfs-class-infiniband; of lines: mlx5_core in Linux.
"""

from __future__ import annotations

from provisioning.demo.h100 import HCAS, device_folder, hca_folder
from provisioning.demo.machine import DemoMachine
from tests.scenarios import node as scenario
from tests.scenarios.plant import files, plant, planted, without
from tests.scenarios.repair import reboot, wait


def _mend(node: DemoMachine) -> None:
    """The cable, the adapter or the setting is as it should be again, and the counters count on from where
    they are."""
    healthy = scenario.machine(node.name)
    counts = {path: text for path, text in node.files.items() if "counters/" in path}
    node.files |= {path: text
                   for path, text in healthy.files.items()
                   if "/infiniband" in path or path.startswith("/sys/devices/")}
    node.files |= counts
    node.links |= healthy.links


def _cold_boot(node: DemoMachine) -> None:
    """Powered off and on: what was reset begins at 0 again, and the log anew."""
    _mend(node)
    reboot(node)


def _day_later(node: DemoMachine) -> None:
    _mend(node)
    wait(node, 25)


def _port(node: DemoMachine, index: int, **texts: str) -> None:
    for name, text in texts.items():
        node.files[f"{hca_folder(index)}/ports/1/{name.replace('__', '/')}"] = f"{text}\n"


def _count(node: DemoMachine, index: int, counter: str, more: int) -> None:
    path = f"{hca_folder(index)}/ports/1/{counter}"
    node.files[path] = f"{int(node.files[path]) + more}\n"


def _says(node: DemoMachine, index: int, text: str, priority: int = 4) -> None:
    node.say(f"mlx5_core {HCAS[index]}: {text}", priority)


def _down(node: DemoMachine) -> None:
    _port(node, 6, state="1: DOWN", phys_state="2: Polling", rate="10 Gb/sec (4X SDR)",
          lid="0xffff", sm_lid="0x0")


plant("cable-out",
      "The cable of mlx5_2 was pulled between the looks: the link went down once, and the driver said so.",
      _mend,
      lambda node: _port(node, 2, state="1: DOWN", phys_state="3: Disabled"),
      lambda node: _count(node, 2, "counters/link_downed", 1))
plant("port-stays-down", "mlx5_6 was down at the earlier look and still is, with no loss counted in between.",
      _mend,
      _down, before=_down)
plant("no-subnet-manager",
      "The subnet manager is gone for mlx5_1: link, but no way further than INIT.", _mend,
      lambda node: _port(node, 1, state="2: INIT", sm_lid="0x0", lid="0x0"))
plant("address-lost", "mlx5_5 says that it is active, and no longer knows its subnet manager.", _mend,
      lambda node: _port(node, 5, sm_lid="0x0"))
plant("lane-lost", "mlx5_4 trained with two lanes of four, at half the rate.", _mend,
      lambda node: _port(node, 4, rate="200 Gb/sec (2X NDR)"))
plant("link-flaps", "mlx5_0 lost its link four times between the looks and is up at both.", _mend,
      lambda node: _count(node, 0, "counters/link_downed", 4))
plant("data-lost-on-the-link",
      "mlx5_3 counted two link integrity errors, and recoveries and receive errors beyond what links have.",
      _mend,
      lambda node: _count(node, 3, "counters/local_link_integrity_errors", 2),
      lambda node: _count(node, 3, "counters/link_error_recovery", 90),
      lambda node: _count(node, 3, "counters/port_rcv_errors", 9000))


@planted(_mend)
def a_healthy_fabric_at_work(node: DemoMachine) -> None:
    """Nothing is wrong: ports waited for credits and packets came out of sequence; one job's receiver was not
    ready a few times."""
    for index in range(len(HCAS)):
        _count(node, index, "counters/port_xmit_wait", 4_000_000)
        _count(node, index, "hw_counters/out_of_sequence", 70_000)
    _count(node, 2, "hw_counters/rnr_nak_retry_err", 3)


plant("symbols-lost-at-400-gbps",
      "mlx5_5 counted 60,000 symbol errors that its error correction could not repair.", _mend,
      lambda node: _count(node, 5, "counters/symbol_error", 60_000))


def _full(node: DemoMachine) -> None:
    _port(node, 2, counters__link_downed="255")


def _begun_anew(node: DemoMachine) -> None:
    """`perfquery -R` sets its counters to 0."""
    _mend(node)
    _port(node, 2, counters__link_downed="0")


plant("counter-at-its-ceiling",
      "link_downed of mlx5_2 stood at 255 at the earlier look and still does: no one sees whether its link "
      "is lost again.", _begun_anew,
      _full, before=_full)
plant("left-the-partition", "The subnet manager's partitions name mlx5_7 as a limited member only.", _mend,
      lambda node: _port(node, 7, pkeys__0="0x7fff"))
plant("no-device-for-users", "The kernel's side of mlx5_1 is well, but it has no device for programs.", _mend,
      without("/sys/class/infiniband_verbs/uverbs1/ibdev"))


@planted(_cold_boot)
def adapter_without_rdma(node: DemoMachine) -> None:
    """The adapter of mlx5_3 is on the bus and bound to its driver, but came up without its RDMA device."""
    for path in [path for path in node.files if path.startswith(f"{hca_folder(3)}/")]:
        del node.files[path]
    del node.links["/sys/class/infiniband/mlx5_3"]
    del node.links[f"{hca_folder(3)}/device"]
    for path in ("/sys/class/infiniband_verbs/uverbs3/ibdev", "/sys/class/infiniband_mad/umad3/ibdev",
                 "/sys/class/infiniband_mad/umad3/port"):
        del node.files[path]


plant("adapter-in-half-its-lanes", "The adapter of mlx5_4 trained with eight of sixteen lanes.", _cold_boot,
      files({f"{device_folder(HCAS[4])}/current_link_width": "8\n"}))
plant("adapter-a-generation-back", "The adapter of mlx5_0 trained at PCIe generation 3.", _cold_boot,
      files({f"{device_folder(HCAS[0])}/current_link_speed": "8.0 GT/s PCIe\n"}))
plant("adapter-of-other-firmware",
      "One adapter was exchanged, and the new one has older firmware.", _cold_boot,
      files({f"{hca_folder(6)}/fw_ver": "28.36.1010\n"}))
plant("adapter-of-another-board",
      "One adapter is of another board than its peers have in that slot.", _cold_boot,
      files({f"{hca_folder(2)}/board_id": "DEL0000000036\n"}))
plant("adapter-stopped-answering",
      "The firmware of mlx5_5 stopped: the driver missed its heartbeat, and a command leaked.", _cold_boot,
      lambda node: _says(node, 5,
                         "poll_health:825:(pid 0): device's health compromised - reached miss count", 3),
      lambda node: _says(node,
                         5,
                         "wait_func:1195:(pid 1967079): ACCESS_REG(0x805) timeout. Will cause a leak of a "
                         "command resource"))
plant("module-too-hot", "The transceiver of mlx5_1 is too hot.", _day_later,
      lambda node: _says(node,
                         1,
                         "mlx5_port_module_event:1131:(pid 0): Port module event[error]: module 0, Cable "
                         "error, High Temperature", 6))
plant("slot-gives-too-little-power",
      "The slot of mlx5_7 advertises less power than the card wants.", _day_later,
      lambda node: _says(node,
                         7,
                         "mlx5_pcie_event:299:(pid 268269): Detected insufficient power on the PCIe "
                         "slot (27W)."))
plant("cable-pulled-and-put-back",
      "Nothing is wrong any more: somebody moved a cable, and the driver told of both.", _day_later,
      lambda node: _says(node, 2,
                         "mlx5_port_module_event:1120:(pid 0): Port module event: module 0, Cable unplugged",
                         6),
      lambda node: _says(node, 2,
                         "mlx5_port_module_event:1120:(pid 0): Port module event: module 0, Cable plugged",
                         6))
