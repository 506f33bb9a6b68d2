"""`muster fabric check`, `diff` and `map` ask nodes over SSH: infiniband-diags on one that sees the fabric,
lldpd on each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from healthcheck.subnet import plancsv
from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedDevice, PlannedEnd, Tier
from provisioning.demo.fleet import DemoFleet
from tests.command import muster
from tests.testbed import fabricoutputs
from tests.testbed.ibfabric import two_tiers
from tests.testbed.memory import base_in_memory
from tests.testbed.planted import executable
from tests.testbed.require import require_fleet

PLAN = two_tiers(4, 2, 1)
TOOLS = {"iblinkinfo": "iblinkinfo", "ibnetdiscover": "ibnetdiscover", "ibqueryerrors": "ibqueryerrors",
         "saquery": "saquery-smir"}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoFleet]:
    require_fleet()
    with DemoFleet(base=base_in_memory(tmp_path_factory.mktemp("fleet")),
                   planted={"gpu001": [], "gpu002": []}) as running:
        yield running


def tool(fleet: DemoFleet, node: str, name: str, script: str) -> None:
    executable(fleet.folder / node / "tree" / "usr/bin" / name, f"#!/bin/sh\n{script}\n")


def run(fleet: DemoFleet, home: Path, *words: str) -> CompletedProcess[str]:
    return muster("fabric", *words, "--inventory", str(fleet.inventory), home=home)


def infiniband(fleet: DemoFleet, folder: Path, plan: CablingPlan) -> None:
    """gpu001 has infiniband-diags that show this plan's fabric."""
    outputs = fabricoutputs.write(plan, folder)
    for name, file in TOOLS.items():
        tool(fleet, "gpu001",
             name,
             f"case \"$*\" in -p) cat {outputs}/{file}-p.txt;; -s) echo IsSM ports;; --counters) cat "
             f"{outputs}/{file}-data.txt;; "
                                    f"*) cat {outputs}/{file}.txt;; esac")
    tool(fleet, "gpu001",
         "sminfo",
         "echo 'sminfo: sm lid 5 sm guid 0xa088c20300000001, activity count 9 priority 5 state 3 "
         "SMINFO_MASTER'")


def test_a_node_that_sees_the_fabric_is_asked_by_check_diff_and_map(fleet: DemoFleet, tmp_path: Path) -> None:
    one, other = (cable for cable in PLAN.cables if cable.a.device in ("gpu001", "gpu003"))
    swapped = replace(PLAN, cables=tuple(replace(cable, b=other.b) if cable == one
                                         else replace(cable, b=one.b) if cable == other else cable
                                         for cable in PLAN.cables))
    infiniband(fleet, tmp_path / "outputs", swapped)
    (tmp_path / "plan.csv").write_text(plancsv.write(PLAN))
    compared = run(fleet, tmp_path, "diff", "gpu001", "--plan", "plan.csv", "--format", "json")
    assert compared.returncode == 1, compared.stderr
    assert [found["kind"] for found in json.loads(compared.stdout)["differences"]] == ["swapped"]
    drawn = run(fleet, tmp_path, "map", "gpu001", "--plan", "plan.csv", "--format", "json")
    assert (sorted(link["state"] for link in json.loads(drawn.stdout)["links"]).count("wrong") == 2
            and drawn.returncode == 0)
    checked = run(fleet, tmp_path, "check", "gpu001", "--plan", "plan.csv", "--save", "kept",
                  "--format", "json")
    assert {found["rule"] for found in json.loads(checked.stdout)["findings"]
            if found["status"] == "fail"} == {"cable"}, checked.stderr
    again = run(fleet, tmp_path, "diff", "--from", "kept", "--plan", "plan.csv", "--format", "json")
    assert json.loads(again.stdout)["differences"] == json.loads(compared.stdout)["differences"]


def neighbour(interface: str, leaf: str, port: str) -> dict[str, object]:
    return {"name": interface, "chassis": [{"id": [{"type": "mac", "value": f"02:00:00:00:00:0{leaf[-1]}"}],
                                            "name": [{"value": leaf}],
                                            "capability": [{"type": "Bridge", "enabled": True}]}],
            "port": [{"id": [{"type": "ifname", "value": port}]}]}


def test_lldpd_on_each_node_is_asked_and_a_node_without_it_is_unknown(fleet: DemoFleet,
                                                                      tmp_path: Path) -> None:
    interfaces = {name: sorted(path.name
                               for path in (fleet.folder / name / "tree" / "sys/class/net").glob("en*"))[:1]
                  for name in ("gpu001", "gpu002")}
    pci = {name: (fleet.folder / name / "tree/sys/class/net" / those[0] / "device").resolve().name
           for name, those in interfaces.items()}
    devices = {"gpu001": PlannedDevice("gpu001", Tier.HOST), "gpu002": PlannedDevice("gpu002", Tier.HOST),
               "leaf01": PlannedDevice("leaf01", Tier.LEAF)}
    cables = tuple(PlannedCable(PlannedEnd(name, pci[name]), PlannedEnd("leaf01", str(at)))
                   for at, name in enumerate(interfaces, 1))
    (tmp_path / "plan.csv").write_text(plancsv.write(CablingPlan(devices, cables)))
    for name, port in (("gpu001", "Ethernet1"), ("gpu002", "Ethernet7")):
        said = json.dumps({"lldp": [{"interface": [neighbour(interfaces[name][0], "leaf01", port)]}]})
        tool(fleet, name, "lldpctl", f"cat <<'END'\n{said}\nEND")
    words = ("--lldp", "gpu[001-002]", "--plan", "plan.csv", "--format", "json")
    checked = json.loads(run(fleet, tmp_path, "check", *words).stdout)
    assert ([(found["rule"], found["place"]["name"]) for found in checked["findings"]
             if found["status"] == "fail"] == [("cable", "gpu002 " + pci["gpu002"])] or \
        [(found["rule"], found["observed"]) for found in checked["findings"] if found["status"] == "fail"]
        == [("cable", "its cable leads to leaf01 port Ethernet7")])
    compared = run(fleet, tmp_path, "diff", *words)
    assert compared.returncode == 1 and len(json.loads(compared.stdout)["differences"]) == 1, compared.stdout
    tool(fleet, "gpu002", "lldpctl", "echo no daemon >&2; exit 1")
    unknown = json.loads(run(fleet, tmp_path, "check", *words).stdout)
    assert not [found for found in unknown["findings"] if found["status"] == "fail"] and unknown["exit"] == 3
    assert any(found["observed"].startswith("gpu002: ") for found in unknown["findings"])
    assert [found["kind"] for found in json.loads(run(fleet, tmp_path, "diff",
                                                      *words).stdout)["differences"]] == ["unknown"]
    tool(fleet, "gpu001", "lldpctl", "exit 1")
    none = run(fleet, tmp_path, "map", *words)
    assert (none.returncode == 2 and "no node tells its neighbours" in none.stderr
            and len(none.stderr.splitlines()) == 1)
