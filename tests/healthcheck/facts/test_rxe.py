"""The port facts from the files of a real kernel: soft RoCE in a virtual machine
(tests/recordings/rdma-rxe)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.values import UNSUPPORTED, Unmeasured, reading
from healthcheck.model.recording import from_json
from healthcheck.ruleset import plugins

RECORDING = Path(__file__).resolve().parents[2] / "recordings" / "rdma-rxe" / "recording.json"
plugins.load()
CAPTURES = Captures(from_json(json.loads(RECORDING.read_text())))


def fact(name: str) -> Any:
    return build_fact(FACTS[name], CAPTURES)


def test_a_port_of_a_real_kernel_is_read_whole() -> None:
    (port,) = fact("ports")
    assert (port.device, port.number, port.state, port.phys_state) == ("rxe0", 1, "ACTIVE", "LinkUp")
    assert (port.rate_gbps, port.lanes, port.link_layer, port.lid,
            port.keys) == (2.5, 1, "Ethernet", 0, (0xFFFF,))
    assert port.gids and isinstance(reading(port, "pci"), Unmeasured)


def test_a_driver_without_counters_has_none_and_not_none_at_zero() -> None:
    (port,) = fact("ports")
    assert reading(port, "link_downed") is UNSUPPORTED


def test_an_address_that_routes_is_found_among_entries_that_answer_einval() -> None:
    (port,) = fact("roce_ports")
    assert (port.active, port.routable) == (True, True)


def test_virtual_interfaces_are_no_ones_cables() -> None:
    found = fact("netdevs")
    assert ([interface.name for interface in found] == ["Ethernet interfaces"]
            and reading(found[0], "link") is UNSUPPORTED)
