"""`muster fabric check` from saved outputs, and on a node whose tools print them."""

from __future__ import annotations

import json
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.subnet import plancsv
from healthcheck.subnet.cabling import CablingPlan, PlannedEnd
from healthcheck.sweep import fabricoutput
from healthcheck.sweep.rootprobes import root_probes
from tests.command import muster
from tests.documents import validate
from tests.goldens import golden
from tests.testbed import fabricoutputs
from tests.testbed.collector import collect
from tests.testbed.ibfabric import two_tiers

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def plan() -> CablingPlan:
    made = two_tiers(8, 4, 2)
    return replace(made, cables=tuple(replace(cable, speed="NDR") for cable in made.cables))


def saved(folder: Path, plan: CablingPlan, time: float,
          errors: dict[tuple[PlannedEnd, str], int] | None = None) -> Path:
    fabricoutputs.write(plan, folder, errors)
    (folder / "snapshot.json").write_text(json.dumps({"schema": "muster.fabric.snapshot/1", "time": time}))
    return folder


def run(home: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return muster("fabric", "check", *map(str, words), home=home)


def test_a_healthy_fabric_exits_0_and_says_so(tmp_path: Path, plan: CablingPlan) -> None:
    (tmp_path / "plan.csv").write_text(plancsv.write(plan))
    first, second = saved(tmp_path / "a", plan, 1000), saved(tmp_path / "b", plan, 4600)
    result = run(tmp_path, "--from", second, "--since", first, "--plan", tmp_path / "plan.csv")
    assert (result.returncode, result.stdout.splitlines()) == (0, [
        "subnet: 4 switches, 8 adapters, 12 links", "counters: what was added in 3600 s", "nothing is wrong"])


def test_without_an_earlier_sample_or_a_rate_it_is_unknown_and_exits_3(tmp_path: Path) -> None:
    result = run(tmp_path, "--from", saved(tmp_path / "a", two_tiers(2, 1, 1), 1000))
    assert result.returncode == 3 and "there is no earlier sample of counters" in result.stdout
    assert "nothing says which width and rate links should have" in result.stdout


def test_what_is_wrong_is_by_its_schema_and_as_it_was(tmp_path: Path, plan: CablingPlan) -> None:
    (tmp_path / "plan.csv").write_text(plancsv.write(plan))
    host, other = plan.cables[-1], plan.cables[-2]
    there = replace(plan, cables=(*plan.cables[:-3], replace(plan.cables[-3], speed="HDR"), other))
    first = saved(tmp_path / "a", plan, 1000)
    second = saved(tmp_path / "b", there, 4600,
                   {(other.b, "SymbolErrorCounter"): 900, (other.a, "LinkDownedCounter"): 2})
    (second
     / "ibdiagnet2.db_csv").write_text(
         "START_NODES\nNodeGUID,NodeType,NodeDesc\n0xa088c20300000000,1,gpu001 mlx5_0\nEND_NODES\n"
         "START_CABLE_INFO\n"
         "NodeGuid,PortNum,Temperature\n0xa088c20300000000,1,76C\nEND_CABLE_INFO\n")
    words = ("--from", second, "--since", first, "--plan", tmp_path / "plan.csv")
    result = run(tmp_path, *words, "--format", "json")
    document = json.loads(result.stdout)
    validate(document, "fabric-check-1")
    assert (result.returncode, document["exit"]) == (1, 1)
    golden("fabric-check.json", json.dumps(document, indent=1) + "\n")
    text = run(tmp_path, *words)
    assert host.a.device in text.stdout and len(text.stdout.splitlines()) < 20


def test_links_of_one_lot_by_the_delivery_list_are_a_finding_of_the_vendor(tmp_path: Path) -> None:
    plan = two_tiers(32, 8, 2)
    plan = replace(plan, cables=tuple(replace(cable, speed="NDR") for cable in plan.cables))
    (tmp_path / "plan.csv").write_text(plancsv.write(plan))
    hosts = [cable for cable in plan.cables if cable.a.device.startswith("gpu")]
    bad = {(cable.b, "LinkDownedCounter"): 2 for cable in hosts[:24:4]}
    first, second = saved(tmp_path / "a", plan, 1000), saved(tmp_path / "b", plan, 4600, bad)
    (adapters,) = (output.subnet().devices.values() for output in fabricoutput.saved(second))
    rows = [f"0x{one.guid},MCX75310,{'W12' if int(one.description[3:6]) % 4 == 1 else 'W20'}\n"
            for one in adapters if one.description.startswith("gpu")]
    (tmp_path / "parts.csv").write_text("guid,part,lot\n" + "".join(rows))
    words = ("--from", second, "--since", first, "--plan", tmp_path / "plan.csv")
    done = run(tmp_path, *words, "--delivery", tmp_path / "parts.csv", "--format", "json")
    document = json.loads(done.stdout)
    validate(document, "fabric-check-1")
    assert [(one["place"]["name"], one["owner"]) for one in document["findings"]
            if one["rule"] == "lot"] == [("adapter MCX75310 of W12", "vendor")]
    assert "lot" not in run(tmp_path, *words).stdout
    (tmp_path / "parts.csv").write_text("guid\n")
    wrong = run(tmp_path, *words, "--delivery", tmp_path / "parts.csv")
    assert (wrong.returncode == 2 and "parts.csv:1:1: no column is part" in wrong.stderr
            and len(wrong.stderr.splitlines()) == 1)


def test_planes_are_the_folders_in_the_folder(tmp_path: Path) -> None:
    plan = two_tiers(4, 2, 1)
    for plane in ("plane1", "plane2"):
        saved(tmp_path / "out" / plane, plan, 1000)
    result = run(tmp_path, "--from", tmp_path / "out", "--speed", "NDR", "--format", "json")
    assert [one["name"] for one in json.loads(result.stdout)["subnets"]] == ["plane1", "plane2"]


@pytest.mark.parametrize(("words", "message"), [
    ((), "give NODE, --ufm URL, --lldp NODES, or --from FOLDER"),
    (("gpu001", "--from", "x"), "give NODE, --ufm URL, --lldp NODES, or --from FOLDER"),
    (("--from", "nowhere"), "is no folder"),
    (("--from", "."), "no file in it is called"), (("gpu001", "--via", "a b"), "no name of a device"),
    (("gpu001", "--since", "x"), "--since goes with")])
def test_wrong_words_are_one_line_and_exit_2(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    result = run(tmp_path, *words)
    assert result.returncode == 2 and message in result.stderr and len(result.stderr.splitlines()) <= 3
    assert "Traceback" not in result.stderr


def test_what_the_tools_of_a_node_print_is_taken_as_the_collector_sends_it(tmp_path: Path) -> None:
    """The probes run in the collector, with programs in the tools' places; one of them is missing, and one
    ends with status 1."""
    outputs = fabricoutputs.write(two_tiers(4, 2, 1), tmp_path / "outputs")
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool, text in {"iblinkinfo": "iblinkinfo", "ibnetdiscover": "ibnetdiscover",
                       "ibqueryerrors": "ibqueryerrors", "saquery": "saquery-smir"}.items():
        path = tools / tool
        path.write_text(
            f"#!/bin/sh\ncase \"$1\" in -p) cat {outputs}/{text}-p.txt;; -s) echo IsSM ports;; *) cat "
            f"{outputs}/{text}.txt;; esac\n"
            + ("exit 1\n" if tool == "ibqueryerrors" else ""))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    recording = collect(list(fabricoutput.probes().values()), env={"PATH": f"{tools}:/bin"}, nvml=False)

    output = fabricoutput.of_recording(recording, "", fabricoutput.probes())
    subnet = output.subnet()
    assert (len(subnet.devices), len(subnet.links), subnet.partial) == (7, 6, False)
    assert subnet.counters is not None and subnet.counters.zeros
    # not there, or there and without any fabric
    assert len(subnet.unread) == 1 and subnet.unread[0].startswith("sminfo ")
    fabricoutput.save([output], tmp_path / "kept")
    (again,) = fabricoutput.saved(tmp_path / "kept")
    assert again.time == output.time and again.subnet().links == subnet.links
    assert json.loads((tmp_path / "kept/snapshot.json").read_bytes())["schema"] == "muster.fabric.snapshot/1"


def test_a_fabric_that_an_earlier_version_saved_has_its_time_and_what_is_missing(tmp_path: Path,
                                                                                 plan: CablingPlan) -> None:
    def kept(folder: Path, name: str, schema: str) -> fabricoutput.FabricOutput:
        fabricoutputs.write(plan, folder)
        (folder / name).write_text(json.dumps({"schema": schema, "time": 1000.0,
                                               "missing": ["sminfo: not installed"]}))
        (found,) = fabricoutput.saved(folder)
        return found

    former = kept(tmp_path / "former", "look.json", "muster.fabric.look/1")
    assert (former.time, former.missing) == (1000.0, ("sminfo: not installed",))
    assert former == kept(tmp_path / "new", "snapshot.json", "muster.fabric.snapshot/1")


def test_the_root_owned_helper_knows_the_probes() -> None:
    assert {probe.id for probe in fabricoutput.probes().values()} <= {probe.id for probe in root_probes()}
