"""A node of which no one said what it is becomes healthy without GPUs only where everything that was measured
says that it has none: each piece that says otherwise, or was not measured, prevents it alone."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from healthcheck.facts import driver, kernel, module
from healthcheck.facts.base import Captures
from healthcheck.facts.gpuservers import is_gpu_server
from healthcheck.facts.gpusigns import GPUS_CAPTURE, GpuSigns, gpu_signs, gpus_capture, shown_before
from healthcheck.judge.gpuless import GpuHistory, SeenNode, not_gpuless, stem
from healthcheck.model.outcome import NodeReport, NodeState
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from healthcheck.report.document import node as document_of
from healthcheck.report.table import brief
from healthcheck.sweep.assess import Assessed
from inventory.model import Node, PortPlan
from tests import packagedrules
from tests.healthcheck import machine, plainhost
from tests.healthcheck.assessing import assessed as sweep_of
from tests.healthcheck.assessing import page_of
from tests.healthcheck.plainhost import bus, names

RULES = packagedrules.RULES
KNOWN_NOTHING = GpuHistory()


def assessed(*recordings: Recording, history: GpuHistory | None = KNOWN_NOTHING,
             before: Mapping[str, Recording] | None = None,
             **declared: str) -> Assessed:
    """Each recording judged as a machine of its own; `declared` are SKUs by node."""
    nodes = [Node(seen.node, sku=declared.get(seen.node)) for seen in recordings]
    booted = [replace(seen, host=replace(seen.host or machine.HOST, boot_id=f"boot of {seen.node}"))
              for seen in recordings]
    return sweep_of(*booted, nodes=nodes, before=before, gpu_history=history)


def judged(*recordings: Recording, **more: Any) -> NodeReport:
    """The report of the first."""
    return assessed(*recordings, **more).reports[0]


def not_taken(report: NodeReport) -> str:
    """Why the node was not taken for a machine without GPUs; fails where it is healthy."""
    assert report.state is not NodeState.HEALTHY and report.sku is None
    head, _, why = report.sku_basis.partition(": ")
    assert head == "not taken for a machine without GPUs" and why
    return why


def test_a_plain_machine_is_healthy_without_a_word_of_what_it_is_and_the_report_says_on_what_that_rests(
) -> None:
    found = assessed(plainhost.recording("login1"))
    (report,) = found.reports
    assert (report.state, report.sku) == (NodeState.HEALTHY, "cpu-only")
    assert report.sku_basis == (
        "without GPUs by what it shows: no GPU on PCI, no driver of one loaded or installed, no GPU server "
        "by firmware's name "
        "(Dell Inc. PowerEdge R650), none in what is known of it and of its equals")
    assert document_of(report)["sku_basis"] == report.sku_basis
    assert (f"login1  judged as cpu-only, {report.sku_basis}. To settle it, name its SKU in the inventory "
            f"(`sku: cpu-only`)") in page_of(found, width=400)
    out = io.StringIO()
    brief(Console(file=out, width=80, soft_wrap=True, color_system=None), found)
    assert out.getvalue() == "login1  healthy    cpu-only by what it shows\n"


def test_who_has_neither_history_nor_equals_takes_no_machine_for_one_without_gpus() -> None:
    """An agent and a gate judge one node by itself: there its SKU has to be named."""
    report = judged(plainhost.recording("login1"), history=None)
    assert (report.state, report.sku, report.sku_basis) == (NodeState.UNKNOWN, None, "")


def cut(capture: Capture) -> Capture:
    return replace(capture, outcome=Outcome.TRUNCATED)


DENIED = replace(machine.done(), files={"/usr/src": FileCapture(Outcome.DENIED)})
LOADED = plainhost.files({driver.MODULE: "550.54.15\n", driver.OSRELEASE: "6.5.0-1019\n"},
                         *driver.FILES.paths)
PROC = plainhost.files({driver.PROC: "NVRM version: x\n", driver.OSRELEASE: "6.5.0-1019\n"},
                       *driver.FILES.paths)


def device(cls: str, vendor: str, slot: str) -> str:
    return f"PCI_CLASS={cls}\nPCI_ID={vendor}\nPCI_SLOT_NAME={slot}\n"


EVIDENCE: list[tuple[Mapping[str, Capture | None], str]] = [
    # the bus
    ({"gpu_pci": None}, "the PCI bus was not read"),
    ({"gpu_pci": Capture(Outcome.TIMEOUT)}, "the PCI bus was not read"),
    ({"gpu_pci": cut(bus())}, "the PCI bus was not read (there is no device, or not all of them)"),
    ({"gpu_pci": machine.done()}, "the PCI bus was not read (there is no device"),
    ({"gpu_pci": bus("PCI_CLASS=x\nPCI_ID=8086:1\n")}, "not in the kernel's format"),
    ({"gpu_pci": bus(device("68000", "10DE:22A3", "0000:07:00.0"))},
     "it has 1 NVIDIA device on PCI (10de:22a3)"),
    ({"gpu_pci": bus(device("40300", "10DE:1AEF", "0000:07:00.1"))},
     "it has 1 NVIDIA device on PCI (10de:1aef)"),
    ({"gpu_pci": bus(device("60400", "10B5:8796", "0000:07:00.0"))},
     "a PCI Express switch (10b5:8796), behind which servers have GPUs"),
    ({"gpu_pci": bus(device("60400", "1000:C030", "0000:07:00.0"))}, "a PCI Express switch (1000:c030)"),
    ({"gpu_pci": bus(*(device("20700", "15B3:1021", f"0000:{at}0:00.0") for at in range(1, 5)))},
     "4 NVIDIA network adapters"),
    # the driver
    ({"driver_module": None}, "not read: whether a driver is loaded (driver.module: "),
    ({"driver_module": machine.done()}, "/sys/module/nvidia/version was not captured"),
    ({"driver_module": LOADED}, "NVIDIA's driver is loaded (/sys/module/nvidia/version)"),
    ({"driver_module": PROC}, "NVIDIA's driver is loaded (/proc/driver/nvidia/version)"),
    ({"module_loaded": None}, "not read: the kernel's modules (module.loaded: "),
    ({"module_loaded": machine.done(**{module.PATH: "rubbish"})}, "not in the kernel's format"),
    *(({"module_loaded": machine.done(**{module.PATH: plainhost.MODULES + f"{name} 1 0 - Live 0x0\n"})},
       f"the kernel module {name} is loaded")
      for name in ("nvidia", "nouveau", "amdgpu", "habanalabs")),
    ({"gpu_installed": None}, "not read: which drivers are installed (gpu.installed: "),
    ({"gpu_installed": Capture(Outcome.TIMEOUT)}, "not read: which drivers are installed (gpu.installed: "),
    ({"gpu_installed": DENIED}, "not read: which drivers are installed (gpu.installed: "),
    ({"gpu_installed": machine.done(**{"/usr/src/nvidia-550.54.15/dkms.conf": "x"})},
     "a GPU driver's files are installed (/usr/src/nvidia-550.54.15/dkms.conf)"),
    ({"gpu_installed": replace(machine.done(), outcome=Outcome.TRUNCATED, files={
        "/lib/modules/6.5.0/updates/dkms/nvidia.ko": FileCapture(Outcome.TRUNCATED, "x")})}, "nvidia.ko"),
    # the firmware
    ({"host_firmware": None}, "firmware gives the machine no name (DMI)"),
    ({"host_firmware": names(None)}, "firmware gives the machine no name (DMI)"),
    ({"host_firmware": names("To Be Filled By O.E.M.")}, "firmware gives the machine no name (DMI)"),
    ({"host_firmware": names("PowerEdge XE9680")},
     "firmware calls it PowerEdge XE9680, which is built for GPUs"),
    ({"host_firmware": names("Default string", board_name="DGXH100")}, "firmware calls it DGXH100"),
    # what can only say yes
    ({"service_units": Capture(Outcome.DONE, exit=0,
                               text="nvidia-persistenced.service loaded inactive dead NVIDIA\n")},
     "systemd has nvidia-persistenced.service"),
    ({"kernel_log": machine.done(
        **{kernel.KMSG: plainhost.LOG + "6,9,9,-;pci 0000:18:00.0: [10de:2330] type 00 class 0x030200\n"})},
     "the kernel log names a GPU (pci 0000:18:00.0: [10de:2330])"),
    ({"kernel_log": machine.done(
        **{kernel.KMSG: plainhost.LOG + "3,9,9,-;NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.\n"})},
     "the kernel log names a GPU (NVRM:)"),
]


@pytest.mark.parametrize(("changes", "why"), EVIDENCE,
                         ids=lambda value: value[:60] if isinstance(value, str) else "")
def test_one_piece_that_speaks_against_it_or_was_not_measured_prevents_it(
        changes: Mapping[str, Capture | None], why: str) -> None:
    found = assessed(plainhost.recording("login1", **changes))
    assert why in not_taken(found.reports[0])
    assert (f"login1  {found.reports[0].sku_basis}. If it is to have none: `sku: cpu-only` in the inventory, "
            f"or --sku cpu-only") in page_of(found, width=400)
    assert "This looks like cpu-only" not in page_of(found, width=400)


@pytest.mark.parametrize("found", [
    device("30200", "10DE:2330", "0000:18:00.0"), device("30000", "10DE:1EB8", "0000:18:00.0"),
    device("120000", "1002:74A1", "0000:18:00.0"),
    device("38000", "1002:740C", "0000:18:00.0"), device("30000", "1002:744C", "0000:18:00.0"),
    device("38000", "8086:0BD5", "0000:18:00.0"),
    device("30000", "8086:56C0", "0000:18:00.0"), device("120000", "1DA3:1060", "0000:18:00.0")])
def test_a_gpu_or_accelerator_of_any_maker_is_no_machine_without(found: str) -> None:
    report = judged(plainhost.recording("login1", gpu_pci=bus(found)))
    assert report.sku is None and report.state is not NodeState.HEALTHY
    assert ("it has 1 GPU on PCI" in report.sku_basis) is ("10DE" not in found)


@pytest.mark.parametrize("found", [
    device("30000", "8086:4680", "0000:00:02.0"), device("38000", "1AF4:1050", "0000:01:00.0"),
    device("30000", "1A03:2000", "0000:02:00.0"),
    device("60400", "8086:347A", "0000:07:00.0"), device("20000", "15B3:1015", "0000:07:00.0"),
    device("B4000", "8086:4940", "0000:08:00.0")])
def test_displays_bridges_and_adapters_of_plain_machines_are_no_gpus(found: str) -> None:
    assert judged(plainhost.recording("login1", gpu_pci=bus(found))).state is NodeState.HEALTHY


def test_the_name_of_a_gpu_node_speaks_against_it() -> None:
    for name in ("gpu017", "dgx-3", "hgx1", "h100-07"):
        assert not_taken(judged(plainhost.recording(name))) == "its name is one of a GPU node"


def fallen(node: str = "node017", **more: Capture | None) -> Recording:
    """A host whose eight GPUs have left the bus and that was installed anew without driver: it shows what a
    plain machine shows."""
    return plainhost.recording(node, **{"host_firmware": names("S7", "Some Maker"), **more})


def equal(node: str) -> Recording:
    return machine.recording(node, host_firmware=names("S7", "Some Maker"), gpu_installed=machine.done())


def test_a_host_whose_gpus_left_the_bus_is_not_healthy_while_its_driver_is_there() -> None:
    seen = machine.recording("node017", gpu_pci=machine.pci(0), gpu_nvml=plainhost.NONE,
                             gpu_installed=machine.done())
    assert "loaded" in not_taken(judged(seen))


def test_a_host_whose_gpus_left_the_bus_is_not_healthy_while_its_equals_by_name_or_firmware_have_them(
) -> None:
    other = replace(equal("node018"), captures={**equal("node018").captures, "host.firmware": names()})
    for found, which in ((other, "by name) node018"),
                         (equal("rack7-3"), "by firmware, Some Maker S7) rack7-3")):
        assert not_taken(judged(fallen(),
                                found)) == f"of its equals ({which}: it has 8 GPUs on PCI (10de:2330)"


def test_an_equal_that_was_declared_to_have_gpus_speaks_even_where_it_did_not_answer() -> None:
    nodes = [Node("node017"), Node("node018", sku="hgx-h100")]
    found = sweep_of(fallen(), nodes=nodes, gpu_history=KNOWN_NOTHING)
    assert (not_taken(found.reports[0])
            == "of its equals (by name) node018: the SKU that is named for it has GPUs")


@pytest.mark.parametrize(("history", "why"), [
    (GpuHistory({"node018": "the inventory names the SKU hgx-h100 for it"}),
     "of its equals (by name) node018: the inventory names the SKU hgx-h100 for it"),
    (GpuHistory({"node017": "the store has serial numbers of its GPUs"}),
     "the store has serial numbers of its GPUs"),
    (GpuHistory(unread="the store was not read"), "the store was not read")])
def test_the_inventory_and_the_store_speak_for_it_and_its_equals_and_one_that_was_not_read_proves_nothing(
        history: GpuHistory, why: str) -> None:
    assert not_taken(judged(fallen(), history=history)) == why


def test_a_node_alone_of_its_equals_is_not_judged_by_what_they_might_have() -> None:
    history = GpuHistory(undeclared=frozenset({"node017", "node018", "node019"}))
    assert (not_taken(judged(fallen(), history=history))
            == "of its equals (by name) node[018-019] none answered in this sweep")
    assert judged(fallen(), fallen("node018"), history=history).state is NodeState.HEALTHY
    # Every other one of so many that no words for them are short: the line is cut.
    many = GpuHistory(undeclared=frozenset(f"node{number:03}" for number in range(17, 400, 2)))
    words = not_taken(judged(fallen(), history=many))
    others = words.removeprefix("of its equals (by name) ").removesuffix(" none answered in this sweep")
    assert len(others) == 200 and others.startswith("node[019,021,")


def test_only_who_is_not_declared_is_an_equal_whose_silence_leaves_open_what_it_has() -> None:
    for sku, healthy in ((None, False), ("cpu-only", True)):
        nodes = [Node("node017"), Node("node018", sku=sku)]
        (report, _) = sweep_of(fallen(), nodes=nodes, gpu_history=KNOWN_NOTHING).reports
        if healthy:
            assert report.state is NodeState.HEALTHY
        else:
            assert not_taken(report) == "of its equals (by name) node018 none answered in this sweep"


def test_a_machine_that_was_declared_to_have_no_gpus_does_not_speak_for_them_by_a_driver_that_is_installed(
) -> None:
    installed = machine.done(**{"/usr/src/nvidia-550.54.15/dkms.conf": "x"})
    assert judged(fallen(), fallen("node018", gpu_installed=installed),
                  node018="cpu-only").state is NodeState.HEALTHY


def test_a_host_whose_gpus_left_the_bus_is_not_healthy_where_an_earlier_snapshot_showed_them() -> None:
    assert (not_taken(judged(fallen(), before={"node017": equal("node017")}))
            == "an earlier snapshot of it had 8 GPUs on PCI (10de:2330)")


def test_no_later_snapshot_forgets_that_a_node_had_gpus() -> None:
    first, then = equal("node017"), fallen()
    kept = gpus_capture(first, None)
    assert kept is not None
    for _ in range(5):
        kept = gpus_capture(then, replace(then, captures={**then.captures, GPUS_CAPTURE: kept}))
        assert kept is not None and kept.text == "8 GPUs on PCI (10de:2330)"
    assert not_taken(judged(then, before={"node017": replace(then, captures={GPUS_CAPTURE: kept})}))
    assert gpus_capture(then, then) is None and shown_before(then) == ""


def test_a_machine_that_had_gpus_under_another_name_is_known_by_its_identity() -> None:
    seen = fallen(host_firmware=names("S7", "Some Maker", product_serial="C0FFEE"))
    (own,) = [one for one in gpu_signs(Captures(seen)).identities if one.startswith("chassis=")]
    assert judged(seen,
                  history=GpuHistory(machines={"chassis=another": "old-name"})).state is NodeState.HEALTHY
    assert (not_taken(judged(seen, history=GpuHistory(machines={own: "old-name"})))
            == "this machine had GPUs as old-name")


@pytest.mark.parametrize("node", [Node("node017", nvlink_domain="nvl1"),
                                  Node("node017", ports={"0000:18:00.0": PortPlan(rail=0)})])
def test_a_place_among_gpus_in_the_inventory_is_no_machine_without(node: Node) -> None:
    found = sweep_of(fallen(), nodes=[node], gpu_history=KNOWN_NOTHING)
    assert "the inventory gives" in not_taken(found.reports[0])


def test_many_hosts_whose_gpus_all_left_the_bus_do_not_vouch_for_each_other() -> None:
    seen = [machine.recording(f"node{n}", gpu_pci=machine.pci(0), gpu_nvml=plainhost.NONE,
                              gpu_installed=machine.done()) for n in range(5)]
    assert {report.state for report in assessed(*seen).reports} == {NodeState.UNKNOWN}
    assert {report.state for report in assessed(*seen, history=None).reports} == {NodeState.UNKNOWN}


def test_plain_machines_beside_gpu_nodes_are_judged_by_themselves() -> None:
    found = assessed(*(equal(f"gpu{n}") for n in range(3)),
                     *(plainhost.recording(f"login{n}") for n in range(2)))
    assert [(report.sku, report.state)
            for report in found.reports[3:]] == [("cpu-only", NodeState.HEALTHY)] * 2
    assert found.provisional is not None and found.provisional.numbers["gpu_count"] == 8
    assert all(report.sku is None and not report.sku_basis for report in found.reports[:3])


def test_what_is_wrong_on_a_plain_machine_is_still_found() -> None:
    blind = judged(plainhost.recording("login1", host_memory=Capture(Outcome.TIMEOUT)))
    assert (blind.state, blind.sku) == (NodeState.UNKNOWN, "cpu-only")


def test_equals_of_which_one_lost_its_rdma_adapter_are_not_all_healthy() -> None:
    """No one declared that they have none either."""
    ports = {"port_sysfs": machine.ports(2), "port_counters": machine.counters(2),
             "hca_sysfs": machine.hcas(2)}
    found = assessed(*(plainhost.recording(f"io{n}", **ports) for n in range(3)), plainhost.recording("io3"))
    counts = [{result.rule: result for result in report.results}["port-count"].status.value
              for report in found.reports]
    assert (counts[:3] == ["pass"] * 3 and counts[3] != "pass"
            and found.reports[3].state is not NodeState.HEALTHY)


def test_names_of_machines_that_are_built_for_gpus_are_known_and_others_are_not_taken_for_them() -> None:
    for name in ("DGXH100", "DGX B200", "PowerEdge XE9680", "PowerEdge XE8545", "ProLiant XL675d Gen10 Plus",
                 "HPE Cray XD670",
                 "ThinkSystem SR675 V3", "ThinkSystem SR680a V3", "SYS-821GE-TNHR", "AS -8125GS-TNHR",
                 "SYS-4029GP-TRT", "ARS-111GL-NHR",
                 "ESC8000A-E12", "G593-SD0-AAX1-000", "NF5688M6", "QuantaGrid D74H-7U", "UCSC-885A-M8",
                 "p5.48xlarge", "g4dn.xlarge"):
        assert is_gpu_server(name), name
    for name in ("PowerEdge R650", "ProLiant DL380 Gen11", "ThinkSystem SR650 V3", "SYS-620U-TNR",
                 "SYS-6029P-TR", "AS -1114S-WN10RT",
                 "Standard PC (Q35 + ICH9, 2009)", "Google Compute Engine", "VMware7,1", "Virtual Machine",
                 "m5.large", "c7g.large",
                 "X11DPH-T", "UCSC-C220-M5SX", "R272-Z32-00", "NF5280M5", "H110M", "B550 AORUS"):
        assert not is_gpu_server(name), name


SIGNS = st.builds(GpuSigns, st.lists(st.sampled_from(["a sign", "another"]), max_size=1).map(tuple),
                  st.lists(st.just("unread"), max_size=1).map(tuple), st.booleans(),
                  st.sampled_from(["", "A", "B"]),
                  st.sets(st.sampled_from(["machine=1", "machine=2"]), max_size=1).map(tuple))
SEEN = st.builds(SeenNode, st.none() | SIGNS, st.sampled_from(["", "8 GPUs"]),
                 st.sampled_from([None, True, False]), st.sampled_from(["", "a place"]))
NAMES = st.sampled_from(["login1", "login2", "node1", "node2.site", "node3", "10.0.0.1", "10.0.0.2", "gpu1"])


@given(st.dictionaries(NAMES, SEEN, max_size=6), st.dictionaries(NAMES, st.just("known"), max_size=2),
       st.dictionaries(st.sampled_from(["machine=1"]), st.just("old"), max_size=1),
       st.sets(NAMES, max_size=3), st.sampled_from(["", "unread"]))
def test_whoever_is_taken_has_nothing_against_it_wherever_that_is_written(
    nodes: dict[str, SeenNode], known: dict[str, str], machines: dict[str, str],
    undeclared: set[str], unread: str,
) -> None:
    found = not_gpuless(nodes, GpuHistory(known, machines, frozenset(undeclared), unread))
    assert set(found) == {name for name, node in nodes.items() if node.sku is None and node.signs is not None}
    for name in (name for name, why in found.items() if not why):
        node = nodes[name]
        assert node.signs is not None and not (node.signs.signs or node.signs.unread or node.before
                                               or node.place or unread)
        assert name not in known and "gpu" not in name and machines.keys().isdisjoint(node.signs.identities)
        for other, seen in nodes.items():
            if seen.sku is False:
                continue
            speaks = bool(seen.sku or seen.before or seen.place or other in known
                          or (seen.signs is not None and seen.signs.signs))
            by_name = stem(other) == stem(name) != ""
            by_firmware = seen.signs is not None and seen.signs.machine == node.signs.machine != ""
            assert not (speaks and (by_name or by_firmware))
        assert not any(stem(other) == stem(name) != "" for other in known)
