"""Plants faults of PCI Express settings, as registers of configuration spaces, and adapters that sit beside
the wrong socket.

ACS is what comes back with every boot after firmware or kernel switched an IOMMU on (NVIDIA NCCL user guide,
Troubleshooting); read requests and payloads are what a BIOS update or pci=pcie_bus_perf changes
(drivers/pci/probe.c).
"""

from __future__ import annotations

from provisioning.demo.h100 import GPUS, HCAS, device_folder
from provisioning.demo.machine import DemoMachine
from tests.scenarios import node as scenario
from tests.scenarios.plant import files, plant, planted

_CONTROL, _ACS = 0x68, 0x156    # of the demo's spaces: Device Control, ACS Control


def _mend(node: DemoMachine) -> None:
    """Registers and places are as on the healthy node again."""
    healthy = scenario.machine(node.name)
    node.blobs |= healthy.blobs
    node.files |= {path: text for path, text in healthy.files.items() if path.endswith("/numa_node")}


def _write(node: DemoMachine, folder: str, at: int, value: int) -> None:
    path = f"{folder}/config"
    node.blobs[path] = node.blobs[path][:at] + value.to_bytes(2, "little") + node.blobs[path][at + 2:]


def _port_above(address: str) -> str:
    return device_folder(address).rpartition("/")[0]


@planted(_mend)
def acs_on_everywhere(node: DemoMachine) -> None:
    """The kernel found an IOMMU at the last boot: every port of every switch redirects."""
    for address in (*GPUS, *HCAS):
        _write(node, _port_above(address), _ACS, 0x001D)


plant("acs-on-one-port",
      "A script that switches ACS off after each boot left out the port above GPU 2.", _mend,
      lambda node: _write(node, _port_above(GPUS[2]), _ACS, 0x000C))


@planted(_mend)
def read_requests_small(node: DemoMachine) -> None:
    """The node was booted with pci=pcie_bus_perf on a board that allows payloads of 256 bytes: adapters read
    as little with one request."""
    for address in HCAS:
        _write(node, device_folder(address), _CONTROL, 0x115F)


plant("read-requests-unlike-the-fleets",
      "After an exchange of the adapter, rail 5 has what devices have by default, and not what the fleet's "
      "firmware sets.", _mend,
      lambda node: _write(node, device_folder(HCAS[5]), _CONTROL, 0x215F))


@planted(_mend)
def relaxed_ordering_off(node: DemoMachine) -> None:
    """A BIOS update switched PCIe Relaxed Ordering off for every slot."""
    for address in HCAS:
        _write(node, device_folder(address), _CONTROL, 0x514F)


plant("payload-does-not-fit",
      "GPU 6 came back from a reset with payloads of 128 bytes; the port above it has 512.", _mend,
      lambda node: _write(node, device_folder(GPUS[6]), _CONTROL, 0x510F))
plant("adapter-beside-the-wrong-socket",
      "The adapter of rail 3 was put into a slot of the other socket.", _mend,
      files({f"{device_folder(HCAS[3])}/numa_node": "1\n"}))
